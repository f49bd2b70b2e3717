/* What makes a file a kernel family: it ends in a table and a line that names it.
 *
 *   static const dp_kernel rows[] = {{.op = "Neg", .compute = negate, ...}, ...};
 *   DP_KERNEL_FAMILY(math_unary, rows);
 *
 * The build searches the sources for lines that begin with DP_KERNEL_FAMILY, so nothing else has to
 * be edited. */
#ifndef DP_KERNELS_SHARED_FAMILY_H
#define DP_KERNELS_SHARED_FAMILY_H

#include "runtime/kernel.h"

typedef struct dp_kernel_family {
  const char *name;
  const dp_kernel *rows;
  size_t count;
} dp_kernel_family;

/* Publishes a file's table under the family's name. */
#define DP_KERNEL_FAMILY(family, table)                                                            \
  const dp_kernel_family dp_kernel_family_##family = {#family, table,                              \
                                                      sizeof(table) / sizeof((table)[0])}

#endif
