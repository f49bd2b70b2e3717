/* Features of sound: AudioSpectrogram gives the spectra of short pieces, Mfcc the mel-frequency
 * cepstral coefficients of spectra. Everything is computed in double. Pieces are split over the
 * pool. */
#include "kernels/shared/family.h"

#include <complex.h>
#include <math.h>
#include <string.h>
#include "base/memory.h"

/* ---- AudioSpectrogram ---- */
typedef struct spectrogram_state {
  int64_t window, stride;
  bool is_squared;
  int64_t size;            /* of the transform: the next power of two */
  double *weights;         /* of the window */
  double _Complex *angles; /* roots of one, half of them */
} spectrogram_state;

static dp_status *spectrogram_create(const dp_kernel_setup *setup, void *memory) {
  spectrogram_state *state = memory;
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "window_size", &state->window));
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "stride", &state->stride));
  DP_RETURN_IF_ERROR(dp_node_get_bool(setup->node, "magnitude_squared", &state->is_squared));
  if (state->window < 2 || state->window > 1 << 24 || state->stride < 1)
    return NULL; /* an error of the run, as in TensorFlow */
  for (state->size = 1; state->size < state->window;)
    state->size *= 2;
  state->weights = dp_malloc((size_t)state->window * sizeof *state->weights);
  state->angles = dp_malloc((size_t)state->size * sizeof *state->angles);
  for (int64_t i = 0; i < state->window; ++i)
    state->weights[i] = 0.5 - 0.5 * cos(2 * M_PI * (double)i / (double)state->window);
  for (int64_t i = 0; i < state->size / 2; ++i)
    state->angles[i] = cexp(-2 * M_PI * I * (double)i / (double)state->size);
  return NULL;
}

static void spectrogram_destroy(void *memory) {
  spectrogram_state *state = memory;
  dp_free(state->weights);
  dp_free(state->angles);
}

/* The usual transform by powers of two, in place. */
static void transform(const spectrogram_state *state, double _Complex *x) {
  int64_t size = state->size;
  for (int64_t i = 1, j = 0; i < size; ++i) {
    int64_t bit = size >> 1;
    for (; j & bit; bit >>= 1)
      j ^= bit;
    j ^= bit;
    if (i < j) {
      double _Complex held = x[i];
      x[i] = x[j];
      x[j] = held;
    }
  }
  for (int64_t half = 1; half < size; half *= 2)
    for (int64_t begin = 0; begin < size; begin += 2 * half)
      for (int64_t k = 0; k < half; ++k) {
        double _Complex low = x[begin + k];
        double _Complex high = x[begin + half + k] * state->angles[k * (size / (2 * half))];
        x[begin + k] = low + high;
        x[begin + half + k] = low - high;
      }
}

typedef struct spectrogram_call {
  const spectrogram_state *state;
  const float *samples; /* [samples, channels] */
  int64_t channels, pieces;
  float *out; /* [channels, pieces, bins] */
} spectrogram_call;

static void spectrogram_range(void *arg, int64_t begin, int64_t end) {
  const spectrogram_call *call = arg;
  const spectrogram_state *state = call->state;
  int64_t bins = state->size / 2 + 1;
  double _Complex *x = dp_malloc((size_t)state->size * sizeof *x);
  for (int64_t index = begin; index < end; ++index) {
    int64_t channel = index / call->pieces, first = index % call->pieces * state->stride;
    memset(x, 0, (size_t)state->size * sizeof *x);
    for (int64_t i = 0; i < state->window; ++i)
      x[i] = (double)call->samples[(first + i) * call->channels + channel] * state->weights[i];
    transform(state, x);
    for (int64_t i = 0; i < bins; ++i) {
      double square = creal(x[i]) * creal(x[i]) + cimag(x[i]) * cimag(x[i]);
      call->out[index * bins + i] = (float)(state->is_squared ? square : sqrt(square));
    }
  }
  dp_free(x);
}

static dp_status *spectrogram_compute(dp_op_context *context, void *memory) {
  const spectrogram_state *state = memory;
  const dp_tensor *input = dp_op_input(context, 0);
  if (input->shape.rank != 2)
    return DP_INVALID("input must be 2-dimensional%s", dp_shape_text(&input->shape));
  if (!state->weights)
    return DP_INVALID("Spectrogram initialization failed for window size %lld and stride %lld",
                      (long long)state->window, (long long)state->stride);
  int64_t samples = input->shape.dims[0], channels = input->shape.dims[1];
  int64_t pieces = samples < state->window ? 0 : 1 + (samples - state->window) / state->stride;
  int64_t dims[3] = {channels, pieces, state->size / 2 + 1};
  dp_shape shape;
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_shape_make(3, dims, &shape));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  spectrogram_call call = {state, input->data, channels, pieces, output->data};
  dp_op_for(context, channels * pieces, state->size * 20, spectrogram_range, &call);
  return NULL;
}

/* ---- Mfcc ---- */
typedef struct mfcc_state {
  float low, high; /* limits in hertz */
  int64_t bands, coefficients;
} mfcc_state;

static dp_status *mfcc_create(const dp_kernel_setup *setup, void *memory) {
  mfcc_state *state = memory;
  const dp_node *node = setup->node;
  DP_RETURN_IF_ERROR(dp_node_get_float(node, "upper_frequency_limit", &state->high));
  DP_RETURN_IF_ERROR(dp_node_get_float(node, "lower_frequency_limit", &state->low));
  DP_RETURN_IF_ERROR(dp_node_get_int(node, "filterbank_channel_count", &state->bands));
  return dp_node_get_int(node, "dct_coefficient_count", &state->coefficients);
}

/* Each bin of a spectrum belongs to the slopes of two triangles, one falling and one rising: the
 * share of the falling one, and its band (-1 before the first, -2 outside the limits). */
typedef struct mfcc_call {
  const mfcc_state *state;
  const float *spectra;
  int64_t bins, first, last;
  double *shares;
  int64_t *falling;
  double *cosines; /* [coefficients, bands] */
  float *out;
} mfcc_call;

static double mel_of(double hertz) {
  return 1127 * log1p(hertz / 700);
}

static void make_bands(mfcc_call *call, double rate, double *centers) {
  const mfcc_state *state = call->state;
  double low = mel_of((double)state->low), high = mel_of((double)state->high);
  double spacing = (high - low) / (double)(state->bands + 1),
         step = 0.5 * rate / (double)(call->bins - 1);
  for (int64_t i = 0; i <= state->bands; ++i)
    centers[i] = low + spacing * (double)(i + 1);
  call->first = (int64_t)(1.5 + (double)state->low / step);
  call->last = (int64_t)((double)state->high / step);
  int64_t band = 0;
  for (int64_t i = 0; i < call->bins; ++i) {
    double mel = mel_of((double)i * step);
    call->falling[i] = -2;
    call->shares[i] = 0;
    if (i < call->first || i > call->last)
      continue;
    while (band < state->bands && centers[band] < mel)
      ++band;
    call->falling[i] = band - 1;
    double from = band > 0 ? centers[band - 1] : low;
    call->shares[i] = (centers[band] - mel) / (centers[band] - from);
  }
}

static void make_cosines(mfcc_call *call) {
  int64_t bands = call->state->bands;
  double norm = sqrt(2 / (double)bands), angle = M_PI / (double)bands;
  for (int64_t i = 0; i < call->state->coefficients; ++i)
    for (int64_t j = 0; j < bands; ++j)
      call->cosines[i * bands + j] = norm * cos((double)i * angle * ((double)j + 0.5));
}

static void fill_bands(const mfcc_call *call, const float *spectrum, double *sums) {
  memset(sums, 0, (size_t)call->state->bands * sizeof *sums);
  for (int64_t i = call->first; i <= call->last; ++i) {
    double value = sqrt((double)spectrum[i]), share = value * call->shares[i];
    int64_t band = call->falling[i];
    if (band >= 0)
      sums[band] += share;
    if (band + 1 < call->state->bands)
      sums[band + 1] += value - share;
  }
}

static void mfcc_range(void *arg, int64_t begin, int64_t end) {
  const mfcc_call *call = arg;
  int64_t bands = call->state->bands, coefficients = call->state->coefficients;
  double *sums = dp_malloc((size_t)bands * sizeof *sums);
  for (int64_t index = begin; index < end; ++index) {
    fill_bands(call, call->spectra + index * call->bins, sums);
    for (int64_t i = 0; i < bands; ++i)
      sums[i] = log(sums[i] < 1e-12 ? 1e-12 : sums[i]);
    for (int64_t i = 0; i < coefficients; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < bands; ++j)
        sum += call->cosines[i * bands + j] * sums[j];
      call->out[index * coefficients + i] = (float)sum;
    }
  }
  dp_free(sums);
}

static dp_status *check_mfcc(const mfcc_state *state, const dp_tensor *spectra,
                             const dp_tensor *rate) {
  if (spectra->shape.rank != 3)
    return DP_INVALID("spectrogram must be 3-dimensional%s", dp_shape_text(&spectra->shape));
  if (rate->shape.elements != 1)
    return DP_INVALID("Input sample_rate should be a scalar tensor, got %s instead.",
                      dp_shape_text(&rate->shape));
  int64_t bins = spectra->shape.dims[2];
  double limit = 0.5 * (double)dp_tensor_int_at(rate, 0);
  if (state->bands < 1 || state->coefficients < 1 || state->coefficients > state->bands ||
      bins < 2 || limit <= 0 || !(state->low >= 0) || !(state->high > state->low) ||
      (double)state->high > limit)
    return DP_INVALID("Mfcc initialization failed for channel count %lld, sample rate %lld and "
                      "filterbank_channel_count %lld",
                      (long long)bins, (long long)dp_tensor_int_at(rate, 0),
                      (long long)state->bands);
  return NULL;
}

static dp_status *mfcc_compute(dp_op_context *context, void *memory) {
  const mfcc_state *state = memory;
  const dp_tensor *spectra = dp_op_input(context, 0), *rate = dp_op_input(context, 1);
  DP_RETURN_IF_ERROR(check_mfcc(state, spectra, rate));
  const int64_t *in = spectra->shape.dims;
  int64_t bins = in[2], dims[3] = {in[0], in[1], state->coefficients};
  dp_shape shape;
  dp_tensor *output;
  dp_buffer *numbers, *falling;
  DP_RETURN_IF_ERROR(dp_shape_make(3, dims, &shape));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  size_t count = (size_t)(bins + state->bands + 1 + state->coefficients * state->bands);
  DP_RETURN_IF_ERROR(dp_buffer_create(count * sizeof(double), &numbers));
  dp_status *status = dp_buffer_create((size_t)bins * sizeof(int64_t), &falling);
  if (!status) {
    mfcc_call call = {.state = state,
                      .spectra = spectra->data,
                      .bins = bins,
                      .shares = numbers->data,
                      .falling = falling->data,
                      .out = output->data};
    call.cosines = call.shares + bins;
    make_bands(&call, (double)dp_tensor_int_at(rate, 0),
               call.cosines + state->coefficients * state->bands);
    make_cosines(&call);
    dp_op_for(context, in[0] * in[1], bins * 10 + count, mfcc_range, &call);
    dp_buffer_release(falling);
  }
  dp_buffer_release(numbers);
  return status;
}

static const dp_kernel rows[] = {
    {.op = "AudioSpectrogram",
     .state_size = sizeof(spectrogram_state),
     .create = spectrogram_create,
     .compute = spectrogram_compute,
     .destroy = spectrogram_destroy},
    {.op = "Mfcc",
     .state_size = sizeof(mfcc_state),
     .create = mfcc_create,
     .compute = mfcc_compute},
};
DP_KERNEL_FAMILY(audio_ops, rows);
