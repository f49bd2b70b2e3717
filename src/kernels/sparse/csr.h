/* The type of variants that hold sparse matrices in compressed rows, for the registry of types that
 * come from the wire. */
#ifndef DP_KERNELS_SPARSE_CSR_H
#define DP_KERNELS_SPARSE_CSR_H

#include "tensor/tensor.h"

extern const dp_variant_ops dp_csr_ops; /* "tensorflow::CSRSparseMatrix" */

#endif
