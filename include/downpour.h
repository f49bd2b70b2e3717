/* Downpour's own C interface: graphs that are pleasant to write in C, on top of TensorFlow's C API.
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
 * Every op of TensorFlow has a constructor, dp_<its name in C words>; <downpour_ops.h> has them
 * all, made from the op definitions. Arguments are the scope, the op's inputs, the attributes that
 * have no default, and then, by name and in any order, what differs from TensorFlow's defaults;
 * `.name` is always among those. Attributes that follow from the inputs (T, N...) are never given.
 * Lists are written DP_OUTPUTS(a, b), DP_INTS(1, 2, 2, 1), DP_SHAPE(-1, 784), DP_TYPES(...),
 * DP_FLOATS(...), DP_STRINGS(...), DP_BOOLS(...). A constructor returns its output; a
 * dp_output_list for one that is a list; a struct when there are several; the operation when there
 * is none.
 *
 * The first error sticks to the scope (and all scopes made from it): constructors called after it
 * do nothing, so that a chain of calls is checked once, at its end. A scope is used by one thread
 * at a time; several scopes may write to one graph from several threads. */
#ifndef DOWNPOUR_H
#define DOWNPOUR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tensorflow/c/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A constructor's macro names an attribute's default first and what the caller gives after it. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Winitializer-overrides"
#elif defined(__GNUC__) && !defined(__cplusplus)
#pragma GCC diagnostic ignored "-Woverride-init"
#endif

/* ---- Lists of values ---- */

#define DP_COUNT_OF(type, ...) ((int)(sizeof((type[]){0, ##__VA_ARGS__}) / sizeof(type)) - 1)
/* An element is put in front so that a list may be empty, which is not the same as not given. */
#define DP_LIST_OF(list, type, ...)                                                                \
  ((list){(type[]){0, ##__VA_ARGS__} + 1, DP_COUNT_OF(type, ##__VA_ARGS__)})

typedef struct dp_outputs {
  const TF_Output *items;
  int count;
} dp_outputs;
#define DP_OUTPUTS(...)                                                                            \
  ((dp_outputs){(const TF_Output[]){{0}, ##__VA_ARGS__} + 1,                                       \
                (int)(sizeof((const TF_Output[]){{0}, ##__VA_ARGS__}) / sizeof(TF_Output)) - 1})

typedef struct dp_ints {
  const int64_t *items;
  int count;
} dp_ints;
#define DP_INTS(...) DP_LIST_OF(dp_ints, const int64_t, ##__VA_ARGS__)

typedef struct dp_floats {
  const float *items;
  int count;
} dp_floats;
#define DP_FLOATS(...) DP_LIST_OF(dp_floats, const float, ##__VA_ARGS__)

typedef struct dp_bools {
  const bool *items;
  int count;
} dp_bools;
#define DP_BOOLS(...) DP_LIST_OF(dp_bools, const bool, ##__VA_ARGS__)

typedef struct dp_types {
  const TF_DataType *items;
  int count;
} dp_types;
#define DP_TYPES(...) DP_LIST_OF(dp_types, const TF_DataType, ##__VA_ARGS__)

/* Of texts, or of names of functions. */
typedef struct dp_strings {
  const char *const *items;
  int count;
} dp_strings;
#define DP_STRINGS(...) DP_LIST_OF(dp_strings, const char *const, ##__VA_ARGS__)

/* A shape; -1 is an unknown size. DP_SHAPE() is a scalar, DP_ANY_SHAPE unknown altogether. */
typedef struct dp_dims {
  const int64_t *items;
  int count; /* of dimensions; -1: unknown rank */
} dp_dims;
#define DP_SHAPE(...) DP_LIST_OF(dp_dims, const int64_t, ##__VA_ARGS__)
#define DP_ANY_SHAPE ((dp_dims){(const int64_t[]){0}, -1})

typedef struct dp_shapes {
  const dp_dims *items;
  int count;
} dp_shapes;
#define DP_SHAPES(...)                                                                             \
  ((dp_shapes){(const dp_dims[]){{0}, ##__VA_ARGS__} + 1,                                          \
               (int)(sizeof((const dp_dims[]){{0}, ##__VA_ARGS__}) / sizeof(dp_dims)) - 1})

typedef struct dp_tensors {
  TF_Tensor *const *items;
  int count;
} dp_tensors;

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

/* ---- Scopes: where new operations go, and how the building fares ---- */

typedef struct dp_scope dp_scope;

/* A scope for the whole graph, which must outlive it. */
TF_CAPI_EXPORT extern dp_scope *dp_scope_create(TF_Graph *graph);
/* Ends a scope that dp_scope_create made, and all scopes made from it. NULL is allowed. */
TF_CAPI_EXPORT extern void dp_scope_destroy(dp_scope *scope);
TF_CAPI_EXPORT extern TF_Graph *dp_scope_graph(const dp_scope *scope);

/* The following make a scope like `scope` with one difference; it lives as long as the first one.
 * A failed call leaves its error in the scope. */

/* Names of operations begin with "name/". A name that is taken gets a number ("name_1/"); one that
 * ends in '/' is taken as it is, from the root, so that a scope can be entered again. */
TF_CAPI_EXPORT extern dp_scope *dp_scope_named(dp_scope *scope, const char *name);
/* Operations are placed on `device`, for example "/job:ps/task:1" or "/cpu:0"; what it leaves open
 * comes from the scope around. */
TF_CAPI_EXPORT extern dp_scope *dp_scope_on(dp_scope *scope, const char *device);
/* Operations run after these (and after those of the scope around). No operations at all (NULL, 0)
 * forgets what the scope around had. */
TF_CAPI_EXPORT extern dp_scope *dp_scope_after(dp_scope *scope, TF_Operation *const *operations,
                                               int count);
/* Operations are placed where `operation` is. */
TF_CAPI_EXPORT extern dp_scope *dp_scope_beside(dp_scope *scope, TF_Operation *operation);

/* What a function that chooses devices is told about a new operation. */
typedef struct dp_new_operation {
  const char *op_type;
  const char *name;   /* without the number that may be added */
  const char *device; /* what the scopes say: "" or a specification */
  TF_DataType dtype;  /* of its attribute `dtype`; 0: none */
  dp_dims shape;      /* of its attribute `shape`; rank -1: none */
} dp_new_operation;
/* Returns a device specification, which is copied, or NULL for no opinion. */
typedef const char *(*dp_device_fn)(void *arg, const dp_new_operation *operation);
/* `choose` is asked about each operation; parts of a device that scopes name explicitly win. */
TF_CAPI_EXPORT extern dp_scope *dp_scope_placed(dp_scope *scope, dp_device_fn choose, void *arg);

/* How it went. The message is "" as long as all is well. */
TF_CAPI_EXPORT extern bool dp_scope_ok(const dp_scope *scope);
TF_CAPI_EXPORT extern TF_Code dp_scope_code(const dp_scope *scope);
TF_CAPI_EXPORT extern const char *dp_scope_message(const dp_scope *scope);
/* For helpers of your own: notes an error, unless there is one already. */
TF_CAPI_EXPORT extern void dp_scope_fail(dp_scope *scope, TF_Code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- Constants ---- */

TF_CAPI_EXPORT extern TF_Output dp_const_float(dp_scope *scope, float value);
TF_CAPI_EXPORT extern TF_Output dp_const_double(dp_scope *scope, double value);
TF_CAPI_EXPORT extern TF_Output dp_const_int32(dp_scope *scope, int32_t value);
TF_CAPI_EXPORT extern TF_Output dp_const_int64(dp_scope *scope, int64_t value);
TF_CAPI_EXPORT extern TF_Output dp_const_bool(dp_scope *scope, bool value);
TF_CAPI_EXPORT extern TF_Output dp_const_string(dp_scope *scope, const char *value);
/* `values` has as many elements as the shape says, row by row:
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
TF_CAPI_EXPORT extern TF_Output dp_const_strings(dp_scope *scope, dp_dims shape,
                                                 const char *const *values);
/* A number of any numeric type. */
TF_CAPI_EXPORT extern TF_Output dp_const_number(dp_scope *scope, TF_DataType dtype, double value);
/* A shape, or the like, as a vector of int32. */
TF_CAPI_EXPORT extern TF_Output dp_const_vector(dp_scope *scope, dp_ints values);
/* Of a tensor, which is copied and stays the caller's. */
TF_CAPI_EXPORT extern TF_Output dp_const_tensor(dp_scope *scope, TF_Tensor *value);

#ifdef __cplusplus
}
#endif

#include <downpour_ops.h>

#endif
