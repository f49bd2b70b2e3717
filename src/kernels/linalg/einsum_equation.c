/* Reads the equation of an Einsum: one or two inputs, "->", the output, each with at most one
 * "...". Error texts are TensorFlow's. */
#include "kernels/linalg/einsum_internal.h"

#include <string.h>

/* Every character but the period is a label, also a space. Those up to DP_MAX_RANK are refused:
 * they name the dimensions of an ellipsis below. */
static dp_status *read_subscript(dp_view text, subscript *subscript_out) {
  subscript found = {.ellipsis = -1};
  int periods = 0;
  for (size_t i = 0; i < text.length; ++i) {
    unsigned char c = (unsigned char)text.data[i];
    if (c == '.') {
      found.ellipsis = found.count;
      for (++periods; i + 1 < text.length && text.data[i + 1] == '.' && periods % 3 != 0; ++i)
        ++periods;
      continue;
    }
    if (c <= DP_MAX_RANK)
      return DP_INVALID("The byte %d cannot be a label of an einsum equation", c);
    if (found.count == DP_MAX_RANK)
      return DP_INVALID("The subscript %.*s has too many labels", (int)text.length, text.data);
    found.labels[found.count++] = (char)c;
  }
  if (periods != 0 && periods != 3)
    return DP_INVALID("Expected at most one ellipsis (...), but found %d periods (.) in the input "
                      "subscript: %.*s",
                      periods, (int)text.length, text.data);
  *subscript_out = found;
  return NULL;
}

static bool has_label(const subscript *subscript, char label) {
  return memchr(subscript->labels, label, (size_t)subscript->count) != NULL;
}

static dp_status *check_output(const einsum_state *state, dp_view equation) {
  for (int k = 0; k < state->output.count; ++k) {
    char label = state->output.labels[k];
    if (!has_label(&state->inputs[0], label) && !has_label(&state->inputs[1], label))
      return DP_INVALID("Einsum output subscripts for equation '%.*s' has label '%c' which is not "
                        "present in the input subscripts",
                        (int)equation.length, equation.data, label);
  }
  return NULL;
}

/* What stands on both sides of the first arrow; there may be one arrow only. */
static dp_status *split_equation(dp_view equation, dp_view *inputs_out, dp_view *output_out) {
  size_t at = 0, arrows = 0;
  for (size_t i = 0; i + 1 < equation.length; ++i)
    if (equation.data[i] == '-' && equation.data[i + 1] == '>') {
      at = i++;
      ++arrows;
    }
  if (arrows != 1)
    return DP_INVALID("Expecting exactly one '->' in einsum equation: %.*s", (int)equation.length,
                      equation.data);
  *inputs_out = (dp_view){equation.data, at};
  *output_out = (dp_view){equation.data + at + 2, equation.length - at - 2};
  return NULL;
}

dp_status *dp_einsum_read(dp_view equation, einsum_state *state) {
  dp_view inputs, output;
  DP_RETURN_IF_ERROR(split_equation(equation, &inputs, &output));
  int count = 1;
  for (size_t i = 0; i < inputs.length; ++i)
    count += inputs.data[i] == ',';
  if (count > 2)
    return DP_INVALID("Expecting 1 or 2 input subscripts in equation '%.*s' but got: %d",
                      (int)equation.length, equation.data, count);
  if (state->input_count != count)
    return DP_INVALID("Expected %d inputs for equation %.*s but got: %d", count,
                      (int)equation.length, equation.data, state->input_count);
  dp_view first = inputs;
  if (count == 2) {
    const char *comma = memchr(inputs.data, ',', inputs.length);
    first.length = (size_t)(comma - inputs.data);
    dp_view second = {comma + 1, inputs.length - first.length - 1};
    DP_RETURN_IF_ERROR(read_subscript(second, &state->inputs[1]));
  }
  DP_RETURN_IF_ERROR(read_subscript(first, &state->inputs[0]));
  DP_RETURN_IF_ERROR(read_subscript(output, &state->output));
  return check_output(state, equation);
}
