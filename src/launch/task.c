/* One task of a local cluster: its address, its TF_CONFIG, its process. A task runs in a process
 * group of its own, so that a Ctrl-C at the terminal reaches it only once, through the launcher.
 * The kernel kills the task when the launcher dies, however that happens. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "launch/launch_internal.h"

enum { PROGRESS_DESCRIPTOR = 3 }; /* one digit: shell redirections take no more */

/* ---- Addresses ---- */
dp_status *dp_launch_choose_addresses(launch *self) {
  for (int i = 0; i < self->task_count; i++) {
    launch_task *task = &self->tasks[i];
    int port = 0;
    task->port_holder = dp_launch_hold_port(&port);
    if (task->port_holder < 0)
      return dp_status_create(DP_RESOURCE_EXHAUSTED, "no free port for %s: %s", task->name,
                              strerror(errno));
    dp_text text = {0};
    dp_text_printf(&text, "localhost:%d", port);
    self->addresses[i] = dp_text_take(&text);
  }
  return NULL;
}

static void add_job(const launch *self, const char *job, dp_text *text) {
  const char *between = "";
  dp_text_printf(text, "\"%s\": [", job);
  for (int i = 0; i < self->task_count; i++) {
    if (strcmp(self->tasks[i].job, job) != 0)
      continue;
    dp_text_printf(text, "%s\"%s\"", between, self->addresses[i]);
    between = ", ";
  }
  dp_text_add(text, "]");
}

/* {"cluster": {...}, "task": {"type": "worker", "index": 0}}; malloc'd. */
static char *task_config(const launch *self, const launch_task *task) {
  dp_text text = {0};
  dp_text_add(&text, "{\"cluster\": {");
  if (self->options->ps > 0) {
    add_job(self, "ps", &text);
    dp_text_add(&text, ", ");
  }
  add_job(self, "worker", &text);
  dp_text_printf(&text, "}, \"task\": {\"type\": \"%s\", \"index\": %d}}", task->job, task->index);
  return dp_text_take(&text);
}

/* ---- The process ---- */
/* In the child, after fork: becomes the program, or writes errno to `trouble` and ends. */
static void become(const launch *self, const char *config, const int ends[STREAM_COUNT],
                   int trouble) {
  sigset_t none;
  sigemptyset(&none);
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setenv("TF_CONFIG", config, 1);
  setenv("DOWNPOUR_PROGRESS_FD", "3", 1);
  setenv("PYTHONUNBUFFERED", "1", 0); /* lines as they are printed, not in blocks */
  int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(ends[STREAM_OUTPUT], STDOUT_FILENO);
  dup2(ends[STREAM_ERRORS], STDERR_FILENO);
  if (trouble == PROGRESS_DESCRIPTOR)
    trouble = fcntl(trouble, F_DUPFD_CLOEXEC, PROGRESS_DESCRIPTOR + 1);
  if (ends[STREAM_PROGRESS] == PROGRESS_DESCRIPTOR)
    fcntl(PROGRESS_DESCRIPTOR, F_SETFD, 0);
  else
    dup2(ends[STREAM_PROGRESS], PROGRESS_DESCRIPTOR);
  sigprocmask(SIG_SETMASK, &none, NULL);
  execvp(self->options->program[0], self->options->program);
  int problem = errno;
  if (write(trouble, &problem, sizeof(problem)) < 0)
    _exit(126);
  _exit(127);
}

static dp_status *open_pipes(int pipes[STREAM_COUNT + 1][2]) {
  for (int i = 0; i <= STREAM_COUNT; i++)
    if (pipe2(pipes[i], O_CLOEXEC) != 0) {
      dp_status *status = dp_status_create(DP_RESOURCE_EXHAUSTED, "pipe: %s", strerror(errno));
      while (i-- > 0) {
        close(pipes[i][0]);
        close(pipes[i][1]);
      }
      return status;
    }
  return NULL;
}

/* Waits until the program runs, which closes the pipe, or until the child writes why it cannot. */
static dp_status *confirm(const launch *self, int trouble) {
  int problem = 0;
  ssize_t got;
  do
    got = read(trouble, &problem, sizeof(problem));
  while (got < 0 && errno == EINTR);
  if (got == sizeof(problem))
    return DP_INVALID("%s cannot be run: %s; give a program that is on the PATH, or its path",
                      self->options->program[0], strerror(problem));
  return NULL;
}

dp_status *dp_launch_start(launch *self, launch_task *task) {
  int pipes[STREAM_COUNT + 1][2]; /* the last says whether the program could be run */
  DP_RETURN_IF_ERROR(open_pipes(pipes));
  char *config = task_config(self, task);
  pid_t pid = fork();
  if (pid == 0)
    become(self, config, (int[]){pipes[0][1], pipes[1][1], pipes[2][1]}, pipes[STREAM_COUNT][1]);
  int problem = errno;
  dp_free(config);
  for (int i = 0; i <= STREAM_COUNT; i++)
    close(pipes[i][1]);
  dp_status *status = pid < 0 ? dp_status_create(DP_RESOURCE_EXHAUSTED, "%s: fork: %s", task->name,
                                                 strerror(problem))
                              : confirm(self, pipes[STREAM_COUNT][0]);
  close(pipes[STREAM_COUNT][0]);
  for (int i = 0; i < STREAM_COUNT; i++) {
    if (status) {
      close(pipes[i][0]);
      continue;
    }
    fcntl(pipes[i][0], F_SETFL, O_NONBLOCK);
    task->streams[i].descriptor = pipes[i][0];
  }
  if (!status) {
    setpgid(pid, pid); /* the child does it too; either may be first */
    task->pid = pid;
    task->start_again_nanos = 0;
  }
  return status;
}

void dp_launch_signal(const launch_task *task, int number) {
  if (task->pid > 0)
    kill(-task->pid, number);
}
