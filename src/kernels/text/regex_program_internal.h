/* The program of a compiled pattern: written by regex_compile.c, run by regex_match.c and
 * regex_table.c. Also the functions for sets of code points. A program never changes once it is
 * compiled, so any number of threads may read it; the dp_regex owns everything. */
#ifndef DP_KERNELS_TEXT_REGEX_PROGRAM_INTERNAL_H
#define DP_KERNELS_TEXT_REGEX_PROGRAM_INTERNAL_H

#include "base/memory.h"
#include "kernels/text/regex.h"

typedef enum dp_regex_op {
  DP_REGEX_SET,    /* one code point of set `set` */
  DP_REGEX_SPLIT,  /* goes to `next` and, with lower priority, to `other` */
  DP_REGEX_SAVE,   /* stores the position in slot `set` */
  DP_REGEX_ASSERT, /* goes on only where assertion `set` holds */
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

/* A set is ranges of code points, in increasing order, with gaps between them. */
typedef struct dp_regex_range {
  uint32_t low, high;
} dp_regex_range;
typedef DP_ARRAY(dp_regex_range) dp_regex_set;

#define DP_REGEX_MOST_STATES 64

typedef struct dp_regex_table {
  int state_count, class_count;
  uint8_t class_of[128]; /* by byte */
  bool accepts[DP_REGEX_MOST_STATES];
  uint8_t next[DP_REGEX_MOST_STATES][128]; /* by class */
} dp_regex_table;

struct dp_regex {
  DP_ARRAY(dp_regex_instruction) program;
  DP_ARRAY(dp_regex_set) sets;
  int32_t start;
  int groups;
  /* Tables for ASCII text; NULL when the pattern has none. */
  dp_regex_table *whole; /* does the whole text match? */
  dp_regex_table *first; /* where does a match that starts here end? */
};

/* ---- regex_table.c ---- */
dp_regex_table *dp_regex_table_create(const dp_regex *regex, bool whole);
bool dp_regex_is_ascii(dp_view text);
bool dp_regex_table_matches(const dp_regex_table *table, dp_view text);
/* Finds the leftmost match at or after `from`: returns 1 and the match, 0 for none, or -1 when the
 * search would take more than linear time. */
int dp_regex_table_find(const dp_regex_table *table, dp_view text, size_t from, dp_view *match_out);

/* ---- regex_set.c ----
 * Add ranges to a set, finish it, then query it. With `folds`, all letters that differ only in
 * case are added too. `negated` takes the complement, after folding. */
void dp_regex_set_add(dp_regex_set *set, uint32_t low, uint32_t high, bool folds);
void dp_regex_set_add_all(dp_regex_set *set, const dp_regex_range *ranges, size_t count, bool folds,
                          bool negated);
/* Adds \d, \w or \s, given by the letter; an upper-case letter means the complement. False for
 * other letters. */
bool dp_regex_set_add_perl(dp_regex_set *set, char letter, bool folds);
/* Adds [:name:]; false when there is no class of that name. */
bool dp_regex_set_add_posix(dp_regex_set *set, dp_view name, bool folds, bool negated);
/* Sorts and joins the ranges. */
void dp_regex_set_finish(dp_regex_set *set, bool negated);
bool dp_regex_set_has(const dp_regex_set *set, uint32_t point);

/* ---- regex_unicode.c ---- */
/* Adds a general category ("Lu"), a script ("Greek") or "Any"; a leading "^" negates. */
bool dp_regex_set_add_unicode(dp_regex_set *set, dp_view name, bool folds, bool negated);
/* Adds all letters that differ only in case from letters in the range. */
void dp_regex_set_add_cases(dp_regex_set *set, uint32_t low, uint32_t high);

#endif
