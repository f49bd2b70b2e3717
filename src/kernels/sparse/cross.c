/* Crosses of features (cross_internal.h): counts, selects and joins the combinations of a row. The
 * ops are in sparse_cross.c and ragged_cross.c. No shared state: a cross belongs to one run of an
 * op. */
#include "kernels/sparse/cross_internal.h"

#include "kernels/text/string.h"

void dp_cross_rewind(dp_cross *cross) {
  for (int32_t i = 0; i < cross->column_count; ++i) {
    cross->columns[i].start = 0;
    if (cross->columns[i].rows)
      cross->columns[i].count = 0;
  }
}

bool dp_cross_count(const dp_cross *cross, int64_t *count_out) {
  int64_t count = 1;
  for (int32_t i = 0; i < cross->column_count; ++i)
    if (!cross->columns[i].count)
      count = 0;
  for (int32_t i = 0; i < cross->column_count; ++i)
    if (__builtin_mul_overflow(count, cross->columns[i].count, &count))
      return false;
  *count_out = count;
  return true;
}

void dp_cross_next(dp_cross *cross) {
  for (int32_t i = cross->column_count - 1; i >= 0; --i) {
    if (++cross->columns[i].chosen < cross->columns[i].count)
      return;
    cross->columns[i].chosen = 0;
  }
}

dp_status *dp_cross_join(const dp_cross *cross, dp_view separator, dp_text *scratch,
                         dp_tstring *string) {
  dp_text_clear(scratch);
  for (int32_t i = 0; i < cross->column_count; ++i) {
    const dp_cross_column *column = &cross->columns[i];
    int64_t at = column->start + column->chosen;
    if (i)
      dp_text_append(scratch, separator.data, separator.length);
    if (column->values->dtype == DP_STRING) {
      dp_view feature = dp_string_at(column->values, at);
      dp_text_append(scratch, feature.data, feature.length);
    } else {
      dp_text_printf(scratch, "%lld", (long long)dp_tensor_int_at(column->values, at));
    }
  }
  return dp_tstring_assign(string, dp_text_string(scratch), scratch->length);
}
