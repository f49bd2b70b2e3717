/* Formats of images and sounds: bytes in, pixels or samples out, and back. The bytes to decode are
 * not trusted: every size is checked before it is used, and limits are checked before memory is
 * allocated. Error messages say only what is wrong; the kernels add TensorFlow's words. Any
 * thread. */
#ifndef DP_KERNELS_CODECS_CODEC_H
#define DP_KERNELS_CODECS_CODEC_H

#include <stdatomic.h>
#include "base/status.h"
#include "base/text.h"

/* ---- Resting coders ----
 * To set up a coder (a library's memory and tables) costs more than a small image. So up to
 * DP_CODER_PLACES coders are kept for the next images. Any thread may take and give; no locks. */
#define DP_CODER_PLACES 4
typedef struct dp_coder_rest {
  _Atomic(void *) places[DP_CODER_PLACES];
} dp_coder_rest;
/* The caller owns the coder; NULL when none is kept. */
static inline void *dp_coder_take(dp_coder_rest *rest) {
  for (int i = 0; i < DP_CODER_PLACES; ++i) {
    void *coder = atomic_exchange_explicit(&rest->places[i], NULL, memory_order_acquire);
    if (coder)
      return coder;
  }
  return NULL;
}
/* False when all places are taken: the caller destroys the coder. */
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
  int frames; /* more than 1 only for a GIF */
} dp_image_size;

/* ---- PNG ---- */
/* `channels` is 1 to 4, or 0 for the channels of the file. */
DP_MUST_USE dp_status *dp_png_size(dp_view data, int channels, dp_image_size *size_out);
/* `pixels` has memory for the size that dp_png_size gives, with 8 or 16 bits per channel. */
DP_MUST_USE dp_status *dp_png_decode(dp_view data, int channels, int bits, void *pixels);
/* Appends a PNG file to `out`. `bits` is 8 or 16. With a compression of -1 (the default) to 9 the
 * bytes equal TensorFlow's. With DP_PNG_ANY_BYTES the file has about the same size and is made
 * faster. */
#define DP_PNG_ANY_BYTES (-2)
DP_MUST_USE dp_status *dp_png_encode(const void *pixels, int64_t width, int64_t height,
                                     int channels, int bits, int compression, dp_text *out);

/* ---- JPEG, by libjpeg, which is loaded for the first image that needs it ---- */
typedef struct dp_jpeg_options {
  int channels; /* 0: those of the file, at most 3 */
  int ratio;    /* 1, 2, 4 or 8: the result is smaller by this factor */
  bool fancy_upscaling, recover_truncated, is_accurate;
  float acceptable_fraction; /* part of the lines that must be readable */
  bool has_crop;
  int32_t crop_x, crop_y, crop_width, crop_height;
} dp_jpeg_options;
/* Called once with the image's size; returns the memory for its pixels, or NULL to stop. */
typedef uint8_t *(*dp_image_allocate_fn)(void *arg, const dp_image_size *size);
DP_MUST_USE dp_status *dp_jpeg_decode(dp_view data, const dp_jpeg_options *options,
                                      dp_image_allocate_fn allocate, void *arg);
/* The two ways of dp_jpeg_decode, which give the same pixels. dp_jpeg_decode_small accepts only
 * small and plain images; for all others it returns false and has done nothing. */
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
/* Decodes all frames, or only the first one, as RGB. */
DP_MUST_USE dp_status *dp_gif_decode(dp_view data, bool all_frames, dp_image_allocate_fn allocate,
                                     void *arg);

/* ---- WAV, 16 bits per sample ---- */
/* Appends a WAV file with `frames` x `channels` samples. */
DP_MUST_USE dp_status *dp_wav_encode(const float *samples, uint64_t rate, uint64_t channels,
                                     uint64_t frames, dp_text *out);
typedef struct dp_wav {
  const uint8_t *samples; /* little-endian 16-bit samples; points into the data */
  uint32_t frames, rate;
  uint16_t channels;
} dp_wav;
DP_MUST_USE dp_status *dp_wav_parse(dp_view data, dp_wav *wav_out);

#endif
