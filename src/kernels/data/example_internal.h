/* Examples: TensorFlow's messages of features by name, parsed in place out of the bytes of a
 * stranger.
 *
 * A message is walked once; what is found are views into it, whose contents are checked and counted
 * before memory is taken for them. Nothing here keeps anything. */
#ifndef DP_KERNELS_EXAMPLE_INTERNAL_H
#define DP_KERNELS_EXAMPLE_INTERNAL_H

#include "base/memory.h"
#include "kernels/shared/message.h"
#include "tensor/tensor.h"

/* The values of one feature. */
typedef struct dp_feature {
  dp_dtype
      dtype; /* DP_STRING, DP_FLOAT or DP_INT64; 0 when the feature has no values of any kind */
  int64_t count;
  dp_view list; /* the BytesList, FloatList or Int64List */
} dp_feature;

/* Reads a Feature, checks and counts its values. False when it is damaged. */
bool dp_feature_parse(dp_view bytes, dp_feature *feature_out);
/* Writes all values to `to`: floats, int64s, or initialized strings. */
DP_MUST_USE dp_status *dp_feature_copy(const dp_feature *feature, void *to);

/* An entry of a map from names to messages. */
typedef struct dp_feature_entry {
  dp_view key, value;
} dp_feature_entry;
typedef DP_ARRAY(dp_feature_entry) dp_feature_entries;
/* Adds the entries of every map in field `number` of a message, in their order; for a name that
 * comes twice the last one counts. Field 1 of an Example has its features; of a SequenceExample, 1
 * has the context and 2 the lists. False when the message is damaged. */
bool dp_feature_entries_parse(dp_view message, uint32_t number, dp_feature_entries *entries);

#endif
