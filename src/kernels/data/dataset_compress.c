/* CompressElement and UncompressElement: all components of an element, compressed together with
 * Snappy into one variant. Plain tensors are compressed as their bytes, others as TensorProtos. A
 * compressed element cannot leave its process. */
#include <string.h>
#include "base/memory.h"
#include "kernels/shared/family.h"
#include "storage/snappy.h"
#include "wire/tensor_codec.h"

typedef struct packed_component {
  dp_dtype dtype;
  dp_shape shape;
  size_t size; /* bytes before compression */
} packed_component;

typedef struct packed_element {
  uint8_t *data;
  size_t length;
  size_t unpacked; /* sum of the sizes of the components */
  int32_t count;
  packed_component components[];
} packed_element;

static void packed_destroy(void *object) {
  dp_free(((packed_element *)object)->data);
  dp_free(object);
}

static const dp_variant_ops packed_variant = {
    .type_name = "tensorflow.data.CompressedElement",
    .destroy = packed_destroy,
};

/* ---- Packing ---- */
/* Appends a component's bytes. A plain tensor is added by reference, so it must outlive `bytes`. */
static dp_status *gather(const dp_tensor *tensor, packed_component *component, dp_rope *bytes) {
  size_t before = bytes->length;
  component->dtype = tensor->dtype;
  component->shape = tensor->shape;
  if (dp_dtype_is_plain(tensor->dtype))
    dp_rope_append_piece(bytes, NULL, tensor->data,
                         (size_t)tensor->shape.elements * dp_dtype_size(tensor->dtype));
  else
    DP_RETURN_IF_ERROR(dp_wire_encode_tensor(tensor, bytes));
  component->size = bytes->length - before;
  return NULL;
}

static dp_status *pack(const dp_rope *bytes, packed_element *element) {
  element->unpacked = bytes->length;
  if (element->unpacked > UINT32_MAX)
    return DP_INVALID("An element of %zu bytes is too large to be compressed", element->unpacked);
  uint8_t *plain = dp_try_malloc(element->unpacked + 1);
  uint8_t *packed = dp_try_malloc(dp_snappy_most(element->unpacked));
  dp_status *status = plain && packed ? NULL : dp_status_out_of_memory();
  if (!status) {
    dp_rope_flatten(bytes, plain);
    element->length = dp_snappy_pack(plain, element->unpacked, packed);
    element->data = dp_realloc(packed, element->length);
    packed = NULL;
  }
  dp_free(plain);
  dp_free(packed);
  return status;
}

static dp_status *compress_compute(dp_op_context *context, void *state) {
  dp_shape scalar = dp_shape_scalar();
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &scalar, &output));
  packed_element *element =
      dp_calloc(1, sizeof *element + sizeof(packed_component) * (size_t)context->input_count);
  element->count = context->input_count;
  dp_rope bytes = {0};
  dp_status *status = NULL;
  for (int32_t i = 0; i < element->count && !status; ++i)
    status = gather(dp_op_input(context, i), &element->components[i], &bytes);
  if (!status)
    status = pack(&bytes, element);
  dp_rope_deinit(&bytes);
  if (status)
    packed_destroy(element);
  else
    dp_tensor_variants(output)[0] = dp_variant_create(&packed_variant, element);
  return status;
}

/* ---- Unpacking ---- */
static dp_status *find_packed(const dp_tensor *input, const packed_element **element_out) {
  if (input->shape.rank != 0)
    return DP_INVALID("UncompressElement requires its input to be a scalar, but encountered an "
                      "input with %d dimensions.",
                      input->shape.rank);
  const dp_variant *variant = dp_tensor_variants(input)[0];
  if (!variant || variant->ops != &packed_variant)
    return DP_INVALID("Input does not contain a compressed element.");
  *element_out = variant->object;
  return NULL;
}

static dp_status *output_component(dp_op_context *context, int32_t index,
                                   const packed_component *component, const uint8_t *bytes) {
  dp_tensor *output = &context->outputs[index].tensor;
  if (component->dtype != dp_op_output_type(context, index))
    return dp_status_create(
        DP_FAILED_PRECONDITION, "Expected a tensor of type %s but got a tensor of type %s",
        dp_dtype_name(dp_op_output_type(context, index)), dp_dtype_name(component->dtype));
  if (!dp_dtype_is_plain(component->dtype))
    return dp_wire_decode_tensor_bytes(bytes, component->size, output);
  DP_RETURN_IF_ERROR(dp_tensor_create(component->dtype, &component->shape, output));
  if (component->size > 0)
    memcpy(output->data, bytes, component->size);
  return NULL;
}

static dp_status *uncompress_compute(dp_op_context *context, void *state) {
  const packed_element *element;
  DP_RETURN_IF_ERROR(find_packed(dp_op_input(context, 0), &element));
  if (element->count != context->output_count)
    return dp_status_create(DP_FAILED_PRECONDITION,
                            "Expected %d outputs from uncompress, but got %d",
                            context->output_count, element->count);
  uint8_t *bytes = dp_try_malloc(element->unpacked + 1);
  if (!bytes)
    return dp_status_out_of_memory();
  dp_status *status =
      dp_snappy_unpack(element->data, element->length, bytes, element->unpacked)
          ? NULL
          : dp_status_create(DP_INTERNAL, "Failed to perform snappy decompression.");
  size_t at = 0;
  for (int32_t i = 0; i < element->count && !status; at += element->components[i++].size)
    status = output_component(context, i, &element->components[i], bytes + at);
  dp_free(bytes);
  return status;
}

static const dp_kernel rows[] = {
    {.op = "CompressElement", .compute = compress_compute},
    {.op = "UncompressElement", .compute = uncompress_compute},
};
DP_KERNEL_FAMILY(dataset_compress, rows);
