/* Links from this task to the others of a cluster: the dp_cluster_ops of master and worker.
 *
 * A link is made when a task is first asked for and kept until its table goes. The table of names
 * is fixed; its lock guards only the links. Edges of a graph keep the peer they found when the
 * graph was registered, so steps do not come here. All links of a task share one network client,
 * which is made with the first. */
#include "server/links_internal.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include "base/clock.h"
#include "base/memory.h"
#include "base/timer.h"

static const int64_t last_calls_nanos = INT64_C(1000000000);

/* ---- The client ---- */

struct dp_link_client {
  dp_liveness *liveness;
  pthread_mutex_t lock;
  dp_rpc_client *rpc; /* NULL until first used */
  dp_cancel *life;    /* of calls that nobody else would end */
};

dp_link_client *dp_link_client_create(dp_liveness *liveness) {
  dp_link_client *client = DP_NEW(dp_link_client);
  client->liveness = liveness;
  pthread_mutex_init(&client->lock, NULL);
  client->life = dp_cancel_create(NULL, DP_FOREVER);
  return client;
}

static void end_calls(void *life) {
  dp_cancel_trigger(life, dp_status_create(DP_CANCELLED, "the server is stopping"));
}

void dp_link_client_destroy(dp_link_client *client) {
  dp_timer end = dp_timer_start(dp_clock_nanos() + last_calls_nanos, end_calls, client->life);
  dp_rpc_client_destroy(client->rpc);
  dp_timer_cancel(end);
  dp_cancel_release(client->life);
  pthread_mutex_destroy(&client->lock);
  dp_free(client);
}

static dp_status *get_rpc(dp_link_client *client, dp_rpc_client **rpc_out) {
  pthread_mutex_lock(&client->lock);
  dp_status *status = client->rpc ? NULL : dp_rpc_client_create(0, &client->rpc);
  *rpc_out = client->rpc;
  pthread_mutex_unlock(&client->lock);
  return status;
}

/* ---- The table ---- */

typedef struct task_link {
  char *task;
  char *address;
  dp_worker_peer *peer; /* NULL until first used */
} task_link;

struct dp_links {
  dp_link_client *client;
  bool is_from_client;  /* its tasks were started under other names */
  pthread_mutex_t lock; /* guards the peers */
  size_t count;
  const char **names;
  task_link *items;
};

dp_links *dp_links_create(dp_link_client *client, const dp_cluster_spec *cluster) {
  dp_links *links = DP_NEW(dp_links);
  links->client = client;
  pthread_mutex_init(&links->lock, NULL);
  size_t count = dp_cluster_spec_task_count(cluster);
  links->items = DP_NEW_ARRAY(task_link, count);
  links->names = DP_NEW_ARRAY(const char *, count);
  for (size_t i = 0; i < cluster->job_count; i++) {
    const dp_cluster_job *job = &cluster->jobs[i];
    for (size_t k = 0; k < job->task_count; k++) {
      task_link *link = &links->items[links->count];
      dp_text name = {0};
      dp_text_printf(&name, "/job:%s/replica:0/task:%d", job->name, job->tasks[k].index);
      link->task = dp_text_take(&name);
      link->address = dp_strdup(job->tasks[k].address);
      links->names[links->count++] = link->task;
    }
  }
  return links;
}

void dp_links_destroy(dp_links *links) {
  for (size_t i = 0; i < links->count; i++) {
    if (links->items[i].peer)
      links->items[i].peer->ops->release(links->items[i].peer);
    dp_free(links->items[i].task);
    dp_free(links->items[i].address);
  }
  dp_free(links->items);
  dp_free(links->names);
  pthread_mutex_destroy(&links->lock);
  dp_free(links);
}

/* With the lock held. */
static dp_status *open_link(dp_links *links, task_link *link) {
  if (link->peer)
    return NULL;
  dp_rpc_client *rpc;
  DP_RETURN_IF_ERROR(get_rpc(links->client, &rpc));
  link->peer = dp_remote_worker_create(
      &(dp_remote_worker_options){.rpc = rpc,
                                  .address = link->address,
                                  .task = link->task,
                                  .answers_to_any_name = links->is_from_client,
                                  .life = links->client->life,
                                  .liveness = links->client->liveness,
                                  .table = links});
  return NULL;
}

static dp_status *find_peer(void *arg, const char *name, dp_worker_peer **peer_out) {
  dp_links *links = arg;
  for (size_t i = 0; i < links->count; i++) {
    if (strcmp(links->items[i].task, name) != 0)
      continue;
    pthread_mutex_lock(&links->lock);
    dp_status *status = open_link(links, &links->items[i]);
    *peer_out = links->items[i].peer;
    pthread_mutex_unlock(&links->lock);
    return status;
  }
  return dp_status_create(DP_NOT_FOUND, "%s is no task of this cluster", name);
}

static size_t list_tasks(void *arg, const char *const **names_out) {
  dp_links *links = arg;
  *names_out = links->names;
  return links->count;
}

static dp_status *open_cluster(void *arg, const Tensorflow__ClusterDef *message, void **out) {
  dp_links *links = arg;
  dp_cluster_spec *cluster;
  DP_RETURN_IF_ERROR(dp_cluster_spec_from_message(message, &cluster));
  dp_links *opened = dp_links_create(links->client, cluster);
  opened->is_from_client = true;
  dp_cluster_spec_release(cluster);
  *out = opened;
  return NULL;
}

static void close_cluster(void *links) {
  dp_links_destroy(links);
}

const dp_cluster_ops dp_links_ops = {
    .tasks = list_tasks, .find = find_peer, .open = open_cluster, .close = close_cluster};

/* ---- Looking at it ---- */

typedef struct peer_line {
  const char *task, *address;
  char state[128], reason[128], incarnation[24];
  double seconds; /* < 0: nothing to tell */
} peer_line;

/* A silent task is never called connected. */
static void fill_state(const dp_remote_state *state, int64_t gone_nanos, peer_line *line) {
  const char *reason = *state->reason ? state->reason : dp_rpc_link_name(state->link);
  int64_t nanos = dp_clock_nanos() - state->since_nanos;
  if (state->is_gone) {
    snprintf(line->state, sizeof(line->state), "gone");
    snprintf(line->reason, sizeof(line->reason), " (%s)", reason);
    nanos = state->gone_nanos;
  } else if (state->link == DP_RPC_CONNECTED && state->silent_nanos > gone_nanos / 2) {
    snprintf(line->state, sizeof(line->state), "silent");
    nanos = state->silent_nanos;
  } else {
    snprintf(line->state, sizeof(line->state), "%s", reason);
  }
  line->seconds = (double)nanos / 1e9;
}

/* With the lock held. */
static void fill_line(const dp_links *links, const task_link *link, peer_line *line) {
  *line = (peer_line){.task = link->task, .address = link->address, .seconds = -1};
  if (!link->peer) {
    snprintf(line->state, sizeof(line->state), "not used");
    return;
  }
  dp_remote_state state;
  dp_remote_worker_get_state(link->peer, &state);
  fill_state(&state, dp_liveness_gone_nanos(links->client->liveness), line);
  if (state.incarnation)
    snprintf(line->incarnation, sizeof(line->incarnation), "%016" PRIx64, state.incarnation);
  dp_free(state.reason);
}

static int wider(int width, const char *text) {
  int length = (int)strlen(text);
  return length > width ? length : width;
}

static void print_lines(const peer_line *lines, size_t count, dp_text *text) {
  int task = 0, address = 0, state = 0;
  for (size_t i = 0; i < count; i++) {
    task = wider(task, lines[i].task);
    address = wider(address, lines[i].address);
    state = wider(state, lines[i].state);
  }
  for (size_t i = 0; i < count; i++) {
    const peer_line *line = &lines[i];
    dp_text_printf(text, "  %-*s  %-*s  ", task, line->task, address, line->address);
    if (line->seconds < 0)
      dp_text_printf(text, "%s\n", line->state);
    else
      dp_text_printf(text, "%-*s  for %.1f s%s%s%s\n", state, line->state, line->seconds,
                     line->reason, *line->incarnation ? ", incarnation " : "", line->incarnation);
  }
}

void dp_links_describe(dp_links *links, const char *own, dp_text *text) {
  peer_line *lines = DP_NEW_ARRAY(peer_line, links->count + 1);
  size_t count = 0;
  pthread_mutex_lock(&links->lock);
  for (size_t i = 0; i < links->count; i++) {
    if (strcmp(links->items[i].task, own) != 0)
      fill_line(links, &links->items[i], &lines[count++]);
  }
  pthread_mutex_unlock(&links->lock);
  if (count > 0)
    dp_text_add(text, "\npeers\n");
  print_lines(lines, count, text);
  dp_free(lines);
}
