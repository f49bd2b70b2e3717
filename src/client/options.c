/* Reads the options that a program gives to a public function (options.h). The program may have
 * been compiled with an older or newer header, whose struct is shorter or longer: the size in its
 * first field says how much of it to take, and what is missing keeps its default. No state; any
 * thread. */
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
