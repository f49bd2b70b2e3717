"""Downpour's server in a Python process, in place of TensorFlow's.

    import downpour
    server = downpour.Server({"ps": ["localhost:2222"], "worker": ["localhost:2223"]},
                             job_name="ps", task_index=0)
    server.join()

`downpour.Server` takes what `tf.distribute.Server` takes, so that a script changes one line. It
runs inside the process, by ctypes over libdownpour.so, and needs no TensorFlow itself. The library
is looked for in $DOWNPOUR_LIBRARY, beside this package, in the build folder of a source tree, and
where the system keeps libraries.
"""
import ctypes
import os
import pathlib
import threading

__all__ = ["Server", "ServerError"]


class ServerError(RuntimeError):
    """What the library refused to do. `code` is TensorFlow's number for the kind of error."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


# ---- The library ----

def _candidates():
    here = pathlib.Path(__file__).resolve().parent
    if os.environ.get("DOWNPOUR_LIBRARY"):
        yield os.environ["DOWNPOUR_LIBRARY"]
        return
    for path in (here / "libdownpour.so", here.parents[1] / "build" / "libdownpour.so"):
        if path.exists():
            yield str(path)
    yield "libdownpour.so.0"


def _load():
    # The process may hold TensorFlow, which has functions of the same names: ours come first here.
    mode = os.RTLD_NOW | os.RTLD_LOCAL | getattr(os, "RTLD_DEEPBIND", 0)
    problems = []
    for path in _candidates():
        try:
            library = ctypes.CDLL(path, mode=mode)
        except OSError as error:
            problems.append(str(error))
            continue
        pointer, text = ctypes.c_void_p, ctypes.c_char_p
        for name, result, *arguments in (
                ("TF_NewStatus", pointer), ("TF_DeleteStatus", None, pointer),
                ("TF_GetCode", ctypes.c_int, pointer), ("TF_Message", text, pointer),
                ("TF_NewServer", pointer, text, ctypes.c_size_t, pointer),
                ("TF_ServerStart", None, pointer, pointer),
                ("TF_ServerStop", None, pointer, pointer),
                ("TF_ServerJoin", None, pointer, pointer),
                ("TF_ServerTarget", text, pointer), ("TF_DeleteServer", None, pointer)):
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
        return library
    raise ImportError("downpour: no libdownpour.so that loads; set DOWNPOUR_LIBRARY to its path ("
                      + "; ".join(problems) + ")")


_lock = threading.Lock()
_library = None


def _get_library():
    global _library
    with _lock:
        if _library is None:
            _library = _load()
        return _library


def _checked(library, function, *arguments):
    """Calls a function whose last argument is a status; raises what that says."""
    status = library.TF_NewStatus()
    try:
        result = function(*arguments, status)
        code = library.TF_GetCode(status)
        if code:
            raise ServerError(code, library.TF_Message(status).decode(errors="replace"))
        return result
    finally:
        library.TF_DeleteStatus(status)


# ---- ServerDef, as bytes ----

def _varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def _number(field, value):
    return _varint(field << 3) + _varint(value) if value else b""


def _bytes(field, value):
    value = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _tasks(addresses):
    """A job's tasks, a list or a dictionary by number, as {number: address}."""
    if isinstance(addresses, str):
        raise TypeError("a job's tasks are a list of addresses, not one text")
    if hasattr(addresses, "items"):
        return {int(index): address for index, address in addresses.items()}
    return dict(enumerate(addresses))


def _cluster_bytes(cluster):
    if hasattr(cluster, "as_dict"):  # tf.train.ClusterSpec
        cluster = cluster.as_dict()
    if hasattr(cluster, "SerializeToString"):  # ClusterDef
        return cluster.SerializeToString()
    out = b""
    for job, addresses in dict(cluster).items():
        tasks = b"".join(_bytes(2, _number(1, index) + _bytes(2, address))
                         for index, address in sorted(_tasks(addresses).items()))
        out += _bytes(1, _bytes(1, job) + tasks)
    return out


def _only_task(cluster):
    """The job and the task of a cluster that has but one; TensorFlow's rule for leaving them out."""
    if hasattr(cluster, "as_dict"):
        cluster = cluster.as_dict()
    jobs = dict(cluster)
    if len(jobs) != 1:
        raise ValueError("Must specify an explicit `job_name`: the cluster has several jobs.")
    return next(iter(jobs)), _tasks(next(iter(jobs.values())))


def _server_bytes(cluster, job_name, task_index, protocol, config):
    if job_name is None or task_index is None:
        job, tasks = _only_task(cluster)
        job_name = job if job_name is None else job_name
        if task_index is None:
            if len(tasks) != 1:
                raise ValueError("Must specify an explicit `task_index`: the job has several tasks.")
            task_index = next(iter(tasks))
    parts = [_bytes(1, _cluster_bytes(cluster)), _bytes(2, job_name), _number(3, task_index)]
    if config is not None:
        parts.append(_bytes(4, config.SerializeToString()))
    parts.append(_bytes(5, protocol or "grpc"))
    return b"".join(parts)


# ---- The server ----

class Server:
    """One task of a cluster, in this process. Arguments are those of tf.distribute.Server: a
    ClusterSpec, a dictionary or a ClusterDef, or a whole ServerDef alone."""

    def __init__(self, server_or_cluster_def, job_name=None, task_index=None, protocol=None,
                 config=None, start=True):
        self._server = None
        if hasattr(server_or_cluster_def, "job_name"):  # ServerDef
            message = server_or_cluster_def.SerializeToString()
        else:
            message = _server_bytes(server_or_cluster_def, job_name, task_index, protocol, config)
        self._library = _get_library()
        self._server = _checked(self._library, self._library.TF_NewServer, message, len(message))
        if start:
            self.start()

    @staticmethod
    def create_local_server(config=None, start=True):
        """A cluster of one task, on a free port of this machine."""
        return Server({"localhost": ["localhost:0"]}, protocol="grpc", config=config, start=start)

    @property
    def target(self):
        """What a session connects to: "grpc://host:port"."""
        return self._library.TF_ServerTarget(self._server).decode()

    def start(self):
        _checked(self._library, self._library.TF_ServerStart, self._server)

    def stop(self):
        """Ends the server; calls in flight get two seconds. TensorFlow's own cannot do that."""
        _checked(self._library, self._library.TF_ServerStop, self._server)

    def join(self):
        """Blocks until the server has been stopped; Ctrl-C is heard."""
        waiter = threading.Thread(
            target=lambda: _checked(self._library, self._library.TF_ServerJoin, self._server),
            daemon=True)
        waiter.start()
        while waiter.is_alive():
            waiter.join(0.5)

    def __del__(self):
        server, self._server = self._server, None
        if server:
            self._library.TF_DeleteServer(server)
