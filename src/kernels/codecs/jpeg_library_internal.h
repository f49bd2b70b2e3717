/* What jpeg.c and jpeg_write.c need of libjpeg (libjpeg-turbo, which distributions have): its
 * functions as pointers, its errors as longjmp, its memory from an arena. */
#ifndef DP_KERNELS_CODECS_JPEG_LIBRARY_INTERNAL_H
#define DP_KERNELS_CODECS_JPEG_LIBRARY_INTERNAL_H

#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
/* needs stdio.h before it */
#include <jpeglib.h>
#include "base/arena.h"
#include "base/status.h"

#define DP_JPEG_MAX_PIXELS ((int64_t)1 << 29)
#define DP_JPEG_ROWS_AT_ONCE 16 /* the library works on this many rows */

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
/* Filled by the first successful dp_jpeg_need_library; constant afterwards. */
extern struct dp_jpeg_library { DP_JPEG_FUNCTIONS(DP_JPEG_POINTER) } dp_jpeg_library;
#undef DP_JPEG_POINTER
DP_MUST_USE dp_status *dp_jpeg_need_library(void);

/* ---- Errors: the library jumps to `jump`, which each entry sets first ---- */
typedef struct dp_jpeg_errors {
  struct jpeg_error_mgr manager;
  jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
} dp_jpeg_errors;
/* Returns the error manager to give to the library. */
struct jpeg_error_mgr *dp_jpeg_init_errors(dp_jpeg_errors *errors);

/* ---- Memory for one image ----
 * For each image the library would get a dozen pieces of memory from the system and return them.
 * Here they come from an arena that is kept. Memory for a whole image at once (progressive
 * files) still comes from the library itself. */
typedef struct dp_jpeg_memory {
  struct jpeg_memory_mgr own; /* the library's functions */
  dp_arena *arena;            /* reset after each image; owned by the coder */
  bool keeps_nothing; /* permanent memory also comes from the arena, and ends with the image */
} dp_jpeg_memory;
/* A coder with more memory is not kept for the next image. */
#define DP_JPEG_MOST_RESTING_BYTES ((size_t)1 << 20)
void dp_jpeg_memory_start(dp_jpeg_memory *memory, j_common_ptr common);

#endif
