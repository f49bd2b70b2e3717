/* Finds and opens OpenBLAS on first use; blas.h says why not earlier. Distributions install the
 * threaded variant in a folder of its own beside the C library, so that folder is searched first.
 *
 * A serial OpenBLAS has no locks: two threads that multiply at once are given the same scratch
 * memory, and both get wrong products (33,903 of 8,000,000 in a trial). Such a library is not used.
 * The threaded variant has locks; its own threads are stopped, because nothing is left for them. */
#include "kernels/products/blas.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { SERIAL = 0 }; /* of openblas_get_parallel */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static void *library;
static dp_blas table;

/* The folder of the C library, with a slash at its end; "" when unknown. */
static void find_folder(char *folder, size_t size) {
  Dl_info info;
  folder[0] = '\0';
  if (!dladdr((void *)(size_t)fopen, &info) || !info.dli_fname)
    return;
  const char *slash = strrchr(info.dli_fname, '/');
  if (slash)
    snprintf(folder, size, "%.*s", (int)(slash - info.dli_fname + 1), info.dli_fname);
}

/* NULL when there is no such library, or when several threads may not call it at once. */
static void *open_threaded(const char *path) {
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  int (*get_parallel)(void) = handle ? dlsym(handle, "openblas_get_parallel") : NULL;
  if (get_parallel && get_parallel() != SERIAL)
    return handle;
  if (handle)
    dlclose(handle);
  return NULL;
}

static void *open_library(void) {
  char folder[256], path[320];
  find_folder(folder, sizeof folder);
  snprintf(path, sizeof path, "%sopenblas-pthread/libopenblas.so.0", folder);
  const char *const names[] = {path, "libopenblas.so.0", "libopenblas.so"};
  void *handle = NULL;
  for (size_t i = 0; !handle && i < sizeof names / sizeof names[0]; ++i)
    handle = open_threaded(names[i]);
  return handle;
}

static void use_calling_thread_alone(void *handle) {
  void (*set_threads)(int) = dlsym(handle, "openblas_set_num_threads");
  int (*stop_threads)(void) = dlsym(handle, "blas_thread_shutdown_");
  if (set_threads)
    set_threads(1);
  if (stop_threads)
    stop_threads();
}

static void load(void) {
  void *handle = open_library();
  if (!handle)
    return;
  use_calling_thread_alone(handle);
  table.sgemm = dlsym(handle, "cblas_sgemm");
  table.dgemm = dlsym(handle, "cblas_dgemm");
  table.cgemm = dlsym(handle, "cblas_cgemm");
  table.zgemm = dlsym(handle, "cblas_zgemm");
  if (table.sgemm && table.dgemm && table.cgemm && table.zgemm)
    library = handle;
  else
    dlclose(handle);
}

const dp_blas *dp_blas_table(void) {
  pthread_once(&once, load);
  return library ? &table : NULL;
}

void *dp_blas_find(const char *name) {
  return dp_blas_table() ? dlsym(library, name) : NULL;
}
