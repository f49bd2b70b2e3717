"""libdownpour.so loaded with dlopen into a running program, as plugins and interpreters load it.

usage: test_load.py LIBRARY
"""

import ctypes
import os
import sys
import unittest

LIBRARY = sys.argv.pop() if len(sys.argv) > 1 else "build/libdownpour.so"
SANITIZED = any(name in os.environ for name in ("ASAN_OPTIONS", "TSAN_OPTIONS"))


@unittest.skipIf(SANITIZED, "a sanitizer must be there from the start")
class LoadTest(unittest.TestCase):
    def test_load_and_call(self):
        library = ctypes.CDLL(os.path.abspath(LIBRARY))
        library.TF_NewStatus.restype = ctypes.c_void_p
        library.TF_GetCode.argtypes = [ctypes.c_void_p]
        library.TF_DeleteStatus.argtypes = [ctypes.c_void_p]
        status = library.TF_NewStatus()
        self.assertEqual(library.TF_GetCode(status), 0)
        library.TF_DeleteStatus(status)


if __name__ == "__main__":
    unittest.main()
