/* Summaries under construction. The ops that return summaries as strings and the ops that write
 * them to an events file share these functions. A summary has one owner; its values live in its
 * arena. */
#ifndef DP_KERNELS_SUMMARY_SUMMARY_INTERNAL_H
#define DP_KERNELS_SUMMARY_SUMMARY_INTERNAL_H

#include "base/arena.h"
#include "base/memory.h"
#include "runtime/kernel.h"
#include "wire/event.pb-c.h"

typedef struct dp_summary {
  dp_arena *arena;
  DP_ARRAY(Tensorflow__Summary__Value *) values;
} dp_summary;

void dp_summary_init(dp_summary *summary);
void dp_summary_deinit(dp_summary *summary);
/* A message that borrows the values. */
Tensorflow__Summary dp_summary_message(const dp_summary *summary);
/* Sets scalar output 0 to the serialized summary. */
DP_MUST_USE dp_status *dp_summary_output(const dp_summary *summary, dp_op_context *context);

Tensorflow__Summary__Value *dp_summary_add(dp_summary *summary, dp_view tag);
/* Element `index` of a real tensor, or the real part of a complex one; UNIMPLEMENTED for other
 * dtypes. */
DP_MUST_USE dp_status *dp_summary_number(const dp_tensor *tensor, int64_t index, double *value_out);
/* Words for the errors about NaN and infinity: what contains the infinity, and whose histogram it
 * is. */
typedef struct dp_histogram_words {
  const char *infinity_in, *owner;
} dp_histogram_words;
DP_MUST_USE dp_status *dp_summary_add_histogram(dp_summary *summary, dp_view tag,
                                                const dp_tensor *values, dp_histogram_words words);
DP_MUST_USE dp_status *dp_summary_add_images(dp_summary *summary, dp_view tag,
                                             const dp_tensor *images, int32_t most,
                                             const dp_tensor *bad_color);
DP_MUST_USE dp_status *dp_summary_add_audio(dp_summary *summary, dp_view tag,
                                            const dp_tensor *sounds, int32_t most, float rate);
DP_MUST_USE dp_status *dp_summary_add_tensor(dp_summary *summary, dp_view tag,
                                             const dp_tensor *tensor, dp_view metadata);
/* Adds all values of a serialized Summary; INVALID_ARGUMENT when it cannot be parsed. */
DP_MUST_USE dp_status *dp_summary_add_bytes(dp_summary *summary, dp_view bytes);

#endif
