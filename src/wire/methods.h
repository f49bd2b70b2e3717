/* The methods of TensorFlow's two gRPC services, MasterService and WorkerService. One table per
 * service gives an enum and the paths under which the methods are called. Constant data, any
 * thread. */
#ifndef DP_WIRE_METHODS_H
#define DP_WIRE_METHODS_H

/* X(name for constants, name on the wire) */
#define DP_MASTER_METHOD_TABLE(X)                                                                  \
  X(CREATE_SESSION, CreateSession)                                                                 \
  X(EXTEND_SESSION, ExtendSession)                                                                 \
  X(PARTIAL_RUN_SETUP, PartialRunSetup)                                                            \
  X(RUN_STEP, RunStep)                                                                             \
  X(CLOSE_SESSION, CloseSession)                                                                   \
  X(LIST_DEVICES, ListDevices)                                                                     \
  X(RESET, Reset)                                                                                  \
  X(MAKE_CALLABLE, MakeCallable)                                                                   \
  X(RUN_CALLABLE, RunCallable)                                                                     \
  X(RELEASE_CALLABLE, ReleaseCallable)

#define DP_WORKER_METHOD_TABLE(X)                                                                  \
  X(GET_STATUS, GetStatus)                                                                         \
  X(CREATE_WORKER_SESSION, CreateWorkerSession)                                                    \
  X(DELETE_WORKER_SESSION, DeleteWorkerSession)                                                    \
  X(REGISTER_GRAPH, RegisterGraph)                                                                 \
  X(DEREGISTER_GRAPH, DeregisterGraph)                                                             \
  X(RUN_GRAPH, RunGraph)                                                                           \
  X(CLEANUP_GRAPH, CleanupGraph)                                                                   \
  X(CLEANUP_ALL, CleanupAll)                                                                       \
  X(RECV_TENSOR, RecvTensor)                                                                       \
  X(MARK_RECV_FINISHED, MarkRecvFinished)                                                          \
  X(LOGGING, Logging)                                                                              \
  X(TRACING, Tracing)                                                                              \
  X(RECV_BUF, RecvBuf)                                                                             \
  X(GET_STEP_SEQUENCE, GetStepSequence)                                                            \
  X(COMPLETE_GROUP, CompleteGroup)                                                                 \
  X(COMPLETE_INSTANCE, CompleteInstance)

typedef enum dp_master_method {
#define DP_METHOD_ENUM(constant, name) DP_MASTER_##constant,
  DP_MASTER_METHOD_TABLE(DP_METHOD_ENUM)
#undef DP_METHOD_ENUM
      DP_MASTER_METHOD_COUNT
} dp_master_method;

typedef enum dp_worker_method {
#define DP_METHOD_ENUM(constant, name) DP_WORKER_##constant,
  DP_WORKER_METHOD_TABLE(DP_METHOD_ENUM)
#undef DP_METHOD_ENUM
      DP_WORKER_METHOD_COUNT
} dp_worker_method;

/* "/tensorflow.MasterService/RunStep" and so on; static. */
const char *dp_master_method_path(dp_master_method method);
const char *dp_worker_method_path(dp_worker_method method);

#endif
