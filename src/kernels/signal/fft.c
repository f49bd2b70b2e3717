/* Fourier transforms over the last one, two or three dimensions: complex to complex, real to half
 * spectra and back.
 *
 * Everything is computed in double: lines are gathered along one dimension after the other. A
 * length whose prime factors are small is done by mixed radices, any other by Bluestein's
 * convolution over a power of two. Lines are split over the pool; each range has scratch of its
 * own. */
#include "kernels/shared/family.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>
#include "base/memory.h"
#include "kernels/loops/types.h"

enum { MAX_RANK = 3, MAX_RADIX = 13, MAX_FACTORS = 64 };

/* ---- One line ---- */
typedef struct fft_plan {
  int64_t length;
  int64_t size; /* of the mixed-radix transform: the length, or Bluestein's power of two */
  int factor_count;
  int64_t factors[MAX_FACTORS];
  dp_complex128 *roots;    /* exp(-2 pi i k / size) */
  dp_complex128 *chirp;    /* exp(-pi i k^2 / length), or NULL when size is length */
  dp_complex128 *spectrum; /* of the conjugated chirp, divided by size */
} fft_plan;

/* Splits n into small factors; false when a larger one is left. */
static bool find_factors(fft_plan *plan, int64_t n) {
  plan->factor_count = 0;
  for (int64_t factor = 4; n > 1 && factor <= MAX_RADIX;) {
    if (n % factor == 0) {
      plan->factors[plan->factor_count++] = factor;
      n /= factor;
    } else {
      factor = factor == 4 ? 2 : factor == 2 ? 3 : factor + 2;
    }
  }
  return n == 1;
}

static dp_complex128 root_of_unity(int64_t k, int64_t n) {
  double angle = -2.0 * M_PI * (double)k / (double)n;
  return dp_complex128_of(cos(angle), sin(angle));
}

/* One pass: joins `radix` transforms of `part` elements that lie one behind the other. */
static void butterfly(const fft_plan *plan, dp_complex128 *data, int64_t radix, int64_t part,
                      int64_t stride) {
  for (int64_t k = 0; k < part; ++k) {
    dp_complex128 terms[MAX_RADIX];
    for (int64_t q = 0; q < radix; ++q)
      terms[q] = dp_complex128_multiply(data[k + q * part], plan->roots[stride * k * q]);
    for (int64_t r = 0; r < radix; ++r) {
      dp_complex128 sum = terms[0];
      int64_t step = stride * part * r % plan->size, at = 0;
      for (int64_t q = 1; q < radix; ++q) {
        at += step;
        if (at >= plan->size)
          at -= plan->size;
        sum += dp_complex128_multiply(terms[q], plan->roots[at]);
      }
      data[k + r * part] = sum;
    }
  }
}

static void butterfly2(const fft_plan *plan, dp_complex128 *data, int64_t part, int64_t stride) {
  for (int64_t k = 0; k < part; ++k) {
    dp_complex128 a = data[k], b = dp_complex128_multiply(data[k + part], plan->roots[stride * k]);
    data[k] = a + b;
    data[k + part] = a - b;
  }
}

static void butterfly4(const fft_plan *plan, dp_complex128 *data, int64_t part, int64_t stride) {
  for (int64_t k = 0; k < part; ++k) {
    dp_complex128 a = data[k];
    dp_complex128 b = dp_complex128_multiply(data[k + part], plan->roots[stride * k]);
    dp_complex128 c = dp_complex128_multiply(data[k + 2 * part], plan->roots[2 * stride * k]);
    dp_complex128 d = dp_complex128_multiply(data[k + 3 * part], plan->roots[3 * stride * k]);
    dp_complex128 even = a + c, odd = a - c, sum = b + d, difference = b - d;
    dp_complex128 turned = dp_complex128_of(__imag__ difference, -__real__ difference);
    data[k] = even + sum;
    data[k + part] = odd + turned;
    data[k + 2 * part] = even - sum;
    data[k + 3 * part] = odd - turned;
  }
}

/* to[0 .. n) = transform of every stride-th element of `from`; n = size / stride. Depth: the number
 * of factors, at most 64. */
static void mixed_radix(const fft_plan *plan, dp_complex128 *to, const dp_complex128 *from,
                        int64_t stride, int level) {
  if (level == plan->factor_count) {
    *to = *from;
    return;
  }
  int64_t radix = plan->factors[level], part = plan->size / stride / radix;
  for (int64_t q = 0; q < radix; ++q)
    mixed_radix(plan, to + q * part, from + q * stride, stride * radix, level + 1);
  if (radix == 2)
    butterfly2(plan, to, part, stride);
  else if (radix == 4)
    butterfly4(plan, to, part, stride);
  else
    butterfly(plan, to, radix, part, stride);
}

static void conjugate(dp_complex128 *data, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    data[i] = dp_complex128_of(__real__ data[i], -__imag__ data[i]);
}

/* Forward transform of a line in place; scratch has 2 * size elements. */
static void transform_line(const fft_plan *plan, dp_complex128 *line, dp_complex128 *scratch) {
  int64_t n = plan->length, size = plan->size;
  if (!plan->chirp) {
    memcpy(scratch, line, (size_t)n * sizeof *line);
    mixed_radix(plan, line, scratch, 1, 0);
    return;
  }
  dp_complex128 *wide = scratch, *result = scratch + size;
  memset(wide, 0, (size_t)size * sizeof *wide);
  for (int64_t i = 0; i < n; ++i)
    wide[i] = dp_complex128_multiply(line[i], plan->chirp[i]);
  mixed_radix(plan, result, wide, 1, 0);
  for (int64_t i = 0; i < size; ++i)
    result[i] = dp_complex128_multiply(result[i], plan->spectrum[i]);
  conjugate(result, size);
  mixed_radix(plan, wide, result, 1, 0);
  conjugate(wide, n);
  for (int64_t i = 0; i < n; ++i)
    line[i] = dp_complex128_multiply(wide[i], plan->chirp[i]);
}

static void plan_deinit(fft_plan *plan) {
  dp_free(plan->roots);
  dp_free(plan->chirp);
  dp_free(plan->spectrum);
}

/* The chirp, and the transform of its conjugate. */
static bool make_chirp(fft_plan *plan) {
  int64_t n = plan->length, size = plan->size;
  plan->chirp = dp_try_malloc((size_t)n * sizeof *plan->chirp);
  plan->spectrum = dp_try_malloc((size_t)size * sizeof *plan->spectrum);
  dp_complex128 *kernel = dp_try_malloc((size_t)size * sizeof *kernel);
  if (plan->chirp && plan->spectrum && kernel) {
    memset(kernel, 0, (size_t)size * sizeof *kernel);
    for (int64_t i = 0, square = 0; i < n; ++i) { /* square: i^2 mod 2n */
      plan->chirp[i] = root_of_unity(square, 2 * n);
      dp_complex128 other = dp_complex128_of(__real__ plan->chirp[i] / (double)size,
                                             -__imag__ plan->chirp[i] / (double)size);
      kernel[i] = other;
      if (i)
        kernel[size - i] = other;
      square = (square + 2 * i + 1) % (2 * n);
    }
    mixed_radix(plan, plan->spectrum, kernel, 1, 0);
  }
  dp_free(kernel);
  return plan->chirp && plan->spectrum && kernel;
}

static dp_status *plan_init(fft_plan *plan, int64_t length) {
  *plan = (fft_plan){.length = length, .size = length};
  bool is_smooth = find_factors(plan, length);
  if (!is_smooth) {
    for (plan->size = 1; plan->size < 2 * length - 1;)
      plan->size *= 2;
    find_factors(plan, plan->size);
  }
  plan->roots = dp_try_malloc((size_t)plan->size * sizeof *plan->roots);
  if (!plan->roots)
    return dp_status_out_of_memory();
  for (int64_t i = 0; i < plan->size; ++i)
    plan->roots[i] = root_of_unity(i, plan->size);
  if (!is_smooth && !make_chirp(plan)) {
    plan_deinit(plan);
    return dp_status_out_of_memory();
  }
  return NULL;
}

/* ---- All lines of one dimension ---- */
typedef struct line_work {
  const fft_plan *plan;
  dp_complex128 *data;
  int64_t inner; /* elements between neighbours of a line */
  bool is_inverse;
  atomic_bool lacks_memory;
} line_work;

static void transform_range(void *arg, int64_t begin, int64_t end) {
  line_work *work = arg;
  int64_t n = work->plan->length;
  dp_complex128 *line = dp_try_malloc((size_t)(n + 2 * work->plan->size) * sizeof *line);
  if (!line) {
    atomic_store(&work->lacks_memory, true);
    return;
  }
  for (int64_t i = begin; i < end; ++i) {
    dp_complex128 *at = work->data + i / work->inner * work->inner * n + i % work->inner;
    for (int64_t j = 0; j < n; ++j)
      line[j] = at[j * work->inner];
    if (work->is_inverse)
      conjugate(line, n);
    transform_line(work->plan, line, line + n);
    double scale = work->is_inverse ? 1.0 / (double)n : 1.0, sign = work->is_inverse ? -1.0 : 1.0;
    for (int64_t j = 0; j < n; ++j)
      at[j * work->inner] =
          dp_complex128_of(__real__ line[j] * scale, __imag__ line[j] * scale * sign);
  }
  dp_free(line);
}

/* Transforms `data` of `elements` in all along a dimension of `length` with `inner` behind it. */
static dp_status *transform_lines(dp_op_context *context, dp_complex128 *data, int64_t elements,
                                  int64_t length, int64_t inner, bool is_inverse) {
  if (length <= 1 || elements == 0)
    return NULL;
  fft_plan plan;
  DP_RETURN_IF_ERROR(plan_init(&plan, length));
  line_work work = {.plan = &plan, .data = data, .inner = inner, .is_inverse = is_inverse};
  dp_op_for(context, elements / length, length * 20 + 100, transform_range, &work);
  plan_deinit(&plan);
  return atomic_load(&work.lacks_memory) ? dp_status_out_of_memory() : NULL;
}

/* ---- Ops ---- */
typedef enum fft_kind { COMPLEX_TO_COMPLEX, REAL_TO_COMPLEX, COMPLEX_TO_REAL } fft_kind;

typedef struct fft_state {
  fft_kind kind;
  int rank;
  bool is_inverse;
} fft_state;

static dp_status *fft_create(const dp_kernel_setup *setup, void *memory) {
  fft_state *state = memory;
  const char *op = setup->node->op->name;
  state->is_inverse = strstr(op, "IFFT") || strstr(op, "IRFFT");
  state->kind = !strstr(op, "RFFT") ? COMPLEX_TO_COMPLEX
                : state->is_inverse ? COMPLEX_TO_REAL
                                    : REAL_TO_COMPLEX;
  state->rank = strstr(op, "3D") ? 3 : strstr(op, "2D") ? 2 : 1;
  return NULL;
}

/* The lengths that are transformed, in `lengths`, and the shape of the result. */
static dp_status *fft_shapes(dp_op_context *context, const fft_state *state, int64_t *lengths,
                             dp_shape *result) {
  const dp_tensor *input = dp_op_input(context, 0);
  int first = input->shape.rank - state->rank;
  int64_t dims[DP_MAX_RANK];
  if (first < 0)
    return DP_INVALID("Input must have rank of at least %d but got: %s", state->rank,
                      dp_shape_text(&input->shape));
  memcpy(dims, input->shape.dims, sizeof dims);
  for (int i = 0; i < state->rank; ++i)
    lengths[i] = dims[first + i];
  if (state->kind != COMPLEX_TO_COMPLEX) {
    const dp_tensor *wanted = dp_op_input(context, 1);
    if (wanted->shape.rank != 1 || wanted->shape.dims[0] != state->rank)
      return DP_INVALID("fft_length must have shape [%d]", state->rank);
    for (int i = 0; i < state->rank; ++i) {
      int64_t length = dp_tensor_int_at(wanted, i);
      bool is_last = i == state->rank - 1;
      if (length < 0)
        return DP_INVALID("fft_length[%d] must >= 0, but got: %lld", i, (long long)length);
      int64_t least = state->is_inverse && is_last ? length / 2 + 1 : length;
      if (dims[first + i] != 0 && dims[first + i] < least)
        return DP_INVALID("Input dimension %d must have length of at least %lld but got: %lld",
                          first + i, (long long)least, (long long)dims[first + i]);
      lengths[i] = length;
      dims[first + i] = !state->is_inverse && is_last && length ? length / 2 + 1 : length;
    }
  }
  return dp_shape_make(input->shape.rank, dims, result);
}

static dp_complex128 read_element(const dp_tensor *input, int64_t at) {
  switch (input->dtype) {
  case DP_FLOAT:
    return dp_complex128_of(((const float *)input->data)[at], 0);
  case DP_DOUBLE:
    return dp_complex128_of(((const double *)input->data)[at], 0);
  case DP_COMPLEX64:
    return dp_complex128_of(((const float *)input->data)[2 * at],
                            ((const float *)input->data)[2 * at + 1]);
  default:
    return ((const dp_complex128 *)input->data)[at];
  }
}

static void write_element(dp_tensor *output, int64_t at, dp_complex128 value) {
  switch (output->dtype) {
  case DP_FLOAT:
    ((float *)output->data)[at] = (float)__real__ value;
    return;
  case DP_DOUBLE:
    ((double *)output->data)[at] = __real__ value;
    return;
  case DP_COMPLEX64:
    ((float *)output->data)[2 * at] = (float)__real__ value;
    ((float *)output->data)[2 * at + 1] = (float)__imag__ value;
    return;
  default:
    ((dp_complex128 *)output->data)[at] = value;
  }
}

/* Position in a tensor whose last dimensions are `dims` of what is at `at` in one with `lengths`;
 * -1 when it is beyond. */
static int64_t translate(int64_t at, const int64_t *lengths, const int64_t *dims, int rank) {
  int64_t result = 0, stride = 1;
  for (int i = rank - 1; i >= 0; --i) {
    int64_t index = at % lengths[i];
    if (index >= dims[i])
      return -1;
    result += index * stride;
    stride *= dims[i];
    at /= lengths[i];
  }
  return result + at * stride;
}

/* Fills the upper half of each line of a half spectrum. `lengths` is of the whole spectrum. */
static void complete_spectrum(dp_complex128 *data, int64_t lines, int64_t length) {
  for (int64_t line = 0; line < lines; ++line, data += length) {
    for (int64_t i = length / 2 + 1; i < length; ++i) {
      dp_complex128 mirror = data[length - i];
      data[i] = dp_complex128_of(__real__ mirror, -__imag__ mirror);
    }
  }
}

static dp_status *transform(dp_op_context *context, const fft_state *state, dp_complex128 *data,
                            int64_t elements, const int64_t *lengths) {
  int64_t inner = lengths[state->rank - 1], last = inner;
  for (int i = state->rank - 2; i >= 0; --i) {
    DP_RETURN_IF_ERROR(
        transform_lines(context, data, elements, lengths[i], inner, state->is_inverse));
    inner *= lengths[i];
  }
  if (state->kind == COMPLEX_TO_REAL)
    complete_spectrum(data, elements / last, last);
  return transform_lines(context, data, elements, last, 1, state->is_inverse);
}

static dp_status *fft_compute(dp_op_context *context, void *memory) {
  const fft_state *state = memory;
  const dp_tensor *input = dp_op_input(context, 0);
  int64_t lengths[MAX_RANK], dims[DP_MAX_RANK];
  dp_shape shape, whole;
  dp_tensor *output;
  dp_buffer *buffer;
  DP_RETURN_IF_ERROR(fft_shapes(context, state, lengths, &shape));
  int first = shape.rank - state->rank;
  memcpy(dims, shape.dims, sizeof dims);
  memcpy(dims + first, lengths, (size_t)state->rank * sizeof *dims);
  DP_RETURN_IF_ERROR(dp_shape_make(shape.rank, dims, &whole));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  if (shape.elements == 0 || input->shape.elements == 0) {
    memset(output->data, 0, dp_tensor_bytes(output));
    return NULL;
  }
  size_t bytes;
  if (!dp_multiply_size((size_t)whole.elements, sizeof(dp_complex128), &bytes))
    return dp_status_out_of_memory();
  DP_RETURN_IF_ERROR(dp_buffer_create(bytes, &buffer));
  dp_complex128 *data = buffer->data;
  for (int64_t i = 0; i < whole.elements; ++i) {
    int64_t from = translate(i, lengths, input->shape.dims + first, state->rank);
    data[i] = from < 0 ? dp_complex128_of(0, 0) : read_element(input, from);
  }
  dp_status *status = transform(context, state, data, whole.elements, lengths);
  for (int64_t i = 0; !status && i < whole.elements; ++i) {
    int64_t to = translate(i, lengths, shape.dims + first, state->rank);
    if (to >= 0)
      write_element(output, to, data[i]);
  }
  dp_buffer_release(buffer);
  return status;
}

#define ROW(name)                                                                                  \
  { .op = name, .state_size = sizeof(fft_state), .create = fft_create, .compute = fft_compute }
#define ROWS(name) ROW(name), ROW(name "2D"), ROW(name "3D")
static const dp_kernel rows[] = {ROWS("FFT"), ROWS("IFFT"), ROWS("RFFT"), ROWS("IRFFT")};
DP_KERNEL_FAMILY(fft, rows);
