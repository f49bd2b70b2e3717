/* Images as files: decoding of JPEG, PNG, GIF and BMP, and encoding of JPEG and PNG. As in
 * TensorFlow, DecodeJpeg, DecodePng and DecodeGif accept each other's formats. BMP is accepted only
 * by DecodeBmp, which accepts nothing else, and by DecodeImage; DecodeAndCropJpeg accepts only
 * JPEG. */
#include <stdlib.h>
#include <string.h>
#include "kernels/codecs/codec.h"
#include "kernels/shared/family.h"
#include "kernels/shared/io.h"
#include "kernels/shared/support.h"

typedef enum image_format { UNKNOWN, JPEG, PNG, GIF, BMP, WEBP } image_format;

static image_format format_of(dp_view data) {
  if (dp_view_starts_with(data, "\xff\xd8\xff"))
    return JPEG;
  if (dp_view_starts_with(data, "\x89PNG\r\n\x1a\n"))
    return PNG;
  if (dp_view_starts_with(data, "GIF8"))
    return GIF;
  if (dp_view_starts_with(data, "BM"))
    return BMP;
  if (data.length > 12 && dp_view_starts_with(data, "RIFF") &&
      memcmp(data.data + 8, "WEBP", 4) == 0)
    return WEBP;
  return UNKNOWN;
}

typedef struct decode_state {
  const char *op;
  int channels;
  dp_dtype dtype;
  bool expand_animations;
  dp_jpeg_options jpeg;
} decode_state;

/* ---- Attributes ---- */
static dp_status *read_jpeg_attributes(const dp_node *node, dp_jpeg_options *jpeg) {
  int64_t ratio;
  dp_view method;
  DP_RETURN_IF_ERROR(dp_node_get_int(node, "ratio", &ratio));
  if (ratio != 1 && ratio != 2 && ratio != 4 && ratio != 8)
    return DP_INVALID("ratio must be 1, 2, 4, or 8, got %lld", (long long)ratio);
  jpeg->ratio = (int)ratio;
  DP_RETURN_IF_ERROR(dp_node_get_bool(node, "fancy_upscaling", &jpeg->fancy_upscaling));
  DP_RETURN_IF_ERROR(dp_node_get_bool(node, "try_recover_truncated", &jpeg->recover_truncated));
  DP_RETURN_IF_ERROR(dp_node_get_float(node, "acceptable_fraction", &jpeg->acceptable_fraction));
  DP_RETURN_IF_ERROR(dp_node_get_string(node, "dct_method", &method));
  jpeg->is_accurate = dp_view_equals(method, "INTEGER_ACCURATE");
  if (method.length > 0 && !jpeg->is_accurate && !dp_view_equals(method, "INTEGER_FAST"))
    return DP_INVALID("dct_method must be one of {'', 'INTEGER_FAST', 'INTEGER_ACCURATE'}");
  return NULL;
}

static dp_status *decode_create(const dp_kernel_setup *setup, void *state) {
  decode_state *decode = state;
  const dp_node *node = setup->node;
  decode->op = node->op->name;
  decode->dtype = DP_UINT8;
  decode->expand_animations = true;
  decode->jpeg =
      (dp_jpeg_options){.ratio = 1, .fancy_upscaling = true, .acceptable_fraction = 1.0f};
  if (dp_node_attr(node, "ratio"))
    DP_RETURN_IF_ERROR(read_jpeg_attributes(node, &decode->jpeg));
  if (dp_node_attr(node, "dtype"))
    DP_RETURN_IF_ERROR(dp_node_get_type(node, "dtype", &decode->dtype));
  if (dp_node_attr(node, "expand_animations"))
    DP_RETURN_IF_ERROR(dp_node_get_bool(node, "expand_animations", &decode->expand_animations));
  int64_t channels = 3;
  if (dp_node_attr(node, "channels"))
    DP_RETURN_IF_ERROR(dp_node_get_int(node, "channels", &channels));
  if (channels != 0 && channels != 1 && channels != 3 && channels != 4)
    return DP_INVALID("`channels` must be 0, 1, 3 or 4 but got %lld", (long long)channels);
  decode->channels = (int)channels;
  return NULL;
}

static bool is_op(const decode_state *state, const char *op) {
  return strcmp(state->op, op) == 0;
}

/* ---- Output ---- */
typedef struct output {
  dp_op_context *context;
  const decode_state *state;
  dp_status *status;
  dp_tensor *tensor;
  uint8_t *bytes; /* where 8-bit pixels go: the tensor, or memory of our own */
  int64_t count;
} output;

static dp_status *allocate_tensor(output *output, const dp_image_size *size) {
  int64_t dims[4] = {size->frames, size->height, size->width, size->channels};
  bool has_frames = is_op(output->state, "DecodeGif");
  if (size->frames > 1 || (has_frames && size->frames == 1))
    has_frames = true;
  dp_shape shape;
  DP_RETURN_IF_ERROR(dp_shape_make(has_frames ? 4 : 3, has_frames ? dims : dims + 1, &shape));
  DP_RETURN_IF_ERROR(dp_op_allocate(output->context, 0, &shape, &output->tensor));
  output->count = shape.elements;
  return NULL;
}

static uint8_t *allocate_pixels(void *arg, const dp_image_size *size) {
  output *output = arg;
  output->status = allocate_tensor(output, size);
  if (output->status)
    return NULL;
  output->bytes = output->state->dtype == DP_UINT8 ? output->tensor->data
                                                   : dp_try_malloc((size_t)output->count + 1);
  return output->bytes;
}

/* A GIF has a dimension for frames when the op is DecodeGif or DecodeImage. */
static uint8_t *allocate_frames(void *arg, const dp_image_size *size) {
  output *output = arg;
  const decode_state *state = output->state;
  bool is_image = is_op(state, "DecodeImage");
  if (!is_image && !is_op(state, "DecodeGif") && size->frames > 1) {
    output->status = DP_INVALID("Got %d frames, but animated gifs can only be decoded by "
                                "tf.io.decode_gif or tf.io.decode_image",
                                size->frames);
    return NULL;
  }
  if (!is_image || !state->expand_animations)
    return allocate_pixels(arg, size);
  int64_t dims[4] = {size->frames, size->height, size->width, size->channels};
  dp_shape shape;
  output->status = dp_shape_make(4, dims, &shape);
  if (!output->status)
    output->status = dp_op_allocate(output->context, 0, &shape, &output->tensor);
  if (output->status)
    return NULL;
  output->count = shape.elements;
  output->bytes =
      state->dtype == DP_UINT8 ? output->tensor->data : dp_try_malloc((size_t)output->count + 1);
  return output->bytes;
}

/* Bytes to the wanted dtype. */
static void finish(output *output) {
  if (!output->bytes || output->state->dtype == DP_UINT8)
    return;
  for (int64_t i = 0; i < output->count; ++i) {
    if (output->state->dtype == DP_UINT16)
      ((uint16_t *)output->tensor->data)[i] = (uint16_t)(output->bytes[i] * 256);
    else
      ((float *)output->tensor->data)[i] = (float)output->bytes[i] * (float)(1.0 / 255);
  }
  dp_free(output->bytes);
}

/* The decoder's error, or the error of the allocation. */
static dp_status *result_of(output *output, dp_status *status) {
  if (output->status) {
    dp_status_release(status);
    status = output->status;
  }
  if (!status)
    finish(output);
  else if (output->state->dtype != DP_UINT8)
    dp_free(output->bytes);
  return status;
}

/* ---- Formats ---- */
/* Checks whether the op may decode the format; each format is checked at another time, as in
 * TensorFlow. */
static dp_status *check_op(const decode_state *state, image_format format) {
  static const char *const names[] = {"", "JPEG", "PNG", "GIF", "BMP"};
  static const char *const ops[] = {"", "decode_jpeg", "decode_png", "decode_gif", "decode_bmp"};
  if (format != BMP && is_op(state, "DecodeBmp"))
    return DP_INVALID("Trying to decode %s format using DecodeBmp op. Use `%s` or `decode_image` "
                      "instead.",
                      names[format], ops[format]);
  if (format != JPEG && is_op(state, "DecodeAndCropJpeg"))
    return DP_INVALID("DecodeAndCropJpeg operation can run on JPEG only, but detected %s.",
                      names[format]);
  if (format == BMP && !is_op(state, "DecodeBmp") && !is_op(state, "DecodeImage"))
    return DP_INVALID("Trying to decode BMP format using a wrong op. Use `decode_bmp` or "
                      "`decode_image` instead. Op used: %s",
                      state->op);
  return NULL;
}

static dp_status *decode_jpeg(output *output, dp_view data) {
  const decode_state *state = output->state;
  if (state->channels == 4)
    return DP_INVALID("JPEG does not support 4 channels");
  DP_RETURN_IF_ERROR(check_op(state, JPEG));
  dp_jpeg_options options = state->jpeg;
  options.channels = state->channels;
  if (is_op(state, "DecodeAndCropJpeg")) {
    const dp_tensor *window = dp_op_input(output->context, 1);
    if (window->shape.rank != 1)
      return DP_INVALID("crop_window must be 1-D, got shape %s", dp_shape_text(&window->shape));
    if (window->shape.dims[0] != 4)
      return DP_INVALID("crop_size must have four elements %s", dp_shape_text(&window->shape));
    const int32_t *values = window->data;
    options.has_crop = true;
    options.crop_y = values[0];
    options.crop_x = values[1];
    options.crop_height = values[2];
    options.crop_width = values[3];
  }
  dp_status *status = dp_jpeg_decode(data, &options, allocate_pixels, output);
  if (dp_status_code(status) == DP_INVALID_ARGUMENT)
    status =
        dp_status_annotate(status, "jpeg::Uncompress failed. Invalid JPEG data or crop window.");
  return result_of(output, status);
}

static dp_status *decode_png(output *output, dp_view data) {
  const decode_state *state = output->state;
  dp_image_size size;
  dp_status *status = dp_png_size(data, state->channels, &size);
  if (status)
    return dp_status_annotate(status, "Invalid PNG. Failed to initialize decoder.");
  if (size.width >= (1LL << 27) || size.height >= (1LL << 27) ||
      size.width * size.height >= (1LL << 29))
    return DP_INVALID("PNG size too large for int: %lld by %lld", (long long)size.width,
                      (long long)size.height);
  DP_RETURN_IF_ERROR(check_op(state, PNG));
  DP_RETURN_IF_ERROR(allocate_tensor(output, &size));
  void *pixels = output->tensor->data;
  if (state->dtype == DP_FLOAT && !(pixels = dp_try_malloc((size_t)output->count * 2)))
    return dp_status_out_of_memory();
  status = dp_png_decode(data, state->channels, state->dtype == DP_UINT8 ? 8 : 16, pixels);
  if (state->dtype == DP_FLOAT) {
    for (int64_t i = 0; i < output->count && !status; ++i)
      ((float *)output->tensor->data)[i] = (float)((uint16_t *)pixels)[i] * (float)(1.0 / 65535);
    dp_free(pixels);
  }
  return dp_status_annotate(status, "Invalid PNG data, size %zu", data.length);
}

static dp_status *decode_gif(output *output, dp_view data) {
  const decode_state *state = output->state;
  if (state->channels != 0 && state->channels != 3)
    return DP_INVALID("channels must be 0 or 3 for GIF, got %d", state->channels);
  DP_RETURN_IF_ERROR(check_op(state, GIF));
  dp_status *status = dp_gif_decode(data, state->expand_animations, allocate_frames, output);
  if (dp_status_code(status) == DP_INVALID_ARGUMENT) {
    dp_status *what = status;
    status = DP_INVALID("Invalid GIF data (size %zu), %s", data.length, dp_status_message(what));
    dp_status_release(what);
  }
  return result_of(output, status);
}

static int32_t get32(dp_view data, size_t at) {
  int32_t value;
  memcpy(&value, data.data + at, sizeof value);
  return value;
}

static void draw_bmp(const uint8_t *from, int64_t row_size, int64_t width, int64_t height,
                     int file_channels, int channels, bool top_down, uint8_t *to) {
  for (int64_t y = 0; y < height; ++y) {
    const uint8_t *row = from + (top_down ? y : height - 1 - y) * row_size;
    for (int64_t x = 0; x < width; ++x, to += channels) {
      const uint8_t *pixel = row + x * file_channels;
      if (file_channels == 1) {
        memset(to, pixel[0], (size_t)(channels < 3 ? channels : 3));
      } else { /* blue first */
        to[0] = pixel[2];
        to[1] = pixel[1];
        to[2] = pixel[0];
      }
      if (channels == 4)
        to[3] = file_channels == 4 ? pixel[3] : 255;
    }
  }
}

static dp_status *decode_bmp(output *output, dp_view data) {
  const decode_state *state = output->state;
  if (state->channels == 1)
    return DP_INVALID("`channels` must be 0, 3 or 4 for BMP, but got 1");
  DP_RETURN_IF_ERROR(check_op(state, BMP));
  if (data.length < 32)
    return DP_INVALID("Incomplete bmp content, requires at least 32 bytes to find the header size, "
                      "width, height, and bpp, got %zu bytes",
                      data.length);
  int64_t header = get32(data, 10), width = get32(data, 18), height = get32(data, 22);
  int file_channels = (int16_t)(get32(data, 28) & 0xffff) / 8;
  if (file_channels != 1 && file_channels != 3 && file_channels != 4)
    return DP_INVALID("Number of channels inherent in the image must be 1, 3 or 4, was %d",
                      file_channels);
  int channels = state->channels ? state->channels : file_channels;
  if (width <= 0)
    return DP_INVALID("Width must be positive");
  if (height == 0)
    return DP_INVALID("Height must be nonzero");
  if (header < 0)
    return DP_INVALID("header size must be nonnegative");
  int64_t rows = height < 0 ? -height : height;
  if (width * rows >= INT32_MAX / 8)
    return DP_INVALID("Total possible pixel bytes must be less than 2^30");
  int64_t row_size = (file_channels * width + 3) / 4 * 4;
  int64_t difference = (int64_t)data.length - header - row_size * rows;
  if (difference != 0)
    return DP_INVALID("Input size should match (header_size + row_size * abs_height) but they "
                      "differ by %lld",
                      (long long)difference);
  dp_image_size size = {width, rows, channels, 1};
  uint8_t *to = allocate_pixels(output, &size);
  if (to)
    draw_bmp((const uint8_t *)data.data + header, row_size, width, rows, file_channels, channels,
             height < 0, to);
  return result_of(output, to ? NULL : dp_status_out_of_memory());
}

static dp_status *decode_compute(dp_op_context *context, void *state) {
  const dp_tensor *contents = dp_op_input(context, 0);
  if (contents->shape.rank != 0)
    return DP_INVALID("`contents` must be scalar but got shape%s", dp_shape_text(&contents->shape));
  dp_view data = dp_io_string(contents, 0);
  if (data.length == 0)
    return DP_INVALID("Input is empty.");
  if (data.length > INT32_MAX)
    return DP_INVALID("Input contents are too large for int: %zu", data.length);
  output output = {.context = context, .state = state};
  switch (format_of(data)) {
  case JPEG:
    return decode_jpeg(&output, data);
  case PNG:
    return decode_png(&output, data);
  case GIF:
    return decode_gif(&output, data);
  case BMP:
    return decode_bmp(&output, data);
  case WEBP:
    return dp_status_create(DP_UNIMPLEMENTED, "WebP images cannot be decoded");
  default:
    return DP_INVALID("Unknown image file format. One of JPEG, PNG, GIF, BMP required.");
  }
}

/* ---- The shape of a JPEG ---- */
static dp_status *jpeg_shape_compute(dp_op_context *context, void *state) {
  const dp_tensor *contents = dp_op_input(context, 0);
  if (contents->shape.rank != 0)
    return DP_INVALID("contents must be scalar, got shape %s", dp_shape_text(&contents->shape));
  dp_view data = dp_io_string(contents, 0);
  dp_image_size size;
  dp_status *status = dp_jpeg_size(data, &size);
  if (status)
    return dp_status_annotate(status, "Invalid JPEG data, size %zu", data.length);
  dp_shape shape = dp_shape_vector(3);
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  int64_t values[3] = {size.height, size.width, size.channels};
  for (int i = 0; i < 3; ++i) {
    if (output->dtype == DP_INT32)
      ((int32_t *)output->data)[i] = (int32_t)values[i];
    else
      ((int64_t *)output->data)[i] = values[i];
  }
  return NULL;
}

/* ---- Encoding ---- */
static dp_status *check_image(const dp_tensor *image) {
  if (image->shape.rank != 3)
    return DP_INVALID("image must be 3-dimensional%s", dp_shape_text(&image->shape));
  if (dp_tensor_elements(image) >= INT32_MAX)
    return DP_INVALID("Cannot encode images with >= max int32 elements");
  return NULL;
}

typedef struct encode_state {
  int64_t compression;        /* PNG */
  int channels;               /* JPEG: 0 as the image */
  dp_view format;             /* JPEG */
  dp_jpeg_write_options jpeg; /* JPEG */
} encode_state;

static dp_status *encode_png_create(const dp_kernel_setup *setup, void *state) {
  encode_state *encode = state;
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "compression", &encode->compression));
  if (encode->compression < -1 || encode->compression > 9)
    return DP_INVALID("compression should be in [-1,9], got %lld", (long long)encode->compression);
  return NULL;
}

/* All images of a batch have the same size, so none of them can be encoded. */
static dp_status *encoding_failed(int64_t count) {
  dp_text text = {0};
  for (int64_t i = 0; i < count; ++i)
    dp_text_printf(&text, "%s%lld", i ? ", " : "", (long long)i);
  dp_status *status = dp_status_create(
      DP_INTERNAL, "PNG encoding failed at the following flattened batch indices: %s",
      dp_text_string(&text));
  dp_text_deinit(&text);
  return status;
}

/* Encodes each of a batch of images, or the one. */
static dp_status *encode_png_compute(dp_op_context *context, void *state) {
  const encode_state *encode = state;
  const dp_tensor *image = dp_op_input(context, 0);
  int rank = image->shape.rank;
  if (rank < 3)
    return DP_INVALID("images must be at least rank 3%s", dp_shape_text(&image->shape));
  if (dp_tensor_elements(image) >= INT32_MAX)
    return DP_INVALID("image cannot have >= int32 max elements");
  int64_t height = image->shape.dims[rank - 3], width = image->shape.dims[rank - 2];
  int64_t channels = image->shape.dims[rank - 1];
  if (channels < 1 || channels > 4)
    return DP_INVALID("image must have 1, 2, 3, or 4 channels, got %lld", (long long)channels);
  if (width * channels >= INT32_MAX / 2)
    return DP_INVALID("image too wide to encode");
  dp_shape shape = dp_shape_of(rank - 3, image->shape.dims);
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  int bits = image->dtype == DP_UINT8 ? 8 : 16;
  for (int64_t i = 0; i < shape.elements; ++i) {
    dp_text png = {0};
    const char *from = (const char *)image->data + i * height * width * channels * bits / 8;
    dp_status *status =
        dp_png_encode(from, width, height, (int)channels, bits, (int)encode->compression, &png);
    if (status) {
      dp_status_release(status);
      status = encoding_failed(shape.elements);
    } else {
      status = dp_tstring_assign(&dp_tensor_strings(output)[i], png.data, png.length);
    }
    dp_text_deinit(&png);
    DP_RETURN_IF_ERROR(status);
  }
  return NULL;
}

static dp_status *encode_jpeg_create(const dp_kernel_setup *setup, void *state) {
  encode_state *encode = state;
  const dp_node *node = setup->node;
  dp_view unit;
  int64_t quality, x, y;
  DP_RETURN_IF_ERROR(dp_node_get_string(node, "format", &encode->format));
  encode->channels = dp_view_equals(encode->format, "grayscale") ? 1
                     : dp_view_equals(encode->format, "rgb")     ? 3
                                                                 : 0;
  DP_RETURN_IF_ERROR(dp_node_get_int(node, "quality", &quality));
  if (quality < 0 || quality > 100)
    return DP_INVALID("quality must be in [0,100], got %lld", (long long)quality);
  DP_RETURN_IF_ERROR(dp_node_get_bool(node, "progressive", &encode->jpeg.progressive));
  DP_RETURN_IF_ERROR(dp_node_get_bool(node, "optimize_size", &encode->jpeg.optimize_size));
  DP_RETURN_IF_ERROR(
      dp_node_get_bool(node, "chroma_downsampling", &encode->jpeg.downsample_chroma));
  DP_RETURN_IF_ERROR(dp_node_get_string(node, "density_unit", &unit));
  DP_RETURN_IF_ERROR(dp_node_get_int(node, "x_density", &x));
  DP_RETURN_IF_ERROR(dp_node_get_int(node, "y_density", &y));
  DP_RETURN_IF_ERROR(dp_node_get_string(node, "xmp_metadata", &encode->jpeg.metadata));
  encode->jpeg.quality = (int)quality;
  encode->jpeg.density_unit = dp_view_equals(unit, "cm") ? 2 : 1;
  encode->jpeg.x_density = (int)x;
  encode->jpeg.y_density = (int)y;
  return NULL;
}

static dp_status *encode_jpeg(dp_op_context *context, const encode_state *encode) {
  const dp_tensor *image = dp_op_input(context, 0);
  DP_RETURN_IF_ERROR(check_image(image));
  int64_t channels = image->shape.dims[2];
  if (encode->channels == 0 && channels != 1 && channels != 3)
    return DP_INVALID("image must have 1 or 3 channels, got %s", dp_shape_text(&image->shape));
  if (encode->channels != 0 && encode->channels != channels)
    return DP_INVALID("format %.*s expects %d channels, got %s", (int)encode->format.length,
                      encode->format.data, encode->channels, dp_shape_text(&image->shape));
  dp_text jpeg = {0};
  dp_status *status = dp_jpeg_encode(image->data, image->shape.dims[1], image->shape.dims[0],
                                     (int)channels, &encode->jpeg, &jpeg);
  if (dp_status_code(status) == DP_INTERNAL)
    status = dp_status_annotate(status, "JPEG encoding failed");
  if (!status)
    status = dp_io_output_string(context, 0, jpeg.data, jpeg.length);
  dp_text_deinit(&jpeg);
  return status;
}

static dp_status *encode_jpeg_compute(dp_op_context *context, void *state) {
  return encode_jpeg(context, state);
}

static dp_status *encode_jpeg_quality_compute(dp_op_context *context, void *state) {
  const dp_tensor *quality = dp_op_input(context, 1);
  DP_RETURN_IF_ERROR(check_image(dp_op_input(context, 0)));
  if (quality->shape.rank != 0)
    return DP_INVALID("quality must be scalar: %s", dp_shape_text(&quality->shape));
  int32_t value = *(const int32_t *)quality->data;
  if (value < 0 || value > 100)
    return DP_INVALID("quality must be in [0,100], got %d", value);
  encode_state encode = {.jpeg = {.quality = value,
                                  .downsample_chroma = true,
                                  .density_unit = 1,
                                  .x_density = 300,
                                  .y_density = 300}};
  return encode_jpeg(context, &encode);
}

#define DECODER(name)                                                                              \
  {                                                                                                \
    .op = name, .state_size = sizeof(decode_state), .create = decode_create,                       \
    .compute = decode_compute                                                                      \
  }
static const dp_kernel rows[] = {
    DECODER("DecodeJpeg"),
    DECODER("DecodeAndCropJpeg"),
    DECODER("DecodePng"),
    DECODER("DecodeGif"),
    DECODER("DecodeBmp"),
    DECODER("DecodeImage"),
    {.op = "ExtractJpegShape",
     .types = {{"output_type", DP_SET_INDEX}},
     .compute = jpeg_shape_compute},
    {.op = "EncodePng",
     .types = {{"T", DP_SET(UINT8) | DP_SET(UINT16)}},
     .state_size = sizeof(encode_state),
     .create = encode_png_create,
     .compute = encode_png_compute},
    {.op = "EncodeJpeg",
     .state_size = sizeof(encode_state),
     .create = encode_jpeg_create,
     .compute = encode_jpeg_compute},
    {.op = "EncodeJpegVariableQuality", .compute = encode_jpeg_quality_compute},
};
DP_KERNEL_FAMILY(image_io, rows);
