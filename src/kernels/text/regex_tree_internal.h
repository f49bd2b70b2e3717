/* The tree of a parsed pattern, between regex_parse.c and regex_compile.c. */
#ifndef DP_KERNELS_REGEX_TREE_INTERNAL_H
#define DP_KERNELS_REGEX_TREE_INTERNAL_H

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
  int32_t index;               /* of a set, a group (-1: none), an assertion */
  struct dp_regex_node *a, *b; /* children: pairs make lists, which lean to the left */
  int32_t minimum;             /* of a repetition */
  int32_t maximum;             /* -1: none */
  int32_t copies; /* how often the innermost part is written: the product of nested counts */
  bool is_lazy;
} dp_regex_node;

/* The tree, in the arena; sets and the number of groups go to `regex`. */
DP_MUST_USE dp_status *dp_regex_parse(dp_view pattern, dp_regex *regex, dp_arena *arena,
                                      const dp_regex_node **tree_out);

#endif
