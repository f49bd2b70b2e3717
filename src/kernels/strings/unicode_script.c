/* UnicodeScript: the script that a code point belongs to, by ICU's numbers; -1 for what is no code
 * point. The table is what genuine TensorFlow answers (unicode_script.inc). */
#include "kernels/shared/family.h"

typedef struct script_run {
  int32_t start;
  int16_t script;
} script_run;

#include "kernels/strings/unicode_script.inc"

static int32_t find_script(int32_t point) {
  size_t begin = 0, end = sizeof runs / sizeof runs[0];
  if (point < 0 || point > 0x10ffff)
    return -1;
  while (end - begin > 1) {
    size_t middle = (begin + end) / 2;
    if (runs[middle].start <= point)
      begin = middle;
    else
      end = middle;
  }
  return runs[begin].script;
}

typedef struct script_call {
  const int32_t *from;
  int32_t *to;
} script_call;

static void script_range(void *arg, int64_t begin, int64_t end) {
  const script_call *call = arg;
  for (int64_t i = begin; i < end; ++i)
    call->to[i] = find_script(call->from[i]);
}

static dp_status *script_compute(dp_op_context *context, void *memory) {
  (void)memory;
  const dp_tensor *input = dp_op_input(context, 0);
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate_or_forward(context, 0, 0, &input->shape, &output));
  script_call call = {.from = input->data, .to = output->data};
  dp_op_for(context, input->shape.elements, 30, script_range, &call);
  return NULL;
}

static const dp_kernel rows[] = {{.op = "UnicodeScript", .compute = script_compute}};
DP_KERNEL_FAMILY(unicode_script, rows);
