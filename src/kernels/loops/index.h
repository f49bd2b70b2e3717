/* Loops over vectors of indices of int32 or int64; one table for each instruction set. */
#ifndef DP_KERNELS_LOOPS_INDEX_INTERNAL_H
#define DP_KERNELS_LOOPS_INDEX_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include "kernels/isa/isa.h"

typedef enum dp_index_order {
  DP_INDEX_UNSORTED,
  DP_INDEX_REPEATS,
  DP_INDEX_INCREASES
} dp_index_order;

/* A sparse matrix of two columns of indices times the columns [begin, end) of a dense one with
 * contiguous rows, added to the result; row m of an entry is in index column `row_column`, row k in
 * the other. */
typedef struct dp_index_product {
  const void *indices, *values, *b;
  void *to;
  int64_t entries, columns; /* columns: of b and of the result */
  int64_t begin, end;
  int row_column;
} dp_index_product;

typedef struct dp_index_loops {
  /* Whether all are in [0, limit). */
  bool (*in_range)(const void *indices, int64_t count, int64_t limit);
  dp_index_order (*order)(const void *indices, int64_t count);
  /* Row i of `from` goes to row indices[i] of `to`; the last of equal indices counts. Rows have
   * `bytes` bytes. */
  void (*scatter)(void *to, const void *from, const void *indices, int64_t count, int64_t bytes);
  /* to[indices[i]] = i, in the type of the indices, where `to` is all -1; false when they are no
   * permutation of [0, count). */
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
