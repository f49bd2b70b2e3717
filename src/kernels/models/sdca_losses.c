/* The losses of SdcaOptimizer as a table: logistic, squared, hinge, smooth hinge, Poisson (contract
 * in sdca_internal.h). `update` gives the dual that maximizes the objective for one example;
 * logistic and Poisson find it by Newton's method. Pure functions. */
#include <float.h>
#include <math.h>
#include "kernels/models/sdca_internal.h"

#define NEWTON_STEPS 10

/* ---- Logistic ---- */
static double logistic_update(const dp_sdca_point *point) {
  double label = point->label, pull = point->norm * point->weight, x = 0;
  for (int i = 0; i < NEWTON_STEPS; ++i) {
    double t = tanh(x);
    double value =
        -2 * label * x - point->prediction - pull * (0.5 * (1 + t) / label - point->dual);
    double slope = -2 * label - pull * (1 - t * t) * 0.5 / label;
    x -= value / slope;
  }
  return 0.5 * (1 + tanh(x)) / label;
}

static double times_log(double x) {
  return x > 0 ? x * log(x) : 0;
}

static double logistic_dual(double dual, double label) {
  double a = dual * label;
  return times_log(a) + times_log(1 - a);
}

static double logistic_primal(double prediction, double label) {
  double margin = label * prediction;
  return margin > 0 ? log1p(exp(-margin)) : log1p(exp(margin)) - margin;
}

static double logistic_derivative(double prediction, double label) {
  double margin = label * prediction, e = exp(-fabs(margin));
  return -label * (margin > 0 ? e : 1) / (1 + e);
}

/* ---- Squared ---- */
static double squared_update(const dp_sdca_point *point) {
  return point->dual +
         (point->label - point->dual - point->prediction) / (1 + point->norm * point->weight);
}

static double squared_dual(double dual, double label) {
  return dual * (0.5 * dual - label);
}

static double squared_primal(double prediction, double label) {
  return (prediction - label) * (prediction - label) * 0.5;
}

static double squared_derivative(double prediction, double label) {
  return prediction - label;
}

/* ---- Hinge, and hinge with a round corner ---- */
/* A dual has the label's sign and is at most 1. */
static double within(double dual, double label) {
  return label * dual < 0 ? 0 : label * dual > 1 ? label : dual;
}

static double hinge_update(const dp_sdca_point *point) {
  double change = (point->label - point->prediction) / (point->norm * point->weight);
  return within(point->dual + change, point->label);
}

static double hinge_dual(double dual, double label) {
  double a = dual * label;
  return a < 0 || a > 1 ? DBL_MAX : -a;
}

static double hinge_primal(double prediction, double label) {
  return fmax(0, 1 - label * prediction);
}

static double hinge_derivative(double prediction, double label) {
  return label * prediction < 1 ? -label : 0;
}

static double smooth_update(const dp_sdca_point *point) {
  double change =
      (point->label - point->prediction - point->dual) / (point->norm * point->weight + 1);
  return within(point->dual + change, point->label);
}

static double smooth_dual(double dual, double label) {
  double a = dual * label;
  return a < 0 || a > 1 ? DBL_MAX : -a + 0.5 * dual * dual;
}

static double smooth_primal(double prediction, double label) {
  double margin = label * prediction;
  return margin >= 1 ? 0 : margin <= 0 ? 0.5 - margin : (1 - margin) * (1 - margin) * 0.5;
}

static double smooth_derivative(double prediction, double label) {
  double margin = label * prediction;
  return margin >= 1 ? 0 : margin <= 0 ? -label : prediction - label;
}

/* ---- Poisson ---- */
static double poisson_update(const dp_sdca_point *point) {
  double rest = point->label - point->dual, pull = point->norm * point->weight;
  double x = rest > 0 ? log(rest) : 0;
  for (int i = 0; i < NEWTON_STEPS; ++i) {
    double e = exp(x);
    x -= (x - point->prediction - pull * (rest - e)) / (1 + pull * e);
  }
  return point->label - exp(x);
}

static double poisson_dual(double dual, double label) {
  double rest = label - dual;
  return rest == 0 ? 0 : rest < 0 ? DBL_MAX : rest * (log(rest) - 1);
}

static double poisson_primal(double prediction, double label) {
  return exp(prediction) - prediction * label;
}

static double poisson_derivative(double prediction, double label) {
  return exp(prediction) - label;
}

/* ---- The table ---- */
static const dp_sdca_loss losses[] = {
    {"logistic_loss", logistic_update, logistic_dual, logistic_primal, logistic_derivative, 4,
     .is_binary = true},
    {"squared_loss", squared_update, squared_dual, squared_primal, squared_derivative, 1},
    {"hinge_loss", hinge_update, hinge_dual, hinge_primal, hinge_derivative, 0, .is_binary = true},
    {"smooth_hinge_loss", smooth_update, smooth_dual, smooth_primal, smooth_derivative, 1,
     .is_binary = true},
    {"poisson_loss", poisson_update, poisson_dual, poisson_primal, poisson_derivative, 1,
     .is_count = true},
};

const dp_sdca_loss *dp_sdca_loss_find(dp_view name) {
  for (size_t i = 0; i < sizeof losses / sizeof losses[0]; ++i)
    if (dp_view_equals(name, losses[i].name))
      return &losses[i];
  return NULL;
}

dp_status *dp_sdca_convert_label(const dp_sdca_loss *loss, float *label) {
  if (loss->is_count && *label < 0)
    return DP_INVALID("Only non-negative labels can be used with the Poisson log loss. Found "
                      "example with label: %g",
                      (double)*label);
  if (!loss->is_binary || *label == 1)
    return NULL;
  if (*label != 0)
    return DP_INVALID("Only labels of 0.0 or 1.0 are supported right now. Found example with "
                      "label: %g",
                      (double)*label);
  *label = -1;
  return NULL;
}
