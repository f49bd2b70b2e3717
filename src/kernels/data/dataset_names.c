/* The names of datasets and iterators in error messages. When a function of the user fails, the
 * message names the dataset that called it and the path from the outermost iterator to that
 * dataset's iterator, in TensorFlow's words. Any thread that walks may call this: an iterator
 * outlives the iterators below it. */
#include "kernels/data/dataset_internal.h"
#include "kernels/shared/message.h"

/* The name that the user gave the dataset; empty when there is none. */
static dp_view given_name(const dp_node *node) {
  dp_view metadata, name = {0};
  const dp_attr *attr = dp_node_attr(node, "metadata");
  if (!attr || attr->kind != DP_ATTR_STRING)
    return name;
  metadata = attr->string;
  for (dp_message_field field; dp_message_next(&metadata, &field);)
    if (field.number == 1 && field.type == DP_MESSAGE_BYTES)
      name = field.bytes;
  return name;
}

static void add_name(dp_text *text, const dp_dataset *dataset, const dp_node *node) {
  dp_view name = given_name(node);
  if (name.length > 0)
    dp_text_append(text, name.data, name.length);
  else
    dp_text_printf(text, "%s:%llu", node->op->name, (unsigned long long)dataset->number);
}

/* "::ParallelMapV2" for the op ParallelMapDatasetV2; nothing for a dataset that is only a part of
 * another. */
static void add_label(dp_text *text, const dp_dataset *dataset) {
  static const char trial[] = "Experimental", kind[] = "Dataset";
  const dp_node *node = dp_dataset_node(dataset);
  if (dataset->label)
    dp_text_printf(text, "::%s", dataset->label);
  if (dataset->label || !node)
    return;
  const char *name = node->op->name;
  if (strncmp(name, trial, sizeof trial - 1) == 0)
    name += sizeof trial - 1;
  const char *end = strstr(name, kind);
  int length = end ? (int)(end - name) : (int)strlen(name);
  dp_text_printf(text, "::%.*s%s", length, name, end ? end + sizeof kind - 1 : "");
}

/* From the outermost iterator to this one. */
static void add_path(dp_text *text, const dp_iterator *iterator) {
  DP_ARRAY(const dp_iterator *) chain = {0};
  for (; iterator; iterator = iterator->parent)
    DP_ARRAY_PUSH(&chain, iterator);
  dp_text_add(text, chain.items[chain.count - 1]->walker);
  for (size_t i = chain.count; i-- > 0;) {
    if (chain.items[i]->place >= 0)
      dp_text_printf(text, "[%lld]", (long long)chain.items[i]->place);
    add_label(text, chain.items[i]->dataset);
  }
  DP_ARRAY_FREE(&chain);
}

static const char *walker_of(const dp_iterator *iterator) {
  while (iterator->parent)
    iterator = iterator->parent;
  return iterator->walker;
}

dp_status *dp_iterator_blame(const dp_iterator *iterator, dp_status *status) {
  const dp_node *node = dp_dataset_node(iterator->dataset);
  if (!status || !node || !walker_of(iterator))
    return status;
  dp_text text = {0};
  dp_text_add(&text, "Error in user-defined function passed to ");
  add_name(&text, iterator->dataset, node);
  dp_text_add(&text, " transformation with iterator: ");
  add_path(&text, iterator);
  status = dp_status_annotate(status, "%s", dp_text_string(&text));
  dp_text_deinit(&text);
  return status;
}
