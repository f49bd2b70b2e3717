/* Runs a fuzzer's function on each file of a folder, its seeds. So the seeds are unit tests, and
 * bugs that were fixed stay fixed, in builds without libFuzzer too. */
#include <stdio.h>
#include "storage/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static dp_status *replay(const char *folder, const char *name) {
  dp_text path = {0};
  char *data;
  size_t length;
  dp_text_printf(&path, "%s/%s", folder, name);
  dp_status *status = dp_file_read_whole(dp_text_string(&path), UINT64_MAX, &data, &length);
  dp_text_deinit(&path);
  DP_RETURN_IF_ERROR(status);
  fprintf(stderr, "%s\n", name);
  void *exact =
      dp_memdup(data, length); /* without the zero byte, so that a sanitizer sees an overrun */
  LLVMFuzzerTestOneInput(exact, length);
  dp_free(exact);
  dp_free(data);
  return NULL;
}

int main(int count, char **arguments) {
  dp_name_list names = {0};
  dp_status *status = count == 2 ? dp_path_list(arguments[1], &names) : DP_INVALID("give a folder");
  if (!status && names.count == 0)
    status = DP_INVALID("%s is empty", arguments[1]);
  for (size_t i = 0; i < names.count && !status; ++i)
    status = replay(arguments[1], names.items[i]);
  dp_name_list_deinit(&names);
  if (status)
    fprintf(stderr, "%s\n", dp_status_message(status));
  int code = status ? 1 : 0;
  dp_status_release(status);
  return code;
}
