/* TF_LoadSessionFromSavedModel: loads a SavedModel. It reads saved_model.pb, imports the meta graph
 * with the given tags into an empty graph, makes a session, restores the variables, and runs the
 * initializer. All on the caller's thread, which waits; the session belongs to the caller. */
#include "client/client_internal.h"

#include <string.h>
#include "storage/file.h"
#include "wire/meta_graph.pb-c.h"

/* Bytes of saved_model.pb; a protobuf message cannot be larger. */
#define MODEL_LIMIT (UINT64_C(2) << 30)

typedef struct loader {
  const char *folder;
  dp_arena *arena;
  Tensorflow__MetaGraphDef *meta;
  TF_Graph *graph;
  TF_Session *session;
  const TF_Buffer *run_options;
} loader;

/* ---- The message ---- */

static bool has_tag(const Tensorflow__MetaGraphDef *meta, const char *tag) {
  for (size_t i = 0; i < meta->meta_info_def->n_tags; i++)
    if (strcmp(meta->meta_info_def->tags[i], tag) == 0)
      return true;
  return false;
}

/* Whether the meta graph has exactly these tags. */
static bool has_tags(const Tensorflow__MetaGraphDef *meta, const char *const *tags, int count) {
  if (!meta->meta_info_def || meta->meta_info_def->n_tags != (size_t)count)
    return false;
  for (int i = 0; i < count; i++)
    if (!has_tag(meta, tags[i]))
      return false;
  return true;
}

static dp_status *no_such_tags(const char *const *tags, int count) {
  dp_text text = {0};
  for (int i = 0; i < count; i++)
    dp_text_printf(&text, " %s", tags[i]);
  dp_status *status = dp_status_create(
      DP_NOT_FOUND,
      "Could not find meta graph def matching supplied tags: {%s }. To inspect available tag-sets "
      "in the SavedModel, please use the SavedModel CLI: `saved_model_cli`",
      dp_text_string(&text));
  dp_text_deinit(&text);
  return status;
}

static dp_status *read_model(loader *in, const char *const *tags, int count) {
  const char *path = dp_arena_printf(in->arena, "%s/saved_model.pb", in->folder);
  char *bytes = NULL;
  size_t length = 0;
  dp_status *status = dp_file_read_whole(path, MODEL_LIMIT, &bytes, &length);
  if (status) {
    dp_status_release(status);
    return dp_status_create(DP_NOT_FOUND,
                            "Could not find SavedModel .pb or .pbtxt at supplied export directory "
                            "path: %s. Check that the directory exists and that you have the right "
                            "permissions for accessing it.",
                            in->folder);
  }
  Tensorflow__SavedModel *model;
  status =
      dp_wire_unpack_bytes(&tensorflow__saved_model__descriptor, bytes, length, in->arena, &model);
  dp_free(bytes);
  DP_RETURN_IF_ERROR(dp_status_annotate(status, "%s", path));
  for (size_t i = 0; i < model->n_meta_graphs && !in->meta; i++)
    if (has_tags(model->meta_graphs[i], tags, count))
      in->meta = model->meta_graphs[i];
  return in->meta && in->meta->graph_def ? NULL : no_such_tags(tags, count);
}

static dp_status *import(loader *in) {
  TF_Status status = {0};
  TF_Buffer *buffer = TF_NewBuffer();
  TF_ImportGraphDefOptions *options = TF_NewImportGraphDefOptions();
  status.status = dp_client_pack(in->meta->graph_def, buffer);
  if (!status.status)
    TF_GraphImportGraphDef(in->graph, buffer, options, &status);
  TF_DeleteImportGraphDefOptions(options);
  TF_DeleteBuffer(buffer);
  return status.status;
}

/* ---- Steps ---- */

typedef DP_ARRAY(TF_Output) output_array;
typedef DP_ARRAY(TF_Tensor *) tensor_array;
typedef struct feeds {
  output_array outputs;
  tensor_array values;
} feeds;

static void free_feeds(feeds *fed) {
  for (size_t i = 0; i < fed->values.count; i++)
    TF_DeleteTensor(fed->values.items[i]);
  DP_ARRAY_FREE(&fed->values);
  DP_ARRAY_FREE(&fed->outputs);
}

/* Feeds a path to a tensor that is named "name:0". */
static dp_status *feed_path(loader *in, feeds *fed, const char *tensor_name, const char *path) {
  dp_node *node;
  int32_t output;
  DP_RETURN_IF_ERROR(dp_graph_find_output(in->graph->graph, tensor_name, &node, &output));
  dp_tensor value; /* which owns its string: TF_DeleteTensor is enough */
  DP_RETURN_IF_ERROR(dp_tensor_scalar_string(path, strlen(path), &value));
  TF_Output fed_output = {in->graph->operations[node->id], output};
  DP_ARRAY_PUSH(&fed->outputs, fed_output);
  DP_ARRAY_PUSH(&fed->values, dp_client_tensor(value));
  return NULL;
}

/* Feeds the path of each asset file to the tensor that the graph reads it from. */
static dp_status *feed_assets(loader *in, feeds *fed) {
  for (size_t i = 0; i < in->meta->n_asset_file_def; i++) {
    const Tensorflow__AssetFileDef *asset = in->meta->asset_file_def[i];
    if (!asset->tensor_info ||
        asset->tensor_info->encoding_case != TENSORFLOW__TENSOR_INFO__ENCODING_NAME)
      return DP_INVALID("An asset of the SavedModel has no tensor");
    DP_RETURN_IF_ERROR(
        feed_path(in, fed, asset->tensor_info->name,
                  dp_arena_printf(in->arena, "%s/assets/%s", in->folder, asset->filename)));
  }
  return NULL;
}

static dp_status *run_target(loader *in, feeds *fed, const char *name) {
  const TF_Operation *target = TF_GraphOperationByName(in->graph, name);
  if (!target)
    return dp_status_create(DP_NOT_FOUND, "The SavedModel's operation '%s' is not in its graph",
                            name);
  TF_Status status = {0};
  TF_SessionRun(in->session, in->run_options, fed->outputs.items, fed->values.items,
                (int)fed->outputs.count, NULL, NULL, 0, &target, 1, NULL, &status);
  return status.status;
}

static dp_status *restore(loader *in) {
  const Tensorflow__SaverDef *saver = in->meta->saver_def;
  const char *index = dp_arena_printf(in->arena, "%s/variables/variables.index", in->folder);
  if (!saver || !*saver->restore_op_name || !dp_path_exists(index))
    return NULL; /* it has no variables */
  feeds fed = {0};
  const char *prefix = dp_arena_printf(in->arena, "%s/variables/variables", in->folder);
  dp_status *status = feed_path(in, &fed, saver->filename_tensor_name, prefix);
  if (!status)
    status = feed_assets(in, &fed);
  if (!status)
    status = run_target(in, &fed, saver->restore_op_name);
  free_feeds(&fed);
  return status;
}

/* The operation that makes the model ready: a signature in newer models, a collection in older. */
static const char *initializer(const loader *in) {
  for (size_t i = 0; i < in->meta->n_signature_def; i++) {
    const Tensorflow__MetaGraphDef__SignatureDefEntry *entry = in->meta->signature_def[i];
    if (strcmp(entry->key, "__saved_model_init_op") != 0)
      continue;
    for (size_t k = 0; k < entry->value->n_outputs; k++)
      if (entry->value->outputs[k]->value->encoding_case == TENSORFLOW__TENSOR_INFO__ENCODING_NAME)
        return entry->value->outputs[k]->value->name;
  }
  for (size_t i = 0; i < in->meta->n_collection_def; i++) {
    const Tensorflow__MetaGraphDef__CollectionDefEntry *entry = in->meta->collection_def[i];
    bool is_it =
        strcmp(entry->key, "saved_model_main_op") == 0 || strcmp(entry->key, "legacy_init_op") == 0;
    if (is_it && entry->value->kind_case == TENSORFLOW__COLLECTION_DEF__KIND_NODE_LIST &&
        entry->value->node_list->n_value == 1)
      return entry->value->node_list->value[0];
  }
  return NULL;
}

static dp_status *initialize(loader *in) {
  const char *name = initializer(in);
  if (!name)
    return NULL;
  const char *colon = strchr(name, ':'); /* it is named as a tensor in newer models */
  name = colon ? dp_arena_strndup(in->arena, name, (size_t)(colon - name)) : name;
  feeds fed = {0};
  dp_status *status = feed_assets(in, &fed);
  if (!status)
    status = run_target(in, &fed, name);
  free_feeds(&fed);
  return status;
}

static dp_status *load(loader *in, const TF_SessionOptions *options, const char *const *tags,
                       int count, TF_Buffer *meta_graph_def) {
  if (in->graph->graph->node_count)
    return DP_INVALID("Graph is non-empty.");
  DP_RETURN_IF_ERROR(read_model(in, tags, count));
  DP_RETURN_IF_ERROR(import(in));
  TF_Status status = {0};
  in->session = TF_NewSession(in->graph, options, &status);
  DP_RETURN_IF_ERROR(status.status);
  DP_RETURN_IF_ERROR(restore(in));
  DP_RETURN_IF_ERROR(initialize(in));
  return meta_graph_def ? dp_client_pack(in->meta, meta_graph_def) : NULL;
}

TF_Session *TF_LoadSessionFromSavedModel(const TF_SessionOptions *session_options,
                                         const TF_Buffer *run_options, const char *export_dir,
                                         const char *const *tags, int tags_len, TF_Graph *graph,
                                         TF_Buffer *meta_graph_def, TF_Status *status) {
  loader in = {
      .folder = export_dir, .arena = dp_arena_create(), .graph = graph, .run_options = run_options};
  dp_status *result = load(&in, session_options, tags, tags_len, meta_graph_def);
  dp_arena_destroy(in.arena);
  if (result && in.session) {
    TF_Status ignored = {0};
    TF_DeleteSession(in.session, &ignored);
    dp_status_release(ignored.status);
    in.session = NULL;
  }
  dp_client_set_status(status, result);
  return in.session;
}
