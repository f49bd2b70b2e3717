/* TensorFlow's C API: graphs, the operations in them, and sessions that run them, either in this
 * process or on a server that speaks TensorFlow's protocol.
 *
 * Conventions. Objects made by TF_New... are ended by TF_Delete...; other pointers that come back
 * live as long as the object they were asked from. A TF_Status argument says how the call went.
 * Booleans are unsigned char, 0 or 1. Operations and outputs belong to one graph and must not be
 * mixed with those of another. Graphs and sessions may be used from several threads; an operation
 * description, a status and an options object by one at a time. Names of outputs are "name:index".
 */
#ifndef TENSORFLOW_C_C_API_H_
#define TENSORFLOW_C_C_API_H_

#include <stddef.h>
#include <stdint.h>
#include "tensorflow/c/c_api_macros.h"
#include "tensorflow/c/tf_attrtype.h"
#include "tensorflow/c/tf_buffer.h"
#include "tensorflow/c/tf_datatype.h"
#include "tensorflow/c/tf_status.h"
#include "tensorflow/c/tf_tensor.h"
#include "tensorflow/c/tf_tstring.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The version of TensorFlow whose operations and formats this library has. */
TF_CAPI_EXPORT extern const char *TF_Version(void);

/* Reads a serialized TensorProto into `to`, whose former contents go. */
TF_CAPI_EXPORT extern void TF_TensorFromProto(const TF_Buffer *from, TF_Tensor *to,
                                              TF_Status *status);

/* ---- Options of sessions ---- */
typedef struct TF_SessionOptions TF_SessionOptions;

TF_CAPI_EXPORT extern TF_SessionOptions *TF_NewSessionOptions(void);
/* "" or "local": this process. "grpc://host:port": a server. */
TF_CAPI_EXPORT extern void TF_SetTarget(TF_SessionOptions *options, const char *target);
/* A serialized ConfigProto. */
TF_CAPI_EXPORT extern void TF_SetConfig(TF_SessionOptions *options, const void *proto,
                                        size_t proto_len, TF_Status *status);
TF_CAPI_EXPORT extern void TF_DeleteSessionOptions(TF_SessionOptions *options);

/* ---- Graphs ---- */
typedef struct TF_Graph TF_Graph;
typedef struct TF_OperationDescription TF_OperationDescription;
typedef struct TF_Operation TF_Operation;

/* Slot `index` of an operation's inputs. */
typedef struct TF_Input {
  TF_Operation *oper;
  int index;
} TF_Input;

/* Slot `index` of an operation's outputs: a value in the graph. */
typedef struct TF_Output {
  TF_Operation *oper;
  int index;
} TF_Output;

TF_CAPI_EXPORT extern TF_Graph *TF_NewGraph(void);
/* The graph stays until its last session is deleted too. */
TF_CAPI_EXPORT extern void TF_DeleteGraph(TF_Graph *graph);

/* Shapes of values. -1 is an unknown size, and as `num_dims` an unknown rank. What is set is merged
 * with what was known, and refused when it contradicts. */
TF_CAPI_EXPORT extern void TF_GraphSetTensorShape(TF_Graph *graph, TF_Output output,
                                                  const int64_t *dims, const int num_dims,
                                                  TF_Status *status);
TF_CAPI_EXPORT extern int TF_GraphGetTensorNumDims(TF_Graph *graph, TF_Output output,
                                                   TF_Status *status);
/* `num_dims` must be what TF_GraphGetTensorNumDims says. */
TF_CAPI_EXPORT extern void TF_GraphGetTensorShape(TF_Graph *graph, TF_Output output, int64_t *dims,
                                                  int num_dims, TF_Status *status);

/* ---- Adding an operation ----
 * Describe it, then finish: inputs in the order of the op's definition, one call for each declared
 * input. Attributes that follow from the inputs' types and numbers, and those with defaults, need
 * not be set. What is wrong shows when it is finished. */
TF_CAPI_EXPORT extern TF_OperationDescription *TF_NewOperation(TF_Graph *graph, const char *op_type,
                                                               const char *oper_name);
TF_CAPI_EXPORT extern void TF_SetDevice(TF_OperationDescription *desc, const char *device);
TF_CAPI_EXPORT extern void TF_AddInput(TF_OperationDescription *desc, TF_Output input);
TF_CAPI_EXPORT extern void TF_AddInputList(TF_OperationDescription *desc, const TF_Output *inputs,
                                           int num_inputs);
TF_CAPI_EXPORT extern void TF_AddControlInput(TF_OperationDescription *desc, TF_Operation *input);
TF_CAPI_EXPORT extern void TF_ColocateWith(TF_OperationDescription *desc, TF_Operation *op);

/* Values are copied. */
TF_CAPI_EXPORT extern void TF_SetAttrString(TF_OperationDescription *desc, const char *attr_name,
                                            const void *value, size_t length);
TF_CAPI_EXPORT extern void TF_SetAttrStringList(TF_OperationDescription *desc,
                                                const char *attr_name, const void *const *values,
                                                const size_t *lengths, int num_values);
TF_CAPI_EXPORT extern void TF_SetAttrInt(TF_OperationDescription *desc, const char *attr_name,
                                         int64_t value);
TF_CAPI_EXPORT extern void TF_SetAttrIntList(TF_OperationDescription *desc, const char *attr_name,
                                             const int64_t *values, int num_values);
TF_CAPI_EXPORT extern void TF_SetAttrFloat(TF_OperationDescription *desc, const char *attr_name,
                                           float value);
TF_CAPI_EXPORT extern void TF_SetAttrFloatList(TF_OperationDescription *desc, const char *attr_name,
                                               const float *values, int num_values);
TF_CAPI_EXPORT extern void TF_SetAttrBool(TF_OperationDescription *desc, const char *attr_name,
                                          unsigned char value);
TF_CAPI_EXPORT extern void TF_SetAttrBoolList(TF_OperationDescription *desc, const char *attr_name,
                                              const unsigned char *values, int num_values);
TF_CAPI_EXPORT extern void TF_SetAttrType(TF_OperationDescription *desc, const char *attr_name,
                                          TF_DataType value);
TF_CAPI_EXPORT extern void TF_SetAttrTypeList(TF_OperationDescription *desc, const char *attr_name,
                                              const TF_DataType *values, int num_values);
TF_CAPI_EXPORT extern void TF_SetAttrPlaceholder(TF_OperationDescription *desc,
                                                 const char *attr_name, const char *placeholder);
/* A function by its name, without attributes of its own. */
TF_CAPI_EXPORT extern void TF_SetAttrFuncName(TF_OperationDescription *desc, const char *attr_name,
                                              const char *value, size_t length);
TF_CAPI_EXPORT extern void TF_SetAttrShape(TF_OperationDescription *desc, const char *attr_name,
                                           const int64_t *dims, int num_dims);
TF_CAPI_EXPORT extern void TF_SetAttrShapeList(TF_OperationDescription *desc, const char *attr_name,
                                               const int64_t *const *dims, const int *num_dims,
                                               int num_shapes);
TF_CAPI_EXPORT extern void TF_SetAttrTensorShapeProto(TF_OperationDescription *desc,
                                                      const char *attr_name, const void *proto,
                                                      size_t proto_len, TF_Status *status);
TF_CAPI_EXPORT extern void TF_SetAttrTensorShapeProtoList(TF_OperationDescription *desc,
                                                          const char *attr_name,
                                                          const void *const *protos,
                                                          const size_t *proto_lens, int num_shapes,
                                                          TF_Status *status);
TF_CAPI_EXPORT extern void TF_SetAttrTensor(TF_OperationDescription *desc, const char *attr_name,
                                            TF_Tensor *value, TF_Status *status);
TF_CAPI_EXPORT extern void TF_SetAttrTensorList(TF_OperationDescription *desc,
                                                const char *attr_name, TF_Tensor *const *values,
                                                int num_values, TF_Status *status);
/* A serialized AttrValue. */
TF_CAPI_EXPORT extern void TF_SetAttrValueProto(TF_OperationDescription *desc,
                                                const char *attr_name, const void *proto,
                                                size_t proto_len, TF_Status *status);

/* Ends the description in any case. NULL, and the graph is as before, when something is wrong. */
TF_CAPI_EXPORT extern TF_Operation *TF_FinishOperation(TF_OperationDescription *desc,
                                                       TF_Status *status);

/* ---- Looking at an operation ---- */
TF_CAPI_EXPORT extern const char *TF_OperationName(TF_Operation *oper);
TF_CAPI_EXPORT extern const char *TF_OperationOpType(TF_Operation *oper);
TF_CAPI_EXPORT extern const char *TF_OperationDevice(TF_Operation *oper);
TF_CAPI_EXPORT extern int TF_OperationNumOutputs(TF_Operation *oper);
TF_CAPI_EXPORT extern TF_DataType TF_OperationOutputType(TF_Output oper_out);
/* How many values a declared output stands for; -1 with an error. */
TF_CAPI_EXPORT extern int TF_OperationOutputListLength(TF_Operation *oper, const char *arg_name,
                                                       TF_Status *status);
TF_CAPI_EXPORT extern int TF_OperationNumInputs(TF_Operation *oper);
TF_CAPI_EXPORT extern TF_DataType TF_OperationInputType(TF_Input oper_in);
TF_CAPI_EXPORT extern int TF_OperationInputListLength(TF_Operation *oper, const char *arg_name,
                                                      TF_Status *status);
/* What feeds an input. */
TF_CAPI_EXPORT extern TF_Output TF_OperationInput(TF_Input oper_in);
TF_CAPI_EXPORT extern void TF_OperationAllInputs(TF_Operation *oper, TF_Output *inputs,
                                                 int max_inputs);
/* Who reads an output now; operations that are added later are not in the answer. The functions
 * that fill an array return how many there are, which may be less than its size or more. */
TF_CAPI_EXPORT extern int TF_OperationOutputNumConsumers(TF_Output oper_out);
TF_CAPI_EXPORT extern int TF_OperationOutputConsumers(TF_Output oper_out, TF_Input *consumers,
                                                      int max_consumers);
TF_CAPI_EXPORT extern int TF_OperationNumControlInputs(TF_Operation *oper);
TF_CAPI_EXPORT extern int TF_OperationGetControlInputs(TF_Operation *oper,
                                                       TF_Operation **control_inputs,
                                                       int max_control_inputs);
TF_CAPI_EXPORT extern int TF_OperationNumControlOutputs(TF_Operation *oper);
TF_CAPI_EXPORT extern int TF_OperationGetControlOutputs(TF_Operation *oper,
                                                        TF_Operation **control_outputs,
                                                        int max_control_outputs);

/* What room an attribute's value needs. */
typedef struct TF_AttrMetadata {
  unsigned char is_list;
  int64_t list_size; /* -1 when it is no list */
  TF_AttrType type;  /* of the value, or of the list's items */
  /* Bytes of a string or of all strings of a list; dimensions of a shape (-1: unknown rank) or of
   * all shapes of a list; -1 for other types. */
  int64_t total_size;
} TF_AttrMetadata;

TF_CAPI_EXPORT extern TF_AttrMetadata
TF_OperationGetAttrMetadata(TF_Operation *oper, const char *attr_name, TF_Status *status);
/* Copies at most `max_length` bytes; no NUL is added. */
TF_CAPI_EXPORT extern void TF_OperationGetAttrString(TF_Operation *oper, const char *attr_name,
                                                     void *value, size_t max_length,
                                                     TF_Status *status);
/* values[i] points into `storage`, which needs total_size bytes. */
TF_CAPI_EXPORT extern void TF_OperationGetAttrStringList(TF_Operation *oper, const char *attr_name,
                                                         void **values, size_t *lengths,
                                                         int max_values, void *storage,
                                                         size_t storage_size, TF_Status *status);
TF_CAPI_EXPORT extern void TF_OperationGetAttrInt(TF_Operation *oper, const char *attr_name,
                                                  int64_t *value, TF_Status *status);
TF_CAPI_EXPORT extern void TF_OperationGetAttrIntList(TF_Operation *oper, const char *attr_name,
                                                      int64_t *values, int max_values,
                                                      TF_Status *status);
TF_CAPI_EXPORT extern void TF_OperationGetAttrFloat(TF_Operation *oper, const char *attr_name,
                                                    float *value, TF_Status *status);
TF_CAPI_EXPORT extern void TF_OperationGetAttrFloatList(TF_Operation *oper, const char *attr_name,
                                                        float *values, int max_values,
                                                        TF_Status *status);
TF_CAPI_EXPORT extern void TF_OperationGetAttrBool(TF_Operation *oper, const char *attr_name,
                                                   unsigned char *value, TF_Status *status);
TF_CAPI_EXPORT extern void TF_OperationGetAttrBoolList(TF_Operation *oper, const char *attr_name,
                                                       unsigned char *values, int max_values,
                                                       TF_Status *status);
TF_CAPI_EXPORT extern void TF_OperationGetAttrType(TF_Operation *oper, const char *attr_name,
                                                   TF_DataType *value, TF_Status *status);
TF_CAPI_EXPORT extern void TF_OperationGetAttrTypeList(TF_Operation *oper, const char *attr_name,
                                                       TF_DataType *values, int max_values,
                                                       TF_Status *status);
TF_CAPI_EXPORT extern void TF_OperationGetAttrShape(TF_Operation *oper, const char *attr_name,
                                                    int64_t *value, int num_dims,
                                                    TF_Status *status);
/* dims[i] points into `storage`, which needs total_size numbers. */
TF_CAPI_EXPORT extern void TF_OperationGetAttrShapeList(TF_Operation *oper, const char *attr_name,
                                                        int64_t **dims, int *num_dims,
                                                        int num_shapes, int64_t *storage,
                                                        int storage_size, TF_Status *status);
TF_CAPI_EXPORT extern void TF_OperationGetAttrTensorShapeProto(TF_Operation *oper,
                                                               const char *attr_name,
                                                               TF_Buffer *value, TF_Status *status);
/* Makes the buffers; the caller deletes them. */
TF_CAPI_EXPORT extern void
TF_OperationGetAttrTensorShapeProtoList(TF_Operation *oper, const char *attr_name,
                                        TF_Buffer **values, int max_values, TF_Status *status);
/* The caller deletes the tensors. */
TF_CAPI_EXPORT extern void TF_OperationGetAttrTensor(TF_Operation *oper, const char *attr_name,
                                                     TF_Tensor **value, TF_Status *status);
TF_CAPI_EXPORT extern void TF_OperationGetAttrTensorList(TF_Operation *oper, const char *attr_name,
                                                         TF_Tensor **values, int max_values,
                                                         TF_Status *status);
TF_CAPI_EXPORT extern void TF_OperationGetAttrValueProto(TF_Operation *oper, const char *attr_name,
                                                         TF_Buffer *output_attr_value,
                                                         TF_Status *status);
TF_CAPI_EXPORT extern int TF_OperationGetNumAttrs(TF_Operation *oper);
TF_CAPI_EXPORT extern int TF_OperationGetAttrNameLength(TF_Operation *oper, int i);
/* `output` needs room for that length; no NUL is added. */
TF_CAPI_EXPORT extern void TF_OperationGetAttrName(TF_Operation *oper, int i, char *output,
                                                   TF_Status *status);
TF_CAPI_EXPORT extern void TF_OperationToNodeDef(TF_Operation *oper, TF_Buffer *output_node_def,
                                                 TF_Status *status);

/* ---- Looking at a graph ---- */
/* NULL when there is none. */
TF_CAPI_EXPORT extern TF_Operation *TF_GraphOperationByName(TF_Graph *graph, const char *oper_name);
/* size_t pos = 0; TF_Operation *oper; while ((oper = TF_GraphNextOperation(graph, &pos))) ... */
TF_CAPI_EXPORT extern TF_Operation *TF_GraphNextOperation(TF_Graph *graph, size_t *pos);
TF_CAPI_EXPORT extern void TF_GraphToGraphDef(TF_Graph *graph, TF_Buffer *output_graph_def,
                                              TF_Status *status);
/* Of an op or of a function of the graph. */
TF_CAPI_EXPORT extern void TF_GraphGetOpDef(TF_Graph *graph, const char *op_name,
                                            TF_Buffer *output_op_def, TF_Status *status);
TF_CAPI_EXPORT extern void TF_GraphVersions(TF_Graph *graph, TF_Buffer *output_version_def,
                                            TF_Status *status);

/* ---- Importing a GraphDef ---- */
typedef struct TF_ImportGraphDefOptions TF_ImportGraphDefOptions;
typedef struct TF_ImportGraphDefResults TF_ImportGraphDefResults;

TF_CAPI_EXPORT extern TF_ImportGraphDefOptions *TF_NewImportGraphDefOptions(void);
TF_CAPI_EXPORT extern void TF_DeleteImportGraphDefOptions(TF_ImportGraphDefOptions *opts);
/* Nodes are then called "prefix/name". */
TF_CAPI_EXPORT extern void TF_ImportGraphDefOptionsSetPrefix(TF_ImportGraphDefOptions *opts,
                                                             const char *prefix);
/* For nodes that name no device. */
TF_CAPI_EXPORT extern void TF_ImportGraphDefOptionsSetDefaultDevice(TF_ImportGraphDefOptions *opts,
                                                                    const char *device);
/* Whether names that exist already get a number instead of being refused. */
TF_CAPI_EXPORT extern void TF_ImportGraphDefOptionsSetUniquifyNames(TF_ImportGraphDefOptions *opts,
                                                                    unsigned char uniquify_names);
/* Whether a prefix that exists already gets one. */
TF_CAPI_EXPORT extern void TF_ImportGraphDefOptionsSetUniquifyPrefix(TF_ImportGraphDefOptions *opts,
                                                                     unsigned char uniquify_prefix);
/* Whoever reads src_name:src_index in the message reads `dst` of the graph instead. */
TF_CAPI_EXPORT extern void TF_ImportGraphDefOptionsAddInputMapping(TF_ImportGraphDefOptions *opts,
                                                                   const char *src_name,
                                                                   int src_index, TF_Output dst);
/* The same for control inputs. */
TF_CAPI_EXPORT extern void
TF_ImportGraphDefOptionsRemapControlDependency(TF_ImportGraphDefOptions *opts, const char *src_name,
                                               TF_Operation *dst);
/* Every imported node runs after `oper`. */
TF_CAPI_EXPORT extern void
TF_ImportGraphDefOptionsAddControlDependency(TF_ImportGraphDefOptions *opts, TF_Operation *oper);
/* What the results are asked for; names are those of the message. */
TF_CAPI_EXPORT extern void TF_ImportGraphDefOptionsAddReturnOutput(TF_ImportGraphDefOptions *opts,
                                                                   const char *oper_name,
                                                                   int index);
TF_CAPI_EXPORT extern int
TF_ImportGraphDefOptionsNumReturnOutputs(const TF_ImportGraphDefOptions *opts);
TF_CAPI_EXPORT extern void
TF_ImportGraphDefOptionsAddReturnOperation(TF_ImportGraphDefOptions *opts, const char *oper_name);
TF_CAPI_EXPORT extern int
TF_ImportGraphDefOptionsNumReturnOperations(const TF_ImportGraphDefOptions *opts);

/* The arrays belong to the results. */
TF_CAPI_EXPORT extern void TF_ImportGraphDefResultsReturnOutputs(TF_ImportGraphDefResults *results,
                                                                 int *num_outputs,
                                                                 TF_Output **outputs);
TF_CAPI_EXPORT extern void
TF_ImportGraphDefResultsReturnOperations(TF_ImportGraphDefResults *results, int *num_opers,
                                         TF_Operation ***opers);
/* Mapped inputs that nobody read and that the message does not have either. */
TF_CAPI_EXPORT extern void
TF_ImportGraphDefResultsMissingUnusedInputMappings(TF_ImportGraphDefResults *results,
                                                   int *num_missing_unused_input_mappings,
                                                   const char ***src_names, int **src_indexes);
TF_CAPI_EXPORT extern void TF_DeleteImportGraphDefResults(TF_ImportGraphDefResults *results);

/* On error the graph is as before, and the result NULL. */
TF_CAPI_EXPORT extern TF_ImportGraphDefResults *
TF_GraphImportGraphDefWithResults(TF_Graph *graph, const TF_Buffer *graph_def,
                                  const TF_ImportGraphDefOptions *options, TF_Status *status);
/* `num_return_outputs` must be as many as were asked for. */
TF_CAPI_EXPORT extern void TF_GraphImportGraphDefWithReturnOutputs(
    TF_Graph *graph, const TF_Buffer *graph_def, const TF_ImportGraphDefOptions *options,
    TF_Output *return_outputs, int num_return_outputs, TF_Status *status);
TF_CAPI_EXPORT extern void TF_GraphImportGraphDef(TF_Graph *graph, const TF_Buffer *graph_def,
                                                  const TF_ImportGraphDefOptions *options,
                                                  TF_Status *status);

/* ---- While loops ----
 * TF_NewWhile gives two graphs to fill: one that computes, from cond_inputs, whether to go on, and
 * one that computes, from body_inputs, the next values. Set cond_output, all body_outputs and, if
 * you like, `name`; then TF_FinishWhile adds the loop to the graph, or TF_AbortWhile gives up.
 * Either ends both graphs. What the loop needs from outside comes in as an input. */
typedef struct TF_WhileParams {
  const int ninputs;
  TF_Graph *const cond_graph;
  const TF_Output *const cond_inputs;
  TF_Output cond_output; /* a scalar of TF_BOOL */
  TF_Graph *const body_graph;
  const TF_Output *const body_inputs;
  TF_Output *const body_outputs;
  const char *name; /* of the loop; unique in the graph */
} TF_WhileParams;

TF_CAPI_EXPORT extern TF_WhileParams TF_NewWhile(TF_Graph *g, TF_Output *inputs, int ninputs,
                                                 TF_Status *status);
/* `outputs` has room for ninputs values. */
TF_CAPI_EXPORT extern void TF_FinishWhile(const TF_WhileParams *params, TF_Status *status,
                                          TF_Output *outputs);
TF_CAPI_EXPORT extern void TF_AbortWhile(const TF_WhileParams *params);

/* ---- Gradients ---- */
/* Adds operations that compute, for each of `x`, the sum over all `y` of its partial derivatives.
 * `dx` are the gradients that arrive at the ys; NULL stands for ones. dy[i].oper is NULL when no y
 * depends on x[i]. On error the graph is as before. The operations' names begin with "gradients/",
 * or with `prefix`, which must not be in use. */
TF_CAPI_EXPORT extern void TF_AddGradients(TF_Graph *g, TF_Output *y, int ny, TF_Output *x, int nx,
                                           TF_Output *dx, TF_Status *status, TF_Output *dy);
TF_CAPI_EXPORT extern void TF_AddGradientsWithPrefix(TF_Graph *g, const char *prefix, TF_Output *y,
                                                     int ny, TF_Output *x, int nx, TF_Output *dx,
                                                     TF_Status *status, TF_Output *dy);

/* ---- Functions ---- */
typedef struct TF_Function TF_Function;
typedef struct TF_FunctionOptions TF_FunctionOptions; /* there are none: always NULL */

/* A function of a part of a graph: `opers` (num_opers -1: every operation but the sources of
 * `inputs`) is its body, the values `inputs` its arguments, `outputs` its results. Names of results
 * come from `output_names`, or from their operations when that is NULL. With
 * `append_hash_to_fn_name` the name says what the function computes. The graph stays as it is. */
TF_CAPI_EXPORT extern TF_Function *
TF_GraphToFunction(const TF_Graph *fn_body, const char *fn_name,
                   unsigned char append_hash_to_fn_name, int num_opers,
                   const TF_Operation *const *opers, int ninputs, const TF_Output *inputs,
                   int noutputs, const TF_Output *outputs, const char *const *output_names,
                   const TF_FunctionOptions *opts, const char *description, TF_Status *status);
/* The same, with operations that run even when no result needs them. */
TF_CAPI_EXPORT extern TF_Function *TF_GraphToFunctionWithControlOutputs(
    const TF_Graph *fn_body, const char *fn_name, unsigned char append_hash_to_fn_name,
    int num_opers, const TF_Operation *const *opers, int ninputs, const TF_Output *inputs,
    int noutputs, const TF_Output *outputs, const char *const *output_names, int ncontrol_outputs,
    const TF_Operation *const *control_outputs, const char *const *control_output_names,
    const TF_FunctionOptions *opts, const char *description, TF_Status *status);
/* Lives as long as the function. */
TF_CAPI_EXPORT extern const char *TF_FunctionName(TF_Function *func);
TF_CAPI_EXPORT extern void TF_FunctionToFunctionDef(TF_Function *func, TF_Buffer *output_func_def,
                                                    TF_Status *status);
TF_CAPI_EXPORT extern TF_Function *TF_FunctionImportFunctionDef(const void *proto, size_t proto_len,
                                                                TF_Status *status);
TF_CAPI_EXPORT extern void TF_FunctionSetAttrValueProto(TF_Function *func, const char *attr_name,
                                                        const void *proto, size_t proto_len,
                                                        TF_Status *status);
TF_CAPI_EXPORT extern void TF_FunctionGetAttrValueProto(TF_Function *func, const char *attr_name,
                                                        TF_Buffer *output_attr_value,
                                                        TF_Status *status);
TF_CAPI_EXPORT extern void TF_DeleteFunction(TF_Function *func);
/* Adds a copy of the function, and of `grad` (or NULL) as its gradient, to the graph, in which an
 * operation of the function's name then calls it. One that is there already must be the same. */
TF_CAPI_EXPORT extern void TF_GraphCopyFunction(TF_Graph *g, const TF_Function *func,
                                                const TF_Function *grad, TF_Status *status);
TF_CAPI_EXPORT extern int TF_GraphNumFunctions(TF_Graph *g);
/* Returns how many were set; the caller deletes them. */
TF_CAPI_EXPORT extern int TF_GraphGetFunctions(TF_Graph *g, TF_Function **funcs, int max_func,
                                               TF_Status *status);

/* The value of an output that depends on nothing but constants: 1 and the tensor, which the caller
 * deletes. 0 and NULL when it does not, or (with an error) could not be computed. */
TF_CAPI_EXPORT extern unsigned char TF_TryEvaluateConstant(TF_Graph *graph, TF_Output output,
                                                           TF_Tensor **result, TF_Status *status);

/* ---- Sessions ---- */
typedef struct TF_Session TF_Session;

/* Operations may be added to the graph later too: a run sends what is new first. */
TF_CAPI_EXPORT extern TF_Session *TF_NewSession(TF_Graph *graph, const TF_SessionOptions *opts,
                                                TF_Status *status);
/* A session over the SavedModel in the folder `export_dir` that has exactly these tags: its graph
 * is read into `graph` (which must be empty), its variables are restored, its initializer has run.
 * `meta_graph_def` (or NULL) gets the serialized MetaGraphDef. */
TF_CAPI_EXPORT extern TF_Session *
TF_LoadSessionFromSavedModel(const TF_SessionOptions *session_options, const TF_Buffer *run_options,
                             const char *export_dir, const char *const *tags, int tags_len,
                             TF_Graph *graph, TF_Buffer *meta_graph_def, TF_Status *status);
/* Empties resource containers ("" is the default one; none at all means every one) of the target's
 * sessions, and closes those. */
TF_CAPI_EXPORT extern void TF_Reset(const TF_SessionOptions *opt, const char **containers,
                                    int ncontainers, TF_Status *status);
/* Steps that run are cancelled; later ones are refused. */
TF_CAPI_EXPORT extern void TF_CloseSession(TF_Session *session, TF_Status *status);
/* Nothing may use the session any more. */
TF_CAPI_EXPORT extern void TF_DeleteSession(TF_Session *session, TF_Status *status);

/* One step: feeds `inputs`, runs `target_opers` and what they need, returns `outputs`. The caller
 * keeps the input tensors and gets the output tensors (all NULL after an error). `run_options` (a
 * serialized RunOptions) and `run_metadata` (empty; filled with a RunMetadata) may be NULL. */
TF_CAPI_EXPORT extern void TF_SessionRun(TF_Session *session, const TF_Buffer *run_options,
                                         const TF_Output *inputs, TF_Tensor *const *input_values,
                                         int ninputs, const TF_Output *outputs,
                                         TF_Tensor **output_values, int noutputs,
                                         const TF_Operation *const *target_opers, int ntargets,
                                         TF_Buffer *run_metadata, TF_Status *status);

/* A step in several calls: the setup names everything that will be fed and fetched, each call does
 * a part of it. The handle is deleted by TF_DeletePRunHandle. */
TF_CAPI_EXPORT extern void TF_SessionPRunSetup(TF_Session *session, const TF_Output *inputs,
                                               int ninputs, const TF_Output *outputs, int noutputs,
                                               const TF_Operation *const *target_opers,
                                               int ntargets, const char **handle,
                                               TF_Status *status);
TF_CAPI_EXPORT extern void TF_SessionPRun(TF_Session *session, const char *handle,
                                          const TF_Output *inputs, TF_Tensor *const *input_values,
                                          int ninputs, const TF_Output *outputs,
                                          TF_Tensor **output_values, int noutputs,
                                          const TF_Operation *const *target_opers, int ntargets,
                                          TF_Status *status);
TF_CAPI_EXPORT extern void TF_DeletePRunHandle(const char *handle);

/* ---- Devices of a session ---- */
typedef struct TF_DeviceList TF_DeviceList;

TF_CAPI_EXPORT extern TF_DeviceList *TF_SessionListDevices(TF_Session *session, TF_Status *status);
TF_CAPI_EXPORT extern void TF_DeleteDeviceList(TF_DeviceList *list);
TF_CAPI_EXPORT extern int TF_DeviceListCount(const TF_DeviceList *list);
TF_CAPI_EXPORT extern const char *TF_DeviceListName(const TF_DeviceList *list, int index,
                                                    TF_Status *status);
TF_CAPI_EXPORT extern const char *TF_DeviceListType(const TF_DeviceList *list, int index,
                                                    TF_Status *status);
TF_CAPI_EXPORT extern int64_t TF_DeviceListMemoryBytes(const TF_DeviceList *list, int index,
                                                       TF_Status *status);
TF_CAPI_EXPORT extern uint64_t TF_DeviceListIncarnation(const TF_DeviceList *list, int index,
                                                        TF_Status *status);

/* ---- The session API of before there were graphs ----
 * A session with a graph of its own. Outputs are named "operation:index". See the functions above
 * whose names have Session in them. */
typedef struct TF_DeprecatedSession TF_DeprecatedSession;

TF_CAPI_EXPORT extern TF_DeprecatedSession *
TF_NewDeprecatedSession(const TF_SessionOptions *options, TF_Status *status);
TF_CAPI_EXPORT extern void TF_CloseDeprecatedSession(TF_DeprecatedSession *session,
                                                     TF_Status *status);
TF_CAPI_EXPORT extern void TF_DeleteDeprecatedSession(TF_DeprecatedSession *session,
                                                      TF_Status *status);
TF_CAPI_EXPORT extern TF_DeviceList *TF_DeprecatedSessionListDevices(TF_DeprecatedSession *session,
                                                                     TF_Status *status);
/* Adds the nodes of a serialized GraphDef. */
TF_CAPI_EXPORT extern void TF_ExtendGraph(TF_DeprecatedSession *session, const void *proto,
                                          size_t proto_len, TF_Status *status);
TF_CAPI_EXPORT extern void TF_Run(TF_DeprecatedSession *session, const TF_Buffer *run_options,
                                  const char **input_names, TF_Tensor **inputs, int ninputs,
                                  const char **output_names, TF_Tensor **outputs, int noutputs,
                                  const char **target_oper_names, int ntargets,
                                  TF_Buffer *run_metadata, TF_Status *status);
TF_CAPI_EXPORT extern void TF_PRunSetup(TF_DeprecatedSession *session, const char **input_names,
                                        int ninputs, const char **output_names, int noutputs,
                                        const char **target_oper_names, int ntargets,
                                        const char **handle, TF_Status *status);
TF_CAPI_EXPORT extern void TF_PRun(TF_DeprecatedSession *session, const char *handle,
                                   const char **input_names, TF_Tensor **inputs, int ninputs,
                                   const char **output_names, TF_Tensor **outputs, int noutputs,
                                   const char **target_oper_names, int ntargets, TF_Status *status);

/* ---- Ops ---- */
typedef struct TF_Library TF_Library;

/* Libraries of custom ops cannot be loaded: always UNIMPLEMENTED and NULL. */
TF_CAPI_EXPORT extern TF_Library *TF_LoadLibrary(const char *library_filename, TF_Status *status);
TF_CAPI_EXPORT extern TF_Buffer TF_GetOpList(TF_Library *lib_handle);
TF_CAPI_EXPORT extern void TF_DeleteLibraryHandle(TF_Library *lib_handle);
/* A serialized OpList of everything that graphs may hold. */
TF_CAPI_EXPORT extern TF_Buffer *TF_GetAllOpList(void);
/* A serialized KernelList of what this process can run, of all ops or of one. */
TF_CAPI_EXPORT extern TF_Buffer *TF_GetAllRegisteredKernels(TF_Status *status);
TF_CAPI_EXPORT extern TF_Buffer *TF_GetRegisteredKernelsForOp(const char *name, TF_Status *status);

/* ---- Servers ----
 * One task of a cluster in this process. It answers from TF_ServerStart to TF_ServerStop. */
typedef struct TF_Server TF_Server;

/* A serialized ServerDef: the cluster, and which of its tasks this is. The port is bound at once;
 * with port 0 in the cluster it is a free one. */
TF_CAPI_EXPORT extern TF_Server *TF_NewServer(const void *proto, size_t proto_len,
                                              TF_Status *status);
TF_CAPI_EXPORT extern void TF_ServerStart(TF_Server *server, TF_Status *status);
/* Calls in flight get two seconds to end. A server that was stopped cannot be started again. */
TF_CAPI_EXPORT extern void TF_ServerStop(TF_Server *server, TF_Status *status);
/* Waits until the server has been stopped. */
TF_CAPI_EXPORT extern void TF_ServerJoin(TF_Server *server, TF_Status *status);
/* For TF_SetTarget; lives as long as the server. */
TF_CAPI_EXPORT extern const char *TF_ServerTarget(TF_Server *server);
/* Stops it if it runs. Nobody may wait for it any more. */
TF_CAPI_EXPORT extern void TF_DeleteServer(TF_Server *server);

#ifdef __cplusplus
}
#endif

#endif
