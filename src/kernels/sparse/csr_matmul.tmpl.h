/* Loops of csr_matmul.c over one type: TYPE, CONJ(x), and NAME(x), which makes a name of its own.
 */

/* Rows [begin, end) of all products of a sparse and a dense matrix, both as they are. */
static void NAME(multiply_rows)(void *arg, int64_t begin, int64_t end) {
  const dense_call *call = arg;
  int64_t width = call->width;
  for (int64_t at = begin; at < end; ++at) {
    int64_t index = at / call->a->rows;
    const int32_t *rows = dp_csr_rows(call->a, index) + at % call->a->rows;
    const int32_t *columns = dp_csr_columns(call->a, index);
    const TYPE *values = dp_csr_values(call->a, index);
    const TYPE *b = (const TYPE *)call->b + index * call->a->columns * width;
    TYPE *to = (TYPE *)call->to + at * width;
    memset(to, 0, (size_t)width * sizeof(TYPE));
    for (int32_t i = rows[0]; i < rows[1]; ++i) {
      const TYPE *from = b + columns[i] * width, factor = values[i];
      for (int64_t j = 0; j < width; ++j)
        to[j] += factor * from[j];
    }
  }
}

/* [rows, columns] to [columns, rows], or only conjugated when `turns` is false. */
static void NAME(copy_dense)(const void *from, void *to, int64_t rows, int64_t columns, bool turns,
                             bool conjugates) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      TYPE value = ((const TYPE *)from)[i * columns + j];
      ((TYPE *)to)[turns ? j * rows + i : i * columns + j] = conjugates ? CONJ(value) : value;
    }
  }
}

/* Fills one row of a product of sparse matrices, whose columns are known and in order. `sums` is
 * all zero before and after. */
static void NAME(fill_row)(const sparse_call *call, int64_t index, int64_t row, void *sums) {
  TYPE *sum = sums, *to = dp_csr_values(call->c, index);
  const int32_t *rows = dp_csr_rows(call->a, index), *columns = dp_csr_columns(call->a, index);
  const int32_t *b_rows = dp_csr_rows(call->b, index), *b_columns = dp_csr_columns(call->b, index);
  const TYPE *a = dp_csr_values(call->a, index), *b = dp_csr_values(call->b, index);
  for (int32_t i = rows[row]; i < rows[row + 1]; ++i)
    for (int32_t j = b_rows[columns[i]]; j < b_rows[columns[i] + 1]; ++j)
      sum[b_columns[j]] += a[i] * b[j];
  const int32_t *c_rows = dp_csr_rows(call->c, index), *c_columns = dp_csr_columns(call->c, index);
  for (int32_t i = c_rows[row]; i < c_rows[row + 1]; ++i) {
    to[i] = sum[c_columns[i]];
    sum[c_columns[i]] = 0;
  }
}
