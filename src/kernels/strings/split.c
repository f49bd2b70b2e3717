/* StringSplit and StringSplitV2, which give the pieces as a sparse tensor, and StringNGrams. Pieces
 * are views into the input until the output is written. */
#include "kernels/shared/family.h"

#include <string.h>
#include "base/memory.h"
#include "kernels/text/string.h"

/* The pieces of all strings, one string after the other (views into the input), and the number per
 * string. */
typedef struct pieces {
  DP_ARRAY(dp_view) views;
  int64_t *counts;
} pieces;

static void add_piece(pieces *out, const char *begin, const char *end) {
  DP_ARRAY_PUSH(&out->views, ((dp_view){begin, (size_t)(end - begin)}));
}

/* ---- Version 1: any of several delimiters ---- */
typedef struct delimiter_set {
  bool is_empty; /* every byte is a piece */
  bool has[256];
} delimiter_set;

static void read_delimiters(dp_view delimiters, delimiter_set *set_out) {
  *set_out = (delimiter_set){.is_empty = delimiters.length == 0};
  for (size_t i = 0; i < delimiters.length; ++i)
    set_out->has[(uint8_t)delimiters.data[i]] = true;
}

static void split_by_set(dp_view text, const delimiter_set *delimiters, bool skips_empty,
                         pieces *out) {
  const char *end = text.data + text.length, *start = text.data;
  if (text.length == 0)
    return;
  for (const char *at = text.data; at <= end; ++at) {
    if (delimiters->is_empty) {
      if (at < end)
        add_piece(out, at, at + 1);
      continue;
    }
    if (at < end && !delimiters->has[(uint8_t)*at])
      continue;
    if (!skips_empty || at > start)
      add_piece(out, start, at);
    start = at + 1;
  }
}

/* ---- Version 2: one separator, or white space, as in Python ---- */
static bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

static void split_at_spaces(dp_view text, int64_t most, pieces *out) {
  const char *at = text.data, *end = text.data + text.length;
  for (int64_t splits = 0;; ++splits) {
    while (at < end && is_space(*at))
      ++at;
    if (splits > 0 && most > 0 && splits == most) {
      add_piece(out, at, end);
      return;
    }
    if (at == end)
      return;
    const char *start = at;
    while (at < end && !is_space(*at))
      ++at;
    add_piece(out, start, at);
  }
}

static void split_by(dp_view text, dp_view separator, int64_t most, pieces *out) {
  const char *at = text.data, *end = text.data + text.length;
  if (most == 0) {
    add_piece(out, at, end);
    return;
  }
  if (separator.length == 0) {
    split_at_spaces(text, most, out);
    return;
  }
  for (int64_t splits = 0; most < 0 || splits < most; ++splits) {
    const char *found = memmem(at, (size_t)(end - at), separator.data, separator.length);
    if (!found)
      break;
    add_piece(out, at, found);
    at = found + separator.length;
  }
  add_piece(out, at, end);
}

/* ---- As a sparse tensor ---- */
static dp_status *output_sparse(dp_op_context *context, const pieces *found, int64_t rows) {
  int64_t count = (int64_t)found->views.count, widest = 0, at = 0;
  dp_shape matrix = dp_shape_matrix(count, 2), vector = dp_shape_vector(count);
  dp_shape pair = dp_shape_vector(2);
  dp_tensor *indices, *values, *shape;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &matrix, &indices));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 1, &vector, &values));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 2, &pair, &shape));
  int64_t *index = indices->data;
  for (int64_t i = 0; i < rows; ++i) {
    widest = found->counts[i] > widest ? found->counts[i] : widest;
    for (int64_t k = 0; k < found->counts[i]; ++k, ++at) {
      index[2 * at] = i;
      index[2 * at + 1] = k;
      DP_RETURN_IF_ERROR(dp_tstring_assign(&dp_tensor_strings(values)[at],
                                           found->views.items[at].data,
                                           found->views.items[at].length));
    }
  }
  ((int64_t *)shape->data)[0] = rows;
  ((int64_t *)shape->data)[1] = widest;
  return NULL;
}

typedef struct split_state {
  bool is_first_version, skips_empty;
  int64_t most;
} split_state;

static dp_status *split_create(const dp_kernel_setup *setup, void *memory) {
  split_state *state = memory;
  state->is_first_version = dp_node_is(setup->node, "StringSplit");
  return state->is_first_version ? dp_node_get_bool(setup->node, "skip_empty", &state->skips_empty)
                                 : dp_node_get_int(setup->node, "maxsplit", &state->most);
}

static dp_status *split_compute(dp_op_context *context, void *memory) {
  const split_state *state = memory;
  const dp_tensor *input = dp_op_input(context, 0), *delimiter = dp_op_input(context, 1);
  if (input->shape.rank != 1)
    return DP_INVALID("input must be a vector, got shape: %s", dp_shape_text(&input->shape));
  if (delimiter->shape.rank != 0)
    return DP_INVALID("%s must be a scalar, got shape: %s",
                      state->is_first_version ? "delimiter" : "sep",
                      dp_shape_text(&delimiter->shape));
  dp_view separator = dp_string_at(delimiter, 0);
  delimiter_set delimiters;
  read_delimiters(separator, &delimiters);
  int64_t rows = input->shape.elements;
  pieces found = {.counts = DP_NEW_ARRAY(int64_t, (size_t)rows + 1)};
  for (int64_t i = 0; i < rows; ++i) {
    size_t before = found.views.count;
    if (state->is_first_version)
      split_by_set(dp_string_at(input, i), &delimiters, state->skips_empty, &found);
    else
      split_by(dp_string_at(input, i), separator, state->most, &found);
    found.counts[i] = (int64_t)(found.views.count - before);
  }
  dp_status *status = output_sparse(context, &found, rows);
  DP_ARRAY_FREE(&found.views);
  dp_free(found.counts);
  return status;
}

/* ---- N-grams ---- */
typedef struct ngram_state {
  char *separator, *left, *right;
  int64_t pad_width;
  bool keeps_short;
  int32_t width_count;
  int64_t *widths;
} ngram_state;

static dp_status *read_text(const dp_node *node, const char *name, char **text_out) {
  dp_view view;
  DP_RETURN_IF_ERROR(dp_node_get_string(node, name, &view));
  *text_out = dp_strndup(view.data, view.length);
  return NULL;
}

static dp_status *ngram_create(const dp_kernel_setup *setup, void *memory) {
  ngram_state *state = memory;
  const dp_node *node = setup->node;
  const dp_attr *widths;
  DP_RETURN_IF_ERROR(read_text(node, "separator", &state->separator));
  DP_RETURN_IF_ERROR(read_text(node, "left_pad", &state->left));
  DP_RETURN_IF_ERROR(read_text(node, "right_pad", &state->right));
  DP_RETURN_IF_ERROR(dp_node_get_int(node, "pad_width", &state->pad_width));
  DP_RETURN_IF_ERROR(dp_node_get_bool(node, "preserve_short_sequences", &state->keeps_short));
  DP_RETURN_IF_ERROR(dp_node_get_list(node, "ngram_widths", DP_ATTR_LIST_INT, &widths));
  state->width_count = widths->count;
  state->widths = DP_NEW_ARRAY(int64_t, (size_t)widths->count + 1);
  for (int32_t i = 0; i < widths->count; ++i)
    state->widths[i] = widths->integers[i];
  return NULL;
}

static void ngram_destroy(void *memory) {
  ngram_state *state = memory;
  dp_free(state->separator);
  dp_free(state->left);
  dp_free(state->right);
  dp_free(state->widths);
}

static int64_t pad_of(const ngram_state *state, int64_t width) {
  return state->pad_width < 0 || state->pad_width > width - 1 ? width - 1 : state->pad_width;
}

static dp_status *count_ngrams(const ngram_state *state, int64_t length, int64_t width,
                               int64_t *count_out) {
  int64_t pad = pad_of(state, width);
  if (pad > INT32_MAX / 2 - length)
    return DP_INVALID("Pad width could lead to integer overflow, got pad_width = %lld",
                      (long long)pad);
  int64_t count = length + 2 * pad - width + 1;
  *count_out = count < 0 ? 0 : count;
  return NULL;
}

static dp_status *count_row(const ngram_state *state, int64_t length, int64_t *count_out) {
  int64_t total = 0, count;
  for (int32_t i = 0; i < state->width_count; ++i) {
    DP_RETURN_IF_ERROR(count_ngrams(state, length, state->widths[i], &count));
    total += count;
  }
  if (state->keeps_short && length > 0 && total == 0)
    total = 1;
  *count_out = total;
  return NULL;
}

/* N-gram `index` of `count` over the row's tokens. */
static dp_status *write_ngram(const ngram_state *state, const dp_tensor *data, int64_t first,
                              int64_t width, int64_t index, int64_t count, dp_tstring *output) {
  int64_t pad = pad_of(state, width);
  int64_t left = pad - index > 0 ? pad - index : 0;
  int64_t right = pad - (count - index - 1) > 0 ? pad - (count - index - 1) : 0;
  int64_t tokens = width - left - right, start = first + (left > 0 ? 0 : index - pad);
  dp_text text = {0};
  for (int64_t i = 0; i < left; ++i) {
    dp_text_add(&text, state->left);
    dp_text_add(&text, state->separator);
  }
  for (int64_t i = 0; i < tokens; ++i) {
    dp_view token = dp_string_at(data, start + i);
    dp_text_append(&text, token.data, token.length);
    if (i + 1 < tokens)
      dp_text_add(&text, state->separator);
  }
  for (int64_t i = 0; i < right; ++i) {
    if (i > 0 || tokens > 0)
      dp_text_add(&text, state->separator);
    dp_text_add(&text, state->right);
  }
  dp_status *status = dp_tstring_assign(output, dp_text_string(&text), text.length);
  dp_text_deinit(&text);
  return status;
}

static dp_status *write_row(const ngram_state *state, const dp_tensor *data, int64_t first,
                            int64_t length, dp_tstring *output) {
  int64_t written = 0, count;
  for (int32_t i = 0; i < state->width_count; ++i) {
    DP_RETURN_IF_ERROR(count_ngrams(state, length, state->widths[i], &count));
    for (int64_t k = 0; k < count; ++k)
      DP_RETURN_IF_ERROR(
          write_ngram(state, data, first, state->widths[i], k, count, &output[written++]));
  }
  if (!state->keeps_short || written > 0 || length == 0)
    return NULL;
  if (state->pad_width < 0)
    return DP_INVALID("Pad width should be >= 0 when preserve_short_sequences is True and "
                      "ngram_widths are not provided, got %lld",
                      (long long)state->pad_width);
  return write_ngram(state, data, first, length + 2 * state->pad_width, 0, 1, output);
}

static dp_status *check_ngrams(const ngram_state *state, const dp_tensor *data,
                               const dp_tensor *splits) {
  for (int32_t i = 0; i < state->width_count; ++i)
    if (state->widths[i] <= 0)
      return DP_INVALID("ngram_widths must contain positive values");
  int64_t size = data->shape.elements, previous = 0;
  for (int64_t i = 0; i < splits->shape.elements; ++i) {
    int64_t split = dp_tensor_int_at(splits, i);
    if (i == 0 && split != 0)
      return DP_INVALID("First split value must be 0, got %lld", (long long)split);
    if (split < previous || split > size)
      return DP_INVALID("Invalid split value %lld, must be in [%lld, %lld]", (long long)split,
                        (long long)previous, (long long)size);
    previous = split;
  }
  if (splits->shape.elements > 0 && previous != size)
    return DP_INVALID("Last split value must be data size. Expected %lld, got %lld",
                      (long long)size, (long long)previous);
  return NULL;
}

static dp_status *ngram_compute(dp_op_context *context, void *memory) {
  const ngram_state *state = memory;
  const dp_tensor *data = dp_op_input(context, 0), *splits = dp_op_input(context, 1);
  DP_RETURN_IF_ERROR(check_ngrams(state, data, splits));
  dp_tensor *ngrams, *ends;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 1, &splits->shape, &ends));
  int64_t rows = splits->shape.elements - 1, total = 0, count;
  if (data->shape.elements == 0 || rows < 0) {
    for (int64_t i = 0; i <= rows; ++i)
      dp_tensor_set_int(ends, i, 0);
    return dp_op_allocate(context, 0, &data->shape, &ngrams);
  }
  dp_tensor_set_int(ends, 0, 0);
  for (int64_t i = 0; i < rows; ++i) {
    int64_t length = dp_tensor_int_at(splits, i + 1) - dp_tensor_int_at(splits, i);
    DP_RETURN_IF_ERROR(count_row(state, length, &count));
    total += count;
    dp_tensor_set_int(ends, i + 1, total);
  }
  dp_shape shape = dp_shape_vector(total);
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &ngrams));
  for (int64_t i = 0; i < rows; ++i) {
    int64_t first = dp_tensor_int_at(splits, i), length = dp_tensor_int_at(splits, i + 1) - first;
    DP_RETURN_IF_ERROR(write_row(state, data, first, length,
                                 dp_tensor_strings(ngrams) + dp_tensor_int_at(ends, i)));
  }
  return NULL;
}

/* clang-format off */
#define SPLIT(name)                                                                                \
  {.op = name, .state_size = sizeof(split_state), .create = split_create, .compute = split_compute}

static const dp_kernel rows[] = {
    SPLIT("StringSplit"), SPLIT("StringSplitV2"),
    {.op = "StringNGrams", .state_size = sizeof(ngram_state), .create = ngram_create,
     .compute = ngram_compute, .destroy = ngram_destroy},
};
/* clang-format on */
DP_KERNEL_FAMILY(string_split, rows);
