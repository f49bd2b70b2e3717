"""Text in code points: every encoding, damaged text under each policy, offsets, bad splits."""
import itertools

import numpy as np
import tensorflow as tf
from runner import Case

CASES = []


def add(op, inputs, name, since=None, **attrs):
    CASES.append(Case(op, inputs, attrs, since=since, name=f"{len(CASES)}:{op}({name},{attrs})"))


def texts(*items):
    return np.array(items, object)


SAMPLES = {
    "UTF-8": texts(b"", b"a", "héllo wörld €😀".encode(), b"a\xf0\x9f\x98", b"\xe0\x80a", b"\xffa\xc3",
                   b"\xed\xa0\x80x", b"\xf4\x90\x80\x80", b"\xc3(\xa9", b"\xef\xbb\xbfa", b"a\x00\x1f\n\x7f"),
    "utf8": texts("é".encode()),
    "UTF-16-BE": texts(b"", b"\x00a\xd8\x3d\xde\x00\x00", b"\xd8\x3d\x00a", b"\xde\x00\x00a", b"\x00a\xd8\x3d",
                       "é😀".encode("utf-16-be")),
    "UTF-16LE": texts("é😀".encode("utf-16-le"), b"a"),
    "UTF-32-BE": texts(b"\x00\x00\x00a\x00\x11\x00\x00", b"\x00\x00\x00a\x00\x00", b"\x00\x00\xd8\x00",
                       "é😀".encode("utf-32-be")),
    "UTF-32LE": texts("é😀".encode("utf-32-le")),
    "US-ASCII": texts(b"a\x80b"), "ascii": texts(b"abc"),
    "ISO-8859-1": texts(b"a\xe9\xff"), "latin1": texts(b"\xe9"),
    "SHIFT_JIS": texts(b"\x82\xa0a\x81", "日本語".encode("shift_jis")),
    "EUC-JP": texts(b"\xa4\xa2\xff", "日本".encode("euc_jp")),
    "KOI8-R": texts("привет".encode("koi8_r")),
    "ISO-8859-2": texts(b"\xb1a"),
    "nonsense": texts(b"a"),
}
for (encoding, sample), errors in itertools.product(SAMPLES.items(), ("replace", "ignore", "strict")):
    attrs = dict(input_encoding=encoding, errors=errors)
    for splits in (tf.int32, tf.int64) if encoding == "UTF-8" else (tf.int64,):
        add("UnicodeDecode", [sample], encoding, Tsplits=splits, **attrs)
    add("UnicodeDecodeWithOffsets", [sample], encoding, Tsplits=tf.int64, **attrs)  # int32 ends TensorFlow
    for output in ("UTF-8", "UTF-16-BE", "UTF-32-BE"):
        add("UnicodeTranscode", [sample], encoding, output_encoding=output, **attrs)
    for item in sample if errors == "strict" else ():
        add("UnicodeDecode", [texts(item)], f"{encoding} {item}", Tsplits=tf.int64, **attrs)
# One text each: TensorFlow's converter keeps the order of bytes of the first.
for sample in (b"\xff\xfea\x00b\x00", b"a\x00b\x00", b"\xfe\xff\x00a\x00b", b"", b"\xff"):
    add("UnicodeDecodeWithOffsets", [texts(sample)], f"marked {sample}", input_encoding="UTF-16", Tsplits=tf.int64)
    add("UnicodeTranscode", [texts(sample)], f"marked {sample}", input_encoding="UTF-16", output_encoding="UTF-8")
for errors in ("replace", "ignore", "strict"):
    more = dict(errors=errors, input_encoding="UTF-8", replacement_char=63, replace_control_characters=True)
    add("UnicodeTranscode", [texts(b"a\x01b\n\xffc", b"\t")], "controls", output_encoding="UTF-8", **more)
    add("UnicodeDecodeWithOffsets", [texts(b"a\x01b\n", b"\t")], "controls", Tsplits=tf.int64, **more)
add("UnicodeDecode", [np.array([[b"ab", b""], [b"c", b"d"]], object)], "matrix", input_encoding="UTF-8",
    Tsplits=tf.int64)
add("UnicodeDecode", [np.array(b"ab", object)], "scalar", input_encoding="UTF-8", Tsplits=tf.int64)
add("UnicodeDecode", [np.zeros((0,), object)], "empty", input_encoding="UTF-8", Tsplits=tf.int64)
add("UnicodeTranscode", [np.zeros((0, 2), object)], "empty", input_encoding="UTF-8", output_encoding="UTF-8")
add("UnicodeTranscode", [texts(b"a")], "replacement", input_encoding="UTF-8", output_encoding="UTF-8",
    replacement_char=0x110000)

POINTS = np.array([97, 0xE9, 0x1F600, 0xD800, 0x110000, -1, 0xFFFE, 0, 98], np.int32)
for errors, output in itertools.product(("replace", "ignore", "strict"), ("UTF-8", "UTF-16-BE", "UTF-32-BE")):
    for dtype in (np.int32, np.int64):
        attrs = dict(errors=errors, output_encoding=output)
        add("UnicodeEncode", [POINTS, np.array([0, 3, 3, 9], dtype)], "all", since=(2, 20), **attrs)
        add("UnicodeEncode", [POINTS[:3], np.array([0, 1, 3], dtype)], "good", replacement_char=65, **attrs)
for splits in ([], [0], [0, 1], [1, 2], [0, 3], [0, 2, 1], [-1, 2], [0, 2, 2], [0, 3, 2]):
    add("UnicodeEncode", [POINTS[:2], np.array(splits, np.int64)], str(splits), output_encoding="UTF-8")
