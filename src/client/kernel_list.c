/* TF_GetAllRegisteredKernels and TF_GetRegisteredKernelsForOp: the rows of the kernel tables as
 * KernelDef messages. Any thread may call; the buffer belongs to the caller. */
#include "client/client_internal.h"

#include "kernels/kernels.h"
#include "runtime/kernel.h"
#include "wire/kernel.pb-c.h"

enum { MOST_ROWS = 256 };

static Tensorflow__AttrValue *write_types(dp_dtype_set types, dp_arena *arena) {
  Tensorflow__AttrValue *value = dp_wire_new(arena, &tensorflow__attr_value__descriptor);
  Tensorflow__AttrValue__ListValue *list =
      dp_wire_new(arena, &tensorflow__attr_value__list_value__descriptor);
  list->type = DP_ARENA_ARRAY(arena, Tensorflow__DataType, DP_DTYPE_END);
  for (int dtype = 1; dtype < DP_DTYPE_END; dtype++)
    if (types & DP_DTYPE_BIT(dtype))
      list->type[list->n_type++] = (Tensorflow__DataType)dtype;
  value->value_case = TENSORFLOW__ATTR_VALUE__VALUE_LIST;
  value->list = list;
  return value;
}

static Tensorflow__KernelDef *write_kernel(const dp_kernel *kernel, dp_arena *arena) {
  Tensorflow__KernelDef *message = dp_wire_new(arena, &tensorflow__kernel_def__descriptor);
  message->op = (char *)kernel->op;
  message->device_type = "CPU";
  message->constraint = DP_ARENA_ARRAY(arena, Tensorflow__KernelDef__AttrConstraint *, 3);
  for (int i = 0; i < 3 && kernel->types[i].attr; i++) {
    if (kernel->types[i].types == DP_SET_ANY)
      continue;
    Tensorflow__KernelDef__AttrConstraint *constraint =
        dp_wire_new(arena, &tensorflow__kernel_def__attr_constraint__descriptor);
    constraint->name = (char *)kernel->types[i].attr;
    constraint->allowed_values = write_types(kernel->types[i].types, arena);
    message->constraint[message->n_constraint++] = constraint;
  }
  return message;
}

/* The kernels of one op; of all ops if `name` is NULL. */
static TF_Buffer *list_kernels(const char *name, TF_Status *status) {
  dp_arena *arena = dp_arena_create();
  Tensorflow__KernelList *list = dp_wire_new(arena, &tensorflow__kernel_list__descriptor);
  DP_ARRAY(Tensorflow__KernelDef *) kernels = {0};
  dp_kernels_register();
  for (size_t i = 0; i < (name ? 1 : dp_op_count()); i++) {
    const dp_kernel *rows[MOST_ROWS];
    size_t count = dp_kernel_rows(name ? name : dp_op_at(i)->name, rows, MOST_ROWS);
    for (size_t k = 0; k < count && k < MOST_ROWS; k++)
      DP_ARRAY_PUSH(&kernels, write_kernel(rows[k], arena));
  }
  list->kernel = kernels.items;
  list->n_kernel = kernels.count;
  TF_Buffer *buffer = TF_NewBuffer();
  dp_client_set_status(status, dp_client_pack(list, buffer));
  DP_ARRAY_FREE(&kernels);
  dp_arena_destroy(arena);
  return buffer;
}

TF_Buffer *TF_GetAllRegisteredKernels(TF_Status *status) {
  return list_kernels(NULL, status);
}

TF_Buffer *TF_GetRegisteredKernelsForOp(const char *name, TF_Status *status) {
  return list_kernels(name, status);
}
