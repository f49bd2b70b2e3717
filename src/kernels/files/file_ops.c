/* Files, sounds and the time: ReadFile, WriteFile, MatchingFiles (whole files and their names),
 * DecodeWav, EncodeWav (codecs/codec.h), Timestamp. */
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "kernels/codecs/codec.h"
#include "kernels/shared/family.h"
#include "kernels/shared/io.h"
#include "storage/file.h"

/* ---- Files ---- */
static dp_status *read_into(dp_file *file, dp_tstring *to) {
  bool is_sized = file->end > 0; /* files in /proc have no size */
  size_t size = is_sized ? (size_t)file->end : 4096, done = 0, count;
  char *data;
  for (;; size *= 2) {
    DP_RETURN_IF_ERROR(dp_tstring_resize(to, size, &data));
    DP_RETURN_IF_ERROR(dp_file_read(file, done, data + done, size - done, &count));
    done += count;
    if (done < size)
      return dp_tstring_resize(to, done, &data);
    if (is_sized)
      return NULL;
  }
}

static dp_status *read_file(dp_op_context *context, void *state) {
  const dp_tensor *name = dp_op_input(context, 0);
  if (name->shape.rank != 0)
    return DP_INVALID("Input filename tensor must be scalar, but had shape: %s",
                      dp_shape_text(&name->shape));
  char *path;
  DP_RETURN_IF_ERROR(dp_io_path(name, 0, &path));
  char small[DP_FILE_SMALL_BYTES];
  size_t length = 0;
  dp_file *file = NULL;
  dp_status *status = dp_file_read_small(path, small, &length, &file);
  dp_tensor *output;
  if (!status)
    status = dp_op_allocate(context, 0, &name->shape, &output);
  if (!status)
    status = file ? read_into(file, dp_tensor_strings(output))
                  : dp_tstring_assign(dp_tensor_strings(output), small, length);
  dp_file_discard(file);
  dp_free(path);
  return status;
}

/* Writes in place and does not wait for the disk, as TensorFlow does; files that must survive a
 * crash are checkpoints. An existing file is overwritten and then cut to length, not emptied first:
 * freeing its blocks and allocating new ones takes ten times as long as writing. */
static dp_status *write_over(const char *path, dp_view data) {
  dp_file *file;
  DP_RETURN_IF_ERROR(dp_file_open(path, DP_FILE_APPEND, &file));
  dp_status *status = NULL;
  if (file->end > data.length)
    status = dp_file_resize(file, data.length);
  if (!status)
    status = dp_file_write(file, 0, data.data, data.length);
  dp_status_update(&status, dp_file_close(file));
  return status;
}

static dp_status *write_file(dp_op_context *context, void *state) {
  const dp_tensor *name = dp_op_input(context, 0), *contents = dp_op_input(context, 1);
  if (name->shape.rank != 0)
    return DP_INVALID("Input filename tensor must be scalar, but had shape: %s",
                      dp_shape_text(&name->shape));
  if (contents->shape.rank != 0)
    return DP_INVALID("Contents tensor must be scalar, but had shape: %s",
                      dp_shape_text(&contents->shape));
  char *path;
  DP_RETURN_IF_ERROR(dp_io_path(name, 0, &path));
  char *folder = dp_path_folder(path);
  dp_status *status = folder[0] ? dp_path_make_folders(folder) : NULL;
  dp_view data = dp_io_string(contents, 0);
  if (!status)
    status = write_over(path, data);
  dp_free(folder);
  dp_free(path);
  return status;
}

static dp_status *output_names(dp_op_context *context, const dp_name_list *names) {
  dp_shape shape = dp_shape_vector((int64_t)names->count);
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  for (size_t i = 0; i < names->count; ++i)
    DP_RETURN_IF_ERROR(
        dp_tstring_assign(&dp_tensor_strings(output)[i], names->items[i], strlen(names->items[i])));
  return NULL;
}

static int compare_names(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static dp_status *matching_files(dp_op_context *context, void *state) {
  const dp_tensor *patterns = dp_op_input(context, 0);
  if (patterns->shape.rank > 1)
    return DP_INVALID("Input patterns tensor must be scalar or vector, but had shape: %s",
                      dp_shape_text(&patterns->shape));
  dp_io_paths paths;
  DP_RETURN_IF_ERROR(dp_io_paths_init(&paths, patterns));
  dp_name_list all = {0};
  dp_status *status = NULL;
  for (size_t i = 0; i < paths.count && !status; ++i) {
    dp_name_list found = {0};
    status = dp_path_match(paths.items[i], &found);
    for (size_t j = 0; j < found.count; ++j)
      DP_ARRAY_PUSH(&all, found.items[j]);
    DP_ARRAY_FREE(&found);
  }
  if (all.count > 0)
    qsort(all.items, all.count, sizeof(char *), compare_names);
  if (!status)
    status = output_names(context, &all);
  dp_name_list_deinit(&all);
  dp_io_paths_deinit(&paths);
  return status;
}

/* ---- Sounds ---- */
typedef struct wav_state {
  int64_t channels, samples; /* -1: as many as the file has */
} wav_state;

static dp_status *decode_wav_create(const dp_kernel_setup *setup, void *state) {
  wav_state *wav = state;
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "desired_channels", &wav->channels));
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "desired_samples", &wav->samples));
  if (wav->channels < -1 || wav->channels > INT32_MAX || wav->samples < -1 ||
      wav->samples > INT32_MAX)
    return DP_INVALID("desired_channels and desired_samples must be -1 or sizes");
  return NULL;
}

static dp_status *decode_wav(dp_op_context *context, void *state) {
  const wav_state *wanted = state;
  const dp_tensor *contents = dp_op_input(context, 0);
  if (contents->shape.rank != 0)
    return DP_INVALID("contents must be scalar, got shape %s", dp_shape_text(&contents->shape));
  dp_view data = dp_io_string(contents, 0);
  if (data.length > INT32_MAX)
    return DP_INVALID("WAV contents are too large for int: %zu", data.length);
  dp_wav wav;
  DP_RETURN_IF_ERROR(dp_wav_parse(data, &wav));
  int64_t dims[2] = {wanted->samples < 0 ? wav.frames : wanted->samples,
                     wanted->channels < 0 ? wav.channels : wanted->channels};
  dp_shape shape;
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_shape_make(2, dims, &shape));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  float *to = output->data;
  for (int64_t i = 0; i < dims[0]; ++i) {
    for (int64_t j = 0; j < dims[1]; ++j) {
      int64_t channel = j < wav.channels ? j : wav.channels - 1;
      const uint8_t *sample = wav.samples + 2 * (i * wav.channels + channel);
      *to++ =
          i >= wav.frames ? 0.0f : (float)(int16_t)(sample[0] | sample[1] << 8) * (1.0f / 32768.0f);
    }
  }
  return dp_op_output_int32(context, 1, (int32_t)wav.rate);
}

static dp_status *encode_wav(dp_op_context *context, void *state) {
  const dp_tensor *audio = dp_op_input(context, 0), *rate = dp_op_input(context, 1);
  if (audio->shape.rank != 2)
    return DP_INVALID("audio must be 2-dimensional%s", dp_shape_text(&audio->shape));
  if (rate->shape.rank != 0)
    return DP_INVALID("Input sample_rate should be a scalar tensor, got %s instead.",
                      dp_shape_text(&rate->shape));
  if (dp_tensor_elements(audio) >= INT32_MAX)
    return DP_INVALID("Cannot encode audio with >= max int32 elements");
  dp_text wav = {0};
  dp_status *status =
      dp_wav_encode(audio->data, (uint64_t)(int64_t) * (const int32_t *)rate->data,
                    (uint64_t)audio->shape.dims[1], (uint64_t)audio->shape.dims[0], &wav);
  if (!status)
    status = dp_io_output_string(context, 0, wav.data, wav.length);
  dp_text_deinit(&wav);
  return status;
}

/* ---- The time ---- */
static dp_status *timestamp(dp_op_context *context, void *state) {
  dp_shape shape = dp_shape_scalar();
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  *(double *)output->data = (double)(dp_clock_wall_nanos() / 1000) / 1e6;
  return NULL;
}

static const dp_kernel rows[] = {
    {.op = "ReadFile", .flags = DP_KERNEL_BLOCKING, .compute = read_file},
    {.op = "WriteFile", .flags = DP_KERNEL_BLOCKING, .compute = write_file},
    {.op = "MatchingFiles", .flags = DP_KERNEL_BLOCKING, .compute = matching_files},
    {.op = "DecodeWav",
     .state_size = sizeof(wav_state),
     .create = decode_wav_create,
     .compute = decode_wav},
    {.op = "EncodeWav", .compute = encode_wav},
    {.op = "Timestamp", .flags = DP_KERNEL_CHEAP, .compute = timestamp},
};
DP_KERNEL_FAMILY(file_ops, rows);
