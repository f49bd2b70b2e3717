/* The kernel families. A family's file ends in a table and says so:
 *
 *   static const dp_kernel rows[] = {{.op = "Neg", .compute = negate, ...}, ...};
 *   DP_KERNEL_FAMILY(math_unary, rows);
 *
 * That line, at the beginning of a line of its own, is all it takes: the build finds it. */
#ifndef DP_KERNELS_FAMILIES_INTERNAL_H
#define DP_KERNELS_FAMILIES_INTERNAL_H

#include "runtime/kernel.h"

typedef struct dp_kernel_family {
  const char *name;
  const dp_kernel *rows;
  size_t count;
} dp_kernel_family;

/* DP_KERNEL_FAMILIES(X), made from the sources by list_families.sh. */
#include "kernels/families.inc"

#define DP_KERNEL_FAMILY_DECLARE(name) extern const dp_kernel_family dp_kernel_family_##name;
DP_KERNEL_FAMILIES(DP_KERNEL_FAMILY_DECLARE)
#undef DP_KERNEL_FAMILY_DECLARE

/* Publishes a file's table under the family's name. */
#define DP_KERNEL_FAMILY(family, table)                                                            \
  const dp_kernel_family dp_kernel_family_##family = {#family, table,                              \
                                                      sizeof(table) / sizeof((table)[0])}

#endif
