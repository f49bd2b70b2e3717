/* Addresses of tasks: "host:port" and "[IPv6]:port". They come from users, clients and the
 * environment, so every character is checked. The parts are views into the caller's text. */
#include <ctype.h>

#include "cluster/cluster_spec.h"

bool dp_cluster_split_address(const char *address, dp_view *host_out, int *port_out) {
  const char *colon = strrchr(address, ':');
  int64_t port;
  if (colon == NULL || !dp_parse_int64(dp_view_of(colon + 1), &port) || port < 0 || port > 65535 ||
      !isdigit((unsigned char)colon[1]))
    return false;
  dp_view host = {address, (size_t)(colon - address)};
  if (host.length >= 2 && host.data[0] == '[' && host.data[host.length - 1] == ']')
    host = (dp_view){host.data + 1, host.length - 2};
  else if (memchr(host.data, ':', host.length) != NULL)
    return false;
  if (host.length == 0)
    return false;
  for (size_t i = 0; i < host.length; i++)
    if (!isgraph((unsigned char)host.data[i]) || strchr("/[]\"'", host.data[i]) != NULL)
      return false;
  *host_out = host;
  *port_out = (int)port;
  return true;
}

bool dp_cluster_host_is_loopback(dp_view host) {
  return dp_view_equals(host, "localhost") || dp_view_equals(host, "::1") ||
         dp_view_starts_with(host, "127.");
}
