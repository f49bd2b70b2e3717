/* Makes gradients of functions whose library names none, for SymbolicGradient.
 *
 * The function's body is copied into a new graph and differentiated there like any graph of a
 * client. The result becomes a new function of the library. It takes the function's arguments and
 * the gradients of its results, and gives the gradients of the arguments. Any thread may call: all
 * but the library, which has a lock of its own, belongs to the call. */
#include "client/differentiate.h"

#include "client/gradient.h"
#include "client/inline_internal.h"

/* The new graph, and the values of it that the new function is made of. */
typedef struct making {
  TF_Graph *graph;
  dp_scope *scope;
  int32_t argument_count, result_count;
  TF_Output *inputs;  /* the arguments, then the gradients of the results */
  TF_Output *results; /* of the function */
  TF_Output *outputs; /* the gradients of the arguments */
} making;

static dp_status *copy_library(dp_library *from, dp_library *to) {
  dp_arena *arena = dp_arena_create();
  dp_status *status = dp_library_add(to, dp_library_export(from, arena));
  dp_arena_destroy(arena);
  return status;
}

static dp_status *make_inputs(making *m, dp_library *library, const dp_func *function) {
  dp_function_body body;
  DP_RETURN_IF_ERROR(dp_function_instantiate(library, function, &body));
  m->argument_count = body.argument_count;
  m->result_count = body.result_count;
  m->inputs = DP_NEW_ARRAY(TF_Output, m->argument_count + m->result_count + 1);
  m->results = DP_NEW_ARRAY(TF_Output, m->result_count + 1);
  m->outputs = DP_NEW_ARRAY(TF_Output, m->argument_count + 1);
  for (int32_t i = 0; i < m->argument_count; i++)
    m->inputs[i] = dp_placeholder(m->scope, (TF_DataType)body.arguments[i]->output_types[0]);
  for (int32_t i = 0; i < m->result_count; i++)
    m->inputs[m->argument_count + i] =
        dp_placeholder(m->scope, (TF_DataType)body.results[i]->input_types[0]);
  dp_graph_destroy(body.graph);
  return NULL;
}

static void make_outputs(making *m, const dp_func *function) {
  dp_outputs arguments = {m->inputs, m->argument_count};
  dp_gradient *gradients = DP_NEW_ARRAY(dp_gradient, m->argument_count + 1);
  dp_client_inline(m->scope, function, arguments, NULL, m->results);
  if (dp_scope_ok(m->scope))
    dp_gradients(m->scope, (dp_outputs){m->results, m->result_count}, arguments,
                 m->inputs + m->argument_count, gradients);
  for (int32_t i = 0; i < m->argument_count && dp_scope_ok(m->scope); i++)
    m->outputs[i] = dp_gradient_exists(&gradients[i]) ? dp_gradient_dense(m->scope, &gradients[i])
                                                      : dp_zeros_like(m->scope, m->inputs[i]);
  dp_free(gradients);
}

static dp_status *add_function(const making *m, const char *name, dp_library *library) {
  TF_Status status = {0};
  TF_Function *made = TF_GraphToFunction(
      m->graph, name, 0, -1, NULL, m->argument_count + m->result_count, m->inputs,
      m->argument_count, m->outputs, NULL, NULL, "Made by SymbolicGradient.", &status);
  TF_Buffer *buffer = TF_NewBuffer();
  if (!status.status)
    TF_FunctionToFunctionDef(made, buffer, &status);
  if (!status.status) {
    dp_arena *arena = dp_arena_create();
    Tensorflow__FunctionDef *definition;
    Tensorflow__FunctionDefLibrary one = TENSORFLOW__FUNCTION_DEF_LIBRARY__INIT;
    one.n_function = 1;
    one.function = &definition;
    status.status = dp_wire_unpack_bytes(&tensorflow__function_def__descriptor, buffer->data,
                                         buffer->length, arena, &definition);
    if (!status.status)
      status.status = dp_library_add(library, &one);
    dp_arena_destroy(arena);
  }
  TF_DeleteBuffer(buffer);
  TF_DeleteFunction(made);
  return status.status;
}

static dp_status *differentiate(dp_library *library, const dp_func *function, const char *name) {
  making m = {.graph = TF_NewGraph()};
  m.scope = dp_scope_create(m.graph);
  dp_status *status = copy_library(library, m.graph->graph->library);
  if (!status)
    status = make_inputs(&m, library, function);
  if (!status) {
    make_outputs(&m, function);
    status = dp_status_retain(m.scope->root->status);
  }
  if (!status)
    status = add_function(&m, name, library);
  dp_scope_destroy(m.scope);
  TF_DeleteGraph(m.graph);
  dp_free(m.inputs);
  dp_free(m.results);
  dp_free(m.outputs);
  return dp_status_annotate(status, "Gradient of the function %s", function->name);
}

void dp_differentiate_register(void) {
  dp_library_set_differentiator(differentiate);
}
