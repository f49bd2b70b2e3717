/* Statistics of one step, collected from its executors and written as a StepStats message: what
 * RunMetadata carries and TensorFlow's timeline draws. Executors of several devices and threads
 * record at once; a lock orders them. Names borrow from the compiled graphs, which outlive the
 * step. */
#include "worker/worker_internal.h"

#define MOST_OUTPUTS 16

typedef struct output_record {
  dp_dtype dtype;
  dp_shape shape;
  int64_t bytes;
} output_record;

typedef struct timing_record {
  dp_node_timing timing;
  int32_t output_count;
  output_record *outputs; /* in the collector's arena */
} timing_record;

struct stats_collector {
  dp_step_stats sink;
  pthread_mutex_t lock;
  dp_arena *arena;
  DP_ARRAY(timing_record) records;
};

static void record(void *arg, const dp_node_timing *timing) {
  stats_collector *collector = arg;
  pthread_mutex_lock(&collector->lock);
  timing_record record = {.timing = *timing};
  record.timing.label =
      timing->label ? dp_arena_strdup(collector->arena, timing->label) : timing->op;
  int32_t count = timing->output_count < MOST_OUTPUTS ? timing->output_count : MOST_OUTPUTS;
  record.outputs = DP_ARENA_ARRAY(collector->arena, output_record, count + 1);
  for (int32_t i = 0; timing->outputs && i < count; i++) {
    const dp_tensor *tensor = &timing->outputs[i];
    record.outputs[i] =
        (output_record){tensor->dtype, tensor->shape, (int64_t)dp_tensor_bytes(tensor)};
    record.output_count = i + 1;
  }
  DP_ARRAY_PUSH(&collector->records, record);
  pthread_mutex_unlock(&collector->lock);
}

stats_collector *dp_stats_collector_create(void) {
  stats_collector *collector = DP_NEW(stats_collector);
  collector->sink = (dp_step_stats){record, collector};
  pthread_mutex_init(&collector->lock, NULL);
  collector->arena = dp_arena_create();
  return collector;
}

void dp_stats_collector_destroy(stats_collector *collector) {
  if (!collector)
    return;
  pthread_mutex_destroy(&collector->lock);
  DP_ARRAY_FREE(&collector->records);
  dp_arena_destroy(collector->arena);
  dp_free(collector);
}

dp_step_stats *dp_stats_collector_sink(stats_collector *collector) {
  return &collector->sink;
}

/* ---- The message ---- */

static Tensorflow__TensorShapeProto *shape_message(const dp_shape *shape, dp_arena *arena) {
  Tensorflow__TensorShapeProto *message =
      dp_wire_new(arena, &tensorflow__tensor_shape_proto__descriptor);
  message->n_dim = (size_t)shape->rank;
  message->dim = DP_ARENA_ARRAY(arena, Tensorflow__TensorShapeProto__Dim *, shape->rank + 1);
  for (int32_t i = 0; i < shape->rank; i++) {
    message->dim[i] = dp_wire_new(arena, &tensorflow__tensor_shape_proto__dim__descriptor);
    message->dim[i]->size = shape->dims[i];
  }
  return message;
}

static Tensorflow__NodeOutput *output_message(const output_record *output, int32_t slot,
                                              dp_arena *arena) {
  Tensorflow__NodeOutput *message = dp_wire_new(arena, &tensorflow__node_output__descriptor);
  message->slot = slot;
  message->tensor_description = dp_wire_new(arena, &tensorflow__tensor_description__descriptor);
  message->tensor_description->dtype = (Tensorflow__DataType)output->dtype;
  message->tensor_description->shape = shape_message(&output->shape, arena);
  message->tensor_description->allocation_description =
      dp_wire_new(arena, &tensorflow__allocation_description__descriptor);
  message->tensor_description->allocation_description->requested_bytes = output->bytes;
  message->tensor_description->allocation_description->allocated_bytes = output->bytes;
  message->tensor_description->allocation_description->allocator_name = "cpu";
  return message;
}

static Tensorflow__NodeExecStats *node_message(const timing_record *record, dp_arena *arena) {
  const dp_node_timing *timing = &record->timing;
  Tensorflow__NodeExecStats *message = dp_wire_new(arena, &tensorflow__node_exec_stats__descriptor);
  message->node_name = (char *)timing->node;
  message->timeline_label = (char *)timing->label;
  message->all_start_micros = timing->started / 1000;
  message->op_start_rel_micros = 0;
  message->op_end_rel_micros = (timing->ended - timing->started + 999) / 1000;
  message->all_end_rel_micros = message->op_end_rel_micros;
  message->scheduled_micros = timing->scheduled / 1000;
  message->thread_id = (uint32_t)timing->thread;
  message->all_start_nanos = timing->started;
  message->op_end_rel_nanos = timing->ended - timing->started;
  message->all_end_rel_nanos = timing->ended - timing->started;
  message->scheduled_nanos = timing->scheduled;
  message->n_output = (size_t)record->output_count;
  message->output = DP_ARENA_ARRAY(arena, Tensorflow__NodeOutput *, record->output_count + 1);
  for (int32_t i = 0; i < record->output_count; i++)
    message->output[i] = output_message(&record->outputs[i], i, arena);
  return message;
}

static Tensorflow__DeviceStepStats *find_device_stats(Tensorflow__StepStats *stats,
                                                      const char *device, size_t capacity,
                                                      dp_arena *arena) {
  for (size_t i = 0; i < stats->n_dev_stats; i++) {
    if (strcmp(stats->dev_stats[i]->device, device) == 0)
      return stats->dev_stats[i];
  }
  Tensorflow__DeviceStepStats *added =
      dp_wire_new(arena, &tensorflow__device_step_stats__descriptor);
  added->device = (char *)device;
  added->node_stats = DP_ARENA_ARRAY(arena, Tensorflow__NodeExecStats *, capacity);
  stats->dev_stats[stats->n_dev_stats++] = added;
  return added;
}

static size_t count_devices(const stats_collector *collector) {
  size_t devices = 0;
  for (size_t i = 0; i < collector->records.count; i++) {
    size_t k = 0;
    while (k < i && strcmp(collector->records.items[k].timing.device,
                           collector->records.items[i].timing.device) != 0)
      k++;
    devices += k == i;
  }
  return devices;
}

Tensorflow__StepStats *dp_stats_collector_message(stats_collector *collector, dp_arena *arena) {
  Tensorflow__StepStats *stats = dp_wire_new(arena, &tensorflow__step_stats__descriptor);
  pthread_mutex_lock(&collector->lock);
  size_t count = collector->records.count;
  stats->dev_stats =
      DP_ARENA_ARRAY(arena, Tensorflow__DeviceStepStats *, count_devices(collector) + 1);
  for (size_t i = 0; i < count; i++) {
    const timing_record *record = &collector->records.items[i];
    Tensorflow__DeviceStepStats *device =
        find_device_stats(stats, record->timing.device, count, arena);
    device->node_stats[device->n_node_stats++] = node_message(record, arena);
  }
  pthread_mutex_unlock(&collector->lock);
  return stats;
}
