/* Names of nodes: which are valid, how inputs refer to them, and the index from name to id. The
 * index is a hash table of ids (open addressing); the names themselves are in the nodes, so adding
 * a node allocates nothing once the table is large enough. One writer, as for the graph. */
#include <string.h>

#include "base/map.h"
#include "graph/graph_internal.h"

uint32_t dp_name_hash(const char *name, size_t length) {
  uint64_t hash = dp_hash_bytes(name, length);
  return (uint32_t)(hash ^ hash >> 32);
}

int32_t dp_names_find(const dp_graph *graph, const char *name, size_t length, uint32_t hash) {
  const dp_name_index *names = &graph->names;
  if (!names->capacity)
    return -1;
  uint32_t mask = names->capacity - 1;
  for (uint32_t at = hash & mask; names->slots[at].id >= 0; at = (at + 1) & mask) {
    if (names->slots[at].hash != hash)
      continue;
    const char *other = graph->nodes[names->slots[at].id]->name;
    if (strncmp(other, name, length) == 0 && !other[length])
      return names->slots[at].id;
  }
  return -1;
}

static void put(dp_name_index *names, dp_name_slot slot) {
  uint32_t mask = names->capacity - 1;
  uint32_t at = slot.hash & mask;
  while (names->slots[at].id >= 0)
    at = (at + 1) & mask;
  names->slots[at] = slot;
}

void dp_names_reserve(dp_graph *graph, uint32_t count) {
  dp_name_index *names = &graph->names;
  uint32_t wanted = names->capacity ? names->capacity : 16;
  while ((uint64_t)count * 4 > (uint64_t)wanted * 3)
    wanted *= 2;
  if (wanted == names->capacity)
    return;
  dp_name_index grown = {.capacity = wanted, .count = names->count};
  grown.slots = dp_malloc(wanted * sizeof(*grown.slots));
  memset(grown.slots, 0xff, wanted * sizeof(*grown.slots));
  for (uint32_t i = 0; i < names->capacity; i++)
    if (names->slots[i].id >= 0)
      put(&grown, names->slots[i]);
  dp_free(names->slots);
  *names = grown;
}

void dp_names_insert(dp_graph *graph, const dp_node *node, uint32_t hash) {
  dp_names_reserve(graph, graph->names.count + 1);
  put(&graph->names, (dp_name_slot){hash, node->id});
  graph->names.count++;
}

void dp_names_remove(dp_graph *graph, const dp_node *node) {
  dp_name_index *names = &graph->names;
  if (!names->capacity)
    return;
  uint32_t mask = names->capacity - 1;
  uint32_t hash = dp_name_hash(node->name, strlen(node->name));
  uint32_t at = hash & mask;
  while (names->slots[at].id >= 0 && names->slots[at].id != node->id)
    at = (at + 1) & mask;
  if (names->slots[at].id < 0)
    return;
  /* Close the gap: move back each follower that was pushed past it. */
  for (uint32_t next = (at + 1) & mask; names->slots[next].id >= 0; next = (next + 1) & mask) {
    uint32_t home = names->slots[next].hash & mask;
    if (((next - home) & mask) >= ((next - at) & mask)) {
      names->slots[at] = names->slots[next];
      at = next;
    }
  }
  names->slots[at].id = -1;
  names->count--;
}

/* Which characters may begin a name or follow a '>'. continues_name is for later characters. */
static bool starts_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.';
}

static bool continues_name(char c) {
  return starts_name(c) || c == '_' || c == '-' || c == '/';
}

bool dp_name_is_valid(const char *name, bool allow_internal) {
  if (!starts_name(*name) && !(allow_internal && *name == '_'))
    return false;
  for (name++; *name; name++) {
    if (*name == '>') {
      name++;
      if (!starts_name(*name) && *name != '_')
        return false;
    } else if (!continues_name(*name)) {
      return false;
    }
  }
  return true;
}

dp_view dp_parse_input(const char *text, int32_t *output_out) {
  if (*text == '^') {
    *output_out = -1;
    return dp_view_of(text + 1);
  }
  size_t length = strlen(text), digits = length;
  while (digits > 0 && text[digits - 1] >= '0' && text[digits - 1] <= '9')
    digits--;
  *output_out = 0;
  if (digits == length || digits < 2 || text[digits - 1] != ':')
    return (dp_view){text, length};
  int64_t output = 0;
  for (size_t i = digits; i < length; i++)
    output = output * 10 + (text[i] - '0') > INT32_MAX ? INT32_MAX : output * 10 + (text[i] - '0');
  *output_out = (int32_t)output;
  return (dp_view){text, digits - 1};
}

dp_node *dp_graph_find(const dp_graph *graph, const char *name) {
  size_t length = strlen(name);
  int32_t id = dp_names_find(graph, name, length, dp_name_hash(name, length));
  return id < 0 ? NULL : graph->nodes[id];
}

dp_status *dp_graph_find_output(const dp_graph *graph, const char *tensor_name, dp_node **node_out,
                                int32_t *output_out) {
  int32_t output;
  dp_view name = dp_parse_input(tensor_name, &output);
  int32_t id = dp_names_find(graph, name.data, name.length, dp_name_hash(name.data, name.length));
  if (id < 0)
    return dp_status_create(DP_NOT_FOUND, "FetchOutputs node %s: not found", tensor_name);
  dp_node *node = graph->nodes[id];
  if (output >= node->output_count)
    return DP_INVALID("FetchOutputs %s: output index too large, must be < %d", tensor_name,
                      node->output_count);
  *node_out = node;
  *output_out = output;
  return NULL;
}

const char *dp_graph_unique_name(dp_graph *graph, const char *prefix) {
  if (!dp_graph_find(graph, prefix))
    return dp_arena_strdup(graph->arena, prefix);
  size_t length = strlen(prefix);
  char *name = dp_arena_allocate(graph->arena, length + 16);
  memcpy(name, prefix, length);
  /* Start from the number of nodes: it is rarely taken, and counting from 0 would be quadratic. */
  for (int64_t number = graph->node_count;; number++) {
    name[length] = '_';
    char digits[16];
    int count = 0;
    for (int64_t rest = number; count == 0 || rest; rest /= 10)
      digits[count++] = (char)('0' + rest % 10);
    for (int i = 0; i < count; i++)
      name[length + 1 + (size_t)i] = digits[count - 1 - i];
    name[length + 1 + (size_t)count] = 0;
    if (!dp_graph_find(graph, name))
      return name;
  }
}
