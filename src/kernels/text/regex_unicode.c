/* Unicode for patterns: general categories, scripts, and letters that differ only in case. The
 * tables (regex_unicode.inc) are RE2's, as observed from genuine TensorFlow, so that both agree. */
#include "kernels/text/regex_program_internal.h"

typedef struct unicode_class {
  const char *name;
  uint32_t end; /* the end of its ranges in class_ranges */
} unicode_class;

typedef struct case_pair {
  uint32_t letter, other;
} case_pair;

#include "kernels/text/regex_unicode.inc"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

void dp_regex_set_add_cases(dp_regex_set *set, uint32_t low, uint32_t high) {
  size_t begin = 0, end = LENGTH(case_pairs);
  while (begin < end) {
    size_t middle = (begin + end) / 2;
    if (case_pairs[middle].letter < low)
      begin = middle + 1;
    else
      end = middle;
  }
  for (; begin < LENGTH(case_pairs) && case_pairs[begin].letter <= high; ++begin) {
    uint32_t other = case_pairs[begin].other;
    DP_ARRAY_PUSH(set, ((dp_regex_range){other, other}));
  }
}

bool dp_regex_set_add_unicode(dp_regex_set *set, dp_view name, bool folds, bool negated) {
  static const dp_regex_range any = {0, 0x10ffff};
  if (name.length > 0 && name.data[0] == '^') {
    negated = !negated;
    ++name.data;
    --name.length;
  }
  if (dp_view_equals(name, "Any")) {
    dp_regex_set_add_all(set, &any, 1, false, negated);
    return true;
  }
  /* One letter stands for all categories that begin with it; they are adjacent in the table. */
  uint32_t begin = 0, end = 0;
  for (size_t i = 0; i < LENGTH(classes); ++i) {
    bool is_one = dp_view_equals(name, classes[i].name);
    bool is_part = name.length == 1 && classes[i].name[0] == name.data[0] && !classes[i].name[2];
    if (!is_one && !is_part)
      continue;
    if (end == 0)
      begin = i == 0 ? 0 : classes[i - 1].end;
    end = classes[i].end;
  }
  if (end > 0)
    dp_regex_set_add_all(set, class_ranges + begin, end - begin, folds, negated);
  return end > 0;
}
