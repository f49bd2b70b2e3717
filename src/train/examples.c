/* Batches of examples from memory. Without a seed they come in the order of the file, again and
 * again. With a seed they are shuffled (Fisher-Yates, numbers from splitmix64), and shuffled again
 * each time all have been given out: the same seed gives the same batches. The caller owns the
 * examples and the tensors; one thread at a time. */
#include <string.h>

#include "train/examples_internal.h"

dp_examples *dp_train_examples_finish(dp_examples *examples, dp_status *error, TF_Status *status) {
  if (!error && examples->count == 0)
    error = DP_INVALID("there are no examples");
  TF_SetStatus(status, (TF_Code)dp_status_code(error), dp_status_message(error));
  if (error)
    dp_examples_destroy(examples);
  dp_status_release(error);
  return TF_GetCode(status) == TF_OK ? examples : NULL;
}

void dp_examples_destroy(dp_examples *examples) {
  if (!examples)
    return;
  for (int64_t i = 0; examples->strings && i < examples->count; i++)
    dp_text_deinit(&examples->strings[i]);
  dp_free(examples->strings);
  dp_free(examples->numbers);
  dp_free(examples->bytes);
  dp_free(examples->y);
  dp_free(examples->order);
  dp_free(examples);
}

int64_t dp_examples_count(const dp_examples *examples) {
  return examples->count;
}

/* splitmix64 */
static uint64_t next_random(uint64_t *state) {
  uint64_t z = (*state += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

static void draw_order(dp_examples *examples) {
  for (int64_t i = examples->count - 1; i > 0; i--) {
    int64_t other = (int64_t)(next_random(&examples->seed) % (uint64_t)(i + 1));
    int64_t kept = examples->order[i];
    examples->order[i] = examples->order[other];
    examples->order[other] = kept;
  }
}

void dp_examples_shuffle(dp_examples *examples, uint64_t seed) {
  examples->seed = seed;
  examples->at = 0;
  dp_free(examples->order);
  examples->order = NULL;
  if (seed == 0)
    return;
  examples->order = DP_NEW_ARRAY(int64_t, examples->count);
  for (int64_t i = 0; i < examples->count; i++)
    examples->order[i] = i;
  draw_order(examples);
}

static int64_t next_example(dp_examples *examples) {
  if (examples->at == examples->count) {
    examples->at = 0;
    if (examples->order)
      draw_order(examples);
  }
  int64_t i = examples->at++;
  return examples->order ? examples->order[i] : i;
}

static void copy_example(const dp_examples *examples, int64_t from, void *x, int64_t to) {
  float *numbers = (float *)x + to * examples->row;
  if (examples->strings) {
    TF_TString *string = (TF_TString *)x + to;
    TF_StringInit(string);
    TF_StringCopy(string, dp_text_string(&examples->strings[from]), examples->strings[from].length);
  } else if (examples->bytes) {
    const uint8_t *bytes = examples->bytes + from * examples->row;
    for (int64_t i = 0; i < examples->row; i++)
      numbers[i] = (float)bytes[i] / 255.0f;
  } else {
    memcpy(numbers, examples->numbers + from * examples->row,
           (size_t)examples->row * sizeof(float));
  }
}

static void end_strings(void *data, size_t length, void *arg) {
  for (size_t i = 0; i < length / sizeof(TF_TString); i++)
    TF_StringDealloc((TF_TString *)data + i);
  dp_free(data);
}

/* A tensor for a batch. The strings in it are freed with it. */
static TF_Tensor *allocate_batch(const dp_examples *examples, int64_t size) {
  int64_t dims[EXAMPLE_DIMS + 1] = {size};
  int count = examples->dim_count;
  if (examples->strings) {
    size_t bytes = (size_t)size * sizeof(TF_TString);
    return TF_NewTensor(TF_STRING, dims, 1, dp_calloc((size_t)size + 1, sizeof(TF_TString)), bytes,
                        end_strings, NULL);
  }
  memcpy(dims + 1, examples->dims, (size_t)count * sizeof(int64_t));
  return TF_AllocateTensor(TF_FLOAT, dims, count + 1,
                           (size_t)(size * examples->row) * sizeof(float));
}

void dp_examples_batch(dp_examples *examples, int64_t size, TF_Tensor **x_out, TF_Tensor **y_out) {
  TF_Tensor *x = allocate_batch(examples, size);
  TF_Tensor *y = TF_AllocateTensor(examples->y_dtype, &size, 1, (size_t)size * 4);
  for (int64_t i = 0; i < size; i++) {
    int64_t from = next_example(examples);
    copy_example(examples, from, TF_TensorData(x), i);
    memcpy((char *)TF_TensorData(y) + i * 4, (char *)examples->y + from * 4, 4);
  }
  *x_out = x;
  *y_out = y;
}
