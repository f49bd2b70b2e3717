/* Ports for the tasks of a local cluster. A task that is started again needs the port that it had.
 * A port that the system chose would not do: while the task is away, the system may give it to
 * another process, even for the client end of a connection. So ports are chosen outside the
 * system's range. An abstract socket with a name of the port, which only one process can bind,
 * keeps other launchers from choosing it too. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/philox.h"
#include "launch/launch_internal.h"

enum { FIRST_PORT = 10000, LAST_PORT = 32767, PORT_COUNT = LAST_PORT - FIRST_PORT + 1 };

typedef struct port_range {
  int low, high;
} port_range;

/* The range from which the system chooses ports; Linux's default when it cannot be read. */
static port_range system_range(void) {
  port_range range = {32768, 60999};
  FILE *file = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
  if (!file)
    return range;
  if (fscanf(file, "%d %d", &range.low, &range.high) != 2)
    range = (port_range){32768, 60999};
  fclose(file);
  return range;
}

static bool is_free(int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), reuse = 1;
  bool free = descriptor >= 0 &&
              setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof(reuse)) == 0 &&
              bind(descriptor, (struct sockaddr *)&address, sizeof(address)) == 0;
  if (descriptor >= 0)
    close(descriptor);
  return free;
}

/* Binds the port's name; the descriptor, or -1. The name is abstract: it goes with the process. */
static int bind_name(int port) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  int length =
      snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "downpour-port-%d", port);
  socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
  int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor >= 0 && bind(descriptor, (struct sockaddr *)&address, size) == 0)
    return descriptor;
  if (descriptor >= 0)
    close(descriptor);
  return -1;
}

static int hold(int port) {
  int descriptor = bind_name(port);
  if (descriptor < 0 || is_free(port))
    return descriptor;
  close(descriptor);
  return -1;
}

int dp_launch_hold_port(int *port_out) {
  port_range taken = system_range();
  int start = (int)(dp_random_seed() % PORT_COUNT);
  for (int i = 0; i < PORT_COUNT; i++) {
    int port = FIRST_PORT + (start + i) % PORT_COUNT;
    int descriptor = port >= taken.low && port <= taken.high ? -1 : hold(port);
    if (descriptor < 0)
      continue;
    *port_out = port;
    return descriptor;
  }
  errno = EADDRINUSE;
  return -1;
}
