"""Examples written as JSON: every kind of value, protobuf's leniency, and what is no Example."""
import numpy as np

from runner import Case

CASES = []


def add(text, name=None, since=None):
    CASES.append(Case("DecodeJSONExample", [np.array(text, object)], name=f"DecodeJSONExample({name or text})",
                      since=since))


def feature(kind, values):
    return '{"features": {"feature": {"a": {"%s": {"value": %s}}}}}' % (kind, values)


for text in ("{}", '{"features":{}}', '{"features":null}', '{"features":{"feature":{}}}',
             '{"features":{"feature":null}}', '{"features":{"feature":{"a":{}}}}',
             '{"features":{"feature":{"a":{"int64List":null}}}}', '{"features":{"feature":{"a":{"int64List":{}}}}}',
             ' {"features" : { } }\n', '{"features":{"feature":{"\\u00e9\\n\\ud83d\\ude00":{}}}}',
             '{"features":{"feature":{"\u00e9":{"bytes_list":{"value":["YQ=="]}}}}}'):
    add(text)
for kind, texts in {
        "int64List": ("[]", "null", '[1, "2", -5, 9223372036854775807, "-9223372036854775808"]', "[3.0, 1e2, -1.0]"),
        "int64_list": ("[0]",),
        "floatList": ("[]", '[1, 2.5, "3.5", "NaN", "Infinity", "-Infinity", 1e30, -0.0, 0.1]'),
        "float_list": ("[0]",),
        "bytesList": ("[]", '["YWJj", "YQ==", "", "AAEC/w=="]'),
        "bytes_list": ('[""]',)}.items():
    for text in texts:
        # Older releases write numbers packed.
        add(feature(kind, text), name=f"{kind} {text}", since=(2, 20))
# Bytes of the newer protobuf only.
for kind, text in (("bytesList", '["YQ", "_-8=", "+/8=", "YWI"]'), ("int64List", "[null]"), ("int64List", "7"),
                   ("floatList", "[null]"), ("bytesList", "[null]"), ("int64List", '["1.0", "1e3", "+5", "05"]'),
                   ("floatList", '["inf", " 5", "5 "]'), ("int64List", "[1,]")):
    add(feature(kind, text), name=f"{kind} {text}", since=(2, 20))
for text in ("{'features':{}}", "{features:{}}", '{"features":{},}', '{"features":{"feature":{"a":null}}}',
             '{"features":{"feature":{"a":{"floatList":{"value":[1],"value":[2]}}}}}',
             '{"features":{"feature":{"a":{"int64List":{"value":[1]},"floatList":null}}}}'):
    add(text, since=(2, 20))
for text in ("null", "[]", "", "{", '{"features"', '{"features":', '{"features":{}} x', '{"other":1}',
             '{"features":{"other":{}}}', '{"features":1}', '{"features":{"feature":[]}}', '{"features":{}',
             '{"features":{"feature":{"a":1}}}', '{"features":{"feature":{"a":{"other":{}}}}}',
             '{"features":{"feature":{"a":{"int64List":{"value":[1]},"floatList":{"value":[1]}}}}}',
             '{"features":{"feature":{"a":{"int64List":{"values":[1]}}}}}',
             '{"features":{"feature":{"\\u12":{}}}}'):
    add(text)
add('{"features":{"feature":{"\\x":{}}}}', since=(2, 20))
for kind, text in (("int64List", "[1.5]"), ("int64List", '["9223372036854775808"]'), ("int64List", "[true]"),
                   ("int64List", '[" 5"]'), ("int64List", '[""]'), ("int64List", "[1 2]"), ("int64List", "[1"),
                   ("floatList", "[NaN]"), ("floatList", "[true]"), ("floatList", "[.5]"), ("floatList", "[01]"),
                   ("floatList", '["x"]'), ("floatList", '[""]'), ("bytesList", "[1]"), ("bytesList", '["Y?=="]')):
    add(feature(kind, text), name=f"bad {kind} {text}")
for kind, text in (("floatList", "[1e60]"), ("floatList", '["1e60"]'), ("bytesList", '["YQ="]'), ("bytesList", '["Y"]'),
                   ("bytesList", '["YQ==YQ=="]')):
    add(feature(kind, text), name=f"bad {kind} {text}", since=(2, 20))
add('{"features":{"feature":{"a":{},"a":{}}}}', since=(2, 20))
CASES.append(Case("DecodeJSONExample", [np.array([["{}", '{"features":{}}'], ['{"features":null}', "{ }"]], object)],
                  name="DecodeJSONExample(matrix)"))
CASES.append(Case("DecodeJSONExample", [np.zeros((0, 2), object)], name="DecodeJSONExample(empty)"))
