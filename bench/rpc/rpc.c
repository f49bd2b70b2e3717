/* Measures what a gRPC call between two processes on one host costs: round trips of small calls,
 * one at a time and many at once, and the rate of large bodies in either direction. The server is a
 * child process. Prints one figure per line.
 *
 * usage: bench_rpc_rpc [seconds per figure, default 1] */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/event.h"
#include "rpc/client.h"
#include "rpc/server.h"

enum { LARGE = 64 << 20 };

static void check(dp_status *status) {
  if (status == NULL)
    return;
  fprintf(stderr, "bench_rpc: %s\n", dp_status_message(status));
  exit(1);
}

/* ---- The server: a large body is sent, received, or both --------------------------------------*/

static bool handle(void *arg, dp_rpc_call *call) {
  dp_buffer *large = arg;
  dp_rope body = {0};
  if (strcmp(dp_rpc_call_path(call), "/bench/Get") == 0)
    dp_rope_append_piece(&body, dp_buffer_retain(large), large->data, large->size);
  else if (strcmp(dp_rpc_call_path(call), "/bench/Echo") == 0)
    dp_rope_append_rope(&body, dp_rpc_call_request(call));
  dp_rpc_call_reply(call, &body);
  return true;
}

static dp_buffer *make_large(void) {
  dp_buffer *buffer;
  check(dp_buffer_create(LARGE, &buffer));
  memset(buffer->data, 1, LARGE);
  return buffer;
}

static void serve(int port_pipe) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const char *addresses[] = {"127.0.0.1:0"};
  dp_rpc_server_options options = {.addresses = addresses, .address_count = 1};
  dp_rpc_server *server;
  check(dp_rpc_server_create(&options, handle, make_large(), &server));
  check(dp_rpc_server_start(server));
  int port = dp_rpc_server_port(server);
  if (write(port_pipe, &port, sizeof(port)) != sizeof(port))
    exit(1);
  for (;;)
    pause();
}

static pid_t start_server(int *port_out) {
  int ends[2];
  if (pipe(ends) != 0)
    exit(1);
  pid_t child = fork();
  if (child == 0)
    serve(ends[1]);
  if (child < 0 || read(ends[0], port_out, sizeof(*port_out)) != sizeof(*port_out))
    exit(1);
  return child;
}

/* ---- The client: keeps a number of calls going until the time is over -------------------------*/

typedef struct load {
  dp_rpc_channel *channel;
  const char *path;
  dp_buffer *body; /* NULL: a small one */
  int64_t end;
  atomic_long done;
  atomic_int live;
  dp_event over;
} load;

static void on_done(void *arg, dp_status *status, dp_rope *response);

static void start_one(load *work) {
  dp_rope request = {0};
  if (work->body != NULL)
    dp_rope_append_piece(&request, dp_buffer_retain(work->body), work->body->data,
                         work->body->size);
  else
    check(dp_rope_append(&request, "0123456789abcdef0123456789abcdef", 32));
  dp_rpc_channel_call(work->channel, work->path, &request, DP_FOREVER, NULL, DP_RPC_FAIL_FAST,
                      on_done, work);
}

static void on_done(void *arg, dp_status *status, dp_rope *response) {
  load *work = arg;
  check(status);
  atomic_fetch_add(&work->done, 1);
  if (dp_clock_nanos() < work->end)
    start_one(work);
  else if (atomic_fetch_sub(&work->live, 1) == 1)
    dp_event_notify(&work->over);
}

/* Calls per second with `live` calls at once. */
static double measure(dp_rpc_channel *channel, const char *path, dp_buffer *body, int live,
                      double seconds) {
  load work = {.channel = channel, .path = path, .body = body};
  atomic_init(&work.live, live);
  dp_event_init(&work.over);
  int64_t begin = dp_clock_nanos();
  work.end = begin + (int64_t)(seconds * 1e9);
  for (int i = 0; i < live; i++)
    start_one(&work);
  dp_event_wait(&work.over);
  double elapsed = (double)(dp_clock_nanos() - begin) / 1e9;
  dp_event_deinit(&work.over);
  return (double)atomic_load(&work.done) / elapsed;
}

int main(int argc, char **argv) {
  double seconds = argc > 1 ? atof(argv[1]) : 1;
  int port;
  pid_t child = start_server(&port);
  dp_rpc_client *client;
  check(dp_rpc_client_create(0, &client));
  char target[32];
  snprintf(target, sizeof(target), "127.0.0.1:%d", port);
  dp_rpc_channel *channel = dp_rpc_channel_create(client, target, NULL);
  dp_buffer *large = make_large();
  measure(channel, "/bench/Echo", NULL, 1, 0.1);
  printf("small call, one at a time   %8.1f us\n",
         1e6 / measure(channel, "/bench/Echo", NULL, 1, seconds));
  for (int live = 8; live <= 64; live *= 8)
    printf("small calls, %2d at once     %8.0f calls/s\n", live,
           measure(channel, "/bench/Echo", NULL, live, seconds));
  for (int live = 1; live <= 4; live *= 4) {
    printf("64 MiB sent, %d at once      %8.2f GB/s\n", live,
           measure(channel, "/bench/Put", large, live, seconds) * LARGE / 1e9);
    printf("64 MiB received, %d at once  %8.2f GB/s\n", live,
           measure(channel, "/bench/Get", NULL, live, seconds) * LARGE / 1e9);
  }
  dp_buffer_release(large);
  dp_rpc_channel_release(channel);
  dp_rpc_client_destroy(client);
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  return 0;
}
