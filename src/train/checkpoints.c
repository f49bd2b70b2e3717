/* The checkpoint files of a folder: model.ckpt-<step>.{index,data-...,meta}, and the state file
 * `checkpoint`, which lists them and which tf.train.latest_checkpoint reads. The servers write
 * index and data (saver.c); the chief writes the graph (meta) and the state file, then removes all
 * but the newest `keep` checkpoints. Only the training's own thread comes here. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "storage/checkpoint_state.h"
#include "storage/file.h"
#include "train/train_internal.h"

static char *join(const char *folder, const char *name) {
  dp_text path = {0};
  dp_text_printf(&path, "%s/%s", folder, name);
  return dp_text_take(&path);
}

static bool is_there(const char *prefix) {
  dp_text index = {0};
  dp_text_printf(&index, "%s.index", prefix);
  bool there = dp_path_exists(dp_text_string(&index));
  dp_text_deinit(&index);
  return there;
}

/* Paths in the file may be relative to the folder. */
static void take_prefix(train_checkpoints *self, const char *path) {
  char *prefix = path[0] == '/' || strstr(path, "://") ? dp_strdup(path) : join(self->folder, path);
  if (is_there(prefix))
    DP_ARRAY_PUSH(&self->prefixes, prefix);
  else
    dp_free(prefix);
}

dp_status *dp_train_checkpoints_open(train_checkpoints *self, const char *folder, int keep) {
  self->folder = dp_strdup(folder);
  self->keep = keep > 0 ? keep : 5;
  DP_RETURN_IF_ERROR(dp_path_make_folders(folder));
  char *path = join(folder, "checkpoint");
  dp_arena *arena = dp_arena_create();
  Tensorflow__CheckpointState *state;
  dp_status *status = dp_checkpoint_state_read(path, arena, &state);
  if (!status)
    for (size_t i = 0; i < state->n_all_model_checkpoint_paths; i++)
      take_prefix(self, state->all_model_checkpoint_paths[i]);
  if (dp_status_code(status) == DP_NOT_FOUND) {
    dp_status_release(status);
    status = NULL;
  }
  dp_arena_destroy(arena);
  dp_free(path);
  return status;
}

void dp_train_checkpoints_close(train_checkpoints *self) {
  for (size_t i = 0; i < self->prefixes.count; i++)
    dp_free(self->prefixes.items[i]);
  DP_ARRAY_FREE(&self->prefixes);
  dp_free(self->folder);
  self->folder = NULL;
}

const char *dp_train_checkpoints_newest(const train_checkpoints *self) {
  return self->prefixes.count > 0 ? self->prefixes.items[self->prefixes.count - 1] : NULL;
}

char *dp_train_checkpoints_prefix(const train_checkpoints *self, int64_t step) {
  char name[64];
  snprintf(name, sizeof(name), "model.ckpt-%" PRId64, step);
  return join(self->folder, name);
}

/* ---- Writing ---- */
static dp_status *write_state(const train_checkpoints *self) {
  Tensorflow__CheckpointState state;
  tensorflow__checkpoint_state__init(&state);
  size_t count = self->prefixes.count, skip = strlen(self->folder) + 1;
  char **names = DP_NEW_ARRAY(char *, count);
  for (size_t i = 0; i < count; i++) {
    bool inside = strncmp(self->prefixes.items[i], self->folder, skip - 1) == 0;
    names[i] = self->prefixes.items[i] + (inside ? skip : 0);
  }
  state.model_checkpoint_path = names[count - 1];
  state.all_model_checkpoint_paths = names;
  state.n_all_model_checkpoint_paths = count;
  char *path = join(self->folder, "checkpoint");
  dp_status *status = dp_checkpoint_state_write(path, &state);
  dp_free(path);
  dp_free(names);
  return status;
}

/* Writes a MetaGraphDef that has only the graph (field 2). */
static dp_status *write_meta(const char *prefix, TF_Graph *graph) {
  TF_Status *result = TF_NewStatus();
  TF_Buffer *bytes = TF_NewBuffer();
  TF_GraphToGraphDef(graph, bytes, result);
  dp_status *status = NULL;
  if (TF_GetCode(result) != TF_OK) {
    status = dp_status_create((dp_code)TF_GetCode(result), "%s", TF_Message(result));
  } else {
    dp_text message = {0};
    char *path = NULL;
    dp_text name = {0};
    dp_text_printf(&name, "%s.meta", prefix);
    path = dp_text_take(&name);
    dp_text_add_char(&message, 0x12);
    dp_text_add_varint(&message, bytes->length);
    dp_text_append(&message, bytes->data, bytes->length);
    status = dp_file_write_whole(path, message.data, message.length);
    dp_text_deinit(&message);
    dp_free(path);
  }
  TF_DeleteBuffer(bytes);
  TF_DeleteStatus(result);
  return status;
}

/* Removes the checkpoint's files; files that are gone already are no error. */
static void remove_files(const char *prefix) {
  dp_text pattern = {0};
  dp_name_list paths = {0};
  dp_text_printf(&pattern, "%s.*", prefix);
  dp_status *status = dp_path_match(dp_text_string(&pattern), &paths);
  for (size_t i = 0; !status && i < paths.count; i++)
    dp_status_release(dp_path_remove(paths.items[i]));
  dp_status_release(status);
  dp_name_list_deinit(&paths);
  dp_text_deinit(&pattern);
}

dp_status *dp_train_checkpoints_add(train_checkpoints *self, const char *prefix, TF_Graph *graph) {
  size_t at = 0;
  while (at < self->prefixes.count && strcmp(self->prefixes.items[at], prefix) != 0)
    at++;
  if (at == self->prefixes.count) /* else it was written again after a recovery */
    DP_ARRAY_PUSH(&self->prefixes, dp_strdup(prefix));
  DP_RETURN_IF_ERROR(write_meta(prefix, graph));
  char *old = NULL;
  if (self->prefixes.count > (size_t)self->keep) {
    old = self->prefixes.items[0];
    self->prefixes.count--;
    memmove(self->prefixes.items, self->prefixes.items + 1, self->prefixes.count * sizeof(char *));
  }
  dp_status *status = write_state(self);
  if (old && !status)
    remove_files(old);
  dp_free(old);
  return status;
}
