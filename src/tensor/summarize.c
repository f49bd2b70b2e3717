/* Tensors as text, the way TensorFlow's Print, Assert, PrintV2 and StringFormat show them.
 *
 * Users see both forms and tests compare them, so they equal TensorFlow's to the letter. A number
 * has 6 digits (15 for double) when these read back as the same value, else 9 (17). Bools are 1 and
 * 0. Elements of types that TensorFlow does not show are "?". The flat form stops after a number of
 * elements; the nested form shows both ends of each dimension. The tensor is only read. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "tensor/tensor.h"

/* A decimal comma of the process's locale becomes a point. */
static void add_number(dp_text *text, char *number) {
  char *comma = strchr(number, ',');
  if (comma)
    *comma = '.';
  dp_text_add(text, number);
}

static void add_float(dp_text *text, float value) {
  char number[32];
  snprintf(number, sizeof number, "%.6g", value);
  if (strtof(number, NULL) != value)
    snprintf(number, sizeof number, "%.9g", value);
  add_number(text, number);
}

static void add_double(dp_text *text, double value) {
  char number[40];
  snprintf(number, sizeof number, "%.15g", value);
  if (strtod(number, NULL) != value)
    snprintf(number, sizeof number, "%.17g", value);
  add_number(text, number);
}

/* C escapes for control characters; bytes from 0x80 on stay, they may be UTF-8. */
static void add_string(dp_text *text, dp_view string) {
  size_t begin = 0;
  for (size_t i = 0; i <= string.length; i++) {
    if (i < string.length && (unsigned char)string.data[i] < 0x80)
      continue;
    if (i > begin)
      dp_text_add_escaped(text, string.data + begin, i - begin);
    if (i < string.length)
      dp_text_add_char(text, string.data[i]);
    begin = i + 1;
  }
}

static void add_handle(dp_text *text, const dp_resource_handle *handle) {
  if (!handle) {
    dp_text_add(text, "<ResourceHandle()>");
    return;
  }
  dp_text_printf(text, "<ResourceHandle(name=\"%s\", device=\"%s\", container=\"%s\", type=\"%s\"",
                 handle->name, handle->device, handle->container, handle->type_name);
  dp_text_add(text, ", dtype and shapes : \"[ ");
  for (int i = 0; i < handle->component_count; i++) {
    dp_text_printf(text, "%sDType enum: %d, Shape: ", i ? ", " : "", (int)handle->dtypes[i]);
    dp_partial_shape_print(&handle->shapes[i], text);
  }
  dp_text_add(text, " ]\")>");
}

static void add_variant(dp_text *text, const dp_variant *variant) {
  dp_text_add_char(text, '<');
  dp_variant_print(variant, text);
  dp_text_add_char(text, '>');
}

#define AT(type) (((const type *)tensor->data)[index])

static void add_element(dp_text *text, const dp_tensor *tensor, int64_t index, bool quoted) {
  switch (tensor->dtype) {
  case DP_FLOAT:
    add_float(text, AT(float));
    return;
  case DP_DOUBLE:
    add_double(text, AT(double));
    return;
  case DP_HALF:
    add_float(text, dp_half_to_float(AT(uint16_t)));
    return;
  case DP_BFLOAT16:
    add_float(text, dp_bfloat16_to_float(AT(uint16_t)));
    return;
  case DP_FLOAT8_E5M2:
  case DP_FLOAT8_E4M3FN:
  case DP_FLOAT8_E4M3B11FNUZ:
    add_float(text, dp_float8_to_float(tensor->dtype, AT(uint8_t)));
    return;
  case DP_UINT64:
    dp_text_printf(text, "%" PRIu64, AT(uint64_t));
    return;
  case DP_STRING:
    dp_text_add(text, quoted ? "\"" : "");
    add_string(text, dp_tstring_view(&AT(dp_tstring)));
    dp_text_add(text, quoted ? "\"" : "");
    return;
  case DP_RESOURCE:
    add_handle(text, AT(dp_resource_handle *));
    return;
  case DP_VARIANT:
    add_variant(text, AT(dp_variant *));
    return;
  default:
    dp_text_printf(text, "%" PRId64, dp_tensor_int_at(tensor, index));
  }
}

#define UNSHOWN_TYPES                                                                              \
  (DP_DTYPE_BIT(DP_COMPLEX64) | DP_DTYPE_BIT(DP_COMPLEX128) | DP_DTYPE_BIT(DP_QINT32) |            \
   DP_DTYPE_BIT(DP_FLOAT8_E4M3FNUZ) | DP_DTYPE_BIT(DP_FLOAT8_E5M2FNUZ))
/* Elements of these types are listed as if the tensor were a vector. */
#define FLAT_TYPES (UNSHOWN_TYPES | DP_DTYPE_BIT(DP_RESOURCE) | DP_DTYPE_BIT(DP_VARIANT))

static bool is_flat(const dp_tensor *tensor) {
  return tensor->shape.rank == 0 || (FLAT_TYPES & DP_DTYPE_BIT(tensor->dtype)) != 0;
}

static void add_flat(dp_text *text, const dp_tensor *tensor, int64_t limit, bool quoted) {
  for (int64_t i = 0; i < limit; i++) {
    if (i > 0)
      dp_text_add_char(text, ' ');
    if (UNSHOWN_TYPES & DP_DTYPE_BIT(tensor->dtype))
      dp_text_add_char(text, '?');
    else
      add_element(text, tensor, i, quoted);
  }
  if (limit < tensor->shape.elements)
    dp_text_add(text, "...");
}

/* Adds dimension `axis`, starting with element *index. Moves *index past the elements added; stops
 * at `limit`. */
static void add_dimension(dp_text *text, const dp_tensor *tensor, int axis, int64_t limit,
                          int64_t *index) {
  int64_t size = tensor->shape.dims[axis];
  bool is_last = axis == tensor->shape.rank - 1;
  for (int64_t i = 0; i < size; i++) {
    if (*index >= limit) {
      if (is_last && axis > 0)
        dp_text_add(text, "...");
      return;
    }
    if (is_last) {
      dp_text_add(text, i > 0 ? " " : "");
      add_element(text, tensor, (*index)++, false);
    } else {
      dp_text_add_char(text, '[');
      add_dimension(text, tensor, axis + 1, limit, index);
      dp_text_add_char(text, ']');
    }
  }
}

/* *limit_out is how many elements to show at most. False for an unset tensor, whose text is
 * complete then. */
static bool begin_summary(const dp_tensor *tensor, int64_t entries, dp_text *text,
                          int64_t *limit_out) {
  int64_t elements = tensor->shape.elements;
  if (!dp_tensor_is_set(tensor) || (elements > 0 && !tensor->data)) {
    dp_text_printf(text, "uninitialized Tensor of %" PRId64 " elements of type %d", elements,
                   (int)tensor->dtype);
    return false;
  }
  *limit_out = entries < 0 || entries > elements ? elements : entries;
  return true;
}

void dp_tensor_summarize(const dp_tensor *tensor, int64_t max_entries, dp_text *text) {
  int64_t limit;
  if (!begin_summary(tensor, max_entries, text, &limit))
    return;
  if (is_flat(tensor)) {
    add_flat(text, tensor, limit, false);
    return;
  }
  int64_t index = 0;
  if (limit > 0)
    add_dimension(text, tensor, 0, limit, &index);
  if (limit < tensor->shape.elements)
    dp_text_add(text, "...");
}

/* ---- The nested form ----------------------------------------------------------------------------
 */

/* What is between two entries of dimension `axis`: a space in the last dimension, line ends and an
 * indent in the others. */
static void add_spacing(dp_text *text, int axis, int rank) {
  for (int i = axis; i < rank - 1; i++)
    dp_text_add_char(text, '\n');
  for (int i = 0; i <= (axis == rank - 1 ? 0 : axis); i++)
    dp_text_add_char(text, ' ');
}

static void add_nested(dp_text *text, const dp_tensor *tensor, int axis, int64_t edge,
                       int64_t index) {
  int rank = tensor->shape.rank;
  if (axis == rank) {
    add_element(text, tensor, index, true);
    return;
  }
  int64_t size = tensor->shape.dims[axis];
  int64_t stride = dp_shape_product(&tensor->shape, axis + 1, rank);
  dp_text_add_char(text, '[');
  for (int64_t i = 0; i < size; i++) {
    if (i == edge && size - edge > edge) {
      add_spacing(text, axis, rank);
      dp_text_add(text, "...");
      i = size - edge;
    }
    if (i >= size)
      break;
    if (i > 0)
      add_spacing(text, axis, rank);
    add_nested(text, tensor, axis + 1, edge, index + i * stride);
  }
  dp_text_add_char(text, ']');
}

void dp_tensor_summarize_nested(const dp_tensor *tensor, int64_t edge_entries, dp_text *text) {
  int64_t edge;
  if (!begin_summary(tensor, edge_entries, text, &edge))
    return;
  if (!is_flat(tensor)) {
    add_nested(text, tensor, 0, edge, 0);
    return;
  }
  dp_text_add(text, tensor->shape.rank > 0 ? "[" : "");
  add_flat(text, tensor, edge, true);
  dp_text_add(text, tensor->shape.rank > 0 ? "]" : "");
}
