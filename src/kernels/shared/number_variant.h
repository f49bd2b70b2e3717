/* Variants that hold one plain number, as TensorFlow has them for int, float, double and bool. They
 * come from a client, in a Const or a feed. Any thread. */
#ifndef DP_KERNELS_SHARED_NUMBER_VARIANT_H
#define DP_KERNELS_SHARED_NUMBER_VARIANT_H

/* Makes the four types known to the wire. */
void dp_number_variants_register(void);

#endif
