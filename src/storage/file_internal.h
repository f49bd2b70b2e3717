/* What file.c, path.c and posix.c tell each other. */
#ifndef DP_STORAGE_FILE_INTERNAL_H
#define DP_STORAGE_FILE_INTERNAL_H

#include "storage/file.h"

extern const dp_file_system_ops dp_posix_file_system;

/* The table for a path's scheme, after the check of the roots. */
DP_MUST_USE dp_status *dp_file_system_of(const char *path, const dp_file_system_ops **ops_out);
/* Plain path of a plain or file:// path. */
const char *dp_posix_path(const char *path);

#endif
