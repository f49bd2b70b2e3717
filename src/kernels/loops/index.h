/* Loops over arrays of int32 or int64 indices: checking their range and order, moving rows by
 * index, inverting permutations, multiplying a sparse with a dense matrix. One table for each
 * instruction set. Only in_range and invert check the indices; the other loops trust them. */
#ifndef DP_KERNELS_LOOPS_INDEX_H
#define DP_KERNELS_LOOPS_INDEX_H

#include <stdbool.h>
#include <stdint.h>
#include "kernels/isa/isa.h"

typedef enum dp_index_order {
  DP_INDEX_UNSORTED,
  DP_INDEX_REPEATS,
  DP_INDEX_INCREASES
} dp_index_order;

/* A sparse matrix times the columns [begin, end) of a dense matrix b with contiguous rows, added to
 * the result. Entry i has two indices: indices[2 * i + row_column] is its row in the result, and
 * the second index is its row in b. */
typedef struct dp_index_product {
  const void *indices, *values, *b;
  void *to;
  int64_t entries, columns; /* columns: of b and of the result */
  int64_t begin, end;
  int row_column;
} dp_index_product;

typedef struct dp_index_loops {
  /* Whether all indices are in [0, limit). */
  bool (*in_range)(const void *indices, int64_t count, int64_t limit);
  dp_index_order (*order)(const void *indices, int64_t count);
  /* Copies row i of `from` to row indices[i] of `to`; with equal indices the last row counts. A row
   * has `bytes` bytes. */
  void (*scatter)(void *to, const void *from, const void *indices, int64_t count, int64_t bytes);
  /* to[indices[i]] = i, in the type of the indices. The caller fills `to` with -1 before. False
   * when the indices are not a permutation of [0, count). */
  bool (*invert)(void *to, const void *indices, int64_t count);
  void (*multiply_float)(const dp_index_product *product);
  void (*multiply_double)(const dp_index_product *product);
} dp_index_loops;

typedef struct dp_index_tables {
  dp_index_loops int32, int64;
} dp_index_tables;
DP_ISA_TABLE(dp_index_tables, dp_index_table)

static inline const dp_index_loops *dp_index_loops_of(bool is_int32) {
  return is_int32 ? &dp_index_table()->int32 : &dp_index_table()->int64;
}

#endif
