/* Rendezvous keys: the name under which a tensor waits between its sender and its receiver,
 *   src_device;src_incarnation in 16 hex digits;dst_device;edge_name;frame_id:iter_id
 * Genuine TensorFlow tasks build and parse the same text, so it equals theirs to the byte. No
 * state, any thread. */
#ifndef DP_WIRE_RENDEZVOUS_KEY_H
#define DP_WIRE_RENDEZVOUS_KEY_H

#include <stdint.h>
#include "base/status.h"
#include "base/text.h"
#include "wire/device_name.h"

typedef struct dp_rendezvous_key {
  dp_view text; /* all of it; the views below point into it */
  dp_view source_text;
  dp_view destination_text;
  dp_view edge_name;
  dp_view frame_and_iteration; /* "0:0" outside of loops */
  uint64_t source_incarnation;
  dp_device_name source;
  dp_device_name destination;
} dp_rendezvous_key;

/* Appends the key of these parts to `text`. */
void dp_rendezvous_key_print(dp_text *text, const char *source_device, uint64_t source_incarnation,
                             const char *destination_device, const char *edge_name,
                             uint64_t frame_id, int64_t iteration);
/* `text` must outlive the key. The message of INVALID_ARGUMENT quotes it. */
DP_MUST_USE dp_status *dp_rendezvous_key_parse(dp_view text, dp_rendezvous_key *key_out);

#endif
