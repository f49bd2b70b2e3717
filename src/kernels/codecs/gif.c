/* GIF files: frames of indices into a palette, packed by LZW, drawn one over the other on a canvas.
 * Where a frame is transparent or does not reach, the frame before shows through.
 *
 * As in TensorFlow, a file is read up to its end or its first defect, and the frames before that
 * are the result. What counts as a defect is what giflib, which TensorFlow uses, refuses; so LZW
 * codes beyond the table have a meaning here as they have there. The canvas is as large as the
 * largest frame, whatever the file's header says. Memory grows with the pixels that were decoded,
 * so a short file cannot claim much. Any thread; the file's bytes are borrowed for the call. */
#include <limits.h>
#include <string.h>
#include "base/memory.h"
#include "kernels/codecs/codec.h"

#define MAX_CODES 4096
#define MAX_CODE_WIDTH 12
#define NO_CODE (-1)
/* The most pixels that one code may stand for. */
#define MAX_RUN (MAX_CODES - 1)
/* The last pixel of a code that is beyond the next free one, as in giflib. */
#define UNKNOWN_PIXEL 2
/* The largest image, in bytes, that frames with few pixels of their own may ask for. */
#define MAX_UNBACKED ((int64_t)1 << 31)

typedef enum defect {
  WHOLE,
  CUT_OFF,
  NO_SCREEN,
  WRONG_RECORD,
  NO_FRAME,
  BAD_CODE,
  ENDS_TOO_SOON,
  BAD_SIZE,
  NO_MEMORY,
} defect;

static const char *const defect_words[] = {
    [CUT_OFF] = "Failed to read from given file",
    [NO_SCREEN] = "No screen descriptor detected",
    [WRONG_RECORD] = "Wrong record type detected",
    [NO_FRAME] = "No Image Descriptor detected",
    [BAD_CODE] = "Image is defective, decoding aborted",
    [ENDS_TOO_SOON] = "Image EOF detected before image complete",
    [BAD_SIZE] = "Unknown error",
    [NO_MEMORY] = "Unknown error",
};

typedef struct palette {
  const uint8_t *colors; /* NULL: there is none */
  int count;
} palette;

typedef struct frame {
  int left, top, width, height;
  bool is_interlaced;
  palette palette;
  int transparent; /* index; -1: none */
  size_t first;    /* of its indices, in the order of the file */
} frame;

typedef struct gif {
  const uint8_t *at, *end;
  palette palette;  /* of the file */
  bool has_control; /* the first one before a frame counts */
  int transparent;  /* of the next frame */
  DP_ARRAY(frame) frames;
  uint8_t *indices; /* of all frames */
  size_t index_count, index_room;
} gif;

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

/* Takes the next block; its first byte is its length. */
static bool take_block(gif *gif, const uint8_t **block_out) {
  const uint8_t *length, *data;
  if (!take(gif, 1, &length) || !take(gif, length[0], &data))
    return false;
  *block_out = length;
  return true;
}

/* Skips all blocks up to and including an empty one. */
static bool skip_blocks(gif *gif) {
  const uint8_t *block;
  do {
    if (!take_block(gif, &block))
      return false;
  } while (block[0] > 0);
  return true;
}

static bool take_palette(gif *gif, uint8_t flags, palette *palette) {
  if (!(flags & 0x80))
    return true;
  palette->count = 2 << (flags & 7);
  return take(gif, (size_t)palette->count * 3, &palette->colors);
}

static defect open_file(gif *gif) {
  const uint8_t *version, *head;
  if (!take(gif, 6, &version))
    return CUT_OFF;
  return take(gif, 7, &head) && take_palette(gif, head[4], &gif->palette) ? WHOLE : NO_SCREEN;
}

/* ---- LZW ---- */
typedef struct gif_unpacker {
  gif *gif;
  const uint8_t *block; /* the rest of the current block */
  int block_left;
  uint32_t bits;
  int bit_count;
  int start_width, clear; /* `clear` is also how many codes are pixels */
  int width;              /* of the next code */
  int next;               /* the code that the next pair gets; those before are in the table */
  int previous;           /* the code before, or NO_CODE */
  uint16_t prefix[MAX_CODES];
  uint8_t last[MAX_CODES];
  uint8_t run[MAX_CODES]; /* the pixels of a code, the last one first */
} gif_unpacker;

static void clear_table(gif_unpacker *unpacker) {
  unpacker->width = unpacker->start_width + 1;
  unpacker->next = unpacker->clear + 2;
  unpacker->previous = NO_CODE;
}

static defect next_byte(gif_unpacker *unpacker, uint8_t *byte_out) {
  if (unpacker->block_left == 0) {
    const uint8_t *block;
    if (!take_block(unpacker->gif, &block))
      return CUT_OFF;
    if (block[0] == 0)
      return BAD_CODE;
    unpacker->block_left = block[0];
    unpacker->block = block + 1;
  }
  --unpacker->block_left;
  *byte_out = *unpacker->block++;
  return WHOLE;
}

static defect next_code(gif_unpacker *unpacker, int *code_out) {
  while (unpacker->bit_count < unpacker->width) {
    uint8_t byte;
    defect defect = next_byte(unpacker, &byte);
    if (defect)
      return defect;
    unpacker->bits |= (uint32_t)byte << unpacker->bit_count;
    unpacker->bit_count += 8;
  }
  *code_out = (int)(unpacker->bits & ((1u << unpacker->width) - 1));
  unpacker->bits >>= unpacker->width;
  unpacker->bit_count -= unpacker->width;
  int known = unpacker->next + (unpacker->previous == NO_CODE ? 1 : 2);
  if (known > 1 << unpacker->width && unpacker->width < MAX_CODE_WIDTH)
    ++unpacker->width;
  return WHOLE;
}

/* Writes the pixels of a code to `run` and returns their number; 0 when the code is invalid or too
 * long. A code that is not in the table yet means the previous code and one more pixel. */
static int unroll(gif_unpacker *unpacker, int code) {
  bool is_new = code >= unpacker->next;
  int at = is_new ? unpacker->previous : code, depth = is_new;
  if (at == NO_CODE)
    return 0;
  for (; at >= unpacker->clear && depth < MAX_RUN; at = unpacker->prefix[at]) {
    if (at >= unpacker->next)
      return 0;
    unpacker->run[depth++] = unpacker->last[at];
  }
  if (depth >= MAX_RUN)
    return 0;
  if (is_new)
    unpacker->run[0] = code == unpacker->next ? (uint8_t)at : UNKNOWN_PIXEL;
  unpacker->run[depth++] = (uint8_t)at;
  return depth;
}

/* Adds an entry to the table: the previous code followed by the first pixel of this one. */
static void remember(gif_unpacker *unpacker, int code, uint8_t first) {
  int next = unpacker->next;
  if (unpacker->previous != NO_CODE && next < MAX_CODES) {
    unpacker->prefix[next] = (uint16_t)unpacker->previous;
    unpacker->last[next] = code > next ? UNKNOWN_PIXEL : first;
    ++unpacker->next;
  }
  unpacker->previous = code;
}

/* Makes room for the pixels of another code: doubles the memory, but not beyond `wanted` pixels. */
static bool make_room(gif *gif, size_t wanted) {
  if (gif->index_room - gif->index_count >= MAX_CODES || gif->index_room >= wanted)
    return true;
  size_t room = gif->index_room * 2 + MAX_CODES;
  room = room < wanted ? room : wanted;
  uint8_t *indices = dp_try_malloc(room);
  if (!indices)
    return false;
  if (gif->indices)
    memcpy(indices, gif->indices, gif->index_count);
  dp_free(gif->indices);
  gif->indices = indices;
  gif->index_room = room;
  return true;
}

static defect add_run(gif *gif, const uint8_t *run, int length, size_t wanted) {
  if (!make_room(gif, wanted))
    return NO_MEMORY;
  while (length > 0 && gif->index_count < wanted)
    gif->indices[gif->index_count++] = run[--length];
  return WHOLE;
}

static defect unpack_codes(gif_unpacker *unpacker, size_t wanted) {
  while (unpacker->gif->index_count < wanted) {
    int code;
    defect defect = next_code(unpacker, &code);
    if (defect)
      return defect;
    if (code == unpacker->clear + 1)
      return ENDS_TOO_SOON;
    if (code == unpacker->clear) {
      clear_table(unpacker);
      continue;
    }
    int length = unroll(unpacker, code);
    if (length == 0)
      return BAD_CODE;
    defect = add_run(unpacker->gif, unpacker->run, length, wanted);
    if (defect)
      return defect;
    remember(unpacker, code, unpacker->run[length - 1]);
  }
  return WHOLE;
}

/* Decodes `count` indices and appends them to gif->indices. */
static defect unpack(gif *gif, int start_width, size_t count) {
  gif_unpacker *unpacker =
      dp_malloc(sizeof *unpacker); /* without what the tables would cost to clear */
  unpacker->gif = gif;
  unpacker->block_left = unpacker->bit_count = 0;
  unpacker->bits = 0;
  unpacker->start_width = start_width;
  unpacker->clear = 1 << start_width;
  clear_table(unpacker);
  defect defect = unpack_codes(unpacker, gif->index_count + count);
  dp_free(unpacker);
  return defect || skip_blocks(gif) ? defect : CUT_OFF;
}

/* ---- Records ---- */
/* The first block of a graphic control sets the transparent color, if it has the right size.
 * Further controls before the same frame are ignored. */
static void read_control(gif *gif, const uint8_t *block) {
  if (!gif->has_control && block[0] == 4)
    gif->transparent = block[1] & 1 ? block[4] : -1;
  gif->has_control = true;
}

/* More blocks are expected even after an empty first block, as in giflib. */
static defect read_extension(gif *gif) {
  const uint8_t *kind, *block;
  if (!take(gif, 1, &kind) || !take_block(gif, &block))
    return CUT_OFF;
  if (kind[0] == 0xf9 && block[0] > 0)
    read_control(gif, block);
  return skip_blocks(gif) ? WHOLE : CUT_OFF;
}

static defect read_frame(gif *gif) {
  const uint8_t *head, *start_width;
  if (!take(gif, 9, &head))
    return CUT_OFF;
  frame frame = {get16(head),    get16(head + 2), get16(head + 4),  get16(head + 6),
                 head[8] & 0x40, gif->palette,    gif->transparent, gif->index_count};
  if (!take_palette(gif, head[8], &frame.palette) || !take(gif, 1, &start_width) ||
      start_width[0] > 8)
    return CUT_OFF;
  if (frame.width == 0 || frame.height == 0 || frame.width > INT_MAX / frame.height)
    return BAD_SIZE;
  defect defect = unpack(gif, start_width[0], (size_t)frame.width * (size_t)frame.height);
  if (defect)
    return defect;
  DP_ARRAY_PUSH(&gif->frames, frame);
  gif->has_control = false;
  gif->transparent = -1;
  return WHOLE;
}

static defect read_frames(gif *gif) {
  const uint8_t *kind;
  while (take(gif, 1, &kind)) {
    if (kind[0] == 0x3b)
      return gif->frames.count > 0 ? WHOLE : NO_FRAME;
    if (kind[0] != 0x2c && kind[0] != 0x21)
      return WRONG_RECORD;
    defect defect = kind[0] == 0x2c ? read_frame(gif) : read_extension(gif);
    if (defect)
      return defect;
  }
  return CUT_OFF;
}

/* ---- Drawing ---- */
/* The position in the file of row `y` of an interlaced frame. The file has every 8th row from row
 * 0, every 8th from row 4, every 4th from row 2, every 2nd from row 1. */
static int interlaced_place(int y, int height) {
  static const int first[] = {0, 4, 2, 1}, step[] = {8, 8, 4, 2};
  int pass = 0, before = 0;
  for (; y % step[pass] != first[pass]; ++pass)
    before += (height - first[pass] + step[pass] - 1) / step[pass];
  return before + y / step[pass];
}

/* Draws the first `count` pixels of a row; transparent ones leave what is there. */
static dp_status *draw_row(const frame *frame, const uint8_t *indices, int count, uint8_t *to) {
  for (int i = 0; i < count; ++i, to += 3) {
    int index = indices[i];
    if (index == frame->transparent)
      continue;
    if (index >= frame->palette.count)
      return DP_INVALID("found color index %d outside of color map range %d", index,
                        frame->palette.count);
    memcpy(to, frame->palette.colors + 3 * index, 3);
  }
  return NULL;
}

static dp_status *draw(const gif *gif, const frame *frame, const dp_image_size *size,
                       uint8_t *canvas) {
  int64_t columns = size->width - frame->left, rows = size->height - frame->top;
  columns = columns < frame->width ? columns : frame->width;
  rows = rows < frame->height ? rows : frame->height;
  for (int y = 0; y < rows && columns > 0; ++y) {
    int place = frame->is_interlaced ? interlaced_place(y, frame->height) : y;
    DP_RETURN_IF_ERROR(draw_row(
        frame, gif->indices + frame->first + (size_t)place * (size_t)frame->width, (int)columns,
        canvas + ((size_t)(y + frame->top) * (size_t)size->width + (size_t)frame->left) * 3));
  }
  return NULL;
}

static dp_status *draw_frames(const gif *gif, const dp_image_size *size, uint8_t *pixels) {
  size_t bytes = (size_t)size->width * (size_t)size->height * 3;
  for (int i = 0; i < size->frames; ++i) {
    const frame *frame = &gif->frames.items[i];
    uint8_t *canvas = pixels + (size_t)i * bytes;
    if (i > 0)
      memcpy(canvas, canvas - bytes, bytes);
    else
      memset(canvas, 0, bytes);
    if (!frame->palette.colors)
      return DP_INVALID("missing color map for frame %d", i);
    DP_RETURN_IF_ERROR(draw(gif, frame, size, canvas));
  }
  return NULL;
}

/* Computes the size of the result and refuses sizes that the file does not justify. One wide and
 * one high frame make a large canvas together, and many small frames repeat it; so above
 * MAX_UNBACKED bytes, the file itself must contain a share of the pixels. */
static dp_status *measure(const gif *gif, bool all_frames, dp_image_size *size) {
  *size = (dp_image_size){.channels = 3, .frames = all_frames ? (int)gif->frames.count : 1};
  for (size_t i = 0; i < gif->frames.count; ++i) {
    const frame *frame = &gif->frames.items[i];
    size->width = frame->width > size->width ? frame->width : size->width;
    size->height = frame->height > size->height ? frame->height : size->height;
  }
  int64_t bytes;
  if (__builtin_mul_overflow(size->width * size->height * 3, size->frames, &bytes) ||
      (bytes > MAX_UNBACKED && bytes / 1024 > (int64_t)gif->index_count))
    return dp_status_create(DP_RESOURCE_EXHAUSTED,
                            "%d frames of %lld by %lld pixels are more than a GIF of %zu pixels "
                            "may have",
                            size->frames, (long long)size->width, (long long)size->height,
                            gif->index_count);
  return NULL;
}

static dp_status *decode(gif *gif, bool all_frames, dp_image_allocate_fn allocate, void *arg) {
  defect defect = open_file(gif);
  if (defect)
    return DP_INVALID("failed to open gif file: %s", defect_words[defect]);
  defect = read_frames(gif);
  if (defect == NO_MEMORY)
    return dp_status_out_of_memory();
  if (gif->frames.count == 0)
    return DP_INVALID("failed to slurp gif file: %s", defect_words[defect]);
  dp_image_size size;
  DP_RETURN_IF_ERROR(measure(gif, all_frames, &size));
  uint8_t *pixels = allocate(arg, &size);
  return pixels ? draw_frames(gif, &size, pixels) : dp_status_out_of_memory();
}

dp_status *dp_gif_decode(dp_view data, bool all_frames, dp_image_allocate_fn allocate, void *arg) {
  const uint8_t *at = (const uint8_t *)data.data;
  gif gif = {.at = at, .end = at + data.length, .transparent = -1};
  dp_status *status = decode(&gif, all_frames, allocate, arg);
  DP_ARRAY_FREE(&gif.frames);
  dp_free(gif.indices);
  return status;
}
