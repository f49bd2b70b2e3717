/* Hands the tables of all families to the runtime's registry, and the types of variants that can
 * come from the wire to the tensor room's, once in the life of the process.
 * Which families there are is said in families_internal.h. */
#include "kernels/kernels.h"

#include <pthread.h>
#include "kernels/sparse/csr_internal.h"
#include "kernels/shared/family.h"
#include "kernels/iterator_checkpoint_internal.h"
#include "kernels/shared/ragged.h"
#include "kernels/lists/tensor_list_internal.h"
#include "kernels/tensor_map_internal.h"
#include "kernels/shared/tensor_variant.h"

#define FAMILY_ADDRESS(name) &dp_kernel_family_##name,
static const dp_kernel_family *const families[] = {DP_KERNEL_FAMILIES(FAMILY_ADDRESS) NULL};
#undef FAMILY_ADDRESS

static void register_all(void) {
  for (size_t i = 0; families[i]; ++i)
    dp_kernel_register(families[i]->rows, families[i]->count);
  dp_variant_register(&dp_csr_ops);
  dp_variant_register(&dp_iterator_state_ops);
  dp_variant_register(&dp_list_ops);
  dp_variant_register(&dp_ragged_ops);
  dp_variant_register(&dp_tensor_map_ops);
  dp_variant_register(&dp_tensor_variant_ops);
}

void dp_kernels_register(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, register_all);
}
