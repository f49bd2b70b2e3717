/* Names, sizes and kinds of data types: arrays made from the one table in dtype.h.
 *
 * The names are those of TensorFlow's DataTypeString, which appear in error messages and node
 * attributes; the parser also reads the spellings of Python and of the protocol ("float32",
 * "DT_FLOAT"). All data here is constant: any thread may call. */
#include "tensor/dtype.h"

#define NAMED_TYPES DP_DTYPE_END

static const char *const names[NAMED_TYPES] = {[0] = "INVALID",
#define NAME_ROW(name, number, text, size) [number] = text,
                                               DP_DTYPE_TABLE(NAME_ROW)
#undef NAME_ROW
};

static const char *const reference_names[NAMED_TYPES] = {[0] = "INVALID_ref",
#define NAME_ROW(name, number, text, size) [number] = text "_ref",
                                                         DP_DTYPE_TABLE(NAME_ROW)
#undef NAME_ROW
};

static const char *const enum_names[NAMED_TYPES] = {[0] = "DT_INVALID",
#define NAME_ROW(name, number, text, size) [number] = "DT_" #name,
                                                    DP_DTYPE_TABLE(NAME_ROW)
#undef NAME_ROW
};

const uint8_t dp_dtype_sizes[DP_DTYPE_END] = {
#define SIZE_ROW(name, number, text, size) [number] = size,
    DP_DTYPE_TABLE(SIZE_ROW)
#undef SIZE_ROW
};

#define INTEGER_TYPES                                                                              \
  (DP_DTYPE_BIT(DP_INT2) | DP_DTYPE_BIT(DP_INT4) | DP_DTYPE_BIT(DP_INT8) |                         \
   DP_DTYPE_BIT(DP_INT16) | DP_DTYPE_BIT(DP_INT32) | DP_DTYPE_BIT(DP_INT64) |                      \
   DP_DTYPE_BIT(DP_UINT2) | DP_DTYPE_BIT(DP_UINT4) | DP_DTYPE_BIT(DP_UINT8) |                      \
   DP_DTYPE_BIT(DP_UINT16) | DP_DTYPE_BIT(DP_UINT32) | DP_DTYPE_BIT(DP_UINT64))
#define COMPLEX_TYPES (DP_DTYPE_BIT(DP_COMPLEX64) | DP_DTYPE_BIT(DP_COMPLEX128))

_Static_assert(DP_DTYPE_END <= 64, "a dp_dtype_set has a bit for each type");

static bool is_in(dp_dtype dtype, dp_dtype_set set) {
  return (unsigned)dtype < DP_DTYPE_END && (set & DP_DTYPE_BIT(dtype)) != 0;
}

bool dp_dtype_is_valid(int number) {
  return number > 0 && number < DP_DTYPE_END && names[number] != NULL;
}

const char *dp_dtype_name(int number) {
  if (number == 0 || dp_dtype_is_valid(number))
    return names[number];
  if (number >= DP_REF_OFFSET) {
    int base = number - DP_REF_OFFSET;
    if (base == 0 || dp_dtype_is_valid(base))
      return reference_names[base];
  }
  return "unknown dtype";
}

static int parse_base(dp_view text) {
  static const struct {
    const char *text;
    int number;
  } other_spellings[] = {{"float32", DP_FLOAT}, {"float64", DP_DOUBLE}, {"float16", DP_HALF}};
  for (size_t i = 0; i < sizeof other_spellings / sizeof other_spellings[0]; i++)
    if (dp_view_equals(text, other_spellings[i].text))
      return other_spellings[i].number;
  for (int number = 1; number < DP_DTYPE_END; number++) {
    if (!names[number])
      continue;
    if (dp_view_equals(text, names[number]) || dp_view_equals(text, enum_names[number]))
      return number;
  }
  return DP_INVALID_DTYPE;
}

static bool drop_suffix(dp_view *text, const char *suffix) {
  size_t length = strlen(suffix);
  if (text->length < length || memcmp(text->data + text->length - length, suffix, length) != 0)
    return false;
  text->length -= length;
  return true;
}

int dp_dtype_parse(dp_view text) {
  bool is_reference = text.length > 0 && (drop_suffix(&text, "_ref") || drop_suffix(&text, "_REF"));
  int number = parse_base(text);
  return number != DP_INVALID_DTYPE && is_reference ? number + DP_REF_OFFSET : number;
}

bool dp_dtype_is_integer(dp_dtype dtype) {
  return is_in(dtype, INTEGER_TYPES);
}

bool dp_dtype_is_complex(dp_dtype dtype) {
  return is_in(dtype, COMPLEX_TYPES);
}
