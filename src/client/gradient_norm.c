/* Gradients of batch normalization, and the gradients of its gradient ops (second order).
 *
 * The second order is not written out as formulas. The result of the gradient op is built again
 * from simple ops, which read copies of its inputs, and the gradients of these ops are taken. */
#include "client/gradient_internal.h"

#include <string.h>

/* Mean and variance: in training the batch's own, which the forward op gave as outputs; else the
 * forward op's inputs. */
static TF_Output saved(gradient_call *g, int index) {
  return bool_attr(g, "is_training") ? output(g, 2 + index) : input(g, 2 + index);
}

#define NORM_OPTIONS(g)                                                                            \
  .epsilon = float_attr(g, "epsilon"), .data_format = string_attr(g, "data_format"),               \
  .is_training = bool_attr(g, "is_training")

static void batch_norm(gradient_call *g) {
  dp_fused_batch_norm_grad_outputs d = dp_fused_batch_norm_grad(
      g->scope, above(g, 0), input(g, 0), input(g, 1), saved(g, 1), saved(g, 2), NORM_OPTIONS(g));
  GIVE(g, 0, d.x_backprop);
  GIVE(g, 1, d.scale_backprop);
  GIVE(g, 2, d.offset_backprop);
}

static void batch_norm_v2(gradient_call *g) {
  dp_fused_batch_norm_grad_v2_outputs d = dp_fused_batch_norm_grad_v2(
      g->scope, above(g, 0), input(g, 0), input(g, 1), saved(g, 1), saved(g, 2), NORM_OPTIONS(g));
  GIVE(g, 0, d.x_backprop);
  GIVE(g, 1, d.scale_backprop);
  GIVE(g, 2, d.offset_backprop);
}

static void batch_norm_v3(gradient_call *g) {
  dp_fused_batch_norm_grad_v3_outputs d =
      dp_fused_batch_norm_grad_v3(g->scope, above(g, 0), input(g, 0), input(g, 1), saved(g, 1),
                                  saved(g, 2), output(g, 5), NORM_OPTIONS(g));
  GIVE(g, 0, d.x_backprop);
  GIVE(g, 1, d.scale_backprop);
  GIVE(g, 2, d.offset_backprop);
}

/* normalize(x, mean, variance, beta, gamma) */
static void batch_norm_v0(gradient_call *g) {
  dp_batch_norm_with_global_normalization_grad_outputs d =
      dp_batch_norm_with_global_normalization_grad(
          g->scope, input(g, 0), input(g, 1), input(g, 2), input(g, 4), above(g, 0),
          float_attr(g, "variance_epsilon"), bool_attr(g, "scale_after_normalization"));
  GIVE(g, 0, d.dx);
  GIVE(g, 1, d.dm);
  GIVE(g, 2, d.dv);
  GIVE(g, 3, d.db);
  GIVE(g, 4, d.dg);
}

/* ---- The second order ---- */

/* What the simple ops are built with. */
typedef struct norm_copy {
  dp_scope *scope;
  int rank;
  int64_t axes[8];   /* all axes but that of the channels */
  int64_t column[8]; /* the shape of one value per channel, for broadcasting: 1, -1, 1, 1 */
  TF_Output epsilon;
} norm_copy;

static norm_copy copy_of(gradient_call *g) {
  const char *format = string_attr(g, "data_format");
  norm_copy copy = {.scope = g->scope, .rank = (int)strlen(format)};
  for (int i = 0, next = 0; i < copy.rank && i < 8; i++) {
    copy.column[i] = format[i] == 'C' ? -1 : 1;
    if (format[i] != 'C')
      copy.axes[next++] = i;
  }
  copy.epsilon = dp_const_number(g->scope, TF_FLOAT, float_attr(g, "epsilon"));
  return copy;
}

static TF_Output axes(const norm_copy *c) {
  return dp_const_vector(c->scope, ((dp_ints){c->axes, c->rank - 1}));
}

static TF_Output mean(const norm_copy *c, TF_Output value) {
  return dp_mean(c->scope, value, axes(c), .keep_dims = true);
}

static TF_Output sum(const norm_copy *c, TF_Output value) {
  return dp_sum(c->scope, value, axes(c));
}

static TF_Output column(const norm_copy *c, TF_Output vector) {
  return dp_reshape(c->scope, vector, dp_const_vector(c->scope, ((dp_ints){c->column, c->rank})));
}

/* In training: the gradients of x, scale and offset. With d = x - mean and v = var + epsilon, that
 * of x is scale / sqrt(v) (dy - mean(dy) - d mean(dy d) / v). */
static void build_training(const norm_copy *c, TF_Output dy, TF_Output x, TF_Output scale,
                           TF_Output *outputs) {
  dp_scope *s = c->scope;
  TF_Output distance = dp_sub(s, x, mean(c, x));
  TF_Output variance = dp_add(s, mean(c, dp_square(s, distance)), c->epsilon);
  TF_Output root = dp_rsqrt(s, variance);
  TF_Output slope = dp_div(s, mean(c, dp_mul(s, dy, distance)), variance);
  TF_Output rest = dp_sub(s, dp_sub(s, dy, mean(c, dy)), dp_mul(s, distance, slope));
  outputs[0] = dp_mul(s, dp_mul(s, column(c, scale), root), rest);
  outputs[1] = sum(c, dp_mul(s, dp_mul(s, dy, distance), root));
  outputs[2] = sum(c, dy);
}

/* The same with a mean and a variance that do not depend on the batch. */
static void build_fixed(const norm_copy *c, TF_Output dy, TF_Output x, TF_Output scale,
                        const TF_Output *moments, TF_Output *outputs) {
  dp_scope *s = c->scope;
  TF_Output root = dp_rsqrt(s, dp_add(s, column(c, moments[1]), c->epsilon));
  TF_Output distance = dp_sub(s, x, column(c, moments[0]));
  outputs[0] = dp_mul(s, dy, dp_mul(s, column(c, scale), root));
  outputs[1] = sum(c, dp_mul(s, dp_mul(s, dy, distance), root));
  outputs[2] = sum(c, dy);
}

/* Inputs: dy, x, scale, and the moments, which get no gradient. */
static void batch_norm_again(gradient_call *g) {
  dp_scope *s = g->scope;
  norm_copy c = copy_of(g);
  TF_Output outputs[3], inputs[3];
  for (int i = 0; i < 3; i++)
    inputs[i] = dp_identity(s, input(g, i));
  TF_Output dy = dp_cast(s, inputs[0], TF_FLOAT), x = dp_cast(s, inputs[1], TF_FLOAT);
  TF_Output moments[] = {input(g, 3), input(g, 4)};
  if (bool_attr(g, "is_training"))
    build_training(&c, dy, x, inputs[2], outputs);
  else
    build_fixed(&c, dy, x, inputs[2], moments, outputs);
  outputs[0] = dp_cast(s, outputs[0], type_of(input(g, 1)));
  give_from_copy(g, 0, (dp_outputs){inputs, 3}, (dp_outputs){outputs, 3});
}

const gradient_row dp_gradient_norm[] = {
    {"BatchNormWithGlobalNormalization", batch_norm_v0},
    {"FusedBatchNorm", batch_norm},
    {"FusedBatchNormGrad", batch_norm_again},
    {"FusedBatchNormGradV2", batch_norm_again},
    {"FusedBatchNormGradV3", batch_norm_again},
    {"FusedBatchNormV2", batch_norm_v2},
    {"FusedBatchNormV3", batch_norm_v3},
    {NULL, NULL},
};
