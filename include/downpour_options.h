/* Optional arguments and lists: how Downpour's headers have them, in C11 and in C++17.
 *
 * One scheme for every function dp_f that has optional arguments:
 *
 *   dp_f(a, b, ...)           what programs call: a macro in C, a function in C++
 *   dp_f_options              a struct with one field for each optional argument
 *   dp_f_with_options(a, b, &options)
 *                             the function in the library; NULL instead of a struct means that all
 *                             options have their defaults; the struct is borrowed for the call
 *
 * In C, options are named after the required arguments, in any order:
 *
 *   dp_mat_mul(scope, a, b, .transpose_b = true, .name = "product");
 *
 * or they are kept in a struct that DP_OPTIONS makes:
 *
 *   dp_mat_mul_options options = DP_OPTIONS(dp_mat_mul, .name = "product");
 *   options.transpose_b = true;
 *   dp_mat_mul_with_options(scope, a, b, &options);
 *
 * In C++, the fields of the struct have their defaults by themselves:
 *
 *   dp_mat_mul(scope, a, b);
 *   dp_mat_mul_options options;
 *   options.transpose_b = true;
 *   dp_mat_mul(scope, a, b, options);
 *   dp_mat_mul(scope, a, b, {.transpose_b = true});    since C++20; in the order of the fields
 *
 * A struct that is made in another way has no `options_size` and is refused. That size is why new
 * options can be added at the end of a struct: a program compiled before gets their defaults.
 *
 * Lists are written DP_INTS(1, 2, 2, 1), DP_SHAPE(-1, 784) and so on. In C, a list lives as long as
 * the block in which it is written. In C++, it lives until the end of the statement, which is right
 * for an argument and too short for a field. For a field, keep the array yourself:
 *
 *   const int64_t dims[] = {-1, 784};
 *   options.shape = {dims, 2};
 */
#ifndef DOWNPOUR_OPTIONS_H
#define DOWNPOUR_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tensorflow/c/c_api.h"

#ifdef __cplusplus
#include <initializer_list>

/* ---- Fields of an options struct: the first one, one whose default is 0, one with another ---- */
#define DP_OPTIONS_SIZE(function) size_t options_size = sizeof(function##_options)
#define DP_OPTION(type, name) type name = {}
#define DP_OPTION_OR(type, name, otherwise) type name = otherwise

/* ---- Lists ---- */
template <typename List, typename Item> inline List dp_list_of(std::initializer_list<Item> items) {
  static const Item none = {}; /* an empty list is not the same as none */
  return List{items.size() ? items.begin() : &none, static_cast<int>(items.size())};
}
#define DP_LIST_OF(list, item, zero, ...) (dp_list_of<list, item>({__VA_ARGS__}))

#else

#define DP_OPTIONS_SIZE(function) size_t options_size
#define DP_OPTION(type, name) type name
/* DP_DEFAULTS_<function> initializes `<name>_by_default`. If the caller names the option, `<name>`
 * is initialized after it. Both are members of one union, in which the later one counts. A field
 * that is initialized twice would do the same, with a warning in the caller's file. */
#define DP_OPTION_OR(type, name, otherwise)                                                        \
  union {                                                                                          \
    struct {                                                                                       \
      type name##_by_default;                                                                      \
    };                                                                                             \
    struct {                                                                                       \
      type name;                                                                                   \
    };                                                                                             \
  }

/* A dp_f_options with these options, and defaults for the others: DP_OPTIONS(dp_f, .name = "x"). */
#define DP_OPTIONS(...) DP_OPTIONS_AFTER_(__VA_ARGS__, )
#define DP_OPTIONS_AFTER_(function, ...)                                                           \
  DP_OPTIONS_BEGIN_((function##_options){.options_size = sizeof(function##_options),               \
                                         DP_DEFAULTS_##function __VA_ARGS__})                      \
  DP_OPTIONS_END_

/* For the macros dp_f: the last required argument, and the options after it. It is taken from the
 * variable arguments because ISO C wants at least one of these. */
#define DP_LAST_REQUIRED(...) DP_LAST_REQUIRED_(__VA_ARGS__, )
#define DP_LAST_REQUIRED_(last, ...) (last)
#define DP_OPTIONS_AFTER(...) DP_OPTIONS_AFTER_LAST_(__VA_ARGS__, )
#define DP_OPTIONS_AFTER_LAST_(function, last, ...) DP_OPTIONS_AFTER_(function, __VA_ARGS__)

/* clang warns about the union all the same. */
#ifdef __clang__
#define DP_OPTIONS_BEGIN_                                                                          \
  _Pragma("clang diagnostic push") _Pragma("clang diagnostic ignored \"-Winitializer-overrides\"")
#define DP_OPTIONS_END_ _Pragma("clang diagnostic pop")
#else
#define DP_OPTIONS_BEGIN_
#define DP_OPTIONS_END_
#endif

/* ---- Lists ---- */
/* `zero` is put in front so that a list may be empty, which is not the same as not given. */
#define DP_LIST_OF(list, item, zero, ...)                                                          \
  ((list){(item const[]){zero, __VA_ARGS__} + 1,                                                   \
          (int)(sizeof((item const[]){zero, __VA_ARGS__}) / sizeof(item)) - 1})

#endif

typedef struct dp_outputs {
  const TF_Output *items;
  int count;
} dp_outputs;
#define DP_OUTPUTS(...) DP_LIST_OF(dp_outputs, TF_Output, {0}, __VA_ARGS__)

typedef struct dp_ints {
  const int64_t *items;
  int count;
} dp_ints;
#define DP_INTS(...) DP_LIST_OF(dp_ints, int64_t, 0, __VA_ARGS__)

typedef struct dp_floats {
  const float *items;
  int count;
} dp_floats;
#define DP_FLOATS(...) DP_LIST_OF(dp_floats, float, 0, __VA_ARGS__)

typedef struct dp_bools {
  const bool *items;
  int count;
} dp_bools;
#define DP_BOOLS(...) DP_LIST_OF(dp_bools, bool, 0, __VA_ARGS__)

typedef struct dp_types {
  const TF_DataType *items;
  int count;
} dp_types;
#define DP_TYPES(...) DP_LIST_OF(dp_types, TF_DataType, 0, __VA_ARGS__)

/* Of texts, or of names of functions. */
typedef struct dp_strings {
  const char *const *items;
  int count;
} dp_strings;
#define DP_STRINGS(...) DP_LIST_OF(dp_strings, const char *, 0, __VA_ARGS__)

/* A shape; -1 is an unknown size. DP_SHAPE() is a scalar, DP_ANY_SHAPE unknown altogether. */
typedef struct dp_dims {
  const int64_t *items;
  int count; /* of dimensions; -1: unknown rank */
} dp_dims;
#define DP_SHAPE(...) DP_LIST_OF(dp_dims, int64_t, 0, __VA_ARGS__)

static inline dp_dims dp_any_shape(void) {
  static const int64_t none = 0;
  dp_dims shape = {&none, -1};
  return shape;
}
#define DP_ANY_SHAPE (dp_any_shape())

typedef struct dp_shapes {
  const dp_dims *items;
  int count;
} dp_shapes;
#define DP_SHAPES(...) DP_LIST_OF(dp_shapes, dp_dims, {0}, __VA_ARGS__)

/* The tensors stay the caller's. */
typedef struct dp_tensors {
  TF_Tensor *const *items;
  int count;
} dp_tensors;
#define DP_TENSORS(...) DP_LIST_OF(dp_tensors, TF_Tensor *, 0, __VA_ARGS__)

#endif
