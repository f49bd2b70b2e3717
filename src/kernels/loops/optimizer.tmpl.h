/* Optimizers for real and complex types. The includer defines the value type T, its element type E,
 * SUFFIX, and the macros of optimizer.c. The loops call the old variable `v`, old slots `a`, `b`
 * and `c`, and the gradient `g`. */
static void DP_PASTE(adagrad, SUFFIX)(const dp_optimizer_call *call) {
  const T rate = SCALAR(0);
  const bool update_slots = call->option;
  const E *v = OLD(0), *a = OLD(1);
  E *variable = NEW(0), *sum = NEW(1);
  LOOP {
    T g = LOAD(gradient), squares = update_slots ? LOAD(a) + g * g : LOAD(a);
    STORE(sum, squares);
    STORE(variable, LOAD(v) - OVER_SQRT(g * rate, squares));
  }
}

static void DP_PASTE(adagrad_v2, SUFFIX)(const dp_optimizer_call *call) {
  const T rate = SCALAR(0), epsilon = SCALAR(1);
  const bool update_slots = call->option;
  const E *v = OLD(0), *a = OLD(1);
  E *variable = NEW(0), *sum = NEW(1);
  LOOP {
    T g = LOAD(gradient), squares = update_slots ? LOAD(a) + g * g : LOAD(a);
    STORE(sum, squares);
    STORE(variable, LOAD(v) - g * rate / (SQRT(squares) + epsilon));
  }
}

static void DP_PASTE(adadelta, SUFFIX)(const dp_optimizer_call *call) {
  const T rate = SCALAR(0), rho = SCALAR(1), epsilon = SCALAR(2), rest = OF(1 - NUMBER(1));
  const E *v = OLD(0), *a = OLD(1), *b = OLD(2);
  E *variable = NEW(0), *squares = NEW(1), *updates = NEW(2);
  LOOP {
    T g = LOAD(gradient), square = LOAD(a) * rho + g * g * rest;
    T update = OVER_SQRT(SQRT(LOAD(b) + epsilon), square + epsilon) * g;
    STORE(squares, square);
    STORE(variable, LOAD(v) - update * rate);
    STORE(updates, LOAD(b) * rho + update * update * rest);
  }
}

/* Scalars: beta1_power, beta2_power, lr, beta1, beta2, epsilon. */
static void DP_PASTE(adam, SUFFIX)(const dp_optimizer_call *call) {
  const T rate = OF(NUMBER(2) * ELEMENT_SQRT(1 - NUMBER(1)) / (1 - NUMBER(0)));
  const T rest1 = OF(1 - NUMBER(3)), rest2 = OF(1 - NUMBER(4));
  const T beta1 = SCALAR(3), epsilon = SCALAR(5);
  const bool nesterov = call->option;
  const E *v = OLD(0), *a = OLD(1), *b = OLD(2);
  E *variable = NEW(0), *mean = NEW(1), *squares = NEW(2);
  LOOP {
    T g = LOAD(gradient), m = LOAD(a) + (g - LOAD(a)) * rest1;
    T square = LOAD(b) + (g * g - LOAD(b)) * rest2, step = nesterov ? g * rest1 + beta1 * m : m;
    STORE(mean, m);
    STORE(squares, square);
    STORE(variable, LOAD(v) - step * rate / (SQRT(square) + epsilon));
  }
}

/* Scalars: lr, rho, momentum, epsilon. */
static void DP_PASTE(rmsprop, SUFFIX)(const dp_optimizer_call *call) {
  const T rate = SCALAR(0), rest = OF(1 - NUMBER(1)), momentum = SCALAR(2), epsilon = SCALAR(3);
  const E *v = OLD(0), *a = OLD(1), *b = OLD(2);
  E *variable = NEW(0), *squares = NEW(1), *moments = NEW(2);
  LOOP {
    T g = LOAD(gradient), square = LOAD(a) + (g * g - LOAD(a)) * rest;
    T moment = LOAD(b) * momentum + OVER_SQRT(g * rate, square + epsilon);
    STORE(squares, square);
    STORE(moments, moment);
    STORE(variable, LOAD(v) - moment);
  }
}

static void DP_PASTE(centered_rmsprop, SUFFIX)(const dp_optimizer_call *call) {
  const T rate = SCALAR(0), rest = OF(1 - NUMBER(1)), momentum = SCALAR(2), epsilon = SCALAR(3);
  const E *v = OLD(0), *a = OLD(1), *b = OLD(2), *c = OLD(3);
  E *variable = NEW(0), *means = NEW(1), *squares = NEW(2), *moments = NEW(3);
  LOOP {
    T g = LOAD(gradient), square = LOAD(b) + (g * g - LOAD(b)) * rest;
    T mean = LOAD(a) + (g - LOAD(a)) * rest;
    T moment = LOAD(c) * momentum + OVER_SQRT(g * rate, square - mean * mean + epsilon);
    STORE(squares, square);
    STORE(means, mean);
    STORE(moments, moment);
    STORE(variable, LOAD(v) - moment);
  }
}
