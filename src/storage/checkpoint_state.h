/* The file `checkpoint` in a model's folder: which checkpoint is the newest and which there are, as
 * the text form of CheckpointState. tf.train.latest_checkpoint reads it. No state. */
#ifndef DP_STORAGE_CHECKPOINT_STATE_H
#define DP_STORAGE_CHECKPOINT_STATE_H

#include "base/arena.h"
#include "wire/checkpoint.pb-c.h"

/* The message lives in `arena`. NOT_FOUND when there is no file; INVALID_ARGUMENT says which line
 * is wrong. Paths stay as they are written: relative ones are relative to the folder. */
DP_MUST_USE dp_status *dp_checkpoint_state_read(const char *path, dp_arena *arena,
                                                Tensorflow__CheckpointState **state_out);
/* Atomically. */
DP_MUST_USE dp_status *dp_checkpoint_state_write(const char *path,
                                                 const Tensorflow__CheckpointState *state);
/* From text. */
DP_MUST_USE dp_status *dp_checkpoint_state_parse(const char *text, size_t length, dp_arena *arena,
                                                 Tensorflow__CheckpointState **state_out);

#endif
