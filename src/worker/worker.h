/* One task: its devices, the sessions and graphs that masters registered with it, and the steps
 * that run on them. A master, ours or a genuine one, drives it through the calls of WorkerService;
 * our own master in the same process takes the same way without the network.
 *
 * Control calls come as protobuf-c messages, through one table from method to handler; RunGraph and
 * RecvTensor carry tensors and have functions of their own. All functions may be called from any
 * thread; callbacks run with no lock held and possibly before the call returns. */
#ifndef DP_WORKER_WORKER_H
#define DP_WORKER_WORKER_H

#include "base/cancel.h"
#include "graph/graph.h"
#include "runtime/device.h"
#include "wire/methods.h"
#include "wire/run_messages.h"

typedef struct dp_worker dp_worker;

/* ---- What a master sees of a worker, near or far ---- */
typedef struct dp_worker_peer dp_worker_peer;

/* `response` is a message of the method's response type; it lives during the callback only. NULL
 * with an error. */
typedef void (*dp_worker_call_done_fn)(void *arg, dp_status *status, const void *response);
/* `graph_handle` lives during the callback only; NULL with an error. */
typedef void (*dp_worker_register_done_fn)(void *arg, dp_status *status, const char *graph_handle);
/* The callee may take tensors out of the response. */
typedef void (*dp_worker_run_done_fn)(void *arg, dp_status *status,
                                      dp_run_graph_response *response);
typedef void (*dp_worker_receive_done_fn)(void *arg, dp_status *status,
                                          dp_recv_tensor_response *response);
/* *value is the callee's to take; unset with an error. */
typedef void (*dp_worker_buffer_done_fn)(void *arg, dp_status *status, dp_tensor *value);

/* What RegisterGraph carries beside the graph. All of it is borrowed for the call. */
typedef struct dp_worker_registration {
  const char *session_handle;
  const Tensorflow__GraphOptions *graph_options; /* may be NULL */
  const Tensorflow__ConfigProto *config;         /* may be NULL */
  const Tensorflow__DebugOptions *debug;         /* may be NULL */
  int64_t collective_graph_key;                  /* 0: the graph has no collectives */
} dp_worker_registration;

typedef struct dp_worker_peer_ops {
  /* Any control method but RegisterGraph. `request` is of the method's request type and borrowed
   * for the call. */
  void (*call)(dp_worker_peer *peer, dp_worker_method method, const void *request, int64_t deadline,
               dp_cancel *cancel, dp_worker_call_done_fn done, void *arg);
  /* Consumes `graph`, whose nodes all have a device. A worker in this process compiles it as it is;
   * one behind the network gets it as a GraphDef. */
  void (*register_graph_take)(dp_worker_peer *peer, dp_graph *graph,
                              const dp_worker_registration *registration, int64_t deadline,
                              dp_cancel *cancel, dp_worker_register_done_fn done, void *arg);
  void (*run_graph)(dp_worker_peer *peer, const dp_run_graph_request *request, dp_cancel *cancel,
                    dp_worker_run_done_fn done, void *arg);
  void (*receive_tensor)(dp_worker_peer *peer, const dp_recv_tensor_request *request,
                         dp_cancel *cancel, dp_worker_receive_done_fn done, void *arg);
  /* A chunk of a collective, of request->num_bytes bytes: into `to`, or with NULL there into a
   * tensor of bytes for `done`. */
  void (*receive_buffer)(dp_worker_peer *peer, const Tensorflow__RecvBufRequest *request, void *to,
                         dp_cancel *cancel, dp_worker_buffer_done_fn done, void *arg);
  void (*release)(dp_worker_peer *peer);
  /* Adds a phrase on the link: "connected", "connecting to ps0:2222: connection refused". NULL for
   * the task's own worker. */
  void (*describe)(dp_worker_peer *peer, dp_text *text);
  /* Begins or ends a watch: from the first to the last one the task is asked whether it is alive,
   * also while no call to it is under way. NULL for the task's own worker. */
  void (*watch)(dp_worker_peer *peer, bool begins);
} dp_worker_peer_ops;
struct dp_worker_peer {
  const dp_worker_peer_ops *ops;
};

/* How master and worker find the tasks of a cluster. Filled by whoever knows the cluster: the
 * server, or a client with a task in its own process. Any thread may call. */
typedef struct dp_cluster_ops {
  /* Full names ("/job:ps/replica:0/task:0") in order of job and index. They live as long as the
   * cluster. */
  size_t (*tasks)(void *cluster, const char *const **names_out);
  /* The peer is borrowed and lives as long as the cluster. */
  dp_status *(*find)(void *cluster, const char *task, dp_worker_peer **peer_out);
  /* A cluster that a client described, until it is closed. Both are NULL without a network. */
  dp_status *(*open)(void *cluster, const Tensorflow__ClusterDef *message, void **cluster_out);
  void (*close)(void *opened);
} dp_cluster_ops;

/* ---- The worker itself ---- */
typedef struct dp_worker_options {
  const char *task; /* "/job:worker/replica:0/task:0" */
  dp_device *const *devices;
  size_t device_count;
  dp_pool *compute, *blocking;
  const dp_cluster_ops *peers; /* NULL: this task is alone */
  void *peers_arg;
} dp_worker_options;

dp_worker *dp_worker_create(const dp_worker_options *options);
/* Cancels what runs and waits for its end. */
void dp_worker_destroy(dp_worker *worker);

/* The worker as its own master sees it; lives as long as the worker. */
dp_worker_peer *dp_worker_local_peer(dp_worker *worker);
const char *dp_worker_task(const dp_worker *worker);
dp_device *dp_worker_device(const dp_worker *worker, size_t index);

/* ---- The calls, for the server that receives them from the network ---- */
/* Types of a control method's messages; NULL for RunGraph and RecvTensor. */
const ProtobufCMessageDescriptor *dp_worker_request_type(dp_worker_method method);
const ProtobufCMessageDescriptor *dp_worker_response_type(dp_worker_method method);
void dp_worker_call(dp_worker *worker, dp_worker_method method, const void *request,
                    dp_cancel *cancel, dp_worker_call_done_fn done, void *arg);
void dp_worker_run_graph(dp_worker *worker, const dp_run_graph_request *request, dp_cancel *cancel,
                         dp_worker_run_done_fn done, void *arg);
void dp_worker_receive_tensor(dp_worker *worker, const dp_recv_tensor_request *request,
                              dp_cancel *cancel, dp_worker_receive_done_fn done, void *arg);

/* The chunk as its owner left it: any plain dtype, any shape. */
void dp_worker_receive_buffer(dp_worker *worker, const Tensorflow__RecvBufRequest *request,
                              dp_cancel *cancel, dp_worker_buffer_done_fn done, void *arg);
/* For the master of the same task, which needs step ids from them. */
struct dp_collectives *dp_worker_collectives(dp_worker *worker);

/* What lives here now. */
typedef struct dp_worker_counts {
  size_t sessions, graphs, steps;
  uint64_t sessions_ever;
} dp_worker_counts;
void dp_worker_get_counts(dp_worker *worker, dp_worker_counts *counts_out);
/* Whether a session here is of that master, which is another task. */
bool dp_worker_has_master(dp_worker *worker, const char *master_task);
/* Drops the sessions of a master that has gone for good; false when there is none. */
bool dp_worker_forget_master(dp_worker *worker, const char *master_task);
/* Ends the steps that run here for sessions of a master that does not answer; the sessions stay. */
void dp_worker_end_steps_of(dp_worker *worker, const char *master_task, const dp_status *why);
/* One line for each thing that waits: nodes, values by key, queues; for status pages. */
void dp_worker_describe(dp_worker *worker, dp_text *text);

#endif
