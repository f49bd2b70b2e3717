/* Tensors from C values, and numbers from tensors, with a status: what the public functions that
 * make constants, tensors and numbers have in common. No state, any thread. */
#ifndef DP_CLIENT_VALUES_H
#define DP_CLIENT_VALUES_H

#include <downpour.h>
#include "base/text.h"
#include "client/client_internal.h"

/* Copies the values, as many as the shape says. INVALID_ARGUMENT for a shape that is not known. */
DP_MUST_USE dp_status *dp_client_tensor_make(TF_DataType dtype, dp_dims shape, const void *values,
                                             TF_Tensor **tensor_out);
DP_MUST_USE dp_status *dp_client_tensor_make_strings(dp_dims shape, const char *const *values,
                                                     TF_Tensor **tensor_out);
/* INVALID_ARGUMENT also for a type that is no number and for a value that it cannot hold. */
DP_MUST_USE dp_status *dp_client_tensor_make_numbers(TF_DataType dtype, dp_dims shape,
                                                     const double *values, TF_Tensor **tensor_out);
/* The first `count` elements, which the tensor must have. */
DP_MUST_USE dp_status *dp_client_tensor_numbers(const TF_Tensor *tensor, double *values,
                                                int64_t count);

#endif
