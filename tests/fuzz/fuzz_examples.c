/* Fuzzes the readers of training data: IDX, CIFAR-10, CSV and TFRecord. The first byte chooses the
 * reader, the next two are the length of the first of two files. Data that is accepted must give
 * batches. */
#include <downpour_train.h>
#include <stdlib.h>
#include "base/checksum.h"
#include "memory_files.h"
#include "storage/table_internal.h"

enum { HEAD = 3, READERS = 8, BATCH = 3 };

/* Writes records with correct checksums, which no fuzzer guesses. The input is a sequence of one
 * byte of length, modulo 32, and that many bytes. */
static void write_records(dp_view input, dp_text *file) {
  for (size_t at = 0; at < input.length; ++at) {
    size_t length = (uint8_t)input.data[at] % 32;
    if (length > input.length - at - 1)
      length = input.length - at - 1;
    uint8_t head[12], foot[4];
    dp_put_fixed64(head, length);
    dp_put_fixed32(head + 8, dp_crc32c_mask(dp_crc32c(head, 8)));
    dp_put_fixed32(foot, dp_crc32c_mask(dp_crc32c(input.data + at + 1, length)));
    dp_text_append(file, head, sizeof head);
    dp_text_append(file, input.data + at + 1, length);
    dp_text_append(file, foot, sizeof foot);
    at += length;
  }
}

static dp_examples *read_files(int reader, TF_Status *status) {
  const char *paths[] = {"mem://a", "mem://b"};
  switch (reader) {
  case 0:
    return dp_examples_idx("mem://a", "mem://b", status);
  case 1:
    return dp_examples_idx("mem://a.gz", "mem://b", status);
  case 2:
    return dp_examples_cifar((dp_strings){paths, 2}, status);
  case 3:
    return dp_examples_csv("mem://a", status);
  case 4:
    return dp_examples_records("mem://a", "ZLIB", status);
  case 5:
    return dp_examples_records("mem://a.gz", "GZIP", status);
  default:
    return dp_examples_records("mem://a", "", status);
  }
}

static void take_batches(dp_examples *examples) {
  dp_examples_shuffle(examples, 1);
  for (int i = 0; i < 2; ++i) {
    TF_Tensor *x, *y;
    dp_examples_batch(examples, BATCH, &x, &y);
    if (TF_Dim(x, 0) != BATCH || TF_Dim(y, 0) != BATCH)
      abort();
    TF_DeleteTensor(x);
    TF_DeleteTensor(y);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < HEAD)
    return 0;
  int reader = data[0] % READERS;
  size_t length = data[1] | (size_t)data[2] << 8;
  dp_view all = {(const char *)data + HEAD, size - HEAD};
  if (length > all.length)
    length = all.length;
  dp_view first = {all.data, length}, second = {all.data + length, all.length - length};
  dp_text records = {0};
  if (reader == READERS - 1) {
    write_records(all, &records);
    first = (dp_view){dp_text_string(&records), records.length};
  }
  memory_file_set("mem://a", first);
  memory_file_set("mem://a.gz", first);
  memory_file_set("mem://b", second);
  TF_Status *status = TF_NewStatus();
  dp_examples *examples = read_files(reader, status);
  if ((examples != NULL) != (TF_GetCode(status) == TF_OK))
    abort();
  if (examples)
    take_batches(examples);
  dp_examples_destroy(examples);
  TF_DeleteStatus(status);
  dp_text_deinit(&records);
  return 0;
}
