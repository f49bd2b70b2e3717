/* A server's inside, for the files of this room. */
#ifndef DP_SERVER_SERVER_INTERNAL_H
#define DP_SERVER_SERVER_INTERNAL_H

#include "rpc/server.h"
#include "server/server.h"
#include "server/task_internal.h"

struct dp_server {
  dp_rpc_server *listener;
  dp_cluster_spec *cluster;
  char *name;   /* "/job:ps/replica:0/task:1" */
  char *target; /* "grpc://host:port" */
  dp_task *task;
  int64_t created;
  void (*stop)(void *arg); /* NULL: cannot be stopped from outside */
  void *stop_arg;
};

#endif
