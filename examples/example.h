/* What the examples share: their few options, and the job that they are a task of.
 *
 *   --steps N   how many updates in all      --batch N   examples in a step
 *   --dir DIR   checkpoints and events       --data DIR  where the data is
 *   --sync      one update from the mean of all workers' gradients, instead of one from each
 *   --replicas N   with --sync: from the first N gradients; the other workers are spare */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include <downpour_train.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct example_options {
  long steps, batch, replicas; /* 0 replicas: of all workers */
  const char *dir, *data;      /* NULL: none */
  bool sync;
} example_options;

static inline void example_usage(const char *program, const char *what, const char *word) {
  fprintf(stderr,
          "%s: %s%s%s (--steps N, --batch N, --dir DIR, --data DIR, --sync, --replicas N)\n",
          program, what, word ? " " : "", word ? word : "");
  exit(2);
}

static inline example_options example_parse(int argc, char **argv, example_options options) {
  for (int i = 1; i < argc; i++) {
    const char *word = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
    long *number = strcmp(word, "--steps") == 0      ? &options.steps
                   : strcmp(word, "--batch") == 0    ? &options.batch
                   : strcmp(word, "--replicas") == 0 ? &options.replicas
                                                     : NULL;
    const char **text = strcmp(word, "--dir") == 0    ? &options.dir
                        : strcmp(word, "--data") == 0 ? &options.data
                                                      : NULL;
    if (strcmp(word, "--help") == 0) {
      printf("usage: %s [--steps N] [--batch N] [--dir DIR] [--data DIR] [--sync [--replicas N]]\n",
             argv[0]);
      exit(0);
    } else if (strcmp(word, "--sync") == 0) {
      options.sync = true;
      continue;
    } else if (!number && !text) {
      example_usage(argv[0], "there is no option", word);
    } else if (!value) {
      example_usage(argv[0], "a value is missing after", word);
    }
    char *end = "";
    if (text)
      *text = value;
    else if ((*number = strtol(value, &end, 10)) < 1 || *end)
      example_usage(argv[0], "give a number above 0 after", word);
    i++;
  }
  return options;
}

/* This task's job. A parameter server stays in here and ends with the job. */
static inline dp_job *example_job(const char *program) {
  TF_Status *status = TF_NewStatus();
  dp_job *job = dp_job_start(status);
  if (!job) {
    fprintf(stderr, "%s: %s\n", program, TF_Message(status));
    exit(1);
  }
  TF_DeleteStatus(status);
  if (dp_job_is_ps(job))
    exit(dp_job_serve(job));
  return job;
}

#endif
