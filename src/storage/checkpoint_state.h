/* The file `checkpoint` in a model's folder: the newest checkpoint and all that are kept, in the
 * text form of the message CheckpointState. tf.train.latest_checkpoint reads it. No state, any
 * thread. */
#ifndef DP_STORAGE_CHECKPOINT_STATE_H
#define DP_STORAGE_CHECKPOINT_STATE_H

#include "base/arena.h"
#include "wire/checkpoint.pb-c.h"

/* The message lives in `arena`. NOT_FOUND when there is no file; INVALID_ARGUMENT says which line
 * is wrong. Paths are not changed: a relative one is relative to the folder of the file. */
DP_MUST_USE dp_status *dp_checkpoint_state_read(const char *path, dp_arena *arena,
                                                Tensorflow__CheckpointState **state_out);
/* A reader sees the old file or the new one, never a part. */
DP_MUST_USE dp_status *dp_checkpoint_state_write(const char *path,
                                                 const Tensorflow__CheckpointState *state);
/* As dp_checkpoint_state_read, from text in memory. */
DP_MUST_USE dp_status *dp_checkpoint_state_parse(const char *text, size_t length, dp_arena *arena,
                                                 Tensorflow__CheckpointState **state_out);

#endif
