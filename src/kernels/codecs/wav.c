/* WAV files of 16-bit PCM samples. Encoding rounds floats in [-1, 1) to 16 bits and clips. Parsing
 * checks every size against the data and copies nothing; its errors are TensorFlow's. */
#include <math.h>
#include <string.h>
#include "kernels/codecs/codec.h"

#define HEAD_SIZE 44

static void add_number(dp_text *out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i)
    dp_text_add_char(out, (char)(value >> (8 * i)));
}

dp_status *dp_wav_encode(const float *samples, uint64_t rate, uint64_t channels, uint64_t frames,
                         dp_text *out) {
  if (rate == 0 || rate > UINT32_MAX)
    return DP_INVALID("sample_rate must be in (0, 2^32), got: %llu", (unsigned long long)rate);
  if (channels == 0 || channels > UINT16_MAX)
    return DP_INVALID("num_channels must be in (0, 2^16), got: %llu", (unsigned long long)channels);
  uint64_t bytes = frames * channels * 2;
  if (frames > UINT32_MAX || bytes > UINT32_MAX - HEAD_SIZE)
    return DP_INVALID("Provided channels and frames cannot be encoded as a WAV.");
  dp_text_add(out, "RIFF");
  add_number(out, HEAD_SIZE + bytes - 8, 4);
  dp_text_add(out, "WAVEfmt ");
  add_number(out, 16, 4);
  add_number(out, 1, 2);
  add_number(out, channels, 2);
  add_number(out, rate, 4);
  add_number(out, rate * channels * 2, 4);
  add_number(out, channels * 2, 2);
  add_number(out, 16, 2);
  dp_text_add(out, "data");
  add_number(out, bytes, 4);
  for (uint64_t i = 0; i < frames * channels; ++i) {
    float sample = roundf(samples[i] * 32768.0f);
    sample = sample < -32768.0f ? -32768.0f : sample > 32767.0f ? 32767.0f : sample;
    add_number(out, (uint16_t)(int16_t)sample, 2);
  }
  return NULL;
}

/* ---- Reading ---- */
typedef struct cursor {
  const uint8_t *data;
  size_t length, offset;
} cursor;

static dp_status *need(const cursor *cursor, size_t count) {
  if (cursor->offset > cursor->length)
    return DP_INVALID("Initial offset is outside data range: %zu", cursor->offset);
  if (cursor->length - cursor->offset < count)
    return DP_INVALID("Data too short when trying to read string");
  return NULL;
}

static dp_status *expect(cursor *cursor, const char *text) {
  size_t length = strlen(text);
  DP_RETURN_IF_ERROR(need(cursor, length));
  if (memcmp(cursor->data + cursor->offset, text, length) != 0)
    return DP_INVALID("Header mismatch: Expected %s but found %.*s", text, (int)length,
                      (const char *)cursor->data + cursor->offset);
  cursor->offset += length;
  return NULL;
}

static dp_status *read_number(cursor *cursor, int bytes, uint32_t *value_out) {
  DP_RETURN_IF_ERROR(need(cursor, (size_t)bytes));
  uint32_t value = 0;
  for (int i = 0; i < bytes; ++i)
    value |= (uint32_t)cursor->data[cursor->offset + (size_t)i] << (8 * i);
  cursor->offset += (size_t)bytes;
  *value_out = value;
  return NULL;
}

static dp_status *read_format(cursor *cursor, dp_wav *wav, uint32_t *frame_bytes) {
  uint32_t size, format, channels, rate, per_second, per_frame, bits;
  DP_RETURN_IF_ERROR(expect(cursor, "RIFF"));
  DP_RETURN_IF_ERROR(read_number(cursor, 4, &size));
  DP_RETURN_IF_ERROR(expect(cursor, "WAVE"));
  DP_RETURN_IF_ERROR(expect(cursor, "fmt "));
  DP_RETURN_IF_ERROR(read_number(cursor, 4, &size));
  if (size != 16 && size != 18)
    return DP_INVALID("Bad file size for WAV: Expected 16 or 18, but got%u", size);
  DP_RETURN_IF_ERROR(read_number(cursor, 2, &format));
  if (format != 1)
    return DP_INVALID("Bad audio format for WAV: Expected 1 (PCM), but got%u", format);
  DP_RETURN_IF_ERROR(read_number(cursor, 2, &channels));
  if (channels < 1)
    return DP_INVALID("Bad number of channels for WAV: Expected at least 1, but got %u", channels);
  DP_RETURN_IF_ERROR(read_number(cursor, 4, &rate));
  DP_RETURN_IF_ERROR(read_number(cursor, 4, &per_second));
  DP_RETURN_IF_ERROR(read_number(cursor, 2, &per_frame));
  DP_RETURN_IF_ERROR(read_number(cursor, 2, &bits));
  if (bits != 16)
    return DP_INVALID("Can only read 16-bit WAV files, but received %u", bits);
  if (per_frame != channels * 2)
    return DP_INVALID("Bad bytes per sample in WAV header: Expected %u but got %u", channels * 2,
                      per_frame);
  if (per_second != per_frame * rate)
    return DP_INVALID("Bad bytes per second in WAV header: Expected %u but got %u (sample_rate=%u, "
                      "bytes_per_sample=%u)",
                      per_frame * rate, per_second, rate, per_frame);
  if (size == 18)
    cursor->offset += 2;
  wav->channels = (uint16_t)channels;
  wav->rate = rate;
  *frame_bytes = per_frame;
  return NULL;
}

dp_status *dp_wav_parse(dp_view data, dp_wav *wav_out) {
  cursor cursor = {(const uint8_t *)data.data, data.length, 0};
  dp_wav wav = {0};
  uint32_t frame_bytes, size;
  DP_RETURN_IF_ERROR(read_format(&cursor, &wav, &frame_bytes));
  while (cursor.offset < cursor.length) {
    DP_RETURN_IF_ERROR(need(&cursor, 4));
    const char *name = (const char *)cursor.data + cursor.offset;
    cursor.offset += 4;
    DP_RETURN_IF_ERROR(read_number(&cursor, 4, &size));
    if (size > INT32_MAX)
      return DP_INVALID("WAV data chunk '%.4s' is too large: %u bytes, but the limit is %d", name,
                        size, INT32_MAX);
    if (memcmp(name, "data", 4) != 0) {
      cursor.offset += size;
      continue;
    }
    if (wav.samples)
      return DP_INVALID("More than one data chunk found in WAV");
    wav.frames = size / frame_bytes;
    size_t bytes = (size_t)wav.frames * frame_bytes;
    DP_RETURN_IF_ERROR(need(&cursor, bytes));
    wav.samples = cursor.data + cursor.offset;
    cursor.offset += bytes;
  }
  if (!wav.samples)
    return DP_INVALID("No data chunk found in WAV");
  *wav_out = wav;
  return NULL;
}
