/* Optimizers that compute so little that they wait for memory (stream_internal.h), for all number
 * types. The includer defines T and SUFFIX; variables are named as in optimizer.tmpl.h. */
DP_STREAM static void DP_PASTE(gradient_descent, SUFFIX)(const dp_optimizer_call *call) {
  const T rate = SCALAR(0);
  const T *v = OLD(0);
  T *variable = NEW(0);
  STREAM {
    variable[i] = v[i] - gradient[i] * rate;
  }
}

DP_STREAM static void DP_PASTE(momentum, SUFFIX)(const dp_optimizer_call *call) {
  const T rate = SCALAR(0), momentum = SCALAR(1);
  const bool nesterov = call->option;
  const T *v = OLD(0), *a = OLD(1);
  T *variable = NEW(0), *sum = NEW(1);
  STREAM {
    T g = gradient[i], moved = a[i] * momentum + g;
    sum[i] = moved;
    variable[i] = v[i] - (nesterov ? g * rate + moved * momentum * rate : moved * rate);
  }
}

DP_STREAM static void DP_PASTE(keras_momentum, SUFFIX)(const dp_optimizer_call *call) {
  const T rate = SCALAR(0), momentum = SCALAR(1);
  const bool nesterov = call->option;
  const T *v = OLD(0), *a = OLD(1);
  T *variable = NEW(0), *sum = NEW(1);
  STREAM {
    T g = gradient[i], moved = a[i] * momentum - g * rate;
    sum[i] = moved;
    variable[i] = v[i] + (nesterov ? moved * momentum - g * rate : moved);
  }
}
