/* Both directions of one type: the includer defines T, V, VALUE(x), SUFFIX, LOWEST and HIGHEST. */
#define NAME(function) DP_PASTE(largest, DP_PASTE(function, SUFFIX))
#define WORST LOWEST
#define IS_BETTER(a, b) ((a) > (b))
#include "kernels/loops_argmax.tmpl.h"
#undef IS_BETTER

#define NAME(function) DP_PASTE(smallest, DP_PASTE(function, SUFFIX))
#define WORST HIGHEST
#define IS_BETTER(a, b) ((a) < (b))
#include "kernels/loops_argmax.tmpl.h"
#undef IS_BETTER

#undef T
#undef V
#undef VALUE
#undef SUFFIX
#undef LOWEST
#undef HIGHEST
