/* The gradients of Einsum, which are Einsums again: those of "ab,bc->ac" are "ac,bc->ab" and
 * "ab,ac->bc".
 *
 * A label that only one operand has was summed over, so the gradient is repeated along it. "..."
 * stands for dimensions that are broadcast; it is the one label '.' here. The gradient is summed
 * over the broadcast dimensions that an operand does not have. */
#include "client/gradient_internal.h"

#include <stdio.h>
#include <string.h>

enum { MOST_LABELS = 64 };
typedef char labels[MOST_LABELS];

/* Labels of the operands and of the result, in the order of the equation. */
typedef struct equation {
  labels operands[2];
  labels result;
  int count;
} equation;

static void append(labels to, char label) {
  size_t length = strlen(to);
  if (length + 1 < MOST_LABELS)
    to[length] = label, to[length + 1] = 0;
}

static bool has(const char *text, char label) {
  return strchr(text, label) != NULL;
}

/* False for more than two operands, which the op does not take. */
static bool parse(const char *text, equation *out) {
  char *part = out->operands[0];
  *out = (equation){.count = 1};
  for (; *text; text++) {
    if (*text == ',' && out->count == 2)
      return false;
    if (*text == ',')
      part = out->operands[out->count++];
    else if (strncmp(text, "->", 2) == 0)
      part = out->result, text++;
    else if (*text == '.' && !has(part, '.'))
      append(part, '.');
    else if (*text != ' ' && *text != '.')
      append(part, *text);
  }
  /* An operand without "..." has zero such dimensions. */
  for (int i = 0; i < out->count && has(out->result, '.'); i++)
    if (!has(out->operands[i], '.'))
      append(out->operands[i], '.');
  return true;
}

/* ---- Equations as text ---- */

/* Writes each label, and "..." for '.'. The text is at most 2 characters longer than `from`. */
static char *write_labels(char *to, const char *from) {
  for (; *from; from++)
    if (*from == '.')
      to = stpcpy(to, "...");
    else
      *to++ = *from;
  *to = 0;
  return to;
}

static TF_Output sum_product(dp_scope *s, const char *a, TF_Output x, const char *b, TF_Output y,
                             const char *result) {
  char text[4 * MOST_LABELS], *end = write_labels(text, a);
  TF_Output factors[] = {x, y};
  if (b)
    end = write_labels(stpcpy(end, ","), b);
  write_labels(stpcpy(end, "->"), result);
  return dp_einsum(s, ((dp_outputs){factors, b ? 2 : 1}), text);
}

/* ---- Labels that were summed over ---- */

/* The place of a label; negative, counted from the end, if it stands behind "...". */
static int64_t place_of(const char *operand, char label) {
  const char *at = strchr(operand, label), *dots = strchr(operand, '.');
  return dots && dots < at ? (at - operand) - (int64_t)strlen(operand) : at - operand;
}

/* Repeats `value` along the labels of `lost`, which become its first dimensions. `shape` is that of
 * the operand and has their sizes. */
static TF_Output repeat(dp_scope *s, const char *operand, const char *lost, TF_Output shape,
                        TF_Output value) {
  int64_t places[MOST_LABELS];
  int count = (int)strlen(lost);
  for (int i = 0; i < count; i++)
    places[i] = place_of(operand, lost[i]);
  TF_Output axes =
      dp_floor_mod(s, dp_const_vector(s, ((dp_ints){places, count})), dp_size(s, shape));
  TF_Output wide =
      dp_concat_v2(s, DP_OUTPUTS(dp_gather(s, shape, axes), shape_of(s, value)), integer(s, 0));
  return dp_broadcast_to(s, value, wide);
}

/* Brings `value` from the labels `kept` to the labels of `operand`. */
static TF_Output widen(dp_scope *s, const char *operand, const char *kept, TF_Output shape,
                       TF_Output value) {
  labels lost = "", all;
  for (const char *at = operand; *at; at++)
    if (!has(kept, *at) && !has(lost, *at))
      append(lost, *at);
  if (*lost)
    value = repeat(s, operand, lost, shape, value);
  snprintf(all, sizeof(all), "%.30s%.30s", lost, kept);
  return strcmp(all, operand) == 0 ? value : sum_product(s, all, value, NULL, value, operand);
}

/* ---- Dimensions that were broadcast ---- */

/* The sizes of the dimensions that "..." stands for in an operand. */
static TF_Output dots_of(dp_scope *s, const char *operand, TF_Output shape) {
  int64_t before = strchr(operand, '.') - operand, behind = (int64_t)strlen(operand) - before - 1;
  return dp_strided_slice(s, shape, dp_const_vector(s, DP_INTS(before)),
                          dp_const_vector(s, DP_INTS(-behind)), dp_const_vector(s, DP_INTS(1)),
                          .end_mask = behind == 0);
}

static TF_Output shrink(gradient_call *g, const equation *eq, int side, TF_Output value) {
  dp_scope *s = g->scope;
  const char *own = eq->operands[side], *other = eq->operands[!side];
  TF_Output shape = shape_of(s, input(g, side));
  TF_Output axes = dp_broadcast_gradient_args(s, dots_of(s, own, shape),
                                              dots_of(s, other, shape_of(s, input(g, !side))))
                       .r0;
  TF_Output before = integer(s, (int32_t)(strchr(own, '.') - own));
  return dp_reshape(s, dp_sum(s, value, dp_add(s, axes, before)), shape);
}

static TF_Output operand(gradient_call *g, const equation *eq, int side) {
  dp_scope *s = g->scope;
  const char *own = eq->operands[side], *other = eq->operands[!side];
  TF_Output shape = shape_of(s, input(g, side)), dy = above(g, 0);
  labels kept = "";
  if (eq->count == 1)
    return widen(s, own, eq->result, shape, dy);
  for (const char *at = own; *at; at++)
    if (has(eq->result, *at) || has(other, *at))
      append(kept, *at);
  TF_Output value = sum_product(s, eq->result, dy, other, conjugate(s, input(g, !side)), kept);
  value = widen(s, own, kept, shape, value);
  return has(eq->result, '.') ? shrink(g, eq, side, value) : value;
}

static void einsum(gradient_call *g) {
  equation eq;
  const char *text = string_attr(g, "equation");
  if (!parse(text, &eq)) {
    dp_scope_fail(g->scope, TF_INVALID_ARGUMENT, "The equation \"%s\" has more than two operands",
                  text);
    return;
  }
  for (int side = 0; side < eq.count; side++)
    GIVE(g, side, operand(g, &eq, side));
}

const gradient_row dp_gradient_einsum[] = {
    {"Einsum", einsum},
    {NULL, NULL},
};
