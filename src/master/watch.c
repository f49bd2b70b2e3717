/* Nothing waits in silence: whatever a session waits for is on the session's list. A timer of the
 * master looks at the lists of all sessions and says in the log, every ten seconds of a wait, whom
 * it waits for and why. Status pages print the same lists.
 *
 * Entries are embedded in who waits. Putting one on the list or taking it off costs one lock of the
 * session, so that steps of different sessions do not meet here. A walk holds the master's lock,
 * which keeps every live session where it is, also one that is not open yet or closed already. */
#include "base/log.h"
#include "master/master_internal.h"

enum { MOST_LINES = 5 };
static const int64_t period = INT64_C(10000000000); /* between two words on a wait */
static const int64_t look_every = INT64_C(2500000000);

void dp_master_watch_begin(master_session *session, master_watch *watch, dp_cancel *scope,
                           master_watch_fn describe, void *arg) {
  int64_t now = dp_clock_nanos();
  *watch = (master_watch){
      .scope = scope, .since = now, .next_word = now + period, .describe = describe, .arg = arg};
  pthread_mutex_lock(&session->watch_lock);
  watch->next = session->watches;
  if (watch->next)
    watch->next->previous = watch;
  session->watches = watch;
  pthread_mutex_unlock(&session->watch_lock);
}

void dp_master_watch_end(master_session *session, master_watch *watch) {
  pthread_mutex_lock(&session->watch_lock);
  if (watch->previous)
    watch->previous->next = watch->next;
  else
    session->watches = watch->next;
  if (watch->next)
    watch->next->previous = watch->previous;
  pthread_mutex_unlock(&session->watch_lock);
}

/* Calls visit for each wait, with the locks of master and session held. */
static void visit_watches(dp_master *master, void (*visit)(void *arg, master_watch *watch),
                          void *arg) {
  pthread_mutex_lock(&master->lock);
  for (master_session *session = master->live; session; session = session->next_live) {
    pthread_mutex_lock(&session->watch_lock);
    for (master_watch *watch = session->watches; watch; watch = watch->next)
      visit(arg, watch);
    pthread_mutex_unlock(&session->watch_lock);
  }
  pthread_mutex_unlock(&master->lock);
}

typedef struct watch_lines {
  dp_text *text;
  int left; /* lines that may still be written */
  int64_t now;
} watch_lines;

static void print_wait(void *arg, master_watch *watch) {
  watch_lines *lines = arg;
  if (lines->left-- <= 0)
    return;
  dp_text_printf(lines->text, "  %7.1f s  ", (double)(lines->now - watch->since) / 1e9);
  watch->describe(watch->arg, lines->text);
  dp_text_add_char(lines->text, '\n');
}

void dp_master_watch_print(dp_master *master, int most, dp_text *text) {
  watch_lines lines = {text, most, dp_clock_nanos()};
  visit_watches(master, print_wait, &lines);
}

static void print_if_due(void *arg, master_watch *watch) {
  watch_lines *lines = arg;
  if (lines->now < watch->next_word)
    return;
  watch->next_word = lines->now + period;
  if (lines->left-- <= 0)
    return;
  watch->describe(watch->arg, lines->text);
  dp_text_printf(lines->text, ", for %.1f s\n", (double)(lines->now - watch->since) / 1e9);
}

static void say_who_waits(void *arg) {
  dp_master *master = arg;
  dp_text text = {0};
  watch_lines lines = {&text, MOST_LINES, dp_clock_nanos()};
  visit_watches(master, print_if_due, &lines);
  for (char *line = text.data, *end; line && (end = strchr(line, '\n')); line = end + 1)
    DP_LOG(MASTER, WARN, "%.*s", (int)(end - line), line);
  dp_text_deinit(&text);
  pthread_mutex_lock(&master->lock);
  if (!master->watch_stopped)
    master->watch_timer = dp_timer_start(dp_clock_nanos() + look_every, say_who_waits, master);
  pthread_mutex_unlock(&master->lock);
}

void dp_master_watch_start(dp_master *master) {
  master->watch_timer = dp_timer_start(dp_clock_nanos() + look_every, say_who_waits, master);
}

void dp_master_watch_stop(dp_master *master) {
  pthread_mutex_lock(&master->lock);
  master->watch_stopped = true;
  dp_timer timer = master->watch_timer;
  pthread_mutex_unlock(&master->lock);
  dp_timer_cancel(timer);
}
