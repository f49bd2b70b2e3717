/* Files that a fuzzer makes of its input, under the scheme mem://, so that the readers of files run
 * thousands of times a second. One thread. */
#ifndef DP_FUZZ_MEMORY_FILES_H
#define DP_FUZZ_MEMORY_FILES_H

#include "base/text.h"

/* A file with these bytes, which are borrowed until it is set again. `path` is a constant. */
void memory_file_set(const char *path, dp_view bytes);

#endif
