/* Reading a node: its attributes by kind, the slots of its arguments, its summary as text, which
 * control-flow op it is. Nodes are only read: any number of threads may read a graph that no longer
 * changes. */
#include <string.h>

#include "graph/graph_internal.h"

const dp_attr *dp_node_attr(const dp_node *node, const char *name) {
  return dp_attr_find(node->attrs, node->attr_count, name);
}

/* Finds an attribute and checks that it has that kind. */
static dp_status *get(const dp_node *node, const char *name, dp_attr_kind kind,
                      const dp_attr **attr_out) {
  const dp_attr *attr = dp_node_attr(node, name);
  if (!attr)
    return dp_node_attach(DP_INVALID("No attr named '%s' in NodeDef:", name), node->name);
  if (attr->kind != kind) {
    if ((kind & DP_ATTR_LIST) && attr->kind == DP_ATTR_LIST) {
      static const dp_attr empty = {.kind = DP_ATTR_LIST};
      *attr_out = &empty;
      return NULL;
    }
    return dp_node_attach(
        DP_INVALID("AttrValue had value with type '%s' when '%s' expected\n\t for "
                   "attr '%s'",
                   dp_attr_kind_name(attr->kind), dp_attr_kind_name(kind), name),
        node->name);
  }
  *attr_out = attr;
  return NULL;
}

dp_status *dp_node_get_int(const dp_node *node, const char *name, int64_t *value_out) {
  const dp_attr *attr;
  DP_RETURN_IF_ERROR(get(node, name, DP_ATTR_INT, &attr));
  *value_out = attr->integer;
  return NULL;
}

dp_status *dp_node_get_float(const dp_node *node, const char *name, float *value_out) {
  const dp_attr *attr;
  DP_RETURN_IF_ERROR(get(node, name, DP_ATTR_FLOAT, &attr));
  *value_out = attr->number;
  return NULL;
}

dp_status *dp_node_get_bool(const dp_node *node, const char *name, bool *value_out) {
  const dp_attr *attr;
  DP_RETURN_IF_ERROR(get(node, name, DP_ATTR_BOOL, &attr));
  *value_out = attr->boolean;
  return NULL;
}

dp_status *dp_node_get_type(const dp_node *node, const char *name, dp_dtype *value_out) {
  const dp_attr *attr;
  DP_RETURN_IF_ERROR(get(node, name, DP_ATTR_TYPE, &attr));
  *value_out = (dp_dtype)attr->type;
  return NULL;
}

dp_status *dp_node_get_string(const dp_node *node, const char *name, dp_view *value_out) {
  const dp_attr *attr;
  DP_RETURN_IF_ERROR(get(node, name, DP_ATTR_STRING, &attr));
  *value_out = attr->string;
  return NULL;
}

dp_status *dp_node_get_shape(const dp_node *node, const char *name,
                             const dp_partial_shape **value_out) {
  const dp_attr *attr;
  DP_RETURN_IF_ERROR(get(node, name, DP_ATTR_SHAPE, &attr));
  *value_out = attr->shape;
  return NULL;
}

dp_status *dp_node_get_tensor(const dp_node *node, const char *name, const dp_tensor **value_out) {
  const dp_attr *attr;
  DP_RETURN_IF_ERROR(get(node, name, DP_ATTR_TENSOR, &attr));
  *value_out = attr->tensor;
  return NULL;
}

dp_status *dp_node_get_func(const dp_node *node, const char *name, const dp_func **value_out) {
  const dp_attr *attr;
  DP_RETURN_IF_ERROR(get(node, name, DP_ATTR_FUNC, &attr));
  *value_out = attr->func;
  return NULL;
}

dp_status *dp_node_get_list(const dp_node *node, const char *name, dp_attr_kind kind,
                            const dp_attr **value_out) {
  return get(node, name, kind, value_out);
}

/* ---- Arguments ---- */

static dp_status *find_range(const dp_node *node, const dp_op_arg *args, int32_t arg_count,
                             const char *name, const char *what, int32_t *begin_out,
                             int32_t *end_out) {
  int32_t begin = 0;
  for (int32_t i = 0; i < arg_count; i++) {
    int32_t count;
    DP_RETURN_IF_ERROR(dp_arg_count(node->op, &args[i], node->attrs, node->attr_count, &count));
    if (strcmp(args[i].name, name) == 0) {
      *begin_out = begin;
      *end_out = begin + count;
      return NULL;
    }
    begin += count;
  }
  return dp_node_attach(DP_INVALID("Unknown %s name: %s", what, name), node->name);
}

dp_status *dp_node_input_range(const dp_node *node, const char *name, int32_t *begin_out,
                               int32_t *end_out) {
  return find_range(node, node->op->inputs, node->op->input_count, name, "input", begin_out,
                    end_out);
}

dp_status *dp_node_output_range(const dp_node *node, const char *name, int32_t *begin_out,
                                int32_t *end_out) {
  return find_range(node, node->op->outputs, node->op->output_count, name, "output", begin_out,
                    end_out);
}

/* ---- Text ---- */

static void print_attrs(const dp_node *node, dp_text *text) {
  for (int32_t i = 0; i < node->attr_count; i++) {
    dp_text_printf(text, "%s%s=", i ? ", " : "", node->attrs[i].name);
    dp_attr_print(&node->attrs[i], text);
  }
  if (*node->device)
    dp_text_printf(text, "%s_device=\"%s\"", node->attr_count ? ", " : "", node->device);
}

void dp_node_print(const dp_graph *graph, const dp_node *node, dp_text *text) {
  dp_text_printf(text, "{{node %s}} = %s[", node->name, node->op->name);
  print_attrs(node, text);
  dp_text_add(text, "](");
  const char *comma = "";
  for (int32_t i = 0; i < node->input_count; i++, comma = ", ") {
    const dp_node *source = graph->nodes[node->inputs[i].node];
    dp_text_printf(text, "%s%s", comma, source ? source->name : "<removed>");
    if (node->inputs[i].output > 0)
      dp_text_printf(text, ":%d", node->inputs[i].output);
  }
  for (int32_t i = 0; i < node->control_count; i++, comma = ", ") {
    const dp_node *source = graph->nodes[node->controls[i]];
    dp_text_printf(text, "%s^%s", comma, source ? source->name : "<removed>");
  }
  dp_text_add(text, ")");
}

/* ---- Control flow ---- */

bool dp_node_is_switch(const dp_node *node) {
  return dp_node_is(node, "Switch") || dp_node_is(node, "RefSwitch") ||
         dp_node_is(node, "_SwitchN");
}

bool dp_node_is_merge(const dp_node *node) {
  return dp_node_is(node, "Merge") || dp_node_is(node, "RefMerge") || dp_node_is(node, "_XlaMerge");
}

bool dp_node_is_enter(const dp_node *node) {
  return dp_node_is(node, "Enter") || dp_node_is(node, "RefEnter");
}

bool dp_node_is_exit(const dp_node *node) {
  return dp_node_is(node, "Exit") || dp_node_is(node, "RefExit");
}

bool dp_node_is_next_iteration(const dp_node *node) {
  return dp_node_is(node, "NextIteration") || dp_node_is(node, "RefNextIteration");
}
