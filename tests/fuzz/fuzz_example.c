/* Fuzzes the parser of serialized Examples and SequenceExamples. A feature that is accepted must
 * give as many values as it counts, and all of them must lie inside of the message. */
#include <stdlib.h>
#include <string.h>
#include "kernels/data/example_internal.h"

static void check_inside(dp_view whole, dp_view part) {
  if (part.length > 0 &&
      (part.data < whole.data || part.data + part.length > whole.data + whole.length))
    abort();
}

/* Reads the values into memory of exactly their size, so that a sanitizer sees an overrun. */
static void check_feature(dp_view whole, const dp_feature *feature) {
  check_inside(whole, feature->list);
  if (feature->dtype == 0)
    return;
  size_t count = (size_t)feature->count;
  if (count > whole.length)
    abort();
  void *values = calloc(count ? count : 1, dp_dtype_size(feature->dtype));
  dp_status_release(dp_feature_copy(feature, values));
  for (size_t i = 0; feature->dtype == DP_STRING && i < count; ++i)
    dp_tstring_deinit((dp_tstring *)values + i);
  free(values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  dp_view message = {(const char *)data, size};
  for (uint32_t number = 1; number <= 2; ++number) {
    dp_feature_entries entries = {0};
    dp_feature feature;
    if (dp_feature_entries_parse(message, number, &entries))
      for (size_t i = 0; i < entries.count; ++i) {
        check_inside(message, entries.items[i].key);
        check_inside(message, entries.items[i].value);
        if (dp_feature_parse(entries.items[i].value, &feature))
          check_feature(message, &feature);
      }
    DP_ARRAY_FREE(&entries);
  }
  return 0;
}
