/* Looking up built-in ops. The table is text inside the program (tools/embed-ops). A name is found
 * by its hash. A line becomes a dp_op when it is first asked for: it is parsed under a mutex and
 * published with a release store; from then on it is read without a lock. Parsed ops live as long
 * as the process. Any thread may call. */
#include "graph/op.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "graph/op_internal.h"

static pthread_mutex_t parse_mutex = PTHREAD_MUTEX_INITIALIZER;
static dp_arena *parse_arena; /* under parse_mutex */

static const dp_op *parse_once(size_t index) {
  pthread_mutex_lock(&parse_mutex);
  const dp_op *op = atomic_load_explicit(&dp_ops_parsed[index], memory_order_relaxed);
  if (!op) {
    if (!parse_arena)
      parse_arena = dp_arena_create();
    op = dp_op_parse(dp_ops_text + dp_ops_starts[index], parse_arena);
    atomic_store_explicit(&dp_ops_parsed[index], op, memory_order_release);
  }
  pthread_mutex_unlock(&parse_mutex);
  return op;
}

size_t dp_op_count(void) {
  return dp_ops_count;
}

const dp_op *dp_op_at(size_t index) {
  const dp_op *op = atomic_load_explicit(&dp_ops_parsed[index], memory_order_acquire);
  return op ? op : parse_once(index);
}

const dp_op *dp_op_find(const char *name) {
  uint32_t hash = 2166136261u; /* FNV-1a, as in tools/embed-ops */
  const char *end = name;
  for (; *end; end++)
    hash = (hash ^ (unsigned char)*end) * 16777619u;
  size_t length = (size_t)(end - name);
  for (uint32_t at = hash & dp_ops_slot_mask; dp_ops_slots[at]; at = (at + 1) & dp_ops_slot_mask) {
    uint32_t index = dp_ops_slots[at] - 1u;
    const char *line = dp_ops_text + dp_ops_starts[index];
    /* strncmp stops at the line's end. After a match line[length] exists and ends the op's name. */
    if (strncmp(line, name, length) == 0 && line[length] == '(')
      return dp_op_at(index);
  }
  return NULL;
}

int dp_op_attr_index(const dp_op *op, const char *name) {
  int low = 0, high = op->attr_count;
  while (low < high) {
    int middle = (low + high) / 2;
    int order = strcmp(op->attrs[op->attr_order[middle]].name, name);
    if (order == 0)
      return op->attr_order[middle];
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return -1;
}

int32_t dp_op_input_index(const dp_op *op, const char *name) {
  for (int32_t i = 0; i < op->input_count; ++i)
    if (strcmp(op->inputs[i].name, name) == 0)
      return i;
  return -1;
}

static int compare_attr_names(const void *a, const void *b, void *attrs) {
  const dp_op_attr *all = attrs;
  return strcmp(all[*(const int16_t *)a].name, all[*(const int16_t *)b].name);
}

void dp_op_sort_attrs(dp_op *op, dp_arena *arena) {
  int16_t *order = dp_arena_allocate(arena, sizeof(int16_t) * (size_t)op->attr_count);
  for (int32_t i = 0; i < op->attr_count; i++)
    order[i] = (int16_t)i;
  if (op->attr_count > 1)
    qsort_r(order, (size_t)op->attr_count, sizeof(int16_t), compare_attr_names, (void *)op->attrs);
  op->attr_order = order;
}

static void print_args(const dp_op *op, const dp_op_arg *args, int32_t count, dp_text *text) {
  for (int32_t i = 0; i < count; i++) {
    const dp_op_arg *arg = &args[i];
    dp_text_printf(text, "%s%s:%s", i ? ", " : "", arg->name, arg->is_ref ? "Ref(" : "");
    if (arg->number_attr >= 0)
      dp_text_printf(text, "%s*", op->attrs[arg->number_attr].name);
    if (arg->type_attr >= 0)
      dp_text_add(text, op->attrs[arg->type_attr].name);
    else if (arg->type_list_attr < 0)
      dp_text_add(text, dp_dtype_name(arg->dtype));
    if (arg->is_ref)
      dp_text_add(text, ")");
  }
}

static void print_allowed(const dp_op_attr *attr, dp_text *text) {
  if (!attr->allowed_type_count && !attr->allowed_string_count)
    return;
  dp_attr list = {.count = attr->allowed_type_count, .kind = DP_ATTR_LIST_TYPE};
  int32_t types[DP_DTYPE_END];
  dp_view *strings = NULL;
  if (attr->allowed_type_count) {
    for (int32_t i = 0; i < attr->allowed_type_count; i++)
      types[i] = (int32_t)attr->allowed_type_list[i];
    list.types = types;
  } else {
    strings = DP_NEW_ARRAY(dp_view, (size_t)attr->allowed_string_count);
    for (int32_t i = 0; i < attr->allowed_string_count; i++)
      strings[i] = dp_view_of(attr->allowed_strings[i]);
    list = (dp_attr){.kind = DP_ATTR_LIST_STRING, .count = attr->allowed_string_count};
    list.strings = strings;
  }
  dp_text_add(text, ",allowed=");
  dp_attr_print(&list, text);
  dp_free(strings);
}

void dp_op_print(const dp_op *op, dp_text *text) {
  dp_text_printf(text, "Op<name=%s; signature=", op->name);
  print_args(op, op->inputs, op->input_count, text);
  dp_text_add(text, " -> ");
  print_args(op, op->outputs, op->output_count, text);
  for (int32_t i = 0; i < op->attr_count; i++) {
    const dp_op_attr *attr = &op->attrs[i];
    dp_text_printf(text, "; attr=%s:%s", attr->name, dp_attr_kind_name(attr->kind));
    if (attr->has_default) {
      dp_text_add(text, ",default=");
      dp_attr_print(&attr->default_value, text);
    }
    if (attr->has_minimum)
      dp_text_printf(text, ",min=%lld", (long long)attr->minimum);
    print_allowed(attr, text);
  }
  dp_text_add(text, op->is_commutative ? "; is_commutative=true" : "");
  dp_text_add(text, op->is_aggregate ? "; is_aggregate=true" : "");
  dp_text_add(text, op->is_stateful ? "; is_stateful=true" : "");
  dp_text_add(text, op->allows_uninitialized_input ? "; allows_uninitialized_input=true" : "");
  dp_text_add(text, ">");
}
