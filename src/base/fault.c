/* Fault points. The armed points are a short list under a mutex. Code that reaches a fault point
 * looks its name up only while at least one point is armed. Several entries may name one point: the
 * delays add up, then the point holds, then the process is killed or the first error is returned.
 * Sleeping and killing happen with no lock held. */
#include "base/fault.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"

typedef enum fault_action { FAULT_ERROR, FAULT_DELAY, FAULT_KILL, FAULT_HOLD } fault_action;

typedef struct fault_point {
  char *name;
  fault_action action;
  dp_code code;
  int64_t delay_nanos;
  char *file;   /* of FAULT_HOLD */
  uint64_t nth; /* 0: each time */
  uint64_t passed;
} fault_point;

typedef DP_ARRAY(fault_point) fault_points;

int dp_fault_armed;

static const int64_t hold_look_nanos = INT64_C(5000000);

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static fault_points points;

static dp_status *parse_code(dp_view text, dp_code *code_out) {
  for (int code = DP_CANCELLED; code <= DP_UNAUTHENTICATED; code++)
    if (dp_view_equals(text, dp_code_name((dp_code)code))) {
      *code_out = (dp_code)code;
      return NULL;
    }
  return DP_INVALID("fault: '%.*s' is not an error code (write it as DATA_LOSS, UNAVAILABLE, ...)",
                    (int)text.length, text.data);
}

/* Takes "@nth" off the end of *action. */
static dp_status *parse_nth(dp_view *action, uint64_t *nth_out) {
  const char *at = memchr(action->data, '@', action->length);
  *nth_out = 0;
  if (at == NULL)
    return NULL;
  size_t head = (size_t)(at - action->data);
  dp_view number = {at + 1, action->length - head - 1};
  if (!dp_parse_uint64(number, nth_out) || *nth_out == 0)
    return DP_INVALID("fault: '%.*s' behind @ is not a count from 1", (int)number.length,
                      number.data);
  action->length = head;
  return NULL;
}

static dp_status *parse_action(dp_view action, fault_point *point) {
  DP_RETURN_IF_ERROR(parse_nth(&action, &point->nth));
  dp_view rest = action;
  if (dp_view_equals(action, "kill")) {
    point->action = FAULT_KILL;
    return NULL;
  }
  if (dp_view_equals(action, "error")) {
    point->action = FAULT_ERROR;
    point->code = DP_INTERNAL;
    return NULL;
  }
  if (dp_view_consume(&rest, "error:")) {
    point->action = FAULT_ERROR;
    return parse_code(rest, &point->code);
  }
  if (dp_view_consume(&rest, "hold:") && rest.length > 0) {
    point->action = FAULT_HOLD;
    point->file = dp_strndup(rest.data, rest.length);
    return NULL;
  }
  uint64_t milliseconds;
  if (dp_view_consume(&rest, "delay:") && dp_view_consume_uint64(&rest, &milliseconds) &&
      dp_view_equals(rest, "ms") && milliseconds <= INT64_MAX / 1000000) {
    point->action = FAULT_DELAY;
    point->delay_nanos = (int64_t)milliseconds * 1000000;
    return NULL;
  }
  return DP_INVALID("fault: '%.*s' is not an action; use error, error:CODE, delay:<n>ms, kill or "
                    "hold:FILE, and @n for the n-th time only",
                    (int)action.length, action.data);
}

static dp_status *parse_point(dp_view part, fault_points *parsed) {
  const char *equals = memchr(part.data, '=', part.length);
  if (equals == NULL || equals == part.data)
    return DP_INVALID("fault: '%.*s' is not of the form name=action", (int)part.length, part.data);
  size_t name_length = (size_t)(equals - part.data);
  fault_point point = {0};
  dp_view action = {equals + 1, part.length - name_length - 1};
  DP_RETURN_IF_ERROR(parse_action(action, &point));
  point.name = dp_strndup(part.data, name_length);
  DP_ARRAY_PUSH(parsed, point);
  return NULL;
}

static void free_points(fault_points *list) {
  for (size_t i = 0; i < list->count; i++) {
    dp_free(list->items[i].name);
    dp_free(list->items[i].file);
  }
  DP_ARRAY_FREE(list);
}

dp_status *dp_fault_configure(const char *specification) {
  fault_points parsed = {0};
  for (const char *at = specification; *at != '\0';) {
    dp_view part = {at, strcspn(at, ",")};
    dp_status *status = part.length > 0 ? parse_point(part, &parsed) : NULL;
    if (status != NULL) {
      free_points(&parsed);
      return status;
    }
    at += part.length;
    at += *at == ',';
  }
  pthread_mutex_lock(&mutex);
  for (size_t i = 0; i < parsed.count; i++)
    DP_ARRAY_PUSH(&points, parsed.items[i]);
  __atomic_store_n(&dp_fault_armed, (int)points.count, __ATOMIC_RELAXED);
  pthread_mutex_unlock(&mutex);
  DP_ARRAY_FREE(&parsed);
  return NULL;
}

void dp_fault_clear(void) {
  pthread_mutex_lock(&mutex);
  free_points(&points);
  __atomic_store_n(&dp_fault_armed, 0, __ATOMIC_RELAXED);
  pthread_mutex_unlock(&mutex);
}

/* Consumes `file`. */
static void hold(const char *name, char *file) {
  if (access(file, F_OK) == 0)
    DP_LOG(BASE, WARN, "fault point %s holds while the file %s exists", name, file);
  while (access(file, F_OK) == 0)
    dp_clock_sleep(hold_look_nanos);
  dp_free(file);
}

dp_status *dp_fault_check(const char *name) {
  bool kill_now = false;
  char *held_by = NULL;
  int64_t delay = 0;
  dp_code code = DP_OK;
  pthread_mutex_lock(&mutex);
  for (size_t i = 0; i < points.count; i++) {
    fault_point *point = &points.items[i];
    if (strcmp(point->name, name) != 0)
      continue;
    point->passed++;
    if (point->nth != 0 && point->nth != point->passed)
      continue;
    if (point->action == FAULT_KILL)
      kill_now = true;
    else if (point->action == FAULT_DELAY)
      delay += point->delay_nanos;
    else if (point->action == FAULT_HOLD && !held_by)
      held_by = dp_strdup(point->file);
    else if (point->action == FAULT_ERROR && code == DP_OK)
      code = point->code;
  }
  pthread_mutex_unlock(&mutex);
  if (delay > 0)
    dp_clock_sleep(delay);
  if (held_by)
    hold(name, held_by);
  if (kill_now) {
    DP_LOG(BASE, WARN, "fault point %s ends the process", name);
    kill(getpid(), SIGKILL);
  }
  return code == DP_OK ? NULL : dp_status_create(code, "fault injected at %s", name);
}
