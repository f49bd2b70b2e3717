/* The interface between op.c, the parser of a line (op_parse.c) and the table that tools/embed-ops
 * makes from ops.def. */
#ifndef DP_GRAPH_OP_INTERNAL_H
#define DP_GRAPH_OP_INTERNAL_H

#include <stdatomic.h>
#include <stdint.h>
#include "base/arena.h"
#include "graph/op.h"

/* The embedded table: lines of ops.def, each ended by a NUL, sorted by name. */
extern const char dp_ops_text[];
extern const uint32_t dp_ops_count;
extern const uint32_t dp_ops_starts[]; /* where line i begins in the text */
/* A hash table with linear probing: 1 + line number, 0 for a free slot. */
extern const uint16_t dp_ops_slots[];
extern const uint32_t dp_ops_slot_mask;
/* Op i once line i has been parsed; NULL before. */
extern _Atomic(const dp_op *) dp_ops_parsed[];

/* Parses one line into `arena`. The text is our own: a line that cannot be read is a bug and aborts
 * the process (the unit tests parse all lines). */
const dp_op *dp_op_parse(const char *line, dp_arena *arena);
/* Fills op->attr_order. */
void dp_op_sort_attrs(dp_op *op, dp_arena *arena);
/* "string" or "list(int)" to a kind; DP_ATTR_NONE when it is neither. */
dp_attr_kind dp_attr_kind_parse(dp_view text);

#endif
