/* The gradient of Einsum, which is Einsum again: with "ab,bc->ac", "ac,bc->ab" and "ab,ac->bc". A
 * label that only one operand has was summed over: its gradient is the same along it. */
#include "client/gradient_internal.h"

#include <stdio.h>
#include <string.h>

/* Labels of an operand ('\0' ends them) in the order of the equation. */
typedef struct equation {
  char operands[2][32];
  char result[32];
  int count;
} equation;

static bool has_repeats(const char *labels) {
  for (; *labels; labels++)
    if (strchr(labels + 1, *labels))
      return true;
  return false;
}

/* False for what has no such simple gradient: "..." and labels that come twice in an operand. */
static bool parse(const char *text, equation *out) {
  char *part = out->operands[0];
  size_t length = 0;
  *out = (equation){.count = 1};
  for (; *text; text++) {
    if (*text == ' ')
      continue;
    if (*text == '.' || length + 2 > sizeof(out->result))
      return false;
    if (*text == ',' && out->count == 2)
      return false;
    if (*text == ',' || *text == '-') {
      part = *text == '-' ? out->result : out->operands[out->count++];
      text += *text == '-'; /* and the '>' behind it */
      length = 0;
      continue;
    }
    part[length++] = *text;
  }
  return !has_repeats(out->operands[0]) && !has_repeats(out->operands[1]) &&
         !has_repeats(out->result);
}

/* Puts back, by broadcasting, the dimensions whose labels nobody else has. */
static TF_Output widen(gradient_call *g, const char *labels, const char *kept, TF_Output value,
                       TF_Output like) {
  dp_scope *s = g->scope;
  int64_t is_kept[32], is_new[32];
  int rank = (int)strlen(labels);
  for (int i = 0; i < rank; i++) {
    is_kept[i] = strchr(kept, labels[i]) != NULL;
    is_new[i] = !is_kept[i];
  }
  TF_Output shape = shape_of(s, like);
  TF_Output thin = dp_add(s, dp_mul(s, shape, dp_const_vector(s, ((dp_ints){is_kept, rank}))),
                          dp_const_vector(s, ((dp_ints){is_new, rank})));
  return dp_broadcast_to(s, dp_reshape(s, value, thin), shape);
}

static TF_Output operand(gradient_call *g, const equation *eq, int side) {
  dp_scope *s = g->scope;
  const char *labels = eq->operands[side], *other = eq->count == 2 ? eq->operands[!side] : "";
  char kept[32] = "", text[128];
  for (const char *at = labels; *at; at++)
    if (strchr(eq->result, *at) || strchr(other, *at))
      strncat(kept, at, 1);
  snprintf(text, sizeof(text), "%s%s%s->%s", eq->result, eq->count == 2 ? "," : "", other, kept);
  TF_Output factors[] = {above(g, 0), {0}};
  if (eq->count == 2)
    factors[1] = conjugate(s, input(g, !side));
  TF_Output value = dp_einsum(s, ((dp_outputs){factors, eq->count}), text);
  return strcmp(kept, labels) == 0 ? value : widen(g, labels, kept, value, input(g, side));
}

static void einsum(gradient_call *g) {
  equation eq;
  const char *text = string_attr(g, "equation");
  if (!parse(text, &eq)) {
    dp_scope_fail(g->scope, TF_UNIMPLEMENTED, "The gradient of Einsum with the equation \"%s\"",
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
