/* Files in memory, under the scheme mem://. A fuzzer makes them from its input, so that readers of
 * files run thousands of times per second without a disk. One thread. */
#ifndef DP_FUZZ_MEMORY_FILES_H
#define DP_FUZZ_MEMORY_FILES_H

#include "base/text.h"

/* Makes or replaces a file. `bytes` are borrowed until the path is set again, `path` for ever. */
void memory_file_set(const char *path, dp_view bytes);

#endif
