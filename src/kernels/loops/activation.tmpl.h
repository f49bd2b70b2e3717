/* Activations of one type. The includer defines T and SUFFIX. For floating types it also defines
 * IS_FLOAT, FAST(name) (the vectorized function), CALL(name) (libm's function) and SOFTPLUS_LIMIT
 * (softplus is linear beyond it). */
#define FORWARD_BODY(name, loop, expression)                                                       \
  static void DP_PASTE(name, SUFFIX)(const void *from, void *to, int64_t count, double alpha) {    \
    const T *input = from;                                                                         \
    T *output = to;                                                                                \
    const T slope = (T)alpha;                                                                      \
    (void)slope;                                                                                   \
    loop for (int64_t i = 0; i < count; ++i) {                                                     \
      T x = input[i];                                                                              \
      output[i] = (T)(expression);                                                                 \
    }                                                                                              \
  }
#define GRADIENT_BODY(name, loop, expression)                                                      \
  static void DP_PASTE(name##_grad, SUFFIX)(const void *gradient, const void *feature, void *to,   \
                                            int64_t count, double alpha) {                         \
    const T *gradients = gradient, *features = feature;                                            \
    T *output = to;                                                                                \
    const T slope = (T)alpha;                                                                      \
    (void)slope;                                                                                   \
    loop for (int64_t i = 0; i < count; ++i) {                                                     \
      T x = features[i], g = gradients[i];                                                         \
      output[i] = (T)(expression);                                                                 \
    }                                                                                              \
  }
#define FORWARD(name, expression) FORWARD_BODY(name, DP_INDEPENDENT, expression)
#define GRADIENT(name, expression) GRADIENT_BODY(name, DP_INDEPENDENT, expression)
#define STREAM_FORWARD(name, expression) DP_STREAM FORWARD_BODY(name, DP_STREAM_LOOP, expression)
#define STREAM_GRADIENT(name, expression) DP_STREAM GRADIENT_BODY(name, DP_STREAM_LOOP, expression)

#ifdef IS_FLOAT
#define AT_LEAST_ZERO(x) ((x) < 0 ? 0 : (x)) /* a NaN stays a NaN */
#else
#define AT_LEAST_ZERO(x) ((x) > 0 ? (x) : 0)
#endif
STREAM_FORWARD(relu, AT_LEAST_ZERO(x))
FORWARD(relu6, x > 6 ? 6 : AT_LEAST_ZERO(x))
#undef AT_LEAST_ZERO
STREAM_FORWARD(leaky_relu, x > 0 ? x : x * slope)
STREAM_GRADIENT(relu, g *(T)(x > 0))
GRADIENT(relu6, g *(T)(x > 0 && x < 6))
STREAM_GRADIENT(leaky_relu, x > 0 ? g : g * slope)

#ifdef IS_FLOAT
#define SELU_SCALE ((T)1.0507009873554804934193349852946)
#define SELU_SCALE_ALPHA ((T)1.7580993408473768599402175208123)

static inline T DP_PASTE(softplus_of, SUFFIX)(T x) {
  T e = FAST(exp)(x), middle = FAST(log1p)(e);
  T result = x < -SOFTPLUS_LIMIT ? e : middle;
  return x > SOFTPLUS_LIMIT ? x : result;
}

FORWARD(elu, x < 0 ? FAST(expm1)(x) : x)
FORWARD(selu, x < 0 ? SELU_SCALE_ALPHA * FAST(expm1)(x) : SELU_SCALE * x)
FORWARD(softplus, DP_PASTE(softplus_of, SUFFIX)(x))
FORWARD(softsign, x / (1 + CALL(fabs)(x)))
GRADIENT(elu, x < 0 ? (x + 1) * g : g)
GRADIENT(selu, x < 0 ? g * (x + SELU_SCALE_ALPHA) : g * SELU_SCALE)
GRADIENT(softplus, g / (FAST(exp)(-x) + 1))
GRADIENT(softsign, g / ((1 + CALL(fabs)(x)) * (1 + CALL(fabs)(x))))
#undef SELU_SCALE
#undef SELU_SCALE_ALPHA
#endif

#undef FORWARD_BODY
#undef GRADIENT_BODY
#undef FORWARD
#undef GRADIENT
#undef STREAM_FORWARD
#undef STREAM_GRADIENT
#undef T
#undef SUFFIX
