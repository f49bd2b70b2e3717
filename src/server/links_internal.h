/* The tasks of a cluster as one of them reaches them: by name, over links that are made when first
 * asked for and kept. A task has one table for its own cluster and one for each session whose
 * client brought a cluster along. Any thread; peers live as long as their table. */
#ifndef DP_SERVER_LINKS_INTERNAL_H
#define DP_SERVER_LINKS_INTERNAL_H

#include "cluster/cluster_spec.h"
#include "master/master.h"
#include "rpc/client.h"
#include "server/liveness_internal.h"
#include "server/services_internal.h"
#include "worker/worker.h"

/* The network client that all links of a task share, made with the first link, so that a task that
 * is alone has none. */
typedef struct dp_link_client dp_link_client;
dp_link_client *dp_link_client_create(dp_liveness *liveness);
/* After all tables are gone: waits for the calls that are under way, at most a little while. */
void dp_link_client_destroy(dp_link_client *client);

typedef struct dp_links dp_links;
dp_links *dp_links_create(dp_link_client *client, const dp_cluster_spec *cluster);
void dp_links_destroy(dp_links *links);

/* What master and worker want of it; their argument is the dp_links. */
extern const dp_cluster_ops dp_links_ops;

/* One line per task but `own`: name, address, state and since when, incarnation. */
void dp_links_describe(dp_links *links, const char *own, dp_text *text);

#endif
