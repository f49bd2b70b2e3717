/* Upper and lower case of UTF-8 texts: ICU's full mappings, in which one letter may become several,
 * and a sigma at the end of a word has its own form. The tables (unicode_case.inc) were taken from
 * genuine TensorFlow's answers, so the machine's locale does not matter. No state, any thread. */
#include "kernels/text/unicode.h"

#include <string.h>

typedef struct case_run {
  uint32_t first, last;
  int32_t step, delta;
} case_run;

typedef struct case_expansion {
  uint32_t from, to[3];
} case_expansion;

#include "kernels/text/unicode_case.inc"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const case_run *find_run(const case_run *runs, size_t count, uint32_t point) {
  size_t begin = 0, end = count;
  while (begin < end) {
    size_t middle = (begin + end) / 2;
    if (runs[middle].last < point)
      begin = middle + 1;
    else
      end = middle;
  }
  bool is_in = begin < count && runs[begin].first <= point &&
               (point - runs[begin].first) % (uint32_t)runs[begin].step == 0;
  return is_in ? &runs[begin] : NULL;
}

static const case_expansion *find_expansion(bool is_upper, uint32_t point) {
  const case_expansion *all = is_upper ? upper_expansions : lower_expansions;
  size_t count = is_upper ? COUNT(upper_expansions) : COUNT(lower_expansions);
  for (size_t i = 0; point >= all[0].from && i < count; ++i)
    if (all[i].from == point)
      return &all[i];
  return NULL;
}

static const case_run *run_of(bool is_upper, uint32_t point) {
  return is_upper ? find_run(upper_runs, COUNT(upper_runs), point)
                  : find_run(lower_runs, COUNT(lower_runs), point);
}

static bool is_cased(uint32_t point) {
  return run_of(true, point) || run_of(false, point) || find_expansion(true, point);
}

/* Marks and punctuation that do not end a word. */
static bool is_passed_over(uint32_t point) {
  return (point >= 0x300 && point <= 0x36f) || point == '\'' || point == '.' || point == ':' ||
         point == 0xad || point == 0xb7 || point == 0x2018 || point == 0x2019;
}

/* Whether the next letter of the text has upper and lower case. */
static bool goes_on(dp_view rest) {
  uint32_t point;
  while (rest.length > 0) {
    if (!dp_utf8_next(&rest, &point))
      return false;
    if (!is_passed_over(point))
      return is_cased(point);
  }
  return false;
}

static void append_changed(dp_text *text, bool is_upper, uint32_t point) {
  const case_expansion *more = find_expansion(is_upper, point);
  const case_run *run = run_of(is_upper, point);
  for (int i = 0; more && i < 3 && more->to[i]; ++i)
    dp_utf8_append(text, more->to[i]);
  if (!more)
    dp_utf8_append(text, run ? (uint32_t)((int64_t)point + run->delta) : point);
}

void dp_utf8_change_case(dp_view input, bool is_upper, dp_text *text) {
  const uint32_t sigma = 0x3a3, final_sigma = 0x3c2;
  bool is_in_word = false;
  input.length = strnlen(input.data, input.length);
  while (input.length > 0) {
    uint32_t point;
    if (!dp_utf8_next(&input, &point))
      point = 0xfffd;
    if (!is_upper && point == sigma && is_in_word && !goes_on(input))
      dp_utf8_append(text, final_sigma);
    else
      append_changed(text, is_upper, point);
    is_in_word = is_passed_over(point) ? is_in_word : is_cased(point);
  }
}
