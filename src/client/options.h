/* Reading a struct of options that a program passed, for public functions dp_f_with_options.
 *
 * The program may have been compiled with an older header, whose struct has fewer fields, or with a
 * newer one. Its first field, options_size, tells. */
#ifndef DP_CLIENT_OPTIONS_H
#define DP_CLIENT_OPTIONS_H

#include <stddef.h>
#include "base/status.h"

/* Copies the fields of `given` over those of `ours`, a struct of `size` bytes that holds the
 * defaults. NULL gives nothing. INVALID_ARGUMENT, naming `function`, when options_size is missing.
 */
DP_MUST_USE dp_status *dp_client_options_read(const char *function, const void *given, void *ours,
                                              size_t size);

#endif
