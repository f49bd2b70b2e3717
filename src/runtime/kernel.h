/* Kernels: the bodies of ops, and what one run of a body sees.
 *
 * A family file in src/kernels ends in one constant table of dp_kernel rows. A row names the op,
 * the dtypes it takes, and three functions: create reads the node's attributes once into `state`,
 * compute runs a step, destroy ends the state. compute may be called by several threads at once
 * with the same state: what it keeps between runs needs its own lock. Rows of one op are tried in
 * order; the first whose constraints hold is taken, so a fast special case stands before the
 * general one.
 *
 * In compute:   inputs are borrowed and immutable. Outputs come from dp_op_allocate (fresh memory),
 * dp_op_allocate_or_forward (an input's memory, when nobody else wants it), or dp_op_set_output
 * (any tensor). An error is returned as a status; the executor adds the node's name. */
#ifndef DP_RUNTIME_KERNEL_H
#define DP_RUNTIME_KERNEL_H

#include "graph/graph.h"
#include "runtime/device.h"
#include "runtime/step.h"
#include "runtime/variable.h"

typedef struct dp_op_context dp_op_context;
typedef struct dp_kernel dp_kernel;
typedef struct dp_kernel_instance dp_kernel_instance;

/* ---- Sets of dtypes for the tables ---- */
#define DP_SET(name) DP_DTYPE_BIT(DP_##name)
#define DP_SET_FLOATS (DP_SET(BFLOAT16) | DP_SET(HALF) | DP_SET(FLOAT) | DP_SET(DOUBLE))
#define DP_SET_SIGNED (DP_SET(INT8) | DP_SET(INT16) | DP_SET(INT32) | DP_SET(INT64))
#define DP_SET_UNSIGNED (DP_SET(UINT8) | DP_SET(UINT16) | DP_SET(UINT32) | DP_SET(UINT64))
#define DP_SET_INTEGERS (DP_SET_SIGNED | DP_SET_UNSIGNED)
#define DP_SET_COMPLEX (DP_SET(COMPLEX64) | DP_SET(COMPLEX128))
#define DP_SET_REALS (DP_SET_FLOATS | DP_SET_INTEGERS)
#define DP_SET_NUMBERS (DP_SET_REALS | DP_SET_COMPLEX)
#define DP_SET_QUANTIZED                                                                           \
  (DP_SET(QINT8) | DP_SET(QUINT8) | DP_SET(QINT16) | DP_SET(QUINT16) | DP_SET(QINT32))
#define DP_SET_ANY (~(dp_dtype_set)0)
#define DP_SET_INDEX (DP_SET(INT32) | DP_SET(INT64))

/* ---- The table ---- */
typedef enum dp_kernel_flags {
  DP_KERNEL_CHEAP = 1,       /* always a few hundred nanoseconds: never worth another thread */
  DP_KERNEL_BLOCKING = 2,    /* waits for files or the like: runs on the blocking pool */
  DP_KERNEL_DEAD_INPUTS = 4, /* runs even when an input is dead (Merge, Send, control flow) */
  /* No inputs and no effects: the body need not be called. The state begins with the dp_value that
   * is the output, if there is one (and it is set: else the body is called). */
  DP_KERNEL_NOTHING = 8,
  /* Takes the tensor of a variable without value: dtype and shape are the declared ones, `data` is
   * NULL. The op must allow uninitialized inputs. */
  DP_KERNEL_UNINITIALIZED = 16,
  /* Where the op expects a value and gets a reference, the input comes as the reference: the kernel
   * decides when the variable is read. It is initialized. */
  DP_KERNEL_KEEPS_REFERENCES = 32,
} dp_kernel_flags;

typedef struct dp_kernel_constraint {
  const char *attr; /* a type attribute, or a list(type) one (each element must be in the set) */
  dp_dtype_set types;
} dp_kernel_constraint;

/* What create sees. */
typedef struct dp_kernel_setup {
  const dp_graph *graph;
  const dp_node *node;
  dp_device *device;
  dp_function_runtime *functions; /* may be NULL */
  const char *session_handle;
  const dp_edge_router *router; /* of edges that were cut; NULL: all are local */
} dp_kernel_setup;

struct dp_kernel {
  const char *op;
  dp_kernel_constraint types[3];
  unsigned flags;
  size_t state_size; /* zeroed before create; 0 for none */
  dp_status *(*create)(const dp_kernel_setup *setup, void *state); /* may be NULL */
  dp_status *(*compute)(dp_op_context *context, void *state);
  /* Instead of compute: may return before it is done; calls dp_op_done exactly once. */
  void (*compute_async)(dp_op_context *context, void *state);
  void (*destroy)(void *state); /* may be NULL; also called when create failed half way */
  /* Further choice by the node's other attributes; NULL: always. */
  bool (*accepts)(const dp_node *node);
};

/* Families register their tables at start-up (dp_kernels_register of the kernels room). */
void dp_kernel_register(const dp_kernel *rows, size_t count);
/* The rows of this op run nodes whose op is a function of the library. */
#define DP_KERNEL_FUNCTION_OP "_FunctionCall"
/* The row for a node, or UNIMPLEMENTED: a message that says which op, dtype and device lack a
 * kernel and which are there. */
DP_MUST_USE dp_status *dp_kernel_find(const dp_node *node, const char *device_type,
                                      const dp_kernel **kernel_out);
bool dp_kernel_exists(const char *op);
/* For listings: the rows of an op. */
size_t dp_kernel_rows(const char *op, const dp_kernel **rows_out, size_t capacity);

/* A kernel made for one node: shared by the executors of a session when the op is stateful, as
 * TensorFlow shares them (a random op continues its stream whatever else is fetched). */
struct dp_kernel_instance {
  dp_refcount references;
  const dp_kernel *kernel;
  void *state;
  dp_graph *graph; /* what a shared instance was made from, when that is its own; else NULL */
};
DP_MUST_USE dp_status *dp_kernel_instance_create(const dp_kernel_setup *setup,
                                                 dp_kernel_instance **instance_out);
dp_kernel_instance *dp_kernel_instance_retain(dp_kernel_instance *instance);
void dp_kernel_instance_release(dp_kernel_instance *instance);

/* ---- One run ---- */
/* A value on an edge: a tensor, or a reference to a variable. Both unset: nothing (dead). */
typedef struct dp_value {
  dp_tensor tensor;
  dp_variable *reference; /* retained */
} dp_value;

struct dp_op_context {
  const dp_node *node; /* of the compiled graph */
  dp_step *step;
  dp_device *device;
  dp_value *inputs;
  dp_value *outputs;
  int32_t input_count, output_count;
  bool is_input_dead; /* some input is dead (kernels with DP_KERNEL_DEAD_INPUTS only) */
  uint64_t frame_id;  /* 0 outside loops; with iteration it names the run within the step */
  int64_t iteration;
  void *executor; /* the executor's own */
};

static inline const dp_tensor *dp_op_input(const dp_op_context *context, int32_t slot) {
  return &context->inputs[slot].tensor;
}
/* The variable on a reference edge; borrowed. */
static inline dp_variable *dp_op_reference(const dp_op_context *context, int32_t slot) {
  return context->inputs[slot].reference;
}
/* Dtype of an output by the node. */
static inline dp_dtype dp_op_output_type(const dp_op_context *context, int32_t slot) {
  return dp_dtype_base(context->node->output_types[slot]);
}

/* Fresh memory for an output; *tensor_out points into the context. */
DP_MUST_USE dp_status *dp_op_allocate(dp_op_context *context, int32_t output, const dp_shape *shape,
                                      dp_tensor **tensor_out);
/* As allocate, but takes over the memory of input `slot` when this run is its only owner and dtype
 * size and element count fit. The input stays readable through its `data` pointer. */
DP_MUST_USE dp_status *dp_op_allocate_or_forward(dp_op_context *context, int32_t slot,
                                                 int32_t output, const dp_shape *shape,
                                                 dp_tensor **tensor_out);
/* The same, trying each of several inputs. */
DP_MUST_USE dp_status *dp_op_allocate_or_forward_any(dp_op_context *context, const int32_t *slots,
                                                     int32_t slot_count, int32_t output,
                                                     const dp_shape *shape, dp_tensor **tensor_out);
/* Consumes *tensor. */
static inline void dp_op_set_output(dp_op_context *context, int32_t output, dp_tensor *tensor) {
  context->outputs[output].tensor = dp_tensor_take(tensor);
}
/* Passes an input on, sharing its memory. */
static inline void dp_op_pass(dp_op_context *context, int32_t input, int32_t output) {
  context->outputs[output].tensor = dp_tensor_copy(&context->inputs[input].tensor);
}
/* Passes a reference on; the input has none afterwards. */
static inline void dp_op_pass_reference(dp_op_context *context, int32_t input, int32_t output) {
  context->outputs[output].reference = context->inputs[input].reference;
  context->inputs[input].reference = NULL;
}
/* Scalar outputs in one line. */
DP_MUST_USE dp_status *dp_op_output_int32(dp_op_context *context, int32_t output, int32_t value);
DP_MUST_USE dp_status *dp_op_output_int64(dp_op_context *context, int32_t output, int64_t value);
DP_MUST_USE dp_status *dp_op_output_bool(dp_op_context *context, int32_t output, bool value);

/* Ends an asynchronous run; consumes `status`. The context is gone afterwards. */
void dp_op_done(dp_op_context *context, dp_status *status);

/* Calls fn over [0, count) on the step's pool and the calling thread. `cost` is a rough guess of
 * nanoseconds an item takes; small totals stay on the calling thread. */
void dp_op_for(dp_op_context *context, int64_t count, int64_t cost, dp_range_fn fn, void *arg);

/* The resource behind the handle in input `slot` (scalar resource tensor), retained. Checks that
 * the handle's device is this one and its type fits. */
DP_MUST_USE dp_status *dp_op_resource(dp_op_context *context, int32_t slot,
                                      const dp_resource_ops *type, dp_resource **resource_out);
/* A resource variable behind a handle, or a reference edge: whatever input `slot` is. Retained.
 * An unknown or uninitialized variable is reported as TensorFlow does. */
DP_MUST_USE dp_status *dp_op_variable(dp_op_context *context, int32_t slot,
                                      dp_variable **variable_out);
/* Container and name for a stateful op from its `container` and `shared_name` attributes, as
 * TensorFlow's ContainerInfo: shared_name, else the node's name (unique per kernel when
 * `use_node_name` is false). Strings live as long as the node's graph or are malloc'd into *out. */
typedef struct dp_resource_name {
  char *container;
  char *name;
  bool is_private; /* neither shared_name nor node name: die with the kernel */
} dp_resource_name;
DP_MUST_USE dp_status *dp_resource_name_init(dp_resource_name *name, const dp_kernel_setup *setup,
                                             bool use_node_name);
void dp_resource_name_deinit(dp_resource_name *name);

#endif
