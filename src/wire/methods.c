/* The gRPC paths of the methods of TensorFlow's two services, made from the tables in methods.h. */
#include "wire/methods.h"

static const char *const master_paths[] = {
#define MASTER_PATH(constant, name) "/tensorflow.MasterService/" #name,
    DP_MASTER_METHOD_TABLE(MASTER_PATH)
#undef MASTER_PATH
};

static const char *const worker_paths[] = {
#define WORKER_PATH(constant, name) "/tensorflow.WorkerService/" #name,
    DP_WORKER_METHOD_TABLE(WORKER_PATH)
#undef WORKER_PATH
};

const char *dp_master_method_path(dp_master_method method) {
  return master_paths[method];
}

const char *dp_worker_method_path(dp_worker_method method) {
  return worker_paths[method];
}
