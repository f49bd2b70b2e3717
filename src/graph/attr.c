/* Attribute values: names of kinds, equality, hash, text, copies, sorting by name. Values do not
 * change and need no locks. Their memory is in an arena; only the buffers of tensors are counted,
 * so the owner of the arena (a graph, for example) keeps a list of the tensors and releases them.
 */
#include "graph/attr.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/map.h"
#include "graph/graph_internal.h"
#include "graph/op_internal.h"

static const char *const scalar_names[] = {"",     "string", "int",    "float", "bool",
                                           "type", "shape",  "tensor", "func",  "placeholder"};
static const char *const list_names[] = {"list",        "list(string)", "list(int)",
                                         "list(float)", "list(bool)",   "list(type)",
                                         "list(shape)", "list(tensor)", "list(func)"};

const char *dp_attr_kind_name(dp_attr_kind kind) {
  unsigned element = kind & ~DP_ATTR_LIST;
  if (kind & DP_ATTR_LIST)
    return element < 9 ? list_names[element] : "list";
  return element < 10 ? scalar_names[element] : "";
}

dp_attr_kind dp_attr_kind_parse(dp_view text) {
  for (unsigned i = 1; i < 9; i++) {
    if (dp_view_equals(text, scalar_names[i]))
      return (dp_attr_kind)i;
    if (dp_view_equals(text, list_names[i]))
      return (dp_attr_kind)(i | DP_ATTR_LIST);
  }
  return DP_ATTR_NONE;
}

/* ---- Equality ---- */

static bool shapes_equal(const dp_partial_shape *a, const dp_partial_shape *b) {
  if (a->rank != b->rank)
    return false;
  for (int32_t i = 0; i < a->rank; i++)
    if (a->dims[i] != b->dims[i])
      return false;
  return true;
}

static bool tensors_equal(const dp_tensor *a, const dp_tensor *b) {
  if (a->dtype != b->dtype || !dp_shape_equal(&a->shape, &b->shape))
    return false;
  if (a->data == b->data)
    return true;
  if (dp_dtype_is_plain(a->dtype))
    return memcmp(a->data, b->data, dp_tensor_bytes(a)) == 0;
  if (a->dtype != DP_STRING)
    return false; /* handles and variants are equal only when they are the same memory */
  for (int64_t i = 0; i < a->shape.elements; i++)
    if (!dp_view_equal(dp_tstring_view(&dp_tensor_strings(a)[i]),
                       dp_tstring_view(&dp_tensor_strings(b)[i])))
      return false;
  return true;
}

static bool funcs_equal(const dp_func *a, const dp_func *b) {
  if (strcmp(a->name, b->name) != 0 || a->attr_count != b->attr_count)
    return false;
  for (int32_t i = 0; i < a->attr_count; i++) /* both are sorted by name */
    if (strcmp(a->attrs[i].name, b->attrs[i].name) != 0 ||
        !dp_attr_equal(&a->attrs[i], &b->attrs[i]))
      return false;
  return true;
}

static bool lists_equal(const dp_attr *a, const dp_attr *b) {
  if (a->count != b->count)
    return false;
  for (int32_t i = 0; i < a->count; i++) {
    dp_attr left = dp_attr_item(a, i), right = dp_attr_item(b, i);
    if (!dp_attr_equal(&left, &right))
      return false;
  }
  return true;
}

static uint32_t float_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

bool dp_attr_equal(const dp_attr *a, const dp_attr *b) {
  if (a->kind != b->kind)
    return false;
  if (a->kind & DP_ATTR_LIST)
    return lists_equal(a, b);
  switch ((int)a->kind) {
  case DP_ATTR_STRING:
    return dp_view_equal(a->string, b->string);
  case DP_ATTR_INT:
    return a->integer == b->integer;
  case DP_ATTR_FLOAT: /* by bits, so that equal values have equal hashes */
    return float_bits(a->number) == float_bits(b->number);
  case DP_ATTR_BOOL:
    return a->boolean == b->boolean;
  case DP_ATTR_TYPE:
    return a->type == b->type;
  case DP_ATTR_SHAPE:
    return shapes_equal(a->shape, b->shape);
  case DP_ATTR_TENSOR:
    return tensors_equal(a->tensor, b->tensor);
  case DP_ATTR_FUNC:
    return funcs_equal(a->func, b->func);
  case DP_ATTR_PLACEHOLDER:
    return strcmp(a->placeholder, b->placeholder) == 0;
  default:
    return true;
  }
}

dp_attr dp_attr_item(const dp_attr *list, int32_t index) {
  dp_attr item = {.kind = list->kind & ~DP_ATTR_LIST};
  switch ((int)item.kind) {
  case DP_ATTR_STRING:
    item.string = list->strings[index];
    break;
  case DP_ATTR_INT:
    item.integer = list->integers[index];
    break;
  case DP_ATTR_FLOAT:
    item.number = list->numbers[index];
    break;
  case DP_ATTR_BOOL:
    item.boolean = list->booleans[index];
    break;
  case DP_ATTR_TYPE:
    item.type = list->types[index];
    break;
  case DP_ATTR_SHAPE:
    item.shape = &list->shapes[index];
    break;
  case DP_ATTR_TENSOR:
    item.tensor = &list->tensors[index];
    break;
  case DP_ATTR_FUNC:
    item.func = &list->funcs[index];
    break;
  }
  return item;
}

/* ---- Hash ---- */

static uint64_t mix(uint64_t state, uint64_t value) {
  uint64_t both[2] = {state, value};
  return dp_hash_bytes(both, sizeof(both));
}

static uint64_t hash_text(const char *text) {
  return dp_hash_bytes(text, strlen(text));
}

static uint64_t hash_tensor(const dp_tensor *tensor) {
  uint64_t state = mix((uint64_t)tensor->dtype, (uint64_t)tensor->shape.rank);
  state = mix(state, dp_hash_bytes(tensor->shape.dims, 8 * (size_t)tensor->shape.rank));
  if (dp_dtype_is_plain(tensor->dtype))
    return mix(state, dp_hash_bytes(tensor->data, dp_tensor_bytes(tensor)));
  if (tensor->dtype == DP_STRING)
    for (int64_t i = 0; i < tensor->shape.elements; i++) {
      dp_view view = dp_tstring_view(&dp_tensor_strings(tensor)[i]);
      state = mix(state, dp_hash_bytes(view.data, view.length));
    }
  return state;
}

static uint64_t hash_func(const dp_func *func) {
  uint64_t state = hash_text(func->name);
  for (int32_t i = 0; i < func->attr_count; i++)
    state = mix(mix(state, hash_text(func->attrs[i].name)), dp_attr_hash(&func->attrs[i]));
  return state;
}

static uint64_t hash_value(const dp_attr *attr) {
  switch ((int)attr->kind) {
  case DP_ATTR_STRING:
    return dp_hash_bytes(attr->string.data, attr->string.length);
  case DP_ATTR_INT:
    return (uint64_t)attr->integer;
  case DP_ATTR_FLOAT:
    return float_bits(attr->number);
  case DP_ATTR_BOOL:
    return attr->boolean;
  case DP_ATTR_TYPE:
    return (uint64_t)attr->type;
  case DP_ATTR_SHAPE:
    return attr->shape->rank < 0 ? 0
                                 : dp_hash_bytes(attr->shape->dims, 8 * (size_t)attr->shape->rank);
  case DP_ATTR_TENSOR:
    return hash_tensor(attr->tensor);
  case DP_ATTR_FUNC:
    return hash_func(attr->func);
  case DP_ATTR_PLACEHOLDER:
    return hash_text(attr->placeholder);
  default:
    return 0;
  }
}

uint64_t dp_attr_hash(const dp_attr *attr) {
  uint64_t state =
      mix((uint64_t)attr->kind, (uint64_t)(attr->kind & DP_ATTR_LIST ? attr->count : 1));
  if (!(attr->kind & DP_ATTR_LIST))
    return mix(state, hash_value(attr));
  for (int32_t i = 0; i < attr->count; i++) {
    dp_attr item = dp_attr_item(attr, i);
    state = mix(state, hash_value(&item));
  }
  return state;
}

/* ---- Text ---- */

/* Of a long string only both ends are shown. */
static void print_string(dp_view string, dp_text *text) {
  enum { longest = 80, shown = 10 };
  dp_text escaped = {0};
  /* Escaping never shortens. So a string of 4096 bytes is too long to be shown whole, and only its
   * ends need to be escaped. */
  dp_text_add_escaped(&escaped, string.data, string.length < 4096 ? string.length : 4096);
  if (string.length >= 4096) {
    dp_text tail = {0};
    dp_text_add_escaped(&tail, string.data + string.length - shown, shown);
    dp_text_printf(text, "\"%.*s...%s\"", shown, dp_text_string(&escaped),
                   dp_text_string(&tail) + (tail.length - shown));
    dp_text_deinit(&tail);
  } else if (escaped.length >= longest) {
    dp_text_printf(text, "\"%.*s...%s\"", shown, dp_text_string(&escaped),
                   dp_text_string(&escaped) + (escaped.length - shown));
  } else {
    dp_text_printf(text, "\"%s\"", dp_text_string(&escaped));
  }
  dp_text_deinit(&escaped);
}

/* Six digits, or nine when six do not read back as the same number. */
static void print_float(float value, dp_text *text) {
  char digits[32];
  snprintf(digits, sizeof(digits), "%.6g", (double)value);
  if (strtof(digits, NULL) != value && value == value)
    snprintf(digits, sizeof(digits), "%.9g", (double)value);
  dp_text_add(text, digits);
}

static void print_type(int32_t type, dp_text *text) {
  dp_text_add(text, "DT_");
  for (const char *name = type ? dp_dtype_name(type) : "invalid"; *name; name++)
    dp_text_add_char(text, (char)toupper((unsigned char)*name));
}

static void print_tensor(const dp_tensor *tensor, dp_text *text) {
  dp_text_printf(text, "Tensor<type: %s shape: ", dp_dtype_name(tensor->dtype));
  dp_shape_print(&tensor->shape, text);
  dp_text_add(text, " values: ");
  dp_tensor_summarize(tensor, 3, text);
  dp_text_add(text, ">");
}

static void print_func(const dp_func *func, dp_text *text) {
  dp_text_printf(text, "%s[", func->name);
  for (int32_t i = 0; i < func->attr_count; i++) {
    dp_text_printf(text, "%s%s=", i ? ", " : "", func->attrs[i].name);
    dp_attr_print(&func->attrs[i], text);
  }
  dp_text_add(text, "]");
}

/* Of a long list five items from each end are shown, and a fingerprint of the whole list. */
static void print_list(const dp_attr *list, dp_text *text) {
  bool is_long = list->count >= 30;
  dp_text whole = {0};
  dp_text_add(text, "[");
  for (int32_t i = 0; i < list->count; i++) {
    dp_text piece = {0};
    dp_attr item = dp_attr_item(list, i);
    dp_attr_print(&item, &piece);
    if (is_long)
      dp_text_printf(&whole, "%s%s", i ? "," : "", dp_text_string(&piece));
    if (!is_long || i < 5 || i >= list->count - 5)
      dp_text_printf(text, "%s%s", i ? ", " : "", dp_text_string(&piece));
    else if (i == 5)
      dp_text_add(text, ", ...");
    dp_text_deinit(&piece);
  }
  dp_text_add(text, "]");
  if (is_long)
    dp_text_printf(text, "{attr_hash=%" PRIu64 "}",
                   dp_fingerprint64(dp_text_string(&whole), whole.length));
  dp_text_deinit(&whole);
}

void dp_attr_print(const dp_attr *attr, dp_text *text) {
  if (attr->kind & DP_ATTR_LIST) {
    print_list(attr, text);
    return;
  }
  switch ((int)attr->kind) {
  case DP_ATTR_STRING:
    print_string(attr->string, text);
    break;
  case DP_ATTR_INT:
    dp_text_printf(text, "%lld", (long long)attr->integer);
    break;
  case DP_ATTR_FLOAT:
    print_float(attr->number, text);
    break;
  case DP_ATTR_BOOL:
    dp_text_add(text, attr->boolean ? "true" : "false");
    break;
  case DP_ATTR_TYPE:
    print_type(attr->type, text);
    break;
  case DP_ATTR_SHAPE:
    dp_partial_shape_print(attr->shape, text);
    break;
  case DP_ATTR_TENSOR:
    print_tensor(attr->tensor, text);
    break;
  case DP_ATTR_FUNC:
    print_func(attr->func, text);
    break;
  case DP_ATTR_PLACEHOLDER:
    dp_text_printf(text, "$%s", attr->placeholder);
    break;
  default:
    dp_text_add(text, "<Unknown AttrValue type>");
  }
}

/* ---- Copies ---- */

void dp_tensor_array_release(dp_tensor_array *tensors) {
  for (size_t i = 0; i < tensors->count; i++)
    dp_tensor_deinit(tensors->items[i]);
  DP_ARRAY_FREE(tensors);
}

static void *copy_bytes(const dp_attr_store *store, const void *data, size_t size) {
  void *copy = dp_arena_allocate(store->arena, size ? size : 1);
  if (size)
    memcpy(copy, data, size);
  return copy;
}

static dp_view copy_view(const dp_attr_store *store, dp_view view) {
  return (dp_view){dp_arena_strndup(store->arena, view.length ? view.data : "", view.length),
                   view.length};
}

static const dp_tensor *copy_tensors(const dp_attr_store *store, const dp_tensor *tensors,
                                     int32_t count) {
  dp_tensor *copies = DP_ARENA_ARRAY(store->arena, dp_tensor, count);
  for (int32_t i = 0; i < count; i++) {
    copies[i] = dp_tensor_copy(&tensors[i]);
    DP_ARRAY_PUSH(store->tensors, &copies[i]);
  }
  return copies;
}

static const dp_func *copy_funcs(const dp_attr_store *store, const dp_func *funcs, int32_t count) {
  dp_func *copies = DP_ARENA_ARRAY(store->arena, dp_func, count);
  for (int32_t i = 0; i < count; i++) {
    dp_attr *attrs = DP_ARENA_ARRAY(store->arena, dp_attr, funcs[i].attr_count);
    for (int32_t j = 0; j < funcs[i].attr_count; j++) {
      attrs[j] = dp_attr_store_copy(store, &funcs[i].attrs[j]);
      attrs[j].name = dp_arena_strdup(store->arena, funcs[i].attrs[j].name);
    }
    copies[i] = (dp_func){.name = dp_arena_strdup(store->arena, funcs[i].name),
                          .attr_count = funcs[i].attr_count,
                          .attrs = attrs};
  }
  return copies;
}

static void copy_list(const dp_attr_store *store, dp_attr *list) {
  size_t count = (size_t)list->count;
  switch ((int)(list->kind & ~DP_ATTR_LIST)) {
  case DP_ATTR_STRING: {
    dp_view *views = DP_ARENA_ARRAY(store->arena, dp_view, count);
    for (size_t i = 0; i < count; i++)
      views[i] = copy_view(store, list->strings[i]);
    list->strings = views;
    break;
  }
  case DP_ATTR_INT:
    list->integers = copy_bytes(store, list->integers, count * sizeof(*list->integers));
    break;
  case DP_ATTR_FLOAT:
    list->numbers = copy_bytes(store, list->numbers, count * sizeof(*list->numbers));
    break;
  case DP_ATTR_BOOL:
    list->booleans = copy_bytes(store, list->booleans, count * sizeof(*list->booleans));
    break;
  case DP_ATTR_TYPE:
    list->types = copy_bytes(store, list->types, count * sizeof(*list->types));
    break;
  case DP_ATTR_SHAPE:
    list->shapes = copy_bytes(store, list->shapes, count * sizeof(*list->shapes));
    break;
  case DP_ATTR_TENSOR:
    list->tensors = copy_tensors(store, list->tensors, list->count);
    break;
  case DP_ATTR_FUNC:
    list->funcs = copy_funcs(store, list->funcs, list->count);
    break;
  }
}

dp_attr dp_attr_store_copy(const dp_attr_store *store, const dp_attr *attr) {
  dp_attr copy = *attr;
  if (copy.kind & DP_ATTR_LIST) {
    copy_list(store, &copy);
    return copy;
  }
  switch ((int)copy.kind) {
  case DP_ATTR_STRING:
    copy.string = copy_view(store, copy.string);
    break;
  case DP_ATTR_SHAPE:
    copy.shape = copy_bytes(store, copy.shape, sizeof(*copy.shape));
    break;
  case DP_ATTR_TENSOR:
    copy.tensor = copy_tensors(store, copy.tensor, 1);
    break;
  case DP_ATTR_FUNC:
    copy.func = copy_funcs(store, copy.func, 1);
    break;
  case DP_ATTR_PLACEHOLDER:
    copy.placeholder = dp_arena_strdup(store->arena, copy.placeholder);
    break;
  }
  return copy;
}

/* ---- Sorted arrays ---- */

/* Stable insertion sort, for the few attributes that most nodes have. */
static void sort_few(dp_attr *attrs, int32_t count) {
  for (int32_t i = 1; i < count; i++) {
    dp_attr moving = attrs[i];
    int32_t at = i;
    for (; at > 0 && strcmp(attrs[at - 1].name, moving.name) > 0; at--)
      attrs[at] = attrs[at - 1];
    attrs[at] = moving;
  }
}

/* Stable merge sort, for many: merges runs of 1, 2, 4... between the array and a spare one. */
static void sort_many(dp_attr *attrs, int32_t count) {
  dp_attr *spare = dp_malloc(sizeof(*attrs) * (size_t)count);
  dp_attr *from = attrs, *to = spare;
  for (int64_t width = 1; width < count; width *= 2) {
    for (int64_t start = 0; start < count; start += 2 * width) {
      int64_t middle = start + width < count ? start + width : count;
      int64_t end = start + 2 * width < count ? start + 2 * width : count;
      int64_t left = start, right = middle;
      for (int64_t at = start; at < end; at++) {
        bool take_left =
            right >= end || (left < middle && strcmp(from[left].name, from[right].name) <= 0);
        to[at] = from[take_left ? left++ : right++];
      }
    }
    dp_attr *swap = from;
    from = to;
    to = swap;
  }
  if (from != attrs)
    memcpy(attrs, from, sizeof(*attrs) * (size_t)count);
  dp_free(spare);
}

int32_t dp_attr_sort(dp_attr *attrs, int32_t count) {
  if (count <= 32)
    sort_few(attrs, count);
  else
    sort_many(attrs, count);
  int32_t kept = 0;
  for (int32_t i = 0; i < count; i++) {
    if (kept && strcmp(attrs[kept - 1].name, attrs[i].name) == 0)
      kept--;
    attrs[kept++] = attrs[i];
  }
  return kept;
}

const dp_attr *dp_attr_find(const dp_attr *attrs, int32_t count, const char *name) {
  int32_t low = 0, high = count;
  while (low < high) {
    int32_t middle = low + (high - low) / 2;
    int order = strcmp(attrs[middle].name, name);
    if (order == 0)
      return &attrs[middle];
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return NULL;
}
