/* For the string kernels (string.h): a parallel loop over all elements of a string tensor, parsing
 * of numbers, and SipHash. If several elements fail, the loop reports one of the errors. */
#include "kernels/text/string.h"

#include <stdatomic.h>
#include <string.h>

/* ---- Every element ---- */
typedef struct map_work {
  const dp_tensor *input;
  const dp_tensor *output;
  dp_string_fn fn;
  const void *state;
  _Atomic(dp_status *) failure;
} map_work;

static void map_range(void *arg, int64_t begin, int64_t end) {
  map_work *work = arg;
  dp_text text = {0};
  dp_status *status = NULL;
  for (int64_t i = begin; i < end && !status; ++i) {
    dp_text_clear(&text);
    status = work->fn(work->state, dp_string_at(work->input, i), &text);
    if (!status)
      status = dp_tstring_assign(&dp_tensor_strings(work->output)[i], dp_text_string(&text),
                                 text.length);
  }
  dp_text_deinit(&text);
  dp_status *none = NULL;
  if (status && !atomic_compare_exchange_strong(&work->failure, &none, status))
    dp_status_release(status);
}

dp_status *dp_string_map(dp_op_context *context, dp_string_fn fn, const void *state) {
  const dp_tensor *input = dp_op_input(context, 0);
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &input->shape, &output));
  map_work work = {input, output, fn, state, NULL};
  dp_op_for(context, input->shape.elements, 200, map_range, &work);
  return work.failure;
}

/* ---- Numbers ---- */
static bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

dp_view dp_string_trim(dp_view text) {
  while (text.length > 0 && is_space(text.data[0])) {
    ++text.data;
    --text.length;
  }
  while (text.length > 0 && is_space(text.data[text.length - 1]))
    --text.length;
  return text;
}

static bool to_integer(dp_view text, dp_dtype dtype, void *number_out) {
  int64_t number;
  uint64_t natural;
  switch (dtype) {
  case DP_INT32:
    if (!dp_parse_int64(text, &number) || number != (int32_t)number)
      return false;
    *(int32_t *)number_out = (int32_t)number;
    return true;
  case DP_INT64:
    return dp_parse_int64(text, number_out);
  case DP_UINT32:
    if (!dp_parse_uint64(text, &natural) || natural != (uint32_t)natural)
      return false;
    *(uint32_t *)number_out = (uint32_t)natural;
    return true;
  default:
    return dp_parse_uint64(text, number_out);
  }
}

/* Parses "0x1f" as a floating number. */
static bool parse_hexadecimal(dp_view text, double *number_out) {
  double number = 0;
  bool is_negative = text.length > 0 && text.data[0] == '-';
  size_t at = is_negative || (text.length > 0 && text.data[0] == '+');
  if (text.length < at + 3 || text.data[at] != '0' || (text.data[at + 1] | 0x20) != 'x')
    return false;
  for (at += 2; at < text.length; ++at) {
    char c = text.data[at];
    int digit = c >= '0' && c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
    if (digit < 0 || digit > 15)
      return false;
    number = number * 16 + digit;
  }
  *number_out = is_negative ? -number : number;
  return true;
}

bool dp_string_to_number(dp_view text, dp_dtype dtype, void *number_out) {
  text = dp_string_trim(text);
  if (dtype != DP_FLOAT && dtype != DP_DOUBLE)
    return to_integer(text, dtype, number_out);
  if (dtype == DP_FLOAT && dp_parse_float(text, number_out))
    return true;
  double number;
  if (!dp_parse_double(text, &number) && !parse_hexadecimal(text, &number))
    return false;
  if (dtype == DP_DOUBLE)
    *(double *)number_out = number;
  else
    *(float *)number_out = (float)number;
  return true;
}

/* ---- Hashes ---- */
/* SipHash-2-4. */
static inline uint64_t rotate(uint64_t value, int bits) {
  return value << bits | value >> (64 - bits);
}

static void sip_rounds(uint64_t v[4], int count) {
  for (int i = 0; i < count; ++i) {
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] = rotate(v[0], 32) + v[3];
    v[2] += v[1];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[2] = rotate(v[2], 32);
  }
}

uint64_t dp_string_strong_hash(const uint64_t key[2], dp_view text) {
  uint64_t v[4] = {key[0] ^ 0x736f6d6570736575ULL, key[1] ^ 0x646f72616e646f6dULL,
                   key[0] ^ 0x6c7967656e657261ULL, key[1] ^ 0x7465646279746573ULL};
  size_t whole = text.length / 8 * 8;
  uint64_t word = 0;
  for (size_t i = 0; i <= whole; i += 8) {
    if (i < whole) {
      memcpy(&word, text.data + i, 8);
    } else {
      word = (uint64_t)text.length << 56;
      for (size_t k = whole; k < text.length; ++k)
        word |= (uint64_t)(uint8_t)text.data[k] << 8 * (k - whole);
    }
    v[3] ^= word;
    sip_rounds(v, 2);
    v[0] ^= word;
  }
  v[2] ^= 0xff;
  sip_rounds(v, 4);
  return v[0] ^ v[1] ^ v[2] ^ v[3];
}
