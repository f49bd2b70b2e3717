/* Formats of images and sounds, as bytes in and pixels out. What is decoded comes from strangers:
 * every size is checked before it is believed, and limits hold before memory is taken. Messages say
 * only what is wrong; the kernels word them as TensorFlow does. Any thread. */
#ifndef DP_KERNELS_CODEC_INTERNAL_H
#define DP_KERNELS_CODEC_INTERNAL_H

#include <stdatomic.h>
#include "base/status.h"
#include "base/text.h"

/* ---- Coders at rest ----
 * What a library needs to begin (memory, tables) costs more than a small image; a few coders wait
 * for the next one. Any thread takes and gives. */
#define DP_CODER_PLACES 4
typedef struct dp_coder_rest {
  _Atomic(void *) places[DP_CODER_PLACES];
} dp_coder_rest;
/* NULL when none is there. */
static inline void *dp_coder_take(dp_coder_rest *rest) {
  for (int i = 0; i < DP_CODER_PLACES; ++i) {
    void *coder = atomic_exchange_explicit(&rest->places[i], NULL, memory_order_acquire);
    if (coder)
      return coder;
  }
  return NULL;
}
/* False when there is no place: the caller destroys it. */
static inline bool dp_coder_give(dp_coder_rest *rest, void *coder) {
  for (int i = 0; i < DP_CODER_PLACES; ++i) {
    void *none = NULL;
    if (atomic_compare_exchange_strong_explicit(&rest->places[i], &none, coder,
                                                memory_order_release, memory_order_relaxed))
      return true;
  }
  return false;
}

typedef struct dp_image_size {
  int64_t width, height;
  int channels;
  int frames; /* of a GIF; else 1 */
} dp_image_size;

/* ---- PNG ---- */
/* `channels` 1 to 4, or 0 for those of the file. */
DP_MUST_USE dp_status *dp_png_size(dp_view data, int channels, dp_image_size *size_out);
/* Into memory for size_out's pixels of 8 or 16 bits a channel. */
DP_MUST_USE dp_status *dp_png_decode(dp_view data, int channels, int bits, void *pixels);
/* Appends a PNG file. `bits` is 8 or 16; compression -1 (the default) to 9, where the bytes are
 * TensorFlow's, or DP_PNG_ANY_BYTES: about as few, sooner. */
#define DP_PNG_ANY_BYTES (-2)
DP_MUST_USE dp_status *dp_png_encode(const void *pixels, int64_t width, int64_t height,
                                     int channels, int bits, int compression, dp_text *out);

/* ---- JPEG, by libjpeg, which is loaded when the first image comes that needs it ---- */
typedef struct dp_jpeg_options {
  int channels; /* 0: the file's, at most 3 */
  int ratio;    /* 1, 2, 4, 8: by how much smaller */
  bool fancy_upscaling, recover_truncated, is_accurate;
  float acceptable_fraction; /* of the lines */
  bool has_crop;
  int32_t crop_x, crop_y, crop_width, crop_height;
} dp_jpeg_options;
/* Called once with the image's size; gives the memory for its pixels, or NULL to stop. */
typedef uint8_t *(*dp_image_allocate_fn)(void *arg, const dp_image_size *size);
DP_MUST_USE dp_status *dp_jpeg_decode(dp_view data, const dp_jpeg_options *options,
                                      dp_image_allocate_fn allocate, void *arg);
/* Its two ways, which give the same. The first one takes small and plain images only: false, and
 * nothing is done, for all others. */
bool dp_jpeg_decode_small(dp_view data, const dp_jpeg_options *options,
                          dp_image_allocate_fn allocate, void *arg, dp_status **status_out);
DP_MUST_USE dp_status *dp_jpeg_decode_by_library(dp_view data, const dp_jpeg_options *options,
                                                 dp_image_allocate_fn allocate, void *arg);
DP_MUST_USE dp_status *dp_jpeg_size(dp_view data, dp_image_size *size_out);
typedef struct dp_jpeg_write_options {
  int quality;
  bool progressive, optimize_size, downsample_chroma;
  int density_unit, x_density, y_density;
  dp_view metadata; /* XMP */
} dp_jpeg_write_options;
DP_MUST_USE dp_status *dp_jpeg_encode(const uint8_t *pixels, int64_t width, int64_t height,
                                      int channels, const dp_jpeg_write_options *options,
                                      dp_text *out);

/* ---- GIF ---- */
/* All frames, or the first one, as RGB. */
DP_MUST_USE dp_status *dp_gif_decode(dp_view data, bool all_frames, dp_image_allocate_fn allocate,
                                     void *arg);

/* ---- WAV, 16 bits a sample ---- */
/* Appends a WAV file with `frames` x `channels` samples. */
DP_MUST_USE dp_status *dp_wav_encode(const float *samples, uint64_t rate, uint64_t channels,
                                     uint64_t frames, dp_text *out);
typedef struct dp_wav {
  const uint8_t *samples; /* little-endian 16-bit, inside the data */
  uint32_t frames, rate;
  uint16_t channels;
} dp_wav;
DP_MUST_USE dp_status *dp_wav_parse(dp_view data, dp_wav *wav_out);

#endif
