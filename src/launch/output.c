/* The output of many tasks on one terminal. Bytes are gathered into lines; a line is printed whole,
 * with its task's name in front, so that the lines of tasks never mix. A task's standard error goes
 * to ours, its progress records to progress.c. The launcher's one thread comes here. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch/launch_internal.h"

enum { LONGEST_LINE = 1 << 16, CHUNK = 1 << 14 };

static void write_line(launch *self, FILE *file, const char *name, int color, const char *line) {
  dp_launch_progress_hide(self);
  if (self->options->color)
    fprintf(file, "\033[3%dm%-*s |\033[0m %s\n", color, self->name_width, name, line);
  else
    fprintf(file, "%-*s | %s\n", self->name_width, name, line);
  fflush(file);
}

static void take_line(launch *self, launch_task *task, int stream) {
  dp_text *line = &task->streams[stream].line;
  if (line->length > 0 && line->data[line->length - 1] == '\r')
    line->data[--line->length] = '\0';
  if (stream == STREAM_PROGRESS)
    dp_launch_progress_line(self, task, line->data ? line->data : (char[1]){0});
  else if (!task->muted)
    write_line(self, stream == STREAM_ERRORS ? stderr : stdout, task->name, task->color,
               dp_text_string(line));
  dp_text_clear(line);
}

static void take_bytes(launch *self, launch_task *task, int stream, const char *data,
                       size_t length) {
  dp_text *line = &task->streams[stream].line;
  while (length > 0) {
    const char *newline = memchr(data, '\n', length);
    size_t piece = newline ? (size_t)(newline - data) : length;
    dp_text_append(line, data, piece);
    if (newline || line->length > LONGEST_LINE)
      take_line(self, task, stream);
    piece += newline != NULL;
    data += piece;
    length -= piece;
  }
}

bool dp_launch_read(launch *self, launch_task *task, int stream) {
  char chunk[CHUNK];
  ssize_t got = read(task->streams[stream].descriptor, chunk, sizeof(chunk));
  if (got > 0)
    take_bytes(self, task, stream, chunk, (size_t)got);
  return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

void dp_launch_close(launch *self, launch_task *task, int stream) {
  launch_stream *from = &task->streams[stream];
  if (from->descriptor < 0)
    return;
  if (from->line.length > 0)
    take_line(self, task, stream);
  close(from->descriptor);
  from->descriptor = -1;
}

void dp_launch_say(launch *self, const char *format, ...) {
  char *line;
  va_list arguments;
  va_start(arguments, format);
  int length = vasprintf(&line, format, arguments);
  va_end(arguments);
  if (length < 0)
    return;
  write_line(self, stderr, "launch", 7, line);
  free(line);
}
