/* Optimizers of reals only; included behind loops_optimizer.tmpl.h, whose macros it uses. The
 * includer also defines ABS, POW and EXP; everything is undefined at the end. */
static inline T DP_PASTE(sign_of, SUFFIX)(T x) {
  return (T)((x > 0) - (x < 0));
}

/* The variable after a step of size `rate` towards 0 by l1 and l2. */
static inline T DP_PASTE(shrink, SUFFIX)(T moved, T rate, T l1, T l2) {
  T magnitude = ABS(moved) - rate * l1;
  magnitude = magnitude > 0 ? magnitude : 0;
  T shrunk = l1 > 0 ? DP_PASTE(sign_of, SUFFIX)(moved) * magnitude : moved;
  return shrunk / (1 + l2 * rate);
}

/* Scalars: alpha, l1, l2. */
static void DP_PASTE(proximal_gradient_descent, SUFFIX)(const dp_optimizer_call *call) {
  const T rate = SCALAR(0), l1 = SCALAR(1), l2 = SCALAR(2);
  const T *v = OLD(0);
  T *variable = NEW(0);
  LOOP variable[i] = DP_PASTE(shrink, SUFFIX)(v[i] - gradient[i] * rate, rate, l1, l2);
}

static void DP_PASTE(proximal_adagrad, SUFFIX)(const dp_optimizer_call *call) {
  const T base = SCALAR(0), l1 = SCALAR(1), l2 = SCALAR(2);
  const T *v = OLD(0), *a = OLD(1);
  T *variable = NEW(0), *sum = NEW(1);
  LOOP {
    T g = gradient[i], squares = a[i] + g * g, rate = base / SQRT(squares);
    sum[i] = squares;
    variable[i] = DP_PASTE(shrink, SUFFIX)(v[i] - g * rate, rate, l1, l2);
  }
}

/* Scalars: lr, l1, l2, global_step. */
static void DP_PASTE(adagrad_da, SUFFIX)(const dp_optimizer_call *call) {
  const T rate = SCALAR(0), l1 = SCALAR(1), l2 = SCALAR(2), step = (T)(float)SCALAR(3);
  const T *a = OLD(1), *b = OLD(2);
  T *variable = NEW(0), *sums = NEW(1), *squares = NEW(2);
  LOOP {
    T g = gradient[i], sum = a[i] + g, square = b[i] + g * g;
    T magnitude = ABS(sum) - step * l1;
    magnitude = magnitude > 0 ? magnitude : 0;
    T direction = l1 > 0 ? DP_PASTE(sign_of, SUFFIX)(sum) * magnitude : sum;
    sums[i] = sum;
    squares[i] = square;
    variable[i] = -rate * direction / (l2 * (step * rate) + SQRT(square));
  }
}

/* Scalars: beta1_power, lr, beta1, beta2, epsilon. */
static void DP_PASTE(adamax, SUFFIX)(const dp_optimizer_call *call) {
  const T rate = SCALAR(1) / (1 - SCALAR(0)), rest1 = 1 - SCALAR(2), beta2 = SCALAR(3);
  const T epsilon = SCALAR(4);
  const T *v = OLD(0), *a = OLD(1), *b = OLD(2);
  T *variable = NEW(0), *mean = NEW(1), *largest = NEW(2);
  LOOP {
    T g = gradient[i], m = a[i] + (g - a[i]) * rest1, decayed = beta2 * b[i], size = ABS(g);
    T most = decayed > size ? decayed : size;
    mean[i] = m;
    largest[i] = most;
    variable[i] = v[i] - rate * (m / (most + epsilon));
  }
}

/* Scalars as Adam's. */
static void DP_PASTE(amsgrad, SUFFIX)(const dp_optimizer_call *call) {
  const T rate = SCALAR(2) * SQRT(1 - SCALAR(1)) / (1 - SCALAR(0));
  const T rest1 = 1 - SCALAR(3), rest2 = 1 - SCALAR(4), epsilon = SCALAR(5);
  const T *v = OLD(0), *a = OLD(1), *b = OLD(2), *c = OLD(3);
  T *variable = NEW(0), *mean = NEW(1), *squares = NEW(2), *largest = NEW(3);
  LOOP {
    T g = gradient[i], m = a[i] + (g - a[i]) * rest1, square = b[i] + (g * g - b[i]) * rest2;
    T most = c[i] > square ? c[i] : square;
    mean[i] = m;
    squares[i] = square;
    largest[i] = most;
    variable[i] = v[i] - m * rate / (SQRT(most) + epsilon);
  }
}

/* The common case lr_power = -1/2 needs no powers. `scaled` is multiply_linear_by_lr. A dense
 * update gives 0 wherever l1 wins; a sparse one divides even there. */
static inline T DP_PASTE(clip, SUFFIX)(T value, T limit) {
  T low = value < limit ? value : limit;
  return low > -limit ? low : -limit;
}

static inline void DP_PASTE(ftrl_step, SUFFIX)(const dp_optimizer_call *call, T rate, T l1, T l2,
                                               T shrinkage, T power) {
  const bool scaled = call->option, is_sparse = call->is_sparse, is_root = power == (T)-0.5;
  const T limit = scaled ? l1 * rate : l1, base = scaled ? 2 * l2 * rate : 2 * l2;
  const T gain = scaled ? rate : 1, loss = scaled ? 1 : 1 / rate;
  const T *v = OLD(0), *a = OLD(1), *b = OLD(2);
  T *variable = NEW(0), *sum = NEW(1), *linear = NEW(2);
/* Dense and sparse updates differ in the last step; each has a loop of its own, which compilers
 * vectorize. */
#define FTRL(power_of, pull_of, value_of)                                                          \
  LOOP {                                                                                           \
    T g = gradient[i], squares = a[i] + g * g, root = power_of(squares);                           \
    T line = b[i] + ((g + 2 * shrinkage * v[i]) * gain - (root - power_of(a[i])) * loss * v[i]);   \
    T value = (pull_of(line) - line) / (root * loss + base);                                       \
    sum[i] = squares;                                                                              \
    linear[i] = line;                                                                              \
    variable[i] = value_of(line, value);                                                           \
  }
#define SIGNED_LIMIT(line) (limit * DP_PASTE(sign_of, SUFFIX)(line))
#define BEYOND_LIMIT(line, value) (ABS(line) > limit ? (value) : 0)
#define WITHIN_LIMIT(line) DP_PASTE(clip, SUFFIX)(line, limit)
#define ANYWHERE(line, value) (value)
#define POWER_OF(x) POW(x, -power)
  if (is_root && is_sparse) {
    FTRL(SQRT, WITHIN_LIMIT, ANYWHERE)
  } else if (is_root) {
    FTRL(SQRT, SIGNED_LIMIT, BEYOND_LIMIT)
  } else if (is_sparse) {
    FTRL(POWER_OF, WITHIN_LIMIT, ANYWHERE)
  } else {
    FTRL(POWER_OF, SIGNED_LIMIT, BEYOND_LIMIT)
  }
#undef SIGNED_LIMIT
#undef BEYOND_LIMIT
#undef WITHIN_LIMIT
#undef ANYWHERE
#undef POWER_OF
#undef FTRL
}

/* Scalars: lr, l1, l2, lr_power; version 2 has l2_shrinkage behind them. */
static void DP_PASTE(ftrl, SUFFIX)(const dp_optimizer_call *call) {
  DP_PASTE(ftrl_step, SUFFIX)(call, SCALAR(0), SCALAR(1), SCALAR(2), 0, SCALAR(3));
}
static void DP_PASTE(ftrl_v2, SUFFIX)(const dp_optimizer_call *call) {
  DP_PASTE(ftrl_step, SUFFIX)(call, SCALAR(0), SCALAR(1), SCALAR(2), SCALAR(4), SCALAR(3));
}

/* Scalars: lr, alpha, sign_decay, beta. */
static void DP_PASTE(add_sign, SUFFIX)(const dp_optimizer_call *call) {
  const T rate = SCALAR(0), alpha = SCALAR(1), decay = SCALAR(2), beta = SCALAR(3);
  const T *v = OLD(0), *a = OLD(1);
  T *variable = NEW(0), *mean = NEW(1);
  LOOP {
    T g = gradient[i], m = a[i] * beta + g * (1 - beta);
    T agreement = DP_PASTE(sign_of, SUFFIX)(g) * DP_PASTE(sign_of, SUFFIX)(m);
    mean[i] = m;
    variable[i] = v[i] - rate * (alpha + decay * agreement) * g;
  }
}

/* Scalars: lr, logbase, sign_decay, beta. */
static void DP_PASTE(power_sign, SUFFIX)(const dp_optimizer_call *call) {
  const T rate = SCALAR(0), decay = SCALAR(1) * SCALAR(2), beta = SCALAR(3);
  const T *v = OLD(0), *a = OLD(1);
  T *variable = NEW(0), *mean = NEW(1);
  LOOP {
    T g = gradient[i], m = a[i] * beta + g * (1 - beta);
    T agreement = DP_PASTE(sign_of, SUFFIX)(g) * DP_PASTE(sign_of, SUFFIX)(m);
    mean[i] = m;
    variable[i] = v[i] - rate * EXP(decay * agreement) * g;
  }
}

#undef T
#undef SUFFIX
#undef SQRT
#undef ABS
#undef POW
#undef EXP
