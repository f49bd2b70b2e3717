/* The data file of a checkpoint has its tensors one after the other, whatever the alignment of
 * their memory and of their offsets in the file. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/thread.h"
#include "storage/bundle.h"
#include "storage/file.h"

#define MIB ((int64_t)1 << 20)
#define MOST 4

static char folder[] = "/tmp/downpour-bundle-XXXXXX";
static char prefix[256];

static void make_tensor(int64_t size, uint32_t seed, dp_tensor *tensor_out) {
  dp_shape shape = dp_shape_vector(size);
  assert_null(dp_tensor_create(DP_UINT8, &shape, tensor_out));
  uint8_t *bytes = tensor_out->data;
  for (int64_t i = 0; i < size; ++i)
    bytes[i] = (uint8_t)((uint64_t)(i + seed) * 2654435761u >> 13);
}

static void write_all(const dp_tensor *tensors, size_t count, dp_pool *pool) {
  dp_bundle_writer *writer;
  assert_null(dp_bundle_writer_create(prefix, pool, &writer));
  for (size_t i = 0; i < count; ++i) {
    char name[] = {(char)('a' + i), 0};
    assert_null(dp_bundle_writer_add(writer, dp_view_of(name), &tensors[i]));
  }
  assert_null(dp_bundle_writer_finish(writer));
  dp_bundle_writer_destroy(writer);
}

static void check_file(const dp_tensor *tensors, size_t count) {
  char *path = dp_bundle_data_path(prefix, 0, 1);
  char *bytes;
  size_t length, at = 0;
  assert_null(dp_file_read_whole(path, UINT64_MAX, &bytes, &length));
  for (size_t i = 0; i < count; at += dp_tensor_bytes(&tensors[i]), ++i) {
    assert_true(at + dp_tensor_bytes(&tensors[i]) <= length);
    assert_int_equal(memcmp(bytes + at, tensors[i].data, dp_tensor_bytes(&tensors[i])), 0);
  }
  assert_int_equal(at, length);
  free(bytes);
  free(path);
}

/* The reader compares the checksums. */
static void check_sums(size_t count) {
  dp_bundle_reader *reader;
  assert_null(dp_bundle_reader_open(prefix, &reader));
  static const char names[] = "abcd";
  dp_bundle_request requests[MOST] = {0};
  for (size_t i = 0; i < count; ++i)
    requests[i].name = (dp_view){names + i, 1};
  assert_null(dp_bundle_reader_read(reader, requests, count, NULL));
  for (size_t i = 0; i < count; ++i)
    dp_tensor_deinit(&requests[i].tensor);
  dp_bundle_reader_destroy(reader);
}

static void round_trip(const int64_t *sizes, size_t count, dp_pool *pool) {
  dp_tensor tensors[MOST];
  for (size_t i = 0; i < count; ++i)
    make_tensor(sizes[i], (uint32_t)i, &tensors[i]);
  write_all(tensors, count, pool);
  check_file(tensors, count);
  check_sums(count);
  for (size_t i = 0; i < count; ++i)
    dp_tensor_deinit(&tensors[i]);
}

static void every_alignment_is_written_whole(void **state) {
  (void)state;
  static const int64_t sizes[][MOST] = {
      {0, 1, 0, 7},                                /* small: through the page cache */
      {4 * MIB, 4 * MIB - 1, 1, 3},                /* about the least size that bypasses it */
      {12 * MIB, 8 * MIB, 16 * MIB, 4 * MIB},      /* whole blocks */
      {10 * MIB, 6 * MIB + 512, 9 * MIB, 4096},    /* parts of blocks */
      {1, 9 * MIB, 512 * 1024 - 1, 9 * MIB},       /* nothing is aligned */
      {9 * MIB + 17, 0, 5 * MIB - 17, 3 * MIB + 5} /* the end is padded, then truncated */
  };
  dp_pool *pool = dp_pool_create("test", 4);
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
    round_trip(sizes[i], MOST, NULL);
    round_trip(sizes[i], MOST, pool);
  }
  dp_pool_destroy(pool);
}

static int make_folder(void **state) {
  (void)state;
  snprintf(prefix, sizeof prefix, "%s/model", mkdtemp(folder));
  return 0;
}

static int remove_folder(void **state) {
  (void)state;
  char *paths[] = {dp_bundle_data_path(prefix, 0, 1), dp_bundle_index_path(prefix)};
  for (int i = 0; i < 2; ++i) {
    unlink(paths[i]);
    free(paths[i]);
  }
  return rmdir(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_alignment_is_written_whole)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
