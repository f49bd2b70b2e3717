/* Opens libjpeg and adapts it for jpeg.c and jpeg_write.c. The library is opened for the first
 * image, so that a server that never sees one does not pay for it. Any thread; the objects of one
 * image are used by one thread at a time. */
#include <dlfcn.h>
#include <pthread.h>
#include "kernels/codecs/jpeg_library_internal.h"

/* ---- The library ---- */
struct dp_jpeg_library dp_jpeg_library;
static bool is_loaded;

static void load(void) {
  void *handle = dlopen("libjpeg.so.62", RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return;
  is_loaded = true;
#define JPEG_FIND(name)                                                                            \
  is_loaded = is_loaded && (dp_jpeg_library.name = dlsym(handle, #name)) != NULL;
  DP_JPEG_FUNCTIONS(JPEG_FIND)
#undef JPEG_FIND
}

dp_status *dp_jpeg_need_library(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load);
  if (!is_loaded)
    return dp_status_create(DP_UNIMPLEMENTED,
                            "JPEG images need libjpeg.so.62, which is not on this machine");
  return NULL;
}

/* ---- Errors ---- */
static void leave(j_common_ptr common) {
  dp_jpeg_errors *errors = (dp_jpeg_errors *)common->err;
  common->err->format_message(common, errors->message);
  longjmp(errors->jump, 1);
}

static void keep_quiet(j_common_ptr common) {}

struct jpeg_error_mgr *dp_jpeg_init_errors(dp_jpeg_errors *errors) {
  dp_jpeg_library.jpeg_std_error(&errors->manager);
  errors->manager.error_exit = leave;
  errors->manager.output_message = keep_quiet;
  snprintf(errors->message, sizeof errors->message, "damaged JPEG data");
  return &errors->manager;
}

/* ---- Memory for one image ---- */
/* The library's vector code reads and writes whole vectors. */
#define ALIGNMENT ((size_t)64)

static void *from_arena(dp_jpeg_memory *memory, size_t size) {
  size_t at = (size_t)dp_arena_allocate(memory->arena, size + ALIGNMENT);
  return (void *)((at + ALIGNMENT - 1) & ~(ALIGNMENT - 1));
}

static void *allocate_piece(j_common_ptr common, int pool, size_t size) {
  dp_jpeg_memory *memory = common->client_data;
  if (pool == JPOOL_PERMANENT && !memory->keeps_nothing)
    return memory->own.alloc_small(common, pool, size);
  return from_arena(memory, size);
}

/* Allocates `rows` rows of `bytes` each, and an array of pointers to them, which it returns. */
static void *allocate_rows(dp_jpeg_memory *memory, size_t bytes, JDIMENSION rows) {
  void **array = from_arena(memory, rows * sizeof *array);
  char *data = from_arena(memory, rows * bytes);
  for (JDIMENSION i = 0; i < rows; ++i)
    array[i] = data + i * bytes;
  return array;
}

static JSAMPARRAY allocate_samples(j_common_ptr common, int pool, JDIMENSION width,
                                   JDIMENSION rows) {
  size_t bytes = ((size_t)width * sizeof(JSAMPLE) + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
  return allocate_rows(common->client_data, bytes, rows);
}

static JBLOCKARRAY allocate_blocks(j_common_ptr common, int pool, JDIMENSION width,
                                   JDIMENSION rows) {
  return allocate_rows(common->client_data, width * sizeof(JBLOCK), rows);
}

static void free_pieces(j_common_ptr common, int pool) {
  dp_jpeg_memory *memory = common->client_data;
  memory->own.free_pool(common, pool);
  if (pool == JPOOL_IMAGE)
    dp_arena_reset(memory->arena);
}

void dp_jpeg_memory_start(dp_jpeg_memory *memory, j_common_ptr common) {
  memory->own = *common->mem;
  memory->arena = dp_arena_create();
  common->client_data = memory;
  common->mem->alloc_small = allocate_piece;
  common->mem->alloc_large = allocate_piece;
  common->mem->alloc_sarray = allocate_samples;
  common->mem->alloc_barray = allocate_blocks;
  common->mem->free_pool = free_pieces;
}
