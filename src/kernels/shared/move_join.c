/* Joining rows (Concat, Pack). The target is cut into pieces of whole cache lines, which may begin
 * and end within a row, and every piece is written from its start to its end. So threads share the
 * work evenly whatever the sizes of the parts, and dp_op_for can let successive loops run in
 * alternating directions. */
#include "kernels/shared/move.h"

#define LINE 64

typedef struct join_work {
  char *to;
  const dp_move_part *parts;
  int64_t count, row_bytes, bytes;
} join_work;

/* Writes bytes [begin, end) of row `row`. */
static void join_within(const join_work *work, int64_t row, int64_t begin, int64_t end) {
  char *to = work->to + row * work->row_bytes;
  int64_t start = 0;
  for (int64_t i = 0; i < work->count && start < end; start += work->parts[i++].bytes) {
    const dp_move_part *part = &work->parts[i];
    int64_t first = begin > start ? begin : start, last = start + part->bytes;
    last = last < end ? last : end;
    if (first < last)
      memcpy(to + first, part->from + row * part->bytes + first - start, (size_t)(last - first));
  }
}

static void join_lines(void *arg, int64_t begin, int64_t end) {
  const join_work *work = arg;
  int64_t row_bytes = work->row_bytes, last = end * LINE < work->bytes ? end * LINE : work->bytes;
  int64_t row = begin * LINE / row_bytes, within = begin * LINE % row_bytes;
  int64_t whole = last / row_bytes;
  if (within > 0) {
    join_within(work, row, within, row == whole ? last % row_bytes : row_bytes);
    ++row;
  }
  if (row > whole)
    return;
  dp_move_table()->join(work->to, work->parts, work->count, row, whole);
  join_within(work, whole, 0, last % row_bytes);
}

void dp_move_join(dp_op_context *context, void *to, const dp_move_part *parts, int64_t count,
                  int64_t rows) {
  join_work work = {.to = to, .parts = parts, .count = count};
  for (int64_t i = 0; i < count; ++i)
    work.row_bytes += parts[i].bytes;
  work.bytes = work.row_bytes * rows;
  if (work.bytes > 0)
    dp_op_for(context, (work.bytes + LINE - 1) / LINE, LINE / 10, join_lines, &work);
}
