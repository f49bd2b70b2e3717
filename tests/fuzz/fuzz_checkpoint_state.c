/* Fuzzes the parser of the text file `checkpoint`. The paths of a state that is accepted must not
 * have more bytes than the text. */
#include <stdlib.h>
#include <string.h>
#include "storage/checkpoint_state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  dp_arena *arena = dp_arena_create();
  Tensorflow__CheckpointState *state;
  dp_status *status = dp_checkpoint_state_parse((const char *)data, size, arena, &state);
  if (!status) {
    size_t length = strlen(state->model_checkpoint_path);
    for (size_t i = 0; i < state->n_all_model_checkpoint_paths; ++i)
      length += strlen(state->all_model_checkpoint_paths[i]);
    if (length > size)
      abort();
  }
  dp_status_release(status);
  dp_arena_destroy(arena);
  return 0;
}
