"""One side of the comparison: a process that runs graphs through TensorFlow's C API.

usage: driver.py LIBRARY...        (the last one has the API; those before it are loaded first)

Both sides run this very file; only the library differs. Commands come as pickles on standard input,
answers go as pickles to standard output: (None, result) or (message, None).
"""

import ctypes
import pickle
import sys
import time

Pointer = ctypes.c_void_p


class Api:
    """The few functions needed, with errors as exceptions."""

    def __init__(self, libraries):
        for path in libraries[:-1]:
            ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        self.library = ctypes.CDLL(libraries[-1])
        self.declare("TF_GetCode", ctypes.c_int, Pointer)
        self.declare("TF_Message", ctypes.c_char_p, Pointer)
        for name in ("TF_NewStatus", "TF_NewGraph", "TF_NewSessionOptions",
                     "TF_NewImportGraphDefOptions"):
            self.declare(name, Pointer)
        self.declare("TF_NewBufferFromString", Pointer, ctypes.c_char_p, ctypes.c_size_t)
        self.declare("TF_NewSession", Pointer, Pointer, Pointer, Pointer)
        self.declare("TF_GraphOperationByName", Pointer, Pointer, ctypes.c_char_p)
        self.declare("TF_GraphImportGraphDef", None, *[Pointer] * 4)
        self.declare("TF_SetConfig", None, Pointer, ctypes.c_char_p, ctypes.c_size_t, Pointer)
        for name in ("TF_CloseSession", "TF_DeleteSession"):
            self.declare(name, None, Pointer, Pointer)
        for name in ("TF_DeleteGraph", "TF_DeleteBuffer", "TF_DeleteSessionOptions",
                     "TF_DeleteImportGraphDefOptions"):
            self.declare(name, None, Pointer)
        self.declare("TF_SessionRun", None, *[Pointer] * 4, ctypes.c_int, Pointer, Pointer,
                     ctypes.c_int, Pointer, ctypes.c_int, Pointer, Pointer)
        self.status = self.TF_NewStatus()

    def declare(self, name, result, *arguments):
        function = getattr(self.library, name)
        function.restype = result
        function.argtypes = list(arguments)
        setattr(self, name, function)

    def check(self):
        if self.TF_GetCode(self.status):
            raise RuntimeError(self.TF_Message(self.status).decode(errors="replace"))


class Session:
    def __init__(self, api, graph_def, config, starts):
        self.api = api
        self.targets = {}
        self.graph = api.TF_NewGraph()
        buffer = api.TF_NewBufferFromString(graph_def, len(graph_def))
        options = api.TF_NewImportGraphDefOptions()
        api.TF_GraphImportGraphDef(self.graph, buffer, options, api.status)
        api.TF_DeleteImportGraphDefOptions(options)
        api.TF_DeleteBuffer(buffer)
        api.check()
        options = api.TF_NewSessionOptions()
        api.TF_SetConfig(options, config, len(config), api.status)
        api.check()
        self.session = api.TF_NewSession(self.graph, options, api.status)
        api.TF_DeleteSessionOptions(options)
        api.check()
        for name in starts:
            self.run(name, 1)

    def target(self, name):
        if name not in self.targets:
            operation = self.api.TF_GraphOperationByName(self.graph, name.encode())
            if not operation:
                raise RuntimeError(f"no operation {name}")
            self.targets[name] = (Pointer * 1)(operation)
        return self.targets[name]

    def run(self, name, steps):
        """Seconds that each of the steps took."""
        call, status, session = self.api.TF_SessionRun, self.api.status, self.session
        target = self.target(name)
        times = []
        for _ in range(steps):
            begin = time.perf_counter()
            call(session, None, None, None, 0, None, None, 0, target, 1, None, status)
            times.append(time.perf_counter() - begin)
            self.api.check()
        return times

    def close(self):
        self.api.TF_CloseSession(self.session, self.api.status)
        self.api.TF_DeleteSession(self.session, self.api.status)
        self.api.TF_DeleteGraph(self.graph)


def main():
    api = Api(sys.argv[1:])
    session = None
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while True:
        try:
            command, *arguments = pickle.load(source)
        except EOFError:
            return
        try:
            result = None
            if command == "open":
                session = Session(api, *arguments)
            elif command == "run":
                result = session.run(*arguments)
            elif command == "close" and session:
                session.close()
                session = None
            pickle.dump((None, result), sink)
        except RuntimeError as error:
            pickle.dump((str(error), None), sink)
        sink.flush()


if __name__ == "__main__":
    main()
