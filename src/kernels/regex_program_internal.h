/* The program of a compiled pattern, between regex_compile.c and regex_match.c. */
#ifndef DP_KERNELS_REGEX_PROGRAM_INTERNAL_H
#define DP_KERNELS_REGEX_PROGRAM_INTERNAL_H

#include "base/memory.h"
#include "kernels/regex_internal.h"

typedef enum dp_regex_op {
  DP_REGEX_SET,    /* one code point of set `set` */
  DP_REGEX_SPLIT,  /* both `next` and, with less priority, `other` */
  DP_REGEX_SAVE,   /* position goes to slot `set` */
  DP_REGEX_ASSERT, /* only where `set` (an assertion) holds */
  DP_REGEX_MATCH,
} dp_regex_op;

typedef enum dp_regex_assertion {
  DP_REGEX_BEGIN_TEXT,
  DP_REGEX_END_TEXT,
  DP_REGEX_BEGIN_LINE,
  DP_REGEX_END_LINE,
  DP_REGEX_WORD,     /* \b */
  DP_REGEX_NOT_WORD, /* \B */
} dp_regex_assertion;

typedef struct dp_regex_instruction {
  dp_regex_op op;
  int32_t next, other, set;
} dp_regex_instruction;

/* Ranges of code points, in rising order, that do not touch. */
typedef struct dp_regex_range {
  uint32_t low, high;
} dp_regex_range;
typedef DP_ARRAY(dp_regex_range) dp_regex_set;

struct dp_regex {
  DP_ARRAY(dp_regex_instruction) program;
  DP_ARRAY(dp_regex_set) sets;
  int32_t start;
  int groups;
};

/* ---- regex_set.c: a set is added to, then finished, then asked. With `folds`, letters come with
 * all that differ from them only in case; `negated` takes the complement after that. ---- */
void dp_regex_set_add(dp_regex_set *set, uint32_t low, uint32_t high, bool folds);
void dp_regex_set_add_all(dp_regex_set *set, const dp_regex_range *ranges, size_t count, bool folds,
                          bool negated);
/* Adds \d, \w, \s (by their letter, which may be upper case for the complement). False for other
 * letters. */
bool dp_regex_set_add_perl(dp_regex_set *set, char letter, bool folds);
/* Adds [:name:]; false when there is none of that name. */
bool dp_regex_set_add_posix(dp_regex_set *set, dp_view name, bool folds, bool negated);
/* Puts the ranges in order. */
void dp_regex_set_finish(dp_regex_set *set, bool negated);
bool dp_regex_set_has(const dp_regex_set *set, uint32_t point);

/* ---- regex_unicode.c ---- */
/* Adds a general category ("Lu"), a script ("Greek") or "Any"; "^" in front negates. */
bool dp_regex_set_add_unicode(dp_regex_set *set, dp_view name, bool folds, bool negated);
/* Adds the letters that differ only in case from those in the range. */
void dp_regex_set_add_cases(dp_regex_set *set, uint32_t low, uint32_t high);

#endif
