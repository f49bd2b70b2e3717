/* Attribute values of nodes. A dp_attr is a small value whose contents live in the arena of its
 * owner: a graph, a function library or the op table. dp_attr_copy (graph/graph.h) copies one into
 * another graph. Attributes do not change once their node is complete; any thread may read them. */
#ifndef DP_GRAPH_ATTR_H
#define DP_GRAPH_ATTR_H

#include "base/arena.h"
#include "base/text.h"
#include "tensor/tensor.h"

typedef enum dp_attr_kind {
  DP_ATTR_NONE = 0,
  DP_ATTR_STRING,
  DP_ATTR_INT,
  DP_ATTR_FLOAT,
  DP_ATTR_BOOL,
  DP_ATTR_TYPE,
  DP_ATTR_SHAPE,
  DP_ATTR_TENSOR,
  DP_ATTR_FUNC,
  DP_ATTR_PLACEHOLDER, /* "$T" inside a function body */
  DP_ATTR_LIST = 16,   /* a bit beside the kind of the elements: DP_ATTR_LIST | DP_ATTR_INT */
  DP_ATTR_LIST_STRING = DP_ATTR_LIST | DP_ATTR_STRING,
  DP_ATTR_LIST_INT = DP_ATTR_LIST | DP_ATTR_INT,
  DP_ATTR_LIST_FLOAT = DP_ATTR_LIST | DP_ATTR_FLOAT,
  DP_ATTR_LIST_BOOL = DP_ATTR_LIST | DP_ATTR_BOOL,
  DP_ATTR_LIST_TYPE = DP_ATTR_LIST | DP_ATTR_TYPE,
  DP_ATTR_LIST_SHAPE = DP_ATTR_LIST | DP_ATTR_SHAPE,
  DP_ATTR_LIST_TENSOR = DP_ATTR_LIST | DP_ATTR_TENSOR,
  DP_ATTR_LIST_FUNC = DP_ATTR_LIST | DP_ATTR_FUNC,
} dp_attr_kind;

typedef struct dp_attr dp_attr;

/* The name of a function, with values for the attributes of its signature. */
typedef struct dp_func {
  const char *name;
  int32_t attr_count;
  const dp_attr *attrs;
} dp_func;

struct dp_attr {
  const char *name;
  dp_attr_kind kind : 16;
  unsigned is_filled : 1; /* the client did not give it: the op's default */
  int32_t count;          /* of a list */
  union {
    dp_view string;
    int64_t integer;
    float number;
    bool boolean;
    int32_t type; /* may be a reference type */
    const dp_partial_shape *shape;
    const dp_tensor *tensor; /* in the arena; the owner releases its buffer */
    const dp_func *func;
    const char *placeholder;
    const dp_view *strings;
    const int64_t *integers;
    const float *numbers;
    const bool *booleans;
    const int32_t *types;
    const dp_partial_shape *shapes;
    const dp_tensor *tensors;
    const dp_func *funcs;
  };
};

/* "int", "list(type)" and so on, as op definitions write them. */
const char *dp_attr_kind_name(dp_attr_kind kind);
/* Item `index` of a list as a single value; borrows the list's contents. */
dp_attr dp_attr_item(const dp_attr *list, int32_t index);
/* Deep equality of the values (tensors by contents). The attributes' names are not compared. */
bool dp_attr_equal(const dp_attr *a, const dp_attr *b);
/* Equal attributes have equal hashes. */
uint64_t dp_attr_hash(const dp_attr *attr);
/* Adds the value as TensorFlow's SummarizeAttrValue does, for error messages and summaries of
 * nodes. */
void dp_attr_print(const dp_attr *attr, dp_text *text);

#endif
