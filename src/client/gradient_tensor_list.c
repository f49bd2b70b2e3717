/* Gradients of tensor lists: the gradient of a list is a list. */
#include "client/gradient_internal.h"

static TF_DataType element_type(gradient_call *g) {
  return type_attr(g, "element_dtype");
}

/* The shape of the elements, as the list itself knows it. */
static TF_Output element_shape(gradient_call *g, TF_Output list) {
  return dp_tensor_list_element_shape(g->scope, list, TF_INT32);
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
  TF_Output one = dp_const_vector(s, DP_INTS(1));
  TF_Output shape = dp_strided_slice(s, shape_of(s, above(g, 0)), one,
                                     dp_const_vector(s, DP_INTS(0)), one, .end_mask = 1);
  GIVE(g, 0, dp_tensor_list_from_tensor(s, above(g, 0), shape));
}

static void from_tensor(gradient_call *g) {
  dp_scope *s = g->scope;
  GIVE(g, 0, dp_tensor_list_stack(s, above(g, 0), element_shape(g, output(g, 0)), element_type(g)));
}

/* get(list, index, shape): a list of nothing but this element */
static void get_item(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output list = input(g, 0);
  TF_Output empty = dp_tensor_list_reserve(s, element_shape(g, list),
                                           dp_tensor_list_length(s, list), element_type(g));
  GIVE(g, 0, dp_tensor_list_set_item(s, empty, input(g, 1), above(g, 0)));
}

/* set(list, index, item) */
static void set_item(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output item = input(g, 2);
  GIVE(g, 0, dp_tensor_list_set_item(s, above(g, 0), input(g, 1), dp_zeros_like(s, item)));
  GIVE(g, 2,
       dp_tensor_list_get_item(s, above(g, 0), input(g, 1), shape_of(s, item), element_type(g)));
}

const gradient_row dp_gradient_tensor_list[] = {
    {"TensorListFromTensor", from_tensor},
    {"TensorListGetItem", get_item},
    {"TensorListPopBack", pop_back},
    {"TensorListPushBack", push_back},
    {"TensorListSetItem", set_item},
    {"TensorListStack", stack},
    {NULL, NULL},
};
