/* References inside a function body. There an input is not "node:3". It names an argument of the
 * function ("x", or "x:1" for one value of a list), or an output argument of a node ("node:out", or
 * "node:out:2" for one value of a list). Arguments are in a map; nodes are found by the names of
 * the body's graph, which the index borrows. Used by the one thread that builds the graph. */
#include <string.h>

#include "base/map.h"
#include "graph/graph_internal.h"

typedef struct argument {
  int32_t first, count;
} argument;

struct dp_body_index {
  dp_graph *graph;
  dp_map *arguments;
};

dp_body_index *dp_body_index_create(dp_graph *graph) {
  dp_body_index *index = DP_NEW(dp_body_index);
  index->graph = graph;
  index->arguments = dp_map_create();
  return index;
}

void dp_body_index_destroy(dp_body_index *index) {
  dp_map_destroy(index->arguments);
  dp_free(index);
}

bool dp_body_index_add_argument(dp_body_index *index, const char *name, int32_t first,
                                int32_t count) {
  argument *made = DP_ARENA_NEW(index->graph->arena, argument);
  *made = (argument){first, count};
  return dp_map_put(index->arguments, name, made) == NULL;
}

/* "12" to 12; false unless it is all digits and below `limit`. */
static bool read_number(dp_view text, int32_t limit, int32_t *number_out) {
  uint64_t number;
  if (!dp_parse_uint64(text, &number) || number >= (uint64_t)limit)
    return false;
  *number_out = (int32_t)number;
  return true;
}

static bool find_argument(const dp_body_index *index, dp_view name, const dp_view *number,
                          dp_body_value *value_out) {
  const argument *found = dp_map_get_n(index->arguments, name.data, name.length);
  if (!found)
    return false;
  dp_body_value value = {.node = found->first, .count = found->count, .is_argument = true};
  if (number) {
    int32_t offset;
    if (!read_number(*number, found->count, &offset))
      return false;
    value.node += offset;
    value.count = 1;
  }
  *value_out = value;
  return true;
}

/* The outputs of the node that belong to its output argument `name`. */
static bool find_output(const dp_node *node, dp_view name, int32_t *begin_out, int32_t *count_out) {
  int32_t begin = 0;
  for (int32_t i = 0; i < node->op->output_count; i++) {
    int32_t count = 0;
    dp_status *status =
        dp_arg_count(node->op, &node->op->outputs[i], node->attrs, node->attr_count, &count);
    dp_status_release(status); /* the node is complete, so dp_arg_count cannot fail */
    if (dp_view_equals(name, node->op->outputs[i].name)) {
      *begin_out = begin;
      *count_out = count;
      return true;
    }
    begin += count;
  }
  return false;
}

bool dp_body_index_find(const dp_body_index *index, const char *reference,
                        dp_body_value *value_out) {
  dp_view name = dp_view_of(reference), output, number;
  const char *colon = strchr(reference, ':');
  if (!colon)
    return find_argument(index, name, NULL, value_out);
  name.length = (size_t)(colon - reference);
  output = dp_view_of(colon + 1);
  if (find_argument(index, name, &output, value_out))
    return true;
  int32_t id =
      dp_names_find(index->graph, name.data, name.length, dp_name_hash(name.data, name.length));
  if (id < 0)
    return false;
  const char *second = strchr(colon + 1, ':');
  if (second)
    output.length = (size_t)(second - colon - 1);
  dp_body_value value = {.node = id};
  if (!find_output(index->graph->nodes[id], output, &value.output, &value.count))
    return false;
  if (second) {
    int32_t offset;
    number = dp_view_of(second + 1);
    if (!read_number(number, value.count, &offset))
      return false;
    value.output += offset;
    value.count = 1;
  }
  *value_out = value;
  return true;
}

int32_t dp_body_index_find_node(const dp_body_index *index, const char *name) {
  const argument *found = dp_map_get(index->arguments, name);
  if (found)
    return found->count ? found->first : -1;
  const dp_node *node = dp_graph_find(index->graph, name);
  return node ? node->id : -1;
}
