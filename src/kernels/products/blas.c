/* Finds OpenBLAS; blas_internal.h says why so late. Distributions put the serial variant into a
 * folder of its own beside the C library's, so that is where it is looked for first. */
#include "kernels/products/blas.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

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

static void *open_library(void) {
  char folder[256], path[320];
  find_folder(folder, sizeof folder);
  snprintf(path, sizeof path, "%sopenblas-serial/libopenblas.so.0", folder);
  void *handle = folder[0] ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
  const char *const names[] = {"libopenblas.so.0", "libopenblas.so"};
  for (size_t i = 0; !handle && i < sizeof names / sizeof names[0]; ++i)
    handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
  return handle;
}

static void load(void) {
  void *handle = open_library();
  if (!handle)
    return;
  void (*set_threads)(int) = dlsym(handle, "openblas_set_num_threads");
  if (set_threads)
    set_threads(1);
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
