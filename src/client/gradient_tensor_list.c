/* Gradients of tensor lists. The gradient of a list is a list of the same length, with one gradient
 * per element. So the gradient of pushing is popping, of getting an element setting it. */
#include "client/gradient_internal.h"

static TF_DataType element_type(gradient_call *g) {
  return type_attr(g, "element_dtype");
}

/* The shape of the elements, as the list itself knows it. */
static TF_Output element_shape(gradient_call *g, TF_Output list) {
  return dp_tensor_list_element_shape(g->scope, list, TF_INT32);
}

/* The shape of `tensor` without its first dimension. */
static TF_Output inner_shape(dp_scope *s, TF_Output tensor) {
  TF_Output one = dp_const_vector(s, DP_INTS(1));
  return dp_strided_slice(s, shape_of(s, tensor), one, dp_const_vector(s, DP_INTS(0)), one,
                          .end_mask = 1);
}

/* A list as long as input 0, whose elements are not set. */
static TF_Output same_length(gradient_call *g) {
  TF_Output list = input(g, 0);
  return dp_tensor_list_reserve(g->scope, element_shape(g, list),
                                dp_tensor_list_length(g->scope, list), element_type(g));
}

/* push(list, tensor) */
static void push_back(gradient_call *g) {
  dp_scope *s = g->scope;
  dp_tensor_list_pop_back_outputs popped =
      dp_tensor_list_pop_back(s, above(g, 0), shape_of(s, input(g, 1)), element_type(g));
  GIVE(g, 0, popped.output_handle);
  GIVE(g, 1, popped.tensor);
}

/* pop(list, shape): outputs the list and the tensor */
static void pop_back(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output rest = dp_gradient_exists(&g->above[0]) ? above(g, 0) : dp_zeros_like(s, output(g, 0));
  GIVE(g, 0, dp_tensor_list_push_back(s, rest, above(g, 1)));
}

static void stack(gradient_call *g) {
  dp_scope *s = g->scope;
  GIVE(g, 0, dp_tensor_list_from_tensor(s, above(g, 0), inner_shape(s, above(g, 0))));
}

static void from_tensor(gradient_call *g) {
  dp_scope *s = g->scope;
  GIVE(g, 0, dp_tensor_list_stack(s, above(g, 0), element_shape(g, output(g, 0)), element_type(g)));
}

/* get(list, index, shape): the gradient is a list in which only this element is set */
static void get_item(gradient_call *g) {
  GIVE(g, 0, dp_tensor_list_set_item(g->scope, same_length(g), input(g, 1), above(g, 0)));
}

/* set(list, index, item) */
static void set_item(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output item = input(g, 2);
  GIVE(g, 0, dp_tensor_list_set_item(s, above(g, 0), input(g, 1), dp_zeros_like(s, item)));
  GIVE(g, 2,
       dp_tensor_list_get_item(s, above(g, 0), input(g, 1), shape_of(s, item), element_type(g)));
}

/* concat(list, ...): outputs the tensor and the lengths */
static void concat(gradient_call *g) {
  dp_scope *s = g->scope;
  GIVE(g, 0, dp_tensor_list_split(s, above(g, 0), element_shape(g, input(g, 0)), output(g, 1)));
}

/* split(tensor, shape, lengths) */
static void split(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output shape = dp_concat_v2(
      s, DP_OUTPUTS(dp_const_vector(s, DP_INTS(-1)), inner_shape(s, input(g, 0))), integer(s, 0));
  GIVE(g, 0, dp_tensor_list_concat_v2(s, above(g, 0), shape, input(g, 2), element_type(g)).tensor);
}

static void resize(gradient_call *g) {
  dp_scope *s = g->scope;
  GIVE(g, 0, dp_tensor_list_resize(s, above(g, 0), dp_tensor_list_length(s, input(g, 0))));
}

/* gather(list, indices, shape) */
static void gather(gradient_call *g) {
  GIVE(g, 0,
       dp_tensor_list_scatter_into_existing_list(g->scope, same_length(g), above(g, 0),
                                                 input(g, 1)));
}

/* scatter(tensor, indices, shape, ...) */
static void scatter(gradient_call *g) {
  dp_scope *s = g->scope;
  GIVE(g, 0,
       dp_tensor_list_gather(s, above(g, 0), input(g, 1), inner_shape(s, input(g, 0)),
                             element_type(g)));
}

/* scatter(list, tensor, indices) */
static void scatter_into(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output tensor = input(g, 1), indices = input(g, 2);
  GIVE(
      g, 0,
      dp_tensor_list_scatter_into_existing_list(s, above(g, 0), dp_zeros_like(s, tensor), indices));
  GIVE(g, 1,
       dp_tensor_list_gather(s, above(g, 0), indices, inner_shape(s, tensor), element_type(g)));
}

const gradient_row dp_gradient_tensor_list[] = {
    {"TensorListConcat", concat},
    {"TensorListConcatV2", concat},
    {"TensorListFromTensor", from_tensor},
    {"TensorListGather", gather},
    {"TensorListGetItem", get_item},
    {"TensorListPopBack", pop_back},
    {"TensorListPushBack", push_back},
    {"TensorListResize", resize},
    {"TensorListScatter", scatter},
    {"TensorListScatterIntoExistingList", scatter_into},
    {"TensorListScatterV2", scatter},
    {"TensorListSetItem", set_item},
    {"TensorListSplit", split},
    {"TensorListStack", stack},
    {NULL, NULL},
};
