/* Runs under TensorFlow's debugger: RunOptions.debug_options say which values are watched, and
 * where they go. Another set of watches is another plan, whose pieces the workers register with the
 * debug nodes in them (planner/debug_nodes.c). For each run the master itself writes a file that
 * says what was fed and fetched. It writes none for callables, as TensorFlow does not either.
 *
 * Files are written on the blocking pool. The plan counts its debugged runs; nothing else is kept.
 */
#include "master/master_internal.h"
#include "storage/debug_dump.h"

dp_status *dp_master_debug_read(const Tensorflow__RunOptions *options,
                                const Tensorflow__DebugOptions **debug_out) {
  const Tensorflow__DebugOptions *debug = options ? options->debug_options : NULL;
  *debug_out = debug && debug->n_debug_tensor_watch_opts > 0 ? debug : NULL;
  if (!*debug_out)
    return NULL;
  dp_arena *arena = dp_arena_create();
  dp_status *status = dp_debug_check_urls(dp_debug_urls_of(debug, arena));
  dp_arena_destroy(arena);
  return status;
}

/* ---- Plans ---- */

static char **copy_texts(char *const *texts, size_t count, dp_arena *arena) {
  char **copies = DP_ARENA_ARRAY(arena, char *, count + 1);
  for (size_t i = 0; i < count; i++)
    copies[i] = dp_arena_strdup(arena, texts[i]);
  return copies;
}

static Tensorflow__DebugTensorWatch *copy_watch(const Tensorflow__DebugTensorWatch *watch,
                                                dp_arena *arena) {
  Tensorflow__DebugTensorWatch *copy =
      dp_wire_new(arena, &tensorflow__debug_tensor_watch__descriptor);
  copy->node_name = dp_arena_strdup(arena, watch->node_name);
  copy->output_slot = watch->output_slot;
  copy->n_debug_ops = watch->n_debug_ops;
  copy->debug_ops = copy_texts(watch->debug_ops, watch->n_debug_ops, arena);
  copy->n_debug_urls = watch->n_debug_urls;
  copy->debug_urls = copy_texts(watch->debug_urls, watch->n_debug_urls, arena);
  copy->tolerate_debug_op_creation_failures = watch->tolerate_debug_op_creation_failures;
  return copy;
}

const Tensorflow__DebugOptions *dp_master_debug_copy(const Tensorflow__DebugOptions *debug,
                                                     dp_arena *arena) {
  Tensorflow__DebugOptions *copy = dp_wire_new(arena, &tensorflow__debug_options__descriptor);
  size_t count = debug->n_debug_tensor_watch_opts;
  copy->global_step = debug->global_step;
  copy->reset_disk_byte_usage = debug->reset_disk_byte_usage;
  copy->n_debug_tensor_watch_opts = count;
  copy->debug_tensor_watch_opts = DP_ARENA_ARRAY(arena, Tensorflow__DebugTensorWatch *, count);
  for (size_t i = 0; i < count; i++)
    copy->debug_tensor_watch_opts[i] = copy_watch(debug->debug_tensor_watch_opts[i], arena);
  return copy;
}

/* ---- Runs ---- */

static dp_status *dump_run(const step_plan *plan, int64_t index, int64_t global_step) {
  const dp_planner_signature *names = &plan->signature.names;
  dp_debug_run run = {.global_step = global_step,
                      .index = index,
                      .feeds = names->feeds,
                      .feed_count = names->feed_count,
                      .fetches = names->fetches,
                      .fetch_count = names->fetch_count,
                      .targets = names->targets,
                      .target_count = names->target_count};
  dp_arena *arena = dp_arena_create();
  dp_status *status = dp_debug_dump_run(&run, dp_debug_urls_of(plan->signature.debug, arena));
  dp_arena_destroy(arena);
  return status;
}

dp_status *dp_master_debug_first(step_plan *plan) {
  return plan->signature.is_callable ? NULL : dump_run(plan, 0, plan->signature.debug->global_step);
}

dp_status *dp_master_debug_next(step_plan *plan, const Tensorflow__DebugOptions *debug) {
  if (debug->reset_disk_byte_usage)
    dp_debug_reset_disk_usage();
  int64_t index = atomic_fetch_add(&plan->debug_runs, 1);
  return index == 0 ? NULL : dump_run(plan, index, debug->global_step);
}
