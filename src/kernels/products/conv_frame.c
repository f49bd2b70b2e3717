/* Shared by the convolutions (contracts in conv.h): packing the right operand into panels, copying
 * images into frames of zeros, the offsets of taps, and the residue classes of strided
 * gradients. */
#include <string.h>
#include "kernels/loops/move.h"
#include "kernels/products/conv.h"

int64_t dp_conv_taps(const dp_conv *conv) {
  return conv->dims[0].size * conv->dims[1].size * conv->dims[2].size;
}

int64_t dp_conv_pixels(const dp_conv *conv) {
  return conv->batch * conv->dims[0].out * conv->dims[1].out * conv->dims[2].out;
}

bool dp_conv_is_plain(const dp_conv *conv) {
  bool plain = conv->groups == 1;
  for (int i = 0; i < DP_WINDOW_DIMS; ++i) {
    const dp_window *w = &conv->dims[i];
    plain = plain && w->size == 1 && w->stride == 1 && w->before == 0 && w->out == w->in;
  }
  return plain;
}

/* ---- Packing the right operand ---- */
/* Packs `count` rows of a panel. The rows are `row` elements apart in the source; the first is at
 * `from`. */
static void pack_rows(const dp_conv_packing *work, const char *from, int64_t count, int64_t panel,
                      char *to) {
  int64_t width = work->columns - panel * work->panel;
  width = width < work->panel ? width : work->panel;
  size_t size = work->size, full = (size_t)work->panel * size;
  from += (size_t)(panel * work->panel * work->column) * size;
  if (width < work->panel)
    memset(to, 0, (size_t)count * full);
  if (work->column == 1) {
    for (int64_t r = 0; r < count; ++r)
      memcpy(to + (size_t)r * full, from + (size_t)(r * work->row) * size, (size_t)width * size);
    return;
  }
  /* The source is stored by columns (row is 1). */
  dp_move_table()->transpose[size == 4 ? 2 : 3](to, work->panel, from, work->column, count, width);
}

void dp_conv_pack_part(const dp_conv_packing *work, int64_t panel, int64_t first, int64_t count,
                       char *to) {
  int64_t size = (int64_t)work->size, step = work->tap_offsets ? work->tap_rows : count;
  for (int64_t done = 0; done < count; done += step) {
    int64_t row = first + done;
    int64_t offset = work->tap_offsets ? work->tap_offsets[row / step] : row * work->row;
    pack_rows(work, work->from + offset * size, step, panel, to + done * work->panel * size);
  }
}

/* Packs a piece into all panels while its rows are in the cache. With taps, a piece is one tap. */
static void pack_pieces(void *arg, int64_t begin, int64_t end) {
  const dp_conv_packing *work = arg;
  int64_t panels = (work->columns + work->panel - 1) / work->panel;
  for (int64_t piece = begin; piece < end; ++piece) {
    int64_t first = piece * work->piece, count = work->rows - first;
    count = count < work->piece ? count : work->piece;
    for (int64_t panel = 0; panel < panels; ++panel)
      dp_conv_pack_part(work, panel, first, count,
                        work->to +
                            (size_t)((panel * work->rows + first) * work->panel) * work->size);
  }
}

bool dp_conv_is_panel(const dp_conv_packing *work) {
  return work->column == 1 && !work->tap_offsets && work->columns <= work->panel &&
         work->columns % work->lanes == 0;
}

dp_status *dp_conv_pack(dp_op_context *context, dp_conv_packing *work, dp_buffer **buffer_out) {
  *buffer_out = NULL;
  if (dp_conv_is_panel(work)) {
    work->to = (char *)work->from;
    work->step = work->row;
    return NULL;
  }
  work->step = work->panel;
  int64_t panels = (work->columns + work->panel - 1) / work->panel;
  size_t bytes = (size_t)(panels * work->rows * work->panel) * work->size;
  DP_RETURN_IF_ERROR(dp_buffer_create(bytes, buffer_out));
  work->to = (*buffer_out)->data;
  work->piece = work->tap_offsets ? work->tap_rows : 64;
  int64_t pieces = (work->rows + work->piece - 1) / work->piece;
  dp_op_for(context, pieces, panels * work->piece * work->panel * (int64_t)work->size / 8,
            pack_pieces, work);
  return NULL;
}

/* ---- Frames ---- */
typedef struct frame_work {
  const dp_conv_frame *frame;
  const dp_conv *conv;
  const char *images;
  char *to;
  size_t size;
} frame_work;

/* Items of work are rows of the frame, [batch, depth, height]. */
static void fill_rows(void *arg, int64_t begin, int64_t end) {
  const frame_work *work = arg;
  const dp_conv_frame *frame = work->frame;
  const dp_window *d = work->conv->dims;
  size_t pixel = (size_t)frame->channels * work->size, row = pixel * (size_t)frame->dims[2];
  int64_t before = d[2].before < frame->dims[2] ? d[2].before : frame->dims[2];
  int64_t width = frame->dims[2] - before < d[2].in ? frame->dims[2] - before : d[2].in;
  size_t start = pixel * (size_t)before, length = pixel * (size_t)width;
  for (int64_t i = begin; i < end; ++i) {
    int64_t y = i % frame->dims[1] - d[1].before;
    int64_t z = i / frame->dims[1] % frame->dims[0] - d[0].before;
    int64_t image = i / frame->dims[1] / frame->dims[0];
    char *to = work->to + (size_t)i * row;
    if (y < 0 || y >= d[1].in || z < 0 || z >= d[0].in) {
      memset(to, 0, row);
      continue;
    }
    memset(to, 0, start);
    memcpy(to + start,
           work->images + (size_t)(((image * d[0].in + z) * d[1].in + y) * d[2].in) * pixel,
           length);
    memset(to + start + length, 0, row - start - length);
  }
}

dp_status *dp_conv_frame_init_input(dp_conv_frame *frame, dp_op_context *context,
                                    const dp_conv *conv, const void *input) {
  *frame = (dp_conv_frame){.data = input, .channels = conv->in_channels};
  bool is_same = true;
  for (int i = 0; i < DP_WINDOW_DIMS; ++i) {
    frame->dims[i] = conv->dims[i].in;
    is_same = is_same && conv->dims[i].before == 0 && conv->dims[i].needed <= conv->dims[i].in;
  }
  if (is_same)
    return NULL;
  for (int i = 0; i < DP_WINDOW_DIMS; ++i)
    frame->dims[i] = conv->dims[i].needed;
  dp_shape shape;
  const int64_t *dims = frame->dims;
  const int64_t sizes[] = {conv->batch, dims[0], dims[1], dims[2], frame->channels};
  DP_RETURN_IF_ERROR(dp_shape_make(5, sizes, &shape));
  size_t size = dp_dtype_size(conv->dtype);
  DP_RETURN_IF_ERROR(dp_buffer_create((size_t)shape.elements * size, &frame->buffer));
  frame->data = frame->buffer->data;
  frame_work work = {frame, conv, input, frame->buffer->data, size};
  dp_op_for(context, conv->batch * dims[0] * dims[1],
            dims[2] * frame->channels * (int64_t)size / 8 + 10, fill_rows, &work);
  return NULL;
}

void dp_conv_frame_deinit(dp_conv_frame *frame) {
  dp_buffer_release(frame->buffer);
}

void dp_conv_frame_strides(const dp_conv_frame *frame, int64_t strides[4]) {
  strides[3] = frame->channels;
  strides[2] = strides[3] * frame->dims[2];
  strides[1] = strides[2] * frame->dims[1];
  strides[0] = strides[1] * frame->dims[0];
}

void dp_conv_tap_offsets(const dp_conv *conv, const dp_conv_frame *frame, int64_t *offsets_out) {
  int64_t strides[4];
  dp_conv_frame_strides(frame, strides);
  const dp_window *d = conv->dims;
  for (int64_t z = 0; z < d[0].size; ++z)
    for (int64_t y = 0; y < d[1].size; ++y)
      for (int64_t x = 0; x < d[2].size; ++x)
        *offsets_out++ = z * d[0].dilation * strides[1] + y * d[1].dilation * strides[2] +
                         x * d[2].dilation * strides[3];
}

/* ---- Residue classes ---- */
void dp_phase_init(dp_phase *phase, const dp_window *window, int64_t residue) {
  phase->residue = residue;
  phase->count = (window->in - residue + window->stride - 1) / window->stride;
  phase->count = phase->count < 0 ? 0 : phase->count;
  phase->tap_count = 0;
  phase->taps = dp_malloc(2 * (size_t)window->size * sizeof(int64_t));
  phase->shifts = phase->taps + window->size;
  for (int64_t tap = window->size - 1; tap >= 0; --tap) {
    int64_t distance = residue + window->before - tap * window->dilation;
    if (distance % window->stride != 0)
      continue;
    phase->taps[phase->tap_count] = tap;
    phase->shifts[phase->tap_count++] = distance / window->stride;
  }
}

void dp_phase_deinit(dp_phase *phase) {
  dp_free(phase->taps);
}
