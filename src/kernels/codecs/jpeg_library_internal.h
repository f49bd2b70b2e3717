/* What reading and writing of JPEG files need of libjpeg (the turbo one that distributions have):
 * its functions, its errors, and memory for one image. */
#ifndef DP_KERNELS_CODEC_JPEG_LIBRARY_INTERNAL_H
#define DP_KERNELS_CODEC_JPEG_LIBRARY_INTERNAL_H

#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
/* after stdio.h */
#include <jpeglib.h>
#include "base/arena.h"
#include "base/status.h"

#define DP_JPEG_MAX_PIXELS ((int64_t)1 << 29)
#define DP_JPEG_ROWS_AT_ONCE 16 /* the library works on as many */

/* ---- The library ---- */
/* clang-format off */
#define DP_JPEG_FUNCTIONS(X) \
  X(jpeg_std_error) X(jpeg_CreateDecompress) X(jpeg_read_header) X(jpeg_calc_output_dimensions) \
  X(jpeg_start_decompress) X(jpeg_read_scanlines) X(jpeg_finish_decompress) X(jpeg_destroy) \
  X(jpeg_crop_scanline) X(jpeg_skip_scanlines) X(jpeg_resync_to_restart) X(jpeg_abort) \
  X(jpeg_CreateCompress) X(jpeg_set_defaults) X(jpeg_set_quality) X(jpeg_simple_progression) \
  X(jpeg_start_compress) X(jpeg_write_marker) X(jpeg_write_scanlines) X(jpeg_finish_compress)
/* clang-format on */
#define DP_JPEG_POINTER(name) __typeof__(&name) name;
/* Filled by the first dp_jpeg_need_library that finds the library; constant from then on. */
extern struct dp_jpeg_library { DP_JPEG_FUNCTIONS(DP_JPEG_POINTER) } dp_jpeg_library;
#undef DP_JPEG_POINTER
DP_MUST_USE dp_status *dp_jpeg_need_library(void);

/* ---- Errors: the library jumps to `jump`, which each entry sets first ---- */
typedef struct dp_jpeg_errors {
  struct jpeg_error_mgr manager;
  jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
} dp_jpeg_errors;
/* Gives the manager that the library is to use. */
struct jpeg_error_mgr *dp_jpeg_init_errors(dp_jpeg_errors *errors);

/* ---- Memory for one image ----
 * The library would take a dozen pieces from the system for each image and give them back; here
 * they come from an arena that is kept. What it needs for a whole image at once (progressive ones)
 * it still takes itself. */
typedef struct dp_jpeg_memory {
  struct jpeg_memory_mgr own; /* the library's functions */
  dp_arena *arena;            /* of whoever has the image */
  bool keeps_nothing;         /* what is to stay for the next image goes with this one too */
} dp_jpeg_memory;
/* A coder with more than that does not wait for the next image. */
#define DP_JPEG_MOST_RESTING_BYTES ((size_t)1 << 20)
void dp_jpeg_memory_start(dp_jpeg_memory *memory, j_common_ptr common);

#endif
