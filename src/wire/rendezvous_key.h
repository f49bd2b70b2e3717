/* Rendezvous keys: the text under which a tensor waits between a sender and a receiver,
 *   src_device;src_incarnation in 16 hex digits;dst_device;edge_name;frame_id:iter_id
 * Genuine tasks build and parse the same text, so it is kept to the byte. No state, any thread. */
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

/* Appends a key. */
void dp_rendezvous_key_print(dp_text *text, const char *source_device, uint64_t source_incarnation,
                             const char *destination_device, const char *edge_name,
                             uint64_t frame_id, int64_t iteration);
/* `text` must outlive the key. INVALID_ARGUMENT quotes it. */
DP_MUST_USE dp_status *dp_rendezvous_key_parse(dp_view text, dp_rendezvous_key *key_out);

#endif
