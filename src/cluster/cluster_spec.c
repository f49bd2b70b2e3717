/* Cluster specifications: building, checking, ClusterDef messages, lookups. A specification is
 * built task by task and checked as a whole, so that an error names what contradicts what. Reading
 * JSON is in cluster_json.c. Once built it never changes, so any thread may ask it. */
#include "cluster/cluster_spec.h"

#include <stdlib.h>

#include "base/map.h"
#include "base/memory.h"
#include "cluster/cluster_internal.h"
#include "wire/device_name.h"

/* ---- Building ---------------------------------------------------------------------------------*/

dp_cluster_spec *dp_cluster_builder_create(void) {
  dp_cluster_spec *spec = DP_NEW(dp_cluster_spec);
  dp_refcount_init(&spec->references);
  return spec;
}

static dp_cluster_job *find_job(const dp_cluster_spec *spec, const char *name) {
  for (size_t i = 0; i < spec->job_count; i++)
    if (strcmp(spec->jobs[i].name, name) == 0)
      return &spec->jobs[i];
  return NULL;
}

dp_status *dp_cluster_builder_add_job(dp_cluster_spec *spec, const char *name,
                                      size_t *position_out) {
  if (!dp_device_is_job_name(dp_view_of(name)))
    return DP_INVALID("cluster: \"%s\" cannot be the name of a job (a letter, then letters, digits "
                      "and _)",
                      name);
  if (strlen(name) >= DP_DEVICE_JOB_SIZE)
    return DP_INVALID("cluster: the name of job \"%.40s...\" is longer than %d characters", name,
                      DP_DEVICE_JOB_SIZE - 1);
  if (find_job(spec, name) != NULL)
    return DP_INVALID("cluster: job %s is there twice", name);
  spec->jobs = dp_realloc(spec->jobs, (spec->job_count + 1) * sizeof(*spec->jobs));
  spec->jobs[spec->job_count] = (dp_cluster_job){.name = dp_strdup(name)};
  *position_out = spec->job_count++;
  return NULL;
}

dp_status *dp_cluster_builder_add_task(dp_cluster_job *job, int64_t index, const char *address) {
  dp_view host;
  int port;
  if (index < 0 || index > INT32_MAX)
    return DP_INVALID("cluster: %lld is not a task number (job %s)", (long long)index, job->name);
  if (strncmp(address, "grpc://", 7) == 0)
    address += 7;
  if (!dp_cluster_split_address(address, &host, &port))
    return DP_INVALID("cluster: the address of %s task %lld, \"%s\", is not of the form host:port",
                      job->name, (long long)index, address);
  /* The array doubles when the count is a power of two, so no capacity need be stored. */
  if ((job->task_count & (job->task_count - 1)) == 0)
    job->tasks =
        dp_realloc(job->tasks, (job->task_count ? job->task_count * 2 : 1) * sizeof(*job->tasks));
  job->tasks[job->task_count++] =
      (dp_cluster_task){.index = (int32_t)index, .address = dp_strdup(address)};
  return NULL;
}

static int compare_jobs(const void *a, const void *b) {
  return strcmp(((const dp_cluster_job *)a)->name, ((const dp_cluster_job *)b)->name);
}

static int compare_tasks(const void *a, const void *b) {
  int32_t left = ((const dp_cluster_task *)a)->index, right = ((const dp_cluster_task *)b)->index;
  return (left > right) - (left < right);
}

static dp_status *check_job(dp_cluster_job *job) {
  if (job->task_count == 0)
    return DP_INVALID("cluster: job %s has no tasks", job->name);
  qsort(job->tasks, job->task_count, sizeof(*job->tasks), compare_tasks);
  for (size_t i = 1; i < job->task_count; i++)
    if (job->tasks[i].index == job->tasks[i - 1].index)
      return DP_INVALID("cluster: %s task %d is there twice (%s and %s)", job->name,
                        job->tasks[i].index, job->tasks[i - 1].address, job->tasks[i].address);
  return NULL;
}

/* No two tasks have one address. Port 0 is for a cluster of one task only: others could not find
 * it.
 */
static dp_status *check_addresses(const dp_cluster_spec *spec) {
  dp_map *seen = dp_map_create(); /* address -> the job that has it */
  dp_status *status = NULL;
  for (size_t i = 0; i < spec->job_count && status == NULL; i++) {
    dp_cluster_job *job = &spec->jobs[i];
    for (size_t j = 0; j < job->task_count && status == NULL; j++) {
      const dp_cluster_task *task = &job->tasks[j];
      dp_view host;
      int port = 0;
      dp_cluster_split_address(task->address, &host, &port);
      dp_cluster_job *other = dp_map_put(seen, task->address, job);
      if (other != NULL)
        status = DP_INVALID("cluster: %s task %d has the address of another task (of job %s): %s",
                            job->name, task->index, other->name, task->address);
      else if (port == 0 && dp_cluster_spec_task_count(spec) > 1)
        status = DP_INVALID("cluster: %s task %d has port 0 (%s), which others cannot find",
                            job->name, task->index, task->address);
    }
  }
  dp_map_destroy(seen);
  return status;
}

dp_status *dp_cluster_builder_finish(dp_cluster_spec *spec, dp_status *status,
                                     dp_cluster_spec **spec_out) {
  if (status == NULL && spec->job_count == 0)
    status = DP_INVALID("cluster: it has no jobs");
  for (size_t i = 0; i < spec->job_count && status == NULL; i++)
    status = check_job(&spec->jobs[i]);
  if (status == NULL)
    status = check_addresses(spec);
  if (status != NULL) {
    dp_cluster_spec_release(spec);
    return status;
  }
  qsort(spec->jobs, spec->job_count, sizeof(*spec->jobs), compare_jobs);
  *spec_out = spec;
  return NULL;
}

dp_status *dp_cluster_spec_single(const char *job, const char *address,
                                  dp_cluster_spec **spec_out) {
  dp_cluster_spec *spec = dp_cluster_builder_create();
  size_t position;
  dp_status *status = dp_cluster_builder_add_job(spec, job, &position);
  if (status == NULL)
    status = dp_cluster_builder_add_task(&spec->jobs[position], 0, address);
  return dp_cluster_builder_finish(spec, status, spec_out);
}

dp_cluster_spec *dp_cluster_spec_retain(const dp_cluster_spec *spec) {
  if (spec != NULL)
    dp_refcount_retain((dp_refcount *)&spec->references);
  return (dp_cluster_spec *)spec;
}

void dp_cluster_spec_release(dp_cluster_spec *spec) {
  if (spec == NULL || !dp_refcount_release(&spec->references))
    return;
  for (size_t i = 0; i < spec->job_count; i++) {
    for (size_t j = 0; j < spec->jobs[i].task_count; j++)
      dp_free(spec->jobs[i].tasks[j].address);
    dp_free(spec->jobs[i].tasks);
    dp_free(spec->jobs[i].name);
  }
  dp_free(spec->jobs);
  dp_free(spec);
}

/* ---- Messages ---------------------------------------------------------------------------------*/

static dp_status *add_job_message(dp_cluster_spec *spec, const Tensorflow__JobDef *message) {
  size_t position;
  DP_RETURN_IF_ERROR(dp_cluster_builder_add_job(spec, message->name, &position));
  for (size_t i = 0; i < message->n_tasks; i++)
    DP_RETURN_IF_ERROR(dp_cluster_builder_add_task(&spec->jobs[position], message->tasks[i]->key,
                                                   message->tasks[i]->value));
  return NULL;
}

dp_status *dp_cluster_spec_from_message(const Tensorflow__ClusterDef *message,
                                        dp_cluster_spec **spec_out) {
  dp_cluster_spec *spec = dp_cluster_builder_create();
  dp_status *status = NULL;
  for (size_t i = 0; i < message->n_job && status == NULL; i++)
    status = add_job_message(spec, message->job[i]);
  return dp_cluster_builder_finish(spec, status, spec_out);
}

/* ---- Asking -----------------------------------------------------------------------------------*/

const char *dp_cluster_spec_find(const dp_cluster_spec *spec, const char *job, int32_t index) {
  const dp_cluster_job *found = find_job(spec, job);
  if (found == NULL)
    return NULL;
  dp_cluster_task key = {.index = index};
  dp_cluster_task *task =
      bsearch(&key, found->tasks, found->task_count, sizeof(key), compare_tasks);
  return task != NULL ? task->address : NULL;
}

static dp_status *no_such_job(const dp_cluster_spec *spec, const char *job) {
  dp_text names = {0};
  for (size_t i = 0; i < spec->job_count; i++)
    dp_text_printf(&names, "%s%s", i > 0 ? ", " : "", spec->jobs[i].name);
  dp_status *status =
      DP_INVALID("the cluster has no job \"%s\" (it has: %s)", job, dp_text_string(&names));
  dp_text_deinit(&names);
  return status;
}

dp_status *dp_cluster_spec_lookup(const dp_cluster_spec *spec, const char *job, int32_t index,
                                  const char **address_out) {
  const dp_cluster_job *found = find_job(spec, job);
  if (found == NULL)
    return no_such_job(spec, job);
  const char *address = dp_cluster_spec_find(spec, job, index);
  if (address == NULL) {
    int32_t first = found->tasks[0].index, last = found->tasks[found->task_count - 1].index;
    bool gaps = (int64_t)last - first + 1 != (int64_t)found->task_count;
    return DP_INVALID("the cluster has no task %d in job %s (its %zu tasks are %sfrom %d to %d)",
                      index, job, found->task_count, gaps ? "with gaps " : "", first, last);
  }
  *address_out = address;
  return NULL;
}

size_t dp_cluster_spec_task_count(const dp_cluster_spec *spec) {
  size_t count = 0;
  for (size_t i = 0; i < spec->job_count; i++)
    count += spec->jobs[i].task_count;
  return count;
}
