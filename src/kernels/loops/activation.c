/* Fills the table of activation.h: activations and their gradients. The bodies are in
 * activation.tmpl.h, which is included once per type. Compiled once for each instruction set. */
#include "kernels/loops/activation.h"

#include "kernels/loops/stream_internal.h"
#include "kernels/loops/types.h"
#include "kernels/loops/vector_math_internal.h"

#define IS_FLOAT
#define T float
#define SUFFIX float
#define FAST(name) dp_##name
#define CALL(name) name##f
#define SOFTPLUS_LIMIT 13.9423847f /* -(log(epsilon) + 2) */
#include "kernels/loops/activation.tmpl.h"
#undef FAST
#undef CALL
#undef SOFTPLUS_LIMIT

#define T double
#define SUFFIX double
#define FAST(name) name
#define CALL(name) name
#define SOFTPLUS_LIMIT 34.043653389117154
#include "kernels/loops/activation.tmpl.h"
#undef FAST
#undef CALL
#undef SOFTPLUS_LIMIT
#undef IS_FLOAT

#define T int8_t
#define SUFFIX int8
#include "kernels/loops/activation.tmpl.h"
#define T int16_t
#define SUFFIX int16
#include "kernels/loops/activation.tmpl.h"
#define T int32_t
#define SUFFIX int32
#include "kernels/loops/activation.tmpl.h"
#define T int64_t
#define SUFFIX int64
#include "kernels/loops/activation.tmpl.h"
#define T uint8_t
#define SUFFIX uint8
#include "kernels/loops/activation.tmpl.h"
#define T uint16_t
#define SUFFIX uint16
#include "kernels/loops/activation.tmpl.h"
#define T uint32_t
#define SUFFIX uint32
#include "kernels/loops/activation.tmpl.h"
#define T uint64_t
#define SUFFIX uint64
#include "kernels/loops/activation.tmpl.h"

#define FLOATS(name) [DP_FLOAT] = name##_float, [DP_DOUBLE] = name##_double
#define NUMBERS(name)                                                                              \
  FLOATS(name), [DP_INT8] = name##_int8, [DP_INT16] = name##_int16, [DP_INT32] = name##_int32,     \
                [DP_INT64] = name##_int64, [DP_UINT8] = name##_uint8, [DP_UINT16] = name##_uint16, \
                [DP_UINT32] = name##_uint32, [DP_UINT64] = name##_uint64

const dp_activation_loops DP_ISA_SYMBOL(dp_activation_table) = {
    .fn =
        {
            [DP_ACTIVATION_relu] = {NUMBERS(relu)},
            [DP_ACTIVATION_relu6] = {NUMBERS(relu6)},
            [DP_ACTIVATION_leaky_relu] = {NUMBERS(leaky_relu)},
            [DP_ACTIVATION_elu] = {FLOATS(elu)},
            [DP_ACTIVATION_selu] = {FLOATS(selu)},
            [DP_ACTIVATION_softplus] = {FLOATS(softplus)},
            [DP_ACTIVATION_softsign] = {FLOATS(softsign)},
        },
    .grad =
        {
            [DP_ACTIVATION_relu] = {NUMBERS(relu_grad)},
            [DP_ACTIVATION_relu6] = {NUMBERS(relu6_grad)},
            [DP_ACTIVATION_leaky_relu] = {NUMBERS(leaky_relu_grad)},
            [DP_ACTIVATION_elu] = {FLOATS(elu_grad)},
            [DP_ACTIVATION_selu] = {FLOATS(selu_grad)},
            [DP_ACTIVATION_softplus] = {FLOATS(softplus_grad)},
            [DP_ACTIVATION_softsign] = {FLOATS(softsign_grad)},
        },
};
