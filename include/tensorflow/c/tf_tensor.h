/* Tensors: a type, a shape and shared memory. The memory may be the caller's own. Elements of
 * string tensors are TF_TString (tf_tstring.h). */
#ifndef TENSORFLOW_C_TF_TENSOR_H_
#define TENSORFLOW_C_TF_TENSOR_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tensorflow/c/c_api_macros.h"
#include "tensorflow/c/tf_datatype.h"
#include "tensorflow/c/tf_status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct TF_Tensor TF_Tensor;

/* Over `len` bytes at `data`, which now belong to the tensor: `deallocator` is called once, when
 * nothing uses them any more. Memory that is not aligned (TF_TensorIsAligned) is copied, and the
 * deallocator called at once. NULL when `len` is too short for the shape, or the shape or type is
 * not valid; the deallocator has been called then. The strings of a string tensor stay the
 * caller's: his deallocator ends them. */
TF_CAPI_EXPORT extern TF_Tensor *
TF_NewTensor(TF_DataType, const int64_t *dims, int num_dims, void *data, size_t len,
             void (*deallocator)(void *data, size_t len, void *arg), void *deallocator_arg);
TF_CAPI_EXPORT extern size_t TF_TensorDefaultAlignment(void);
/* With fresh memory of `len` bytes. Contents are undefined; call TF_StringInit on each string, and
 * TF_StringDealloc before the tensor goes. */
TF_CAPI_EXPORT extern TF_Tensor *TF_AllocateTensor(TF_DataType, const int64_t *dims, int num_dims,
                                                   size_t len);
/* Deletes the tensor and returns a new one with its contents, if nobody else shares them; NULL, and
 * the tensor stays, otherwise. */
TF_CAPI_EXPORT extern TF_Tensor *TF_TensorMaybeMove(TF_Tensor *tensor);
TF_CAPI_EXPORT extern void TF_DeleteTensor(TF_Tensor *tensor);
TF_CAPI_EXPORT extern TF_DataType TF_TensorType(const TF_Tensor *tensor);
/* For a shape with the same number of elements. */
TF_CAPI_EXPORT extern void TF_SetShape(TF_Tensor *tensor, const int64_t *dims, int num_dims);
TF_CAPI_EXPORT extern int TF_NumDims(const TF_Tensor *tensor);
TF_CAPI_EXPORT extern int64_t TF_Dim(const TF_Tensor *tensor, int dim_index);
/* Of the memory, which may be more than the elements need. */
TF_CAPI_EXPORT extern size_t TF_TensorByteSize(const TF_Tensor *tensor);
TF_CAPI_EXPORT extern void *TF_TensorData(const TF_Tensor *tensor);
TF_CAPI_EXPORT extern int64_t TF_TensorElementCount(const TF_Tensor *tensor);
/* Makes `to` share the memory of `from` under another type and shape of the same size. */
TF_CAPI_EXPORT extern void TF_TensorBitcastFrom(const TF_Tensor *from, TF_DataType type,
                                                TF_Tensor *to, const int64_t *new_dims,
                                                int num_new_dims, TF_Status *status);
/* Whether its memory is aligned to TF_TensorDefaultAlignment. */
TF_CAPI_EXPORT extern bool TF_TensorIsAligned(const TF_Tensor *tensor);

#ifdef __cplusplus
}
#endif

#endif
