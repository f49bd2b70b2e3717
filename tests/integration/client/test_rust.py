"""A binding that was made for TensorFlow's C library works with ours: the Rust crate `tensorflow` is
built against libdownpour.so under the name libtensorflow.so, and runs its own examples.

usage: test_rust.py LIBRARY

Skipped without cargo, and if the crates are neither in the registry nor in its cache. The crate's
own build script would download a library; the test replaces it by one that names ours. The build
stays in $DOWNPOUR_CACHE/rust (default: ~/.cache/downpour/rust) for the next run.
"""

import glob
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

LIBRARY = pathlib.Path(sys.argv.pop() if len(sys.argv) > 1 else "build/libdownpour.so").resolve()
CACHE = pathlib.Path(os.environ.get("DOWNPOUR_CACHE", "~/.cache/downpour")).expanduser() / "rust"
SANITIZED = any(name in os.environ for name in ("ASAN_OPTIONS", "TSAN_OPTIONS"))
BUILD_SECONDS = 120
CRATE, SYSTEM_CRATE = "0.21.0", "0.24.0"
EXAMPLES = ("addition", "regression", "regression_savedmodel")

PROJECT = f"""[package]
name = "binding"
version = "0.0.0"
edition = "2018"
[dependencies]
tensorflow = "={CRATE}"
rand = "0.8.5"
"""
PATCH = """[patch.crates-io]
tensorflow-sys = { path = "sys" }
"""
SYSTEM = f"""[package]
name = "tensorflow-sys"
version = "{SYSTEM_CRATE}"
edition = "2018"
links = "tensorflow"
[features]
eager = []
experimental = []
examples_system_alloc = []
private-docs-rs = []
tensorflow_gpu = []
"""
BUILD_SCRIPT = """fn main() {
    println!("cargo:rerun-if-env-changed=LIBTENSORFLOW_FOLDER");
    println!("cargo:rustc-link-search=native={}", std::env::var("LIBTENSORFLOW_FOLDER").unwrap());
    println!("cargo:rustc-link-lib=dylib=tensorflow");
}
"""


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def crate_sources(name):
    home = os.environ.get("CARGO_HOME", os.path.expanduser("~/.cargo"))
    found = glob.glob(f"{home}/registry/src/*/{name}")
    return pathlib.Path(found[0]) if found else None


def cargo(folder, *arguments, timeout, **environment):
    return subprocess.run(["cargo", *arguments], cwd=folder, timeout=timeout, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env={**os.environ, **environment})


def fetch_all(folder):
    """Downloads what a project depends on, if it is not there yet. True: the build works offline."""
    for options in (["--offline"], []):
        try:
            if cargo(folder, "fetch", "--quiet", *options, timeout=60).returncode == 0:
                return True
        except subprocess.TimeoutExpired:
            pass
    return False


def fetch():
    """The folders with the crates' sources; None if they cannot be downloaded."""
    names = (f"tensorflow-{CRATE}", f"tensorflow-sys-{SYSTEM_CRATE}")
    if not all(map(crate_sources, names)):
        write(CACHE / "fetch" / "Cargo.toml", PROJECT)
        write(CACHE / "fetch" / "src" / "lib.rs", "")
        fetch_all(CACHE / "fetch")
    sources = tuple(map(crate_sources, names))
    return sources if all(sources) else None


@unittest.skipIf(SANITIZED, "a sanitizer must be there from the start")
@unittest.skipUnless(shutil.which("cargo"), "there is no cargo")
class RustTest(unittest.TestCase):
    def test_examples(self):
        sources = fetch()
        if not sources:
            self.skipTest("the crates of the registry cannot be had")
        crate, system = sources
        project = CACHE / "project"
        write(project / "Cargo.toml", PROJECT + PATCH)
        write(project / "sys" / "Cargo.toml", SYSTEM)
        write(project / "sys" / "build.rs", BUILD_SCRIPT)
        shutil.copytree(system / "src", project / "sys" / "src", dirs_exist_ok=True)
        shutil.copytree(crate / "examples", project / "examples", dirs_exist_ok=True,
                        ignore=shutil.ignore_patterns("*.rs"))
        shutil.rmtree(project / "src", ignore_errors=True)
        for name in EXAMPLES:
            write(project / "src" / "bin" / f"{name}.rs",
                  (crate / "examples" / f"{name}.rs").read_text())
        if not fetch_all(project):
            self.skipTest("what the crates need cannot be had")
        libraries = CACHE / "lib"
        libraries.mkdir(parents=True, exist_ok=True)
        for name in ("libtensorflow.so", "libdownpour.so.0"):
            (libraries / name).unlink(missing_ok=True)
            (libraries / name).symlink_to(LIBRARY)
        try:
            built = cargo(project, "build", "--quiet", "--offline", timeout=BUILD_SECONDS,
                          LIBTENSORFLOW_FOLDER=str(libraries))
        except subprocess.TimeoutExpired:
            self.skipTest(f"building the crate takes more than {BUILD_SECONDS} s here; what is "
                          "done stays for the next run")
        self.assertEqual(built.returncode, 0, built.stdout)
        for name in EXAMPLES:
            with self.subTest(example=name):
                done = subprocess.run([project / "target" / "debug" / name], cwd=project,
                                      timeout=60, text=True, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE,
                                      env={**os.environ, "LD_LIBRARY_PATH": str(libraries)})
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
