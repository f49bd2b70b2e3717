"""Every function of TensorFlow's c_api.h is exported by our library, or docs/c_api.md says why it
is left out."""
import os
import pathlib
import re
import subprocess

import tensorflow as tf

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("DOWNPOUR_BUILD", ROOT / "build"))
HEADERS = ("c_api", "tf_buffer", "tf_datatype", "tf_status", "tf_tensor")


def declared():
    folder = pathlib.Path(tf.sysconfig.get_include()) / "tensorflow/c"
    text = "".join((folder / f"{name}.h").read_text() for name in HEADERS)
    text = re.sub(r"//.*", "", text)
    return set(re.findall(r"\b(TF_[A-Z]\w*[a-z]\w*)\s*\(", text))


def defined():
    listed = subprocess.run(["nm", "-D", "--defined-only", BUILD / "libdownpour.so"], check=True,
                            text=True, stdout=subprocess.PIPE).stdout
    return {line.split()[-1] for line in listed.splitlines()}


def test_every_function_is_there_or_explained():
    explained = set(re.findall(r"`(TF_\w+)`", (ROOT / "docs/c_api.md").read_text()))
    here = defined()
    assert sorted(declared() - here - explained) == []
    assert sorted(explained & here) == []
