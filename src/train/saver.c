/* The ops that save and restore. Each server writes its own variables as one shard, all servers at
 * once, into a temporary folder. When all shards are complete, the first server joins them under
 * the checkpoint's name. Restoring reads each variable where it lives: all servers must see one
 * file system. The files themselves are checkpoints.c's. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "train/train_internal.h"

/* The variables of one device. */
typedef struct shard {
  const char *device;
  DP_ARRAY(const train_variable *) variables;
} shard;
typedef DP_ARRAY(shard) shard_list;

static void collect_shards(dp_model *model, shard_list *shards) {
  for (size_t i = 0; i < model->variables.count; i++) {
    const train_variable *variable = model->variables.items[i];
    if (variable->local || variable->passing)
      continue;
    size_t at = 0;
    while (at < shards->count && strcmp(shards->items[at].device, variable->device) != 0)
      at++;
    if (at == shards->count)
      DP_ARRAY_PUSH(shards, ((shard){.device = variable->device}));
    DP_ARRAY_PUSH(&shards->items[at].variables, variable);
  }
}

static void free_shards(shard_list *shards) {
  for (size_t i = 0; i < shards->count; i++)
    DP_ARRAY_FREE(&shards->items[i].variables);
  DP_ARRAY_FREE(shards);
}

/* Two constants on the shard's device: the names of its variables, and their slices. */
static void name_variables(dp_scope *scope, const shard *from, TF_Output *names_out,
                           TF_Output *slices_out) {
  size_t count = from->variables.count;
  const char **names = DP_NEW_ARRAY(const char *, count),
             **slices = DP_NEW_ARRAY(const char *, count);
  for (size_t i = 0; i < count; i++) {
    names[i] = from->variables.items[i]->saved_name;
    slices[i] = from->variables.items[i]->slice;
  }
  *names_out = dp_const_strings(scope, DP_SHAPE((int64_t)count), names);
  *slices_out = dp_const_strings(scope, DP_SHAPE((int64_t)count), slices);
  dp_free(names);
  dp_free(slices);
}

static TF_Operation *save_shard(dp_scope *scope, const shard *from, TF_Output path) {
  TF_Output names, slices;
  TF_Output *values = DP_NEW_ARRAY(TF_Output, from->variables.count);
  for (size_t i = 0; i < from->variables.count; i++)
    values[i] = from->variables.items[i]->reference;
  name_variables(scope, from, &names, &slices);
  TF_Operation *saved =
      dp_save_v2(scope, path, names, slices, ((dp_outputs){values, (int)from->variables.count}));
  dp_free(values);
  return saved;
}

static TF_Operation *restore_shard(dp_scope *scope, const shard *from, TF_Output prefix) {
  TF_Output names, slices;
  size_t count = from->variables.count;
  TF_DataType *dtypes = DP_NEW_ARRAY(TF_DataType, count);
  TF_Operation **assigned = DP_NEW_ARRAY(TF_Operation *, count);
  for (size_t i = 0; i < count; i++)
    dtypes[i] = from->variables.items[i]->dtype;
  name_variables(scope, from, &names, &slices);
  dp_output_list values =
      dp_restore_v2(scope, prefix, names, slices, ((dp_types){dtypes, (int)count}));
  for (size_t i = 0; i < count; i++)
    assigned[i] =
        dp_assign(scope, from->variables.items[i]->reference, dp_output_at(values, (int)i)).oper;
  TF_Operation *restored =
      dp_scope_ok(scope) ? dp_train_group(scope, assigned, (int)count, "restored") : NULL;
  dp_free(dtypes);
  dp_free(assigned);
  return restored;
}

/* The shards' temporary folder, beside the checkpoint. The time makes its name unique. */
static TF_Output temporary_name(dp_scope *scope, TF_Output prefix) {
  char suffix[64];
  snprintf(suffix, sizeof(suffix), "_temp_%016" PRIx64 "/part", (uint64_t)dp_clock_wall_nanos());
  return dp_string_join(scope, DP_OUTPUTS(prefix, dp_const_string(scope, suffix)));
}

void dp_train_saver_make(dp_model *model, train_saver *saver) {
  shard_list shards = {0};
  collect_shards(model, &shards);
  int count = (int)shards.count;
  dp_scope *scope = dp_scope_named(model->root, "save");
  saver->prefix = dp_placeholder(scope, TF_STRING, .shape = DP_SHAPE(), .name = "prefix");
  TF_Output temporary = temporary_name(scope, saver->prefix);
  TF_Output *paths = DP_NEW_ARRAY(TF_Output, count + 1);
  TF_Operation **saved = DP_NEW_ARRAY(TF_Operation *, count + 1);
  TF_Operation **restored = DP_NEW_ARRAY(TF_Operation *, count + 1);
  for (int i = 0; i < count && dp_scope_ok(scope); i++) {
    dp_scope *there =
        shards.items[i].device[0] ? dp_scope_on(scope, shards.items[i].device) : scope;
    paths[i] = dp_sharded_filename(there, temporary, dp_const_int32(there, i),
                                   dp_const_int32(there, count));
    saved[i] = save_shard(there, &shards.items[i], paths[i]);
    restored[i] = restore_shard(there, &shards.items[i], saver->prefix);
  }
  if (dp_scope_ok(scope) && count > 0) {
    dp_scope *there =
        shards.items[0].device[0] ? dp_scope_on(scope, shards.items[0].device) : scope;
    dp_scope *after = dp_scope_after(there, saved, count);
    TF_Output all = dp_pack(after, ((dp_outputs){paths, count}));
    saver->save = dp_merge_v2_checkpoints(after, all, saver->prefix);
    saver->restore = dp_train_group(there, restored, count, "restore_all");
  }
  dp_free(paths);
  dp_free(saved);
  dp_free(restored);
  free_shards(&shards);
}
