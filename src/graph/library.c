/* Function libraries. A library only grows: functions are copied into it under the write lock and
 * found under the read lock. They stay in place until the library is destroyed, so a pointer to a
 * function needs no reference of its own. Two functions with one name are the same when their
 * serialized bytes are equal; before that, maps and nodes are sorted, because their order means
 * nothing, and debug information is left out. Any thread may call. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/map.h"
#include "graph/graph_internal.h"

typedef Tensorflow__FunctionDef function_message;

/* A dp_function and what is needed to compare it with another function. */
typedef struct entry {
  dp_function function; /* first: the public pointer is this one */
  uint64_t hash;
  bool gone; /* the import that added it failed */
} entry;

struct dp_library {
  dp_refcount references;
  pthread_rwlock_t lock; /* guards what follows */
  dp_map *functions;     /* name -> entry */
  dp_map *gradients;     /* name of a function -> name of its gradient */
  DP_ARRAY(entry *) order;
  dp_name_array gradient_order; /* names of functions */
  DP_ARRAY(Tensorflow__RegisteredGradient *) registered;
  DP_ARRAY(dp_arena *) arenas; /* one for each add that brought something */
  dp_tensor_array tensors;
};

/* ---- Creating and destroying ---- */

dp_library *dp_library_create(void) {
  dp_library *library = DP_NEW(dp_library);
  dp_refcount_init(&library->references);
  pthread_rwlock_init(&library->lock, NULL);
  library->functions = dp_map_create();
  library->gradients = dp_map_create();
  return library;
}

dp_library *dp_library_retain(dp_library *library) {
  dp_refcount_retain(&library->references);
  return library;
}

void dp_library_release(dp_library *library) {
  if (!library || !dp_refcount_release(&library->references))
    return;
  dp_tensor_array_release(&library->tensors);
  dp_map_destroy(library->functions);
  dp_map_destroy(library->gradients);
  DP_ARRAY_FREE(&library->order);
  DP_ARRAY_FREE(&library->gradient_order);
  DP_ARRAY_FREE(&library->registered);
  for (size_t i = 0; i < library->arenas.count; i++)
    dp_arena_destroy(library->arenas.items[i]);
  DP_ARRAY_FREE(&library->arenas);
  pthread_rwlock_destroy(&library->lock);
  dp_free(library);
}

/* ---- Comparing ---- */

/* The common beginning of protobuf-c's structs for entries of maps with string keys. */
typedef struct any_entry {
  ProtobufCMessage base;
  char *key;
} any_entry;

static int compare_keys(const void *a, const void *b) {
  return strcmp((*(any_entry *const *)a)->key, (*(any_entry *const *)b)->key);
}

/* The common beginning of protobuf-c's structs for entries of maps with uint32 keys. */
typedef struct numbered_entry {
  ProtobufCMessage base;
  uint32_t key;
} numbered_entry;

static int compare_numbers(const void *a, const void *b) {
  uint32_t left = (*(numbered_entry *const *)a)->key;
  uint32_t right = (*(numbered_entry *const *)b)->key;
  return (left > right) - (left < right);
}

static int compare_nodes(const void *a, const void *b) {
  return strcmp((*(Tensorflow__NodeDef *const *)a)->name, (*(Tensorflow__NodeDef *const *)b)->name);
}

static void sort_entries(size_t count, void *entries) {
  if (count > 1)
    qsort(entries, count, sizeof(void *), compare_keys);
}

static void sort_value(Tensorflow__AttrValue *value);

static void sort_func(Tensorflow__NameAttrList *func) {
  sort_entries(func->n_attr, func->attr);
  for (size_t i = 0; i < func->n_attr; i++)
    sort_value(func->attr[i]->value);
}

static void sort_value(Tensorflow__AttrValue *value) {
  if (!value)
    return;
  if (value->value_case == TENSORFLOW__ATTR_VALUE__VALUE_FUNC && value->func)
    sort_func(value->func);
  if (value->value_case == TENSORFLOW__ATTR_VALUE__VALUE_LIST && value->list)
    for (size_t i = 0; i < value->list->n_func; i++)
      sort_func(value->list->func[i]);
}

/* Sorts all maps in `function`, which is the library's copy, by their keys. */
static void sort_maps(function_message *function) {
  sort_entries(function->n_attr, function->attr);
  for (size_t i = 0; i < function->n_attr; i++)
    sort_value(function->attr[i]->value);
  sort_entries(function->n_ret, function->ret);
  sort_entries(function->n_control_ret, function->control_ret);
  if (function->n_arg_attr > 1)
    qsort(function->arg_attr, function->n_arg_attr, sizeof(void *), compare_numbers);
  if (function->n_resource_arg_unique_id > 1)
    qsort(function->resource_arg_unique_id, function->n_resource_arg_unique_id, sizeof(void *),
          compare_numbers);
  for (size_t i = 0; i < function->n_arg_attr; i++)
    if (function->arg_attr[i]->value)
      sort_entries(function->arg_attr[i]->value->n_attr, function->arg_attr[i]->value->attr);
  for (size_t i = 0; i < function->n_node_def; i++) {
    Tensorflow__NodeDef *node = function->node_def[i];
    sort_entries(node->n_attr, node->attr);
    for (size_t j = 0; j < node->n_attr; j++)
      sort_value(node->attr[j]->value);
  }
}

/* Serializes a function for comparison: nodes sorted by name, without debug information. */
static dp_status *comparable_bytes(const function_message *function, dp_arena *arena,
                                   uint8_t **data_out, size_t *length_out) {
  function_message plain = *function;
  plain.node_def = DP_ARENA_ARRAY(arena, Tensorflow__NodeDef *, function->n_node_def);
  for (size_t i = 0; i < function->n_node_def; i++) {
    Tensorflow__NodeDef *node = dp_arena_allocate(arena, sizeof(*node));
    *node = *function->node_def[i];
    node->experimental_debug_info = NULL;
    plain.node_def[i] = node;
  }
  if (plain.n_node_def > 1)
    qsort(plain.node_def, plain.n_node_def, sizeof(void *), compare_nodes);
  return dp_wire_pack_bytes(&plain, arena, data_out, length_out);
}

static dp_status *same_function(const entry *old, const entry *new, bool *same_out) {
  *same_out = false;
  if (old->hash != new->hash)
    return NULL;
  dp_arena *arena = dp_arena_create();
  uint8_t *left, *right;
  size_t left_length, right_length;
  dp_status *status = comparable_bytes(old->function.definition, arena, &left, &left_length);
  if (!status)
    status = comparable_bytes(new->function.definition, arena, &right, &right_length);
  if (!status)
    *same_out = left_length == right_length && memcmp(left, right, left_length) == 0;
  dp_arena_destroy(arena);
  return status;
}

/* ---- Adding ---- */

/* The state of one dp_library_add. Everything that can fail is done here first; `enter` then
 * changes the library and cannot fail. */
typedef struct addition {
  dp_library *library;
  dp_arena *arena;
  dp_tensor_array tensors;
  dp_map *functions; /* of this message only */
  DP_ARRAY(entry *) fresh;
  dp_map *gradients;
  dp_name_array gradient_names;
} addition;

static dp_status *make_entry(addition *add, const function_message *message, entry **entry_out) {
  if (!message->signature || !*message->signature->name)
    return DP_INVALID("A function of the library has no name");
  entry *made = DP_ARENA_NEW(add->arena, entry);
  function_message *copy;
  DP_RETURN_IF_ERROR(dp_wire_copy(message, add->arena, &copy));
  sort_maps(copy);
  made->function.definition = copy;
  dp_attr_store store = {add->arena, &add->tensors};
  dp_status *status = dp_op_from_message(&store, copy->signature, &made->function.signature);
  if (status)
    return dp_status_append(status, "; in function '%s'", message->signature->name);
  made->function.signature.is_function = true;
  dp_arena *scratch = dp_arena_create();
  uint8_t *bytes;
  size_t length;
  status = comparable_bytes(copy, scratch, &bytes, &length);
  if (!status)
    made->hash = dp_hash_bytes(bytes, length);
  dp_arena_destroy(scratch);
  *entry_out = made;
  return status;
}

static dp_status *add_function(addition *add, const function_message *message) {
  entry *made = NULL;
  DP_RETURN_IF_ERROR(make_entry(add, message, &made));
  const char *name = made->function.signature.name;
  const entry *old = dp_map_get(add->library->functions, name);
  if (!old)
    old = dp_map_get(add->functions, name);
  if (old) {
    bool same;
    DP_RETURN_IF_ERROR(same_function(old, made, &same));
    return same ? NULL
                : DP_INVALID("Cannot add function '%s' because a different function with the same "
                             "name already exists.",
                             name);
  }
  if (dp_op_find(name))
    return DP_INVALID("Cannot add function '%s' because an op with the same name already exists.",
                      name);
  dp_map_put(add->functions, name, made);
  DP_ARRAY_PUSH(&add->fresh, made);
  return NULL;
}

static dp_status *add_gradient(addition *add, const Tensorflow__GradientDef *message) {
  const char *name = message->function_name;
  const char *old = dp_map_get(add->library->gradients, name);
  if (!old)
    old = dp_map_get(add->gradients, name);
  if (old && strcmp(old, message->gradient_func) != 0)
    return DP_INVALID(
        "Cannot assign gradient function '%s' to '%s' because it already has gradient "
        "function '%s'",
        message->gradient_func, name, old);
  if (old)
    return NULL;
  dp_map_put(add->gradients, name, dp_arena_strdup(add->arena, message->gradient_func));
  DP_ARRAY_PUSH(&add->gradient_names, dp_arena_strdup(add->arena, name));
  return NULL;
}

static dp_status *prepare(addition *add, const Tensorflow__FunctionDefLibrary *message) {
  for (size_t i = 0; i < message->n_function; i++)
    DP_RETURN_IF_ERROR(add_function(add, message->function[i]));
  for (size_t i = 0; i < message->n_gradient; i++)
    DP_RETURN_IF_ERROR(add_gradient(add, message->gradient[i]));
  return NULL;
}

static bool knows_registered(const dp_library *library,
                             const Tensorflow__RegisteredGradient *message) {
  for (size_t i = 0; i < library->registered.count; i++)
    if (strcmp(library->registered.items[i]->gradient_func, message->gradient_func) == 0)
      return true;
  return false;
}

static bool enter_registered(addition *add, const Tensorflow__FunctionDefLibrary *message) {
  bool any = false;
  for (size_t i = 0; i < message->n_registered_gradients; i++) {
    Tensorflow__RegisteredGradient *copy;
    if (knows_registered(add->library, message->registered_gradients[i]))
      continue;
    copy = dp_wire_new(add->arena, &tensorflow__registered_gradient__descriptor);
    copy->gradient_func =
        dp_arena_strdup(add->arena, message->registered_gradients[i]->gradient_func);
    copy->registered_op_type =
        dp_arena_strdup(add->arena, message->registered_gradients[i]->registered_op_type);
    DP_ARRAY_PUSH(&add->library->registered, copy);
    any = true;
  }
  return any;
}

static void set_gradient(dp_library *library, const char *name, const char *gradient) {
  entry *found = dp_map_get(library->functions, name);
  if (found) /* readers of a dp_function hold no lock */
    __atomic_store_n(&found->function.gradient, gradient, __ATOMIC_RELEASE);
}

/* Changes the library. Returns whether the library now uses the arena. */
static bool enter(addition *add, const Tensorflow__FunctionDefLibrary *message,
                  dp_library_addition *added) {
  dp_library *library = add->library;
  for (size_t i = 0; i < add->fresh.count; i++) {
    entry *made = add->fresh.items[i];
    const char *name = made->function.signature.name;
    dp_map_put(library->functions, name, made);
    DP_ARRAY_PUSH(&library->order, made);
    if (added)
      DP_ARRAY_PUSH(&added->functions, name);
    const char *gradient = dp_map_get(library->gradients, name);
    if (gradient)
      set_gradient(library, name, gradient);
  }
  for (size_t i = 0; i < add->gradient_names.count; i++) {
    const char *name = add->gradient_names.items[i];
    char *gradient = dp_map_get(add->gradients, name);
    dp_map_put(library->gradients, name, gradient);
    DP_ARRAY_PUSH(&library->gradient_order, name);
    if (added)
      DP_ARRAY_PUSH(&added->gradients, name);
    set_gradient(library, name, gradient);
  }
  bool keep = enter_registered(add, message) || add->fresh.count || add->gradient_names.count;
  if (!keep)
    return false;
  for (size_t i = 0; i < add->tensors.count; i++)
    DP_ARRAY_PUSH(&library->tensors, add->tensors.items[i]);
  DP_ARRAY_FREE(&add->tensors);
  DP_ARRAY_PUSH(&library->arenas, add->arena);
  return true;
}

dp_status *dp_library_add_listing(dp_library *library,
                                  const Tensorflow__FunctionDefLibrary *message,
                                  dp_library_addition *added) {
  if (!message->n_function && !message->n_gradient && !message->n_registered_gradients)
    return NULL;
  addition add = {.library = library,
                  .arena = dp_arena_create(),
                  .functions = dp_map_create(),
                  .gradients = dp_map_create()};
  pthread_rwlock_wrlock(&library->lock);
  dp_status *status = prepare(&add, message);
  bool keep = !status && enter(&add, message, added);
  pthread_rwlock_unlock(&library->lock);
  if (!keep) {
    dp_tensor_array_release(&add.tensors);
    dp_arena_destroy(add.arena);
  }
  dp_map_destroy(add.functions);
  dp_map_destroy(add.gradients);
  DP_ARRAY_FREE(&add.fresh);
  DP_ARRAY_FREE(&add.gradient_names);
  return status;
}

dp_status *dp_library_add(dp_library *library, const Tensorflow__FunctionDefLibrary *message) {
  return dp_library_add_listing(library, message, NULL);
}

static void forget_functions(dp_library *library, const dp_name_array *names) {
  for (size_t i = 0; i < names->count; i++) {
    entry *gone = dp_map_remove(library->functions, names->items[i]);
    if (gone)
      gone->gone = true;
  }
  size_t kept = 0;
  for (size_t i = 0; i < library->order.count; i++)
    if (!library->order.items[i]->gone)
      library->order.items[kept++] = library->order.items[i];
  library->order.count = kept;
}

static void forget_gradients(dp_library *library, const dp_name_array *names) {
  for (size_t i = 0; i < names->count; i++) {
    dp_map_remove(library->gradients, names->items[i]);
    set_gradient(library, names->items[i], NULL);
  }
  size_t kept = 0;
  for (size_t i = 0; i < library->gradient_order.count; i++)
    if (dp_map_get(library->gradients, library->gradient_order.items[i]))
      library->gradient_order.items[kept++] = library->gradient_order.items[i];
  library->gradient_order.count = kept;
}

void dp_library_undo(dp_library *library, const dp_library_addition *added) {
  if (!added->functions.count && !added->gradients.count)
    return;
  pthread_rwlock_wrlock(&library->lock);
  forget_gradients(library, &added->gradients);
  forget_functions(library, &added->functions);
  pthread_rwlock_unlock(&library->lock);
}

/* ---- Finding ---- */

void *dp_find_entry(size_t count, void *entries, const char *key) {
  any_entry wanted = {.key = (char *)key}, *pointer = &wanted;
  void **found = count ? bsearch(&pointer, entries, count, sizeof(void *), compare_keys) : NULL;
  return found ? *found : NULL;
}

void *dp_find_numbered_entry(size_t count, void *entries, uint32_t key) {
  numbered_entry wanted = {.key = key}, *pointer = &wanted;
  void **found = count ? bsearch(&pointer, entries, count, sizeof(void *), compare_numbers) : NULL;
  return found ? *found : NULL;
}

const dp_function *dp_library_find(const dp_library *library, const char *name) {
  pthread_rwlock_t *lock = (pthread_rwlock_t *)&library->lock;
  pthread_rwlock_rdlock(lock);
  const entry *found = dp_map_get(library->functions, name);
  pthread_rwlock_unlock(lock);
  return found ? &found->function : NULL;
}

/* ---- Gradients ---- */

static _Atomic(dp_differentiate_fn) differentiator;

void dp_library_set_differentiator(dp_differentiate_fn differentiate) {
  atomic_store(&differentiator, differentiate);
}

/* The name of a gradient that the differentiator makes: one per function and attributes. */
static char *made_name(const dp_func *function) {
  dp_text attrs = {0}, name = {0};
  for (int32_t i = 0; i < function->attr_count; i++) {
    dp_text_printf(&attrs, "%s=", function->attrs[i].name);
    dp_attr_print(&function->attrs[i], &attrs);
    dp_text_add(&attrs, "\n");
  }
  dp_text_printf(&name, "%s_gradient", function->name);
  if (attrs.length > 0)
    dp_text_printf(&name, "_%016llx",
                   (unsigned long long)dp_fingerprint64(attrs.data, attrs.length));
  dp_text_deinit(&attrs);
  return dp_text_take(&name);
}

dp_status *dp_library_find_gradient(dp_library *library, const dp_func *function,
                                    dp_func *gradient_out) {
  const dp_function *definition = dp_library_find(library, function->name);
  if (definition && definition->gradient) {
    *gradient_out = (dp_func){definition->gradient, function->attr_count, function->attrs};
    return NULL;
  }
  dp_differentiate_fn differentiate = atomic_load(&differentiator);
  if (!definition || !differentiate)
    return dp_status_create(DP_UNIMPLEMENTED, "No gradient defined for function: %s",
                            function->name);
  char *name = made_name(function);
  const dp_function *made = dp_library_find(library, name);
  dp_status *status = made ? NULL : differentiate(library, function, name);
  if (!status && !made)
    made = dp_library_find(library, name);
  if (!status)
    *gradient_out = (dp_func){.name = made->signature.name};
  dp_free(name);
  return status;
}

const dp_op *dp_library_find_op(const dp_library *library, const char *name) {
  const dp_op *op = dp_op_find(name); /* no function may have the name of an op */
  if (op)
    return op;
  const dp_function *function = dp_library_find(library, name);
  return function ? &function->signature : NULL;
}

Tensorflow__FunctionDefLibrary *dp_library_export(const dp_library *library, dp_arena *arena) {
  Tensorflow__FunctionDefLibrary *message =
      dp_wire_new(arena, &tensorflow__function_def_library__descriptor);
  pthread_rwlock_t *lock = (pthread_rwlock_t *)&library->lock;
  pthread_rwlock_rdlock(lock);
  message->n_function = library->order.count;
  message->function = DP_ARENA_ARRAY(arena, function_message *, library->order.count);
  for (size_t i = 0; i < library->order.count; i++)
    message->function[i] = (function_message *)library->order.items[i]->function.definition;
  message->n_gradient = library->gradient_order.count;
  message->gradient = DP_ARENA_ARRAY(arena, Tensorflow__GradientDef *, message->n_gradient);
  for (size_t i = 0; i < message->n_gradient; i++) {
    Tensorflow__GradientDef *gradient = dp_wire_new(arena, &tensorflow__gradient_def__descriptor);
    gradient->function_name = (char *)library->gradient_order.items[i];
    gradient->gradient_func = dp_map_get(library->gradients, gradient->function_name);
    message->gradient[i] = gradient;
  }
  message->n_registered_gradients = library->registered.count;
  message->registered_gradients =
      DP_ARENA_ARRAY(arena, Tensorflow__RegisteredGradient *, library->registered.count);
  for (size_t i = 0; i < library->registered.count; i++)
    message->registered_gradients[i] = library->registered.items[i];
  pthread_rwlock_unlock(lock);
  return message;
}
