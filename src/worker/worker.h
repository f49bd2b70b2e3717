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
#include "runtime/device.h"
#include "wire/methods.h"
#include "wire/run_messages.h"

typedef struct dp_worker dp_worker;

/* ---- What a master sees of a worker, near or far ---- */
typedef struct dp_worker_peer dp_worker_peer;

/* `response` is a message of the method's response type; it lives during the callback only. NULL
 * with an error. */
typedef void (*dp_worker_call_done_fn)(void *arg, dp_status *status, const void *response);
/* The callee may take tensors out of the response. */
typedef void (*dp_worker_run_done_fn)(void *arg, dp_status *status,
                                      dp_run_graph_response *response);
typedef void (*dp_worker_receive_done_fn)(void *arg, dp_status *status,
                                          dp_recv_tensor_response *response);
/* *value is the callee's to take; unset with an error. */
typedef void (*dp_worker_buffer_done_fn)(void *arg, dp_status *status, dp_tensor *value);

typedef struct dp_worker_peer_ops {
  /* Any control method. `request` is of the method's request type and borrowed for the call. */
  void (*call)(dp_worker_peer *peer, dp_worker_method method, const void *request, int64_t deadline,
               dp_cancel *cancel, dp_worker_call_done_fn done, void *arg);
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
} dp_worker_peer_ops;
struct dp_worker_peer {
  const dp_worker_peer_ops *ops;
};

/* How a worker finds another task: by "/job:ps/replica:0/task:1". Filled by the server, which knows
 * the cluster. The peer is borrowed from a table that outlives the worker. A session whose client
 * brought a cluster along opens a table of that one and closes it when it ends. */
typedef struct dp_worker_peers_ops {
  dp_status *(*find)(void *peers, const char *task, dp_worker_peer **peer_out);
  dp_status *(*open)(void *peers, const Tensorflow__ClusterDef *cluster, void **peers_out);
  void (*close)(void *opened);
  /* All tasks of the cluster, by full name. */
  size_t (*tasks)(void *peers, const char *const **names_out);
} dp_worker_peers_ops;

/* ---- The worker itself ---- */
typedef struct dp_worker_options {
  const char *task; /* "/job:worker/replica:0/task:0" */
  dp_device *const *devices;
  size_t device_count;
  dp_pool *compute, *blocking;
  const dp_worker_peers_ops *peers; /* NULL: this task is alone */
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
/* One line for each thing that waits: nodes, values by key, queues; for status pages. */
void dp_worker_describe(dp_worker *worker, dp_text *text);

#endif
