/* Summaries as messages in the making: the ops that return them as strings and those that write
 * them to an events file fill the same ones. A summary has one owner; its values live in its arena.
 */
#ifndef DP_KERNELS_SUMMARY_INTERNAL_H
#define DP_KERNELS_SUMMARY_INTERNAL_H

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
/* As a message that borrows the values. */
Tensorflow__Summary dp_summary_message(const dp_summary *summary);
/* Serialized, as scalar output 0. */
DP_MUST_USE dp_status *dp_summary_output(const dp_summary *summary, dp_op_context *context);

Tensorflow__Summary__Value *dp_summary_add(dp_summary *summary, dp_view tag);
/* Element `index` of any real (or complex: its real part) tensor; UNIMPLEMENTED for others. */
DP_MUST_USE dp_status *dp_summary_number(const dp_tensor *tensor, int64_t index, double *value_out);
/* What messages about NaN and infinity say: the kind of histogram that has the latter, and whose.
 */
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
/* Adds all values of a serialized Summary; INVALID_ARGUMENT when it cannot be read. */
DP_MUST_USE dp_status *dp_summary_add_bytes(dp_summary *summary, dp_view bytes);

#endif
