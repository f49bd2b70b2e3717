/* Convolutions forward and towards the input (contracts in conv.h). Both are the same computation:
 * each point of the result is a sum over taps, and each tap adds a constant shift to the coordinate
 * that the point reads (conv_grid_internal.h). With windows of one pixel, strides of 1 and no
 * padding, it is a plain matrix product. */
#include <string.h>
#include "kernels/products/conv_grid_internal.h"
#include "kernels/products/gemm.h"

static const dp_conv_fns *fns_of(const dp_conv *conv) {
  return &dp_conv_table()->fns[conv->dtype];
}

/* ---- Forward ---- */
static dp_status *run_forward(dp_op_context *context, const dp_conv *conv, const void *input,
                              const void *filter, void *output, int64_t *shifts) {
  int64_t in = conv->in_channels / conv->groups, out = conv->out_channels / conv->groups;
  dp_conv_face face = {.joins = conv->groups == 1 &&
                                (conv->dims[2].size == 1 || conv->dims[2].dilation == 1)};
  dp_conv_grid work = {.fns = fns_of(conv),
                       .size = dp_dtype_size(conv->dtype),
                       .batch = conv->batch,
                       .faces = &face,
                       .face_count = 1,
                       .a = input,
                       .c = output,
                       .channels = in,
                       .columns = out,
                       .finish = conv->finish};
  int64_t a_stride = conv->in_channels, c_stride = conv->out_channels;
  for (int d = 2; d >= 0; --d) {
    const dp_window *window = &conv->dims[d];
    for (int64_t tap = 0; tap < window->size; ++tap)
      shifts[tap] = tap * window->dilation - window->before;
    face.axes[d] = (dp_conv_axis){window->out, window->stride, window->in, window->size, shifts};
    shifts += window->size;
    work.a_strides[d + 1] = a_stride;
    work.c_strides[d + 1] = c_stride;
    a_stride *= window->in;
    c_stride *= window->out;
  }
  work.a_strides[0] = a_stride;
  work.c_strides[0] = c_stride;
  dp_conv_packing packing = {.from = filter,
                             .size = work.size,
                             .rows = dp_conv_taps(conv) * in,
                             .columns = out,
                             .row = conv->out_channels,
                             .column = 1,
                             .panel = work.fns->panel,
                             .lanes = work.fns->lanes};
  return dp_conv_grid_run(context, &work, &packing, conv->groups, in, out, out);
}

dp_status *dp_conv_forward(dp_op_context *context, const dp_conv *conv, const void *input,
                           const void *filter, void *output) {
  int64_t pixels = dp_conv_pixels(conv);
  if (pixels == 0 || conv->out_channels == 0)
    return NULL;
  if (dp_conv_is_plain(conv)) {
    dp_gemm gemm = {.dtype = conv->dtype,
                    .m = pixels,
                    .n = conv->out_channels,
                    .k = conv->in_channels,
                    .a = input,
                    .b = filter,
                    .c = output,
                    .a_stride = conv->in_channels,
                    .b_stride = conv->out_channels,
                    .c_stride = conv->out_channels,
                    .finish = conv->finish};
    dp_gemm_run_split(context, &gemm);
    return NULL;
  }
  int64_t taps = conv->dims[0].size + conv->dims[1].size + conv->dims[2].size;
  int64_t *shifts = dp_malloc((size_t)taps * sizeof *shifts);
  dp_status *status = run_forward(context, conv, input, filter, output, shifts);
  dp_free(shifts);
  return status;
}

/* ---- Towards the input ---- */
typedef struct input_gradient {
  const dp_conv *conv;
  const char *filter, *gradient;
  char *result;
  dp_phase *phases[DP_WINDOW_DIMS]; /* per dimension: one phase per residue */
  dp_conv_face *faces;
  int64_t face_count;
  int64_t *taps; /* offsets in the filter, for all faces in turn */
  int64_t tap_count;
} input_gradient;

static void add_taps(input_gradient *work, const dp_phase *const *p) {
  const dp_conv *conv = work->conv;
  int64_t tap_size = conv->in_channels / conv->groups * conv->out_channels;
  for (int64_t z = 0; z < p[0]->tap_count; ++z)
    for (int64_t y = 0; y < p[1]->tap_count; ++y)
      for (int64_t x = 0; x < p[2]->tap_count; ++x)
        work->taps[work->tap_count++] =
            ((p[0]->taps[z] * conv->dims[1].size + p[1]->taps[y]) * conv->dims[2].size +
             p[2]->taps[x]) *
            tap_size;
}

/* Adds the points with these residues, unless no tap reaches them. */
static void add_face(input_gradient *work, const int64_t residues[DP_WINDOW_DIMS]) {
  const dp_conv *conv = work->conv;
  const dp_phase *phases[DP_WINDOW_DIMS];
  dp_conv_face face = {.b_first = work->tap_count * (conv->out_channels / conv->groups)};
  int64_t c_stride = conv->in_channels;
  for (int d = 2; d >= 0; --d) {
    const dp_phase *phase = phases[d] = &work->phases[d][residues[d]];
    if (phase->tap_count == 0 || phase->count == 0)
      return;
    face.axes[d] =
        (dp_conv_axis){phase->count, 1, conv->dims[d].out, phase->tap_count, phase->shifts};
    face.start += phase->residue * c_stride;
    c_stride *= conv->dims[d].in;
  }
  const dp_phase *wide = phases[2];
  face.joins = conv->groups == 1 &&
               wide->shifts[wide->tap_count - 1] - wide->shifts[0] == wide->tap_count - 1;
  work->faces[work->face_count++] = face;
  add_taps(work, phases);
}

static dp_status *run_faces(dp_op_context *context, const input_gradient *work) {
  const dp_conv *conv = work->conv;
  int64_t in = conv->in_channels / conv->groups, out = conv->out_channels / conv->groups;
  dp_conv_grid grid = {.fns = fns_of(conv),
                       .size = dp_dtype_size(conv->dtype),
                       .batch = conv->batch,
                       .faces = work->faces,
                       .face_count = work->face_count,
                       .a = work->gradient,
                       .c = work->result,
                       .channels = out,
                       .columns = in};
  int64_t a_stride = conv->out_channels, c_stride = conv->in_channels;
  for (int d = 2; d >= 0; --d) {
    grid.a_strides[d + 1] = a_stride;
    grid.c_strides[d + 1] = c_stride * conv->dims[d].stride;
    a_stride *= conv->dims[d].out;
    c_stride *= conv->dims[d].in;
  }
  grid.a_strides[0] = a_stride;
  grid.c_strides[0] = c_stride;
  dp_conv_packing packing = {.from = work->filter,
                             .size = grid.size,
                             .rows = work->tap_count * out,
                             .columns = in,
                             .row = 1,
                             .column = conv->out_channels,
                             .tap_offsets = work->taps,
                             .tap_rows = out,
                             .panel = grid.fns->panel,
                             .lanes = grid.fns->lanes};
  return dp_conv_grid_run(context, &grid, &packing, conv->groups, out, out, in);
}

/* Whether some input coordinate is reached by no tap: its gradient is zero. */
static bool has_gaps(const input_gradient *work) {
  for (int i = 0; i < DP_WINDOW_DIMS; ++i)
    for (int64_t residue = 0; residue < dp_phase_count(&work->conv->dims[i]); ++residue)
      if (work->phases[i][residue].tap_count == 0)
        return true;
  return false;
}

static void find_phases(input_gradient *work) {
  for (int d = 0; d < DP_WINDOW_DIMS; ++d) {
    const dp_window *window = &work->conv->dims[d];
    int64_t count = dp_phase_count(window);
    work->phases[d] = dp_malloc((size_t)count * sizeof *work->phases[d]);
    for (int64_t residue = 0; residue < count; ++residue)
      dp_phase_init(&work->phases[d][residue], window, residue);
  }
}

static void free_phases(input_gradient *work) {
  for (int d = 0; d < DP_WINDOW_DIMS; ++d) {
    for (int64_t residue = 0; residue < dp_phase_count(&work->conv->dims[d]); ++residue)
      dp_phase_deinit(&work->phases[d][residue]);
    dp_free(work->phases[d]);
  }
}

static dp_status *run_phases(dp_op_context *context, input_gradient *work) {
  const dp_window *dims = work->conv->dims;
  int64_t height = dp_phase_count(&dims[1]), width = dp_phase_count(&dims[2]);
  int64_t total = dp_phase_count(&dims[0]) * height * width;
  work->faces = dp_malloc((size_t)total * sizeof *work->faces);
  work->taps = dp_malloc((size_t)dp_conv_taps(work->conv) * sizeof *work->taps);
  for (int64_t i = 0; i < total; ++i)
    add_face(work, (int64_t[]){i / width / height, i / width % height, i % width});
  dp_status *status = work->face_count > 0 ? run_faces(context, work) : NULL;
  dp_free(work->faces);
  dp_free(work->taps);
  return status;
}

dp_status *dp_conv_input_gradient(dp_op_context *context, const dp_conv *conv, const void *filter,
                                  const void *gradient, void *result) {
  size_t size = dp_dtype_size(conv->dtype);
  int64_t pixels = conv->batch * conv->dims[0].in * conv->dims[1].in * conv->dims[2].in;
  if (pixels == 0 || conv->in_channels == 0)
    return NULL;
  if (dp_conv_is_plain(conv)) {
    dp_gemm gemm = {.dtype = conv->dtype,
                    .m = pixels,
                    .n = conv->in_channels,
                    .k = conv->out_channels,
                    .a = gradient,
                    .b = filter,
                    .c = result,
                    .a_stride = conv->out_channels,
                    .b_stride = conv->out_channels,
                    .c_stride = conv->in_channels,
                    .transpose_b = true};
    dp_gemm_run_split(context, &gemm);
    return NULL;
  }
  bool is_empty = dp_conv_pixels(conv) == 0 || conv->out_channels == 0;
  input_gradient work = {.conv = conv, .filter = filter, .gradient = gradient, .result = result};
  find_phases(&work);
  if (is_empty || has_gaps(&work))
    memset(result, 0, (size_t)(pixels * conv->in_channels) * size);
  dp_status *status = NULL;
  if (!is_empty && dp_conv_is_narrow(conv))
    status = dp_conv_narrow_input_gradient(context, conv, filter, gradient, result);
  else if (!is_empty)
    status = run_phases(context, &work);
  free_phases(&work);
  return status;
}
