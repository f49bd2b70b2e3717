/* Writes the files of TensorFlow's debugger (debug_dump.h): folders, names, and Event messages. An
 * Event with a tensor is packed field by field, so that a large tensor is not copied. The only
 * state is the count of bytes written, an atomic: any thread may call. */
#include "storage/debug_dump.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <strings.h>
#include "base/checksum.h"
#include "base/clock.h"
#include "storage/file.h"
#include "wire/control.h"
#include "wire/event.pb-c.h"
#include "wire/tensor_codec.h"

static const char file_scheme[] = "file://", grpc_scheme[] = "grpc://";

/* ---- URLs ---- */

static bool has_scheme(const char *url, const char *scheme) {
  return strncasecmp(url, scheme, strlen(scheme)) == 0;
}

/* The folder of a file:// URL; NULL for any other. */
static const char *root_of(const char *url) {
  return has_scheme(url, file_scheme) ? url + strlen(file_scheme) : NULL;
}

static void add_url(const char **urls, size_t *count, const char *url) {
  size_t at = 0;
  while (at < *count && strcmp(urls[at], url) != 0)
    at++;
  urls[at] = url;
  if (at == *count)
    ++*count;
}

dp_debug_urls dp_debug_urls_of(const Tensorflow__DebugOptions *options, dp_arena *arena) {
  size_t most = 0, count = 0;
  for (size_t i = 0; i < options->n_debug_tensor_watch_opts; i++)
    most += options->debug_tensor_watch_opts[i]->n_debug_urls;
  const char **urls = DP_ARENA_ARRAY(arena, const char *, most + 1);
  for (size_t i = 0; i < options->n_debug_tensor_watch_opts; i++) {
    const Tensorflow__DebugTensorWatch *watch = options->debug_tensor_watch_opts[i];
    for (size_t k = 0; k < watch->n_debug_urls; k++)
      add_url(urls, &count, watch->debug_urls[k]);
  }
  return (dp_debug_urls){urls, count};
}

dp_status *dp_debug_check_urls(dp_debug_urls urls) {
  for (size_t i = 0; i < urls.count; i++) {
    const char *root = root_of(urls.items[i]);
    if (root && !*root)
      return DP_INVALID("The debug URL %s names no folder", urls.items[i]);
    if (has_scheme(urls.items[i], grpc_scheme))
      return dp_status_create(DP_UNIMPLEMENTED,
                              "The run's debug_options send watched tensors to %s, and this server "
                              "can only write them to file:// URLs. Nothing was run.",
                              urls.items[i]);
  }
  return NULL;
}

/* ---- Files ---- */

static bool is_folder(const char *path) {
  dp_file_information information;
  dp_status *status = dp_path_information(path, &information);
  dp_status_release(status);
  return !status && information.is_folder;
}

static dp_status *make_folders(const char *path);

/* Makes the folder `parent`, in which `path` is to be, with all its parents. */
static dp_status *make_parent(const char *path, const char *parent) {
  if (!*parent || is_folder(parent))
    return NULL;
  if (dp_path_exists(parent))
    return dp_status_create(DP_FAILED_PRECONDITION,
                            "Failed to create directory  %s because the path exists as a file ",
                            parent);
  dp_status *status = make_folders(parent);
  if (!status)
    return NULL;
  dp_status_release(status);
  return dp_status_create(DP_FAILED_PRECONDITION, "Failed to create directory  %s", parent);
}

static dp_status *make_folders(const char *path) {
  if (is_folder(path))
    return NULL;
  char *parent = dp_path_folder(path);
  dp_status *status = make_parent(path, parent);
  if (!status) {
    dp_status_release(dp_path_make_folder(path)); /* fails when another thread was faster */
    if (!is_folder(path))
      status = dp_status_create(DP_ABORTED, "Failed to create directory  %s", parent);
  }
  dp_free(parent);
  return status;
}

static dp_status *write_file(const char *path, const dp_rope *event) {
  dp_file *file;
  DP_RETURN_IF_ERROR(dp_file_open(path, DP_FILE_CREATE, &file));
  dp_status *status = NULL;
  for (size_t i = 0; i < event->pieces.count && !status; i++)
    status = dp_file_append(file, event->pieces.items[i].data, event->pieces.items[i].length);
  dp_status_update(&status, dp_file_close(file));
  return status;
}

/* Writes the event to `path` with the time appended. */
static dp_status *dump_event(const char *path, int64_t micros, const dp_rope *event) {
  char *folder = dp_path_folder(path);
  dp_status *status = dp_storage_check_path(path);
  dp_status *failure = status ? NULL : make_folders(folder);
  if (failure)
    status = dp_status_create(DP_FAILED_PRECONDITION, "Failed to create directory  %s, due to: %s",
                              folder, dp_status_message(failure));
  dp_status_release(failure);
  dp_text whole = {0};
  dp_text_printf(&whole, "%s_%" PRId64, path, micros);
  size_t length = whole.length;
  for (int index = 1; !status && dp_path_exists(dp_text_string(&whole)); index++) {
    whole.length = length;
    dp_text_printf(&whole, "-%d", index);
  }
  if (!status)
    status = write_file(dp_text_string(&whole), event);
  dp_text_deinit(&whole);
  dp_free(folder);
  return status;
}

static int64_t now_micros(void) {
  return dp_clock_wall_nanos() / 1000;
}

static void add_root(dp_text *path, const char *root) {
  dp_text_add(path, root);
  if (root[strlen(root) - 1] != '/')
    dp_text_add_char(path, '/');
}

/* The folder of "/job:worker/task:0" is "_tfdbg_device_,job_worker,task_0". */
static void add_device_folder(dp_text *path, const char *device) {
  dp_text_add(path, "_tfdbg_device_");
  for (; *device; device++)
    dp_text_add_char(path, *device == ':' ? '_' : *device == '/' ? ',' : *device);
  dp_text_add_char(path, '/');
}

/* ---- Values ---- */

static atomic_uint_fast64_t bytes_used;

void dp_debug_reset_disk_usage(void) {
  atomic_store(&bytes_used, 0);
}

static uint64_t bytes_limit(void) {
  const char *text = getenv("TFDBG_DISK_BYTES_LIMIT");
  uint64_t limit;
  return text && dp_parse_uint64(dp_view_of(text), &limit) && limit > 0 ? limit
                                                                        : UINT64_C(100) << 30;
}

static dp_status *claim_bytes(const dp_debug_key *key, const dp_tensor *tensor) {
  uint64_t bytes = tensor->data ? dp_tensor_bytes(tensor) : 0, limit = bytes_limit();
  if (bytes == 0)
    return NULL;
  uint64_t used = atomic_load(&bytes_used);
  do {
    if (used + bytes >= limit)
      return dp_status_create(
          DP_RESOURCE_EXHAUSTED,
          "TensorFlow Debugger has exhausted file-system byte-size allowance (%" PRIu64
          "), therefore it cannot dump an additional %" PRIu64 " byte(s) of tensor data for the "
          "debug tensor %s:%d. You may use the environment variable TFDBG_DISK_BYTES_LIMIT to set "
          "a higher limit.",
          limit, bytes, key->node, key->slot);
  } while (!atomic_compare_exchange_weak(&bytes_used, &used, used + bytes));
  return NULL;
}

/* Packs a Summary.Value without its tensor. */
static dp_status *pack_value(const dp_debug_key *key, dp_rope *rope) {
  dp_text name = {0}, place = {0};
  dp_text_printf(&name, "%s:%d:%s", key->node, key->slot, key->op);
  dp_text_printf(&place, "{\"device\":\"%s\",\"outputSlot\":%d,\"numChunks\":1,\"chunkIndex\":0}",
                 key->device, key->slot);
  Tensorflow__SummaryMetadata__PluginData plugin = TENSORFLOW__SUMMARY_METADATA__PLUGIN_DATA__INIT;
  plugin.plugin_name = "debugger";
  plugin.content = (ProtobufCBinaryData){place.length, (uint8_t *)place.data};
  Tensorflow__SummaryMetadata metadata = TENSORFLOW__SUMMARY_METADATA__INIT;
  metadata.plugin_data = &plugin;
  Tensorflow__Summary__Value value = TENSORFLOW__SUMMARY__VALUE__INIT;
  value.tag = (char *)key->node;
  value.node_name = name.data;
  value.metadata = &metadata;
  dp_status *status = dp_wire_pack(&value, rope);
  dp_text_deinit(&name);
  dp_text_deinit(&place);
  return status;
}

/* Packs field by field, so that the bytes of a large tensor are not copied. */
static dp_status *pack_tensor_event(const dp_debug_key *key, const dp_tensor *tensor,
                                    int64_t micros, dp_rope *event) {
  enum { WALL_TIME = 1 << 3 | 1, SUMMARY = 5 << 3 | 2, VALUE = 1 << 3 | 2, VALUE_TENSOR = 8 };
  double wall_time = (double)micros;
  dp_rope value = {0};
  dp_text head = {0}, value_head = {0};
  dp_status *status = pack_value(key, &value);
  if (!status)
    status = dp_wire_encode_tensor_content_field(VALUE_TENSOR, tensor, &value);
  dp_text_add_char(&value_head, VALUE);
  dp_text_add_varint(&value_head, value.length);
  dp_text_add_char(&head, WALL_TIME);
  dp_text_append(&head, &wall_time, sizeof(wall_time));
  dp_text_add_char(&head, SUMMARY);
  dp_text_add_varint(&head, value_head.length + value.length);
  dp_text_append(&head, value_head.data, value_head.length);
  if (!status)
    status = dp_rope_append(event, head.data, head.length);
  dp_rope_append_rope(event, &value);
  dp_rope_deinit(&value);
  dp_text_deinit(&value_head);
  dp_text_deinit(&head);
  return status;
}

static void print_tensor_path(const dp_debug_key *key, int64_t step_id, const char *root,
                              dp_text *path) {
  add_root(path, root);
  if (!*key->io_of_node) {
    add_device_folder(path, key->device);
    dp_text_printf(path, "%s_%d_%s", key->node, key->slot, key->op);
    return;
  }
  dp_text_printf(path, "node-io-dump/step-%" PRId64 "/", step_id);
  for (const char *at = key->io_of_node; *at; at++)
    dp_text_add_char(path, *at == '/' ? '-' : *at);
  dp_text_printf(path, ":%s:%" PRId64, key->is_input ? "in" : "out", key->io_index);
}

static dp_status *dump_tensor_to(const dp_debug_key *key, const dp_tensor *tensor, int64_t step_id,
                                 const char *root) {
  int64_t micros = now_micros();
  dp_rope event = {0};
  dp_text path = {0};
  print_tensor_path(key, step_id, root, &path);
  dp_status *status = pack_tensor_event(key, tensor, micros, &event);
  if (!status)
    status = dump_event(dp_text_string(&path), micros, &event);
  dp_text_deinit(&path);
  dp_rope_deinit(&event);
  return status;
}

dp_status *dp_debug_dump_tensor(const dp_debug_key *key, const dp_tensor *tensor, int64_t step_id,
                                dp_debug_urls urls) {
  dp_text failures = {0};
  size_t failed = 0;
  dp_status *status = dp_debug_check_urls(urls);
  for (size_t i = 0; i < urls.count && !status; i++) {
    const char *root = root_of(urls.items[i]);
    status = root ? claim_bytes(key, tensor)
                  : dp_status_create(DP_INTERNAL, "Invalid debug target URL: %s", urls.items[i]);
    dp_status *failure = status ? NULL : dump_tensor_to(key, tensor, step_id, root);
    if (!failure)
      continue;
    dp_text_printf(&failures, " %s;", dp_status_message(failure));
    dp_status_release(failure);
    failed++;
  }
  if (!status && failed > 0)
    status = dp_status_create(DP_INTERNAL,
                              "Publishing to %zu of %zu debug target URLs failed, due to the "
                              "following errors:%s",
                              failed, urls.count, dp_text_string(&failures));
  dp_text_deinit(&failures);
  return status;
}

/* ---- Graphs and runs ---- */

/* Packs the event and writes it to `name` in the folder of each URL, or in the folder of `device`
 * below it when `device` is not NULL. */
static dp_status *dump_everywhere(Tensorflow__Event *event, const char *device, const char *name,
                                  dp_debug_urls urls) {
  int64_t micros = now_micros();
  event->wall_time = (double)micros;
  dp_rope rope = {0};
  dp_status *status = dp_debug_check_urls(urls);
  if (!status)
    status = dp_wire_pack(event, &rope);
  for (size_t i = 0; i < urls.count && rope.length > 0; i++) {
    const char *root = root_of(urls.items[i]);
    if (!root)
      continue;
    dp_text path = {0};
    add_root(&path, root);
    if (device)
      add_device_folder(&path, device);
    dp_text_add(&path, name);
    dp_status_update(&status, dump_event(dp_text_string(&path), micros, &rope));
    dp_text_deinit(&path);
  }
  dp_rope_deinit(&rope);
  return status;
}

dp_status *dp_debug_dump_graph(const char *device, const Tensorflow__GraphDef *graph,
                               dp_debug_urls urls) {
  dp_arena *arena = dp_arena_create();
  Tensorflow__Event event = TENSORFLOW__EVENT__INIT;
  event.what_case = TENSORFLOW__EVENT__WHAT_GRAPH_DEF;
  dp_status *status = dp_wire_pack_bytes(graph, arena, &event.graph_def.data, &event.graph_def.len);
  if (!status) {
    uint64_t hash = dp_hash64(event.graph_def.data, event.graph_def.len, 0xDECAFCAFFE);
    const char *name = dp_arena_printf(arena, "_tfdbg_graph_hash%" PRIu64, hash);
    status = dump_everywhere(&event, device, name, urls);
  }
  dp_arena_destroy(arena);
  return status;
}

static void print_names(dp_text *text, const char *key, const char *const *names, size_t count) {
  dp_text_printf(text, ",\"%s\":[", key);
  for (size_t i = 0; i < count; i++)
    dp_text_printf(text, "%s\"%s\"", i ? "," : "", names[i]);
  dp_text_add_char(text, ']');
}

static void print_run(const dp_debug_run *run, dp_text *text) {
  dp_text_printf(text,
                 "{\"global_step\":%" PRId64 ",\"session_run_index\":%" PRId64
                 ",\"executor_step_index\":%" PRId64,
                 run->global_step, run->index, run->index);
  print_names(text, "input_names", run->feeds, run->feed_count);
  print_names(text, "output_names", run->fetches, run->fetch_count);
  print_names(text, "target_nodes", run->targets, run->target_count);
  dp_text_add_char(text, '}');
}

dp_status *dp_debug_dump_run(const dp_debug_run *run, dp_debug_urls urls) {
  dp_text text = {0}, name = {0};
  print_run(run, &text);
  dp_text_printf(&name, "_tfdbg_core_metadata_sessionrun%.14" PRId64, run->index);
  Tensorflow__LogMessage message = TENSORFLOW__LOG_MESSAGE__INIT;
  message.message = text.data;
  Tensorflow__Event event = TENSORFLOW__EVENT__INIT;
  event.what_case = TENSORFLOW__EVENT__WHAT_LOG_MESSAGE;
  event.log_message = &message;
  dp_status *status = dump_everywhere(&event, NULL, dp_text_string(&name), urls);
  dp_text_deinit(&name);
  dp_text_deinit(&text);
  return status;
}
