/* Normal numbers within bounds for one dtype. The includer defines T, SUFFIX, GROUP (numbers from
 * one draw), ROUND, CALL, LOAD, STORE, UNIFORM and NORMAL; all are undefined at the end. */

/* One batch, in units of its standard deviation. It is mirrored where that makes the lower bound
 * finite and the bounds positive. */
typedef struct DP_PASTE(bounds, SUFFIX) {
  T mean, deviation, low, high;
  int64_t batch, done, count;
  int tries;
} DP_PASTE(bounds, SUFFIX);

static bool DP_PASTE(accept, SUFFIX)(truncated_work *work, DP_PASTE(bounds, SUFFIX) * b, T z) {
  STORE(work->output, output_index(work, b->batch, b->done),
        ROUND(ROUND(z * b->deviation) + b->mean));
  b->tries = 0;
  return ++b->done >= b->count;
}

static dp_status *DP_PASTE(by_normals, SUFFIX)(truncated_work *work, DP_PASTE(bounds, SUFFIX) * b) {
  for (;;) {
    uint32_t words[4];
    T values[GROUP];
    dp_philox_next(&work->generator, words);
    for (int i = 0; i < GROUP; i += 2)
      NORMAL(words, i, values);
    for (int i = 0; i < GROUP; ++i) {
      if (values[i] >= b->low && values[i] <= b->high) {
        if (DP_PASTE(accept, SUFFIX)(work, b, values[i]))
          return NULL;
      } else if (++b->tries > MOST_TRIES) {
        return exhausted("randn");
      }
    }
  }
}

static dp_status *DP_PASTE(by_uniforms, SUFFIX)(truncated_work *work,
                                                DP_PASTE(bounds, SUFFIX) * b) {
  const T span = ROUND(b->high - b->low), shift = b->low < 0 ? 0 : ROUND(b->low * b->low);
  for (;;) {
    uint32_t words[4], more[4];
    T z[GROUP], g[GROUP];
    dp_philox_next(&work->generator, words);
    for (int i = 0; i < GROUP; ++i) {
      z[i] = ROUND(ROUND(UNIFORM(words, i) * span) + b->low);
      g[i] = ROUND(ROUND(shift - ROUND(z[i] * z[i])) / 2);
    }
    dp_philox_next(&work->generator, more);
    for (int i = 0; i < GROUP; ++i) {
      if (UNIFORM(more, i) <= ROUND(CALL(exp)(g[i]))) {
        if (DP_PASTE(accept, SUFFIX)(work, b, z[i]))
          return NULL;
      } else if (++b->tries >= MOST_TRIES) {
        return exhausted("uniform");
      }
    }
  }
}

static dp_status *DP_PASTE(by_exponentials, SUFFIX)(truncated_work *work,
                                                    DP_PASTE(bounds, SUFFIX) * b) {
  const T root = ROUND(CALL(sqrt)(ROUND(ROUND(b->low * b->low) + 4)));
  const T alpha = ROUND(ROUND(b->low + root) / 2);
  for (;;) {
    uint32_t words[4];
    dp_philox_next(&work->generator, words);
    for (int i = 0; i < GROUP; i += 2) {
      T z = ROUND(ROUND(-ROUND(CALL(log)(UNIFORM(words, i))) / alpha) + b->low);
      T x = b->low < alpha ? ROUND(alpha - z) : ROUND(b->low - alpha);
      T g = ROUND(CALL(exp)(ROUND(ROUND(-x * x) / 2)));
      if (UNIFORM(words, i + 1) <= g && z < b->high) {
        if (DP_PASTE(accept, SUFFIX)(work, b, z))
          return NULL;
      } else if (++b->tries >= MOST_TRIES) {
        return exhausted("exponential distribution");
      }
    }
  }
}

static dp_status *DP_PASTE(run_batch, SUFFIX)(truncated_work *work, int64_t batch, int64_t count) {
  T values[4];
  for (int i = 0; i < 4; ++i)
    values[i] = LOAD(work->parameters[i], parameter_index(work, i, batch));
  T mean = values[0], deviation = values[1], low = values[2], high = values[3];
  if (!(deviation > 0 && low < high && (isfinite(low) || isfinite(high))))
    return DP_INVALID("Invalid parameters");
  if ((isinf(low) && low < 0) || high < mean) {
    T held = low;
    low = high;
    high = held;
    deviation = -deviation;
  }
  DP_PASTE(bounds, SUFFIX)
  b = {.mean = mean,
       .deviation = deviation,
       .low = ROUND(ROUND(low - mean) / deviation),
       .high = ROUND(ROUND(high - mean) / deviation),
       .batch = batch,
       .count = count};
  const T limit = ROUND((T)1.3);
  if ((b.low < -limit && b.high >= 0) || (b.high > limit && b.low <= 0))
    return DP_PASTE(by_normals, SUFFIX)(work, &b);
  T root = ROUND(CALL(sqrt)(ROUND(ROUND(b.low * b.low) + 4)));
  T exponent = ROUND((T)0.5 + ROUND(ROUND(b.low * ROUND(b.low - root)) / 4));
  T cutoff = ROUND(ROUND(2 * ROUND(CALL(exp)(exponent))) / ROUND(b.low + root));
  return ROUND(b.high - b.low) < cutoff ? DP_PASTE(by_uniforms, SUFFIX)(work, &b)
                                        : DP_PASTE(by_exponentials, SUFFIX)(work, &b);
}

static dp_status *DP_PASTE(run_batches, SUFFIX)(truncated_work *work) {
  int64_t left = work->output->shape.elements;
  for (int64_t batch = 0; batch < work->batches && left > 0; ++batch) {
    int64_t count = left < work->per_batch ? left : work->per_batch;
    DP_RETURN_IF_ERROR(DP_PASTE(run_batch, SUFFIX)(work, batch, count));
    left -= count;
  }
  return NULL;
}

#undef T
#undef SUFFIX
#undef ROUND
#undef CALL
#undef GROUP
#undef LOAD
#undef STORE
#undef UNIFORM
#undef NORMAL
