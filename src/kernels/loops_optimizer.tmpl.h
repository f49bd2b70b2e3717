/* Optimizers that reals and complex numbers share. The includer defines T, SUFFIX and SQRT. The
 * loops name the old variable `v`, old slots `a`, `b`, `c`, and the gradient `g`. */
#ifndef SCALAR
#define SCALAR(index) ((T)call->scalars[index])
#define OLD(index) ((const T *)call->old[index])
#define NEW(index) ((T *)call->target[index])
#define LOOP                                                                                       \
  const T *gradient = call->gradient;                                                              \
  const int64_t count = call->count;                                                               \
  DP_INDEPENDENT                                                                                   \
  for (int64_t i = 0; i < count; ++i)
#endif

static void DP_PASTE(gradient_descent, SUFFIX)(const dp_optimizer_call *call) {
  const T rate = SCALAR(0);
  const T *v = OLD(0);
  T *variable = NEW(0);
  LOOP variable[i] = v[i] - gradient[i] * rate;
}

static void DP_PASTE(momentum, SUFFIX)(const dp_optimizer_call *call) {
  const T rate = SCALAR(0), momentum = SCALAR(1);
  const bool nesterov = call->option;
  const T *v = OLD(0), *a = OLD(1);
  T *variable = NEW(0), *sum = NEW(1);
  LOOP {
    T g = gradient[i], moved = a[i] * momentum + g;
    sum[i] = moved;
    variable[i] = v[i] - (nesterov ? g * rate + moved * momentum * rate : moved * rate);
  }
}

static void DP_PASTE(keras_momentum, SUFFIX)(const dp_optimizer_call *call) {
  const T rate = SCALAR(0), momentum = SCALAR(1);
  const bool nesterov = call->option;
  const T *v = OLD(0), *a = OLD(1);
  T *variable = NEW(0), *sum = NEW(1);
  LOOP {
    T g = gradient[i], moved = a[i] * momentum - g * rate;
    sum[i] = moved;
    variable[i] = v[i] + (nesterov ? moved * momentum - g * rate : moved);
  }
}

static void DP_PASTE(adagrad, SUFFIX)(const dp_optimizer_call *call) {
  const T rate = SCALAR(0);
  const bool update_slots = call->option;
  const T *v = OLD(0), *a = OLD(1);
  T *variable = NEW(0), *sum = NEW(1);
  LOOP {
    T g = gradient[i], squares = update_slots ? a[i] + g * g : a[i];
    sum[i] = squares;
    variable[i] = v[i] - g * rate / SQRT(squares);
  }
}

static void DP_PASTE(adagrad_v2, SUFFIX)(const dp_optimizer_call *call) {
  const T rate = SCALAR(0), epsilon = SCALAR(1);
  const bool update_slots = call->option;
  const T *v = OLD(0), *a = OLD(1);
  T *variable = NEW(0), *sum = NEW(1);
  LOOP {
    T g = gradient[i], squares = update_slots ? a[i] + g * g : a[i];
    sum[i] = squares;
    variable[i] = v[i] - g * rate / (SQRT(squares) + epsilon);
  }
}

static void DP_PASTE(adadelta, SUFFIX)(const dp_optimizer_call *call) {
  const T rate = SCALAR(0), rho = SCALAR(1), epsilon = SCALAR(2);
  const T rest = (T)1 - rho;
  const T *v = OLD(0), *a = OLD(1), *b = OLD(2);
  T *variable = NEW(0), *squares = NEW(1), *updates = NEW(2);
  LOOP {
    T g = gradient[i], square = a[i] * rho + g * g * rest;
    T update = SQRT(b[i] + epsilon) / SQRT(square + epsilon) * g;
    squares[i] = square;
    variable[i] = v[i] - update * rate;
    updates[i] = b[i] * rho + update * update * rest;
  }
}

/* Scalars: beta1_power, beta2_power, lr, beta1, beta2, epsilon. */
static void DP_PASTE(adam, SUFFIX)(const dp_optimizer_call *call) {
  const T beta1 = SCALAR(3), epsilon = SCALAR(5);
  const T rate = SCALAR(2) * SQRT((T)1 - SCALAR(1)) / ((T)1 - SCALAR(0));
  const T rest1 = (T)1 - beta1, rest2 = (T)1 - SCALAR(4);
  const bool nesterov = call->option;
  const T *v = OLD(0), *a = OLD(1), *b = OLD(2);
  T *variable = NEW(0), *mean = NEW(1), *squares = NEW(2);
  LOOP {
    T g = gradient[i], m = a[i] + (g - a[i]) * rest1, square = b[i] + (g * g - b[i]) * rest2;
    T step = nesterov ? g * rest1 + beta1 * m : m;
    mean[i] = m;
    squares[i] = square;
    variable[i] = v[i] - step * rate / (SQRT(square) + epsilon);
  }
}

/* Scalars: lr, rho, momentum, epsilon. */
static void DP_PASTE(rmsprop, SUFFIX)(const dp_optimizer_call *call) {
  const T rate = SCALAR(0), rest = (T)1 - SCALAR(1), momentum = SCALAR(2), epsilon = SCALAR(3);
  const T *v = OLD(0), *a = OLD(1), *b = OLD(2);
  T *variable = NEW(0), *squares = NEW(1), *moments = NEW(2);
  LOOP {
    T g = gradient[i], square = a[i] + (g * g - a[i]) * rest;
    T moment = b[i] * momentum + g * rate / SQRT(square + epsilon);
    squares[i] = square;
    moments[i] = moment;
    variable[i] = v[i] - moment;
  }
}

static void DP_PASTE(centered_rmsprop, SUFFIX)(const dp_optimizer_call *call) {
  const T rate = SCALAR(0), rest = (T)1 - SCALAR(1), momentum = SCALAR(2), epsilon = SCALAR(3);
  const T *v = OLD(0), *a = OLD(1), *b = OLD(2), *c = OLD(3);
  T *variable = NEW(0), *means = NEW(1), *squares = NEW(2), *moments = NEW(3);
  LOOP {
    T g = gradient[i], square = b[i] + (g * g - b[i]) * rest, mean = a[i] + (g - a[i]) * rest;
    T moment = c[i] * momentum + g * rate / SQRT(square - mean * mean + epsilon);
    squares[i] = square;
    means[i] = mean;
    moments[i] = moment;
    variable[i] = v[i] - moment;
  }
}
