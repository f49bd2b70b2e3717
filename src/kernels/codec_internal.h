/* Formats of images and sounds, as bytes in and pixels out. What is decoded comes from strangers:
 * every size is checked before it is believed, and limits hold before memory is taken. Messages say
 * only what is wrong; the kernels word them as TensorFlow does. No state, any thread. */
#ifndef DP_KERNELS_CODEC_INTERNAL_H
#define DP_KERNELS_CODEC_INTERNAL_H

#include "base/status.h"
#include "base/text.h"

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
/* Appends a PNG file. `bits` is 8 or 16; compression -1 (the default) to 9. */
DP_MUST_USE dp_status *dp_png_encode(const void *pixels, int64_t width, int64_t height,
                                     int channels, int bits, int compression, dp_text *out);

/* ---- JPEG, by libjpeg, which is loaded when the first image comes ---- */
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
