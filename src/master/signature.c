/* What a step asks for, as a key: a hash of its parts, and a comparison part by part.
 *
 * A session finds its plans by signature. The hash is computed before the session's lock is taken,
 * so that a lookup under the lock is one probe and one comparison; nothing is printed. Plans whose
 * signatures have the same hash hang in one chain: a collision costs a comparison, never a wrong
 * plan. A table belongs to one session, whose lock guards it. */
#include "master/master_internal.h"

/* ---- Hash ---- */

static uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * UINT64_C(0x9E3779B97F4A7C15);
  return hash ^ hash >> 32;
}

static uint64_t mix_text(uint64_t hash, const char *text) {
  return mix(hash, dp_hash_bytes(text, strlen(text)));
}

static uint64_t mix_names(uint64_t hash, const char *const *names, size_t count) {
  hash = mix(hash, count);
  for (size_t i = 0; i < count; i++)
    hash = mix_text(hash, names[i]);
  return hash;
}

uint64_t dp_master_signature_hash(const step_signature *signature) {
  const dp_planner_signature *names = &signature->names;
  uint64_t hash = mix(0, signature->is_partial);
  hash = mix_names(hash, names->feeds, names->feed_count);
  hash = mix_names(hash, names->fetches, names->fetch_count);
  hash = mix_names(hash, names->targets, names->target_count);
  hash = mix(hash, names->connection_count);
  for (size_t i = 0; i < names->connection_count; i++)
    hash = mix_text(mix_text(hash, names->connections[i].from), names->connections[i].to);
  hash = mix(hash, (uint64_t)signature->collective_key);
  if (!signature->debug)
    return hash;
  hash = mix(hash, signature->is_callable ? 2 : 1);
  for (size_t i = 0; i < signature->debug->n_debug_tensor_watch_opts; i++) {
    const Tensorflow__DebugTensorWatch *watch = signature->debug->debug_tensor_watch_opts[i];
    hash = mix(mix_text(hash, watch->node_name), (uint64_t)watch->output_slot);
  }
  return hash;
}

/* ---- Comparison ---- */

static bool same_names(const char *const *a, size_t a_count, const char *const *b, size_t b_count) {
  if (a_count != b_count)
    return false;
  for (size_t i = 0; i < a_count; i++)
    if (strcmp(a[i], b[i]) != 0)
      return false;
  return true;
}

static bool same_connections(const dp_planner_signature *a, const dp_planner_signature *b) {
  if (a->connection_count != b->connection_count)
    return false;
  for (size_t i = 0; i < a->connection_count; i++)
    if (strcmp(a->connections[i].from, b->connections[i].from) != 0 ||
        strcmp(a->connections[i].to, b->connections[i].to) != 0)
      return false;
  return true;
}

static bool same_watch(const Tensorflow__DebugTensorWatch *a,
                       const Tensorflow__DebugTensorWatch *b) {
  return a->tolerate_debug_op_creation_failures == b->tolerate_debug_op_creation_failures &&
         a->output_slot == b->output_slot && strcmp(a->node_name, b->node_name) == 0 &&
         same_names((const char *const *)a->debug_ops, a->n_debug_ops,
                    (const char *const *)b->debug_ops, b->n_debug_ops) &&
         same_names((const char *const *)a->debug_urls, a->n_debug_urls,
                    (const char *const *)b->debug_urls, b->n_debug_urls);
}

/* What is watched, not the step that the client counts. */
static bool same_debug(const step_signature *a, const step_signature *b) {
  if (!a->debug || !b->debug)
    return a->debug == b->debug;
  if (a->is_callable != b->is_callable ||
      a->debug->n_debug_tensor_watch_opts != b->debug->n_debug_tensor_watch_opts)
    return false;
  for (size_t i = 0; i < a->debug->n_debug_tensor_watch_opts; i++)
    if (!same_watch(a->debug->debug_tensor_watch_opts[i], b->debug->debug_tensor_watch_opts[i]))
      return false;
  return true;
}

bool dp_master_signature_equals(const step_signature *a, const step_signature *b) {
  const dp_planner_signature *left = &a->names, *right = &b->names;
  return a->is_partial == b->is_partial && a->collective_key == b->collective_key &&
         same_names(left->feeds, left->feed_count, right->feeds, right->feed_count) &&
         same_names(left->fetches, left->fetch_count, right->fetches, right->fetch_count) &&
         same_names(left->targets, left->target_count, right->targets, right->target_count) &&
         same_connections(left, right) && same_debug(a, b);
}

/* ---- The table ---- */

void dp_plan_table_init(plan_table *table) {
  *table = (plan_table){.by_hash = dp_map_create()};
}

void dp_plan_table_deinit(plan_table *table) {
  dp_map_destroy(table->by_hash);
}

static step_plan *first_with(const plan_table *table, uint64_t hash) {
  return dp_map_get_n(table->by_hash, &hash, sizeof(hash));
}

step_plan *dp_plan_table_find(const plan_table *table, const step_signature *signature) {
  step_plan *plan = first_with(table, signature->hash);
  while (plan && !dp_master_signature_equals(&plan->signature, signature))
    plan = plan->next;
  return plan;
}

void dp_plan_table_add(plan_table *table, step_plan *plan) {
  uint64_t hash = plan->signature.hash;
  plan->next = first_with(table, hash);
  dp_map_put_n(table->by_hash, &hash, sizeof(hash), plan);
  table->count++;
}

bool dp_plan_table_remove(plan_table *table, step_plan *plan) {
  uint64_t hash = plan->signature.hash;
  step_plan *first = first_with(table, hash), **at = &first;
  while (*at && *at != plan)
    at = &(*at)->next;
  if (!*at)
    return false;
  *at = plan->next;
  if (first)
    dp_map_put_n(table->by_hash, &hash, sizeof(hash), first);
  else
    dp_map_remove_n(table->by_hash, &hash, sizeof(hash));
  table->count--;
  return true;
}

step_plan *dp_plan_table_take(plan_table *table) {
  const char *key;
  void *first;
  size_t at = 0;
  if (!dp_map_next(table->by_hash, &at, &key, &first))
    return NULL;
  dp_plan_table_remove(table, first);
  return first;
}
