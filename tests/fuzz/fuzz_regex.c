/* Fuzzes regular expressions. The input is a pattern, a rewrite and a text, separated by zero
 * bytes. A match must lie within the text, and a search that starts at a match must find it again.
 */
#include <stdlib.h>
#include "kernels/text/regex.h"

static dp_view next_part(dp_view *rest) {
  const char *end = memchr(rest->data, '\0', rest->length);
  dp_view part = {rest->data, end ? (size_t)(end - rest->data) : rest->length};
  size_t taken = part.length + (end != NULL);
  rest->data += taken;
  rest->length -= taken;
  return part;
}

static void check_match(const dp_regex *regex, dp_view text, const dp_regex_match *match) {
  dp_regex_match again;
  for (int i = 0; i < DP_REGEX_GROUPS; ++i) {
    dp_view group = match->groups[i];
    if (group.data && (group.data < text.data || group.length > text.length ||
                       group.data + group.length > text.data + text.length))
      abort();
  }
  size_t begin = (size_t)(match->groups[0].data - text.data);
  if (!dp_regex_find(regex, text, begin, false, &again) ||
      again.groups[0].data != match->groups[0].data ||
      again.groups[0].length != match->groups[0].length)
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  dp_view rest = {(const char *)data, size};
  dp_regex *regex;
  if (size == 0 || size > 400)
    return 0;
  dp_view pattern = next_part(&rest), rewrite = next_part(&rest), text = rest;
  dp_status *status = dp_regex_compile(pattern, &regex);
  if (status) {
    dp_status_release(status);
    return 0;
  }
  dp_regex_match match;
  if (dp_regex_find(regex, text, 0, false, &match))
    check_match(regex, text, &match);
  dp_regex_find(regex, text, 0, true, NULL);
  for (int all = 0; all < 2; ++all) {
    dp_text out = {0};
    dp_regex_replace(regex, text, rewrite, all, &out);
    dp_text_deinit(&out);
  }
  dp_regex_destroy(regex);
  return 0;
}
