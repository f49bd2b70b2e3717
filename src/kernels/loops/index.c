/* Fills the table of index.h. The bodies are in index.tmpl.h, which is included once for int32 and
 * once for int64. Compiled once for each instruction set. */
#include "kernels/loops/index.h"

#include <string.h>

typedef uint32_t unit4 __attribute__((aligned(1), may_alias));
typedef uint64_t unit8 __attribute__((aligned(1), may_alias));
typedef uint64_t unit32 __attribute__((vector_size(32), aligned(1), may_alias));

/* Copies a row in units. The last unit ends at the row's end and overlaps the unit before it, so no
 * loop over single bytes is needed. */
#define COPY_PARTS(unit)                                                                           \
  do {                                                                                             \
    const int64_t size = (int64_t)sizeof(unit);                                                    \
    for (int64_t i = 0; i + size < bytes; i += size)                                               \
      *(unit *)(to + i) = *(const unit *)(from + i);                                               \
    *(unit *)(to + bytes - size) = *(const unit *)(from + bytes - size);                           \
  } while (0)

static inline void copy_row(char *to, const char *from, int64_t bytes) {
  if (bytes >= 512)
    memcpy(to, from, (size_t)bytes);
  else if (bytes >= 32)
    COPY_PARTS(unit32);
  else if (bytes >= 8)
    COPY_PARTS(unit8);
  else if (bytes >= 4)
    COPY_PARTS(unit4);
  else
    for (int64_t i = 0; i < bytes; ++i)
      to[i] = from[i];
}

#define INDEX int32_t
#define UNSIGNED uint32_t
#define LARGEST INT32_MAX
#define NAME(x) x##_int32
#include "kernels/loops/index.tmpl.h"
#define INDEX int64_t
#define UNSIGNED uint64_t
#define LARGEST INT64_MAX
#define NAME(x) x##_int64
#include "kernels/loops/index.tmpl.h"

const dp_index_tables DP_ISA_SYMBOL(dp_index_table) = {
    {in_range_int32, order_int32, scatter_int32, invert_int32, multiply_float_int32,
     multiply_double_int32},
    {in_range_int64, order_int64, scatter_int64, invert_int64, multiply_float_int64,
     multiply_double_int64},
};
