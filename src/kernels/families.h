/* The names of all kernel families: the registry (families.c) uses all of them, unit tests and
 * benchmarks may use a few. The build makes the list from the sources with list_families.sh, so
 * nobody maintains it by hand. */
#ifndef DP_KERNELS_FAMILIES_H
#define DP_KERNELS_FAMILIES_H

#include "kernels/shared/family.h"

/* defines DP_KERNEL_FAMILIES(X) */
#include "kernels/families.inc"

#define DP_KERNEL_FAMILY_DECLARE(name) extern const dp_kernel_family dp_kernel_family_##name;
DP_KERNEL_FAMILIES(DP_KERNEL_FAMILY_DECLARE)
#undef DP_KERNEL_FAMILY_DECLARE

#endif
