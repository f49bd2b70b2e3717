/* What file.c, path.c, posix.c and settle.c tell each other. */
#ifndef DP_STORAGE_FILE_INTERNAL_H
#define DP_STORAGE_FILE_INTERNAL_H

#include "storage/file.h"

extern const dp_file_system_ops dp_posix_file_system;

/* The table for a path's scheme, after the check of the roots. */
DP_MUST_USE dp_status *dp_file_system_of(const char *path, const dp_file_system_ops **ops_out);
/* Makes a new name last; does nothing where names need no such thing. */
void dp_path_sync_folder(const char *path);
/* Plain path of a plain or file:// path. */
const char *dp_posix_path(const char *path);

/* ---- Settling (settle.c) ---- */
/* Whether a file may wait; if not, its writer syncs it. */
bool dp_settle_has_room(void);
/* Takes a renamed file, to sync and close it. */
void dp_settle_later(dp_file *file);
/* What went wrong since the last call, for whoever writes next. */
DP_MUST_USE dp_status *dp_settle_take_failure(void);

#endif
