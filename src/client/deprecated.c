/* TF_DeprecatedSession: the C API's first session, from before TF_Graph. It has a graph of its own,
 * and callers give operations and outputs by name. Here it owns a TF_Graph and a TF_Session; each
 * call looks the names up and calls the function of today. */
#include "client/client_internal.h"

#include <stdlib.h>
#include <string.h>

struct TF_DeprecatedSession {
  TF_Graph *graph;
  TF_Session *session;
};

TF_DeprecatedSession *TF_NewDeprecatedSession(const TF_SessionOptions *options, TF_Status *status) {
  TF_DeprecatedSession *old = DP_NEW(TF_DeprecatedSession);
  old->graph = TF_NewGraph();
  old->session = TF_NewSession(old->graph, options, status);
  if (old->session)
    return old;
  TF_DeleteGraph(old->graph);
  dp_free(old);
  return NULL;
}

void TF_CloseDeprecatedSession(TF_DeprecatedSession *old, TF_Status *status) {
  TF_CloseSession(old->session, status);
}

void TF_DeleteDeprecatedSession(TF_DeprecatedSession *old, TF_Status *status) {
  dp_client_set_status(status, NULL);
  if (!old)
    return;
  TF_DeleteSession(old->session, status);
  TF_DeleteGraph(old->graph);
  dp_free(old);
}

void TF_ExtendGraph(TF_DeprecatedSession *old, const void *proto, size_t proto_len,
                    TF_Status *status) {
  TF_Buffer message = {.data = proto, .length = proto_len};
  TF_ImportGraphDefOptions *options = TF_NewImportGraphDefOptions();
  TF_GraphImportGraphDef(old->graph, &message, options, status);
  TF_DeleteImportGraphDefOptions(options);
}

TF_DeviceList *TF_DeprecatedSessionListDevices(TF_DeprecatedSession *old, TF_Status *status) {
  return TF_SessionListDevices(old->session, status);
}

/* ---- Names ---- */

/* "a:1" is output 1 of a; "a" alone is output 0. */
static dp_status *find_output(TF_Graph *graph, const char *name, TF_Output *output_out) {
  const char *colon = strrchr(name, ':');
  char *end = NULL, *operation = dp_strndup(name, colon ? (size_t)(colon - name) : strlen(name));
  long index = colon ? strtol(colon + 1, &end, 10) : 0;
  TF_Output output = {TF_GraphOperationByName(graph, operation), (int)index};
  dp_free(operation);
  bool is_number = !colon || (end != colon + 1 && !*end);
  if (!output.oper || !is_number || index < 0 || index >= TF_OperationNumOutputs(output.oper))
    return dp_status_create(DP_NOT_FOUND, "%s is no output of the session's graph", name);
  *output_out = output;
  return NULL;
}

/* The names of a run, looked up. */
typedef struct named_run {
  TF_Output *inputs, *outputs;
  const TF_Operation **targets;
} named_run;

static dp_status *find_outputs(TF_Graph *graph, const char **names, int count,
                               TF_Output **outputs_out) {
  *outputs_out = DP_NEW_ARRAY(TF_Output, count + 1);
  for (int i = 0; i < count; i++)
    DP_RETURN_IF_ERROR(find_output(graph, names[i], &(*outputs_out)[i]));
  return NULL;
}

static dp_status *find_targets(TF_Graph *graph, const char **names, int count, named_run *run) {
  run->targets = DP_NEW_ARRAY(const TF_Operation *, count + 1);
  for (int i = 0; i < count; i++) {
    run->targets[i] = TF_GraphOperationByName(graph, names[i]);
    if (!run->targets[i])
      return dp_status_create(DP_NOT_FOUND, "%s is not in the session's graph", names[i]);
  }
  return NULL;
}

/* False, with the status set, if a name is not in the graph. The caller frees the run either way.
 */
static bool find_run(TF_DeprecatedSession *old, const char **input_names, int inputs,
                     const char **output_names, int outputs, const char **target_names, int targets,
                     named_run *run, TF_Status *status) {
  *run = (named_run){0};
  dp_status *result = find_outputs(old->graph, input_names, inputs, &run->inputs);
  if (!result)
    result = find_outputs(old->graph, output_names, outputs, &run->outputs);
  if (!result)
    result = find_targets(old->graph, target_names, targets, run);
  bool is_found = !result;
  dp_client_set_status(status, result);
  return is_found;
}

static void free_run(named_run *run) {
  dp_free(run->inputs);
  dp_free(run->outputs);
  dp_free(run->targets);
}

/* ---- Runs ---- */

void TF_Run(TF_DeprecatedSession *old, const TF_Buffer *run_options, const char **input_names,
            TF_Tensor **inputs, int ninputs, const char **output_names, TF_Tensor **outputs,
            int noutputs, const char **target_oper_names, int ntargets, TF_Buffer *run_metadata,
            TF_Status *status) {
  named_run run;
  for (int i = 0; i < noutputs; i++)
    outputs[i] = NULL;
  if (find_run(old, input_names, ninputs, output_names, noutputs, target_oper_names, ntargets, &run,
               status))
    TF_SessionRun(old->session, run_options, run.inputs, inputs, ninputs, run.outputs, outputs,
                  noutputs, run.targets, ntargets, run_metadata, status);
  free_run(&run);
}

void TF_PRunSetup(TF_DeprecatedSession *old, const char **input_names, int ninputs,
                  const char **output_names, int noutputs, const char **target_oper_names,
                  int ntargets, const char **handle, TF_Status *status) {
  named_run run;
  *handle = NULL;
  if (find_run(old, input_names, ninputs, output_names, noutputs, target_oper_names, ntargets, &run,
               status))
    TF_SessionPRunSetup(old->session, run.inputs, ninputs, run.outputs, noutputs, run.targets,
                        ntargets, handle, status);
  free_run(&run);
}

void TF_PRun(TF_DeprecatedSession *old, const char *handle, const char **input_names,
             TF_Tensor **inputs, int ninputs, const char **output_names, TF_Tensor **outputs,
             int noutputs, const char **target_oper_names, int ntargets, TF_Status *status) {
  named_run run;
  for (int i = 0; i < noutputs; i++)
    outputs[i] = NULL;
  if (find_run(old, input_names, ninputs, output_names, noutputs, target_oper_names, ntargets, &run,
               status))
    TF_SessionPRun(old->session, handle, run.inputs, inputs, ninputs, run.outputs, outputs,
                   noutputs, run.targets, ntargets, status);
  free_run(&run);
}
