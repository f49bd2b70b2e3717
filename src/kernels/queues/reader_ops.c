/* The ops of readers, with reference handles (first form) and resource handles (second form). When
 * a file is at its end, reading takes the name of the next file from a queue. */
#include "kernels/shared/family.h"

#include <string.h>
#include "base/memory.h"
#include "kernels/queues/reader_internal.h"
#include "kernels/shared/handle.h"
#include "kernels/shared/io.h"

/* ---- Making ---- */
typedef struct reader_make_state {
  dp_resource_name name;
  dp_reader_options options;
  dp_pool *blocking;
  const char *node; /* for error messages; belongs to the graph */
} reader_make_state;

static dp_status *make_reader(void *arg, dp_resource **resource_out) {
  const reader_make_state *state = arg;
  *resource_out = &dp_reader_create(state->node, &state->options, state->blocking)->resource;
  return NULL;
}

static dp_status *make_compute(dp_op_context *context, void *memory) {
  reader_make_state *state = memory;
  dp_resource *resource;
  DP_RETURN_IF_ERROR(dp_resources_find_or_create(context->device->resources, state->name.container,
                                                 state->name.name, &dp_reader_ops, make_reader,
                                                 state, &resource));
  dp_status *status =
      dp_handle_output(context, 0, resource, state->name.container, state->name.name, false);
  dp_resource_release(resource);
  return status;
}

static dp_status *make_any(const dp_kernel_setup *setup, reader_make_state *state,
                           dp_reader_kind kind) {
  state->options.kind = kind;
  state->options.op = setup->node->op->name;
  state->blocking = setup->device->blocking;
  state->node = setup->node->name;
  return dp_resource_name_init(&state->name, setup, true);
}

static void make_destroy(void *memory) {
  dp_resource_name_deinit(&((reader_make_state *)memory)->name);
}

static dp_status *lines_create(const dp_kernel_setup *setup, void *memory) {
  reader_make_state *state = memory;
  int64_t *skipped = &state->options.skip_lines;
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "skip_header_lines", skipped));
  if (*skipped < 0)
    return DP_INVALID("skip_header_lines must be >= 0 not %lld", (long long)*skipped);
  return make_any(setup, state, DP_READER_LINES);
}

static dp_status *get_size(const dp_node *node, const char *name, int64_t *out) {
  DP_RETURN_IF_ERROR(dp_node_get_int(node, name, out));
  if (*out < 0)
    return DP_INVALID("%s must be >= 0 not %lld", name, (long long)*out);
  if (*out > INT32_MAX)
    return DP_INVALID("%s must fit into 32 bits, not %lld", name, (long long)*out);
  return NULL;
}

static dp_status *fixed_create(const dp_kernel_setup *setup, void *memory) {
  reader_make_state *state = memory;
  dp_reader_options *options = &state->options;
  const dp_node *node = setup->node;
  DP_RETURN_IF_ERROR(get_size(node, "header_bytes", &options->header));
  DP_RETURN_IF_ERROR(get_size(node, "record_bytes", &options->record));
  DP_RETURN_IF_ERROR(get_size(node, "footer_bytes", &options->footer));
  DP_RETURN_IF_ERROR(get_size(node, "hop_bytes", &options->hop));
  if (options->hop == 0)
    options->hop = options->record;
  if (options->hop == 0)
    return DP_INVALID("record_bytes must be > 0 when hop_bytes is 0");
  if (dp_node_attr(node, "encoding")) {
    dp_view encoding;
    DP_RETURN_IF_ERROR(dp_node_get_string(node, "encoding", &encoding));
    if (!dp_compression_parse(encoding, &options->compression))
      options->compression = DP_COMPRESSION_NONE;
  }
  return make_any(setup, state, DP_READER_FIXED);
}

static dp_status *records_create(const dp_kernel_setup *setup, void *memory) {
  reader_make_state *state = memory;
  dp_view type;
  DP_RETURN_IF_ERROR(dp_node_get_string(setup->node, "compression_type", &type));
  if (!dp_compression_parse(type, &state->options.compression))
    state->options.compression = DP_COMPRESSION_NONE;
  return make_any(setup, state, DP_READER_RECORDS);
}

static dp_status *identity_create(const dp_kernel_setup *setup, void *memory) {
  return make_any(setup, memory, DP_READER_IDENTITY);
}

static dp_status *whole_create(const dp_kernel_setup *setup, void *memory) {
  return make_any(setup, memory, DP_READER_WHOLE);
}

/* ---- Using ---- */
static dp_status *get_reader(dp_op_context *context, dp_reader **reader_out) {
  dp_resource *resource;
  DP_RETURN_IF_ERROR(dp_handle_input(context, 0, &dp_reader_ops, DP_HANDLE_RULE, &resource));
  *reader_out = (dp_reader *)resource;
  return NULL;
}

static void free_strings(dp_string_list *list) {
  for (size_t i = 0; i < list->count; ++i)
    dp_tstring_deinit(&list->items[i]);
  DP_ARRAY_FREE(list);
}

static void end_run(dp_reader_run *run, dp_status *status) {
  dp_op_context *context = run->arg;
  dp_reader *reader = run->reader;
  dp_queue *queue = run->queue;
  free_strings(&run->keys);
  free_strings(&run->values);
  dp_free(run);
  dp_op_done(context, status);
  dp_resource_release(queue);
  dp_resource_release(reader);
}

/* Starts a run of `body`. A body that reads has a queue as the second input. */
static void start(dp_op_context *context, int64_t wanted, bool has_queue,
                  void (*body)(dp_reader_run *run),
                  void (*done)(dp_reader_run *run, dp_status *status)) {
  dp_reader *reader;
  dp_resource *queue = NULL;
  dp_status *status = get_reader(context, &reader);
  if (!status && has_queue) {
    status = dp_handle_input(context, 1, &dp_queue_ops, DP_HANDLE_RULE, &queue);
    if (status)
      dp_resource_release(reader);
  }
  if (status) {
    dp_op_done(context, status);
    return;
  }
  dp_reader_run *run = DP_NEW(dp_reader_run);
  run->reader = reader;
  run->queue = (dp_queue *)queue;
  run->cancel = context->step->cancel;
  run->body = body;
  run->done = done;
  run->arg = context;
  run->wanted = wanted;
  dp_reader_enter(run);
}

/* Moves the strings into the output, a scalar or a vector. */
static dp_status *output_strings(dp_op_context *context, int32_t output, dp_string_list *list,
                                 const dp_shape *shape) {
  dp_tensor *tensor;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, output, shape, &tensor));
  if (list->count > 0)
    memcpy(tensor->data, list->items, list->count * sizeof(dp_tstring));
  list->count = 0;
  return NULL;
}

static void end_read(dp_reader_run *run, dp_status *status) {
  dp_op_context *context = run->arg;
  bool is_many = context->input_count > 2;
  dp_shape shape = is_many ? dp_shape_vector((int64_t)run->keys.count) : dp_shape_scalar();
  if (!status)
    status = output_strings(context, 0, &run->keys, &shape);
  if (!status)
    status = output_strings(context, 1, &run->values, &shape);
  end_run(run, status);
}

static void read_compute(dp_op_context *context, void *state) {
  start(context, 1, true, dp_reader_read, end_read);
}

static void read_up_to_compute(dp_op_context *context, void *state) {
  int64_t wanted;
  dp_status *status = dp_kernel_read_int(dp_op_input(context, 2), "num_records", &wanted);
  if (status)
    dp_op_done(context, status);
  else
    start(context, wanted, true, dp_reader_read, end_read);
}

static void reset_body(dp_reader_run *run) {
  dp_reader_reset(run->reader);
  dp_reader_leave(run, NULL);
}

static void reset_compute(dp_op_context *context, void *state) {
  start(context, 0, false, reset_body, end_run);
}

static void save_body(dp_reader_run *run) {
  dp_op_context *context = run->arg;
  dp_text text = {0};
  dp_status *status = dp_reader_save(run->reader, &text);
  if (!status)
    status = dp_io_output_string(context, 0, dp_text_string(&text), text.length);
  dp_text_deinit(&text);
  dp_reader_leave(run, status);
}

static void save_compute(dp_op_context *context, void *state) {
  start(context, 0, false, save_body, end_run);
}

static void restore_body(dp_reader_run *run) {
  const dp_tensor *state = dp_op_input(run->arg, 1);
  dp_reader_leave(run, dp_reader_restore(run->reader, dp_io_string(state, 0)));
}

static void restore_compute(dp_op_context *context, void *state) {
  const dp_shape *shape = &dp_op_input(context, 1)->shape;
  if (shape->rank != 0)
    dp_op_done(context,
               DP_INVALID("Reader state must be scalar, but had shape: %s", dp_shape_text(shape)));
  else
    start(context, 0, false, restore_body, end_run);
}

/* Takes no turn: counters may be read while a run waits for the queue. */
static dp_status *output_count(dp_op_context *context, bool of_records) {
  dp_reader *reader;
  DP_RETURN_IF_ERROR(get_reader(context, &reader));
  pthread_mutex_lock(&reader->lock);
  int64_t count = of_records ? reader->produced : reader->finished;
  pthread_mutex_unlock(&reader->lock);
  dp_resource_release(reader);
  return dp_op_output_int64(context, 0, count);
}

static dp_status *records_compute(dp_op_context *context, void *state) {
  return output_count(context, true);
}

static dp_status *units_compute(dp_op_context *context, void *state) {
  return output_count(context, false);
}

/* clang-format off */
#define MAKER(name, body)                                                                          \
  {.op = name, .state_size = sizeof(reader_make_state), .create = body, .compute = make_compute,          \
   .destroy = make_destroy}
#define MAKERS(name, body) MAKER(name, body), MAKER(name "V2", body)
#define USERS(name, body) {.op = name, .compute_async = body}, {.op = name "V2", .compute_async = body}
#define COUNTS(name, body) {.op = name, .compute = body}, {.op = name "V2", .compute = body}

static const dp_kernel rows[] = {
    MAKERS("TextLineReader", lines_create),
    MAKERS("FixedLengthRecordReader", fixed_create),
    MAKERS("TFRecordReader", records_create),
    MAKERS("IdentityReader", identity_create),
    MAKERS("WholeFileReader", whole_create),
    USERS("ReaderRead", read_compute),
    USERS("ReaderReadUpTo", read_up_to_compute),
    USERS("ReaderReset", reset_compute),
    USERS("ReaderSerializeState", save_compute),
    USERS("ReaderRestoreState", restore_compute),
    COUNTS("ReaderNumRecordsProduced", records_compute),
    COUNTS("ReaderNumWorkUnitsCompleted", units_compute),
};
/* clang-format on */
DP_KERNEL_FAMILY(reader, rows);
