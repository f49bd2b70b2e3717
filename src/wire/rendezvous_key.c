/* Rendezvous keys: building and parsing. Parsing copies no text: the parts are views into the
 * caller's text; only the two device names are values. No state, any thread. */
#include "wire/rendezvous_key.h"

#include <inttypes.h>

void dp_rendezvous_key_print(dp_text *text, const char *source_device, uint64_t source_incarnation,
                             const char *destination_device, const char *edge_name,
                             uint64_t frame_id, int64_t iteration) {
  dp_text_printf(text, "%s;%016" PRIx64 ";%s;%s;%" PRIu64 ":%" PRId64, source_device,
                 source_incarnation, destination_device, edge_name, frame_id, iteration);
}

/* The text up to the next ";" or the end; *rest becomes the text behind it. */
static dp_view next_part(dp_view *rest) {
  const char *end = rest->length ? memchr(rest->data, ';', rest->length) : NULL;
  dp_view part = {rest->data, end ? (size_t)(end - rest->data) : rest->length};
  size_t used = part.length + (end ? 1 : 0);
  *rest = (dp_view){rest->data + used, rest->length - used};
  return part;
}

/* One to 16 digits; TensorFlow accepts fewer than 16 too. */
static bool parse_hex(dp_view text, uint64_t *value_out) {
  uint64_t value = 0;
  if (text.length == 0 || text.length > 16)
    return false;
  for (size_t i = 0; i < text.length; i++) {
    char c = text.data[i];
    int digit = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
    if (digit < 0)
      return false;
    value = value << 4 | (uint64_t)digit;
  }
  *value_out = value;
  return true;
}

static dp_status *invalid(dp_view text, const char *what) {
  dp_text escaped = {0};
  dp_text_add_escaped(&escaped, text.data, text.length < 512 ? text.length : 512);
  dp_status *status = DP_INVALID("Invalid rendezvous key (%s): %s", what, dp_text_string(&escaped));
  dp_text_deinit(&escaped);
  return status;
}

dp_status *dp_rendezvous_key_parse(dp_view text, dp_rendezvous_key *key_out) {
  dp_view rest = text;
  dp_rendezvous_key key = {.text = text};
  key.source_text = next_part(&rest);
  dp_view incarnation = next_part(&rest);
  key.destination_text = next_part(&rest);
  key.edge_name = next_part(&rest);
  key.frame_and_iteration = next_part(&rest);
  if (rest.length > 0 || key.frame_and_iteration.length == 0)
    return invalid(text, "it does not have five parts");
  if (key.edge_name.length == 0)
    return invalid(text, "the edge has no name");
  if (!parse_hex(incarnation, &key.source_incarnation))
    return invalid(text, "the incarnation is not a hexadecimal number");
  DP_RETURN_IF_ERROR(
      dp_status_annotate(dp_device_name_parse(key.source_text, &key.source), "Invalid key"));
  DP_RETURN_IF_ERROR(dp_status_annotate(
      dp_device_name_parse(key.destination_text, &key.destination), "Invalid key"));
  *key_out = key;
  return NULL;
}
