/* Philox 4x32-10: a keyed bijection of a 128-bit counter (Salmon and others, "Parallel random
 * numbers: as easy as 1, 2, 3"), so any place of a stream is reached without computing what comes
 * before it. A round multiplies words 0 and 2 of the counter. The low halves of the products become
 * words 3 and 1; the high halves, XORed with the old words 1 and 3 and with the key, become words 2
 * and 0. The key grows by a constant per round. Where the CPU has AVX2, long streams are made eight
 * counters at a time. There is no state but the generator that the caller passes. */
#include "base/philox.h"

#include <math.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { ROUNDS = 10 };
static const uint32_t multiplier_a = 0xD2511F53;
static const uint32_t multiplier_b = 0xCD9E8D57;
static const uint32_t key_step_a = 0x9E3779B9; /* the golden ratio */
static const uint32_t key_step_b = 0xBB67AE85; /* the square root of 3, less 1 */

dp_philox dp_philox_seed(uint64_t seed_lo, uint64_t seed_hi) {
  return (dp_philox){
      .counter = {0, 0, (uint32_t)seed_hi, (uint32_t)(seed_hi >> 32)},
      .key = {(uint32_t)seed_lo, (uint32_t)(seed_lo >> 32)},
  };
}

void dp_philox_skip(dp_philox *generator, uint64_t count) {
  uint64_t low = generator->counter[0] | (uint64_t)generator->counter[1] << 32;
  uint64_t sum = low + count;
  generator->counter[0] = (uint32_t)sum;
  generator->counter[1] = (uint32_t)(sum >> 32);
  if (sum < low && ++generator->counter[2] == 0)
    generator->counter[3]++;
}

static inline void compute(const dp_philox *generator, uint32_t result[4]) {
  uint32_t c0 = generator->counter[0], c1 = generator->counter[1];
  uint32_t c2 = generator->counter[2], c3 = generator->counter[3];
  uint32_t k0 = generator->key[0], k1 = generator->key[1];
  for (int round = 0; round < ROUNDS; round++) {
    uint64_t a = (uint64_t)multiplier_a * c0;
    uint64_t b = (uint64_t)multiplier_b * c2;
    c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
    c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
    c1 = (uint32_t)b;
    c3 = (uint32_t)a;
    k0 += key_step_a;
    k1 += key_step_b;
  }
  result[0] = c0;
  result[1] = c1;
  result[2] = c2;
  result[3] = c3;
}

void dp_philox_next(dp_philox *generator, uint32_t result[4]) {
  compute(generator, result);
  dp_philox_skip(generator, 1);
}

static void fill_plainly(dp_philox *generator, uint32_t spacing, uint32_t *words, int64_t groups) {
  for (int64_t i = 0; i < groups; i++) {
    compute(generator, words + i * 4);
    dp_philox_skip(generator, spacing);
  }
}

#if defined(__x86_64__)
#define AVX2 __attribute__((target("avx2"), always_inline)) static inline

enum { LANES = 4, BATCH = 2 * LANES };

/* Four counters: each 64-bit lane holds one word in its low half; the high half is garbage, which
 * the widening multiply ignores. */
typedef struct quad {
  __m256i c0, c1, c2, c3;
} quad;

AVX2 quad quad_start(const dp_philox *generator, uint32_t spacing, int offset) {
  int64_t step = spacing, first = (int64_t)generator->counter[0] + offset * step;
  return (quad){
      _mm256_setr_epi64x(first, first + step, first + 2 * step, first + 3 * step),
      _mm256_set1_epi64x(generator->counter[1]),
      _mm256_set1_epi64x(generator->counter[2]),
      _mm256_set1_epi64x(generator->counter[3]),
  };
}

AVX2 quad quad_round(quad now, __m256i k0, __m256i k1) {
  __m256i a = _mm256_mul_epu32(now.c0, _mm256_set1_epi64x(multiplier_a));
  __m256i b = _mm256_mul_epu32(now.c2, _mm256_set1_epi64x(multiplier_b));
  return (quad){
      _mm256_xor_si256(_mm256_srli_epi64(b, 32), _mm256_xor_si256(now.c1, k0)),
      b,
      _mm256_xor_si256(_mm256_srli_epi64(a, 32), _mm256_xor_si256(now.c3, k1)),
      a,
  };
}

/* Gathers the low halves into four groups of four words, counter after counter. */
AVX2 void quad_store(quad now, uint32_t *words) {
  __m256i low = _mm256_blend_epi32(now.c0, _mm256_slli_epi64(now.c1, 32), 0xAA);
  __m256i high = _mm256_blend_epi32(now.c2, _mm256_slli_epi64(now.c3, 32), 0xAA);
  __m256i even = _mm256_unpacklo_epi64(low, high), odd = _mm256_unpackhi_epi64(low, high);
  __m256i *out = (__m256i *)(void *)words;
  _mm256_storeu_si256(out, _mm256_permute2x128_si256(even, odd, 0x20));
  _mm256_storeu_si256(out + 1, _mm256_permute2x128_si256(even, odd, 0x31));
}

/* Two quads side by side: enough to hide the multiply's latency, few enough for the registers. */
__attribute__((target("avx2"))) static void compute_batch(const dp_philox *generator,
                                                          uint32_t spacing, uint32_t *words) {
  quad first = quad_start(generator, spacing, 0), second = quad_start(generator, spacing, LANES);
  __m256i k0 = _mm256_set1_epi64x(generator->key[0]), k1 = _mm256_set1_epi64x(generator->key[1]);
  for (int round = 0; round < ROUNDS; round++) {
    first = quad_round(first, k0, k1);
    second = quad_round(second, k0, k1);
    k0 = _mm256_add_epi32(k0, _mm256_set1_epi64x(key_step_a));
    k1 = _mm256_add_epi32(k1, _mm256_set1_epi64x(key_step_b));
  }
  quad_store(first, words);
  quad_store(second, words + LANES * 4);
}

static void fill_vectors(dp_philox *generator, uint32_t spacing, uint32_t *words, int64_t groups) {
  uint64_t step = (uint64_t)BATCH * spacing;
  while (groups >= BATCH) {
    /* A batch changes only the lowest word of the counter; a batch with a carry is made counter by
     * counter. */
    if (generator->counter[0] + step <= UINT32_MAX) {
      compute_batch(generator, spacing, words);
      generator->counter[0] += (uint32_t)step;
    } else {
      fill_plainly(generator, spacing, words, BATCH);
    }
    words += BATCH * 4;
    groups -= BATCH;
  }
  fill_plainly(generator, spacing, words, groups);
}
#endif

void dp_philox_fill(dp_philox *generator, uint32_t *words, int64_t groups) {
  dp_philox_fill_spaced(generator, 1, words, groups);
}

void dp_philox_fill_spaced(dp_philox *generator, uint32_t spacing, uint32_t *words,
                           int64_t groups) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) {
    fill_vectors(generator, spacing, words, groups);
    return;
  }
#endif
  fill_plainly(generator, spacing, words, groups);
}

/* The bits fill the mantissa of a number in [1, 2); taking 1 away is exact. */
float dp_philox_float(uint32_t word) {
  uint32_t bits = UINT32_C(127) << 23 | (word & 0x7fffff);
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value - 1.0f;
}

double dp_philox_double(uint32_t word0, uint32_t word1) {
  uint64_t bits = UINT64_C(1023) << 52 | (uint64_t)(word0 & 0xfffff) << 32 | word1;
  double value;
  memcpy(&value, &bits, sizeof(value));
  return value - 1.0;
}

/* The lowest 10 bits as a fraction of 1024. */
uint16_t dp_philox_half_bits(uint16_t word) {
  unsigned fraction = word & 0x3ff;
  if (fraction == 0)
    return 0;
  unsigned top = 31 - (unsigned)__builtin_clz(fraction);
  unsigned mantissa = fraction << (10 - top) & 0x3ff;
  return (uint16_t)((top + 5) << 10 | mantissa);
}

void dp_philox_box_muller_float(uint32_t word0, uint32_t word1, float *a_out, float *b_out) {
  float uniform = dp_philox_float(word0);
  if (uniform < 1e-7f)
    uniform = 1e-7f;
  float angle = (float)(2.0 * M_PI * (double)dp_philox_float(word1));
  float radius = sqrtf(-2.0f * logf(uniform));
  float sine, cosine;
  sincosf(angle, &sine, &cosine);
  *a_out = sine * radius;
  *b_out = cosine * radius;
}

void dp_philox_box_muller_double(uint32_t w0, uint32_t w1, uint32_t w2, uint32_t w3, double *a_out,
                                 double *b_out) {
  double uniform = dp_philox_double(w0, w1);
  if (uniform < 1e-7)
    uniform = 1e-7;
  double angle = 2 * M_PI * dp_philox_double(w2, w3);
  double radius = sqrt(-2.0 * log(uniform));
  double sine, cosine;
  sincos(angle, &sine, &cosine);
  *a_out = sine * radius;
  *b_out = cosine * radius;
}

uint64_t dp_random_seed(void) {
  uint64_t seed;
  if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
    seed =
        (uint64_t)dp_clock_nanos() * UINT64_C(0x9E3779B97F4A7C15) ^ (uint64_t)dp_clock_wall_nanos();
  return seed;
}
