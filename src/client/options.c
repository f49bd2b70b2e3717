/* Options of public functions: see options.h. Pure functions, any thread. */
#include "client/options.h"

#include <string.h>

dp_status *dp_client_options_read(const char *function, const void *given, void *ours,
                                  size_t size) {
  if (!given)
    return NULL;
  size_t theirs, head = sizeof(theirs);
  memcpy(&theirs, given, head);
  if (theirs < head)
    return DP_INVALID("%s: the struct of options has no size; make it with DP_OPTIONS(%s, ...)",
                      function, function);
  size_t common = theirs < size ? theirs : size;
  memcpy((char *)ours + head, (const char *)given + head, common - head);
  return NULL;
}
