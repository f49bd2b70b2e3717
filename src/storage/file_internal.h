/* The interface between file.c, path.c, posix.c and settle.c. Any thread may call. */
#ifndef DP_STORAGE_FILE_INTERNAL_H
#define DP_STORAGE_FILE_INTERNAL_H

#include "storage/file.h"

extern const dp_file_system_ops dp_posix_file_system;

/* Checks that the path is under the roots and finds the functions of its scheme. */
DP_MUST_USE dp_status *dp_file_system_of(const char *path, const dp_file_system_ops **ops_out);
/* Syncs the folder of `path`; does nothing for a file system that does not need it. */
void dp_path_sync_folder(const char *path);
/* The plain path in a plain or file:// path. */
const char *dp_posix_path(const char *path);

/* ---- Settling (settle.c) ---- */
/* Whether one more file may wait for the settling thread; if not, its writer must sync it. */
bool dp_settle_has_room(void);
/* Consumes a renamed file: the settling thread syncs and closes it. */
void dp_settle_later(dp_file *file);
/* The first failure to sync since the last call, which the next commit returns; or NULL. */
DP_MUST_USE dp_status *dp_settle_take_failure(void);

#endif
