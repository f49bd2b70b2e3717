/* The inside of a scope: what distinguishes it, over what all scopes of one root share. */
#ifndef DP_CLIENT_SCOPE_INTERNAL_H
#define DP_CLIENT_SCOPE_INTERNAL_H

#include <downpour.h>
#include "client/client_internal.h"

typedef struct scope_root {
  TF_Graph *graph;
  dp_arena *arena; /* holds the scopes too */
  dp_status *status;
} scope_root;

/* A function that chooses devices, and the one around it. */
typedef struct scope_chooser {
  dp_device_fn choose;
  void *arg;
  const struct scope_chooser *outer;
} scope_chooser;

struct dp_scope {
  scope_root *root;
  const char *prefix; /* "" or "a/b/" */
  const char *device; /* "" or a specification */
  const scope_chooser *chooser;
  TF_Operation **controls;
  int control_count;
  TF_Operation *source_control; /* for operations without inputs: keeps them in a loop; or NULL */
  TF_Operation *beside;         /* NULL: no matter */
};

/* Consumes the status; keeps it if it is the first. NULL is no error. */
void dp_scope_note(dp_scope *scope, dp_status *status);

#endif
