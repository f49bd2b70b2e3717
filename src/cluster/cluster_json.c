/* Cluster specifications from JSON: the text of --cluster, a file with that text, and TF_CONFIG.
 * The forms are those of tf.train.ClusterSpec: a job is a list of addresses, or a map from task
 * numbers to addresses. jansson parses; what is wrong is named with its job and task. Any thread
 * may call. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "cluster/cluster_internal.h"

enum { LARGEST_FILE = 16 << 20 };

static dp_status *load_json(dp_view text, const char *what, json_t **root_out) {
  json_error_t error;
  json_t *root = json_loadb(text.data, text.length, JSON_REJECT_DUPLICATES, &error);
  if (root == NULL)
    return DP_INVALID("%s: not JSON at line %d, column %d: %s", what, error.line, error.column,
                      error.text);
  *root_out = root;
  return NULL;
}

/* ---- The cluster ------------------------------------------------------------------------------*/

static dp_status *add_task(dp_cluster_job *job, int64_t index, const json_t *value) {
  if (!json_is_string(value))
    return DP_INVALID("cluster: the address of %s task %lld is not a string", job->name,
                      (long long)index);
  return dp_cluster_builder_add_task(job, index, json_string_value(value));
}

static dp_status *add_tasks(dp_cluster_job *job, json_t *tasks) {
  size_t index;
  const char *key;
  json_t *value;
  if (json_is_array(tasks)) {
    json_array_foreach(tasks, index, value)
        DP_RETURN_IF_ERROR(add_task(job, (int64_t)index, value));
    return NULL;
  }
  if (!json_is_object(tasks))
    return DP_INVALID("cluster: job %s is neither a list of addresses nor a map from task numbers "
                      "to addresses",
                      job->name);
  json_object_foreach(tasks, key, value) {
    int64_t number;
    if (!dp_parse_int64(dp_view_of(key), &number))
      return DP_INVALID("cluster: \"%s\" is not a task number (job %s)", key, job->name);
    DP_RETURN_IF_ERROR(add_task(job, number, value));
  }
  return NULL;
}

static dp_status *spec_of_json(json_t *root, dp_cluster_spec **spec_out) {
  if (!json_is_object(root))
    return DP_INVALID("cluster: not a map from job names to addresses, such as "
                      "{\"ps\": [\"host:port\"], \"worker\": [\"host:port\"]}");
  dp_cluster_spec *spec = dp_cluster_builder_create();
  dp_status *status = NULL;
  const char *name;
  json_t *tasks;
  json_object_foreach(root, name, tasks) {
    size_t position;
    if (status == NULL)
      status = dp_cluster_builder_add_job(spec, name, &position);
    if (status == NULL)
      status = add_tasks(&spec->jobs[position], tasks);
  }
  return dp_cluster_builder_finish(spec, status, spec_out);
}

dp_status *dp_cluster_spec_parse(dp_view json, dp_cluster_spec **spec_out) {
  json_t *root;
  DP_RETURN_IF_ERROR(load_json(json, "cluster", &root));
  dp_status *status = spec_of_json(root, spec_out);
  json_decref(root);
  return status;
}

static dp_status *read_file(const char *path, dp_text *text) {
  FILE *file = fopen(path, "re");
  if (file == NULL)
    return dp_status_create(errno == ENOENT ? DP_NOT_FOUND : DP_INVALID_ARGUMENT,
                            "cluster: cannot open %s: %s", path, strerror(errno));
  char part[4096];
  size_t count;
  while ((count = fread(part, 1, sizeof(part), file)) > 0 && text->length <= LARGEST_FILE)
    dp_text_append(text, part, count);
  bool failed = ferror(file) != 0;
  fclose(file);
  if (failed)
    return dp_status_create(DP_DATA_LOSS, "cluster: cannot read %s", path);
  if (text->length > LARGEST_FILE)
    return DP_INVALID("cluster: %s is longer than %d bytes", path, LARGEST_FILE);
  return NULL;
}

dp_status *dp_cluster_spec_load(const char *text, dp_cluster_spec **spec_out) {
  if (text[0] != '@')
    return dp_cluster_spec_parse(dp_view_of(text), spec_out);
  dp_text contents = {0};
  dp_status *status = read_file(text + 1, &contents);
  if (status == NULL) {
    dp_view whole = {dp_text_string(&contents), contents.length};
    status = dp_status_annotate(dp_cluster_spec_parse(whole, spec_out), "%s", text + 1);
  }
  dp_text_deinit(&contents);
  return status;
}

/* ---- TF_CONFIG --------------------------------------------------------------------------------*/

/* A number, or a string with a number in it: launchers write both. */
static bool index_of(const json_t *value, int64_t *index_out) {
  if (json_is_integer(value)) {
    *index_out = json_integer_value(value);
    return true;
  }
  return json_is_string(value) && dp_parse_int64(dp_view_of(json_string_value(value)), index_out);
}

static dp_status *task_of_json(const json_t *root, const char **job_out, int64_t *index_out) {
  const json_t *task = json_object_get(root, "task");
  if (!json_is_object(task))
    return DP_INVALID("TF_CONFIG: \"task\" is missing: which task of the cluster is this one?");
  const json_t *type = json_object_get(task, "type"), *index = json_object_get(task, "index");
  if (!json_is_string(type))
    return DP_INVALID("TF_CONFIG: \"task\" has no \"type\" (the name of the job)");
  *index_out = 0;
  if (index != NULL && !index_of(index, index_out))
    return DP_INVALID("TF_CONFIG: the \"index\" of \"task\" is not a number");
  if (*index_out < 0 || *index_out > INT32_MAX)
    return DP_INVALID("TF_CONFIG: the \"index\" of \"task\" is %lld", (long long)*index_out);
  *job_out = json_string_value(type);
  return NULL;
}

static dp_status *parse_config(json_t *root, dp_cluster_spec **spec_out, char **job_out,
                               int32_t *index_out) {
  json_t *cluster = json_object_get(root, "cluster");
  if (cluster == NULL)
    return DP_INVALID("TF_CONFIG: it has no \"cluster\"");
  dp_cluster_spec *spec;
  const char *job = NULL;
  int64_t index = 0;
  DP_RETURN_IF_ERROR(dp_status_annotate(spec_of_json(cluster, &spec), "TF_CONFIG"));
  dp_status *status = task_of_json(root, &job, &index);
  const char *address;
  if (status == NULL)
    status = dp_status_annotate(dp_cluster_spec_lookup(spec, job, (int32_t)index, &address),
                                "TF_CONFIG");
  if (status != NULL) {
    dp_cluster_spec_release(spec);
    return status;
  }
  *spec_out = spec;
  *job_out = dp_strdup(job);
  *index_out = (int32_t)index;
  return NULL;
}

dp_status *dp_cluster_parse_tf_config(const char *text, dp_cluster_spec **spec_out, char **job_out,
                                      int32_t *index_out) {
  json_t *root;
  DP_RETURN_IF_ERROR(load_json(dp_view_of(text), "TF_CONFIG", &root));
  dp_status *status = parse_config(root, spec_out, job_out, index_out);
  json_decref(root);
  return status;
}
