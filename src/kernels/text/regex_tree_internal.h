/* The tree of a parsed pattern: made by regex_parse.c, read by regex_compile.c. All nodes live in
 * the arena of one compilation, on one thread. */
#ifndef DP_KERNELS_TEXT_REGEX_TREE_INTERNAL_H
#define DP_KERNELS_TEXT_REGEX_TREE_INTERNAL_H

#include "base/arena.h"
#include "kernels/text/regex_program_internal.h"

#define DP_REGEX_MAX_PROGRAM 100000

typedef enum dp_regex_kind {
  EMPTY,
  SET,
  CONCAT,
  ALTERNATE,
  REPEAT,
  GROUP,
  ASSERTION
} dp_regex_kind;

typedef struct dp_regex_node {
  dp_regex_kind kind;
  int32_t index;               /* of a set, of a group (-1: not captured), of an assertion */
  struct dp_regex_node *a, *b; /* children; lists are pairs that lean to the left */
  int32_t minimum;             /* of a repetition */
  int32_t maximum;             /* -1: unlimited */
  int32_t copies;              /* copies of the innermost part: the product of nested counts */
  bool is_lazy;
} dp_regex_node;

/* The tree is in the arena; the sets and the number of groups go to `regex`. */
DP_MUST_USE dp_status *dp_regex_parse(dp_view pattern, dp_regex *regex, dp_arena *arena,
                                      const dp_regex_node **tree_out);

#endif
