/* GIF files: frames of indices into a palette, packed by LZW, laid one over the other on a canvas.
 * A transparent pixel, and what a smaller frame leaves free, shows the frame before. */
#include <string.h>
#include "base/memory.h"
#include "kernels/codec_internal.h"

#define MAX_CODES 4096
#define MAX_BYTES ((int64_t)1 << 31)

typedef struct gif {
  const uint8_t *at, *end;
  int width, height;      /* of the canvas */
  const uint8_t *palette; /* of the file; NULL when there is none */
  int palette_size;
  int transparent; /* index, -1: none; of the next frame */
} gif;

typedef struct frame {
  int left, top, width, height;
  bool is_interlaced;
  const uint8_t *palette;
  int palette_size;
  int transparent;
  const uint8_t *data; /* the LZW code size and the blocks */
} frame;

static dp_status *broken(const char *what) {
  return DP_INVALID("%s", what);
}

static bool take(gif *gif, size_t count, const uint8_t **bytes_out) {
  if ((size_t)(gif->end - gif->at) < count)
    return false;
  *bytes_out = gif->at;
  gif->at += count;
  return true;
}

static int get16(const uint8_t *at) {
  return at[0] | at[1] << 8;
}

/* Over the blocks of an extension or image, each with its length in front, to the empty one. */
static bool skip_blocks(gif *gif) {
  const uint8_t *block;
  for (;;) {
    if (!take(gif, 1, &block))
      return false;
    if (block[0] == 0)
      return true;
    if (!take(gif, block[0], &block))
      return false;
  }
}

static dp_status *gif_open(gif *gif, dp_view data) {
  *gif = (struct gif){(const uint8_t *)data.data, (const uint8_t *)data.data + data.length};
  const uint8_t *head;
  if (!take(gif, 13, &head) || memcmp(head, "GIF8", 4) != 0)
    return broken("not a GIF file");
  gif->transparent = -1;
  if (head[10] & 0x80) {
    gif->palette_size = 2 << (head[10] & 7);
    if (!take(gif, (size_t)gif->palette_size * 3, &gif->palette))
      return broken("the palette is cut off");
  }
  return NULL;
}

static dp_status *read_extension(gif *gif) {
  const uint8_t *head;
  if (!take(gif, 1, &head))
    return broken("an extension is cut off");
  if (head[0] == 0xf9 && gif->end - gif->at >= 5 && gif->at[0] == 4)
    gif->transparent = gif->at[1] & 1 ? gif->at[4] : -1;
  return skip_blocks(gif) ? NULL : broken("an extension is cut off");
}

static dp_status *read_frame(gif *gif, frame *frame) {
  const uint8_t *head;
  if (!take(gif, 9, &head))
    return broken("a frame is cut off");
  *frame = (struct frame){get16(head),    get16(head + 2), get16(head + 4),   get16(head + 6),
                          head[8] & 0x40, gif->palette,    gif->palette_size, gif->transparent};
  gif->transparent = -1;
  if (head[8] & 0x80) {
    frame->palette_size = 2 << (head[8] & 7);
    if (!take(gif, (size_t)frame->palette_size * 3, &frame->palette))
      return broken("a frame's palette is cut off");
  }
  frame->data = gif->at;
  const uint8_t *size;
  if (!take(gif, 1, &size) || !skip_blocks(gif))
    return broken("a frame is cut off");
  return NULL;
}

/* The next frame; *more_out is false at the end. */
static dp_status *next_frame(gif *gif, frame *frame, bool *more_out) {
  const uint8_t *kind;
  for (;;) {
    if (!take(gif, 1, &kind))
      return broken("the end is missing");
    *more_out = kind[0] == 0x2c;
    if (kind[0] == 0x3b)
      return NULL;
    if (kind[0] == 0x2c)
      return read_frame(gif, frame);
    if (kind[0] != 0x21)
      return broken("a block that is not known");
    DP_RETURN_IF_ERROR(read_extension(gif));
  }
}

/* ---- LZW ---- */
typedef struct unpacker {
  const uint8_t *block; /* the rest of the current block */
  int block_left;
  uint32_t bits;
  int bit_count;
  uint16_t prefix[MAX_CODES];
  uint8_t last[MAX_CODES], first[MAX_CODES];
  uint8_t stack[MAX_CODES];
} unpacker;

static int next_code(unpacker *unpacker, int width) {
  while (unpacker->bit_count < width) {
    if (unpacker->block_left == 0) {
      unpacker->block_left = *unpacker->block++;
      if (unpacker->block_left == 0) {
        --unpacker->block;
        return -1;
      }
    }
    unpacker->bits |= (uint32_t)*unpacker->block++ << unpacker->bit_count;
    unpacker->bit_count += 8;
    --unpacker->block_left;
  }
  int code = (int)(unpacker->bits & ((1u << width) - 1));
  unpacker->bits >>= width;
  unpacker->bit_count -= width;
  return code;
}

/* The frame's indices. The blocks were walked before: they lie within the file. */
static dp_status *unpack(unpacker *unpacker, const frame *frame, uint8_t *to, size_t count) {
  int start_width = frame->data[0];
  if (start_width < 1 || start_width > 8)
    return broken("a code size that makes no sense");
  int clear = 1 << start_width, end = clear + 1, width = start_width + 1, next = clear + 2;
  int previous = -1;
  unpacker->block = frame->data + 1;
  unpacker->block_left = unpacker->bit_count = 0;
  unpacker->bits = 0;
  for (int i = 0; i < clear; ++i)
    unpacker->last[i] = unpacker->first[i] = (uint8_t)i;
  size_t done = 0;
  while (done < count) {
    int code = next_code(unpacker, width);
    if (code < 0 || code == end)
      return broken("a frame has too few pixels");
    if (code == clear) {
      width = start_width + 1;
      next = clear + 2;
      previous = -1;
      continue;
    }
    if (code > next || (code == next && previous < 0) || (code >= clear && previous < 0))
      return broken("a code that cannot be");
    int depth = 0, at = code == next ? previous : code;
    if (code == next)
      unpacker->stack[depth++] = unpacker->first[previous];
    for (; at >= clear && depth < MAX_CODES - 1; at = unpacker->prefix[at])
      unpacker->stack[depth++] = unpacker->last[at];
    unpacker->stack[depth++] = (uint8_t)at;
    if (previous >= 0 && next < MAX_CODES) {
      unpacker->prefix[next] = (uint16_t)previous;
      unpacker->first[next] = unpacker->first[previous];
      unpacker->last[next] = (uint8_t)at;
      if (++next == 1 << width && width < 12)
        ++width;
    }
    previous = code;
    while (depth > 0 && done < count)
      to[done++] = unpacker->stack[--depth];
  }
  return NULL;
}

/* ---- Drawing ---- */
/* Row `index` of an interlaced frame as it stands in the file: every 8th, the 4ths between, ... */
static int interlaced_row(int index, int height) {
  static const int first[] = {0, 4, 2, 1}, step[] = {8, 8, 4, 2};
  for (int pass = 0; pass < 4; ++pass) {
    int rows = height > first[pass] ? (height - first[pass] + step[pass] - 1) / step[pass] : 0;
    if (index < rows)
      return first[pass] + index * step[pass];
    index -= rows;
  }
  return 0;
}

static dp_status *draw(const gif *gif, const frame *frame, const uint8_t *indices,
                       const uint8_t *before, uint8_t *canvas) {
  if (!frame->palette)
    return broken("a frame without a palette");
  for (int i = 0; i < frame->height; ++i) {
    int y = frame->top + (frame->is_interlaced ? interlaced_row(i, frame->height) : i);
    for (int j = 0; j < frame->width; ++j) {
      int index = indices[(size_t)i * (size_t)frame->width + (size_t)j], x = frame->left + j;
      if (x >= gif->width || y >= gif->height)
        continue;
      size_t at = ((size_t)y * (size_t)gif->width + (size_t)x) * 3;
      if (index == frame->transparent) {
        if (before)
          memcpy(canvas + at, before + at, 3);
        else
          memset(canvas + at, 0, 3);
        continue;
      }
      if (index >= frame->palette_size)
        return DP_INVALID("found color index %d outside of color map range %d", index,
                          frame->palette_size);
      memcpy(canvas + at, frame->palette + 3 * index, 3);
    }
  }
  return NULL;
}

/* How many frames there are and how large the largest is: that, and not what the head says, is the
 * canvas, so that no file can ask for more memory than it has pixels. */
static dp_status *measure_frames(gif gif, dp_image_size *size_out) {
  frame frame;
  bool more = true;
  dp_image_size size = {.channels = 3};
  while (more) {
    DP_RETURN_IF_ERROR(next_frame(&gif, &frame, &more));
    if (!more)
      break;
    ++size.frames;
    size.width = frame.width > size.width ? frame.width : size.width;
    size.height = frame.height > size.height ? frame.height : size.height;
  }
  *size_out = size;
  return NULL;
}

static dp_status *draw_frames(gif *gif, int count, uint8_t *pixels) {
  size_t size = (size_t)gif->width * (size_t)gif->height * 3;
  unpacker *unpacker = DP_NEW(struct unpacker);
  dp_status *status = NULL;
  for (int i = 0; i < count && !status; ++i) {
    frame frame;
    bool more;
    status = next_frame(gif, &frame, &more);
    if (status)
      break;
    uint8_t *canvas = pixels + (size_t)i * size;
    const uint8_t *before = i > 0 ? canvas - size : NULL;
    if (before)
      memcpy(canvas, before, size);
    else
      memset(canvas, 0, size);
    size_t indices_size = (size_t)frame.width * (size_t)frame.height;
    uint8_t *indices = dp_try_malloc(indices_size + 1);
    status = indices ? unpack(unpacker, &frame, indices, indices_size) : dp_status_out_of_memory();
    if (!status)
      status = draw(gif, &frame, indices, before, canvas);
    dp_free(indices);
  }
  dp_free(unpacker);
  return status;
}

dp_status *dp_gif_decode(dp_view data, bool all_frames, dp_image_allocate_fn allocate, void *arg) {
  gif gif;
  dp_image_size size;
  DP_RETURN_IF_ERROR(gif_open(&gif, data));
  DP_RETURN_IF_ERROR(measure_frames(gif, &size));
  if (size.frames == 0)
    return broken("no frame");
  if (!all_frames)
    size.frames = 1;
  if (size.width * size.height * 3 > MAX_BYTES / size.frames)
    return broken("too large");
  gif.width = (int)size.width;
  gif.height = (int)size.height;
  uint8_t *pixels = allocate(arg, &size);
  if (!pixels)
    return dp_status_out_of_memory();
  return draw_frames(&gif, size.frames, pixels);
}
