/* Features of Example messages, parsed in place; the contracts are in example_internal.h. Values
 * are counted in one pass and copied in a second, so the caller allocates once. */
#include "kernels/data/example_internal.h"

#include <string.h>

/* ---- Values ---- */
static bool count_varints(dp_view bytes, int64_t *count) {
  size_t length = 0; /* of the number so far */
  for (size_t i = 0; i < bytes.length; ++i) {
    if (++length > 10)
      return false;
    if ((uint8_t)bytes.data[i] < 0x80) {
      ++*count;
      length = 0;
    }
  }
  return length == 0;
}

/* Counts the values in field 1 of a list: strings, or numbers that may be packed. Other fields are
 * skipped. */
static bool count_values(dp_feature *feature) {
  dp_view rest = feature->list;
  dp_message_field field;
  while (dp_message_next(&rest, &field)) {
    if (field.number != 1)
      continue;
    if (field.type == DP_MESSAGE_BYTES && feature->dtype == DP_FLOAT) {
      if (field.bytes.length % 4 != 0)
        return false;
      feature->count += (int64_t)(field.bytes.length / 4);
    } else if (field.type == DP_MESSAGE_BYTES && feature->dtype == DP_INT64) {
      if (!count_varints(field.bytes, &feature->count))
        return false;
    } else {
      dp_message_type wanted = feature->dtype == DP_STRING  ? DP_MESSAGE_BYTES
                               : feature->dtype == DP_FLOAT ? DP_MESSAGE_32
                                                            : DP_MESSAGE_VARINT;
      if (field.type != wanted)
        return false;
      ++feature->count;
    }
  }
  return rest.length == 0;
}

bool dp_feature_parse(dp_view bytes, dp_feature *feature_out) {
  static const dp_dtype dtypes[] = {0, DP_STRING, DP_FLOAT, DP_INT64};
  dp_feature feature = {0};
  dp_message_field field;
  dp_view rest = bytes;
  while (dp_message_next(&rest, &field)) {
    if (field.number < 1 || field.number > 3)
      continue;
    if (field.type != DP_MESSAGE_BYTES)
      return false;
    feature = (dp_feature){.dtype = dtypes[field.number], .list = field.bytes};
  }
  if (rest.length > 0 || !count_values(&feature))
    return false;
  *feature_out = feature;
  return true;
}

static void *copy_packed(dp_dtype dtype, dp_view bytes, void *to) {
  if (dtype == DP_FLOAT) {
    memcpy(to, bytes.data, bytes.length);
    return (char *)to + bytes.length;
  }
  int64_t *numbers = to;
  uint64_t value;
  while (dp_message_varint(&bytes, &value))
    *numbers++ = (int64_t)value;
  return numbers;
}

dp_status *dp_feature_copy(const dp_feature *feature, void *to) {
  dp_view rest = feature->list;
  dp_message_field field;
  while (dp_message_next(&rest, &field)) {
    if (field.number != 1)
      continue;
    if (feature->dtype == DP_STRING) {
      dp_tstring *string = to;
      DP_RETURN_IF_ERROR(dp_tstring_assign(string, field.bytes.data, field.bytes.length));
      to = string + 1;
    } else if (field.type == DP_MESSAGE_BYTES) {
      to = copy_packed(feature->dtype, field.bytes, to);
    } else if (feature->dtype == DP_FLOAT) {
      uint32_t bits = (uint32_t)field.value;
      memcpy(to, &bits, sizeof(bits));
      to = (float *)to + 1;
    } else {
      *(int64_t *)to = (int64_t)field.value;
      to = (int64_t *)to + 1;
    }
  }
  return NULL;
}

/* ---- Maps ---- */
static bool parse_entry(dp_view bytes, dp_feature_entry *entry_out) {
  dp_feature_entry entry = {{"", 0}, {"", 0}};
  dp_message_field field;
  while (dp_message_next(&bytes, &field)) {
    if (field.number > 2)
      continue;
    if (field.type != DP_MESSAGE_BYTES)
      return false;
    *(field.number == 1 ? &entry.key : &entry.value) = field.bytes;
  }
  *entry_out = entry;
  return bytes.length == 0;
}

static bool parse_map(dp_view bytes, dp_feature_entries *entries) {
  dp_message_field field;
  while (dp_message_next(&bytes, &field)) {
    dp_feature_entry entry;
    if (field.number != 1)
      continue;
    if (field.type != DP_MESSAGE_BYTES || !parse_entry(field.bytes, &entry))
      return false;
    DP_ARRAY_PUSH(entries, entry);
  }
  return bytes.length == 0;
}

bool dp_feature_entries_parse(dp_view message, uint32_t number, dp_feature_entries *entries) {
  dp_message_field field;
  while (dp_message_next(&message, &field)) {
    if (field.number != number)
      continue;
    if (field.type != DP_MESSAGE_BYTES || !parse_map(field.bytes, entries))
      return false;
  }
  return message.length == 0;
}
