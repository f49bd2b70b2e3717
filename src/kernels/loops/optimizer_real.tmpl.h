/* Optimizers for real types only. Included after optimizer.tmpl.h; the includer also defines SIGN,
 * ABS, POW and EXP. */
/* Moves `value` towards 0 by `distance`, but not beyond 0. */
static inline T DP_PASTE(nearer, SUFFIX)(T value, T distance) {
  T magnitude = ABS(value) - distance;
  return SIGN(value) * IF_GREATER(magnitude, OF(0), magnitude, OF(0));
}

/* Scalars: alpha, l1, l2. */
static void DP_PASTE(proximal_gradient_descent, SUFFIX)(const dp_optimizer_call *call) {
  const T rate = SCALAR(0), distance = OF(NUMBER(0) * NUMBER(1));
  const T divisor = OF(1 + NUMBER(2) * NUMBER(0));
  const bool has_l1 = NUMBER(1) > 0;
  const E *v = OLD(0);
  E *variable = NEW(0);
  LOOP {
    T moved = LOAD(v) - LOAD(gradient) * rate;
    STORE(variable, (has_l1 ? DP_PASTE(nearer, SUFFIX)(moved, distance) : moved) / divisor);
  }
}

static void DP_PASTE(proximal_adagrad, SUFFIX)(const dp_optimizer_call *call) {
  const T base = SCALAR(0), l1 = SCALAR(1), l2 = SCALAR(2), one = OF(1);
  const bool has_l1 = NUMBER(1) > 0;
  const E *v = OLD(0), *a = OLD(1);
  E *variable = NEW(0), *sum = NEW(1);
  LOOP {
    T g = LOAD(gradient), squares = LOAD(a) + g * g, rate = OVER_SQRT(base, squares);
    T moved = LOAD(v) - g * rate;
    STORE(sum, squares);
    STORE(variable,
          (has_l1 ? DP_PASTE(nearer, SUFFIX)(moved, rate * l1) : moved) / (one + l2 * rate));
  }
}

/* Scalars: lr, l1, l2, global_step. */
static void DP_PASTE(adagrad_da, SUFFIX)(const dp_optimizer_call *call) {
  const E step = (E)(float)NUMBER(3);
  const T opposite = OF(-NUMBER(0)), distance = OF(step * NUMBER(1));
  const T least = OF(NUMBER(2) * (step * NUMBER(0)));
  const bool has_l1 = NUMBER(1) > 0;
  const E *a = OLD(1), *b = OLD(2);
  E *variable = NEW(0), *sums = NEW(1), *squares = NEW(2);
  LOOP {
    T g = LOAD(gradient), sum = LOAD(a) + g, square = LOAD(b) + g * g;
    T direction = has_l1 ? DP_PASTE(nearer, SUFFIX)(sum, distance) : sum;
    STORE(sums, sum);
    STORE(squares, square);
    STORE(variable, opposite * direction / (least + SQRT(square)));
  }
}

/* Scalars: beta1_power, lr, beta1, beta2, epsilon. */
static void DP_PASTE(adamax, SUFFIX)(const dp_optimizer_call *call) {
  const T rate = OF(NUMBER(1) / (1 - NUMBER(0))), rest1 = OF(1 - NUMBER(2)), beta2 = SCALAR(3);
  const T epsilon = SCALAR(4);
  const E *v = OLD(0), *a = OLD(1), *b = OLD(2);
  E *variable = NEW(0), *mean = NEW(1), *largest = NEW(2);
  LOOP {
    T g = LOAD(gradient), m = LOAD(a) + (g - LOAD(a)) * rest1;
    T decayed = beta2 * LOAD(b), size = ABS(g), most = IF_GREATER(decayed, size, decayed, size);
    STORE(mean, m);
    STORE(largest, most);
    STORE(variable, LOAD(v) - rate * (m / (most + epsilon)));
  }
}

/* Scalars as Adam's. */
static void DP_PASTE(amsgrad, SUFFIX)(const dp_optimizer_call *call) {
  const T rate = OF(NUMBER(2) * ELEMENT_SQRT(1 - NUMBER(1)) / (1 - NUMBER(0)));
  const T rest1 = OF(1 - NUMBER(3)), rest2 = OF(1 - NUMBER(4)), epsilon = SCALAR(5);
  const E *v = OLD(0), *a = OLD(1), *b = OLD(2), *c = OLD(3);
  E *variable = NEW(0), *mean = NEW(1), *squares = NEW(2), *largest = NEW(3);
  LOOP {
    T g = LOAD(gradient), m = LOAD(a) + (g - LOAD(a)) * rest1;
    T square = LOAD(b) + (g * g - LOAD(b)) * rest2;
    T most = IF_GREATER(LOAD(c), square, LOAD(c), square);
    STORE(mean, m);
    STORE(squares, square);
    STORE(largest, most);
    STORE(variable, LOAD(v) - m * rate / (SQRT(most) + epsilon));
  }
}

/* FTRL. The common case lr_power = -1/2 needs no powers. `scaled` is multiply_linear_by_lr. A dense
 * update gives 0 wherever |linear| <= l1; a sparse update divides even there. */
static inline T DP_PASTE(clip, SUFFIX)(T value, T limit) {
  T low = IF_GREATER(limit, value, value, limit), least = OF(0) - limit;
  return IF_GREATER(low, least, low, least);
}

static inline void DP_PASTE(ftrl_step, SUFFIX)(const dp_optimizer_call *call, E rate, E l1, E l2,
                                               E shrinkage, E power) {
  const bool scaled = call->option, is_sparse = call->is_sparse, is_root = power == (E)-0.5;
  const T limit = OF(scaled ? l1 * rate : l1), base = OF(scaled ? 2 * l2 * rate : 2 * l2);
  const T gain = OF(scaled ? rate : 1), loss = OF(scaled ? 1 : 1 / rate);
  const T pull = OF(2 * shrinkage);
  const E *v = OLD(0), *a = OLD(1), *b = OLD(2);
  E *variable = NEW(0), *sum = NEW(1), *linear = NEW(2);
/* Dense and sparse updates differ in the last step; each has a loop of its own, without a branch.
 */
#define FTRL(power_of, pull_of, value_of)                                                          \
  LOOP {                                                                                           \
    T g = LOAD(gradient), squares = LOAD(a) + g * g, root = power_of(squares);                     \
    T change = (root - power_of(LOAD(a))) * loss * LOAD(v);                                        \
    T line = LOAD(b) + ((g + pull * LOAD(v)) * gain - change);                                     \
    T value = (pull_of(line) - line) / (root * loss + base);                                       \
    STORE(sum, squares);                                                                           \
    STORE(linear, line);                                                                           \
    STORE(variable, value_of(line, value));                                                        \
  }
#define SIGNED_LIMIT(line) (limit * SIGN(line))
#define BEYOND_LIMIT(line, value) IF_GREATER(ABS(line), limit, value, OF(0))
#define WITHIN_LIMIT(line) DP_PASTE(clip, SUFFIX)(line, limit)
#define ANYWHERE(line, value) (value)
#define POWER_OF(x) POW(x, OF(-power))
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
  DP_PASTE(ftrl_step, SUFFIX)(call, NUMBER(0), NUMBER(1), NUMBER(2), 0, NUMBER(3));
}
static void DP_PASTE(ftrl_v2, SUFFIX)(const dp_optimizer_call *call) {
  DP_PASTE(ftrl_step, SUFFIX)(call, NUMBER(0), NUMBER(1), NUMBER(2), NUMBER(4), NUMBER(3));
}

/* Scalars: lr, alpha, sign_decay, beta. */
static void DP_PASTE(add_sign, SUFFIX)(const dp_optimizer_call *call) {
  const T rate = SCALAR(0), alpha = SCALAR(1), decay = SCALAR(2);
  const T beta = SCALAR(3), rest = OF(1 - NUMBER(3));
  const E *v = OLD(0), *a = OLD(1);
  E *variable = NEW(0), *mean = NEW(1);
  LOOP {
    T g = LOAD(gradient), m = LOAD(a) * beta + g * rest;
    T agreement = SIGN(g) * SIGN(m);
    STORE(mean, m);
    STORE(variable, LOAD(v) - rate * (alpha + decay * agreement) * g);
  }
}

/* Scalars: lr, logbase, sign_decay, beta. */
static void DP_PASTE(power_sign, SUFFIX)(const dp_optimizer_call *call) {
  const T rate = SCALAR(0), decay = OF(NUMBER(1) * NUMBER(2));
  const T beta = SCALAR(3), rest = OF(1 - NUMBER(3));
  const E *v = OLD(0), *a = OLD(1);
  E *variable = NEW(0), *mean = NEW(1);
  LOOP {
    T g = LOAD(gradient), m = LOAD(a) * beta + g * rest;
    T agreement = SIGN(g) * SIGN(m);
    STORE(mean, m);
    STORE(variable, LOAD(v) - rate * EXP(decay * agreement) * g);
  }
}
