"""Downpour's server in a Python process, in place of TensorFlow's.

    import downpour
    server = downpour.Server({"ps": ["localhost:2222"], "worker": ["localhost:2223"]},
                             job_name="ps", task_index=0)
    server.join()

`downpour.Server` takes the arguments of `tf.distribute.Server`, so that only one line of a script
changes. The server runs inside the process: the module calls libdownpour.so through ctypes. It needs
no TensorFlow. The library is $DOWNPOUR_LIBRARY if that is set; else the one beside this package, in
the build folder of a source tree, or where the system keeps libraries.
"""
import ctypes
import os
import pathlib
import threading

__all__ = ["Server", "ServerError"]


class ServerError(RuntimeError):
    """An error of the library. `code` is TensorFlow's number of it, such as 3 for INVALID_ARGUMENT."""

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
    # TensorFlow, if the process has loaded it, exports functions of the same names. RTLD_DEEPBIND
    # makes the library use its own.
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
    """Calls a function whose last argument is a TF_Status, and raises ServerError if that is not OK."""
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
    """{number: address} of a job whose tasks are given as a list of addresses or in that form."""
    if isinstance(addresses, str):
        raise TypeError("a job's tasks are a list of addresses, not one text")
    if hasattr(addresses, "items"):
        return {int(index): address for index, address in addresses.items()}
    return dict(enumerate(addresses))


def _jobs(cluster):
    """{name: {number: address}} of a ClusterSpec, a ClusterDef or a dictionary."""
    if hasattr(cluster, "as_dict"):  # tf.train.ClusterSpec
        cluster = cluster.as_dict()
    elif hasattr(cluster, "SerializeToString"):  # ClusterDef
        cluster = {job.name: dict(job.tasks) for job in cluster.job}
    return {job: _tasks(addresses) for job, addresses in dict(cluster).items()}


def _cluster_bytes(jobs):
    out = b""
    for job, tasks in jobs.items():
        entries = (_bytes(2, _number(1, index) + _bytes(2, address))
                   for index, address in sorted(tasks.items()))
        out += _bytes(1, _bytes(1, job) + b"".join(entries))
    return out


def _choose_task(jobs, job_name, task_index):
    """Job and task, where what is not given must be the only one, as in TensorFlow."""
    if job_name is None:
        if len(jobs) != 1:
            raise ValueError("Must specify an explicit `job_name`: the cluster has several jobs.")
        job_name = next(iter(jobs))
    if task_index is None:
        if job_name not in jobs:
            raise ValueError(f"No such job in cluster: {job_name!r}")
        if len(jobs[job_name]) != 1:
            raise ValueError("Must specify an explicit `task_index`: the job has several tasks.")
        task_index = next(iter(jobs[job_name]))
    return job_name, task_index


def _server_bytes(definition, job_name, task_index, protocol, config):
    """A ServerDef. What is given beside a ServerDef counts more than what is in it: of a field that
    is in the bytes twice the second one counts, and two messages are merged."""
    if hasattr(definition, "job_name"):  # ServerDef
        parts = [definition.SerializeToString()]
    else:
        jobs = _jobs(definition)
        job_name, task_index = _choose_task(jobs, job_name, task_index)
        protocol = "grpc" if protocol is None else protocol
        parts = [_bytes(1, _cluster_bytes(jobs))]
    if job_name is not None:
        parts.append(_bytes(2, job_name))
    if task_index is not None:
        parts.append(_varint(3 << 3) + _varint(task_index))
    if config is not None:
        parts.append(_bytes(4, config.SerializeToString()))
    if protocol is not None:
        parts.append(_bytes(5, protocol))
    return b"".join(parts)


# ---- The server ----

class Server:
    """One task of a cluster, in this process. The arguments are those of tf.distribute.Server: a
    cluster (ClusterSpec, dictionary or ClusterDef) and the task's place in it, or a ServerDef.

    A started server lives until stop() or the end of the process, also when nobody holds the object
    any more, as TensorFlow's does: tf.estimator starts a server and drops it. Any thread may call the
    methods."""

    def __init__(self, server_or_cluster_def, job_name=None, task_index=None, protocol=None,
                 config=None, start=True):
        self._server = None
        self._is_running = False
        message = _server_bytes(server_or_cluster_def, job_name, task_index, protocol, config)
        self._library = _get_library()
        self._server = _checked(self._library, self._library.TF_NewServer, message, len(message))
        if start:
            self.start()

    @staticmethod
    def create_local_server(config=None, start=True):
        """Makes a cluster of one task on a free port of this machine."""
        return Server({"localhost": ["localhost:0"]}, protocol="grpc", config=config, start=start)

    @property
    def target(self):
        """The address that a session connects to: "grpc://host:port"."""
        return self._library.TF_ServerTarget(self._server).decode()

    def start(self):
        _checked(self._library, self._library.TF_ServerStart, self._server)
        self._is_running = True

    def stop(self):
        """Ends the server; running calls get two seconds. tf.distribute.Server has no such method."""
        _checked(self._library, self._library.TF_ServerStop, self._server)
        self._is_running = False

    def join(self):
        """Blocks until the server is stopped. Ctrl-C interrupts it."""
        failures = []

        def wait():
            try:
                _checked(self._library, self._library.TF_ServerJoin, self._server)
            except Exception as failure:  # for the thread that called join
                failures.append(failure)
        waiter = threading.Thread(target=wait, daemon=True)
        waiter.start()
        while waiter.is_alive():
            waiter.join(0.5)
        if failures:
            raise failures[0]

    def __del__(self):
        server, self._server = self._server, None
        if server and not self._is_running:
            self._library.TF_DeleteServer(server)
