/* `downpour serve`: one task of a cluster. --cluster, --job and --task say which task it is. With
 * --port alone it is a cluster of one task; with neither, TF_CONFIG says which task it is. The
 * server takes the main thread and its signals until it ends (server/server.h). */
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/log.h"
#include "base/memory.h"
#include "cli/command.h"
#include "server/server.h"
#include "storage/file.h"

static const dp_option options_table[] = {
    {"port", DP_OPTION_INT, NULL, "PORT",
     "Port to listen on; 0 picks a free one. Without a cluster the task is alone, as task 0 of the "
     "job local; with one, it replaces the port that the cluster names.",
     0, 65535},
    {"bind", DP_OPTION_STRING, NULL, "HOST",
     "Address to listen on; 0.0.0.0 and :: mean all. Default: 127.0.0.1, or this task's own host "
     "in the cluster."},
    {"cluster", DP_OPTION_STRING, NULL, "JSON",
     "All tasks, as {\"ps\": [\"host:port\"], \"worker\": [\"host:port\"]}, or @FILE with that in "
     "it. Without --cluster and --port it is taken from the environment variable TF_CONFIG."},
    {"job", DP_OPTION_STRING, NULL, "NAME", "The job of this task in the cluster."},
    {"task", DP_OPTION_INT, "0", "N", "The number of this task in its job.", 0, INT32_MAX},
    {"threads", DP_OPTION_INT, "0", "N", "Threads for computing; 0 means one per core.", 0, 4096},
    {"network-threads", DP_OPTION_INT, "0", "N",
     "Threads that wait for the network; 0 means 1, or 2 with 8 cores and more.", 0, 256},
    {"cpu-devices", DP_OPTION_INT, "1", "N", "How many CPU devices the task shows.", 1, 1024},
    {"session-idle", DP_OPTION_DURATION, "0s", "TIME",
     "Close sessions that nobody has used for this long; 0s never does.", 0,
     INT64_C(31536000000000000)},
    {"session-lost", DP_OPTION_DURATION, "60s", "TIME",
     "Close sessions whose client went away during a call and did not come back for this long; 0s "
     "never does.",
     0, INT64_C(31536000000000000)},
    {"exit-when-done", DP_OPTION_FLAG, NULL, NULL,
     "Leave, with code 0, once every session has closed and no task of another job has been alive "
     "for --gone; not before the first session.",
     0, 0},
    {"gone", DP_OPTION_DURATION, "10s", "TIME",
     "A task that does not answer for this long is gone: what waits for it fails, and the sessions "
     "of a dead master are dropped.",
     INT64_C(100000000), INT64_C(86400000000000)},
    {"grace", DP_OPTION_DURATION, "2s", "TIME", "How long calls in flight may go on after SIGTERM.",
     0, INT64_C(86400000000000)},
    {"file-roots", DP_OPTION_STRING, NULL, "FOLDERS",
     "Clients may read and write files in these folders alone, separated by commas. Default: all "
     "that the user of this process may."},
    {"sync-saves", DP_OPTION_FLAG, NULL, NULL,
     "A save is done only when the disk has it. Without this, it is done when every reader sees it "
     "and it outlives this process; the disk follows within moments, which a loss of power in "
     "between would undo.",
     0, 0},
    {"log", DP_OPTION_STRING, "info", "LEVELS",
     "What is logged: error, warn, info or debug, for all or for a room at a time "
     "(warn,rpc=debug)."},
    {"fault", DP_OPTION_STRING, NULL, "POINTS",
     "For tests: makes named places fail, as in rpc.receive=error:UNAVAILABLE@3."},
    {0},
};

typedef struct identity {
  dp_cluster_spec *cluster; /* NULL: alone */
  char *job;
  int32_t task;
} identity;

static dp_status *identity_from_options(const dp_options *options, identity *self) {
  const char *job = dp_options_string(options, "job");
  if (job == NULL)
    return DP_INVALID("--cluster needs --job NAME: which of its tasks is this one?");
  self->job = dp_strdup(job);
  self->task = (int32_t)dp_options_int(options, "task");
  DP_RETURN_IF_ERROR(dp_cluster_spec_load(dp_options_string(options, "cluster"), &self->cluster));
  const char *address;
  return dp_cluster_spec_lookup(self->cluster, self->job, self->task, &address);
}

static dp_status *find_identity(const dp_options *options, identity *self) {
  const char *config = getenv("TF_CONFIG");
  if (dp_options_string(options, "cluster") != NULL)
    return identity_from_options(options, self);
  if (dp_options_is_set(options, "job") || dp_options_is_set(options, "task"))
    return DP_INVALID("--job and --task need --cluster");
  if (dp_options_is_set(options, "port"))
    return NULL;
  if (config == NULL || config[0] == '\0')
    return DP_INVALID("give --port, or --cluster and --job, or set TF_CONFIG");
  return dp_cluster_parse_tf_config(config, &self->cluster, &self->job, &self->task);
}

static dp_status *stay_in_folders(const char *list) {
  char *folders = dp_strdup(list), *rest = folders, *folder;
  DP_ARRAY(const char *) roots = {0};
  while ((folder = strsep(&rest, ",")))
    DP_ARRAY_PUSH(&roots, folder);
  dp_status *status = dp_storage_set_roots(roots.items, roots.count);
  DP_ARRAY_FREE(&roots);
  dp_free(folders);
  return status;
}

static dp_status *configure(const dp_options *options, identity *self) {
  const char *fault = dp_options_string(options, "fault");
  const char *roots = dp_options_string(options, "file-roots");
  DP_RETURN_IF_ERROR(dp_log_configure(dp_options_string(options, "log")));
  if (fault != NULL)
    DP_RETURN_IF_ERROR(dp_fault_configure(fault));
  if (roots != NULL)
    DP_RETURN_IF_ERROR(stay_in_folders(roots));
  dp_storage_sync_commits(dp_options_flag(options, "sync-saves"));
  return find_identity(options, self);
}

static int serve(const dp_options *options) {
  identity self = {0};
  int code = DP_EXIT_USAGE;
  dp_status *status = configure(options, &self);
  if (status == NULL) {
    dp_server_options server = {
        .cluster = self.cluster,
        .job = self.job,
        .task = self.task,
        .bind = dp_options_string(options, "bind"),
        .port = dp_options_is_set(options, "port") ? (int)dp_options_int(options, "port") : -1,
        .network_threads = (int)dp_options_int(options, "network-threads"),
        .compute_threads = (int)dp_options_int(options, "threads"),
        .cpu_devices = (int)dp_options_int(options, "cpu-devices"),
        .exit_when_done = dp_options_flag(options, "exit-when-done"),
        .gone_nanos = dp_options_int(options, "gone"),
        .session_idle_nanos = dp_options_int(options, "session-idle"),
        .session_lost_nanos = dp_options_int(options, "session-lost"),
    };
    status = dp_server_run(&server, dp_options_int(options, "grace"));
    code = DP_EXIT_FAILURE;
  }
  dp_cluster_spec_release(self.cluster);
  dp_free(self.job);
  return status != NULL ? dp_command_fail(status, code) : DP_EXIT_OK;
}

const dp_command dp_serve_command = {
    .name = "serve",
    .arguments = "--port PORT | --cluster JSON --job NAME --task N",
    .summary = "Run one task of a cluster.",
    .options = options_table,
    .run = serve,
};
