/* What the files of the client share: how the opaque types of the C API look inside.
 *
 *   TF_Graph ── dp_graph (nodes, checks) and, by the same numbers, TF_Operations with their readers
 *   TF_Session ── TF_Graph (retained) and a link to a master: in this process or behind gRPC
 *
 * A graph's lock guards all of it (it is recursive: what adds many operations as one holds it); a
 * node never changes once it is in the graph, so that names, types and attributes of an operation
 * are read without. A session's lock guards handle and version; steps run without it. */
#ifndef DP_CLIENT_INTERNAL_H
#define DP_CLIENT_INTERNAL_H

#include <pthread.h>
#include "base/map.h"
#include "base/memory.h"
#include "base/status.h"
#include "graph/graph.h"
#include "tensor/tensor.h"
#include "tensorflow/c/c_api.h"
#include "wire/master.pb-c.h"
#include "wire/methods.h"
#include "wire/run_messages.h"

/* ---- Values (status.c, buffer.c, tensor.c) ---- */
struct TF_Status {
  dp_status *status;
  DP_ARRAY(char *) payloads; /* key, value, key, value... */
};
/* Consumes `from`; NULL sets OK. */
void dp_client_set_status(TF_Status *status, dp_status *from);

/* Packs a message into an empty buffer. */
DP_MUST_USE dp_status *dp_client_pack(const void *message, TF_Buffer *buffer);

struct TF_Tensor {
  dp_tensor tensor;
  size_t byte_size; /* of its memory */
};
/* Consumes the tensor. */
TF_Tensor *dp_client_tensor(dp_tensor tensor);

/* ---- Graphs (graph.c) ---- */
typedef struct operation_edge {
  TF_Input reader; /* index -1: a control edge */
  int output;
} operation_edge;

struct TF_Operation {
  TF_Graph *graph;
  const dp_node *node;
  DP_ARRAY(operation_edge) readers; /* guarded by the graph's lock */
  dp_partial_shape *shapes;         /* of each output, as far as it is known; NULL: not yet */
};

struct TF_Graph {
  pthread_mutex_t lock;
  dp_graph *graph;
  TF_Operation **operations; /* by node number; NULL where a node was taken back */
  int32_t operation_count, operation_capacity;
  TF_Graph *parent; /* of a loop's condition (while.c): where the loop goes, and its inputs */
  TF_Output *parent_inputs;
  dp_map *numbers;        /* name -> the last number that was added to it; NULL: to none yet */
  dp_refcount references; /* the user's, and one of each session */
};
void dp_client_graph_release(TF_Graph *graph);
/* Makes operations of the nodes that are new. With the lock held. */
void dp_client_graph_index(TF_Graph *graph);
/* Takes back the nodes from number `first` on, which nobody else reads. With the lock held. */
void dp_client_graph_remove(TF_Graph *graph, int32_t first);
/* `name`, or "name_1" and so on when it is taken; scopes ask too, so that an answer is never given
 * twice. In `arena`; with the lock held. */
const char *dp_client_graph_unique_name(TF_Graph *graph, const char *name, dp_arena *arena);
/* What is known about an output's shape (shape.c). With the lock held. */
dp_partial_shape dp_client_shape(TF_Output output);
/* Infers the shapes of operations from number `first` on; an error says which of them cannot be.
 * With the lock held. */
DP_MUST_USE dp_status *dp_client_infer_shapes(TF_Graph *graph, int32_t first);
/* For loops, whose edges go around: another source for an input of the same type, one more control
 * input. Of operations that no session knows yet; with the lock held. */
void dp_client_set_input(TF_Operation *operation, int index, TF_Output source);
void dp_client_add_control(TF_Operation *operation, TF_Operation *control);
/* "name:2". */
char *dp_client_output_name(TF_Output output, dp_arena *arena);
/* Nodes from number `first` on, with the versions and, if there are functions, the library; without
 * attributes that are just defaults. In `arena`, borrowing from the graph; with its lock held. */
Tensorflow__GraphDef *dp_client_graph_export(TF_Graph *graph, int32_t first, dp_arena *arena);

/* ---- Descriptions of operations (describe.c) ---- */
void dp_client_description_destroy(TF_OperationDescription *desc);
/* What has been set so far; NULL: nothing of that name. */
const dp_attr *dp_client_description_attr(const TF_OperationDescription *desc, const char *name);
/* Whether there is an input of either kind. */
bool dp_client_description_has_inputs(const TF_OperationDescription *desc);
/* A list of functions by their names. */
void dp_client_set_functions(TF_OperationDescription *desc, const char *attr_name,
                             const char *const *names, int count);
/* As TF_FinishOperation; a name that is taken gets a number. */
TF_Operation *dp_client_finish_unique(TF_OperationDescription *desc, TF_Status *status);

/* ---- Links to a master (link_local.c, link_remote.c) ---- */
typedef struct client_link client_link;
typedef struct client_link_ops {
  /* A control method, until its end. The response is in `arena`; response_out may be NULL. */
  dp_status *(*call)(client_link *link, dp_master_method method, const void *request,
                     int64_t deadline, dp_arena *arena, void *response_out);
  /* The response's names are in `arena`, its tensors to be released by its deinit. */
  dp_status *(*run)(client_link *link, const dp_run_step_request *request, int64_t deadline,
                    dp_arena *arena, dp_run_step_response *response_out);
  void (*destroy)(client_link *link);
} client_link_ops;
struct client_link {
  const client_link_ops *ops;
};
/* A master and a worker of its own in this process. */
DP_MUST_USE dp_status *dp_client_link_local(const Tensorflow__ConfigProto *config,
                                            client_link **link_out);
/* `address` is "host:port". Does not connect yet. */
DP_MUST_USE dp_status *dp_client_link_remote(const char *address, client_link **link_out);

#endif
