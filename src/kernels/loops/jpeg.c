/* Fills the table of jpeg.h: from the coefficients of small JPEG images to pixels. A block is eight
 * vectors of eight 16-bit numbers. The inverse transform works on all eight columns at once, then
 * transposes the block and works on the rows. Numbers that do not fit wrap or saturate exactly
 * where they do in libjpeg-turbo. Compiled once for each instruction set. */
#include "kernels/loops/jpeg.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#define SIDE 8
#define PIXELS 16 /* pixels made at once */

/* ---- Blocks ---- */
static inline void load_block(const int16_t *from, __m128i *v) {
  for (int i = 0; i < SIDE; ++i)
    v[i] = _mm_loadu_si128((const __m128i *)(from + i * SIDE));
}

static inline void turn_block(__m128i *v) {
  __m128i a[SIDE], b[SIDE];
  for (int i = 0; i < 4; ++i) {
    a[2 * i] = _mm_unpacklo_epi16(v[i], v[i + 4]);
    a[2 * i + 1] = _mm_unpackhi_epi16(v[i], v[i + 4]);
  }
  for (int i = 0; i < 4; ++i) {
    b[2 * i] = _mm_unpacklo_epi16(a[i], a[i + 4]);
    b[2 * i + 1] = _mm_unpackhi_epi16(a[i], a[i + 4]);
  }
  for (int i = 0; i < 4; ++i) {
    v[2 * i] = _mm_unpacklo_epi16(b[i], b[i + 4]);
    v[2 * i + 1] = _mm_unpackhi_epi16(b[i], b[i + 4]);
  }
}

/* Columns of samples around zero, saturated, to rows of bytes. */
static inline void store_columns(const __m128i *v, uint8_t *to, size_t stride) {
  __m128i a[4], b[4], c[4];
  for (int i = 0; i < 4; ++i)
    a[i] = _mm_xor_si128(_mm_packs_epi16(v[i], v[i + 4]), _mm_set1_epi8((char)0x80));
  b[0] = _mm_unpacklo_epi8(a[0], a[2]);
  b[1] = _mm_unpacklo_epi8(a[1], a[3]);
  b[2] = _mm_unpackhi_epi8(a[0], a[2]);
  b[3] = _mm_unpackhi_epi8(a[1], a[3]);
  c[0] = _mm_unpacklo_epi8(b[0], b[1]);
  c[1] = _mm_unpacklo_epi8(b[2], b[3]);
  c[2] = _mm_unpackhi_epi8(b[0], b[1]);
  c[3] = _mm_unpackhi_epi8(b[2], b[3]);
  for (size_t i = 0; i < 2; ++i, to += 4 * stride) {
    __m128i rows01 = _mm_unpacklo_epi32(c[2 * i], c[2 * i + 1]);
    __m128i rows23 = _mm_unpackhi_epi32(c[2 * i], c[2 * i + 1]);
    _mm_storel_epi64((__m128i *)to, rows01);
    _mm_storel_epi64((__m128i *)(to + stride), _mm_unpackhi_epi64(rows01, rows01));
    _mm_storel_epi64((__m128i *)(to + 2 * stride), rows23);
    _mm_storel_epi64((__m128i *)(to + 3 * stride), _mm_unpackhi_epi64(rows23, rows23));
  }
}

/* ---- The fast transform: Arai, Agui and Nakajima's, factors of 8 bits, nothing rounded ---- */
enum { FAST_1_082 = 277, FAST_1_414 = 362, FAST_1_847 = 473, FAST_2_613 = 669 };

/* Prepares a factor of a product: its two highest bits are lost. */
static inline __m128i ready(__m128i a) {
  return _mm_slli_epi16(a, 2);
}
static inline __m128i times(__m128i ready, int factor) {
  return _mm_mulhi_epi16(ready, _mm_set1_epi16((int16_t)(factor * 64)));
}

static inline void fast_pass(__m128i *v) {
  __m128i sum04 = _mm_add_epi16(v[0], v[4]), difference04 = _mm_sub_epi16(v[0], v[4]);
  __m128i sum26 = _mm_add_epi16(v[2], v[6]);
  __m128i turned26 = times(ready(_mm_sub_epi16(v[2], v[6])), FAST_1_414);
  turned26 = _mm_sub_epi16(turned26, sum26);
  __m128i even[4] = {_mm_add_epi16(sum04, sum26), _mm_add_epi16(difference04, turned26),
                     _mm_sub_epi16(difference04, turned26), _mm_sub_epi16(sum04, sum26)};

  __m128i sum53 = _mm_add_epi16(v[5], v[3]), difference53 = _mm_sub_epi16(v[5], v[3]);
  __m128i sum17 = _mm_add_epi16(v[1], v[7]), difference17 = _mm_sub_epi16(v[1], v[7]);
  __m128i ready53 = ready(difference53), ready17 = ready(difference17);
  __m128i both = times(_mm_add_epi16(ready53, ready17), FAST_1_847);
  __m128i odd[4];
  odd[0] = _mm_add_epi16(sum17, sum53);
  /* 2.613 is too large for a factor, so - 2.613 is split into - 1.613 and - 1. */
  __m128i part = _mm_sub_epi16(times(ready53, 256 - FAST_2_613), difference53);
  odd[1] = _mm_sub_epi16(_mm_add_epi16(part, both), odd[0]);
  odd[2] = _mm_sub_epi16(times(ready(_mm_sub_epi16(sum17, sum53)), FAST_1_414), odd[1]);
  odd[3] = _mm_sub_epi16(times(ready17, FAST_1_082), both);
  odd[3] = _mm_sub_epi16(_mm_setzero_si128(), _mm_add_epi16(odd[3], odd[2]));
  for (int i = 0; i < 4; ++i) {
    v[i] = _mm_add_epi16(even[i], odd[i]);
    v[SIDE - 1 - i] = _mm_sub_epi16(even[i], odd[i]);
  }
}

static void inverse_fast(const int16_t *coefficients, uint8_t *to, size_t stride) {
  __m128i v[SIDE];
  load_block(coefficients, v);
  fast_pass(v);
  turn_block(v);
  fast_pass(v);
  for (int i = 0; i < SIDE; ++i)
    v[i] = _mm_srai_epi16(v[i], 5);
  store_columns(v, to, stride);
}

/* ---- The accurate transform: Loeffler, Ligtenberg and Moschytz's, factors of 13 bits ---- */
enum {
  FACTOR_BITS = 13,
  BITS_BETWEEN = 2, /* extra bits of precision between the passes */
  F_0_298 = 2446,
  F_0_390 = 3196,
  F_0_541 = 4433,
  F_0_765 = 6270,
  F_0_899 = 7373,
  F_1_175 = 9633,
  F_1_501 = 12299,
  F_1_847 = 15137,
  F_1_961 = 16069,
  F_2_053 = 16819,
  F_2_562 = 20995,
  F_3_072 = 25172,
};

/* Eight numbers of 32 bits. */
typedef struct wide {
  __m128i low, high;
} wide;

static inline wide wide_add(wide a, wide b) {
  return (wide){_mm_add_epi32(a.low, b.low), _mm_add_epi32(a.high, b.high)};
}
static inline wide wide_subtract(wide a, wide b) {
  return (wide){_mm_sub_epi32(a.low, b.low), _mm_sub_epi32(a.high, b.high)};
}
/* Shifted left by the number of bits of the factors. */
static inline wide widened(__m128i a) {
  __m128i zero = _mm_setzero_si128();
  return (wide){_mm_srai_epi32(_mm_unpacklo_epi16(zero, a), 16 - FACTOR_BITS),
                _mm_srai_epi32(_mm_unpackhi_epi16(zero, a), 16 - FACTOR_BITS)};
}
/* a * p + b * q */
static inline wide mixed_of(__m128i a, int p, __m128i b, int q) {
  __m128i factors = _mm_set1_epi32((int)((uint32_t)q << 16 | (uint16_t)p));
  return (wide){_mm_madd_epi16(_mm_unpacklo_epi16(a, b), factors),
                _mm_madd_epi16(_mm_unpackhi_epi16(a, b), factors)};
}
static inline __m128i rounded(wide a, int bits) {
  __m128i half = _mm_set1_epi32(1 << (bits - 1));
  return _mm_packs_epi32(_mm_srai_epi32(_mm_add_epi32(a.low, half), bits),
                         _mm_srai_epi32(_mm_add_epi32(a.high, half), bits));
}

static inline void accurate_pass(__m128i *v, int bits) {
  wide sum04 = widened(_mm_add_epi16(v[0], v[4]));
  wide difference04 = widened(_mm_sub_epi16(v[0], v[4]));
  wide turned26 = mixed_of(v[2], F_0_541 + F_0_765, v[6], F_0_541);
  wide turned62 = mixed_of(v[2], F_0_541, v[6], F_0_541 - F_1_847);
  wide even[4] = {wide_add(sum04, turned26), wide_add(difference04, turned62),
                  wide_subtract(difference04, turned62), wide_subtract(sum04, turned26)};

  __m128i sum73 = _mm_add_epi16(v[7], v[3]), sum51 = _mm_add_epi16(v[5], v[1]);
  wide both73 = mixed_of(sum73, F_1_175 - F_1_961, sum51, F_1_175);
  wide both51 = mixed_of(sum73, F_1_175, sum51, F_1_175 - F_0_390);
  wide odd[4] = {
      wide_add(mixed_of(v[7], -F_0_899, v[1], F_1_501 - F_0_899), both51),
      wide_add(mixed_of(v[5], -F_2_562, v[3], F_3_072 - F_2_562), both73),
      wide_add(mixed_of(v[5], F_2_053 - F_2_562, v[3], -F_2_562), both51),
      wide_add(mixed_of(v[7], F_0_298 - F_0_899, v[1], -F_0_899), both73),
  };
  for (int i = 0; i < 4; ++i) {
    v[i] = rounded(wide_add(even[i], odd[i]), bits);
    v[SIDE - 1 - i] = rounded(wide_subtract(even[i], odd[i]), bits);
  }
}

static inline bool has_one_row(const __m128i *v) {
  __m128i any = v[1];
  for (int i = 2; i < SIDE; ++i)
    any = _mm_or_si128(any, v[i]);
  return _mm_movemask_epi8(_mm_cmpeq_epi8(any, _mm_setzero_si128())) == 0xffff;
}

static void inverse_accurate(const int16_t *coefficients, uint8_t *to, size_t stride) {
  __m128i v[SIDE];
  load_block(coefficients, v);
  if (has_one_row(v)) { /* this shift wraps where accurate_pass would saturate */
    v[0] = _mm_slli_epi16(v[0], BITS_BETWEEN);
    for (int i = 1; i < SIDE; ++i)
      v[i] = v[0];
  } else {
    accurate_pass(v, FACTOR_BITS - BITS_BETWEEN);
  }
  turn_block(v);
  accurate_pass(v, FACTOR_BITS + BITS_BETWEEN + 3);
  store_columns(v, to, stride);
}

/* ---- Colours ---- */
#if defined(__SSSE3__)
/* The source of output byte `at` (of 48) if it belongs to `channel`, else -1. */
#define FROM(at, channel) (char)((at) % 3 == (channel) ? (at) / 3 : -1)
#define FROM_4(at, channel)                                                                        \
  FROM(at, channel), FROM((at) + 1, channel), FROM((at) + 2, channel), FROM((at) + 3, channel)
#define FROM_16(at, channel)                                                                       \
  {                                                                                                \
    FROM_4(at, channel), FROM_4((at) + 4, channel), FROM_4((at) + 8, channel),                     \
        FROM_4((at) + 12, channel)                                                                 \
  }
#define FROM_CHANNELS(at)                                                                          \
  { FROM_16(at, 0), FROM_16(at, 1), FROM_16(at, 2) }

static inline void put_colours(__m128i red, __m128i green, __m128i blue, uint8_t *to) {
  static const char places[3][3][PIXELS] = {FROM_CHANNELS(0), FROM_CHANNELS(16), FROM_CHANNELS(32)};
  const __m128i channels[3] = {red, green, blue};
  for (int i = 0; i < 3; ++i) {
    __m128i bytes = _mm_setzero_si128();
    for (int c = 0; c < 3; ++c) {
      __m128i from = _mm_loadu_si128((const __m128i *)places[i][c]);
      bytes = _mm_or_si128(bytes, _mm_shuffle_epi8(channels[c], from));
    }
    _mm_storeu_si128((__m128i *)(to + i * PIXELS), bytes);
  }
}
#else
static inline void put_colours(__m128i red, __m128i green, __m128i blue, uint8_t *to) {
  uint8_t channels[3][PIXELS];
  _mm_storeu_si128((__m128i *)channels[0], red);
  _mm_storeu_si128((__m128i *)channels[1], green);
  _mm_storeu_si128((__m128i *)channels[2], blue);
  for (int i = 0; i < PIXELS; ++i)
    for (int c = 0; c < 3; ++c)
      to[3 * i + c] = channels[c][i];
}
#endif

/* a * factor / 2^16, rounded. */
static inline __m128i rounded_product(__m128i a, int factor) {
  __m128i twice = _mm_mulhi_epi16(_mm_add_epi16(a, a), _mm_set1_epi16((int16_t)factor));
  return _mm_srai_epi16(_mm_add_epi16(twice, _mm_set1_epi16(1)), 1);
}

/* Red, green and blue of eight pixels. The factors of chroma are 1.402, -0.34414, -0.71414 and
 * 1.772 in units of 2^-16; those too large for 16 bits are used without their integer part. */
static inline void colours_of_8(__m128i luma, __m128i cb, __m128i cr, __m128i *to) {
  cb = _mm_sub_epi16(cb, _mm_set1_epi16(128));
  cr = _mm_sub_epi16(cr, _mm_set1_epi16(128));
  to[0] = _mm_add_epi16(_mm_add_epi16(luma, cr), rounded_product(cr, 91881 - 65536));
  to[2] = _mm_add_epi16(_mm_add_epi16(luma, _mm_add_epi16(cb, cb)),
                        rounded_product(cb, 116130 - 2 * 65536));
  __m128i factors = _mm_set1_epi32((int)((uint32_t)(65536 - 46802) << 16 | (uint16_t)-22554));
  __m128i half = _mm_set1_epi32(1 << 15);
  __m128i low = _mm_madd_epi16(_mm_unpacklo_epi16(cb, cr), factors);
  __m128i high = _mm_madd_epi16(_mm_unpackhi_epi16(cb, cr), factors);
  low = _mm_srai_epi32(_mm_add_epi32(low, half), 16);
  high = _mm_srai_epi32(_mm_add_epi32(high, half), 16);
  to[1] = _mm_add_epi16(_mm_sub_epi16(luma, cr), _mm_packs_epi32(low, high));
}

static inline void put_pixels(__m128i luma, __m128i cb, __m128i cr, uint8_t *to) {
  __m128i zero = _mm_setzero_si128(), low[3], high[3];
  colours_of_8(_mm_unpacklo_epi8(luma, zero), _mm_unpacklo_epi8(cb, zero),
               _mm_unpacklo_epi8(cr, zero), low);
  colours_of_8(_mm_unpackhi_epi8(luma, zero), _mm_unpackhi_epi8(cb, zero),
               _mm_unpackhi_epi8(cr, zero), high);
  put_colours(_mm_packus_epi16(low[0], high[0]), _mm_packus_epi16(low[1], high[1]),
              _mm_packus_epi16(low[2], high[2]), to);
}

static inline __m128i load_8(const uint8_t *from) {
  return _mm_loadl_epi64((const __m128i *)from);
}
static inline __m128i load_16(const uint8_t *from) {
  return _mm_loadu_si128((const __m128i *)from);
}

static inline __m128i repeated(const dp_jpeg_row *row, int channel, size_t at) {
  __m128i samples = load_8(row->near[channel] + at / 2);
  return _mm_unpacklo_epi8(samples, samples);
}

/* 3 * near + far, of eight samples. */
static inline __m128i mixed_rows(const uint8_t *near, const uint8_t *far) {
  __m128i zero = _mm_setzero_si128(), a = _mm_unpacklo_epi8(load_8(near), zero);
  __m128i b = _mm_unpacklo_epi8(load_8(far), zero);
  return _mm_add_epi16(_mm_add_epi16(a, _mm_add_epi16(a, a)), b);
}

static inline __m128i interpolated(const dp_jpeg_row *row, int channel, size_t at) {
  const uint8_t *near = row->near[channel] + at / 2, *far = row->far[channel] + at / 2;
  __m128i here = mixed_rows(near, far);
  __m128i left = mixed_rows(near - 1, far - 1), right = mixed_rows(near + 1, far + 1);
  here = _mm_add_epi16(here, _mm_add_epi16(here, here));
  __m128i even = _mm_add_epi16(_mm_add_epi16(here, left), _mm_set1_epi16(row->biases[0]));
  __m128i odd = _mm_add_epi16(_mm_add_epi16(here, right), _mm_set1_epi16(row->biases[1]));
  return _mm_or_si128(_mm_srli_epi16(even, 4), _mm_slli_epi16(_mm_srli_epi16(odd, 4), 8));
}

/* Colours of a row, in whole groups of pixels; the last group goes through a buffer. */
#define DEFINE_COLOUR(name, cb, cr)                                                                \
  static void colour_##name(const dp_jpeg_row *row, uint8_t *to) {                                 \
    uint8_t last[3 * PIXELS];                                                                      \
    size_t at = 0;                                                                                 \
    for (; at + PIXELS <= row->width; at += PIXELS)                                                \
      put_pixels(load_16(row->luma + at), cb, cr, to + 3 * at);                                    \
    if (at < row->width) {                                                                         \
      put_pixels(load_16(row->luma + at), cb, cr, last);                                           \
      memcpy(to + 3 * at, last, 3 * (row->width - at));                                            \
    }                                                                                              \
  }
DEFINE_COLOUR(full, load_16(row->near[0] + at), load_16(row->near[1] + at))
DEFINE_COLOUR(twice, repeated(row, 0, at), repeated(row, 1, at))
DEFINE_COLOUR(mixed, interpolated(row, 0, at), interpolated(row, 1, at))
DEFINE_COLOUR(gray, _mm_set1_epi8((char)128), _mm_set1_epi8((char)128))

const dp_jpeg_loops DP_ISA_SYMBOL(dp_jpeg_table) = {
    .inverse = {inverse_fast, inverse_accurate},
    .gray = colour_gray,
    .full = colour_full,
    .twice = colour_twice,
    .mixed = colour_mixed,
};
#else
const dp_jpeg_loops DP_ISA_SYMBOL(dp_jpeg_table) = {.gray = NULL};
#endif
