/* TF_Operation*: names, types, inputs and readers of one operation. Any thread may call. Nodes do
 * not change once they are in the graph, so they are read without a lock. The graph's lock is taken
 * to find another operation and to list readers, which grow with the graph. */
#include "client/client_internal.h"

#include <string.h>

const char *TF_OperationName(TF_Operation *oper) {
  return oper->node->name;
}

const char *TF_OperationOpType(TF_Operation *oper) {
  return oper->node->op->name;
}

const char *TF_OperationDevice(TF_Operation *oper) {
  return oper->node->device;
}

int TF_OperationNumOutputs(TF_Operation *oper) {
  return oper->node->output_count;
}

int TF_OperationNumInputs(TF_Operation *oper) {
  return oper->node->input_count;
}

TF_DataType TF_OperationOutputType(TF_Output oper_out) {
  const dp_node *node = oper_out.oper->node;
  bool exists = oper_out.index >= 0 && oper_out.index < node->output_count;
  return (TF_DataType)(exists ? node->output_types[oper_out.index] : 0);
}

TF_DataType TF_OperationInputType(TF_Input oper_in) {
  const dp_node *node = oper_in.oper->node;
  bool exists = oper_in.index >= 0 && oper_in.index < node->input_count;
  return (TF_DataType)(exists ? node->input_types[oper_in.index] : 0);
}

/* ---- Lists ---- */

static bool has_arg(const dp_op_arg *args, int32_t count, const char *name) {
  for (int32_t i = 0; i < count; i++)
    if (strcmp(args[i].name, name) == 0)
      return true;
  return false;
}

int TF_OperationOutputListLength(TF_Operation *oper, const char *arg_name, TF_Status *status) {
  const dp_op *op = oper->node->op;
  int32_t begin = 0, end = 0;
  dp_status *result = has_arg(op->outputs, op->output_count, arg_name)
                          ? dp_node_output_range(oper->node, arg_name, &begin, &end)
                          : DP_INVALID("Output arg '%s' not found", arg_name);
  dp_client_set_status(status, result);
  return result ? -1 : end - begin;
}

int TF_OperationInputListLength(TF_Operation *oper, const char *arg_name, TF_Status *status) {
  const dp_op *op = oper->node->op;
  int32_t begin = 0, end = 0;
  dp_status *result = has_arg(op->inputs, op->input_count, arg_name)
                          ? dp_node_input_range(oper->node, arg_name, &begin, &end)
                          : DP_INVALID("Input arg '%s' not found", arg_name);
  dp_client_set_status(status, result);
  return result ? -1 : end - begin;
}

/* ---- Edges ---- */

static TF_Operation *operation_at(TF_Graph *graph, int32_t id) {
  pthread_mutex_lock(&graph->lock);
  TF_Operation *operation = graph->operations[id];
  pthread_mutex_unlock(&graph->lock);
  return operation;
}

TF_Output TF_OperationInput(TF_Input oper_in) {
  const dp_node *node = oper_in.oper->node;
  if (oper_in.index < 0 || oper_in.index >= node->input_count)
    return (TF_Output){NULL, -1};
  dp_input input = node->inputs[oper_in.index];
  return (TF_Output){operation_at(oper_in.oper->graph, input.node), input.output};
}

void TF_OperationAllInputs(TF_Operation *oper, TF_Output *inputs, int max_inputs) {
  for (int i = 0; i < oper->node->input_count && i < max_inputs; i++)
    inputs[i] = TF_OperationInput((TF_Input){oper, i});
}

int TF_OperationNumControlInputs(TF_Operation *oper) {
  return oper->node->control_count;
}

int TF_OperationGetControlInputs(TF_Operation *oper, TF_Operation **control_inputs,
                                 int max_control_inputs) {
  for (int i = 0; i < oper->node->control_count && i < max_control_inputs; i++)
    control_inputs[i] = operation_at(oper->graph, oper->node->controls[i]);
  return oper->node->control_count;
}

/* Counts the readers of an output (-1: of control edges), and stores up to `most` of them. */
static int list_readers(TF_Operation *oper, int output, TF_Input *readers, int most) {
  int count = 0;
  pthread_mutex_lock(&oper->graph->lock);
  for (size_t i = 0; i < oper->readers.count; i++) {
    if (oper->readers.items[i].output != output)
      continue;
    if (count < most)
      readers[count] = oper->readers.items[i].reader;
    count++;
  }
  pthread_mutex_unlock(&oper->graph->lock);
  return count;
}

int TF_OperationOutputNumConsumers(TF_Output oper_out) {
  return list_readers(oper_out.oper, oper_out.index, NULL, 0);
}

int TF_OperationOutputConsumers(TF_Output oper_out, TF_Input *consumers, int max_consumers) {
  return list_readers(oper_out.oper, oper_out.index, consumers, max_consumers);
}

int TF_OperationNumControlOutputs(TF_Operation *oper) {
  return list_readers(oper, -1, NULL, 0);
}

int TF_OperationGetControlOutputs(TF_Operation *oper, TF_Operation **control_outputs,
                                  int max_control_outputs) {
  int most = max_control_outputs > 0 ? max_control_outputs : 0;
  TF_Input *readers = DP_NEW_ARRAY(TF_Input, (size_t)most + 1);
  int count = list_readers(oper, -1, readers, most);
  for (int i = 0; i < count && i < most; i++)
    control_outputs[i] = readers[i].oper;
  dp_free(readers);
  return count;
}
