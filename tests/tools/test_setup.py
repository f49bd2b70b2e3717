"""tools/setup must say exactly what to type when it may not install, and do nothing when it need not."""

import os
import pathlib
import subprocess
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"

# Knows every package but those in $MISSING, as dpkg-query -W -f '${Status} ${Package}\n' would say.
DPKG_QUERY = """#!/bin/sh
shift 3
for package in "$@"; do
  case " $MISSING " in
    *" $package "*) echo "dpkg-query: no packages found matching $package" >&2 ;;
    *) echo "installed $package" ;;
  esac
done
[ -z "$MISSING" ]
"""


class Setup(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.stubs = pathlib.Path(folder.name)
        self.stub("dpkg-query", DPKG_QUERY)
        self.stub("id", "#!/bin/sh\necho 1000\n")
        self.stub("sudo", "#!/bin/sh\nexit 1\n")
        self.stub("apt-get", '#!/bin/sh\necho "$@" >>"$(dirname "$0")/apt-calls"\n')

    def stub(self, name, text):
        path = self.stubs / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def run_setup(self, *groups, missing=""):
        environment = dict(os.environ, PATH=f"{self.stubs}:{os.environ['PATH']}", MISSING=missing)
        done = subprocess.run([str(TOOLS / "setup"), *groups], env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.returncode, done.stdout

    def test_silent_when_all_is_there(self):
        self.assertEqual(self.run_setup("build", "lint", "test", "fuzz", "bench"), (0, ""))

    def test_prints_the_line_to_type_without_root(self):
        code, text = self.run_setup("build", missing="ninja-build meson clang")
        self.assertEqual(code, 1)
        self.assertIn("apt-get install --no-install-recommends meson ninja-build\n", text)

    def test_installs_what_is_missing_as_root(self):
        self.stub("id", "#!/bin/sh\necho 0\n")
        code, text = self.run_setup("lint", missing="clang-format")
        self.assertEqual(code, 0, text)
        calls = (self.stubs / "apt-calls").read_text(encoding="utf-8")
        self.assertIn("install -y --no-install-recommends clang-format\n", calls)

    def test_asks_for_help_when_apt_fails(self):
        self.stub("id", "#!/bin/sh\necho 0\n")
        self.stub("apt-get", "#!/bin/sh\necho E: no network\nexit 100\n")
        code, text = self.run_setup("lint", missing="clang-format")
        self.assertEqual(code, 1)
        self.assertIn("E: no network", text)
        self.assertIn("by hand", text)

    def test_unknown_group(self):
        code, text = self.run_setup("nonsense")
        self.assertEqual(code, 2)
        self.assertIn('no group "nonsense"', text)


if __name__ == "__main__":
    unittest.main()
