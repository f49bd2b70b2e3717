/* Summary writers: resources that append summaries to an events file, for the ops behind
 * tf.contrib.summary and tf.summary (version 2). Events are buffered in the writer. They are
 * flushed when there are more than max_queue of them, after flush_millis, or on request. */
#include <pthread.h>
#include <string.h>
#include "base/clock.h"
#include "kernels/shared/family.h"
#include "kernels/shared/io.h"
#include "kernels/summary/summary_internal.h"
#include "storage/events.h"
#include "storage/file.h"
#include "wire/control.h"

typedef struct summary_writer {
  dp_resource resource;
  pthread_mutex_t lock; /* for the counters */
  dp_events_writer *events;
  int64_t most_waiting, flush_nanos;
  int64_t waiting, last_flush;
} summary_writer;

static void writer_destroy(dp_resource *resource) {
  summary_writer *writer = (summary_writer *)resource;
  if (writer->events)
    dp_status_release(dp_events_writer_destroy(writer->events));
  pthread_mutex_destroy(&writer->lock);
  dp_free(writer);
}

static void writer_describe(dp_resource *resource, dp_text *text) {
  dp_text_printf(text, "summaries to %s",
                 dp_events_writer_path(((summary_writer *)resource)->events));
}

static const dp_resource_ops writer_ops = {"N10tensorflow22SummaryWriterInterfaceE", writer_destroy,
                                           writer_describe};

/* ---- The handle ---- */
static dp_status *handle_create(const dp_kernel_setup *setup, void *state) {
  return dp_resource_name_init(state, setup, true);
}

static void handle_destroy(void *state) {
  dp_resource_name_deinit(state);
}

static dp_status *handle_compute(dp_op_context *context, void *state) {
  const dp_resource_name *name = state;
  dp_shape shape = dp_shape_scalar();
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  dp_tensor_handles(output)[0] =
      dp_resource_make_handle(context->device->name, name->container, name->name, &writer_ops);
  return NULL;
}

/* ---- Making and ending ---- */
typedef struct making {
  const char *folder, *suffix;
  int32_t most_waiting, flush_millis;
} making;

static dp_status *make_writer(void *arg, dp_resource **resource_out) {
  const making *making = arg;
  DP_RETURN_IF_ERROR(dp_path_make_folders(making->folder));
  dp_text prefix = {0};
  size_t length = strlen(making->folder);
  dp_text_printf(&prefix, "%s%sevents", making->folder,
                 length == 0 || making->folder[length - 1] == '/' ? "" : "/");
  summary_writer *writer = DP_NEW(summary_writer);
  dp_resource_init(&writer->resource, &writer_ops);
  pthread_mutex_init(&writer->lock, NULL);
  writer->most_waiting = making->most_waiting;
  writer->flush_nanos = (int64_t)making->flush_millis * 1000000;
  writer->last_flush = dp_clock_nanos();
  dp_status *status =
      dp_events_writer_create(dp_text_string(&prefix), making->suffix, &writer->events);
  dp_text_deinit(&prefix);
  if (status) {
    dp_resource_release(writer);
    return dp_status_annotate(status, "Could not initialize events writer.");
  }
  *resource_out = &writer->resource;
  return NULL;
}

static const dp_resource_handle *handle_of(const dp_op_context *context) {
  return dp_tensor_handles(dp_op_input(context, 0))[0];
}

static dp_status *file_writer_compute(dp_op_context *context, void *state) {
  static const char *const names[] = {"writer", "logdir", "max_queue", "flush_millis",
                                      "filename_suffix"};
  for (int32_t i = 1; i < 5; ++i)
    if (dp_op_input(context, i)->shape.rank != 0)
      return DP_INVALID("%s must be a scalar", names[i]);
  char *folder = NULL, *suffix = NULL;
  dp_status *status = dp_io_path(dp_op_input(context, 1), 0, &folder);
  if (!status)
    status = dp_io_path(dp_op_input(context, 4), 0, &suffix);
  if (!status) {
    making making = {folder, suffix, *(const int32_t *)dp_op_input(context, 2)->data,
                     *(const int32_t *)dp_op_input(context, 3)->data};
    const dp_resource_handle *handle = handle_of(context);
    dp_resource *resource = NULL;
    status =
        dp_resources_find_or_create(context->device->resources, handle->container, handle->name,
                                    &writer_ops, make_writer, &making, &resource);
    dp_resource_release(resource);
  }
  dp_free(folder);
  dp_free(suffix);
  return status;
}

static dp_status *flush(summary_writer *writer) {
  pthread_mutex_lock(&writer->lock);
  writer->waiting = 0;
  writer->last_flush = dp_clock_nanos();
  pthread_mutex_unlock(&writer->lock);
  dp_status *status = dp_events_writer_flush(writer->events);
  return status ? dp_status_annotate(status, "Could not flush events file.") : NULL;
}

static dp_status *find_writer(dp_op_context *context, summary_writer **writer_out) {
  return dp_op_resource(context, 0, &writer_ops, (dp_resource **)writer_out);
}

static dp_status *flush_compute(dp_op_context *context, void *state) {
  summary_writer *writer;
  DP_RETURN_IF_ERROR(find_writer(context, &writer));
  dp_status *status = flush(writer);
  dp_resource_release(writer);
  return status;
}

static dp_status *close_compute(dp_op_context *context, void *state) {
  const dp_resource_handle *handle = handle_of(context);
  return dp_resources_remove(context->device->resources, handle->container, handle->name,
                             writer_ops.type_name);
}

/* ---- Writing ---- */
static dp_status *write_event(summary_writer *writer, const Tensorflow__Event *event) {
  DP_RETURN_IF_ERROR(dp_events_writer_add(writer->events, event));
  pthread_mutex_lock(&writer->lock);
  bool is_time = ++writer->waiting > writer->most_waiting ||
                 dp_clock_nanos() - writer->last_flush > writer->flush_nanos;
  pthread_mutex_unlock(&writer->lock);
  return is_time ? flush(writer) : NULL;
}

static Tensorflow__Event new_event(int64_t step) {
  Tensorflow__Event event = TENSORFLOW__EVENT__INIT;
  event.step = step;
  event.wall_time = (double)(dp_clock_wall_nanos() / 1000) / 1e6;
  return event;
}

static dp_status *write_summary(summary_writer *writer, int64_t step, const dp_summary *summary) {
  Tensorflow__Summary message = dp_summary_message(summary);
  Tensorflow__Event event = new_event(step);
  event.what_case = TENSORFLOW__EVENT__WHAT_SUMMARY;
  event.summary = &message;
  return write_event(writer, &event);
}

/* The writing ops differ only in how they fill the summary. */
typedef struct write_state {
  int32_t most;
} write_state;
typedef dp_status *(*fill_fn)(dp_op_context *context, const write_state *state,
                              dp_summary *summary);

static dp_status *expect_scalar(const dp_op_context *context, int32_t slot, const char *name) {
  if (dp_op_input(context, slot)->shape.rank != 0)
    return DP_INVALID("%s must be scalar, got shape %s", name,
                      dp_shape_text(&dp_op_input(context, slot)->shape));
  return NULL;
}

static dp_status *write_filled(dp_op_context *context, const void *state, fill_fn fill) {
  summary_writer *writer;
  DP_RETURN_IF_ERROR(find_writer(context, &writer));
  dp_summary summary;
  dp_summary_init(&summary);
  dp_status *status = expect_scalar(context, 1, "step");
  if (!status)
    status = fill(context, state, &summary);
  if (!status)
    status = write_summary(writer, *(const int64_t *)dp_op_input(context, 1)->data, &summary);
  dp_summary_deinit(&summary);
  dp_resource_release(writer);
  return status;
}

static dp_status *fill_tensor(dp_op_context *context, const write_state *state,
                              dp_summary *summary) {
  DP_RETURN_IF_ERROR(expect_scalar(context, 3, "tag"));
  DP_RETURN_IF_ERROR(expect_scalar(context, 4, "summary_metadata"));
  return dp_summary_add_tensor(summary, dp_io_string(dp_op_input(context, 3), 0),
                               dp_op_input(context, 2), dp_io_string(dp_op_input(context, 4), 0));
}

static dp_status *write_tensor_compute(dp_op_context *context, void *state) {
  return write_filled(context, state, fill_tensor);
}

static dp_status *fill_scalar(dp_op_context *context, const write_state *state,
                              dp_summary *summary) {
  DP_RETURN_IF_ERROR(expect_scalar(context, 2, "tag"));
  const dp_tensor *number = dp_op_input(context, 3);
  double value;
  if (dp_tensor_elements(number) < 1)
    return DP_INVALID("value must be scalar, got shape %s", dp_shape_text(&number->shape));
  DP_RETURN_IF_ERROR(dp_summary_number(number, 0, &value));
  Tensorflow__Summary__Value *added =
      dp_summary_add(summary, dp_io_string(dp_op_input(context, 2), 0));
  added->value_case = TENSORFLOW__SUMMARY__VALUE__VALUE_SIMPLE_VALUE;
  added->simple_value = (float)value;
  return NULL;
}

static dp_status *write_scalar_compute(dp_op_context *context, void *state) {
  return write_filled(context, state, fill_scalar);
}

static dp_status *fill_histogram(dp_op_context *context, const write_state *state,
                                 dp_summary *summary) {
  DP_RETURN_IF_ERROR(expect_scalar(context, 2, "tag"));
  dp_view tag = dp_io_string(dp_op_input(context, 2), 0);
  dp_histogram_words words = {"summary histogram",
                              dp_arena_strndup(summary->arena, tag.data, tag.length)};
  return dp_summary_add_histogram(summary, tag, dp_op_input(context, 3), words);
}

static dp_status *write_histogram_compute(dp_op_context *context, void *state) {
  return write_filled(context, state, fill_histogram);
}

static dp_status *fill_images(dp_op_context *context, const write_state *state,
                              dp_summary *summary) {
  DP_RETURN_IF_ERROR(expect_scalar(context, 2, "tag"));
  if (dp_op_input(context, 4)->shape.rank != 1)
    return DP_INVALID("bad_color must be a vector, got shape %s",
                      dp_shape_text(&dp_op_input(context, 4)->shape));
  return dp_summary_add_images(summary, dp_io_string(dp_op_input(context, 2), 0),
                               dp_op_input(context, 3), state->most, dp_op_input(context, 4));
}

static dp_status *write_image_compute(dp_op_context *context, void *state) {
  return write_filled(context, state, fill_images);
}

static dp_status *fill_audio(dp_op_context *context, const write_state *state,
                             dp_summary *summary) {
  DP_RETURN_IF_ERROR(expect_scalar(context, 2, "tag"));
  DP_RETURN_IF_ERROR(expect_scalar(context, 4, "sample_rate"));
  const dp_tensor *sounds = dp_op_input(context, 3);
  if (sounds->shape.rank != 2 && sounds->shape.rank != 3)
    return DP_INVALID("Tensor must be 3-D or 2-D, got: %s", dp_shape_text(&sounds->shape));
  return dp_summary_add_audio(summary, dp_io_string(dp_op_input(context, 2), 0), sounds,
                              state->most, *(const float *)dp_op_input(context, 4)->data);
}

static dp_status *write_audio_compute(dp_op_context *context, void *state) {
  return write_filled(context, state, fill_audio);
}

static dp_status *fill_raw(dp_op_context *context, const write_state *state, dp_summary *summary) {
  const dp_tensor *messages = dp_op_input(context, 2);
  for (int64_t i = 0; i < dp_tensor_elements(messages); ++i) {
    dp_status *status = dp_summary_add_bytes(summary, dp_io_string(messages, i));
    if (status) {
      dp_status_release(status);
      return dp_status_create(DP_DATA_LOSS,
                              "Bad tf.compat.v1.Summary binary proto tensor string at index %lld",
                              (long long)i);
    }
  }
  return NULL;
}

static dp_status *write_raw_compute(dp_op_context *context, void *state) {
  return write_filled(context, state, fill_raw);
}

static dp_status *write_graph_compute(dp_op_context *context, void *state) {
  DP_RETURN_IF_ERROR(expect_scalar(context, 1, "step"));
  DP_RETURN_IF_ERROR(expect_scalar(context, 2, "tensor"));
  summary_writer *writer;
  DP_RETURN_IF_ERROR(find_writer(context, &writer));
  dp_view bytes = dp_io_string(dp_op_input(context, 2), 0);
  dp_arena *arena = dp_arena_create();
  Tensorflow__GraphDef *graph;
  dp_status *status = dp_wire_unpack_bytes(&tensorflow__graph_def__descriptor, bytes.data,
                                           bytes.length, arena, &graph);
  dp_arena_destroy(arena);
  if (status) {
    dp_status_release(status);
    status = dp_status_create(DP_DATA_LOSS, "Bad tf.GraphDef binary proto tensor string");
  } else {
    Tensorflow__Event event = new_event(*(const int64_t *)dp_op_input(context, 1)->data);
    event.what_case = TENSORFLOW__EVENT__WHAT_GRAPH_DEF;
    event.graph_def = (ProtobufCBinaryData){bytes.length, (uint8_t *)bytes.data};
    status = write_event(writer, &event);
  }
  dp_resource_release(writer);
  return status;
}

static dp_status *import_compute(dp_op_context *context, void *state) {
  DP_RETURN_IF_ERROR(expect_scalar(context, 1, "event"));
  summary_writer *writer;
  DP_RETURN_IF_ERROR(find_writer(context, &writer));
  dp_view bytes = dp_io_string(dp_op_input(context, 1), 0);
  dp_arena *arena = dp_arena_create();
  Tensorflow__Event *event;
  dp_status *status =
      dp_wire_unpack_bytes(&tensorflow__event__descriptor, bytes.data, bytes.length, arena, &event);
  if (status) {
    dp_status_release(status);
    status = dp_status_create(DP_DATA_LOSS, "Bad tf.Event binary proto tensor string");
  } else {
    status = write_event(writer, event);
  }
  dp_arena_destroy(arena);
  dp_resource_release(writer);
  return status;
}

/* ---- States ---- */
static dp_status *most_create(const dp_kernel_setup *setup, const char *attr, void *state) {
  int64_t most;
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, attr, &most));
  if (most >= (1LL << 31))
    return DP_INVALID("%s must be < 2^31", attr);
  ((write_state *)state)->most = (int32_t)most;
  return NULL;
}

static dp_status *image_create(const dp_kernel_setup *setup, void *state) {
  return most_create(setup, "max_images", state);
}

static dp_status *audio_create(const dp_kernel_setup *setup, void *state) {
  return most_create(setup, "max_outputs", state);
}

static const dp_kernel rows[] = {
    {.op = "SummaryWriter",
     .flags = DP_KERNEL_CHEAP,
     .state_size = sizeof(dp_resource_name),
     .create = handle_create,
     .compute = handle_compute,
     .destroy = handle_destroy},
    {.op = "CreateSummaryFileWriter", .flags = DP_KERNEL_BLOCKING, .compute = file_writer_compute},
    {.op = "FlushSummaryWriter", .flags = DP_KERNEL_BLOCKING, .compute = flush_compute},
    {.op = "CloseSummaryWriter", .flags = DP_KERNEL_BLOCKING, .compute = close_compute},
    {.op = "WriteSummary",
     .flags = DP_KERNEL_BLOCKING,
     .state_size = sizeof(write_state),
     .compute = write_tensor_compute},
    {.op = "WriteScalarSummary",
     .flags = DP_KERNEL_BLOCKING,
     .state_size = sizeof(write_state),
     .compute = write_scalar_compute},
    {.op = "WriteHistogramSummary",
     .flags = DP_KERNEL_BLOCKING,
     .state_size = sizeof(write_state),
     .compute = write_histogram_compute},
    {.op = "WriteImageSummary",
     .flags = DP_KERNEL_BLOCKING,
     .state_size = sizeof(write_state),
     .create = image_create,
     .compute = write_image_compute},
    {.op = "WriteAudioSummary",
     .flags = DP_KERNEL_BLOCKING,
     .state_size = sizeof(write_state),
     .create = audio_create,
     .compute = write_audio_compute},
    {.op = "WriteRawProtoSummary",
     .flags = DP_KERNEL_BLOCKING,
     .state_size = sizeof(write_state),
     .compute = write_raw_compute},
    {.op = "WriteGraphSummary", .flags = DP_KERNEL_BLOCKING, .compute = write_graph_compute},
    {.op = "ImportEvent", .flags = DP_KERNEL_BLOCKING, .compute = import_compute},
};
DP_KERNEL_FAMILY(summary_writer, rows);
