/* The kernel cache: stateful kernels of a session, by node name.
 *
 * TensorFlow keeps one kernel for a stateful node however many subgraphs of the session contain it:
 * a random op continues its stream, a queue made without a name stays the same queue. An instance
 * here outlives the executor that asked first, so it is made from a copy of the node in a small
 * graph of its own. A node of the same name but with other attributes (pruned or rewritten
 * otherwise) is not the same kernel and is not shared. Any thread may enter. */
#include "runtime/kernel_cache_internal.h"

#include <pthread.h>
#include <string.h>
#include "base/map.h"
#include "base/memory.h"

struct dp_kernel_cache {
  pthread_mutex_t mutex;
  dp_map *entries; /* node name -> entry */
};

typedef struct cache_entry {
  dp_kernel_instance *instance;
  uint64_t fingerprint;
} cache_entry;

dp_kernel_cache *dp_kernel_cache_create(void) {
  dp_kernel_cache *cache = DP_NEW(dp_kernel_cache);
  pthread_mutex_init(&cache->mutex, NULL);
  cache->entries = dp_map_create();
  return cache;
}

void dp_kernel_cache_destroy(dp_kernel_cache *cache) {
  if (!cache)
    return;
  const char *name;
  void *value;
  for (size_t at = 0; dp_map_next(cache->entries, &at, &name, &value);) {
    cache_entry *held = value;
    dp_kernel_instance_release(held->instance);
    dp_free(held);
  }
  dp_map_destroy(cache->entries);
  pthread_mutex_destroy(&cache->mutex);
  dp_free(cache);
}

static bool is_shared(const dp_node *node) {
  return node->op->is_stateful && !node->op->is_function && node->op->name[0] != '_' &&
         !dp_node_is(node, "PartitionedCall") && !dp_node_is(node, "StatefulPartitionedCall");
}

static uint64_t fingerprint(const dp_node *node) {
  uint64_t hash = dp_hash_bytes(node->op->name, strlen(node->op->name));
  for (int32_t i = 0; i < node->attr_count; ++i) {
    const dp_attr *attr = &node->attrs[i];
    hash = hash * 0x9e3779b97f4a7c15u + dp_hash_bytes(attr->name, strlen(attr->name));
    hash = hash * 0x9e3779b97f4a7c15u + dp_attr_hash(attr);
  }
  return hash;
}

static dp_status *create_apart(const dp_kernel_setup *setup, dp_kernel_instance **instance_out) {
  dp_kernel_setup own = *setup;
  dp_graph *graph = dp_graph_create(setup->graph->library);
  own.graph = graph;
  own.node = dp_graph_clone_node(graph, setup->node, setup->node->name);
  dp_status *status = dp_kernel_instance_create(&own, instance_out);
  if (status)
    dp_graph_destroy(graph);
  else
    (*instance_out)->graph = graph;
  return status;
}

dp_status *dp_kernel_cache_get(dp_kernel_cache *cache, const dp_kernel_setup *setup,
                               dp_kernel_instance **instance_out) {
  if (!cache || !is_shared(setup->node))
    return dp_kernel_instance_create(setup, instance_out);
  uint64_t wanted = fingerprint(setup->node);
  pthread_mutex_lock(&cache->mutex);
  dp_status *status = NULL;
  cache_entry *held = dp_map_get(cache->entries, setup->node->name);
  if (held && held->fingerprint != wanted) {
    pthread_mutex_unlock(&cache->mutex);
    return dp_kernel_instance_create(setup, instance_out);
  }
  if (!held) {
    dp_kernel_instance *instance;
    status = create_apart(setup, &instance);
    if (!status) {
      held = DP_NEW(cache_entry);
      *held = (cache_entry){instance, wanted};
      dp_map_put(cache->entries, setup->node->name, held);
    }
  }
  if (!status)
    *instance_out = dp_kernel_instance_retain(held->instance);
  pthread_mutex_unlock(&cache->mutex);
  return status;
}
