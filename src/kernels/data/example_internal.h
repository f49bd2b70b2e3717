/* Example messages: TensorFlow's maps from names to features. They are parsed in place, from bytes
 * that are not trusted.
 *
 * A message is walked once. The results are views into it; their contents are checked and counted
 * before memory is allocated for them. Functions keep no state and no memory. */
#ifndef DP_KERNELS_DATA_EXAMPLE_INTERNAL_H
#define DP_KERNELS_DATA_EXAMPLE_INTERNAL_H

#include "base/memory.h"
#include "kernels/shared/message.h"
#include "tensor/tensor.h"

/* The values of one Feature message. */
typedef struct dp_feature {
  dp_dtype dtype; /* DP_STRING, DP_FLOAT or DP_INT64; 0 when the feature holds no list */
  int64_t count;
  dp_view list; /* the BytesList, FloatList or Int64List */
} dp_feature;

/* Reads a Feature; checks and counts its values. False when the bytes are malformed. */
bool dp_feature_parse(dp_view bytes, dp_feature *feature_out);
/* Writes all values to `to`: floats, int64s, or initialized strings. */
DP_MUST_USE dp_status *dp_feature_copy(const dp_feature *feature, void *to);

/* An entry of a map from names to messages, not yet parsed. */
typedef struct dp_feature_entry {
  dp_view key, value;
} dp_feature_entry;
typedef DP_ARRAY(dp_feature_entry) dp_feature_entries;
/* Appends the entries of every map in field `number` of a message, in their order. When a name
 * comes twice, the later entry counts. Field 1 of an Example holds its features; field 1 of a
 * SequenceExample holds the context, field 2 the lists. False when the message is malformed. */
bool dp_feature_entries_parse(dp_view message, uint32_t number, dp_feature_entries *entries);

#endif
