/* Grey dilation for one type. The includer defines ELEMENT (the type), LOWEST (its smallest value),
 * ROUND(x) (rounds a sum to the op's dtype) and NAMED(x) (the name of function x for this type). */

static void NAMED(forward_row)(const dilation_call *call, int64_t index) {
  const dp_window *rows = &call->rows, *columns = &call->columns;
  const ELEMENT *in = (const ELEMENT *)call->in + index / rows->out * call->in_image;
  ELEMENT *out = (ELEMENT *)call->out + index * columns->out * call->depth;
  int64_t top = index % rows->out * rows->stride - rows->before;
  for (int64_t x = 0; x < columns->out; ++x, out += call->depth) {
    int64_t left = x * columns->stride - columns->before;
    for (int64_t d = 0; d < call->depth; ++d)
      out[d] = LOWEST;
    for (tap t = first_tap(call, top, left); t.number >= 0; next_tap(call, top, left, &t)) {
      const ELEMENT *pixel = in + t.pixel,
                    *weights = (const ELEMENT *)call->filter + t.number * call->depth;
      DP_INDEPENDENT
      for (int64_t d = 0; d < call->depth; ++d) {
        ELEMENT sum = (ELEMENT)(pixel[d] + weights[d]);
        out[d] = sum > out[d] ? sum : out[d];
      }
    }
  }
}

/* Finds the tap with the maximum for `count` channels from d on: its number, and its pixel in the
 * image. Both are left unchanged for channels where no tap has a value. */
static void NAMED(find_taps)(const dilation_call *call, const ELEMENT *in, int64_t top,
                             int64_t left, int64_t d, int64_t count, int64_t *numbers,
                             int64_t *pixels) {
  ELEMENT best[CHANNELS];
  for (int64_t i = 0; i < count; ++i)
    best[i] = LOWEST;
  for (tap t = first_tap(call, top, left); t.number >= 0; next_tap(call, top, left, &t)) {
    const ELEMENT *pixel = in + t.pixel + d;
    const ELEMENT *weights = (const ELEMENT *)call->filter + t.number * call->depth + d;
    for (int64_t i = 0; i < count; ++i) {
      ELEMENT sum = ROUND((ELEMENT)(pixel[i] + weights[i]));
      bool is_better = sum > best[i];
      best[i] = is_better ? sum : best[i];
      numbers[i] = is_better ? t.number : numbers[i];
      pixels[i] = is_better ? t.pixel : pixels[i];
    }
  }
}

static void NAMED(back_pixel)(const dilation_call *call, int64_t image, int64_t y, int64_t x) {
  const dp_window *rows = &call->rows, *columns = &call->columns;
  const ELEMENT *in = (const ELEMENT *)call->in + image * call->in_image;
  const ELEMENT *from =
      (const ELEMENT *)call->out + ((image * rows->out + y) * columns->out + x) * call->depth;
  int64_t top = y * rows->stride - rows->before, left = x * columns->stride - columns->before;
  ELEMENT *to = call->back;
  for (int64_t d = 0; d < call->depth; d += CHANNELS) {
    int64_t count = call->depth - d < CHANNELS ? call->depth - d : CHANNELS;
    int64_t numbers[CHANNELS] = {0}, pixels[CHANNELS];
    for (int64_t i = 0; i < count; ++i)
      pixels[i] = default_pixel(call, top, left);
    NAMED(find_taps)(call, in, top, left, d, count, numbers, pixels);
    for (int64_t i = 0; i < count; ++i) {
      if (call->is_filter)
        to[numbers[i] * call->depth + d + i] += from[d + i];
      else if (pixels[i] >= 0)
        to[image * call->in_image + pixels[i] + d + i] += from[d + i];
    }
  }
}
