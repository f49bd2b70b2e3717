/* Both directions of one type. The includer defines T, V, VALUE(x), SUFFIX, LOWEST and HIGHEST, and
 * for float also HAS_VECTORS where the instruction set can load a part of a vector. */
#define NAME(function) DP_PASTE(largest, DP_PASTE(function, SUFFIX))
#define WORST LOWEST
#define IS_BETTER(a, b) ((a) > (b))
#ifdef HAS_VECTORS
#define BETTER_OF _mm512_max_ps
#define BEST_OF _mm512_reduce_max_ps
#endif
#include "kernels/loops/argmax.tmpl.h"
#undef IS_BETTER
#undef BETTER_OF
#undef BEST_OF

#define NAME(function) DP_PASTE(smallest, DP_PASTE(function, SUFFIX))
#define WORST HIGHEST
#define IS_BETTER(a, b) ((a) < (b))
#ifdef HAS_VECTORS
#define BETTER_OF _mm512_min_ps
#define BEST_OF _mm512_reduce_min_ps
#endif
#include "kernels/loops/argmax.tmpl.h"
#undef IS_BETTER
#undef BETTER_OF
#undef BEST_OF

#undef T
#undef V
#undef VALUE
#undef SUFFIX
#undef LOWEST
#undef HIGHEST
