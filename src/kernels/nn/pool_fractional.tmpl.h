/* Fractional pooling for one type. The includer defines ELEMENT (the type), LOWEST (its smallest
 * value) and NAMED(x) (the name of function x for this type). */

static void NAMED(average_row)(const fraction_call *call, int64_t index) {
  const ELEMENT *in = (const ELEMENT *)call->in + index / call->out_rows * call->in_image;
  ELEMENT *out = (ELEMENT *)call->out + index * call->out_columns * call->depth;
  span rows = row_span(call, index % call->out_rows);
  for (int64_t x = 0; x < call->out_columns; ++x, out += call->depth) {
    span columns = column_span(call, x);
    memset(out, 0, (size_t)call->depth * sizeof *out);
    for (int64_t h = rows.begin; h < rows.end; ++h)
      for (int64_t w = columns.begin; w < columns.end; ++w) {
        const ELEMENT *pixel = in + (h * call->in_columns + w) * call->depth;
        for (int64_t d = 0; d < call->depth; ++d)
          out[d] += pixel[d];
      }
    ELEMENT count = (ELEMENT)((rows.end - rows.begin) * (columns.end - columns.begin));
    for (int64_t d = 0; d < call->depth && count > 0; ++d)
      out[d] /= count;
  }
}

static void NAMED(maximum_row)(const fraction_call *call, int64_t index) {
  const ELEMENT *in = (const ELEMENT *)call->in + index / call->out_rows * call->in_image;
  ELEMENT *out = (ELEMENT *)call->out + index * call->out_columns * call->depth;
  span rows = row_span(call, index % call->out_rows);
  for (int64_t x = 0; x < call->out_columns; ++x, out += call->depth) {
    span columns = column_span(call, x);
    for (int64_t d = 0; d < call->depth; ++d)
      out[d] = LOWEST;
    for (int64_t h = rows.begin; h < rows.end; ++h)
      for (int64_t w = columns.begin; w < columns.end; ++w) {
        const ELEMENT *pixel = in + (h * call->in_columns + w) * call->depth;
        for (int64_t d = 0; d < call->depth; ++d)
          out[d] = pixel[d] > out[d] ? pixel[d] : out[d];
      }
  }
}

/* One image. Sums are made in double for every type and converted at the end. */
static void NAMED(average_back)(const fraction_call *call, int64_t image) {
  const ELEMENT *out =
      (const ELEMENT *)call->out + image * call->out_rows * call->out_columns * call->depth;
  double *sums = call->sums + image * call->in_image;
  for (int64_t y = 0; y < call->out_rows; ++y) {
    span rows = row_span(call, y);
    for (int64_t x = 0; x < call->out_columns; ++x, out += call->depth) {
      span columns = column_span(call, x);
      double count = (double)((rows.end - rows.begin) * (columns.end - columns.begin));
      for (int64_t h = rows.begin; h < rows.end; ++h)
        for (int64_t w = columns.begin; w < columns.end; ++w) {
          double *pixel = sums + (h * call->in_columns + w) * call->depth;
          for (int64_t d = 0; d < call->depth; ++d)
            pixel[d] += (double)out[d] / count;
        }
    }
  }
  ELEMENT *to = (ELEMENT *)call->back + image * call->in_image;
  for (int64_t i = 0; i < call->in_image; ++i)
    to[i] = (ELEMENT)sums[i];
}

/* The offset, within the image, of the first of the largest values of a cell. */
static int64_t NAMED(find_maximum)(const fraction_call *call, const ELEMENT *in, span rows,
                                   span columns, int64_t d) {
  int64_t best = -1;
  for (int64_t h = rows.begin; h < rows.end; ++h)
    for (int64_t w = columns.begin; w < columns.end; ++w) {
      int64_t at = (h * call->in_columns + w) * call->depth + d;
      if (best < 0 || in[at] > in[best])
        best = at;
    }
  return best;
}

static void NAMED(maximum_back)(const fraction_call *call, int64_t image) {
  const ELEMENT *in = (const ELEMENT *)call->in + image * call->in_image;
  const ELEMENT *out =
      (const ELEMENT *)call->out + image * call->out_rows * call->out_columns * call->depth;
  ELEMENT *back = (ELEMENT *)call->back + image * call->in_image;
  for (int64_t y = 0; y < call->out_rows; ++y) {
    span rows = row_span(call, y);
    for (int64_t x = 0; x < call->out_columns; ++x, out += call->depth) {
      span columns = column_span(call, x);
      for (int64_t d = 0; d < call->depth; ++d) {
        int64_t at = NAMED(find_maximum)(call, in, rows, columns, d);
        if (at >= 0)
          back[at] += out[d];
      }
    }
  }
}
