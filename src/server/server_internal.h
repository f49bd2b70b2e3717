/* A server's inside, for the files of this room: a task (room `task`), and what the network adds to
 * it. */
#ifndef DP_SERVER_SERVER_INTERNAL_H
#define DP_SERVER_SERVER_INTERNAL_H

#include "rpc/server.h"
#include "server/links_internal.h"
#include "server/liveness_internal.h"
#include "server/memory_trim_internal.h"
#include "server/server.h"
#include "task/door.h"

struct dp_server {
  dp_rpc_server *listener;
  dp_cluster_spec *cluster;
  char *name;   /* "/job:ps/replica:0/task:1" */
  char *target; /* "grpc://host:port" */
  dp_link_client *link_client;
  dp_links *links;
  dp_task *task;
  dp_memory_trim *trim;
  dp_liveness *liveness;
  char **addresses; /* "host:port", all that mean this server */
  size_t address_count;
  dp_door *door; /* for clients in this process; NULL until started */
  int64_t created;
  void (*stop)(void *arg); /* NULL: cannot be stopped from outside */
  void *stop_arg;
};

#endif
