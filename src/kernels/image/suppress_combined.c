/* CombinedNonMaxSuppression: per image, the best boxes of all classes together. Each class of each
 * image is suppressed separately and in parallel, and writes its picks to its own part of a table.
 * Then the best picks of each image are taken from the table. */
#include "kernels/shared/family.h"

#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "kernels/image/suppress_internal.h"
#include "kernels/shared/pixels.h"

typedef struct combined_state {
  bool pads_by_class, clips;
} combined_state;

static dp_status *combined_create(const dp_kernel_setup *setup, void *memory) {
  combined_state *state = memory;
  DP_RETURN_IF_ERROR(dp_node_get_bool(setup->node, "pad_per_class", &state->pads_by_class));
  return dp_node_get_bool(setup->node, "clip_boxes", &state->clips);
}

typedef struct found {
  float score;
  int32_t class;
  const float *box;
} found;

typedef struct combined_call {
  const combined_state *state;
  const float *boxes;  /* [images, count, box_classes, 4] */
  const float *scores; /* [images, count, classes] */
  int64_t images, count, box_classes, classes;
  int64_t per_class; /* most picks per class */
  int64_t total;     /* output rows per image */
  float overlap_threshold, score_threshold;
  found *table;         /* [images, classes, per_class] */
  int64_t *found_count; /* [images, classes] */
  bool has_memory;
  dp_tensor *outputs[4];
} combined_call;

/* ---- One class ---- */
typedef struct class_memory {
  float *boxes, *scores, *picked_scores;
  dp_suppress_candidate *heap;
  int32_t *picked;
} class_memory;

static void suppress_class(const combined_call *call, int64_t index, const class_memory *memory) {
  int64_t image = index / call->classes, class = index % call->classes;
  int64_t box_class = call->box_classes > 1 ? class : 0;
  const float *boxes = call->boxes + (image * call->count * call->box_classes + box_class) * 4;
  const float *scores = call->scores + image * call->count * call->classes + class;
  for (int64_t i = 0; i < call->count; ++i) {
    memcpy(memory->boxes + 4 * i, boxes + i * call->box_classes * 4, 4 * sizeof(float));
    memory->scores[i] = scores[i * call->classes];
  }
  dp_suppression work = {.boxes = memory->boxes,
                         .scores = memory->scores,
                         .count = call->count,
                         .wanted = call->per_class,
                         .overlap_threshold = call->overlap_threshold,
                         .score_threshold = call->score_threshold,
                         .heap = memory->heap,
                         .picked = memory->picked,
                         .picked_scores = memory->picked_scores};
  dp_suppress_pick(&work);
  found *to = call->table + index * call->per_class;
  for (int64_t i = 0; i < work.picked_count; ++i)
    to[i] = (found){work.picked_scores[i], (int32_t) class,
                    boxes + work.picked[i] * call->box_classes * 4};
  call->found_count[index] = work.picked_count;
}

static void class_range(void *arg, int64_t begin, int64_t end) {
  combined_call *call = arg;
  size_t room = (size_t)call->count + 1;
  class_memory memory = {.boxes = dp_image_scratch(6 * call->count),
                         .heap = dp_try_malloc(room * sizeof *memory.heap),
                         .picked = dp_try_malloc(room * sizeof *memory.picked)};
  if (memory.boxes && memory.heap && memory.picked) {
    memory.scores = memory.boxes + 4 * call->count;
    memory.picked_scores = memory.scores + call->count;
    for (int64_t i = begin; i < end; ++i)
      suppress_class(call, i, &memory);
  } else {
    call->has_memory = false;
  }
  dp_free(memory.boxes);
  dp_free(memory.heap);
  dp_free(memory.picked);
}

/* ---- One image ---- */
static int compare_found(const void *a, const void *b) {
  const found *left = a, *right = b;
  if (left->score != right->score)
    return left->score > right->score ? -1 : 1;
  return left->class - right->class;
}

static float clip(float value) {
  return value < 0 ? 0 : value > 1 ? 1 : value;
}

static void write_image(const combined_call *call, int64_t image) {
  found *list = call->table + image * call->classes * call->per_class;
  int64_t count = 0;
  for (int64_t c = 0; c < call->classes; ++c) {
    const found *from = list + c * call->per_class;
    memmove(list + count, from,
            (size_t)call->found_count[image * call->classes + c] * sizeof *from);
    count += call->found_count[image * call->classes + c];
  }
  qsort(list, (size_t)count, sizeof *list, compare_found);
  count = count < call->total ? count : call->total;
  float *boxes = (float *)call->outputs[0]->data + image * call->total * 4;
  float *scores = (float *)call->outputs[1]->data + image * call->total;
  float *classes = (float *)call->outputs[2]->data + image * call->total;
  for (int64_t i = 0; i < count; ++i) {
    for (int k = 0; k < 4; ++k)
      boxes[4 * i + k] = call->state->clips ? clip(list[i].box[k]) : list[i].box[k];
    scores[i] = list[i].score;
    classes[i] = (float)list[i].class;
  }
  ((int32_t *)call->outputs[3]->data)[image] = (int32_t)count;
}

/* ---- The op ---- */
static dp_status *read_size(dp_op_context *context, int32_t slot, const char *name,
                            int64_t *value_out) {
  const dp_tensor *tensor = dp_op_input(context, slot);
  if (tensor->shape.rank != 0)
    return DP_INVALID("%s must be 0-D, got shape %s", name, dp_shape_text(&tensor->shape));
  *value_out = dp_tensor_int_at(tensor, 0);
  if (*value_out <= 0)
    return DP_INVALID("%s must be %s", name, slot == 2 ? "positive" : "> 0");
  return NULL;
}

static dp_status *read_threshold(dp_op_context *context, int32_t slot, const char *name,
                                 float *value_out) {
  const dp_tensor *tensor = dp_op_input(context, slot);
  if (tensor->shape.rank != 0)
    return DP_INVALID("%s must be 0-D, got shape %s", name, dp_shape_text(&tensor->shape));
  *value_out = *(const float *)tensor->data;
  return NULL;
}

static dp_status *read_boxes(dp_op_context *context, combined_call *call) {
  const dp_tensor *boxes = dp_op_input(context, 0), *scores = dp_op_input(context, 1);
  const int64_t *dims = boxes->shape.dims, *score_dims = scores->shape.dims;
  if (boxes->shape.rank > 0 && scores->shape.rank > 0 && dims[0] != score_dims[0])
    return DP_INVALID("boxes and scores must have same batch size");
  if (boxes->shape.rank != 4)
    return DP_INVALID("boxes must be 4-D%s", dp_shape_text(&boxes->shape));
  if (scores->shape.rank != 3)
    return DP_INVALID("scores must be 3-D%s", dp_shape_text(&scores->shape));
  if (dims[2] != 1 && dims[2] != score_dims[2])
    return DP_INVALID("third dimension of boxes must be either 1 or num classes");
  if (dims[3] != 4)
    return DP_INVALID("boxes must have 4 columns");
  if (score_dims[1] != dims[1])
    return DP_INVALID("scores has incompatible shape");
  call->boxes = boxes->data;
  call->scores = scores->data;
  call->images = dims[0];
  call->count = dims[1];
  call->box_classes = dims[2];
  call->classes = score_dims[2];
  return NULL;
}

static dp_status *read_inputs(dp_op_context *context, combined_call *call) {
  int64_t per_class, total;
  DP_RETURN_IF_ERROR(read_size(context, 2, "max_size_per_class", &per_class));
  DP_RETURN_IF_ERROR(read_size(context, 3, "max_total_size", &total));
  DP_RETURN_IF_ERROR(read_threshold(context, 4, "iou_threshold", &call->overlap_threshold));
  DP_RETURN_IF_ERROR(read_threshold(context, 5, "score_threshold", &call->score_threshold));
  if (!(call->overlap_threshold >= 0 && call->overlap_threshold <= 1))
    return DP_INVALID("iou_threshold must be in [0, 1]");
  DP_RETURN_IF_ERROR(read_boxes(context, call));
  call->per_class = per_class < call->count ? per_class : call->count;
  int64_t all = per_class * call->classes;
  call->total = call->state->pads_by_class && all < total ? all : total;
  return NULL;
}

static dp_status *allocate_outputs(dp_op_context *context, combined_call *call) {
  dp_shape shapes[4];
  int64_t dims[3] = {call->images, call->total, 4};
  DP_RETURN_IF_ERROR(dp_shape_make(3, dims, &shapes[0]));
  DP_RETURN_IF_ERROR(dp_shape_make(2, dims, &shapes[1]));
  shapes[2] = shapes[1];
  shapes[3] = dp_shape_vector(call->images);
  for (int i = 0; i < 4; ++i) {
    DP_RETURN_IF_ERROR(dp_op_allocate(context, i, &shapes[i], &call->outputs[i]));
    memset(call->outputs[i]->data, 0, dp_tensor_bytes(call->outputs[i]));
  }
  return NULL;
}

static dp_status *combined_compute(dp_op_context *context, void *memory) {
  combined_call call = {.state = memory, .has_memory = true};
  DP_RETURN_IF_ERROR(read_inputs(context, &call));
  DP_RETURN_IF_ERROR(allocate_outputs(context, &call));
  int64_t sets = call.images * call.classes;
  size_t cells = (size_t)(sets * call.per_class);
  call.table = dp_try_malloc((cells + 1) * sizeof *call.table);
  call.found_count = dp_try_malloc((size_t)(sets + 1) * sizeof *call.found_count);
  call.has_memory = call.table && call.found_count;
  if (call.has_memory)
    dp_op_for(context, sets, call.count * 50 + 500, class_range, &call);
  for (int64_t i = 0; i < call.images && call.has_memory; ++i)
    write_image(&call, i);
  dp_free(call.table);
  dp_free(call.found_count);
  return call.has_memory ? NULL : dp_status_out_of_memory();
}

static const dp_kernel rows[] = {
    {.op = "CombinedNonMaxSuppression",
     .state_size = sizeof(combined_state),
     .create = combined_create,
     .compute = combined_compute},
};
DP_KERNEL_FAMILY(image_suppress_combined, rows);
