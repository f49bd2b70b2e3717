/* Device names: "/job:ps/replica:0/task:1/device:CPU:0", or some parts of such a name.
 *
 * A name in which parts are missing or "*" is a specification: it stands for all devices whose
 * names have the parts that are present. "/cpu:0" and "/GPU:1" are old spellings of "/device:CPU:0"
 * and "/device:GPU:1"; otherwise the case of a type matters. The rules are TensorFlow's.
 * A dp_device_name is a plain value without pointers: copy it as you like. No state, any thread. */
#ifndef DP_WIRE_DEVICE_NAME_H
#define DP_WIRE_DEVICE_NAME_H

#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"
#include "base/text.h"

/* Sizes with the NUL. Longer names are refused. */
#define DP_DEVICE_JOB_SIZE 96
#define DP_DEVICE_TYPE_SIZE 32
/* Room for any printed name. */
#define DP_DEVICE_NAME_SIZE 224

typedef struct dp_device_name {
  bool has_job, has_replica, has_task, has_type, has_id;
  int32_t replica, task, id; /* 0 when absent */
  char job[DP_DEVICE_JOB_SIZE];
  char type[DP_DEVICE_TYPE_SIZE];
} dp_device_name;

/* Parses a full name or a specification; "" and "/" give a name without parts. The message of
 * INVALID_ARGUMENT quotes the text. */
DP_MUST_USE dp_status *dp_device_name_parse(dp_view text, dp_device_name *name_out);

/* Writes the canonical text to `buffer` and returns `buffer`: "" for a name without parts,
 * "/device:GPU:*" for a type without a number. */
const char *dp_device_name_format(const dp_device_name *name, char buffer[DP_DEVICE_NAME_SIZE]);

bool dp_device_name_is_empty(const dp_device_name *name);
bool dp_device_name_is_complete(const dp_device_name *name);
/* Whether `specific` has every part that `general` has, with the same value. With a complete
 * `specific`: whether that device matches. */
bool dp_device_name_accepts(const dp_device_name *general, const dp_device_name *specific);
/* Adds the parts of `other` to *target. A part that both have with different values is an
 * INVALID_ARGUMENT. With `allow_soft` a different type removes type and number from *target
 * instead, and a different number removes the number. On failure *target may already have some of
 * the parts of `other`. */
DP_MUST_USE dp_status *dp_device_name_merge(dp_device_name *target, const dp_device_name *other,
                                            bool allow_soft);
/* Overwrites in *target every part that `other` has. */
void dp_device_name_override(dp_device_name *target, const dp_device_name *other);

/* Whether both name the same task (job, replica and task present and equal). */
bool dp_device_name_same_task(const dp_device_name *a, const dp_device_name *b);
/* Job, replica and task only. */
dp_device_name dp_device_name_task(const dp_device_name *name);

/* Whether `text` can be the name of a job: a letter, then letters, digits and "_". */
bool dp_device_is_job_name(dp_view text);

#endif
