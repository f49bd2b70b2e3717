/* The life of a local cluster: start every task, print what they write, pass signals on, start a
 * failed task again if asked to, and end all tasks when the chief ends.
 *
 *   RUNNING --chief ends, signal--> FINISHING --grace--> ENDING (SIGTERM) --grace--> KILLING
 *           --failure------------------------------------> ENDING
 *
 * A signal to the launcher goes to all tasks and to the next phase; so does each further signal.
 * One thread waits for signals, output and ends of tasks together, in poll. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "launch/launch_internal.h"

static const int64_t RESTART_NANOS = 1000000000, SERVERS_NANOS = 2000000000,
                     TERM_NANOS = 10000000000;
enum { TICK_MS = 100 };

typedef enum launch_phase { RUNNING, FINISHING, ENDING, KILLING } launch_phase;

typedef struct supervisor {
  launch launch;
  launch_phase phase;
  int64_t phase_ends_nanos;
  int exit_code;
  bool servers_alone; /* the last worker has ended */
  bool code_known;    /* exit_code is the chief's, or of the task whose failure ended the job */
} supervisor;

/* ---- Tasks ---- */
static void make_tasks(launch *self) {
  static const int colors[] = {6, 3, 2, 5, 4, 1};
  const dp_launch_options *options = self->options;
  self->task_count = options->ps + options->workers;
  self->tasks = DP_NEW_ARRAY(launch_task, self->task_count);
  self->addresses = DP_NEW_ARRAY(char *, self->task_count);
  self->name_width = (int)strlen("progress");
  for (int i = 0; i < self->task_count; i++) {
    launch_task *task = &self->tasks[i];
    bool is_ps = i < options->ps;
    task->job = is_ps ? "ps" : "worker";
    task->index = is_ps ? i : i - options->ps;
    task->is_chief = !is_ps && task->index == 0;
    task->color = colors[i % (int)(sizeof(colors) / sizeof(colors[0]))];
    task->port_holder = -1;
    task->muted = is_ps && options->quiet;
    for (int k = 0; k < STREAM_COUNT; k++)
      task->streams[k].descriptor = -1;
    int width = snprintf(task->name, sizeof(task->name), "%s %d", task->job, task->index);
    self->name_width = width > self->name_width ? width : self->name_width;
  }
}

static void destroy_tasks(launch *self) {
  for (int i = 0; i < self->task_count; i++) {
    dp_free(self->addresses[i]);
    if (self->tasks[i].port_holder >= 0)
      close(self->tasks[i].port_holder);
    for (int k = 0; k < STREAM_COUNT; k++)
      dp_text_deinit(&self->tasks[i].streams[k].line);
  }
  dp_free(self->addresses);
  dp_free(self->tasks);
}

static void signal_all(launch *self, int number) {
  for (int i = 0; i < self->task_count; i++)
    dp_launch_signal(&self->tasks[i], number);
}

static int running(const launch *self, const char *job) {
  int count = 0;
  for (int i = 0; i < self->task_count; i++)
    count += self->tasks[i].pid > 0 && (!job || strcmp(self->tasks[i].job, job) == 0);
  return count;
}

/* ---- Phases ---- */
static void name_late_workers(launch *all) {
  for (int i = 0; i < all->task_count; i++)
    if (all->tasks[i].pid > 0 && strcmp(all->tasks[i].job, "worker") == 0)
      dp_launch_say(all, "%s still runs %.3g s after the chief's end; ending it (--grace)",
                    all->tasks[i].name, (double)all->options->grace_nanos * 1e-9);
}

static void enter(supervisor *self, launch_phase phase) {
  int64_t grace_nanos = self->launch.options->grace_nanos;
  if (phase <= self->phase || phase > KILLING)
    return;
  self->phase = phase;
  if (phase > FINISHING && grace_nanos > TERM_NANOS)
    grace_nanos = TERM_NANOS;
  self->phase_ends_nanos = dp_clock_nanos() + grace_nanos;
  for (int i = 0; i < self->launch.task_count; i++)
    self->launch.tasks[i].start_again_nanos = 0;
  if (phase == ENDING)
    signal_all(&self->launch, SIGTERM);
  if (phase == KILLING)
    signal_all(&self->launch, SIGKILL);
}

static void decide_code(supervisor *self, int code) {
  if (!self->code_known)
    self->exit_code = code;
  self->code_known = true;
}

static const char *describe_end(int wait_status, char *text, size_t size) {
  if (WIFSIGNALED(wait_status))
    snprintf(text, size, "was ended by a signal (%s)", strsignal(WTERMSIG(wait_status)));
  else
    snprintf(text, size, "ended with %d", WEXITSTATUS(wait_status));
  return text;
}

static void task_ended(supervisor *self, launch_task *task, int wait_status) {
  char text[96];
  launch *all = &self->launch;
  int code = WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
  kill(-task->pid, SIGKILL); /* processes that it left in its group */
  task->pid = 0;
  describe_end(wait_status, text, sizeof(text));
  if (code != 0 && self->phase == RUNNING && task->restarts < all->options->restarts) {
    task->restarts++;
    task->start_again_nanos = dp_clock_nanos() + RESTART_NANOS;
    dp_launch_say(all, "%s %s; starting it again (%d of %d)", task->name, text, task->restarts,
                  all->options->restarts);
  } else if (task->is_chief) {
    decide_code(self, code);
    if (code != 0 && self->phase == RUNNING)
      dp_launch_say(all, "%s, the chief, %s; ending the others", task->name, text);
    enter(self, code == 0 ? FINISHING : ENDING);
  } else if (code != 0 && self->phase == RUNNING) {
    decide_code(self, code);
    dp_launch_say(all, "%s %s; ending the others (--restart starts it again instead)", task->name,
                  text);
    enter(self, ENDING);
  }
}

static void collect_ended(supervisor *self) {
  launch *all = &self->launch;
  for (int i = 0; i < all->task_count; i++) {
    launch_task *task = &all->tasks[i];
    int wait_status;
    if (task->pid == 0 || waitpid(task->pid, &wait_status, WNOHANG) != task->pid)
      continue;
    for (int k = 0; k < STREAM_COUNT; k++) {
      while (task->streams[k].descriptor >= 0 &&
             poll(&(struct pollfd){task->streams[k].descriptor, POLLIN, 0}, 1, 0) == 1)
        if (!dp_launch_read(all, task, k))
          break;
      dp_launch_close(all, task, k);
    }
    task_ended(self, task, wait_status);
  }
}

static void restart_due(supervisor *self) {
  int64_t now = dp_clock_nanos();
  for (int i = 0; i < self->launch.task_count; i++) {
    launch_task *task = &self->launch.tasks[i];
    if (task->start_again_nanos == 0 || task->start_again_nanos > now)
      continue;
    dp_status *status = dp_launch_start(&self->launch, task);
    if (!status)
      continue;
    dp_launch_say(&self->launch, "%s: %s", task->name, dp_status_message(status));
    dp_status_release(status);
    decide_code(self, 1);
    enter(self, ENDING);
  }
}

/* ---- Waiting ---- */
static void take_signal(supervisor *self, int descriptor) {
  struct signalfd_siginfo information;
  if (read(descriptor, &information, sizeof(information)) != sizeof(information) ||
      information.ssi_signo == SIGCHLD)
    return;
  if (self->phase == RUNNING)
    dp_launch_say(&self->launch, "%s; ending all tasks", strsignal((int)information.ssi_signo));
  signal_all(&self->launch, (int)information.ssi_signo);
  enter(self, self->phase + 1);
}

static void wait_a_little(supervisor *self, int signals) {
  launch *all = &self->launch;
  int most = all->task_count * STREAM_COUNT + 1, count = 1;
  struct pollfd *polls = DP_NEW_ARRAY(struct pollfd, most);
  int *owners = DP_NEW_ARRAY(int, most);
  polls[0] = (struct pollfd){signals, POLLIN, 0};
  for (int i = 0; i < all->task_count * STREAM_COUNT; i++) {
    int descriptor = all->tasks[i / STREAM_COUNT].streams[i % STREAM_COUNT].descriptor;
    if (descriptor < 0)
      continue;
    owners[count] = i;
    polls[count++] = (struct pollfd){descriptor, POLLIN, 0};
  }
  if (poll(polls, (nfds_t)count, TICK_MS) > 0) {
    for (int i = 1; i < count; i++) {
      launch_task *task = &all->tasks[owners[i] / STREAM_COUNT];
      int stream = owners[i] % STREAM_COUNT;
      if (polls[i].revents && !dp_launch_read(all, task, stream))
        dp_launch_close(all, task, stream);
    }
    if (polls[0].revents)
      take_signal(self, signals);
  }
  dp_free(owners);
  dp_free(polls);
}

static bool work_left(const supervisor *self) {
  if (running(&self->launch, NULL) > 0)
    return true;
  for (int i = 0; i < self->launch.task_count; i++)
    if (self->launch.tasks[i].start_again_nanos)
      return true;
  return false;
}

/* When the last worker has ended, parameter servers get SERVERS_NANOS only: those of many programs
 * never end by themselves. */
static void hurry_servers(supervisor *self) {
  int64_t soon = dp_clock_nanos() + SERVERS_NANOS;
  if (self->phase != FINISHING || self->servers_alone || running(&self->launch, "worker") > 0)
    return;
  self->servers_alone = true;
  if (self->phase_ends_nanos > soon)
    self->phase_ends_nanos = soon;
}

static void supervise(supervisor *self, int signals) {
  while (work_left(self)) {
    wait_a_little(self, signals);
    collect_ended(self);
    restart_due(self);
    hurry_servers(self);
    if (self->phase > RUNNING && self->phase < KILLING &&
        dp_clock_nanos() >= self->phase_ends_nanos) {
      if (self->phase == FINISHING)
        name_late_workers(&self->launch);
      enter(self, self->phase + 1);
    }
    dp_launch_progress_show(&self->launch, false);
  }
  dp_launch_progress_show(&self->launch, true);
}

static dp_status *start_all(supervisor *self) {
  launch *all = &self->launch;
  for (int i = 0; i < all->task_count; i++) {
    dp_status *status = dp_launch_start(all, &all->tasks[i]);
    if (!status)
      continue;
    signal_all(all, SIGKILL);
    for (int k = 0; k < i; k++)
      waitpid(all->tasks[k].pid, NULL, 0);
    return status;
  }
  if (!all->options->quiet)
    dp_launch_say(all, "%d parameter server%s, %d worker%s; worker 0 is the chief",
                  all->options->ps, all->options->ps == 1 ? "" : "s", all->options->workers,
                  all->options->workers == 1 ? "" : "s");
  return NULL;
}

dp_status *dp_launch_run(const dp_launch_options *options, int *exit_code_out) {
  supervisor self = {.launch.options = options, .exit_code = 1};
  sigset_t set, before;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGHUP);
  sigaddset(&set, SIGCHLD);
  pthread_sigmask(SIG_BLOCK, &set, &before);
  int signals = signalfd(-1, &set, SFD_CLOEXEC);
  dp_status *status =
      signals < 0 ? dp_status_create(DP_RESOURCE_EXHAUSTED, "signalfd: %s", strerror(errno)) : NULL;
  make_tasks(&self.launch);
  if (!status)
    status = dp_launch_choose_addresses(&self.launch);
  if (!status)
    status = start_all(&self);
  if (!status) {
    supervise(&self, signals);
    *exit_code_out = self.exit_code;
  }
  destroy_tasks(&self.launch);
  if (signals >= 0)
    close(signals);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return status;
}
