/* Device names: parsing, printing, comparing, merging. A dp_device_name has fixed-size arrays, so
 * nothing here allocates memory, except for error messages. No state, any thread. */
#include "wire/device_name.h"

#include <stdio.h>

/* ---- Parsing ----------------------------------------------------------------------------------*/

static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_word_character(char c) {
  return is_letter(c) || (c >= '0' && c <= '9') || c == '_';
}

bool dp_device_is_job_name(dp_view text) {
  if (text.length == 0 || !is_letter(text.data[0]))
    return false;
  for (size_t i = 1; i < text.length; i++)
    if (!is_word_character(text.data[i]))
      return false;
  return true;
}

/* Removes a word from the front of *text: a letter, then word characters, up to one of `ends` or
 * the end. */
static bool consume_word(dp_view *text, const char *ends, char *word, size_t size) {
  if (text->length == 0 || !is_letter(text->data[0]))
    return false;
  size_t length = 1;
  while (length < text->length && !(text->data[length] && strchr(ends, text->data[length])))
    if (!is_word_character(text->data[length++]))
      return false;
  if (length >= size)
    return false;
  memcpy(word, text->data, length);
  memset(word + length, 0, size - length);
  text->data += length;
  text->length -= length;
  return true;
}

static bool consume_number(dp_view *text, int32_t *number) {
  uint64_t value;
  if (!dp_view_consume_uint64(text, &value) || value > INT32_MAX)
    return false;
  *number = (int32_t)value;
  return true;
}

/* "*" or a number. */
static bool consume_index(dp_view *text, bool *has, int32_t *number) {
  *has = !dp_view_consume(text, "*");
  return !*has || consume_number(text, number);
}

static bool consume_device(dp_view *text, dp_device_name *name) {
  name->has_type = !dp_view_consume(text, "*");
  if (name->has_type && !consume_word(text, "/:", name->type, sizeof name->type))
    return false;
  name->has_id = false;
  return !dp_view_consume(text, ":") || consume_index(text, &name->has_id, &name->id);
}

/* "/cpu:0", "/GPU:*": the spelling from before "/device:". */
static bool consume_legacy(dp_view *text, const char *type, dp_device_name *name) {
  name->has_type = true;
  memset(name->type, 0, sizeof name->type);
  memcpy(name->type, type, 3);
  return consume_index(text, &name->has_id, &name->id);
}

/* Removes one "/part:value" from the front of *text; false when the part is unknown. A part may be
 * given twice: the last one counts. */
static bool consume_part(dp_view *text, dp_device_name *name) {
  if (dp_view_consume(text, "/job:")) {
    name->has_job = !dp_view_consume(text, "*");
    return !name->has_job || consume_word(text, "/", name->job, sizeof name->job);
  }
  if (dp_view_consume(text, "/replica:"))
    return consume_index(text, &name->has_replica, &name->replica);
  if (dp_view_consume(text, "/task:"))
    return consume_index(text, &name->has_task, &name->task);
  if (dp_view_consume(text, "/device:"))
    return consume_device(text, name);
  if (dp_view_consume(text, "/cpu:") || dp_view_consume(text, "/CPU:"))
    return consume_legacy(text, "CPU", name);
  if (dp_view_consume(text, "/gpu:") || dp_view_consume(text, "/GPU:"))
    return consume_legacy(text, "GPU", name);
  return false;
}

/* Zeroes the members of absent parts, so that equal names have equal bytes. */
static void clear_absent(dp_device_name *name) {
  if (!name->has_job)
    memset(name->job, 0, sizeof name->job);
  if (!name->has_type)
    memset(name->type, 0, sizeof name->type);
  name->replica = name->has_replica ? name->replica : 0;
  name->task = name->has_task ? name->task : 0;
  name->id = name->has_id ? name->id : 0;
}

static dp_status *malformed(dp_view text) {
  dp_text escaped = {0};
  dp_text_add_escaped(&escaped, text.data, text.length < 256 ? text.length : 256);
  dp_status *status = DP_INVALID("Malformed device specification '%s'", dp_text_string(&escaped));
  dp_text_deinit(&escaped);
  return status;
}

dp_status *dp_device_name_parse(dp_view text, dp_device_name *name_out) {
  dp_device_name name = {.has_job = false};
  dp_view rest = text;
  if (!dp_view_equals(text, "/"))
    while (rest.length > 0)
      if (!consume_part(&rest, &name))
        return malformed(text);
  clear_absent(&name);
  *name_out = name;
  return NULL;
}

/* ---- Printing ---------------------------------------------------------------------------------*/

const char *dp_device_name_format(const dp_device_name *name, char buffer[DP_DEVICE_NAME_SIZE]) {
  size_t at = 0;
  buffer[0] = 0;
#define ADD(...) at += (size_t)snprintf(buffer + at, DP_DEVICE_NAME_SIZE - at, __VA_ARGS__)
  if (name->has_job)
    ADD("/job:%s", name->job);
  if (name->has_replica)
    ADD("/replica:%d", name->replica);
  if (name->has_task)
    ADD("/task:%d", name->task);
  if (name->has_type && name->has_id)
    ADD("/device:%s:%d", name->type, name->id);
  else if (name->has_type)
    ADD("/device:%s:*", name->type);
#undef ADD
  return buffer;
}

/* ---- Comparing --------------------------------------------------------------------------------*/

bool dp_device_name_is_empty(const dp_device_name *name) {
  return !name->has_job && !name->has_replica && !name->has_task && !name->has_type &&
         !name->has_id;
}

bool dp_device_name_is_complete(const dp_device_name *name) {
  return name->has_job && name->has_replica && name->has_task && name->has_type && name->has_id;
}

bool dp_device_name_accepts(const dp_device_name *general, const dp_device_name *specific) {
  if (general->has_job && (!specific->has_job || strcmp(general->job, specific->job) != 0))
    return false;
  if (general->has_replica && (!specific->has_replica || general->replica != specific->replica))
    return false;
  if (general->has_task && (!specific->has_task || general->task != specific->task))
    return false;
  if (general->has_type && (!specific->has_type || strcmp(general->type, specific->type) != 0))
    return false;
  return !general->has_id || (specific->has_id && general->id == specific->id);
}

bool dp_device_name_same_task(const dp_device_name *a, const dp_device_name *b) {
  return a->has_job && b->has_job && strcmp(a->job, b->job) == 0 && a->has_replica &&
         b->has_replica && a->replica == b->replica && a->has_task && b->has_task &&
         a->task == b->task;
}

dp_device_name dp_device_name_task(const dp_device_name *name) {
  dp_device_name task = *name;
  task.has_type = task.has_id = false;
  clear_absent(&task);
  return task;
}

/* ---- Merging ----------------------------------------------------------------------------------*/

static dp_status *incompatible(const char *what, const dp_device_name *a, const dp_device_name *b) {
  char first[DP_DEVICE_NAME_SIZE], second[DP_DEVICE_NAME_SIZE];
  return DP_INVALID("Cannot merge devices with incompatible %s: '%s' and '%s'", what,
                    dp_device_name_format(a, first), dp_device_name_format(b, second));
}

static dp_status *merge_task(dp_device_name *target, const dp_device_name *other) {
  if (other->has_job && target->has_job && strcmp(target->job, other->job) != 0)
    return incompatible("jobs", target, other);
  if (other->has_job) {
    target->has_job = true;
    memcpy(target->job, other->job, sizeof target->job);
  }
  if (other->has_replica && target->has_replica && target->replica != other->replica)
    return incompatible("replicas", target, other);
  if (other->has_replica) {
    target->has_replica = true;
    target->replica = other->replica;
  }
  if (other->has_task && target->has_task && target->task != other->task)
    return incompatible("tasks", target, other);
  if (other->has_task) {
    target->has_task = true;
    target->task = other->task;
  }
  return NULL;
}

dp_status *dp_device_name_merge(dp_device_name *target, const dp_device_name *other,
                                bool allow_soft) {
  DP_RETURN_IF_ERROR(merge_task(target, other));
  bool type_differs = other->has_type && target->has_type && strcmp(target->type, other->type) != 0;
  if (type_differs && !allow_soft)
    return incompatible("types", target, other);
  if (type_differs) {
    target->has_type = target->has_id = false;
    clear_absent(target);
    return NULL;
  }
  if (other->has_type) {
    target->has_type = true;
    memcpy(target->type, other->type, sizeof target->type);
  }
  bool id_differs = other->has_id && target->has_id && target->id != other->id;
  if (id_differs && !allow_soft)
    return incompatible("ids", target, other);
  if (id_differs) {
    target->has_id = false;
    target->id = 0;
    return NULL;
  }
  if (other->has_id) {
    target->has_id = true;
    target->id = other->id;
  }
  return NULL;
}

void dp_device_name_override(dp_device_name *target, const dp_device_name *other) {
  if (other->has_job)
    memcpy(target->job, other->job, sizeof target->job);
  if (other->has_replica)
    target->replica = other->replica;
  if (other->has_task)
    target->task = other->task;
  if (other->has_type)
    memcpy(target->type, other->type, sizeof target->type);
  if (other->has_id)
    target->id = other->id;
  target->has_job |= other->has_job;
  target->has_replica |= other->has_replica;
  target->has_task |= other->has_task;
  target->has_type |= other->has_type;
  target->has_id |= other->has_id;
}
