/* Device names: "/job:ps/replica:0/task:1/device:CPU:0" and everything short of it.
 *
 * A name in which parts are missing or "*" is a specification: it stands for all devices that agree
 * in the other parts. "/cpu:0" and "/GPU:1" are old spellings of "/device:CPU:0" and
 * "/device:GPU:1"; types are otherwise told apart by case. The rules are TensorFlow's.
 * A dp_device_name is a plain value without pointers: copy it as you like. No state, any thread. */
#ifndef DP_WIRE_DEVICE_NAME_H
#define DP_WIRE_DEVICE_NAME_H

#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"
#include "base/text.h"

/* With the NUL. Longer names are refused. */
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

/* Full names and specifications; "" and "/" say nothing. INVALID_ARGUMENT quotes the text. */
DP_MUST_USE dp_status *dp_device_name_parse(dp_view text, dp_device_name *name_out);

/* The canonical text, in `buffer`, which is returned: "" for a name that says nothing,
 * "/device:GPU:*" for a type without number. */
const char *dp_device_name_format(const dp_device_name *name, char buffer[DP_DEVICE_NAME_SIZE]);

bool dp_device_name_is_empty(const dp_device_name *name);
bool dp_device_name_is_complete(const dp_device_name *name);
/* Whether `specific` has every part that `general` has, with the same value. With a complete
 * `specific`: whether that device matches. */
bool dp_device_name_accepts(const dp_device_name *general, const dp_device_name *specific);
/* Adds the parts of `other` to *target. Parts that differ are an INVALID_ARGUMENT; with
 * `allow_soft`, another type or number makes *target forget them instead. On failure *target may
 * have taken over the parts before the one that differs. */
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
