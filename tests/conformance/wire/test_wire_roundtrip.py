"""Every message of the wire, filled by genuine TensorFlow, is decoded and encoded by our codecs.

The build makes the program `wire_roundtrip` (decode, encode again) and `wire_messages.pb` (the
descriptors of proto/). The descriptors are compared with TensorFlow's, field by field. Then each
message is filled at random with the fields of TensorFlow's own descriptor and sent through the
program. The result must parse as the same message; where protobuf has only one form, its bytes must
be the same. Tensors are compared with what TensorFlow's ParseTensor makes of the same bytes; both
must accept or both must refuse them.
"""
import importlib
import mmap
import os
import pathlib
import pkgutil
import random
import struct
import subprocess

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import FieldDescriptor as Field
from tensorflow.core.framework import tensor_pb2, tensor_shape_pb2, types_pb2
from tensorflow.python.framework import dtypes

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("DOWNPOUR_BUILD", ROOT / "build"))

# Messages that stay bytes on our side, because only the tensor codec reads them, or no code does.
OPAQUE = {"tensorflow.TensorProto", "tensorflow.GraphDebugInfo", "tensorflow.SavedObjectGraph",
          "tensorflow.TypeSpecProto", "tensorflow.CoordinationServiceConfig"}
# Messages that moved to another package in later versions; the wire is the same.
MOVED = {"tensorflow.error.Code": "tsl.error.Code"}


def import_all_messages():
    """Fills protobuf's default pool with everything under tensorflow/core."""
    for folder in ("framework", "protobuf", "util", "example"):
        package = importlib.import_module(f"tensorflow.core.{folder}")
        for module in pkgutil.iter_modules(package.__path__):
            if module.name.endswith("_pb2"):
                importlib.import_module(f"{package.__name__}.{module.name}")


def add_compiled_files():
    """Adds master.proto and worker.proto, for which the wheels have no Python. The C++ library
    carries their descriptors, as it does for all generated files. They import any.proto."""
    POOL.FindFileByName(any_pb2.DESCRIPTOR.name)
    library = next(pathlib.Path(tf.__file__).parent.glob("libtensorflow_cc.so*"))
    with open(library, "rb") as file, \
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for name in ("tensorflow/core/protobuf/master.proto",
                     "tensorflow/core/protobuf/worker.proto"):
            start = data.find(b"\n" + bytes([len(name)]) + name.encode())
            end = data.find(b"b\x06proto3", start) + 8
            POOL.AddSerializedFile(data[start:end])


POOL = descriptor_pool.Default()
import_all_messages()
add_compiled_files()


def message_class(descriptor):
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory(POOL).GetPrototype(descriptor)


def is_repeated(field):
    """Whether a field is repeated, in old and new versions of protobuf's Python."""
    return field.is_repeated if hasattr(field, "is_repeated") else \
        field.label == Field.LABEL_REPEATED


def find_genuine(name):
    try:
        return POOL.FindMessageTypeByName(name)
    except KeyError:
        return None


def read_our_descriptors():
    """{full name: DescriptorProto} of all messages in proto/, nested ones too."""
    files = descriptor_pb2.FileDescriptorSet.FromString(
        next(BUILD.glob("**/wire_messages.pb")).read_bytes())
    found = {}

    def add(prefix, message):
        name = f"{prefix}.{message.name}"
        found[name] = message
        for nested in message.nested_type:
            add(name, nested)

    for file in files.file:
        for message in file.message_type:
            add(file.package, message)
    return found


OURS = read_our_descriptors()
TOP_LEVEL = [name for name in OURS
             if name.rsplit(".", 1)[0] in ("tensorflow", "google.protobuf",
                                           "tensorflow.core.platform")]


# ---- The program ---------------------------------------------------------------------------------
class Roundtrip:
    def __init__(self):
        program = next(BUILD.glob("**/wire_roundtrip"))
        self.process = subprocess.Popen([str(program)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)

    def ask(self, name, data):
        """(code, bytes of the message or text of the error)"""
        name = name.encode()
        self.process.stdin.write(struct.pack("<I", len(name)) + name +
                                 struct.pack("<I", len(data)) + data)
        self.process.stdin.flush()
        code, length = struct.unpack("<II", self.process.stdout.read(8))
        return code, self.process.stdout.read(length)

    def close(self):
        self.process.stdin.close()
        return self.process.wait(timeout=300)


@pytest.fixture(scope="module")
def roundtrip():
    program = Roundtrip()
    yield program
    assert program.close() == 0


# ---- Descriptors ---------------------------------------------------------------------------------
def type_text(name):
    name = name.lstrip(".")
    return MOVED.get(name, name)


def check_field(message, ours, genuine):
    where = f"{message}.{ours.name} = {ours.number}"
    assert ours.name == genuine.name, where
    assert (ours.label == Field.LABEL_REPEATED) == is_repeated(genuine), where
    if ours.type == Field.TYPE_BYTES and genuine.type == Field.TYPE_MESSAGE:
        assert genuine.message_type.full_name in OPAQUE, where
        return
    assert ours.type == genuine.type, where
    if genuine.type == Field.TYPE_MESSAGE:
        assert type_text(ours.type_name) == genuine.message_type.full_name, where
    elif genuine.type == Field.TYPE_ENUM:
        assert type_text(ours.type_name).split(".")[-1] == genuine.enum_type.name, where


@pytest.mark.parametrize("name", sorted(OURS))
def test_fields_are_tensorflows(name):
    genuine = find_genuine(name)
    if genuine is None:
        pytest.skip("this version of TensorFlow does not have it")
    ours = {field.number: field for field in OURS[name].field}
    theirs = {field.number: field for field in genuine.fields}
    for number in ours.keys() & theirs.keys():
        check_field(name, ours[number], theirs[number])
        oneof = theirs[number].containing_oneof
        has_oneof = ours[number].HasField("oneof_index")
        assert has_oneof == (oneof is not None), f"{name}.{ours[number].name}"
    assert OURS[name].options.map_entry == genuine.GetOptions().map_entry
    if tf.__version__.startswith("2.21"):
        assert theirs.keys() <= ours.keys(), [theirs[n].name for n in theirs.keys() - ours.keys()]


def test_the_program_knows_every_message(roundtrip):
    code, names = roundtrip.ask("", b"")
    assert code == 0
    known = set(names.decode().split())
    # Only ever inside a tensor:
    assert set(TOP_LEVEL) - known == {"tensorflow.VariantTensorDataProto"}


# ---- Random messages -----------------------------------------------------------------------------
NUMPY_DTYPES = [np.float32, np.float64, np.int32, np.uint8, np.int16, np.int8, np.complex64,
                np.int64, np.bool_, np.uint16, np.complex128, np.float16, np.uint32, np.uint64]
INT_TYPES = {Field.TYPE_INT32: (-2**31, 2**31 - 1), Field.TYPE_INT64: (-2**63, 2**63 - 1),
             Field.TYPE_UINT32: (0, 2**32 - 1), Field.TYPE_UINT64: (0, 2**64 - 1),
             Field.TYPE_FIXED32: (0, 2**32 - 1), Field.TYPE_FIXED64: (0, 2**64 - 1),
             Field.TYPE_SINT32: (-2**31, 2**31 - 1), Field.TYPE_SINT64: (-2**63, 2**63 - 1)}
# Fields that must have a tensor: a message without one is refused, or written with an empty one.
WITH_TENSOR = ("tensorflow.NamedTensorProto", "tensorflow.RecvTensorResponse")


def random_array(rng):
    shape = [rng.randrange(0, 5) for _ in range(rng.randrange(0, 4))]
    if rng.random() < 0.1:
        shape = [rng.randrange(1, 3000)]
    dtype = rng.choice(NUMPY_DTYPES)
    raw = np.random.default_rng(rng.getrandbits(32)).integers(0, 2, size=shape)
    return (raw * rng.randrange(1, 100)).astype(dtype)


def handle_tensor(rng):
    tensor = tensor_pb2.TensorProto(dtype=types_pb2.DT_RESOURCE)
    tensor.tensor_shape.dim.add(size=2)
    for i in range(2):
        handle = tensor.resource_handle_val.add(device="/job:ps/task:0", container="c", name=f"v{i}",
                                                hash_code=rng.getrandbits(64) or 1)
        handle.maybe_type_name = "tensorflow::Var"
        for rank in range(-1, rng.randrange(0, 3)):
            component = handle.dtypes_and_shapes.add(dtype=types_pb2.DT_FLOAT)
            component.shape.unknown_rank = rank < 0
            for _ in range(rank):
                component.shape.dim.add(size=rng.choice([-1, 5]))
            component.shape.SetInParent()
    return tensor


def content_tensor(rng):
    """A TensorProto in the one form that our encoder writes."""
    if rng.random() < 0.1:
        return handle_tensor(rng)
    if rng.random() < 0.2:
        strings = [rng.randbytes(rng.choice([0, 3, 30, 1000])) for _ in range(rng.randrange(0, 4))]
        tensor = tensor_pb2.TensorProto(dtype=types_pb2.DT_STRING, string_val=strings)
        tensor.tensor_shape.dim.add(size=len(strings))
        return tensor
    array = random_array(rng)
    tensor = tensor_pb2.TensorProto(dtype=tf.as_dtype(array.dtype).as_datatype_enum,
                                    tensor_content=array.tobytes())
    tensor.tensor_shape.SetInParent()
    for size in array.shape:
        tensor.tensor_shape.dim.add(size=size)
    return tensor


def random_scalar(field, rng):
    if field.type in INT_TYPES:
        low, high = INT_TYPES[field.type]
        return rng.choice([1, 2, 127, 128, low or 3, high, rng.randint(low, high) or 5])
    if field.type == Field.TYPE_BOOL:
        return True
    if field.type in (Field.TYPE_FLOAT, Field.TYPE_DOUBLE):
        return rng.choice([0.5, -1.25, 3.0, float("inf"), 2.0**-140])
    if field.type == Field.TYPE_ENUM:
        return rng.choice([value.number for value in field.enum_type.values])
    if field.type == Field.TYPE_STRING:
        return rng.choice(["a", "x" * 200, "grüße/:0", "^in", "\u4e2d\u6587"])
    return rng.choice([b"\x00\xff", b"b" * 300, rng.randbytes(20)])


def fill_map(message, field, rng, depth):
    key = field.message_type.fields_by_name["key"]
    value = field.message_type.fields_by_name["value"]
    target = getattr(message, field.name)
    for _ in range(rng.randrange(1, 4)):
        chosen = random_scalar(key, rng)
        if value.type == Field.TYPE_MESSAGE:
            fill(target[chosen], rng, depth + 1)
        else:
            target[chosen] = random_scalar(value, rng)


def fill(message, rng, depth=0):
    """Sets most fields of a message, deeper ones more rarely."""
    if message.DESCRIPTOR.full_name == "tensorflow.TensorProto":
        message.CopyFrom(content_tensor(rng))
        return
    done = set()
    for field in message.DESCRIPTOR.fields:
        is_message = field.type == Field.TYPE_MESSAGE
        if field.containing_oneof:
            if field.containing_oneof.name in done or rng.random() < 0.7:
                continue
            done.add(field.containing_oneof.name)
        if rng.random() < (0.1 if depth == 0 else 0.4) or (is_message and depth > 5):
            continue
        if is_message and field.message_type.GetOptions().map_entry:
            fill_map(message, field, rng, depth)
        elif is_repeated(field):
            for _ in range(rng.randrange(1, 4)):
                if is_message:
                    fill(getattr(message, field.name).add(), rng, depth + 1)
                else:
                    getattr(message, field.name).append(random_scalar(field, rng))
        elif is_message:
            inner = getattr(message, field.name)
            inner.SetInParent()
            fill(inner, rng, depth + 1)
            if field.message_type.full_name in OPAQUE and not inner.ByteSize():
                message.ClearField(field.name)  # an empty one is lost: it has no bytes
        else:
            setattr(message, field.name, random_scalar(field, rng))
    if message.DESCRIPTOR.full_name in WITH_TENSOR:
        message.tensor.CopyFrom(content_tensor(rng))


def is_canonical(message):
    """Whether our bytes must be equal to protobuf's: the message has no map and no unknown field."""
    name = message.DESCRIPTOR.full_name
    if name in OPAQUE:
        return True
    known = {field.number for field in OURS[name].field} if name in OURS else set()
    for field, value in message.ListFields():
        if field.number not in known:
            return False
        if field.type != Field.TYPE_MESSAGE:
            continue
        if field.message_type.GetOptions().map_entry:
            return False
        values = value if is_repeated(field) else [value]
        if not all(is_canonical(inner) for inner in values):
            return False
    return True


@pytest.mark.parametrize("name", sorted(set(TOP_LEVEL) - {"tensorflow.VariantTensorDataProto"}))
def test_random_messages_come_back(roundtrip, name):
    descriptor = find_genuine(name)
    if descriptor is None:
        pytest.skip("this version of TensorFlow does not have it")
    rng = random.Random(name)
    for _ in range(40):
        message = message_class(descriptor)()
        fill(message, rng)
        data = message.SerializeToString(deterministic=True)
        code, answer = roundtrip.ask(name, data)
        assert code == 0, answer
        again = message_class(descriptor).FromString(answer)
        assert again == message
        if is_canonical(message):
            assert answer == data
    code, answer = roundtrip.ask(name, b"")
    if name not in WITH_TENSOR + ("tensorflow.TensorProto",):
        assert (code, answer) == (0, b"")


def test_graphs_of_tensorflow_come_back(roundtrip):
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [None, 4])
        w = tf.compat.v1.get_variable("w", [4, 3])
        loss = tf.reduce_sum(tf.matmul(x, w))
        tf.compat.v1.gradients(loss, [w])
        tf.while_loop(lambda i: i < 5, lambda i: i + 1, [tf.constant(0)])
    message = graph.as_graph_def()
    code, answer = roundtrip.ask("tensorflow.GraphDef", message.SerializeToString())
    assert code == 0, answer
    assert type(message).FromString(answer) == message


# ---- Tensors -------------------------------------------------------------------------------------
def shape_of(dims):
    shape = tensor_shape_pb2.TensorShapeProto()
    for size in dims:
        shape.dim.add(size=size)
    return shape


def genuine_tensor(data, dtype):
    """The array that TensorFlow parses from the bytes, or None if it refuses them."""
    try:
        return np.asarray(tf.raw_ops.ParseTensor(serialized=data, out_type=dtype).numpy())
    except (tf.errors.OpError, TypeError, ValueError):
        return None


def compare_tensor(roundtrip, data, dtype):
    """Ours and TensorFlow's must agree on the tensor, or on refusing it."""
    expected = genuine_tensor(data, dtype)
    code, answer = roundtrip.ask("tensorflow.TensorProto", data)
    if expected is None:
        assert code == 3, (code, answer)
        return False
    assert code == 0, answer
    back = genuine_tensor(answer, dtype)
    assert back is not None and back.shape == expected.shape
    if back.dtype.kind in "OSV" and "float" not in dtype.name:  # strings, numbers of a few bits
        assert back.tolist() == expected.tolist()
    else:
        assert back.tobytes() == expected.tobytes()
    return True


def all_dtypes():
    for number in types_pb2.DataType.values():
        if 0 < number < 33 and number not in (types_pb2.DT_RESOURCE, types_pb2.DT_VARIANT):
            yield number


VALUE_FIELDS = {
    types_pb2.DT_FLOAT: ("float_val", "f"), types_pb2.DT_DOUBLE: ("double_val", "f"),
    types_pb2.DT_COMPLEX64: ("scomplex_val", "f"), types_pb2.DT_COMPLEX128: ("dcomplex_val", "f"),
    types_pb2.DT_INT64: ("int64_val", "i"), types_pb2.DT_BOOL: ("bool_val", "b"),
    types_pb2.DT_HALF: ("half_val", "h"), types_pb2.DT_BFLOAT16: ("half_val", "h"),
    types_pb2.DT_UINT32: ("uint32_val", "u"), types_pb2.DT_UINT64: ("uint64_val", "u"),
    types_pb2.DT_STRING: ("string_val", "s"),
}


def random_values(kind, count, rng):
    make = {
        "f": lambda: rng.choice([0.0, -0.0, 1.5, -2.25, 1e30, float("inf")]),
        "i": lambda: rng.choice([0, 1, -1, 300, -129, 70000, -2**31, 2**31 - 1]),
        "u": lambda: rng.choice([0, 1, 2**32 - 1, 77]),
        "h": lambda: rng.choice([0, 0x3C00, 0x4000, 0x3F80, 0xBC00]),
        "b": lambda: rng.random() < 0.5,
        "s": lambda: rng.randbytes(rng.choice([0, 1, 22, 23, 500])),
    }[kind]
    return [make() for _ in range(count)]


@pytest.mark.parametrize("number", list(all_dtypes()), ids=types_pb2.DataType.Name)
def test_every_typed_form_of_every_dtype(roundtrip, number):
    dtype = dtypes.as_dtype(number)
    rng = random.Random(number)
    accepted = 0
    for _ in range(60):
        dims = [rng.randrange(0, 4) for _ in range(rng.randrange(0, 4))]
        tensor = tensor_pb2.TensorProto(dtype=number, tensor_shape=shape_of(dims))
        count = rng.choice([0, 1, 2, 3, 7, 40])
        if dtype.name.startswith("float8"):
            tensor.float8_val = rng.randbytes(count)
        else:
            field, kind = VALUE_FIELDS.get(number, ("int_val", "i"))
            getattr(tensor, field).extend(random_values(kind, count, rng))
        if rng.random() < 0.2:
            tensor.int_val.append(5)  # belongs to another dtype, mostly
        accepted += compare_tensor(roundtrip, tensor.SerializeToString(), dtype)
    assert accepted == 60


@pytest.mark.parametrize("number", list(all_dtypes()), ids=types_pb2.DataType.Name)
def test_contents_that_fit_and_that_do_not(roundtrip, number):
    dtype = dtypes.as_dtype(number)
    rng = random.Random(-number)
    for _ in range(60):
        dims = [rng.randrange(0, 4) for _ in range(rng.randrange(0, 4))]
        size = int(np.prod(dims)) * (dtype.size or 1)
        size = max(0, size + rng.choice([0, 0, 0, 1, -1, 8]))
        content = rng.randbytes(size)
        if number == types_pb2.DT_BOOL:
            content = bytes(rng.choice([0, 1, 1, 0, 2 if rng.random() < 0.05 else 1])
                            for _ in content)
        if number == types_pb2.DT_STRING:
            strings = random_values("s", int(np.prod(dims)) + rng.choice([0, 0, 0, 1, -1]), rng)
            content = b"".join(varint(len(s)) for s in strings) + b"".join(strings)
        tensor = tensor_pb2.TensorProto(dtype=number, tensor_shape=shape_of(dims),
                                        tensor_content=content)
        compare_tensor(roundtrip, tensor.SerializeToString(), dtype)


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def test_large_tensors(roundtrip):
    for array in (np.arange(300000, dtype=np.float32), np.arange(70001, dtype=np.int8),
                  np.arange(5000, dtype=np.complex128).reshape(50, 100)):
        tensor = tf.make_tensor_proto(array)
        code, answer = roundtrip.ask("tensorflow.TensorProto", tensor.SerializeToString())
        assert code == 0, answer
        np.testing.assert_array_equal(tf.make_ndarray(tensor_pb2.TensorProto.FromString(answer)),
                                      array)


def test_strange_bytes_are_judged_alike(roundtrip):
    """The bytes of real tensors with some changed: ours must accept exactly what TensorFlow accepts."""
    rng = random.Random(7)
    accepted = refused = 0
    for _ in range(3000):
        number = rng.choice([types_pb2.DT_FLOAT, types_pb2.DT_INT32, types_pb2.DT_STRING,
                             types_pb2.DT_COMPLEX64, types_pb2.DT_BOOL, types_pb2.DT_HALF])
        field, kind = VALUE_FIELDS.get(number, ("int_val", "i"))
        tensor = tensor_pb2.TensorProto(dtype=number, tensor_shape=shape_of([2, 3]))
        if rng.random() < 0.3 and number != types_pb2.DT_STRING:
            tensor.tensor_content = bytes(6 * dtypes.as_dtype(number).size)
        else:
            getattr(tensor, field).extend(random_values(kind, rng.randrange(0, 7), rng))
        data = bytearray(tensor.SerializeToString())
        for _ in range(rng.randrange(1, 3)):
            data[rng.randrange(2, len(data))] = rng.choice([0, 1, 2, 3, 8, 18, 0x22, 127, 128, 255])
        if rng.random() < 0.3:
            del data[rng.randrange(2, len(data)):]
        data = bytes(data)
        try:
            parsed = tensor_pb2.TensorProto.FromString(data)
        except Exception:  # protobuf itself refuses; we must too
            code, answer = roundtrip.ask("tensorflow.TensorProto", data)
            assert code == 3, (code, answer, data)
            refused += 1
            continue
        size = 1
        for dim in parsed.tensor_shape.dim:
            size *= max(dim.size, 0)
        if parsed.dtype != number or size > 10**6 or len(parsed.tensor_shape.dim) > 16:
            continue
        accepted += compare_tensor(roundtrip, data, dtypes.as_dtype(number))
    assert accepted > 300 and refused > 100
