"""String ops: bytes, case, parts, joins, numbers, codings, patterns, Unicode."""
import gzip
import zlib

import numpy as np
import tensorflow as tf
from runner import Case, bfloat16

CASES = []
rng = np.random.RandomState(13)


def add(op, *inputs, since=None, outputs=None, **attrs):
    CASES.append(Case(op, inputs, attrs, since=since, outputs=outputs,
                      name=f"{len(CASES)}:{Case(op, inputs, attrs).name}"))


def strings(*items):
    return np.array([i if isinstance(i, bytes) else i.encode() for i in items], object)


def one(item):
    return np.array(item if isinstance(item, bytes) else item.encode(), object)


MIXED = strings("", "a", "Hello World", "  \t padded \n\r", "ÄÖÜ größe ΑΒΓ", b"\xff\xfe raw",
                "x" * 100, "日本語テキスト", "tab\tnew\nline")

# ---- One by one ----
for op in ["StringLower", "StringUpper"]:
    add(op, MIXED)
    add(op, strings("Abc", "ÄÖÜ äöü ΑΒΓ", "日本"), encoding="utf-8")
    add(op, strings("Straße", "ﬁne ǆ ŉ", "İstanbul ı", "ΟΔΟΣ ΣΑΣ. Σ ΑΣΒ", "ᾳ ᾼ", "ქართული ᲥᲐᲠᲗᲣᲚᲘ", "K Å",
                    b"cut\0here", b"bad \xff byte"), encoding="utf-8")
    add(op, strings(*[chr(c) for c in range(1, 0x20000) if not 0xd800 <= c < 0xe000]),
        encoding="utf-8")
    add(op, MIXED, encoding="latin-1")
    add(op, one("ABC def"))
    add(op, strings(*["Word%d" % i for i in range(2000)]))
add("StringStrip", MIXED)
for unit in ["BYTE", "UTF8_CHAR"]:
    add("StringLength", MIXED, unit=unit)
    for position, length in [(0, 3), (1, 100), (-2, 1), (-1, 5), (0, 0), (2, -1), (5, 2)]:
        for dtype in [np.int32, np.int64]:
            add("Substr", strings("abcdef", "äöüßéè", "日本語テキスト"), np.array(position, dtype),
                np.array(length, dtype), unit=unit)
    add("Substr", strings("abc", "def"), np.array([1, 2], np.int32), np.array([1, 9], np.int32),
        unit=unit)
    add("Substr", one("abcdef"), np.array([1, 2], np.int32), np.array([2, 2], np.int32), unit=unit)
    add("Substr", strings("abc", "defg").reshape(2, 1), np.array([[0, 1, 2]], np.int32),
        np.array([[1, 1, 1]], np.int32), unit=unit)
    add("Substr", strings("abc"), np.array(4, np.int32), np.array(1, np.int32), unit=unit)
    add("Substr", strings("abc"), np.array(-4, np.int32), np.array(1, np.int32), unit=unit)
    add("Substr", strings("abc", "d"), np.array([1, 2, 3], np.int32), np.array([1, 1, 1], np.int32),
        unit=unit)

# ---- Joins ----
add("StringJoin", [strings("a", "b"), strings("c", "d"), one("-")], separator="/")
add("StringJoin", [one("a"), one("b")])
add("StringJoin", [strings("a")], separator=",")
add("StringJoin", [strings("a", "b"), strings("a", "b", "c")])
add("StringJoin", [strings("a", "b").reshape(1, 2), strings("a", "b")])
GRID = np.array([[[f"{i}{j}{k}".encode() for k in range(2)] for j in range(3)] for i in range(2)],
                object)
for axes in [[0], [1], [2], [0, 1], [1, 0], [2, 0], [0, 1, 2], [-1], [-1, 0], [], [3], [0, 0], [0, -3]]:
    for keep in [False, True]:
        add("ReduceJoin", GRID, np.array(axes, np.int32), keep_dims=keep, separator=",")
add("ReduceJoin", one("x"), np.array([], np.int32))
add("ReduceJoin", np.zeros((2, 0), object), np.array([1], np.int32), separator=",")
add("ReduceJoin", GRID, np.array(1, np.int32))
for ids in [[0, 1, 0], [2, 2, 2], [0, -1, 1], [0, 3, 1]]:
    add("UnsortedSegmentJoin", strings("a", "b", "c"), np.array(ids, np.int32), np.array(3, np.int32),
        separator=":")
    add("UnsortedSegmentJoin", GRID[0], np.array(ids, np.int64), np.array(3, np.int64), separator=":")
add("UnsortedSegmentJoin", GRID[0], np.array([[0, 1], [0, 1], [1, 0]], np.int32), np.array(2, np.int32))
add("UnsortedSegmentJoin", strings("a"), np.array(0, np.int32), np.array(2, np.int32))
add("UnsortedSegmentJoin", strings("a", "b"), np.array([0], np.int32), np.array(2, np.int32))

# ---- Splits ----
TEXTS = strings("a b c", "", " lead and  double ", "one", "a,b;c,,d", "日本 語")
for delimiter in ["", " ", ",", ",;", "xyz"]:
    for skip in [True, False]:
        add("StringSplit", TEXTS, one(delimiter), skip_empty=skip)
for separator in ["", " ", ",", "  ", "ab"]:
    for most in [-1, 0, 1, 2]:
        add("StringSplitV2", TEXTS, one(separator), maxsplit=most)
add("StringSplit", one("a b"), one(" "))
add("StringSplit", strings("a b"), strings(" "))
add("StringSplitV2", one("a b"), one(" "))
add("StringSplitV2", np.zeros((0,), object), one(" "))
WORDS = strings("a", "b", "c", "d", "e", "f")
for widths in [[2], [1, 3], [4], [], [0]]:
    for pad, left, right in [(0, "", ""), (-1, "<", ">"), (1, "<", ">"), (5, "L", "R")]:
        for short in [False, True]:
            add("StringNGrams", WORDS, np.array([0, 4, 4, 6], np.int64), separator="|",
                ngram_widths=widths, left_pad=left, right_pad=right, pad_width=pad,
                preserve_short_sequences=short)
NGRAM = dict(separator="|", ngram_widths=[2], left_pad="", right_pad="", pad_width=0,
             preserve_short_sequences=False)
for splits in [[0, 2], [0, 7], [1, 6], [0, 4, 3, 6], [], [0]]:
    add("StringNGrams", WORDS, np.array(splits, np.int32), **NGRAM)
add("StringNGrams", np.zeros((0,), object), np.array([0, 0], np.int64), **NGRAM)

# ---- Numbers ----
for dtype in [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]:
    info = np.iinfo(dtype)
    add("AsString", np.array([0, 1, info.min, info.max], dtype))
    add("AsString", np.array([7, 42], dtype), width=6)
    add("AsString", np.array([7, 42], dtype), width=6, fill="0")
FLOAT_VALUES = [0., -0., 1., -2.5, 1e10, 1e-10, np.inf, -np.inf, np.nan, 123.456]
for dtype in [np.float32, np.float64]:
    for attrs in [{}, {"precision": 2}, {"scientific": True}, {"shortest": True}, {"width": 12},
                  {"width": 12, "fill": "0"}, {"precision": 3, "scientific": True}, {"fill": "+"},
                  {"precision": 0}, {"width": 10, "fill": "-"}, {"fill": "#", "precision": 0}]:
        add("AsString", np.array(FLOAT_VALUES, dtype), **attrs)
add("AsString", np.array([0.5, 1.25], np.float16))
add("AsString", np.array([0.5, 1.25], bfloat16))
for dtype in [np.complex64, np.complex128]:
    add("AsString", np.array([1 + 2j, -.5j], dtype))
    add("AsString", np.array([1 + 2j, -.5j], dtype), precision=1)
add("AsString", np.array([True, False]))
add("AsString", MIXED[:4], since=(2, 13))
for attrs in [{"precision": 2}, {"scientific": True}, {"shortest": True}, {"fill": "ab"}, {"fill": "x"}]:
    add("AsString", np.array([1], np.int32), **attrs)
add("AsString", np.array([1.], np.float32), scientific=True, shortest=True)
for dtype in [np.float32, np.float64, np.int32, np.int64, np.uint32, np.uint64]:
    kind = tf.as_dtype(dtype)
    first = (2, 13) if kind.is_unsigned else None
    add("StringToNumber", strings("0", "1", " 42 ", "\t7\n", "0012"), out_type=kind, since=first)
    for text in ["-1", "+5", "", " ", "x", "1x", "1 2", "1.5", "1e3", ".5", "5.", "inf", "-Inf",
                 "nan", "infinity", "1e400", "1e-400", "2147483647", "2147483648", "-2147483648",
                 "-2147483649", "9223372036854775807", "9223372036854775808", "18446744073709551615",
                 "0.1", "16777217", "3.4028236e38", "1_000", "--1", "e5", "1e", "0x10"]:
        # Older versions take blanks for zero, and know neither the long word nor a plus.
        differs = text in ((" ", "infinity") if kind.is_floating else ("+5",))
        add("StringToNumber", strings(text), out_type=kind, since=(2, 13) if differs else first)
for template, inputs in [("a%sb%s", [np.arange(5), np.array(1.5)]), ("%s", [np.arange(20)]),
                         ("none", []), ("", [])]:
    add("StringFormat", inputs, template=template, placeholder="%s", summarize=3)
add("StringFormat", [MIXED[:5], np.array(True)], template="{} and {}", placeholder="{}", summarize=2)
add("StringFormat", [np.arange(24.).reshape(2, 3, 4)], template="{}", placeholder="{}", summarize=-1)
for buckets in [1, 10, 1 << 40]:
    add("StringToHashBucket", MIXED, num_buckets=buckets)
    add("StringToHashBucketFast", MIXED, num_buckets=buckets)
    add("StringToHashBucketStrong", MIXED, num_buckets=buckets, key=[1, 2])
    add("StringToHashBucketStrong", MIXED, num_buckets=buckets, key=[-123456789, 1 << 62])
add("StringToHashBucketFast", strings(*["token%d" % i for i in range(5000)]), num_buckets=1000)
add("StringToHashBucketStrong", MIXED, num_buckets=5, key=[1])

# ---- Codings ----
for length in range(9):
    data = rng.bytes(length)
    add("EncodeBase64", strings(data))
    add("EncodeBase64", strings(data), pad=True)
add("EncodeBase64", MIXED)
for text in ["", "QQ", "QQ==", "QUI", "QUI=", "QUJD", "Q", "QQ=", "-_-_", "+/+/", "Q Q=", "QQ==QQ==",
             "=", "==", "====", "QUJDRA", b"\xff\xff\xff\xff"]:
    add("DecodeBase64", strings(text))
RAW = rng.bytes(16)
INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16]
for dtype in [np.float32, np.float64, np.float16, bfloat16, np.complex64, np.complex128] + INTEGERS:
    kind = tf.as_dtype(dtype)
    whole = np.arange(1, 5).astype(dtype).tobytes()[:16]
    for little in [True, False]:
        add("DecodeRaw", strings(whole, whole[::-1]) if dtype in INTEGERS else strings(whole),
            out_type=kind, little_endian=little)
        if np.dtype(dtype).kind != "c" and dtype is not np.float16:
            for length in [8, 16, 24]:
                add("DecodePaddedRaw", strings(whole, whole[:3], ""), np.array(length, np.int32),
                    out_type=kind, little_endian=little)
add("DecodeRaw", strings(b"\x00\x01\x01"), out_type=tf.bool)
add("DecodeRaw", one(RAW), out_type=tf.uint8)
add("DecodeRaw", np.zeros((0, 2), object), out_type=tf.int32)
add("DecodeRaw", strings("", ""), out_type=tf.int32)
add("DecodeRaw", strings("abcd", "ab"), out_type=tf.int16)
add("DecodeRaw", strings("abc"), out_type=tf.int16)
add("DecodePaddedRaw", strings("abc"), np.array(3, np.int32), out_type=tf.int16)
add("DecodePaddedRaw", strings("abc"), np.array(0, np.int32), out_type=tf.int16)
add("DecodePaddedRaw", strings("abc"), np.array([2], np.int32), out_type=tf.int16)
LONG = b"some text that is repeated " * 3000
for kind, pack in [("ZLIB", zlib.compress), ("GZIP", gzip.compress), ("", lambda data: data)]:
    add("DecodeCompressed", strings(pack(LONG), pack(b"a"), pack(b"")), compression_type=kind)
add("DecodeCompressed", strings(b"not compressed"), compression_type="ZLIB")
add("DecodeCompressed", strings("a"), compression_type="LZ4")
for dtype in [np.float32, np.int64, np.bool_, np.complex64, bfloat16]:
    value = rng.randint(0, 2, (2, 3)).astype(dtype)
    kind = tf.as_dtype(dtype)
    add("ParseTensor", one(tf.compat.v1.make_tensor_proto(value).SerializeToString()), out_type=kind)
add("ParseTensor", one(tf.compat.v1.make_tensor_proto(np.float32([1, 2])).SerializeToString()),
    out_type=tf.int32)
add("ParseTensor", one("garbage"), out_type=tf.int32)
add("ParseTensor", strings("a"), out_type=tf.int32)
add("ParseTensor", one(tf.compat.v1.make_tensor_proto(["a", "bc"]).SerializeToString()),
    out_type=tf.string)


def roundtrip():
    tensor = tf.constant(rng.rand(3, 4).astype(np.float32))
    return {}, [tf.raw_ops.ParseTensor(serialized=tf.raw_ops.SerializeTensor(tensor=tensor),
                                       out_type=tf.float32)]


CASES.append(Case("SerializeTensor", build=roundtrip, name="SerializeTensor and back"))

# ---- CSV ----
DEFAULTS = [np.array([1], np.int32), np.array([2.5], np.float32), strings("d")]
for text in ["1,2.5,x", ",,", "1,2", "1,2,3,4", '1,2.5,"quoted, text"', '1,2.5,"a ""b"" c"', "1,2.5,\n",
             '1,2.5,"open', '1,2.5,un"quoted', "x,1,a", "1,y,a", "1,2,NA", "NA,NA,NA", "", "\n",
             " 1 , 2.5 ,x", '1,2.5,"a"b', "1,2.5,x\r\n", '"1","2.5","x"']:
    add("DecodeCSV", strings(text), DEFAULTS)
    add("DecodeCSV", strings(text), DEFAULTS, na_value="NA")
    add("DecodeCSV", strings(text), DEFAULTS, use_quote_delim=False)
add("DecodeCSV", strings("1;2;3", "4;5;6").reshape(2, 1), [np.array([], np.int64)] * 3,
    field_delim=";")
add("DecodeCSV", strings("1,,3"), [np.array([], np.int64)] * 3)
add("DecodeCSV", strings("1,2,3,4"), [np.array([0.], np.float64), strings("")], select_cols=[1, 3])
add("DecodeCSV", strings("1,2,"), [np.array([0.], np.float64), strings("none")], select_cols=[1, 2])
add("DecodeCSV", strings("1,2"), [strings("")], select_cols=[5])
add("DecodeCSV", strings("1,2"), [strings(""), strings("")], select_cols=[1])
add("DecodeCSV", strings("1,2"), [strings(""), strings("")], select_cols=[1, 0])
add("DecodeCSV", strings("1,2"), [strings(""), strings("")], select_cols=[-1, 0])
add("DecodeCSV", strings("1,2"), [strings("", "a"), strings("")])
add("DecodeCSV", strings("1,2"), [strings(""), strings("")], field_delim=";;")
add("DecodeCSV", strings("1,2"), [np.array(7, np.int32), np.array(8, np.int32)])

# ---- Patterns ----
SUBJECTS = strings("", "a", "aaa", "abc", "foo bar baz", "123-456", "Hello World", "äöü", "日本語",
                   "line1\nline2", "a.b.c", "x=1;y=22", "tab\there", "CamelCaseText", "aXbXc", b"\xff\xfe")
PATTERNS = ["a", "a*", "a+", "a?", "b|a", "(a)(b)?(c)?", "[a-c]", "[^a-c]", r"\d+", r"\w+", r"\s", r"\D",
            r"\W+", ".", ".*", "^a", "a$", r"\ba", r"\B", "(foo|bar)", "(?i)hello", "(?:x)=", "a{2}",
            "a{2,}", "a{1,2}", "a{,2}", "x*?", "a+?", r"(\w+) (\w+)", r"[[:alpha:]]+", r"[[:^digit:]]",
            r"\.", r"\x61", r"\x{65e5}", r"\Qa.b\E", "(?s).*", "(?m)^line", "(?P<name>o)", "[]a]", "[a-]",
            "[\\d-]", r"\pL+", r"\p{Lu}", r"\PL", r"\p{Greek}", r"\p{Han}+", "日", "[ä-ü]", "(?i)Ä", "()",
            "|", "a|", "(?U)a+", r"([A-Z])", r"\z", r"\A", "(a*)*", "(a|b)*c", "((a)|(b))+", r"\141", r"\Qab\E*", r"(?i)\W+", r"(?i)[k-s]+", r"(?i)\x{212a}", r"[\w-]+", "(?-s).+",
            r"\p{^Lu}+", r"[\pN\pZ]+", r"\p{Hiragana}|\p{Latin}+", "(?i:A)b", "(a(?i)B)c", "(?:a|ab)(?:c|bcd)(?:d*)",
            "^", "$", "(?m)$", r"(?m)^(\w+)$", "(|a)+", "(?:a?){3}", "a{0}", "[^\\n]+", r"\pM*"]
for pattern in PATTERNS:
    add("RegexFullMatch", SUBJECTS, one(pattern))
    add("StaticRegexFullMatch", SUBJECTS, pattern=pattern)
    add("RegexReplace", SUBJECTS, one(pattern), one("<\\0>"))
    add("StaticRegexReplace", SUBJECTS, pattern=pattern, rewrite="-", replace_global=False)
for pattern in ["(", ")", "[", "[a", "*", "a**", "+a", r"\q", "[z-a]", "a{1001}", "a{3,2}", "(?", "(?P<>a)",
                "(?z)", "\\", r"\1", r"(a)\1", "(?=a)", "(?<!a)b", r"\x{110000}", r"\p{Nope}", r"\pX",
                r"[a-\d]", "a{2}{3}", "a*?*", "(?i)*", r"\Q\E*", "(?:a{31}){33}", "(?i", "(?i-)",
                "(?P<a", "(?P=a)", "a)", "ab(c", r"\8", "((((((((((a{100}){100}){100}){100}"]:
    add("RegexFullMatch", SUBJECTS, one(pattern))
    add("RegexReplace", SUBJECTS, one(pattern), one(""))
for rewrite in ["\\1", "\\2-\\1", "\\\\", "x\\", "\\9", "\\a", ""]:
    add("RegexReplace", SUBJECTS, one(r"(\w)(\w)"), one(rewrite))
    add("RegexReplace", SUBJECTS, one(r"(\w)(\w)"), one(rewrite), replace_global=False)
for pattern in [r"(?i)[k-s]", r"(?i)\x{212a}", r"(?i)\W", r"(?i)\w", "(?i)ſ", "(?i)[^k]", "(?i)σ"]:
    add("RegexReplace", strings("kKs\u212a\u017fS", "σςΣ"), one(pattern), one("<\\0>"))
add("RegexReplace", SUBJECTS, strings("a"), one(""))
add("RegexReplace", SUBJECTS, one("a"), strings(""))
add("RegexFullMatch", one("abc"), one("a.c"))
add("RegexReplace", strings(*["word%d some text" % i for i in range(500)]), one(r"\d+"), one("#"))
