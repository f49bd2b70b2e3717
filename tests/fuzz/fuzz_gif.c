/* Fuzzes the reader of GIF. Reading only the first frame must give the first of all frames. The
 * file without its last quarter must not have more frames, and if its canvas has the same size, its
 * frames must be the same. */
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "kernels/codecs/codec.h"

#define MOST (1 << 20) /* bytes that are decoded here */

typedef struct pixels {
  dp_image_size size;
  uint8_t *data;
  size_t frame; /* bytes of one */
} pixels;

static uint8_t *allocate(void *arg, const dp_image_size *size) {
  pixels *pixels = arg;
  if (size->width <= 0 || size->height <= 0 || size->frames <= 0 || size->channels != 3)
    abort();
  pixels->size = *size;
  pixels->frame = (size_t)(size->width * size->height * 3);
  if (pixels->frame > MOST || pixels->frame * (size_t)size->frames > MOST)
    return NULL;
  return pixels->data = dp_malloc(pixels->frame * (size_t)size->frames);
}

/* False, and nothing is kept, when the file cannot be read. */
static bool read_file(dp_view file, bool all_frames, pixels *pixels) {
  *pixels = (struct pixels){0};
  dp_status *status = dp_gif_decode(file, all_frames, allocate, pixels);
  if (!status)
    return true;
  dp_status_release(status);
  dp_free(pixels->data);
  return false;
}

static bool has_same_canvas(const pixels *a, const pixels *b) {
  return a->size.width == b->size.width && a->size.height == b->size.height;
}

static void check_first(dp_view file, const pixels *all) {
  pixels first;
  if (!read_file(file, false, &first) || first.size.frames != 1 || !has_same_canvas(&first, all) ||
      memcmp(first.data, all->data, all->frame) != 0)
    abort();
  dp_free(first.data);
}

static void check_cut(dp_view file, const pixels *all) {
  pixels some;
  file.length -= file.length / 4;
  if (!read_file(file, true, &some))
    return;
  if (some.size.frames > all->size.frames ||
      (has_same_canvas(&some, all) &&
       memcmp(some.data, all->data, some.frame * (size_t)some.size.frames) != 0))
    abort();
  dp_free(some.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size > 4096)
    return 0;
  /* A copy of exactly this size, so that a sanitizer sees a read behind the end. */
  dp_view file = {dp_memdup(data, size), size};
  pixels all;
  if (read_file(file, true, &all)) {
    check_first(file, &all);
    check_cut(file, &all);
    dp_free(all.data);
  }
  dp_free((void *)file.data);
  return 0;
}
