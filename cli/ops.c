/* `downpour ops`: lists which ops have a kernel here, for which dtypes, and which have a gradient.
 * tools/list-ops makes docs/ops.md of it. */
#include <stdio.h>

#include "cli/command.h"
#include "client/gradient.h"
#include "graph/op.h"
#include "kernels/kernels.h"
#include "runtime/kernel.h"

enum { MOST_ROWS = 64 };

static const dp_option options_table[] = {
    {"missing", DP_OPTION_FLAG, NULL, NULL, "List the ops without a kernel instead.", 0, 0},
    {"gradients", DP_OPTION_FLAG, NULL, NULL,
     "Say for each op whether a gradient goes through it: yes, none, or missing.", 0, 0},
    {0},
};

static void print_types(dp_dtype_set types) {
  if (types == DP_SET_ANY) {
    printf("any");
    return;
  }
  const char *between = "";
  for (int dtype = 1; dtype < DP_DTYPE_END; dtype++) {
    if (!(types & DP_DTYPE_BIT(dtype)))
      continue;
    printf("%s%s", between, dp_dtype_name(dtype));
    between = ",";
  }
}

/* One line per kernel of the op: "AddV2  T=float,double". */
static void print_op(const char *name, const dp_kernel **rows, size_t count) {
  for (size_t i = 0; i < count; i++) {
    printf("%s", name);
    for (int k = 0; k < 3 && rows[i]->types[k].attr; k++) {
      printf("\t%s=", rows[i]->types[k].attr);
      print_types(rows[i]->types[k].types);
    }
    printf("\n");
  }
}

static void print_gradient(const char *name) {
  static const char *const words[] = {"missing", "none", "yes"};
  printf("%s\t%s\n", name, words[dp_gradient_kind_of(name)]);
}

static int list_ops(const dp_options *options) {
  bool missing = dp_options_flag(options, "missing");
  bool gradients = dp_options_flag(options, "gradients");
  dp_kernels_register();
  for (size_t i = 0; i < dp_op_count(); i++) {
    const char *name = dp_op_at(i)->name;
    const dp_kernel *rows[MOST_ROWS];
    size_t count = dp_kernel_rows(name, rows, MOST_ROWS);
    if (missing && count == 0)
      printf("%s\n", name);
    else if (!missing && gradients && count > 0)
      print_gradient(name);
    else if (!missing && !gradients)
      print_op(name, rows, count < MOST_ROWS ? count : MOST_ROWS);
  }
  return DP_EXIT_OK;
}

const dp_command dp_ops_command = {
    .name = "ops",
    .arguments = "[--missing | --gradients]",
    .summary = "List the ops that have a kernel here, with their dtypes.",
    .options = options_table,
    .run = list_ops,
};
