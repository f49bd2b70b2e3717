/* Registers all kernels and all variant types, once per process. The tables of the families
 * (families.h) go to the runtime's registry. The types of variants that can arrive over the wire go
 * to the registry of the tensor room. */
#include "kernels/kernels.h"

#include <pthread.h>
#include "kernels/data/data.h"
#include "kernels/families.h"
#include "kernels/lists/lists.h"
#include "kernels/shared/number_variant.h"
#include "kernels/shared/ragged.h"
#include "kernels/shared/tensor_variant.h"
#include "kernels/sparse/csr.h"

#define FAMILY_ADDRESS(name) &dp_kernel_family_##name,
static const dp_kernel_family *const families[] = {DP_KERNEL_FAMILIES(FAMILY_ADDRESS) NULL};
#undef FAMILY_ADDRESS

static void register_all(void) {
  for (size_t i = 0; families[i]; ++i)
    dp_kernel_register(families[i]->rows, families[i]->count);
  dp_variant_register(&dp_csr_ops);
  dp_variant_register(&dp_iterator_state_ops);
  dp_variant_register(&dp_list_ops);
  dp_number_variants_register();
  dp_variant_register(&dp_ragged_ops);
  dp_variant_register(&dp_tensor_map_ops);
  dp_variant_register(&dp_tensor_variant_ops);
}

void dp_kernels_register(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, register_all);
}

void dp_kernels_settle(void) {
  dp_iterators_settle();
}
