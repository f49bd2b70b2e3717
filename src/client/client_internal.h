/* What the files of the client share: how the opaque types of the C API look inside.
 *
 *   TF_Graph    owns a dp_graph (nodes and checks) and one TF_Operation per node, by the node's
 *               number. An operation also lists the inputs that read its outputs.
 *   TF_Session  retains a TF_Graph and owns a link to a master, in this process or behind gRPC.
 *
 * Any thread may call. A graph's lock guards the graph and its operations. The lock is recursive,
 * so that a function that adds many operations as one unit can hold it throughout. A node does not
 * change after the call that added it has returned: its name, types and attributes are read without
 * the lock. A session's lock guards what its master knows of the graph; steps run without it. */
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
  size_t byte_size; /* of its memory, which may be more than the elements take */
};
/* Consumes the tensor. */
TF_Tensor *dp_client_tensor(dp_tensor tensor);

/* ---- Graphs (graph.c) ---- */
typedef struct operation_edge {
  TF_Input reader; /* index -1: a control edge */
  int output;      /* which output is read; -1: a control edge */
} operation_edge;

struct TF_Operation {
  TF_Graph *graph;
  const dp_node *node;
  DP_ARRAY(operation_edge) readers; /* guarded by the graph's lock */
  dp_partial_shape *shapes;         /* by output; NULL: not inferred yet */
};

struct TF_Graph {
  pthread_mutex_t lock;
  dp_graph *graph;
  TF_Operation **operations; /* by node number; NULL where a node was removed */
  int32_t operation_count, operation_capacity;
  TF_Graph *parent; /* of the condition graph of TF_NewWhile: the graph that gets the loop */
  TF_Output *parent_inputs; /* ... and the loop's initial values, outputs of `parent` */
  dp_map *numbers;          /* name -> the number to append next; NULL: no name was asked for yet */
  dp_refcount references;   /* the user's, and one per session */
};
void dp_client_graph_release(TF_Graph *graph);
/* Makes a TF_Operation for each node that has none yet. With the lock held. */
void dp_client_graph_index(TF_Graph *graph);
/* Removes the nodes from number `first` on. No earlier node may read them. With the lock held. */
void dp_client_graph_remove(TF_Graph *graph, int32_t first);
/* `name`, or "name_1", "name_2"... if that is taken. No name is returned twice, because scopes ask
 * here too. The result is in `arena`. With the lock held. */
const char *dp_client_graph_unique_name(TF_Graph *graph, const char *name, dp_arena *arena);
/* What is known about an output's shape (shape.c). With the lock held. */
dp_partial_shape dp_client_shape(TF_Output output);
/* Infers the shapes of operations from number `first` on. An error names the operation whose inputs
 * do not fit. With the lock held. */
DP_MUST_USE dp_status *dp_client_infer_shapes(TF_Graph *graph, int32_t first);
/* For loops, in which an early node reads a later one: set_input gives an input another source of
 * the same type, add_control adds a control input. Only for operations that no session has sent to
 * its master yet. With the lock held. */
void dp_client_set_input(TF_Operation *operation, int index, TF_Output source);
void dp_client_add_control(TF_Operation *operation, TF_Operation *control);
/* "name:2". */
char *dp_client_output_name(TF_Output output, dp_arena *arena);
/* The nodes from number `first` on, with the versions and, if there are functions, the library.
 * Attributes that were filled in with the op's default are left out. The message is in `arena` and
 * borrows from the graph. With the graph's lock held. */
Tensorflow__GraphDef *dp_client_graph_export(TF_Graph *graph, int32_t first, dp_arena *arena);

/* ---- Descriptions of operations (describe.c) ---- */
void dp_client_description_destroy(TF_OperationDescription *desc);
/* The value that has been set for an attribute; NULL: none. */
const dp_attr *dp_client_description_attr(const TF_OperationDescription *desc, const char *name);
/* Whether a data input or a control input has been added. */
bool dp_client_description_has_inputs(const TF_OperationDescription *desc);
/* Sets an attribute that is a list of functions, given by their names. */
void dp_client_set_functions(TF_OperationDescription *desc, const char *attr_name,
                             const char *const *names, int count);
/* As TF_FinishOperation, but a name that is taken gets a number. */
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
/* A task of its own in this process. */
DP_MUST_USE dp_status *dp_client_link_local(const Tensorflow__ConfigProto *config,
                                            client_link **link_out);
/* The task of a server in this process that has this address ("host:port"); NULL: there is none. */
client_link *dp_client_link_door(const char *address);
/* `address` is "host:port". Does not connect yet. */
DP_MUST_USE dp_status *dp_client_link_remote(const char *address, client_link **link_out);

#endif
