"""The layering check must find what it exists to find."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"


class CheckRanks(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)
        self.write("src/base/status.h", "#include <stddef.h>\n")
        self.write("src/tensor/tensor.h", '#include "base/status.h"\n')
        self.write("include/downpour.h", "#include <stdint.h>\n")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def check(self):
        done = subprocess.run([sys.executable, str(TOOLS / "check-ranks"), str(self.root)],
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.returncode, done.stdout

    def assert_complains(self, where, about):
        code, text = self.check()
        self.assertEqual(code, 1, text)
        self.assertIn(where, text)
        self.assertIn(about, text)

    def test_downward_includes_pass(self):
        self.write("src/wire/codec.c", '#include "tensor/tensor.h"\n#include "wire/codec.h"\n')
        self.write("src/server/server.c", '#include "base/status.h"\n#include "downpour.h"\n')
        self.write("src/base/map.c", '#include "base/map_internal.h"\n#include <string.h>\n')
        self.assertEqual(self.check()[0], 0, self.check()[1])

    def test_upward_include_fails_with_its_line(self):
        self.write("src/base/log.c", '#include "base/status.h"\n\n#include "runtime/step.h"\n')
        self.assert_complains("src/base/log.c:3:", "points upwards: base has rank 0")

    def test_angle_brackets_do_not_hide_an_upward_include(self):
        self.write("src/graph/graph.c", "# include <planner/place.h>\n")
        self.assert_complains("src/graph/graph.c:1:", "points upwards")

    def test_equal_rank_fails_except_wire_to_tensor(self):
        self.write("src/tensor/rope.c", '#include "wire/codec.h"\n')
        self.assert_complains("src/tensor/rope.c:1:", "points upwards")

    def test_internal_header_of_another_room_fails(self):
        self.write("src/graph/graph.c", '#include "tensor/pool_internal.h"\n')
        self.assert_complains("src/graph/graph.c:1:", "internal to tensor")

    def test_include_without_a_room_fails(self):
        self.write("src/graph/graph.c", '#include "attr.h"\n')
        self.assert_complains("src/graph/graph.c:1:", "has no room")

    def test_relative_include_fails(self):
        self.write("src/graph/graph.c", '#include "../runtime/step.h"\n')
        self.assert_complains("src/graph/graph.c:1:", "relative path")

    def test_a_room_does_not_include_tests(self):
        self.write("src/server/server.c", '#include "tests/helper.h"\n')
        self.assert_complains("src/server/server.c:1:", "outside src/")

    def test_public_header_that_needs_src_fails(self):
        self.write("include/downpour.h", '#include "base/status.h"\n')
        self.assert_complains("include/downpour.h:1:", "not a public header")

    def test_downward_includes_between_inner_rooms_pass(self):
        self.write("src/kernels/families.c", '#include "kernels/data/data.h"\n')
        self.write("src/kernels/math/binary.c", '#include "base/status.h"\n'
                   '#include "kernels/loops/binary.h"\n#include "kernels/math/math_internal.h"\n')
        self.write("src/kernels/shared/move.h", '#include "kernels/loops/move.h"\n')
        self.write("src/server/task.c", '#include "kernels/kernels.h"\n')
        self.assertEqual(self.check()[0], 0, self.check()[1])

    def test_upward_include_between_inner_rooms_fails(self):
        self.write("src/kernels/shared/move.c", '#include "kernels/shared/move.h"\n'
                   '#include "kernels/products/gemm.h"\n')
        self.assert_complains("src/kernels/shared/move.c:2:",
                              "points upwards: kernels/shared has inner rank 2")

    def test_one_family_does_not_include_another(self):
        self.write("src/kernels/nn/softmax.c", '#include "kernels/math/reduce.h"\n')
        self.assert_complains("src/kernels/nn/softmax.c:1:", "points sideways: kernels/nn")

    def test_internal_header_of_another_inner_room_fails(self):
        self.write("src/kernels/nn/softmax.c", '#include "kernels/loops/stream_internal.h"\n')
        self.assert_complains("src/kernels/nn/softmax.c:1:", "internal to kernels/loops")

    def test_internal_header_of_an_inner_room_fails_at_the_top(self):
        self.write("src/kernels/families.c", '#include "kernels/lists/list_internal.h"\n')
        self.assert_complains("src/kernels/families.c:1:", "internal to kernels/lists")

    def test_an_inner_room_does_not_include_the_top(self):
        self.write("src/kernels/data/iterator.c", '#include "kernels/kernels.h"\n')
        self.assert_complains("src/kernels/data/iterator.c:1:", "at the top of kernels")

    def test_other_rooms_do_not_include_an_inner_room(self):
        self.write("src/client/session.c", '#include "kernels/shared/move.h"\n')
        self.assert_complains("src/client/session.c:1:", "inside kernels")

    def test_unknown_inner_room_fails(self):
        self.write("src/kernels/attic/old.c", "#include <stdio.h>\n")
        self.assert_complains("src/kernels/attic/old.c:1:", "has no inner rank")

    def test_unknown_room_fails(self):
        self.write("src/attic/old.c", "#include <stdio.h>\n")
        self.assert_complains("src/attic/old.c:1:", "has no rank")


if __name__ == "__main__":
    unittest.main()
