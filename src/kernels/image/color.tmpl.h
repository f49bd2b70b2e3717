/* Colours of pixels in one floating type. The includer defines REAL and NAME(x). Hue, saturation
 * and value are each from 0 to 1. */

static inline REAL NAME(least)(REAL a, REAL b) {
  return a < b ? a : b;
}
static inline REAL NAME(most)(REAL a, REAL b) {
  return a > b ? a : b;
}
static inline REAL NAME(unit)(REAL x) {
  return NAME(most)(0, NAME(least)(1, x));
}

static inline void NAME(to_hsv)(const REAL *rgb, REAL *hsv) {
  REAL r = rgb[0], g = rgb[1], b = rgb[2];
  REAL value = NAME(most)(r, NAME(most)(g, b));
  REAL range = value - NAME(least)(r, NAME(least)(g, b)), hue = 0;
  if (range > 0) {
    REAL sixth = (REAL)1 / ((REAL)6 * range);
    hue = r == value   ? sixth * (g - b)
          : g == value ? sixth * (b - r) + (REAL)2 / (REAL)6
                       : sixth * (r - g) + (REAL)4 / (REAL)6;
    hue = hue < 0 ? hue + 1 : hue;
  }
  hsv[0] = hue;
  hsv[1] = value > 0 ? range / value : 0;
  hsv[2] = value;
}

static inline void NAME(to_rgb)(const REAL *hsv, REAL *rgb) {
  REAL hue = hsv[0] * 6, saturation = hsv[1], value = hsv[2];
  REAL r = NAME(unit)((hue < 3 ? 3 - hue : hue - 3) - 1);
  REAL g = NAME(unit)(2 - (hue < 2 ? 2 - hue : hue - 2));
  REAL b = NAME(unit)(2 - (hue < 4 ? 4 - hue : hue - 4));
  rgb[0] = (1 - saturation + saturation * r) * value;
  rgb[1] = (1 - saturation + saturation * g) * value;
  rgb[2] = (1 - saturation + saturation * b) * value;
}

static void NAME(convert)(const REAL *from, REAL *to, int64_t pixels, bool back) {
  for (int64_t i = 0; i < 3 * pixels; i += 3) {
    if (back)
      NAME(to_rgb)(from + i, to + i);
    else
      NAME(to_hsv)(from + i, to + i);
  }
}
