/* Downpour's own C interface: graphs that are pleasant to write, on top of TensorFlow's C API.
 *
 *   TF_Graph *graph = TF_NewGraph();
 *   dp_scope *scope = dp_scope_create(graph);
 *   TF_Output x = dp_placeholder(scope, TF_FLOAT, .shape = DP_SHAPE(-1, 784), .name = "x");
 *   dp_scope *hidden = dp_scope_named(scope, "hidden");
 *   TF_Output w = dp_const_floats(hidden, DP_SHAPE(784, 10), weights);
 *   TF_Output y = dp_relu(hidden, dp_mat_mul(hidden, x, w, .transpose_b = false));
 *   if (!dp_scope_ok(scope))
 *     fprintf(stderr, "%s\n", dp_scope_message(scope));
 *   dp_scope_destroy(scope);
 *
 * Every op of TensorFlow has a constructor: dp_, and its name in C words. <downpour_ops.h> has them
 * all, made from the op definitions. The arguments are the scope, the op's inputs, the attributes
 * that have no default, and then, by name and in any order, what differs from TensorFlow's
 * defaults.
 * `.name` is always among these. Attributes that follow from the inputs (T, N...) are never given.
 * A constructor returns its output; a dp_output_list if the output is a list; a struct if there are
 * several outputs; the operation if there is none.
 *
 * <downpour_options.h> says how optional arguments and lists are written, in C and in C++.
 *
 * Errors. The first error of a constructor sticks to the scope and to all scopes made from the same
 * root. Constructors called after it do nothing and return {NULL, 0}, so that a chain of calls is
 * checked once, at its end. Functions that take a TF_Status set it, to TF_OK or to the error.
 *
 * Threads. A scope, with all scopes of its root, is used by one thread at a time. Several roots may
 * write to one graph from several threads. Tensors may be read by any thread. */
#ifndef DOWNPOUR_H
#define DOWNPOUR_H

#include <downpour_options.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The outputs first, first + 1, ... of an operation. */
typedef struct dp_output_list {
  TF_Operation *operation;
  int first;
  int count;
} dp_output_list;

/* The i-th of them; {NULL, 0} when there is none. */
static inline TF_Output dp_output_at(dp_output_list list, int i) {
  bool exists = list.operation && i >= 0 && i < list.count;
  TF_Output output = {exists ? list.operation : NULL, exists ? list.first + i : 0};
  return output;
}

/* ---- Scopes: where new operations go, and whether building them succeeded ---- */

typedef struct dp_scope dp_scope;

/* A root: a scope for the whole graph. The graph must outlive it. The caller destroys it. */
TF_CAPI_EXPORT extern dp_scope *dp_scope_create(TF_Graph *graph);
/* Ends a root and all scopes made from it; the graph stays. NULL is allowed. */
TF_CAPI_EXPORT extern void dp_scope_destroy(dp_scope *root);
TF_CAPI_EXPORT extern TF_Graph *dp_scope_graph(const dp_scope *scope);

/* The following make a scope like `scope` with one difference. It lives as long as its root. A
 * failed call leaves its error in the scope and returns a scope that has it too; never NULL. Texts
 * are copied. */

/* Names of operations begin with "name/". A name that is taken gets a number ("name_1/"). A name
 * that ends in '/' is taken as it is, from the root, so that a scope can be entered again. */
TF_CAPI_EXPORT extern dp_scope *dp_scope_named(dp_scope *scope, const char *name);
/* Operations are placed on `device`, for example "/job:ps/task:1" or "/cpu:0". What it leaves open
 * comes from `scope`. */
TF_CAPI_EXPORT extern dp_scope *dp_scope_on(dp_scope *scope, const char *device);
/* Operations run after these operations, and after those that `scope` names. No operations at all
 * (NULL, 0) forgets those of `scope`. */
TF_CAPI_EXPORT extern dp_scope *dp_scope_after(dp_scope *scope, TF_Operation *const *operations,
                                               int count);
/* Operations are placed where `operation` is. */
TF_CAPI_EXPORT extern dp_scope *dp_scope_beside(dp_scope *scope, TF_Operation *operation);

/* What a function that chooses devices is told about a new operation. Valid during the call. */
typedef struct dp_new_operation {
  const char *op_type;
  const char *name;   /* without the number that may be added */
  const char *device; /* what the scopes say: "" or a specification */
  TF_DataType dtype;  /* of its attribute `dtype`; 0: none */
  dp_dims shape;      /* of its attribute `shape`; count -1: none */
} dp_new_operation;
/* Returns a device specification, which is copied, or NULL for no opinion. */
typedef const char *(*dp_device_fn)(void *arg, const dp_new_operation *operation);
/* `choose` is called for each operation, on the thread that makes it. Parts of a device that scopes
 * name explicitly win. `arg` must live as long as the root. */
TF_CAPI_EXPORT extern dp_scope *dp_scope_placed(dp_scope *scope, dp_device_fn choose, void *arg);

/* The first error, if there was one: TF_OK and "" otherwise. The message lives as long as the
 * root. */
TF_CAPI_EXPORT extern bool dp_scope_ok(const dp_scope *scope);
TF_CAPI_EXPORT extern TF_Code dp_scope_code(const dp_scope *scope);
TF_CAPI_EXPORT extern const char *dp_scope_message(const dp_scope *scope);
/* For helpers of your own: notes an error, unless there is one already. */
TF_CAPI_EXPORT extern void dp_scope_fail(dp_scope *scope, TF_Code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- Tensors from C values ----
 * The caller owns the tensor and ends it with TF_DeleteTensor. Values are copied. */

/* Scalars. */
TF_CAPI_EXPORT extern TF_Tensor *dp_tensor_of_float(float value);
TF_CAPI_EXPORT extern TF_Tensor *dp_tensor_of_double(double value);
TF_CAPI_EXPORT extern TF_Tensor *dp_tensor_of_int32(int32_t value);
TF_CAPI_EXPORT extern TF_Tensor *dp_tensor_of_int64(int64_t value);
TF_CAPI_EXPORT extern TF_Tensor *dp_tensor_of_uint8(uint8_t value);
TF_CAPI_EXPORT extern TF_Tensor *dp_tensor_of_bool(bool value);
TF_CAPI_EXPORT extern TF_Tensor *dp_tensor_of_string(const char *value);
/* A string scalar of any bytes: an image file, a serialized message. */
TF_CAPI_EXPORT extern TF_Tensor *dp_tensor_of_bytes(const void *bytes, size_t length);

/* Of any shape. `values` has as many elements as the shape says, row by row; for a vector of three
 * that is dp_tensor_of_floats(DP_SHAPE(3), values). NULL if a size is unknown or negative, or if
 * there is not enough memory. */
TF_CAPI_EXPORT extern TF_Tensor *dp_tensor_of_floats(dp_dims shape, const float *values);
TF_CAPI_EXPORT extern TF_Tensor *dp_tensor_of_doubles(dp_dims shape, const double *values);
TF_CAPI_EXPORT extern TF_Tensor *dp_tensor_of_int32s(dp_dims shape, const int32_t *values);
TF_CAPI_EXPORT extern TF_Tensor *dp_tensor_of_int64s(dp_dims shape, const int64_t *values);
TF_CAPI_EXPORT extern TF_Tensor *dp_tensor_of_uint8s(dp_dims shape, const uint8_t *values);
TF_CAPI_EXPORT extern TF_Tensor *dp_tensor_of_bools(dp_dims shape, const bool *values);
TF_CAPI_EXPORT extern TF_Tensor *dp_tensor_of_strings(dp_dims shape, const char *const *values);
/* Of any numeric type: the types above, TF_HALF, TF_BFLOAT16, TF_INT8, TF_INT16, TF_UINT16,
 * TF_UINT32, TF_UINT64 and the complex types. Floating-point types round; integer types cut off the
 * fraction. NULL and INVALID_ARGUMENT for another type, for a shape that is not known, and for a
 * value that an integer type cannot hold. */
TF_CAPI_EXPORT extern TF_Tensor *dp_tensor_of_numbers(TF_DataType dtype, dp_dims shape,
                                                      const double *values, TF_Status *status);

/* ---- C values from tensors ----
 * The tensor must have the type that the function names and, for arrays, exactly `count` elements;
 * -1 takes any number (TF_TensorElementCount says how many). Otherwise, and if `tensor` is NULL,
 * the status is INVALID_ARGUMENT with a message that says what the tensor is. What is returned is
 * the tensor's own memory, valid as long as the tensor; NULL after an error. */
TF_CAPI_EXPORT extern const float *dp_tensor_get_floats(const TF_Tensor *tensor, int64_t count,
                                                        TF_Status *status);
TF_CAPI_EXPORT extern const double *dp_tensor_get_doubles(const TF_Tensor *tensor, int64_t count,
                                                          TF_Status *status);
TF_CAPI_EXPORT extern const int32_t *dp_tensor_get_int32s(const TF_Tensor *tensor, int64_t count,
                                                          TF_Status *status);
TF_CAPI_EXPORT extern const int64_t *dp_tensor_get_int64s(const TF_Tensor *tensor, int64_t count,
                                                          TF_Status *status);
TF_CAPI_EXPORT extern const uint8_t *dp_tensor_get_uint8s(const TF_Tensor *tensor, int64_t count,
                                                          TF_Status *status);
TF_CAPI_EXPORT extern const bool *dp_tensor_get_bools(const TF_Tensor *tensor, int64_t count,
                                                      TF_Status *status);
/* The string at `index`, row by row, and its length; it need not end in '\0'. `length_out` may be
 * NULL. */
TF_CAPI_EXPORT extern const char *dp_tensor_get_string(const TF_Tensor *tensor, int64_t index,
                                                       size_t *length_out, TF_Status *status);
/* The only element of a tensor with one; 0 or false after an error. */
TF_CAPI_EXPORT extern float dp_tensor_get_float(const TF_Tensor *tensor, TF_Status *status);
TF_CAPI_EXPORT extern double dp_tensor_get_double(const TF_Tensor *tensor, TF_Status *status);
TF_CAPI_EXPORT extern int32_t dp_tensor_get_int32(const TF_Tensor *tensor, TF_Status *status);
TF_CAPI_EXPORT extern int64_t dp_tensor_get_int64(const TF_Tensor *tensor, TF_Status *status);
TF_CAPI_EXPORT extern uint8_t dp_tensor_get_uint8(const TF_Tensor *tensor, TF_Status *status);
TF_CAPI_EXPORT extern bool dp_tensor_get_bool(const TF_Tensor *tensor, TF_Status *status);
/* Of any real numeric type or TF_BOOL: copies all elements to `values`, which has room for `count`
 * of them. False after an error. */
TF_CAPI_EXPORT extern bool dp_tensor_get_numbers(const TF_Tensor *tensor, double *values,
                                                 int64_t count, TF_Status *status);

/* ---- Constants in a graph ---- */

TF_CAPI_EXPORT extern TF_Output dp_const_float(dp_scope *scope, float value);
TF_CAPI_EXPORT extern TF_Output dp_const_double(dp_scope *scope, double value);
TF_CAPI_EXPORT extern TF_Output dp_const_int32(dp_scope *scope, int32_t value);
TF_CAPI_EXPORT extern TF_Output dp_const_int64(dp_scope *scope, int64_t value);
TF_CAPI_EXPORT extern TF_Output dp_const_uint8(dp_scope *scope, uint8_t value);
TF_CAPI_EXPORT extern TF_Output dp_const_bool(dp_scope *scope, bool value);
TF_CAPI_EXPORT extern TF_Output dp_const_string(dp_scope *scope, const char *value);
/* `values` has as many elements as the shape says, row by row, and is copied:
 *   dp_const_floats(scope, DP_SHAPE(2, 2), (float[]){1, 2, 3, 4})
 *   dp_const_floats(scope, DP_SHAPE(2, 2), (float *)(float[2][2]){{1, 2}, {3, 4}}) */
TF_CAPI_EXPORT extern TF_Output dp_const_floats(dp_scope *scope, dp_dims shape,
                                                const float *values);
TF_CAPI_EXPORT extern TF_Output dp_const_doubles(dp_scope *scope, dp_dims shape,
                                                 const double *values);
TF_CAPI_EXPORT extern TF_Output dp_const_int32s(dp_scope *scope, dp_dims shape,
                                                const int32_t *values);
TF_CAPI_EXPORT extern TF_Output dp_const_int64s(dp_scope *scope, dp_dims shape,
                                                const int64_t *values);
TF_CAPI_EXPORT extern TF_Output dp_const_uint8s(dp_scope *scope, dp_dims shape,
                                                const uint8_t *values);
TF_CAPI_EXPORT extern TF_Output dp_const_bools(dp_scope *scope, dp_dims shape, const bool *values);
TF_CAPI_EXPORT extern TF_Output dp_const_strings(dp_scope *scope, dp_dims shape,
                                                 const char *const *values);
/* Of any numeric type, as dp_tensor_of_numbers has them. */
TF_CAPI_EXPORT extern TF_Output dp_const_number(dp_scope *scope, TF_DataType dtype, double value);
TF_CAPI_EXPORT extern TF_Output dp_const_numbers(dp_scope *scope, TF_DataType dtype, dp_dims shape,
                                                 const double *values);
/* Axes, a shape or the like: a vector of int32. */
TF_CAPI_EXPORT extern TF_Output dp_const_vector(dp_scope *scope, dp_ints values);
/* Of a tensor, which is copied and stays the caller's. */
TF_CAPI_EXPORT extern TF_Output dp_const_tensor(dp_scope *scope, TF_Tensor *value);

/* ---- Sessions ---- */

typedef struct dp_session_configure_options {
  DP_OPTIONS_SIZE(dp_session_configure);
  DP_OPTION(double, timeout_seconds);    /* for each call; 0: as before */
  DP_OPTION(dp_strings, device_filters); /* the only tasks that are used */
  DP_OPTION(bool, allow_soft_placement); /* an op without a kernel there may run elsewhere */
  DP_OPTION(bool, log_device_placement);
} dp_session_configure_options;
/* Sets by name what TF_SetConfig sets with a serialized ConfigProto; the rest stays as it was:
 *   dp_session_configure(session_options, status, .timeout_seconds = 10);
 * INVALID_ARGUMENT for a negative time. Texts are copied. */
TF_CAPI_EXPORT extern void
dp_session_configure_with_options(TF_SessionOptions *session, TF_Status *status,
                                  const dp_session_configure_options *options);

#ifdef __cplusplus
}

inline void dp_session_configure(TF_SessionOptions *session, TF_Status *status,
                                 const dp_session_configure_options &options = {}) {
  dp_session_configure_with_options(session, status, &options);
}
#else
#define DP_DEFAULTS_dp_session_configure
#define dp_session_configure(session, ...)                                                         \
  dp_session_configure_with_options((session), DP_LAST_REQUIRED(__VA_ARGS__),                      \
                                    &DP_OPTIONS_AFTER(dp_session_configure, __VA_ARGS__))
#endif

#include <downpour_ops.h>

#endif
