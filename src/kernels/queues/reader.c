/* Reader objects (reader_internal.h): the line of runs that wait for the reader, units of work from
 * a queue, counters, and the state that ReaderSerializeState saves. */
#include "kernels/queues/reader_internal.h"

#include "base/memory.h"
#include "kernels/shared/message.h"

/* ---- Taking turns ---- */
static void call_body(void *arg) {
  dp_reader_run *run = arg;
  run->body(run);
}

static void schedule(dp_reader_run *run) {
  if (run->reader->blocking)
    dp_pool_run(run->reader->blocking, call_body, run);
  else
    call_body(run);
}

static dp_status *cancelled(void) {
  return dp_status_create(DP_CANCELLED, "read operation was cancelled");
}

static void end_cancelled(dp_waiter *waiter) {
  dp_reader_run *run = (dp_reader_run *)waiter;
  run->done(run, cancelled());
}

void dp_reader_enter(dp_reader_run *run) {
  dp_reader *reader = run->reader;
  bool fits = true, is_mine = false;
  pthread_mutex_lock(&reader->lock);
  if (reader->is_busy)
    fits = dp_waiters_join(&reader->line, &run->waiter, run->cancel);
  else
    is_mine = reader->is_busy = true;
  pthread_mutex_unlock(&reader->lock);
  if (is_mine)
    schedule(run);
  else if (!fits)
    run->done(run, cancelled());
}

void dp_reader_leave(dp_reader_run *run, dp_status *status) {
  dp_reader *reader = run->reader;
  pthread_mutex_lock(&reader->lock);
  dp_reader_run *next = (dp_reader_run *)reader->line.first;
  if (next)
    dp_waiters_take(&reader->line, &next->waiter);
  else
    reader->is_busy = false;
  pthread_mutex_unlock(&reader->lock);
  if (next) {
    dp_waiter_settle(&next->waiter);
    schedule(next);
  }
  run->done(run, status);
}

/* ---- Reading ---- */
static void count(dp_reader *reader, int64_t *which, int64_t value) {
  pthread_mutex_lock(&reader->lock);
  *which = value;
  pthread_mutex_unlock(&reader->lock);
}

static dp_status *read_one(dp_reader_run *run, bool *found_out) {
  dp_reader *reader = run->reader;
  dp_tstring key = {0}, value = {0};
  dp_status *status = dp_reader_next(&reader->options, &reader->file, &key, &value, found_out);
  if (status || !*found_out) {
    dp_tstring_deinit(&key);
    dp_tstring_deinit(&value);
    return status;
  }
  DP_ARRAY_PUSH(&run->keys, key);
  DP_ARRAY_PUSH(&run->values, value);
  count(reader, &reader->produced, reader->produced + 1);
  return NULL;
}

static void read_on(dp_reader_run *run, bool has_work);

static void begin_work(dp_reader_run *run) {
  dp_reader *reader = run->reader;
  run->body = dp_reader_read;
  dp_status *status = dp_reader_open(&reader->options, &reader->file);
  if (status) {
    dp_reader_leave(run, status);
    return;
  }
  count(reader, &reader->started, reader->started + 1);
  read_on(run, true);
}

static dp_status *take_work(const dp_reader_run *run, const dp_tensor *tuple) {
  if (run->queue->options.component_count != 1)
    return DP_INVALID("Expected single component queue");
  if (tuple[0].dtype != DP_STRING)
    return DP_INVALID("Expected queue with single string component");
  if (tuple[0].shape.elements != 1)
    return DP_INVALID("Expected to dequeue a one-element string tensor");
  dp_view work = dp_tstring_view(dp_tensor_strings(&tuple[0]));
  dp_text_clear(&run->reader->file.work);
  dp_text_append(&run->reader->file.work, work.data, work.length);
  return NULL;
}

/* Comes on the thread that enqueued the element; so the file is opened on the blocking pool. */
static void on_work(void *arg, dp_status *status, dp_tensor *tuple) {
  dp_reader_run *run = arg;
  if (!status)
    status = take_work(run, tuple);
  if (status) {
    dp_reader_leave(run, status);
    return;
  }
  run->body = begin_work;
  schedule(run);
}

/* `has_work` says that a unit of work is open. begin_work passes true instead of comparing the
 * counters, which a restored state may have set. */
static void read_on(dp_reader_run *run, bool has_work) {
  dp_reader *reader = run->reader;
  while ((int64_t)run->keys.count != run->wanted) {
    if (!has_work) {
      if (run->keys.count > 0)
        break;
      dp_queue_dequeue(run->queue, run->cancel, on_work, run);
      return;
    }
    bool found;
    dp_status *status = read_one(run, &found);
    if (status) {
      dp_reader_leave(run, status);
      return;
    }
    if (!found || dp_reader_is_single(&reader->options)) {
      dp_reader_close(&reader->file);
      count(reader, &reader->finished, reader->started);
      has_work = false;
    }
  }
  dp_reader_leave(run, NULL);
}

void dp_reader_read(dp_reader_run *run) {
  read_on(run, run->reader->finished < run->reader->started);
}

/* ---- State ---- */
void dp_reader_reset(dp_reader *reader) {
  dp_reader_close(&reader->file);
  dp_text_clear(&reader->file.work);
  pthread_mutex_lock(&reader->lock);
  reader->started = reader->finished = reader->produced = 0;
  pthread_mutex_unlock(&reader->lock);
}

dp_status *dp_reader_save(const dp_reader *reader, dp_text *state) {
  if (!dp_reader_is_single(&reader->options))
    return dp_status_create(DP_UNIMPLEMENTED, "Reader SerializeState");
  dp_message_add_int(state, 1, reader->started);
  dp_message_add_int(state, 2, reader->finished);
  dp_message_add_int(state, 3, reader->produced);
  if (reader->file.work.length > 0)
    dp_message_add_bytes(state, 4, (dp_view){reader->file.work.data, reader->file.work.length});
  return NULL;
}

static dp_status *restore(dp_reader *reader, dp_view state) {
  dp_message_field field;
  int64_t numbers[4] = {0};
  dp_view rest = state;
  const char *kind = reader->options.kind == DP_READER_WHOLE ? "WholeFileReader" : "IdentityReader";
  dp_text_clear(&reader->file.work);
  while (dp_message_next(&rest, &field)) {
    if (field.number >= 1 && field.number <= 3 && field.type == DP_MESSAGE_VARINT)
      numbers[field.number] = (int64_t)field.value;
    if (field.number == 4 && field.type == DP_MESSAGE_BYTES) {
      dp_text_clear(&reader->file.work);
      dp_text_append(&reader->file.work, field.bytes.data, field.bytes.length);
    }
  }
  if (rest.length > 0) {
    dp_text text = {0};
    dp_text_add_escaped(&text, state.data, state.length);
    dp_status *status = DP_INVALID("Could not parse state for %s '%s': %s", kind, reader->name,
                                   dp_text_string(&text));
    dp_text_deinit(&text);
    return status;
  }
  if (numbers[1] < 0 || numbers[2] < 0 || numbers[3] < 0)
    return DP_INVALID("Unexpected negative value when restoring in %s '%s'", kind, reader->name);
  if (numbers[1] > numbers[2])
    return DP_INVALID("Inconsistent work started vs. finished when restoring in %s '%s'", kind,
                      reader->name);
  pthread_mutex_lock(&reader->lock);
  reader->started = numbers[1];
  reader->finished = numbers[2];
  reader->produced = numbers[3];
  pthread_mutex_unlock(&reader->lock);
  return NULL;
}

dp_status *dp_reader_restore(dp_reader *reader, dp_view state) {
  if (!dp_reader_is_single(&reader->options)) {
    dp_reader_reset(reader);
    return dp_status_create(DP_UNIMPLEMENTED, "Reader RestoreState");
  }
  dp_status *status = restore(reader, state);
  if (status)
    dp_reader_reset(reader);
  return status;
}

/* ---- Life ---- */
static void destroy(dp_resource *resource) {
  dp_reader *reader = (dp_reader *)resource;
  dp_reader_close(&reader->file);
  dp_text_deinit(&reader->file.work);
  dp_text_deinit(&reader->file.ahead);
  pthread_mutex_destroy(&reader->lock);
  dp_free(reader->name);
  dp_free(reader);
}

static void describe(dp_resource *resource, dp_text *text) {
  dp_reader *reader = (dp_reader *)resource;
  pthread_mutex_lock(&reader->lock);
  dp_text_printf(text, "%s, %lld records of %lld units of work", reader->options.op,
                 (long long)reader->produced, (long long)reader->finished);
  if (reader->line.count > 0)
    dp_text_printf(text, ", %lld wait", (long long)reader->line.count);
  pthread_mutex_unlock(&reader->lock);
}

const dp_resource_ops dp_reader_ops = {"N10tensorflow15ReaderInterfaceE", destroy, describe};

dp_reader *dp_reader_create(const char *name, const dp_reader_options *options, dp_pool *blocking) {
  dp_reader *reader = DP_NEW(dp_reader);
  dp_resource_init(&reader->resource, &dp_reader_ops);
  reader->name = dp_strdup(name);
  reader->options = *options;
  reader->blocking = blocking;
  pthread_mutex_init(&reader->lock, NULL);
  reader->line = (dp_waiters){.lock = &reader->lock, .end = end_cancelled};
  return reader;
}
