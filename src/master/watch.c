/* Nothing waits in silence: whatever the master waits for is on one list. A timer looks at it and
 * says in the log, every ten seconds of a wait, whom it waits for and why.
 * Status pages print the same list. Entries are embedded in who waits; putting one on the list or
 * off it costs one lock. */
#include "base/log.h"
#include "master/master_internal.h"

enum { MOST_LINES = 5 };
static const int64_t period = INT64_C(10000000000); /* between two words on a wait */
static const int64_t look_every = INT64_C(2500000000);

void dp_master_watch_begin(dp_master *master, master_watch *watch, master_watch_fn describe,
                           void *arg) {
  int64_t now = dp_clock_nanos();
  *watch =
      (master_watch){.since = now, .next_word = now + period, .describe = describe, .arg = arg};
  pthread_mutex_lock(&master->watch_lock);
  watch->next = master->watches;
  if (watch->next)
    watch->next->previous = watch;
  master->watches = watch;
  pthread_mutex_unlock(&master->watch_lock);
}

void dp_master_watch_end(dp_master *master, master_watch *watch) {
  pthread_mutex_lock(&master->watch_lock);
  if (watch->previous)
    watch->previous->next = watch->next;
  else
    master->watches = watch->next;
  if (watch->next)
    watch->next->previous = watch->previous;
  pthread_mutex_unlock(&master->watch_lock);
}

void dp_master_watch_print(dp_master *master, int most, dp_text *text) {
  int64_t now = dp_clock_nanos();
  int printed = 0;
  pthread_mutex_lock(&master->watch_lock);
  for (master_watch *watch = master->watches; watch && printed < most; watch = watch->next) {
    dp_text_printf(text, "  %7.1f s  ", (double)(now - watch->since) / 1e9);
    watch->describe(watch->arg, text);
    dp_text_add_char(text, '\n');
    printed++;
  }
  pthread_mutex_unlock(&master->watch_lock);
}

static void print_due(dp_master *master, dp_text *text) {
  int64_t now = dp_clock_nanos();
  int printed = 0;
  pthread_mutex_lock(&master->watch_lock);
  for (master_watch *watch = master->watches; watch; watch = watch->next) {
    if (now < watch->next_word)
      continue;
    watch->next_word = now + period;
    if (printed++ >= MOST_LINES)
      continue;
    watch->describe(watch->arg, text);
    dp_text_printf(text, ", for %.1f s\n", (double)(now - watch->since) / 1e9);
  }
  pthread_mutex_unlock(&master->watch_lock);
}

static void say_who_waits(void *arg) {
  dp_master *master = arg;
  dp_text text = {0};
  print_due(master, &text);
  for (char *line = text.data, *end; line && (end = strchr(line, '\n')); line = end + 1)
    DP_LOG(MASTER, INFO, "%.*s", (int)(end - line), line);
  dp_text_deinit(&text);
  pthread_mutex_lock(&master->watch_lock);
  if (!master->watch_stopped)
    master->watch_timer = dp_timer_start(dp_clock_nanos() + look_every, say_who_waits, master);
  pthread_mutex_unlock(&master->watch_lock);
}

void dp_master_watch_start(dp_master *master) {
  pthread_mutex_init(&master->watch_lock, NULL);
  master->watch_timer = dp_timer_start(dp_clock_nanos() + look_every, say_who_waits, master);
}

void dp_master_watch_stop(dp_master *master) {
  pthread_mutex_lock(&master->watch_lock);
  master->watch_stopped = true;
  dp_timer timer = master->watch_timer;
  pthread_mutex_unlock(&master->watch_lock);
  dp_timer_cancel(timer);
  pthread_mutex_destroy(&master->watch_lock);
}
