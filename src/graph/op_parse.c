/* Reads one line of ops.def (whose head explains the grammar) into a dp_op. A plain
 * recursive-descent parser over our own, trusted text: a line that it cannot read is a bug of ours,
 * so it says where and aborts. Called under op.c's mutex; everything lives in the arena that the
 * caller passes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "graph/op_internal.h"

typedef struct reader {
  const char *line;
  const char *at;
  dp_arena *arena;
} reader;

/* An argument whose dtype is not resolved yet, because attributes come later in the line. */
typedef struct raw_arg {
  dp_view name, number, type;
  bool is_ref;
} raw_arg;

static _Noreturn void fail(const reader *in, const char *what) {
  fprintf(stderr, "ops.def: expected %s at column %td of: %s\n", what, in->at - in->line, in->line);
  abort();
}

static bool consume(reader *in, const char *token) {
  size_t length = strlen(token);
  if (strncmp(in->at, token, length) != 0)
    return false;
  in->at += length;
  return true;
}

static void expect(reader *in, const char *token) {
  if (!consume(in, token))
    fail(in, token);
}

static dp_view read_word(reader *in) {
  const char *start = in->at;
  while ((*in->at >= 'a' && *in->at <= 'z') || (*in->at >= 'A' && *in->at <= 'Z') ||
         (*in->at >= '0' && *in->at <= '9') || *in->at == '_' || *in->at == '>')
    in->at++;
  if (in->at == start)
    fail(in, "a word");
  return (dp_view){start, (size_t)(in->at - start)};
}

static char *keep(reader *in, dp_view text) {
  return dp_arena_strndup(in->arena, text.data, text.length);
}

/* ---- Values ---- */

static int64_t read_int(reader *in) {
  char *end;
  int64_t value = strtoll(in->at, &end, 10);
  if (end == in->at)
    fail(in, "an integer");
  in->at = end;
  return value;
}

static float read_float(reader *in) {
  const char *start = in->at;
  in->at += strcspn(in->at, " ,]");
  double value;
  if (!dp_parse_double((dp_view){start, (size_t)(in->at - start)}, &value))
    fail(in, "a number");
  return (float)value;
}

static dp_view read_string(reader *in) {
  expect(in, "\"");
  char *copy = dp_arena_allocate(in->arena, strlen(in->at) + 1);
  size_t length = 0;
  while (*in->at && *in->at != '"') {
    char letter = *in->at++;
    if (letter == '\\') {
      letter = *in->at++;
      letter = letter == 'n' ? '\n' : letter == 't' ? '\t' : letter;
    }
    copy[length++] = letter;
  }
  expect(in, "\"");
  copy[length] = 0;
  return (dp_view){copy, length};
}

static int32_t read_type(reader *in) {
  int number = dp_dtype_parse(read_word(in));
  if (number == DP_INVALID_DTYPE)
    fail(in, "a dtype");
  return number;
}

static dp_partial_shape read_shape(reader *in) {
  dp_partial_shape shape = dp_partial_shape_unknown();
  if (consume(in, "?"))
    return shape;
  expect(in, "[");
  for (shape.rank = 0; !consume(in, "]"); shape.rank++) {
    if (shape.rank)
      expect(in, ",");
    shape.dims[shape.rank] = consume(in, "?") ? -1 : read_int(in);
  }
  return shape;
}

/* uint8[4]{255, 0, 0, 255} */
static dp_tensor read_tensor(reader *in) {
  dp_dtype dtype = (dp_dtype)read_type(in);
  dp_partial_shape partial = read_shape(in);
  dp_shape shape = dp_shape_of(partial.rank, partial.dims);
  dp_tensor tensor;
  if (dp_tensor_create(dtype, &shape, &tensor) != NULL)
    fail(in, "memory");
  expect(in, "{");
  for (int64_t i = 0; i < shape.elements; i++) {
    if (i)
      expect(in, ", ");
    int64_t value = read_int(in);
    if (dtype == DP_UINT8)
      ((uint8_t *)tensor.data)[i] = (uint8_t)value;
    else if (dtype == DP_INT32)
      ((int32_t *)tensor.data)[i] = (int32_t)value;
    else
      fail(in, "a tensor of uint8 or int32");
  }
  expect(in, "}");
  return tensor;
}

static void *boxed(reader *in, const void *value, size_t size) {
  return memcpy(dp_arena_allocate(in->arena, size), value, size);
}

static dp_attr read_scalar(reader *in, dp_attr_kind kind) {
  dp_attr value = {.kind = kind};
  switch ((int)kind) {
  case DP_ATTR_STRING:
    value.string = read_string(in);
    break;
  case DP_ATTR_INT:
    value.integer = read_int(in);
    break;
  case DP_ATTR_FLOAT:
    value.number = read_float(in);
    break;
  case DP_ATTR_BOOL:
    value.boolean = consume(in, "true");
    if (!value.boolean)
      expect(in, "false");
    break;
  case DP_ATTR_TYPE:
    value.type = read_type(in);
    break;
  case DP_ATTR_SHAPE: {
    dp_partial_shape shape = read_shape(in);
    value.shape = boxed(in, &shape, sizeof(shape));
    break;
  }
  case DP_ATTR_TENSOR: {
    dp_tensor tensor = read_tensor(in);
    value.tensor = boxed(in, &tensor, sizeof(tensor));
    break;
  }
  default:
    fail(in, "a value of a kind that may have a default");
  }
  return value;
}

/* The address and size of the value inside a scalar attribute. A list is an array of such values.
 */
static const void *element_of(const dp_attr *item, size_t *size_out) {
  switch ((int)item->kind) {
  case DP_ATTR_STRING:
    *size_out = sizeof(item->string);
    return &item->string;
  case DP_ATTR_INT:
    *size_out = sizeof(item->integer);
    return &item->integer;
  case DP_ATTR_FLOAT:
    *size_out = sizeof(item->number);
    return &item->number;
  case DP_ATTR_BOOL:
    *size_out = sizeof(item->boolean);
    return &item->boolean;
  case DP_ATTR_TYPE:
    *size_out = sizeof(item->type);
    return &item->type;
  case DP_ATTR_SHAPE:
    *size_out = sizeof(*item->shape);
    return item->shape;
  default:
    *size_out = sizeof(*item->tensor);
    return item->tensor;
  }
}

static dp_attr read_list(reader *in, dp_attr_kind kind) {
  dp_attr list = {.kind = kind};
  char *items = NULL;
  size_t size = 0;
  expect(in, "[");
  for (; !consume(in, "]"); list.count++) {
    if (list.count)
      expect(in, ", ");
    dp_attr item = read_scalar(in, kind & ~DP_ATTR_LIST);
    const void *element = element_of(&item, &size);
    char *grown = dp_arena_allocate(in->arena, size * (size_t)(list.count + 1));
    if (list.count)
      memcpy(grown, items, size * (size_t)list.count);
    memcpy(grown + size * (size_t)list.count, element, size);
    items = grown;
  }
  list.integers = (const void *)items; /* sets the pointer of any kind: they share the union */
  return list;
}

/* ---- Attributes and arguments ---- */

static void read_allowed(reader *in, dp_op_attr *attr) {
  dp_attr_kind element = attr->kind & ~DP_ATTR_LIST;
  dp_attr list = read_list(in, DP_ATTR_LIST | element);
  if (element == DP_ATTR_TYPE) {
    dp_dtype *types = DP_ARENA_ARRAY(in->arena, dp_dtype, list.count);
    for (int32_t i = 0; i < list.count; i++) {
      types[i] = (dp_dtype)list.types[i];
      attr->allowed_types |= DP_DTYPE_BIT(types[i]);
    }
    attr->allowed_type_count = list.count;
    attr->allowed_type_list = types;
  } else {
    const char **strings = DP_ARENA_ARRAY(in->arena, const char *, list.count);
    for (int32_t i = 0; i < list.count; i++)
      strings[i] = list.strings[i].data;
    attr->allowed_string_count = list.count;
    attr->allowed_strings = strings;
  }
}

static dp_op_attr read_attr(reader *in) {
  dp_op_attr attr = {.name = keep(in, read_word(in))};
  expect(in, ":");
  const char *start = in->at;
  in->at += strcspn(in->at, " ");
  attr.kind = dp_attr_kind_parse((dp_view){start, (size_t)(in->at - start)});
  if (attr.kind == DP_ATTR_NONE)
    fail(in, "a kind of attribute");
  if (consume(in, " in "))
    read_allowed(in, &attr);
  attr.has_minimum = consume(in, " >= ");
  if (attr.has_minimum)
    attr.minimum = read_int(in);
  attr.has_default = consume(in, " = ");
  if (attr.has_default)
    attr.default_value =
        attr.kind & DP_ATTR_LIST ? read_list(in, attr.kind) : read_scalar(in, attr.kind);
  return attr;
}

static raw_arg read_arg(reader *in) {
  raw_arg arg = {.name = read_word(in)};
  expect(in, ":");
  arg.is_ref = consume(in, "Ref(");
  arg.type = read_word(in);
  if (consume(in, "*")) {
    arg.number = arg.type;
    arg.type = read_word(in);
  }
  if (arg.is_ref)
    expect(in, ")");
  return arg;
}

static int16_t attr_named(const dp_op *op, dp_view name) {
  for (int32_t i = 0; i < op->attr_count; i++)
    if (dp_view_equals(name, op->attrs[i].name))
      return (int16_t)i;
  return -1;
}

static const dp_op_arg *resolve_args(reader *in, const dp_op *op, const raw_arg *raw,
                                     size_t count) {
  dp_op_arg *args = DP_ARENA_ARRAY(in->arena, dp_op_arg, count);
  for (size_t i = 0; i < count; i++) {
    int16_t type = attr_named(op, raw[i].type);
    bool is_list = type >= 0 && op->attrs[type].kind == DP_ATTR_LIST_TYPE;
    args[i] = (dp_op_arg){.name = keep(in, raw[i].name),
                          .dtype = type < 0 ? (dp_dtype)dp_dtype_parse(raw[i].type) : 0,
                          .type_attr = is_list ? -1 : type,
                          .type_list_attr = is_list ? type : -1,
                          .number_attr = raw[i].number.length ? attr_named(op, raw[i].number) : -1,
                          .is_ref = raw[i].is_ref};
    if (type < 0 && args[i].dtype == DP_INVALID_DTYPE)
      fail(in, "arguments whose dtypes are known");
  }
  return args;
}

static void read_flags(reader *in, dp_op *op) {
  while (consume(in, " ")) {
    if (consume(in, "stateful"))
      op->is_stateful = true;
    else if (consume(in, "commutative"))
      op->is_commutative = true;
    else if (consume(in, "aggregate"))
      op->is_aggregate = true;
    else if (consume(in, "uninitialized"))
      op->allows_uninitialized_input = true;
    else
      fail(in, "a flag");
  }
}

typedef DP_ARRAY(raw_arg) raw_args;

static void read_args(reader *in, raw_args *args) {
  expect(in, "(");
  while (!consume(in, ")")) {
    if (args->count)
      expect(in, ", ");
    DP_ARRAY_PUSH(args, read_arg(in));
  }
}

const dp_op *dp_op_parse(const char *line, dp_arena *arena) {
  reader in = {line, line, arena};
  dp_op *op = DP_ARENA_NEW(arena, dp_op);
  op->name = keep(&in, read_word(&in));
  raw_args inputs = {0}, outputs = {0};
  read_args(&in, &inputs);
  expect(&in, " -> ");
  read_args(&in, &outputs);
  DP_ARRAY(dp_op_attr) attrs = {0};
  while (consume(&in, " | "))
    DP_ARRAY_PUSH(&attrs, read_attr(&in));
  op->attr_count = (int32_t)attrs.count;
  op->attrs = attrs.count ? boxed(&in, attrs.items, sizeof(dp_op_attr) * attrs.count) : NULL;
  DP_ARRAY_FREE(&attrs);
  dp_op_sort_attrs(op, arena);
  op->input_count = (int32_t)inputs.count;
  op->inputs = resolve_args(&in, op, inputs.items, inputs.count);
  op->output_count = (int32_t)outputs.count;
  op->outputs = resolve_args(&in, op, outputs.items, outputs.count);
  DP_ARRAY_FREE(&inputs);
  DP_ARRAY_FREE(&outputs);
  if (consume(&in, " !"))
    read_flags(&in, op);
  if (*in.at)
    fail(&in, "the end");
  return op;
}
