/* Records are read back from files of each compression. Snappy blocks that are cut, damaged or have
 * a wrong length are refused, on every try, and take no memory. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "storage/record.h"

static char path[] = "/tmp/downpour-record-XXXXXX";

/* ---- Files ---- */
static const size_t lengths[] = {0, 1, 300, 70000, 1000000, 5};
#define RECORDS (sizeof lengths / sizeof *lengths)

/* Bytes of which some repeat and some do not. */
static char byte_of(size_t record, size_t at) {
  return (char)(at % 1000 < 500 ? record : at * at / 11 + record);
}

static void write_records(dp_compression compression, size_t count) {
  dp_file *file;
  dp_record_writer *writer;
  assert_null(dp_file_open(path, DP_FILE_CREATE, &file));
  assert_null(dp_record_writer_create(file, compression, &writer));
  for (size_t i = 0; i < count; ++i) {
    char *data = dp_malloc(lengths[i] + 1);
    for (size_t k = 0; k < lengths[i]; ++k)
      data[k] = byte_of(i, k);
    assert_null(dp_record_writer_add(writer, data, lengths[i]));
    if (i % 2)
      assert_null(dp_record_writer_flush(writer));
    dp_free(data);
  }
  assert_null(dp_record_writer_finish(writer));
  assert_null(dp_file_close(file));
}

static dp_record_reader *open_records(dp_compression compression) {
  dp_record_reader *reader;
  assert_null(dp_record_reader_open(path, compression, DP_STREAM_BUFFER, &reader));
  return reader;
}

static void expect_record(const dp_tstring *record, size_t index) {
  assert_int_equal(dp_tstring_size(record), lengths[index]);
  for (size_t k = 0; k < lengths[index]; ++k)
    assert_int_equal(dp_tstring_data(record)[k], byte_of(index, k));
}

static void all_come_back(void **state) {
  (void)state;
  for (int compression = DP_COMPRESSION_NONE; compression <= DP_COMPRESSION_SNAPPY; ++compression) {
    write_records((dp_compression)compression, RECORDS);
    dp_record_reader *reader = open_records((dp_compression)compression);
    dp_tstring record = {0};
    bool more;
    for (size_t i = 0; i < RECORDS; ++i) {
      assert_null(dp_record_reader_next(reader, &record, &more));
      assert_true(more);
      expect_record(&record, i);
    }
    assert_null(dp_record_reader_next(reader, &record, &more));
    assert_false(more);
    dp_tstring_deinit(&record);
    dp_record_reader_close(reader);
  }
}

/* ---- Damage ---- */
static void write_bytes(const void *data, size_t length) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(data, 1, length, file), length);
  assert_int_equal(fclose(file), 0);
}

/* The number of records before the end or before an error, which the caller gets and releases. */
static size_t count_records(dp_status **status_out) {
  dp_record_reader *reader = open_records(DP_COMPRESSION_SNAPPY);
  dp_tstring record = {0};
  bool more = true;
  size_t count = 0;
  dp_status *status = dp_record_reader_next(reader, &record, &more);
  for (; !status && more; ++count) {
    expect_record(&record, count);
    status = dp_record_reader_next(reader, &record, &more);
  }
  *status_out = status;
  dp_tstring_deinit(&record);
  dp_record_reader_close(reader);
  return count;
}

/* Of a file that ends early, or in which bits were flipped, only the first records can be read. */
static void damage_gives_no_other_records(void **state) {
  (void)state;
  const size_t count = 3;
  char *data;
  size_t length;
  dp_status *status;
  write_records(DP_COMPRESSION_SNAPPY, count);
  assert_null(dp_file_read_whole(path, 1 << 20, &data, &length));
  for (size_t i = 0; i < length; ++i) {
    write_bytes(data, i);
    assert_in_range(count_records(&status), 0, count - 1);
    dp_status_release(status);
  }
  for (size_t bit = 0; bit < 8 * length; bit += 3) {
    data[bit / 8] ^= (char)(1 << bit % 8);
    write_bytes(data, length);
    assert_in_range(count_records(&status), 0, count);
    if (status)
      assert_int_equal(dp_status_code(status), DP_DATA_LOSS);
    dp_status_release(status);
    data[bit / 8] ^= (char)(1 << bit % 8);
  }
  dp_free(data);
}

/* Wrong lengths: a first block longer than the file, and an unpacked length that is larger than the
 * contents, or larger than so few packed bytes can become. */
static void lengths_are_not_believed(void **state) {
  (void)state;
  static const struct {
    const char *bytes;
    size_t length;
  } files[] = {{"\xff\xff\xff\xff\x10", 5},
               {"\0\0\0\x06\x10", 5},
               {"\0\0\0\x06\xff\xff\xff\xff\x0f\x00", 10},
               {"\0\0\0\x05\xff\xff\xff\xff\xff", 9},
               {"\0\0\0\0", 4},
               {"\0\0\0\x05\x09hell", 9}};
  for (size_t i = 0; i < sizeof files / sizeof *files; ++i) {
    write_bytes(files[i].bytes, files[i].length);
    dp_record_reader *reader = open_records(DP_COMPRESSION_SNAPPY);
    dp_tstring record = {0};
    for (int k = 0; k < 3; ++k) {
      bool more;
      dp_status *status = dp_record_reader_next(reader, &record, &more);
      assert_int_equal(dp_status_code(status), DP_DATA_LOSS);
      assert_non_null(strstr(dp_status_message(status), "a block of Snappy at 0 is damaged"));
      dp_status_release(status);
    }
    dp_tstring_deinit(&record);
    dp_record_reader_close(reader);
  }
}

static int make_path(void **state) {
  (void)state;
  int file = mkstemp(path);
  return file < 0 ? -1 : close(file);
}

static int remove_path(void **state) {
  (void)state;
  return unlink(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_come_back),
      cmocka_unit_test(damage_gives_no_other_records),
      cmocka_unit_test(lengths_are_not_believed),
  };
  return cmocka_run_group_tests(tests, make_path, remove_path);
}
