"""Ports for servers whose addresses must be known before they start, and stay theirs when they
restart.

The system's own choice (port 0) would not do: while such a server is down, the system may give its
port to anybody, to the client end of a connection too. So these ports lie outside the range from
which the system chooses, and each is held, by a name that only one process can have, for as long as
the process that chose it lives. `downpour launch` holds its ports by the same names.
"""

import errno
import pathlib
import random
import socket

FIRST, LAST = 10000, 32767
_held = []  # sockets: a name is free again when its socket is closed


def system_range():
    text = pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text()
    low, high = (int(number) for number in text.split())
    return range(low, high + 1)


def hold(port):
    """Whether the port is now this process's."""
    name = socket.socket(socket.AF_UNIX)
    try:
        name.bind(f"\0downpour-port-{port}")
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("0.0.0.0", port))
    except OSError as error:
        name.close()
        if error.errno != errno.EADDRINUSE:
            raise
        return False
    _held.append(name)
    return True


def free_ports(count):
    taken = system_range()
    ports = [port for port in range(FIRST, LAST + 1) if port not in taken]
    random.SystemRandom().shuffle(ports)
    chosen = [port for port, _ in zip((port for port in ports if hold(port)), range(count))]
    assert len(chosen) == count, f"{len(chosen)} free ports of {len(ports)}, not {count}"
    return chosen


def free_port():
    return free_ports(1)[0]
