/* The inside of a dp_scope. All scopes made from one root share its graph, its arena and its first
 * error. A scope itself holds only the settings in which it may differ from the root: name prefix,
 * device, control inputs. The root's arena owns all of them. One thread at a time per root. */
#ifndef DP_CLIENT_SCOPE_INTERNAL_H
#define DP_CLIENT_SCOPE_INTERNAL_H

#include <downpour.h>
#include "client/client_internal.h"

typedef struct scope_root {
  TF_Graph *graph;
  dp_arena *arena;   /* holds the scopes too */
  dp_status *status; /* the first error; NULL: none */
} scope_root;

/* A function that chooses devices, and the next outer one. */
typedef struct scope_chooser {
  dp_device_fn choose;
  void *arg;
  const struct scope_chooser *outer;
} scope_chooser;

struct dp_scope {
  scope_root *root;
  const char *prefix;           /* "" or "a/b/" */
  const char *device;           /* "" or a specification */
  const scope_chooser *chooser; /* the innermost one, or NULL */
  TF_Operation **controls;
  int control_count;
  TF_Operation *source_control; /* runs before operations without inputs (loops need it); or NULL */
  TF_Operation *beside;         /* the operation to colocate with, or NULL */
};

/* Consumes the status; keeps it if it is the first. NULL is no error. */
void dp_scope_note(dp_scope *scope, dp_status *status);

#endif
