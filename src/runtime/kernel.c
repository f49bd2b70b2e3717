/* The registry of kernels: which body runs which op.
 *
 * Tables of rows are kept where their families define them; the registry only has a map from op to
 * its rows, in the order of registration. Rows are looked up when a graph is compiled, never in a
 * step, so one mutex is enough. Instances belong to an executor or to a kernel cache. */
#include "runtime/kernel.h"

#include <pthread.h>
#include "base/map.h"
#include "base/memory.h"

typedef DP_ARRAY(const dp_kernel *) row_list;

static pthread_mutex_t registry_mutex = PTHREAD_MUTEX_INITIALIZER;
static dp_map *registry; /* op -> row_list; lives as long as the process */

void dp_kernel_register(const dp_kernel *rows, size_t count) {
  pthread_mutex_lock(&registry_mutex);
  if (!registry)
    registry = dp_map_create();
  for (size_t i = 0; i < count; ++i) {
    row_list *list = dp_map_get(registry, rows[i].op);
    if (!list) {
      list = DP_NEW(row_list);
      dp_map_put(registry, rows[i].op, list);
    }
    DP_ARRAY_PUSH(list, &rows[i]);
  }
  pthread_mutex_unlock(&registry_mutex);
}

size_t dp_kernel_rows(const char *op, const dp_kernel **rows_out, size_t capacity) {
  pthread_mutex_lock(&registry_mutex);
  const row_list *list = registry ? dp_map_get(registry, op) : NULL;
  size_t count = list ? list->count : 0;
  for (size_t i = 0; i < count && i < capacity; ++i)
    rows_out[i] = list->items[i];
  pthread_mutex_unlock(&registry_mutex);
  return count;
}

bool dp_kernel_exists(const char *op) {
  return dp_kernel_rows(op, NULL, 0) > 0;
}

static bool in_set(dp_dtype_set set, int number) {
  dp_dtype base = dp_dtype_base(number);
  return base > DP_INVALID_DTYPE && base < DP_DTYPE_END && (set & DP_DTYPE_BIT(base));
}

static bool constraint_holds(const dp_kernel_constraint *constraint, const dp_node *node) {
  const dp_attr *attr = dp_node_attr(node, constraint->attr);
  if (!attr)
    return false;
  if (attr->kind == DP_ATTR_TYPE)
    return in_set(constraint->types, attr->type);
  if (attr->kind != DP_ATTR_LIST_TYPE)
    return false;
  for (int32_t i = 0; i < attr->count; ++i)
    if (!in_set(constraint->types, attr->types[i]))
      return false;
  return true;
}

static bool row_fits(const dp_kernel *row, const dp_node *node) {
  for (size_t i = 0; i < sizeof(row->types) / sizeof(row->types[0]); ++i)
    if (row->types[i].attr && !constraint_holds(&row->types[i], node))
      return false;
  return !row->accepts || row->accepts(node);
}

static void print_row(const dp_kernel *row, const char *device_type, dp_text *text) {
  dp_text_printf(text, "  device='%s'", device_type);
  for (size_t i = 0; i < sizeof(row->types) / sizeof(row->types[0]) && row->types[i].attr; ++i) {
    dp_text_printf(text, "; %s in [", row->types[i].attr);
    const char *separator = "";
    for (int number = 1; number < DP_DTYPE_END; ++number)
      if (row->types[i].types & DP_DTYPE_BIT(number)) {
        dp_text_printf(text, "%s%s", separator, dp_dtype_name(number));
        separator = ", ";
      }
    dp_text_add(text, "]");
  }
  dp_text_add(text, "\n");
}

static dp_status *no_kernel(const dp_node *node, const char *op, const char *device_type) {
  dp_text text = {0};
  dp_text_printf(&text,
                 "No OpKernel was registered to support Op '%s' used by {{node %s}} with these "
                 "attrs: [",
                 node->op->name, node->name);
  const char *separator = "";
  for (int32_t i = 0; i < node->attr_count; ++i) {
    dp_text_printf(&text, "%s%s=", separator, node->attrs[i].name);
    dp_attr_print(&node->attrs[i], &text);
    separator = ", ";
  }
  dp_text_printf(&text, "]\nRegistered devices: [%s]\nRegistered kernels:\n", device_type);
  const dp_kernel *rows[64];
  size_t count = dp_kernel_rows(op, rows, 64);
  for (size_t i = 0; i < count && i < 64; ++i)
    print_row(rows[i], device_type, &text);
  if (count == 0)
    dp_text_add(&text, "  <no registered kernels>\n");
  dp_status *status = dp_status_create(DP_UNIMPLEMENTED, "%s", dp_text_string(&text));
  dp_text_deinit(&text);
  return status;
}

dp_status *dp_kernel_find(const dp_node *node, const char *device_type,
                          const dp_kernel **kernel_out) {
  const char *op = node->op->is_function ? DP_KERNEL_FUNCTION_OP : node->op->name;
  const dp_kernel *found = NULL;
  pthread_mutex_lock(&registry_mutex);
  const row_list *list = registry ? dp_map_get(registry, op) : NULL;
  for (size_t i = 0; list && i < list->count && !found; ++i)
    if (row_fits(list->items[i], node))
      found = list->items[i];
  pthread_mutex_unlock(&registry_mutex);
  if (!found)
    return no_kernel(node, op, device_type);
  *kernel_out = found;
  return NULL;
}

/* ---- Instances ---- */
dp_status *dp_kernel_instance_create(const dp_kernel_setup *setup,
                                     dp_kernel_instance **instance_out) {
  const dp_kernel *kernel;
  DP_RETURN_IF_ERROR(dp_kernel_find(setup->node, setup->device->type, &kernel));
  dp_kernel_instance *instance = DP_NEW(dp_kernel_instance);
  dp_refcount_init(&instance->references);
  instance->kernel = kernel;
  if (kernel->state_size)
    instance->state = dp_calloc(1, kernel->state_size);
  dp_status *status = kernel->create ? kernel->create(setup, instance->state) : NULL;
  if (status) {
    dp_kernel_instance_release(instance);
    return status;
  }
  *instance_out = instance;
  return NULL;
}

dp_kernel_instance *dp_kernel_instance_retain(dp_kernel_instance *instance) {
  dp_refcount_retain(&instance->references);
  return instance;
}

void dp_kernel_instance_release(dp_kernel_instance *instance) {
  if (!instance || !dp_refcount_release(&instance->references))
    return;
  if (instance->kernel->destroy)
    instance->kernel->destroy(instance->state);
  dp_free(instance->state);
  if (instance->graph)
    dp_graph_destroy(instance->graph);
  dp_free(instance);
}
