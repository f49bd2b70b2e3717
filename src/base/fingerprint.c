/* Fingerprints and hashes of bytes whose values are part of TensorFlow's behaviour: bucket numbers,
 * crossed features and checkpoint names depend on them, so they never change.
 *
 * Fingerprint64 is FarmHash's 64-bit fingerprint. It has one formula each for up to 16, 32, 64 and
 * more bytes. Above 64 bytes a state of seven words runs over blocks of 64 bytes; the last block is
 * the last 64 bytes, which may overlap the block before. Hash64 is MurmurHash64A. All functions
 * read little-endian. */
#include "base/checksum.h"

#include <string.h>

static const uint64_t k0 = UINT64_C(0xc3a5c85c97cb3127);
static const uint64_t k1 = UINT64_C(0xb492b66fbe98f273);
static const uint64_t k2 = UINT64_C(0x9ae16a3b2f90404f);
static const uint64_t murmur = UINT64_C(0xc6a4a7935bd1e995);

static inline uint64_t fetch64(const unsigned char *at) {
  uint64_t value;
  memcpy(&value, at, sizeof(value));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  value = __builtin_bswap64(value);
#endif
  return value;
}

static inline uint64_t fetch32(const unsigned char *at) {
  uint32_t value;
  memcpy(&value, at, sizeof(value));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  value = __builtin_bswap32(value);
#endif
  return value;
}

static inline uint64_t rotate(uint64_t value, int right) {
  return value >> right | value << (64 - right);
}

static inline uint64_t shift_mix(uint64_t value) {
  return value ^ value >> 47;
}

static inline uint64_t mix_pair(uint64_t u, uint64_t v, uint64_t multiplier) {
  uint64_t a = shift_mix((u ^ v) * multiplier);
  return shift_mix((v ^ a) * multiplier) * multiplier;
}

static uint64_t fingerprint_to_16(const unsigned char *s, size_t length) {
  uint64_t multiplier = k2 + length * 2;
  if (length >= 8) {
    uint64_t a = fetch64(s) + k2, b = fetch64(s + length - 8);
    return mix_pair(rotate(b, 37) * multiplier + a, (rotate(a, 25) + b) * multiplier, multiplier);
  }
  if (length >= 4)
    return mix_pair(length + (fetch32(s) << 3), fetch32(s + length - 4), multiplier);
  if (length > 0) {
    uint64_t y = s[0] + ((uint64_t)s[length / 2] << 8);
    uint64_t z = length + ((uint64_t)s[length - 1] << 2);
    return shift_mix(y * k2 ^ z * k0) * k2;
  }
  return k2;
}

static uint64_t fingerprint_to_32(const unsigned char *s, size_t length) {
  uint64_t multiplier = k2 + length * 2;
  uint64_t a = fetch64(s) * k1, b = fetch64(s + 8);
  uint64_t c = fetch64(s + length - 8) * multiplier, d = fetch64(s + length - 16) * k2;
  return mix_pair(rotate(a + b, 43) + rotate(c, 30) + d, a + rotate(b + k2, 18) + c, multiplier);
}

static uint64_t fingerprint_to_64(const unsigned char *s, size_t length) {
  uint64_t multiplier = k2 + length * 2;
  uint64_t a = fetch64(s) * k2, b = fetch64(s + 8);
  uint64_t c = fetch64(s + length - 8) * multiplier, d = fetch64(s + length - 16) * k2;
  uint64_t y = rotate(a + b, 43) + rotate(c, 30) + d;
  uint64_t z = mix_pair(y, a + rotate(b + k2, 18) + c, multiplier);
  uint64_t e = fetch64(s + 16) * multiplier, f = fetch64(s + 24);
  uint64_t g = (y + fetch64(s + length - 32)) * multiplier;
  uint64_t h = (z + fetch64(s + length - 24)) * multiplier;
  return mix_pair(rotate(e + f, 43) + rotate(g, 30) + h, e + rotate(f + a, 18) + g, multiplier);
}

typedef struct pair {
  uint64_t first, second;
} pair;

/* Mixes 32 bytes into two seeds. */
static inline pair weak_mix(const unsigned char *s, uint64_t a, uint64_t b) {
  uint64_t last = fetch64(s + 24);
  a += fetch64(s);
  b = rotate(b + a + last, 21);
  uint64_t start = a;
  a += fetch64(s + 8) + fetch64(s + 16);
  b += rotate(a, 44);
  return (pair){a + last, b + start};
}

typedef struct long_state {
  uint64_t x, y, z;
  pair v, w;
} long_state;

/* Mixes in one block of 64 bytes. `multiplier` is k1 and `weight` 1, but for the last block of
 * Fingerprint64, whose multiplier depends on the state and whose weight is 9. */
static inline void mix_block(long_state *state, const unsigned char *s, uint64_t multiplier,
                             uint64_t weight) {
  uint64_t x = state->x, y = state->y, z = state->z;
  pair v = state->v, w = state->w;
  x = rotate(x + y + v.first + fetch64(s + 8), 37) * multiplier;
  y = rotate(y + v.second + fetch64(s + 48), 42) * multiplier;
  x ^= w.second * weight;
  y += v.first * weight + fetch64(s + 40);
  z = rotate(z + w.first, 33) * multiplier;
  state->v = weak_mix(s, v.second * multiplier, x + w.first);
  state->w = weak_mix(s + 32, z + w.second, y + fetch64(s + 16));
  state->x = z;
  state->y = y;
  state->z = x;
}

static uint64_t fingerprint_long(const unsigned char *s, size_t length) {
  const uint64_t seed = 81;
  long_state state = {.x = seed * k2 + fetch64(s), .y = seed * k1 + 113};
  state.z = shift_mix(state.y * k2 + 113) * k2;
  size_t rest = (length - 1) & 63;
  const unsigned char *end = s + (length - 1) / 64 * 64;
  for (; s != end; s += 64)
    mix_block(&state, s, k1, 1);
  uint64_t multiplier = k1 + ((state.z & 255) << 1);
  state.w.first += rest;
  state.v.first += state.w.first;
  state.w.first += state.v.first;
  mix_block(&state, end + rest - 63, multiplier, 9);
  return mix_pair(mix_pair(state.v.first, state.w.first, multiplier) + shift_mix(state.y) * k0 +
                      state.z,
                  mix_pair(state.v.second, state.w.second, multiplier) + state.x, multiplier);
}

uint64_t dp_fingerprint64(const void *data, size_t length) {
  if (length <= 16)
    return fingerprint_to_16(data, length);
  if (length <= 32)
    return fingerprint_to_32(data, length);
  if (length <= 64)
    return fingerprint_to_64(data, length);
  return fingerprint_long(data, length);
}

/* ---- 128 bits ---- */
static uint64_t join(uint64_t u, uint64_t v) {
  return mix_pair(u, v, UINT64_C(0x9ddfea08eb382d69));
}

static uint64_t mix_word_by(uint64_t into, const unsigned char *s) {
  return (into ^ shift_mix(fetch64(s) * k1) * k1) * k1;
}

/* Less than 128 bytes. */
static pair fingerprint128_short(const unsigned char *s, size_t length, pair seed) {
  uint64_t a = seed.first, b = seed.second, c, d;
  if (length <= 16) {
    a = shift_mix(a * k1) * k1;
    c = b * k1 + fingerprint_to_16(s, length);
    d = shift_mix(a + (length >= 8 ? fetch64(s) : c));
  } else {
    c = join(fetch64(s + length - 8) + k1, a);
    d = join(b + length, c + fetch64(s + length - 16));
    a += d;
    for (const unsigned char *end = s + length - 16; s < end; s += 16) {
      a = mix_word_by(a, s);
      b ^= a;
      c = mix_word_by(c, s + 8);
      d ^= c;
    }
  }
  a = join(a, c);
  b = join(d, b);
  return (pair){a ^ b, join(b, a)};
}

/* Mixes in the rest after the blocks, 32 bytes at a time, from its end to its begin. The last 32
 * bytes taken may reach back into the blocks. */
static void mix_tail(long_state *state, const unsigned char *s, size_t length) {
  for (size_t done = 0; done < length;) {
    done += 32;
    const unsigned char *at = s + length - done;
    state->y = rotate(state->x + state->y, 42) * k0 + state->v.second;
    state->w.first += fetch64(at + 16);
    state->x = state->x * k0 + state->w.first;
    state->z += state->w.second + fetch64(at);
    state->w.second += state->v.first;
    state->v = weak_mix(at, state->v.first + state->z, state->v.second);
    state->v.first *= k0;
  }
}

static pair fingerprint128_long(const unsigned char *s, size_t length, pair seed) {
  long_state state = {.x = seed.first, .y = seed.second, .z = length * k1};
  state.v.first = rotate(state.y ^ k1, 49) * k1 + fetch64(s);
  state.v.second = rotate(state.v.first, 42) * k1 + fetch64(s + 8);
  state.w.first = rotate(state.y + state.z, 35) * k1 + state.x;
  state.w.second = rotate(state.x + fetch64(s + 88), 53) * k1;
  for (; length >= 128; length -= 128, s += 128) {
    mix_block(&state, s, k1, 1);
    mix_block(&state, s + 64, k1, 1);
  }
  state.x += rotate(state.v.first + state.z, 49) * k0;
  state.y = state.y * k0 + rotate(state.w.second, 37);
  state.z = state.z * k0 + rotate(state.w.first, 27);
  state.w.first *= 9;
  state.v.first *= k0;
  mix_tail(&state, s, length);
  uint64_t x = join(state.x, state.v.first), y = join(state.y + state.z, state.w.first);
  return (pair){join(x + state.v.second, state.w.second) + y,
                join(x + state.w.second, y + state.v.second)};
}

void dp_fingerprint128(const void *data, size_t length, uint64_t *low_out, uint64_t *high_out) {
  const unsigned char *s = data;
  pair seed = {k0, k1};
  if (length >= 16) {
    seed = (pair){fetch64(s), fetch64(s + 8) + k0};
    s += 16;
    length -= 16;
  }
  pair result =
      length < 128 ? fingerprint128_short(s, length, seed) : fingerprint128_long(s, length, seed);
  *low_out = result.first;
  *high_out = result.second;
}

uint64_t dp_fingerprint_concat(uint64_t a, uint64_t b) {
  uint64_t mixed = (a ^ murmur ^ shift_mix(b * murmur) * murmur) * murmur;
  return shift_mix(shift_mix(mixed) * murmur);
}

/* The last `left` (1 to 7) bytes of a string of `length` bytes as a little-endian number, without a
 * loop. `s` points at them. */
static inline uint64_t fetch_tail(const unsigned char *s, size_t left, size_t length) {
  if (length >= 8)
    return fetch64(s + left - 8) >> (64 - 8 * left);
  if (left >= 4)
    return fetch32(s) | (uint64_t)fetch32(s + left - 4) << (8 * (left - 4));
  return s[0] | (uint64_t)s[left / 2] << (8 * (left / 2)) |
         (uint64_t)s[left - 1] << (8 * (left - 1));
}

static inline uint64_t mix_word(uint64_t hash, const unsigned char *at) {
  return (hash ^ shift_mix(fetch64(at) * murmur) * murmur) * murmur;
}

uint64_t dp_hash64(const void *data, size_t length, uint64_t seed) {
  const unsigned char *s = data;
  uint64_t hash = seed ^ length * murmur;
  size_t left = length;
  if (length >= 16) { /* most strings: two words without a loop */
    hash = mix_word(mix_word(hash, s), s + 8);
    s += 16;
    left -= 16;
  }
  for (; left >= 8; left -= 8, s += 8)
    hash = mix_word(hash, s);
  if (left > 0)
    hash = (hash ^ fetch_tail(s, left, length)) * murmur;
  return shift_mix(shift_mix(hash) * murmur);
}
