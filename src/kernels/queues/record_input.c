/* RecordInput: records of all files that match a pattern, epoch after epoch. The order is shuffled
 * twice: the files of each epoch, and the records in a buffer.
 *
 * Each shard of the files has a thread of its own. The first run starts the threads; destroying the
 * kernel joins them. A thread puts records into the buffer and waits while it is full. The last
 * thread to end an epoch waits until the buffer is empty, then begins the next epoch. Runs hold no
 * thread: they wait in a line and are served by whoever changes the buffer. One lock guards
 * everything.
 *
 * Random numbers are drawn as TensorFlow draws them. So with a single shard and a buffer that holds
 * an epoch, the order is TensorFlow's, except for the order before the shuffle: we sort the files
 * that match a pattern, TensorFlow takes them as the folder lists them. */
#include <pthread.h>
#include <string.h>
#include <time.h>
#include "base/checksum.h"
#include "base/memory.h"
#include "kernels/queues/twister_internal.h"
#include "kernels/shared/family.h"
#include "kernels/shared/waiting.h"
#include "runtime/kernel.h"
#include "storage/file.h"
#include "storage/record.h"

/* Records that a shard reads before it moves them to the buffer. */
#define RECORDS_AT_ONCE 16
/* The pause before files are listed again after an epoch without records. */
#define PAUSE_NANOS 50000000

typedef DP_ARRAY(dp_tstring) record_list;
typedef struct record_input record_input;

typedef struct shard {
  record_input *input;
  int32_t index;
  pthread_t thread;
  record_list ahead;  /* read, but not in the buffer yet */
  dp_status *failure; /* the error of this epoch, or NULL */
} shard;

struct record_input {
  char *pattern;
  int64_t seed, batch;
  float shift_ratio;
  uint64_t capacity;
  dp_compression compression;
  shard *shards;
  int32_t shard_count, started; /* shards; threads started so far */
  bool has_lock;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  dp_waiters line;
  /* The fields below are guarded by the lock; `files` does not change while shards read. */
  dp_twister places;
  record_list buffer;
  dp_name_list files;
  int64_t epoch;
  int32_t ended; /* shards that have ended this epoch */
  bool is_draining, is_empty_epoch, stops;
  dp_status *failure;
};

typedef struct record_run {
  dp_waiter waiter; /* must be first */
  dp_op_context *context;
  dp_tensor *output;
  int64_t filled;
  dp_status *status;
} record_run;

static void free_records(record_list *list) {
  for (size_t i = 0; i < list->count; ++i)
    dp_tstring_deinit(&list->items[i]);
  DP_ARRAY_FREE(list);
}

/* ---- Runs ---- */
static void end_run(void *arg) {
  record_run *run = arg;
  dp_op_context *context = run->context;
  dp_status *status = run->status;
  dp_free(run);
  dp_op_done(context, status);
}

static void end_cancelled(dp_waiter *waiter) {
  record_run *run = (record_run *)waiter;
  run->status = dp_cancel_status(run->context->step->cancel);
  end_run(run);
}

static bool has_enough(const record_input *input) {
  uint64_t wanted = input->is_draining ? 1 : input->capacity / 2;
  return input->buffer.count >= (wanted > 1 ? wanted : 1);
}

/* With the lock held: gives records to waiting runs. Runs that have all they want go to `ended`. */
static void serve(record_input *input, dp_waiters *ended) {
  record_run *run;
  while ((run = (record_run *)input->line.first)) {
    if (run->filled < input->batch && !input->failure) {
      if (!has_enough(input))
        break;
      dp_tstring *to = &dp_tensor_strings(run->output)[run->filled++];
      *to = input->buffer.items[--input->buffer.count];
      pthread_cond_broadcast(&input->changed);
      continue;
    }
    run->status = run->filled < input->batch ? dp_status_retain(input->failure) : NULL;
    dp_waiters_take(&input->line, &run->waiter);
    dp_waiters_collect(ended, &run->waiter);
  }
}

/* Without the lock held. A shard's thread must not end runs itself (`elsewhere`), because what
 * follows a run may destroy the kernel, which joins the thread. */
static void end_all(dp_waiters *ended, bool elsewhere) {
  while (ended->first) {
    record_run *run = (record_run *)ended->first;
    dp_waiters_take(ended, &run->waiter);
    dp_waiter_settle(&run->waiter);
    if (elsewhere)
      dp_pool_run(run->context->step->pool, end_run, run);
    else
      end_run(run);
  }
}

/* Releases the lock meanwhile. */
static void serve_from_shard(record_input *input) {
  dp_waiters ended = {0};
  serve(input, &ended);
  if (!ended.first)
    return;
  pthread_mutex_unlock(&input->lock);
  end_all(&ended, true);
  pthread_mutex_lock(&input->lock);
}

/* ---- Records into the buffer ---- */
static bool is_full(const record_input *input) {
  return !input->stops && input->buffer.count >= input->capacity;
}

/* Puts the record at a random position; the record that was there moves to the end. */
static void insert(record_input *input, dp_tstring record) {
  size_t count = input->buffer.count;
  size_t at = (size_t)(dp_twister_next(&input->places) % (count + 1));
  DP_ARRAY_PUSH(&input->buffer, record);
  input->buffer.items[count] = input->buffer.items[at];
  input->buffer.items[at] = record;
  input->is_empty_epoch = false;
}

/* Waits for room, then moves as many records as fit. False: stop. */
static bool bring(shard *shard) {
  record_input *input = shard->input;
  record_list *ahead = &shard->ahead;
  pthread_mutex_lock(&input->lock);
  while (is_full(input))
    pthread_cond_wait(&input->changed, &input->lock);
  while (ahead->count > 0 && !is_full(input))
    insert(input, ahead->items[--ahead->count]);
  bool goes_on = !input->stops;
  serve_from_shard(input);
  pthread_mutex_unlock(&input->lock);
  return goes_on;
}

static dp_status *read_records(shard *shard, dp_record_reader *reader) {
  for (bool more = true;;) {
    dp_tstring record = {0};
    dp_status *status = dp_record_reader_next(reader, &record, &more);
    if (status || !more) {
      dp_tstring_deinit(&record);
      return status;
    }
    DP_ARRAY_PUSH(&shard->ahead, record);
    if (shard->ahead.count >= RECORDS_AT_ONCE && !bring(shard))
      return dp_status_create(DP_ABORTED, "stopped");
  }
}

static dp_status *open_file(const shard *shard, const char *path, dp_record_reader **reader_out) {
  dp_status *status =
      dp_record_reader_open(path, shard->input->compression, DP_STREAM_BUFFER, reader_out);
  if (!status || dp_status_code(status) == DP_FAILED_PRECONDITION) /* the path is a folder */
    return status;
  dp_status_release(status);
  return DP_INVALID("Can't open %s", path);
}

/* An error in a file is reported at the end of the epoch; the files after it are still read. */
static void read_files(shard *shard) {
  const dp_name_list *files = &shard->input->files;
  for (size_t i = (size_t)shard->index; i < files->count; i += (size_t)shard->input->shard_count) {
    dp_record_reader *reader = NULL;
    dp_status *status = open_file(shard, files->items[i], &reader);
    bool is_open = !status;
    if (is_open)
      status = read_records(shard, reader);
    dp_record_reader_close(reader);
    if (status) {
      dp_status_release(shard->failure);
      shard->failure = status;
    }
    if (!is_open)
      break;
  }
  while (shard->ahead.count > 0)
    (void)bring(shard);
}

/* ---- Epochs ---- */
/* Sorted within each pattern, one pattern after the other. */
static dp_status *match_one(const char *pattern, dp_name_list *files) {
  dp_name_list found = {0};
  dp_status *status = dp_path_match(pattern, &found);
  for (size_t i = 0; i < found.count; ++i)
    DP_ARRAY_PUSH(files, found.items[i]);
  DP_ARRAY_FREE(&found);
  return status;
}

static dp_status *match_files(const char *patterns, dp_name_list *files) {
  dp_status *status = NULL;
  for (const char *at = patterns; at && !status;) {
    const char *comma = strchr(at, ',');
    char *pattern = comma ? dp_strndup(at, (size_t)(comma - at)) : dp_strdup(at);
    status = match_one(pattern, files);
    dp_free(pattern);
    at = comma ? comma + 1 : NULL;
  }
  if (!status && files->count == 0)
    status = dp_status_create(DP_NOT_FOUND, "Found no files at %s", patterns);
  return status;
}

static void rotate(dp_name_list *files, size_t by) {
  if (by == 0)
    return;
  size_t rest = files->count - by;
  char **head = DP_NEW_ARRAY(char *, by);
  memcpy(head, files->items, by * sizeof *head);
  memmove(files->items, files->items + by, rest * sizeof *head);
  memcpy(files->items + rest, head, by * sizeof *head);
  dp_free(head);
}

/* No shard reads now, so the lock is released while the files are listed. */
static void begin_epoch(record_input *input) {
  int64_t epoch = input->epoch + 1;
  pthread_mutex_unlock(&input->lock);
  dp_name_list_deinit(&input->files);
  dp_status *failure = match_files(input->pattern, &input->files);
  dp_twister order;
  dp_twister_init(&order, dp_hash64(&epoch, sizeof epoch, (uint64_t)input->seed));
  dp_twister_shuffle(&order, (void **)input->files.items, input->files.count);
  if (input->shift_ratio >= 0 && input->shift_ratio < 1)
    rotate(&input->files, (size_t)(input->shift_ratio * (float)input->files.count));
  pthread_mutex_lock(&input->lock);
  input->failure = failure;
  input->ended = 0;
  input->is_empty_epoch = true;
  input->epoch = epoch;
  pthread_cond_broadcast(&input->changed);
}

static void pause_briefly(record_input *input) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += PAUSE_NANOS;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  if (!input->stops)
    pthread_cond_timedwait(&input->changed, &input->lock, &until);
}

static void take_failures(record_input *input) {
  for (int32_t i = 0; i < input->shard_count; ++i) {
    if (input->shards[i].failure)
      dp_status_update(&input->failure, input->shards[i].failure);
    input->shards[i].failure = NULL;
  }
}

/* Called by the last shard of an epoch. */
static void end_epoch(record_input *input) {
  take_failures(input);
  if (input->failure || input->stops)
    return;
  input->is_draining = true;
  serve_from_shard(input);
  while (input->buffer.count > 0 && !input->stops)
    pthread_cond_wait(&input->changed, &input->lock);
  input->is_draining = false;
  if (input->is_empty_epoch)
    pause_briefly(input);
  if (!input->stops)
    begin_epoch(input);
}

static void *shard_main(void *arg) {
  shard *shard = arg;
  record_input *input = shard->input;
  pthread_mutex_lock(&input->lock);
  for (int64_t epoch = 1; !input->stops; ++epoch) {
    if (epoch == 1 && shard->index == 0)
      begin_epoch(input);
    while (input->epoch < epoch && !input->stops && !input->failure)
      pthread_cond_wait(&input->changed, &input->lock);
    if (input->stops || input->failure)
      break;
    pthread_mutex_unlock(&input->lock);
    read_files(shard);
    pthread_mutex_lock(&input->lock);
    if (++input->ended == input->shard_count)
      end_epoch(input);
  }
  pthread_cond_broadcast(&input->changed);
  serve_from_shard(input);
  pthread_mutex_unlock(&input->lock);
  return NULL;
}

/* ---- The kernel ---- */
static dp_status *read_attributes(record_input *input, const dp_node *node, int64_t *shards_out) {
  dp_view pattern, compression;
  int64_t capacity;
  DP_RETURN_IF_ERROR(dp_node_get_string(node, "file_pattern", &pattern));
  DP_RETURN_IF_ERROR(dp_node_get_int(node, "file_random_seed", &input->seed));
  DP_RETURN_IF_ERROR(dp_node_get_float(node, "file_shuffle_shift_ratio", &input->shift_ratio));
  DP_RETURN_IF_ERROR(dp_node_get_int(node, "file_buffer_size", &capacity));
  DP_RETURN_IF_ERROR(dp_node_get_int(node, "file_parallelism", shards_out));
  DP_RETURN_IF_ERROR(dp_node_get_int(node, "batch_size", &input->batch));
  DP_RETURN_IF_ERROR(dp_node_get_string(node, "compression_type", &compression));
  input->pattern = dp_strndup(pattern.data, pattern.length);
  input->capacity = (uint64_t)capacity;
  if (!dp_record_compression_parse(compression, &input->compression))
    input->compression = DP_COMPRESSION_NONE; /* as TensorFlow, which only logs it */
  return NULL;
}

static dp_status *create(const dp_kernel_setup *setup, void *memory) {
  record_input *input = memory;
  int64_t shards;
  DP_RETURN_IF_ERROR(read_attributes(input, setup->node, &shards));
  if (shards < 0)
    return DP_INVALID("file_parallelism should >= 0, got %lld", (long long)shards);
  if (input->batch < 0)
    return DP_INVALID("batch_size must be non-negative but got %lld", (long long)input->batch);
  if (shards > INT16_MAX)
    return DP_INVALID("file_parallelism may be %d at most, got %lld", INT16_MAX, (long long)shards);
  input->shard_count = (int32_t)shards;
  input->shards = DP_NEW_ARRAY(shard, (size_t)shards + 1);
  for (int32_t i = 0; i < input->shard_count; ++i)
    input->shards[i] = (shard){.input = input, .index = i};
  dp_twister_init(&input->places, (uint64_t)input->seed);
  pthread_mutex_init(&input->lock, NULL);
  pthread_cond_init(&input->changed, NULL);
  input->line = (dp_waiters){.lock = &input->lock, .end = end_cancelled};
  input->has_lock = true;
  return NULL;
}

static void destroy(void *memory) {
  record_input *input = memory;
  if (input->has_lock) {
    pthread_mutex_lock(&input->lock);
    input->stops = true;
    pthread_cond_broadcast(&input->changed);
    pthread_mutex_unlock(&input->lock);
    for (int32_t i = 0; i < input->started; ++i)
      pthread_join(input->shards[i].thread, NULL);
    pthread_mutex_destroy(&input->lock);
    pthread_cond_destroy(&input->changed);
  }
  for (int32_t i = 0; input->shards && i < input->shard_count; ++i) {
    free_records(&input->shards[i].ahead);
    dp_status_release(input->shards[i].failure);
  }
  dp_free(input->shards);
  free_records(&input->buffer);
  dp_name_list_deinit(&input->files);
  dp_status_release(input->failure);
  dp_free(input->pattern);
}

/* With the lock held. If a thread cannot be started, the next run tries again. */
static dp_status *start_threads(record_input *input) {
  for (; input->started < input->shard_count; ++input->started) {
    shard *shard = &input->shards[input->started];
    int number = pthread_create(&shard->thread, NULL, shard_main, shard);
    if (number != 0)
      return dp_status_from_errno(number, "a thread for RecordInput");
  }
  return NULL;
}

static void compute(dp_op_context *context, void *memory) {
  record_input *input = memory;
  dp_shape shape = dp_shape_vector(input->batch);
  dp_tensor *output;
  dp_status *status = dp_op_allocate(context, 0, &shape, &output);
  if (status) {
    dp_op_done(context, status);
    return;
  }
  record_run *run = DP_NEW(record_run);
  *run = (record_run){.context = context, .output = output};
  dp_waiters ended = {0};
  pthread_mutex_lock(&input->lock);
  status = start_threads(input);
  if (!status && !dp_waiters_join(&input->line, &run->waiter, context->step->cancel))
    status = dp_cancel_status(context->step->cancel);
  if (!status)
    serve(input, &ended);
  pthread_mutex_unlock(&input->lock);
  if (status) {
    run->status = status;
    end_run(run);
  }
  end_all(&ended, false);
}

static const dp_kernel rows[] = {
    {.op = "RecordInput",
     .state_size = sizeof(record_input),
     .create = create,
     .compute_async = compute,
     .destroy = destroy},
};
DP_KERNEL_FAMILY(record_input, rows);
