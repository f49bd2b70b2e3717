/* Variants: boxes over C objects, and the list of types that can come from the wire.
 *
 * The list is filled at start-up and only grows. A mutex serializes writers; readers take no lock,
 * because a link is complete before it is reachable. Boxes are immutable and reference-counted. */
#include <pthread.h>
#include <stdatomic.h>
#include "base/memory.h"
#include "tensor/tensor.h"

typedef struct type_link {
  const dp_variant_ops *ops;
  struct type_link *next;
} type_link;

static _Atomic(type_link *) types;
static pthread_mutex_t types_mutex = PTHREAD_MUTEX_INITIALIZER;

dp_variant *dp_variant_create(const dp_variant_ops *ops, void *object) {
  dp_variant *variant = dp_malloc(sizeof *variant);
  dp_refcount_init(&variant->references);
  variant->ops = ops;
  variant->object = object;
  return variant;
}

dp_variant *dp_variant_retain(dp_variant *variant) {
  if (variant)
    dp_refcount_retain(&variant->references);
  return variant;
}

void dp_variant_release(dp_variant *variant) {
  if (!variant || !dp_refcount_release(&variant->references))
    return;
  if (variant->ops->destroy)
    variant->ops->destroy(variant->object);
  dp_free(variant);
}

void dp_variant_print(const dp_variant *variant, dp_text *text) {
  if (variant && variant->ops->print) {
    variant->ops->print(variant->object, text);
    return;
  }
  dp_view name = dp_view_of(variant ? variant->ops->type_name : "[empty]");
  dp_view_consume(&name, "tensorflow::");
  dp_text_append(text, name.data, name.length);
}

const dp_variant_ops *dp_variant_find(const char *type_name) {
  for (type_link *link = atomic_load_explicit(&types, memory_order_acquire); link;
       link = link->next) {
    if (strcmp(link->ops->type_name, type_name) == 0)
      return link->ops;
  }
  return NULL;
}

/* A second registration of a name is ignored: several parts of a process may start the same types.
 */
void dp_variant_register(const dp_variant_ops *ops) {
  pthread_mutex_lock(&types_mutex);
  if (!dp_variant_find(ops->type_name)) {
    type_link *link = dp_malloc(sizeof *link);
    link->ops = ops;
    link->next = atomic_load_explicit(&types, memory_order_relaxed);
    atomic_store_explicit(&types, link, memory_order_release);
  }
  pthread_mutex_unlock(&types_mutex);
}
