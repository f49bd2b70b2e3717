/* Ops that return a serialized Summary: scalars, histograms, images, sounds, tensors, and merged
 * summaries. summary_support.c fills the messages; the ops that write to files are in
 * summary_writer.c. */
#include "base/map.h"
#include "kernels/shared/family.h"
#include "kernels/shared/io.h"
#include "kernels/shared/message.h"
#include "kernels/summary/summary_internal.h"
#include "wire/control.h"
#include "wire/tensor_codec.h"

/* The part of an op that fills the summary; the rest is common to all. */
typedef dp_status *(*fill_fn)(dp_op_context *context, const void *state, dp_summary *summary);

static dp_status *make(dp_op_context *context, const void *state, fill_fn fill) {
  dp_summary summary;
  dp_summary_init(&summary);
  dp_status *status = fill(context, state, &summary);
  if (!status)
    status = dp_summary_output(&summary, context);
  dp_summary_deinit(&summary);
  return status;
}

/* ---- Numbers ---- */
static dp_status *fill_scalars(dp_op_context *context, const void *state, dp_summary *summary) {
  const dp_tensor *tags = dp_op_input(context, 0), *values = dp_op_input(context, 1);
  if (!dp_shape_equal(&tags->shape, &values->shape)) {
    dp_view tag = dp_tensor_elements(tags) == 1 ? dp_io_string(tags, 0) : dp_view_of("");
    bool has_tag = dp_tensor_elements(tags) == 1;
    return DP_INVALID("tags and values are not the same shape: %s != %s%s%.*s%s",
                      dp_shape_text(&tags->shape), dp_shape_text(&values->shape),
                      has_tag ? " (tag '" : "", (int)tag.length, tag.data, has_tag ? "')" : "");
  }
  for (int64_t i = 0; i < dp_tensor_elements(tags); ++i) {
    double number;
    DP_RETURN_IF_ERROR(dp_summary_number(values, i, &number));
    Tensorflow__Summary__Value *value = dp_summary_add(summary, dp_io_string(tags, i));
    value->value_case = TENSORFLOW__SUMMARY__VALUE__VALUE_SIMPLE_VALUE;
    value->simple_value = (float)number;
  }
  return NULL;
}

static dp_status *scalar_compute(dp_op_context *context, void *state) {
  return make(context, state, fill_scalars);
}

/* ---- Histograms ---- */
static dp_status *fill_histogram(dp_op_context *context, const void *state, dp_summary *summary) {
  const dp_tensor *tag = dp_op_input(context, 0);
  if (tag->shape.rank != 0)
    return DP_INVALID("tags must be scalar");
  dp_histogram_words words = {"Histogram", context->node->name};
  return dp_summary_add_histogram(summary, dp_io_string(tag, 0), dp_op_input(context, 1), words);
}

static dp_status *histogram_compute(dp_op_context *context, void *state) {
  return make(context, state, fill_histogram);
}

/* ---- Images ---- */
typedef struct image_state {
  int32_t most;
  const dp_tensor *bad_color;
} image_state;

static dp_status *image_create(const dp_kernel_setup *setup, void *state) {
  image_state *image = state;
  int64_t most;
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "max_images", &most));
  if (most >= (1LL << 31))
    return DP_INVALID("max_images must be < 2^31");
  image->most = (int32_t)most;
  DP_RETURN_IF_ERROR(dp_node_get_tensor(setup->node, "bad_color", &image->bad_color));
  if (image->bad_color->dtype != DP_UINT8)
    return DP_INVALID("bad_color must be uint8, got %s", dp_dtype_name(image->bad_color->dtype));
  if (image->bad_color->shape.rank != 1)
    return DP_INVALID("bad_color must be a vector, got shape %s",
                      dp_shape_text(&image->bad_color->shape));
  return NULL;
}

static dp_status *fill_images(dp_op_context *context, const void *state, dp_summary *summary) {
  const image_state *image = state;
  const dp_tensor *tag = dp_op_input(context, 0);
  if (tag->shape.rank != 0)
    return DP_INVALID("Tags must be a scalar");
  return dp_summary_add_images(summary, dp_io_string(tag, 0), dp_op_input(context, 1), image->most,
                               image->bad_color);
}

static dp_status *image_compute(dp_op_context *context, void *state) {
  return make(context, state, fill_images);
}

/* ---- Sounds ---- */
typedef struct audio_state {
  int32_t most;
  bool has_rate;
  float rate;
} audio_state;

static dp_status *audio_create(const dp_kernel_setup *setup, void *state) {
  audio_state *audio = state;
  int64_t most;
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "max_outputs", &most));
  if (most <= 0)
    return DP_INVALID("max_outputs must be > 0");
  audio->most = most > INT32_MAX ? INT32_MAX : (int32_t)most;
  audio->has_rate = dp_node_attr(setup->node, "sample_rate") != NULL;
  return audio->has_rate ? dp_node_get_float(setup->node, "sample_rate", &audio->rate) : NULL;
}

static dp_status *fill_audio(dp_op_context *context, const void *state, dp_summary *summary) {
  const audio_state *audio = state;
  const dp_tensor *tag = dp_op_input(context, 0), *sounds = dp_op_input(context, 1);
  if (tag->shape.rank != 0)
    return DP_INVALID("Tag must be a scalar");
  if (sounds->shape.rank != 2 && sounds->shape.rank != 3)
    return DP_INVALID("Tensor must be 3-D or 2-D, got: %s", dp_shape_text(&sounds->shape));
  float rate = audio->rate;
  if (!audio->has_rate) {
    if (dp_op_input(context, 2)->shape.rank != 0)
      return DP_INVALID("sample_rate must be rank-0 or single value");
    rate = *(const float *)dp_op_input(context, 2)->data;
  }
  return dp_summary_add_audio(summary, dp_io_string(tag, 0), sounds, audio->most, rate);
}

static dp_status *audio_compute(dp_op_context *context, void *state) {
  return make(context, state, fill_audio);
}

/* ---- Tensors ----
 * Written field by field: a protobuf message would need the tensor's bytes, which may be many,
 * in one piece. */
enum { VALUE_TAG = 1, VALUE_NODE = 7, VALUE_TENSOR = 8, VALUE_METADATA = 9 };
enum { SUMMARY_VALUE = 1 };

static dp_status *output_value(dp_op_context *context, dp_rope *value) {
  dp_text head = {0};
  dp_rope whole = {0};
  dp_message_add_head(&head, SUMMARY_VALUE, value->length);
  dp_status *status = dp_rope_append(&whole, head.data, head.length);
  if (!status) {
    dp_rope_append_rope(&whole, value);
    status = dp_io_output_rope(context, 0, &whole);
  }
  dp_rope_deinit(&whole);
  dp_text_deinit(&head);
  return status;
}

/* One value: the name as field `name_field` (absent when empty), the tensor, then `rest`. */
static dp_status *output_tensor(dp_op_context *context, uint32_t name_field, dp_view name,
                                const dp_tensor *tensor, const dp_text *rest) {
  dp_text head = {0};
  dp_rope value = {0};
  if (name.length > 0)
    dp_message_add_bytes(&head, name_field, name);
  dp_status *status = dp_rope_append(&value, head.data, head.length);
  if (!status)
    status = dp_wire_encode_tensor_field(VALUE_TENSOR, tensor, &value);
  if (!status)
    status = dp_rope_append(&value, rest->data, rest->length);
  if (!status)
    status = output_value(context, &value);
  dp_rope_deinit(&value);
  dp_text_deinit(&head);
  return status;
}

static dp_status *tensor_compute(dp_op_context *context, void *state) {
  return output_tensor(context, VALUE_NODE, dp_view_of(context->node->name),
                       dp_op_input(context, 0), &(dp_text){0});
}

/* As in TensorFlow, metadata that cannot be parsed become an empty message. */
static void add_metadata(dp_text *text, dp_view serialized) {
  dp_arena *arena = serialized.length > 0 ? dp_arena_create() : NULL;
  Tensorflow__SummaryMetadata *metadata;
  uint8_t *data = NULL;
  size_t length = 0;
  dp_status *status = NULL;
  if (serialized.length > 0)
    status = dp_wire_unpack_bytes(&tensorflow__summary_metadata__descriptor, serialized.data,
                                  serialized.length, arena, &metadata);
  if (serialized.length > 0 && !status)
    status = dp_wire_pack_bytes(metadata, arena, &data, &length);
  dp_status_release(status);
  dp_message_add_bytes(text, VALUE_METADATA, (dp_view){(const char *)data, length});
  dp_arena_destroy(arena);
}

static dp_status *tensor_v2_compute(dp_op_context *context, void *state) {
  const dp_tensor *tag = dp_op_input(context, 0), *metadata = dp_op_input(context, 2);
  if (tag->shape.rank != 0)
    return DP_INVALID("tag must be scalar");
  if (metadata->shape.rank != 0)
    return DP_INVALID("serialized_summary_metadata must be scalar");
  dp_text rest = {0};
  add_metadata(&rest, dp_io_string(metadata, 0));
  dp_status *status =
      output_tensor(context, VALUE_TAG, dp_io_string(tag, 0), dp_op_input(context, 1), &rest);
  dp_text_deinit(&rest);
  return status;
}

/* ---- Merging ---- */
static dp_status *check_tags(const dp_summary *summary) {
  dp_map *tags = dp_map_create();
  dp_status *status = NULL;
  for (size_t i = 0; i < summary->values.count && !status; ++i) {
    const char *tag = summary->values.items[i]->tag;
    if (tag[0] && dp_map_put(tags, tag, (void *)tag))
      status = DP_INVALID("Duplicate tag %s found in summary inputs", tag);
  }
  dp_map_destroy(tags);
  return status;
}

static dp_status *fill_merged(dp_op_context *context, const void *state, dp_summary *summary) {
  for (int32_t i = 0; i < context->input_count; ++i)
    for (int64_t j = 0; j < dp_tensor_elements(dp_op_input(context, i)); ++j)
      DP_RETURN_IF_ERROR(dp_summary_add_bytes(summary, dp_io_string(dp_op_input(context, i), j)));
  return check_tags(summary);
}

static dp_status *merge_compute(dp_op_context *context, void *state) {
  return make(context, state, fill_merged);
}

static const dp_kernel rows[] = {
    {.op = "ScalarSummary", .types = {{"T", DP_SET_REALS}}, .compute = scalar_compute},
    {.op = "HistogramSummary", .types = {{"T", DP_SET_REALS}}, .compute = histogram_compute},
    {.op = "ImageSummary",
     .state_size = sizeof(image_state),
     .create = image_create,
     .compute = image_compute},
    {.op = "AudioSummary",
     .state_size = sizeof(audio_state),
     .create = audio_create,
     .compute = audio_compute},
    {.op = "AudioSummaryV2",
     .state_size = sizeof(audio_state),
     .create = audio_create,
     .compute = audio_compute},
    {.op = "TensorSummary", .compute = tensor_compute},
    {.op = "TensorSummaryV2", .compute = tensor_v2_compute},
    {.op = "MergeSummary", .compute = merge_compute},
};
DP_KERNEL_FAMILY(summary, rows);
