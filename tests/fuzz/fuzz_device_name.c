/* Fuzzes the parsers of device names and rendezvous keys. A name that is accepted must print to a
 * text that parses to the same name, and two names must merge to a consistent one. */
#include <stdlib.h>
#include <string.h>
#include "wire/device_name.h"
#include "wire/rendezvous_key.h"

static void check_name(const dp_device_name *name) {
  char buffer[DP_DEVICE_NAME_SIZE];
  dp_device_name again;
  if (dp_device_name_parse(dp_view_of(dp_device_name_format(name, buffer)), &again))
    abort();
  /* A number without a type is not printed. */
  if ((name->has_type || !name->has_id) && memcmp(name, &again, sizeof again) != 0)
    abort();
  if (dp_device_name_is_complete(name) && !dp_device_name_accepts(&again, name))
    abort();
}

static void check_merge(const dp_device_name *a, const dp_device_name *b) {
  for (int soft = 0; soft < 2; soft++) {
    dp_device_name target = *a;
    dp_status *status = dp_device_name_merge(&target, b, soft);
    if (!status && !soft &&
        !(dp_device_name_accepts(a, &target) && dp_device_name_accepts(b, &target)))
      abort();
    dp_status_release(status);
  }
  dp_device_name target = *a;
  dp_device_name_override(&target, b);
  if (!dp_device_name_accepts(b, &target))
    abort();
}

/* The first half of the input is one name, the second half another. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  dp_view text = {(const char *)data, size};
  dp_view halves[2] = {{text.data, size / 2}, {text.data + size / 2, size - size / 2}};
  dp_device_name names[2], name;
  dp_status *statuses[2];
  for (int i = 0; i < 2; i++) {
    statuses[i] = dp_device_name_parse(halves[i], &names[i]);
    if (!statuses[i])
      check_name(&names[i]);
  }
  if (!statuses[0] && !statuses[1])
    check_merge(&names[0], &names[1]);
  for (int i = 0; i < 2; i++)
    dp_status_release(statuses[i]);
  dp_status *status = dp_device_name_parse(text, &name);
  if (!status)
    check_name(&name);
  dp_status_release(status);
  dp_rendezvous_key key;
  status = dp_rendezvous_key_parse(text, &key);
  if (!status && key.source_text.length + key.destination_text.length > size)
    abort();
  dp_status_release(status);
  return 0;
}
