/* The life of a task's process: signals are blocked before the first thread exists, so that all
 * threads leave them to this one, which waits for them. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/timer.h"
#include "server/server.h"
#include "storage/file.h"

static void print_description(dp_server *server) {
  dp_text text = {0};
  dp_server_describe(server, &text);
  size_t at = 0;
  while (at < text.length) {
    ssize_t written = write(STDERR_FILENO, text.data + at, text.length - at);
    if (written <= 0)
      break;
    at += (size_t)written;
  }
  dp_text_deinit(&text);
}

/* Returns with the signal that asks for the end. */
static int wait_for_end(dp_server *server, const sigset_t *signals) {
  for (;;) {
    int number = sigwaitinfo(signals, NULL);
    if (number == SIGUSR1)
      print_description(server);
    else if (number > 0)
      return number;
    else if (errno != EINTR)
      return 0;
  }
}

static void end_this_process(void *arg) {
  kill(getpid(), SIGTERM);
}

/* A kernel that is in the middle of a long loop hears of no signal, and the end waits for it. */
static void end_anyway(void *arg) {
  static const char line[] = "downpour: not done in time, ending now\n";
  ssize_t ignored = write(STDERR_FILENO, line, sizeof line - 1);
  (void)ignored;
  _exit(0);
}

/* Ends the server within the grace and a little more, whatever is going on in it. */
static void end_server(dp_server *server, int64_t grace_nanos) {
  static const int64_t rest_nanos = INT64_C(3000000000);
  int64_t deadline = dp_clock_nanos() + grace_nanos;
  dp_timer guard = dp_timer_start(deadline + rest_nanos, end_anyway, NULL);
  dp_server_shutdown(server, deadline);
  dp_server_destroy(server);
  dp_timer_cancel(guard);
}

dp_status *dp_server_run(const dp_server_options *options, int64_t grace_nanos) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &signals, NULL);
  signal(SIGPIPE, SIG_IGN);

  dp_server_options stoppable = *options;
  stoppable.stop = end_this_process;
  dp_server *server;
  DP_RETURN_IF_ERROR(dp_server_create(&stoppable, &server));
  dp_status *status = dp_server_start(server);
  if (status == NULL) {
    printf("Started server with target: %s\n", dp_server_target(server));
    fflush(stdout);
    int number = wait_for_end(server, &signals);
    DP_LOG(SERVER, INFO, "ending on %s", strsignal(number));
    pthread_sigmask(SIG_UNBLOCK, &signals, NULL); /* the next one ends the process */
    end_server(server, grace_nanos);
  } else {
    dp_server_destroy(server);
  }
  dp_status_update(&status, dp_storage_settle());
  return status;
}
