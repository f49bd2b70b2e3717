/* Sets of code points for patterns: ranges, Perl's and POSIX's named classes, complements. Ranges
 * are collected in any order; dp_regex_set_finish sorts them and joins those that overlap or
 * touch. */
#include "kernels/text/regex_program_internal.h"

#include <stdlib.h>
#include <string.h>

#define LAST_POINT 0x10ffffu

void dp_regex_set_add(dp_regex_set *set, uint32_t low, uint32_t high, bool folds) {
  if (low > high)
    return;
  DP_ARRAY_PUSH(set, ((dp_regex_range){low, high}));
  if (folds)
    dp_regex_set_add_cases(set, low, high);
}

static int compare_ranges(const void *a, const void *b) {
  const dp_regex_range *x = a, *y = b;
  return x->low < y->low ? -1 : x->low > y->low;
}

static void sort_and_join(dp_regex_set *set) {
  if (set->count == 0)
    return;
  qsort(set->items, set->count, sizeof(dp_regex_range), compare_ranges);
  size_t kept = 1;
  for (size_t i = 1; i < set->count; ++i) {
    dp_regex_range *last = &set->items[kept - 1], next = set->items[i];
    if (next.low <= last->high + 1)
      last->high = next.high > last->high ? next.high : last->high;
    else
      set->items[kept++] = next;
  }
  set->count = kept;
}

static void negate(dp_regex_set *set) {
  dp_regex_set inverse = {0};
  uint32_t next = 0;
  for (size_t i = 0; i < set->count; ++i) {
    if (set->items[i].low > next)
      DP_ARRAY_PUSH(&inverse, ((dp_regex_range){next, set->items[i].low - 1}));
    next = set->items[i].high + 1;
  }
  if (next <= LAST_POINT)
    DP_ARRAY_PUSH(&inverse, ((dp_regex_range){next, LAST_POINT}));
  DP_ARRAY_FREE(set);
  *set = inverse;
}

void dp_regex_set_finish(dp_regex_set *set, bool negated) {
  sort_and_join(set);
  if (negated)
    negate(set);
}

bool dp_regex_set_has(const dp_regex_set *set, uint32_t point) {
  size_t low = 0, high = set->count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (point > set->items[middle].high)
      low = middle + 1;
    else
      high = middle;
  }
  return low < set->count && set->items[low].low <= point;
}

void dp_regex_set_add_all(dp_regex_set *set, const dp_regex_range *ranges, size_t count, bool folds,
                          bool negated) {
  dp_regex_set own = {0};
  for (size_t i = 0; i < count; ++i)
    dp_regex_set_add(&own, ranges[i].low, ranges[i].high, folds);
  dp_regex_set_finish(&own, negated);
  for (size_t i = 0; i < own.count; ++i)
    DP_ARRAY_PUSH(set, own.items[i]);
  DP_ARRAY_FREE(&own);
}

/* ---- Classes by name ---- */
typedef struct named_class {
  const char *name;
  size_t count;
  dp_regex_range ranges[4];
} named_class;

static const named_class perl_classes[] = {
    {"d", 1, {{'0', '9'}}},
    {"w", 4, {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}},
    {"s", 3, {{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}}},
};

static const named_class posix_classes[] = {
    {"alnum", 3, {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}},
    {"alpha", 2, {{'A', 'Z'}, {'a', 'z'}}},
    {"ascii", 1, {{0, 127}}},
    {"blank", 2, {{'\t', '\t'}, {' ', ' '}}},
    {"cntrl", 2, {{0, 31}, {127, 127}}},
    {"digit", 1, {{'0', '9'}}},
    {"graph", 1, {{'!', '~'}}},
    {"lower", 1, {{'a', 'z'}}},
    {"print", 1, {{' ', '~'}}},
    {"punct", 4, {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}}},
    {"space", 2, {{'\t', '\r'}, {' ', ' '}}},
    {"upper", 1, {{'A', 'Z'}}},
    {"word", 4, {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}},
    {"xdigit", 3, {{'0', '9'}, {'A', 'F'}, {'a', 'f'}}},
};

bool dp_regex_set_add_perl(dp_regex_set *set, char letter, bool folds) {
  for (size_t i = 0; i < sizeof(perl_classes) / sizeof(*perl_classes); ++i) {
    const named_class *found = &perl_classes[i];
    if ((letter | 0x20) == found->name[0]) {
      dp_regex_set_add_all(set, found->ranges, found->count, folds, letter < 'a');
      return true;
    }
  }
  return false;
}

bool dp_regex_set_add_posix(dp_regex_set *set, dp_view name, bool folds, bool negated) {
  for (size_t i = 0; i < sizeof(posix_classes) / sizeof(*posix_classes); ++i) {
    const named_class *found = &posix_classes[i];
    if (dp_view_equals(name, found->name)) {
      dp_regex_set_add_all(set, found->ranges, found->count, folds, negated);
      return true;
    }
  }
  return false;
}
