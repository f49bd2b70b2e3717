/* Non-maximum suppression: picks boxes by score and drops those that overlap a better one.
 *
 * Candidates wait in a heap, the best score first (among equals the smaller index). One that
 * overlaps a picked box too much is dropped; with a sigma above 0 its score decays instead and it
 * goes back into the heap. Half is worked in float. */
#include <math.h>
#include <string.h>
#include "base/memory.h"
#include "kernels/image/suppress_internal.h"
#include "kernels/shared/family.h"
#include "kernels/shared/pixels.h"

typedef struct suppress_state {
  float overlap_threshold; /* of version 1 */
  bool pads;
} suppress_state;

static dp_status *suppress_create(const dp_kernel_setup *setup, void *memory) {
  suppress_state *state = memory;
  const dp_attr *pads = dp_node_attr(setup->node, "pad_to_max_output_size");
  state->pads = pads && pads->kind == DP_ATTR_BOOL && pads->boolean;
  if (!dp_node_is(setup->node, "NonMaxSuppression"))
    return NULL;
  DP_RETURN_IF_ERROR(dp_node_get_float(setup->node, "iou_threshold", &state->overlap_threshold));
  if (!(state->overlap_threshold >= 0 && state->overlap_threshold <= 1))
    return DP_INVALID("iou_threshold must be in [0, 1]");
  return NULL;
}

/* ---- The heap ---- */
static bool is_better(const dp_suppress_candidate *a, const dp_suppress_candidate *b) {
  return a->score > b->score || (a->score == b->score && a->box < b->box);
}

static void heap_push(dp_suppression *work, dp_suppress_candidate one) {
  int64_t at = work->heap_count++;
  for (; at > 0 && is_better(&one, &work->heap[(at - 1) / 2]); at = (at - 1) / 2)
    work->heap[at] = work->heap[(at - 1) / 2];
  work->heap[at] = one;
}

static dp_suppress_candidate heap_pop(dp_suppression *work) {
  dp_suppress_candidate best = work->heap[0], moving = work->heap[--work->heap_count];
  int64_t at = 0, count = work->heap_count;
  for (int64_t child; (child = 2 * at + 1) < count; at = child) {
    child += child + 1 < count && is_better(&work->heap[child + 1], &work->heap[child]);
    if (!is_better(&work->heap[child], &moving))
      break;
    work->heap[at] = work->heap[child];
  }
  work->heap[at] = moving;
  return best;
}

/* ---- Overlaps ---- */
static float intersection_over_union(const float *a, const float *b) {
  float a_top = fminf(a[0], a[2]), a_left = fminf(a[1], a[3]);
  float a_bottom = fmaxf(a[0], a[2]), a_right = fmaxf(a[1], a[3]);
  float b_top = fminf(b[0], b[2]), b_left = fminf(b[1], b[3]);
  float b_bottom = fmaxf(b[0], b[2]), b_right = fmaxf(b[1], b[3]);
  float a_area = (a_bottom - a_top) * (a_right - a_left);
  float b_area = (b_bottom - b_top) * (b_right - b_left);
  if (a_area <= 0 || b_area <= 0)
    return 0;
  float height = fmaxf(fminf(a_bottom, b_bottom) - fmaxf(a_top, b_top), 0);
  float width = fmaxf(fminf(a_right, b_right) - fmaxf(a_left, b_left), 0);
  return height * width / (a_area + b_area - height * width);
}

static float similarity(const dp_suppression *work, int64_t a, int64_t b) {
  return work->overlaps ? work->overlaps[a * work->count + b]
                        : intersection_over_union(work->boxes + 4 * a, work->boxes + 4 * b);
}

/* ---- Picking ---- */
void dp_suppress_pick(dp_suppression *work) {
  float scale = work->sigma > 0 ? -0.5f / work->sigma : 0;
  for (int64_t i = 0; i < work->count; ++i)
    if (work->scores[i] > work->score_threshold)
      heap_push(work, (dp_suppress_candidate){work->scores[i], (int32_t)i, 0});
  while (work->picked_count < work->wanted && work->heap_count > 0) {
    dp_suppress_candidate next = heap_pop(work);
    float original = next.score;
    bool dropped = false;
    for (int64_t i = work->picked_count - 1; i >= next.compared && !dropped; --i) {
      float overlap = similarity(work, next.box, work->picked[i]);
      if (work->sigma <= 0 && overlap > work->overlap_threshold) {
        dropped = true;
      } else {
        next.score *= expf(scale * overlap * overlap); /* 1 without a sigma */
        if (next.score <= work->score_threshold)
          break;
      }
    }
    if (dropped)
      continue;
    next.compared = (int32_t)work->picked_count;
    if (next.score == original) {
      work->picked_scores[work->picked_count] = next.score;
      work->picked[work->picked_count++] = next.box;
    } else if (next.score > work->score_threshold) {
      heap_push(work, next);
    }
  }
}

/* ---- Inputs ---- */
static dp_status *read_float(dp_op_context *context, int32_t slot, const char *name,
                             float *value_out) {
  const dp_tensor *tensor = dp_op_input(context, slot);
  if (tensor->shape.rank != 0)
    return DP_INVALID("%s must be 0-D, got shape %s", name, dp_shape_text(&tensor->shape));
  dp_image_to_float(tensor->dtype, tensor->data, 0, value_out, 1);
  return NULL;
}

static dp_status *read_thresholds(dp_op_context *context, const suppress_state *state,
                                  bool by_overlaps, dp_suppression *work) {
  const dp_tensor *wanted = dp_op_input(context, 2);
  const char *name = by_overlaps ? "overlap_threshold" : "iou_threshold";
  if (wanted->shape.rank != 0)
    return DP_INVALID("max_output_size must be 0-D, got shape %s", dp_shape_text(&wanted->shape));
  work->wanted = dp_tensor_int_at(wanted, 0);
  work->score_threshold = -INFINITY;
  work->overlap_threshold = state->overlap_threshold;
  int32_t count = context->input_count;
  if (count > 3)
    DP_RETURN_IF_ERROR(read_float(context, 3, name, &work->overlap_threshold));
  if (!by_overlaps && !(work->overlap_threshold >= 0 && work->overlap_threshold <= 1))
    return DP_INVALID("iou_threshold must be in [0, 1]");
  if (count > 4)
    DP_RETURN_IF_ERROR(read_float(context, 4, "score_threshold", &work->score_threshold));
  if (count > 5)
    DP_RETURN_IF_ERROR(read_float(context, 5, "soft_nms_sigma", &work->sigma));
  if (!(work->sigma >= 0))
    return DP_INVALID("soft_nms_sigma_val must be >= 0");
  return NULL;
}

static dp_status *check_boxes(dp_op_context *context, bool by_overlaps, dp_suppression *work) {
  const dp_shape *boxes = &dp_op_input(context, 0)->shape;
  const dp_shape *scores = &dp_op_input(context, 1)->shape;
  const char *what = by_overlaps ? "overlaps" : "boxes";
  bool is_second = dp_node_is(context->node, "NonMaxSuppressionV2");
  if (boxes->rank != 2)
    return is_second ? DP_INVALID("boxes must be 2-D%s (Shape must be rank 2 but is rank %d)",
                                  dp_shape_text(boxes), boxes->rank)
                     : DP_INVALID("%s must be 2-D%s", what, dp_shape_text(boxes));
  if (boxes->dims[1] != (by_overlaps ? boxes->dims[0] : 4))
    return by_overlaps ? DP_INVALID("overlaps must be square%s", dp_shape_text(boxes))
           : is_second ? DP_INVALID("boxes must have 4 columns (Dimension must be 4 but is %lld)",
                                    (long long)boxes->dims[1])
                       : DP_INVALID("boxes must have 4 columns");
  if (scores->rank != 1)
    return DP_INVALID("scores must be 1-D%s", dp_shape_text(scores));
  if (scores->dims[0] != boxes->dims[0])
    return is_second ? DP_INVALID("scores has incompatible shape (Dimensions must be equal, but "
                                  "are %lld and %lld)",
                                  (long long)boxes->dims[0], (long long)scores->dims[0])
                     : DP_INVALID("scores has incompatible shape");
  if (boxes->dims[0] > INT32_MAX)
    return DP_INVALID("too many boxes: %lld", (long long)boxes->dims[0]);
  work->count = boxes->dims[0];
  return NULL;
}

static dp_status *write_picked(dp_op_context *context, const dp_suppression *work, bool pads) {
  dp_shape shape = dp_shape_vector(pads ? work->wanted : work->picked_count);
  dp_tensor *indices, *scores;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &indices));
  memset(indices->data, 0, dp_tensor_bytes(indices));
  memcpy(indices->data, work->picked, (size_t)work->picked_count * sizeof(int32_t));
  int32_t outputs = context->output_count;
  if (outputs == 3) {
    DP_RETURN_IF_ERROR(dp_op_allocate(context, 1, &shape, &scores));
    memset(scores->data, 0, dp_tensor_bytes(scores));
    dp_image_from_float(scores->dtype, work->picked_scores, scores->data, 0, work->picked_count);
  }
  return outputs > 1 ? dp_op_output_int32(context, outputs - 1, (int32_t)work->picked_count) : NULL;
}

static dp_status *suppress(dp_op_context *context, const suppress_state *state, bool by_overlaps) {
  dp_suppression work = {0};
  DP_RETURN_IF_ERROR(read_thresholds(context, state, by_overlaps, &work));
  DP_RETURN_IF_ERROR(check_boxes(context, by_overlaps, &work));
  if (work.wanted < 0)
    return DP_INVALID("output size must be non-negative");
  const dp_tensor *boxes = dp_op_input(context, 0), *scores = dp_op_input(context, 1);
  int64_t picks = work.wanted < work.count ? work.wanted : work.count;
  float *numbers = dp_image_scratch(boxes->shape.elements + work.count + picks);
  work.heap = dp_try_malloc((size_t)(work.count + 1) * sizeof *work.heap);
  work.picked = dp_try_malloc((size_t)(picks + 1) * sizeof *work.picked);
  dp_status *status = NULL;
  if (numbers && work.heap && work.picked) {
    float *score_numbers = numbers + boxes->shape.elements;
    dp_image_to_float(boxes->dtype, boxes->data, 0, numbers, boxes->shape.elements);
    dp_image_to_float(scores->dtype, scores->data, 0, score_numbers, work.count);
    *(by_overlaps ? &work.overlaps : &work.boxes) = numbers;
    work.scores = score_numbers;
    work.picked_scores = score_numbers + work.count;
    dp_suppress_pick(&work);
    status = write_picked(context, &work, state->pads);
  } else {
    status = dp_status_out_of_memory();
  }
  dp_free(numbers);
  dp_free(work.heap);
  dp_free(work.picked);
  return status;
}

static dp_status *boxes_compute(dp_op_context *context, void *state) {
  return suppress(context, state, false);
}
static dp_status *overlaps_compute(dp_op_context *context, void *state) {
  return suppress(context, state, true);
}

#define SUPPRESS(name, body)                                                                       \
  { .op = name, .state_size = sizeof(suppress_state), .create = suppress_create, .compute = body }
static const dp_kernel rows[] = {
    SUPPRESS("NonMaxSuppression", boxes_compute),
    SUPPRESS("NonMaxSuppressionV2", boxes_compute),
    SUPPRESS("NonMaxSuppressionV3", boxes_compute),
    SUPPRESS("NonMaxSuppressionV4", boxes_compute),
    SUPPRESS("NonMaxSuppressionV5", boxes_compute),
    SUPPRESS("NonMaxSuppressionWithOverlaps", overlaps_compute),
};
DP_KERNEL_FAMILY(image_suppress, rows);
