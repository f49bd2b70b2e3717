"""GIF files: of every kind, and damaged in every place."""
import struct

import numpy as np
import tensorflow as tf
from runner import Case

RNG = np.random.RandomState(5)
CASES = []


# ---- Files made by hand ----
def blocks(data, most=255):
    """Bytes in blocks, each behind its length, and the empty one that ends them."""
    return b"".join(bytes([len(data[i:i + most])]) + data[i:i + most]
                    for i in range(0, len(data), most)) + b"\0"


class Packer:
    """Codes as bits, each as wide as a reader's table asks for when it has read the ones before."""

    def __init__(self, size):
        self.size = size
        self.bits = self.count = 0
        self.clear()

    def clear(self):
        self.width, self.next = self.size + 1, (1 << self.size) + 2

    def put(self, code):
        self.bits |= (code & ((1 << self.width) - 1)) << self.count
        self.count += self.width
        self.next = min(self.next + 1, 4097)
        if self.next > 1 << self.width and self.width < 12:
            self.width += 1
        if code == 1 << self.size:
            self.clear()

    def data(self):
        return self.bits.to_bytes((self.count + 7) // 8, "little")


def codes(values, size=8, most=255):
    """A frame's data from codes as they are, whatever they mean."""
    packer = Packer(size)
    for value in values:
        packer.put(value)
    return bytes([size]) + blocks(packer.data(), most)


def lzw(indices, size=8, most=255, clear_when_full=True):
    """A frame's data. With clear_when_full false the full table stays in use to the end."""
    clear = 1 << size
    table, result, run = {}, [clear], ()
    for index in indices:
        if run + (index,) in table or not run:
            run += (index,)
            continue
        result.append(table[run] if len(run) > 1 else run[0])
        if len(table) + clear + 2 < 4096:
            table[run + (index,)] = len(table) + clear + 2
        elif clear_when_full:
            table = {}
            result.append(clear)
        run = (index,)
    if run:
        result.append(table[run] if len(run) > 1 else run[0])
    return codes(result + [clear + 1], size, most)


def head(width, height, colors=256, version=b"GIF89a"):
    """The beginning, with a palette of so many colours, or none."""
    bits = max(colors.bit_length() - 2, 0)
    flags = (0x80 if colors else 0) | bits
    return version + struct.pack("<HHBBB", width, height, flags, 0, 0) + RNG.bytes(3 * colors)


def frame(left, top, width, height, data=None, colors=0, interlaced=False, indices=None, most=255):
    """A frame of noise, or of `indices`, or with `data`; with a palette of its own if colors."""
    flags = (0x40 if interlaced else 0) | (0x80 | (colors.bit_length() - 2) if colors else 0)
    if data is None:
        if indices is None:
            indices = RNG.randint(0, colors or 256, width * height)
        data = lzw([int(v) for v in indices], 8, most)
    return b"\x2c" + struct.pack("<HHHHB", left, top, width, height, flags) + \
        RNG.bytes(3 * colors) + data


def control(transparent=None, disposal=0, size=4):
    """What stands before a frame: which colour is transparent, what becomes of it after."""
    flags = disposal << 2 | (transparent is not None)
    return b"\x21\xf9" + blocks(struct.pack("<BHB", flags, 10, transparent or 0)[:size] +
                                b"x" * (size - 4))


def extension(kind, data, most=255):
    return b"\x21" + bytes([kind]) + blocks(data, most)


# What older versions refuse as a whole, or leave to whatever was in the memory.
NEWER = (2, 21)


def add(name, data, since=None):
    CASES.append(Case("DecodeGif", [data], name=f"DecodeGif {name}", since=since))
    CASES.append(Case("DecodeImage", [data], {"expand_animations": False},
                      name=f"DecodeImage first of {name}", since=since))


def add_to_every_op(name, data):
    for attrs in ({}, {"dtype": tf.uint16}, {"dtype": tf.float32}, {"channels": 1},
                  {"expand_animations": False, "dtype": tf.float32}):
        CASES.append(Case("DecodeImage", [data], attrs, name=f"DecodeImage {name} {attrs}"))
    for op in ("DecodePng", "DecodeJpeg", "DecodeBmp"):
        for channels in (0, 1, 3, 4):
            CASES.append(Case(op, [data], {"channels": channels}, name=f"{op} {channels} {name}"))
    for channels in (0, 4):
        CASES.append(Case("DecodeAndCropJpeg", [data, np.int32([0, 0, 1, 1])], {"channels": channels},
                          name=f"DecodeAndCropJpeg {channels} {name}"))


# ---- Whole ones ----
ONE, END = frame(0, 0, 9, 8), b";"
WHOLE = {
    "one frame": head(9, 8) + ONE + END,
    "three frames": head(9, 8) + ONE + control(7) + frame(2, 1, 5, 6) + ONE + END,
    "smaller than the canvas": head(9, 8) + frame(2, 1, 5, 6) + END,
    "no frames": head(9, 8) + END,
}
for name, data in WHOLE.items():
    add(name, data)
    add_to_every_op(name, data)

for height in range(1, 18):
    add(f"interlaced {height}", head(5, height) + frame(0, 0, 5, height, interlaced=True) + END)
for place in [(0, 0, 4, 9), (8, 7, 9, 8), (9, 8, 9, 8), (100, 0, 3, 3), (0, 100, 3, 3), (3, 3, 20, 2),
              (65535, 65535, 1, 1), (1, 2, 7, 5), (0, 0, 9, 7), (0, 0, 8, 8), (0, 0, 1, 20)]:
    add(f"placed {place}", head(9, 8) + frame(*place) + END)
    add(f"then placed {place}", head(9, 8) + ONE + frame(*place, interlaced=True) + END)
    add(f"placed {place} then", head(9, 8) + frame(*place) + ONE + END)
for colors in (2, 4, 8, 16, 32, 64, 128, 256):
    few = [int(v) for v in RNG.randint(0, colors, 72)]
    size = max(colors.bit_length() - 1, 1)
    add(f"{colors} colors", head(9, 8, colors) + frame(0, 0, 9, 8, lzw(few, size)) + END)
    add(f"{colors} own colors", head(9, 8, 0) + frame(0, 0, 9, 8, lzw(few), colors) + END)
    add(f"beyond {colors} colors", head(9, 8, colors) +
        frame(0, 0, 9, 8, indices=few[:-1] + [colors & 255]) + END)
    add(f"beyond {colors} colors, transparent", head(9, 8, colors) + control(colors & 255) +
        frame(0, 0, 9, 8, indices=few[:-1] + [colors & 255]) + END, NEWER)
add("several beyond, interlaced", head(3, 9, 4) +
    frame(0, 0, 3, 9, indices=range(27), interlaced=True) + END)
add("beyond, outside of the canvas", head(9, 8, 2) +
    frame(3, 0, 9, 8, indices=([0] * 6 + [77] * 3) * 8) + END)
add("no colors", head(9, 8, 0) + ONE + END)
add("no colors in the second", head(9, 8, 0) + frame(0, 0, 9, 8, colors=256) + ONE + END)
add("own colors, then common ones", head(9, 8) + frame(0, 0, 9, 8, colors=256) + ONE + END)
for disposal in range(8):
    add(f"disposal {disposal}", head(9, 8) + control(3, disposal) + ONE + control(9, disposal) +
        frame(1, 1, 5, 5) + control(None, disposal) + frame(2, 2, 3, 3, indices=[9] * 9) + END, NEWER)
for transparent in (0, 1, 255):
    add(f"transparent {transparent} from the start", head(3, 3) + control(transparent) +
        frame(0, 0, 3, 3, indices=[0, 1, 255] * 3) + END, NEWER)
ZEROS_ONES = frame(0, 0, 3, 3, indices=[0, 1, 0, 1, 2, 1, 0, 1, 0])
for name, before in {
        "the first counts": control(0) + control(1), "the first is none": control() + control(1),
        "too short": control(1, size=3) + control(0), "too long": control(1, size=5) + control(0),
        "empty": b"\x21\xf9\0" + control(1), "comment": extension(0xfe, b"x" * 600) + control(1),
        "comment in bytes": extension(0xfe, b"comment", 1) + control(0),
        "application": extension(0xff, b"NETSCAPE2.0") + control(1) + extension(0x01, b"t" * 12),
        "unknown": extension(0x77, b"abc") + extension(0, b"\1\0\0\1") + control(0),
        "goes on": b"\x21\xf9\x04\1\0\0\1\x04\1\0\0\0\0"}.items():
    add(f"control {name}", head(3, 3) + before + ZEROS_ONES + END, NEWER)
    add(f"control {name} before the second", head(3, 3) + ONE + before + ZEROS_ONES + END,
        NEWER if name == "empty" else None)
add("control for one frame only", head(3, 3) + control(1) + ZEROS_ONES + ZEROS_ONES + END, NEWER)
add("nothing after an empty comment", head(3, 3) + ZEROS_ONES + b"\x21\xfe\0", NEWER)
add("old version", head(9, 8, version=b"GIF87a") + ONE + END)
add("no version", head(9, 8, version=b"GIF8\0\0") + ONE + END)
add("more behind the end", head(9, 8) + ONE + END + ONE + b"hello")
add("no end", head(9, 8) + ONE, NEWER)
add("forty frames", head(4, 4) + b"".join(
    frame(i % 3, i % 2, 1 + i % 4, 1 + i % 3) for i in range(40)) + END)

# ---- Packed pixels ----
STRIPES = [int(v) for v in np.repeat(RNG.randint(0, 4, 3000), RNG.randint(1, 9, 3000))[:9000]]
for size, most in ((2, 255), (2, 1), (3, 7), (8, 254)):
    add(f"packed {size} {most}", head(90, 100) + frame(0, 0, 90, 100, lzw(STRIPES, size, most)) + END)
NOISE = [int(v) for v in RNG.randint(0, 256, 20000)]
for clears in (True, False):
    add(f"full table, clears {clears}", head(200, 100) + frame(
        0, 0, 200, 100, lzw(NOISE, clear_when_full=clears)) + END)
    add(f"full table in lines, clears {clears}", head(200, 100) + frame(
        0, 0, 200, 100, lzw(NOISE, clear_when_full=clears), interlaced=True) + END)
add("one color", head(300, 300) + frame(0, 0, 300, 300, lzw([1] * 90000, 1)) + END)
for size in range(0, 14):
    add(f"code size {size}", head(2, 2) +
        frame(0, 0, 2, 2, bytes([size]) + blocks(b"\x04\x11\x51\x00")) + END)
    add(f"code size {size} of noise", head(9, 9) + ZEROS_ONES +
        frame(0, 0, 9, 9, bytes([size]) + blocks(RNG.bytes(200))) + END, NEWER)
for name, values in {
        "no clear": [1, 2, 3, 1, 5], "no end": [4, 1, 2, 3, 1, 2, 3, 0, 0, 1],
        "two clears": [4, 4, 1, 2, 4, 3],
        "end at once": [4, 5], "end too soon": [4, 1, 2, 3, 5], "first unknown": [4, 6, 1],
        "the next": [4, 1, 6, 7, 8], "beyond the next": [4, 1, 7, 2, 3, 1, 2, 3, 1, 2],
        "far beyond": [4, 1, 2, 3, 3, 12, 9, 10, 12, 1, 2, 3],
        "a circle": [4, 1, 7, 7, 7, 7, 7], "a circle of two": [4, 1, 7, 2, 8, 1, 7, 8, 8, 7],
        "more than wanted": [4] + [1, 2, 3, 0] * 9 + [5], "nothing": [],
        "end unread": [4, 1, 6, 7, 5, 1, 1, 1], "zero size": [4, 1, 2]}.items():
    data = codes(values, 2)
    width = 0 if name == "zero size" else 3
    for interlaced in (False, True):
        bad = frame(0, 0, width, 3, data, interlaced=interlaced)
        add(f"codes {name} {interlaced}", head(3, 3) + bad + END)
        add(f"codes {name} {interlaced}, second", head(3, 3) + ZEROS_ONES + bad + ZEROS_ONES + END,
            NEWER)
for seed in range(60):
    NOISY = np.random.RandomState(seed)
    values = [int(v) for v in NOISY.randint(0, (7, 9, 12)[seed % 3], 60)]
    add(f"random codes {seed}", head(5, 4) + frame(0, 0, 5, 4, indices=range(20)) +
        frame(0, 0, 5, 4, codes([4] + [v if v != 5 else 0 for v in values], 2)) + END, NEWER)
GOOD = lzw([int(v) for v in RNG.randint(0, 4, 9)], 2)
add("more blocks than needed", head(3, 3) + frame(0, 0, 3, 3, GOOD[:-1] + blocks(b"x" * 300)) + END)
add("blocks that never end", head(3, 3) + ZEROS_ONES + frame(0, 0, 3, 3, GOOD[:-1] + b"\x05xy"), NEWER)

# ---- More claimed than there is ----
for width, height in [(65535, 65535), (65535, 32767), (32768, 65535), (65535, 32769), (46341, 46341),
                      (0, 3), (3, 0), (0, 0)]:
    hollow = frame(0, 0, width, height, lzw([1] * 50))
    add(f"hollow {width} {height}", head(width, height) + hollow + END)
    add(f"hollow {width} {height}, second", head(3, 3) + ZEROS_ONES + hollow + END, NEWER)
    cut = frame(0, 0, width, height, lzw([1] * 50)[:-9] + b"\0")
    add(f"cut {width} {height}, second", head(3, 3) + ZEROS_ONES + cut + END, NEWER)
add("a large canvas", head(65535, 65535) + ZEROS_ONES + END)
add("long and high", head(3, 3) + frame(0, 0, 3000, 1) + frame(0, 0, 1, 2000) + END)

# ---- Damaged in every place ----
SMALL = head(3, 2, 4) + control(1) + frame(0, 0, 3, 2, lzw([0, 1, 2, 3, 0, 0], 2)) + \
    extension(0xfe, b"hi") + control(2, 1) + frame(1, 0, 2, 2, lzw([3, 2, 1, 0], 2), 4, True) + END
add("small", SMALL, NEWER)
for length in range(len(SMALL)):
    add(f"cut at {length}", SMALL[:length], NEWER)
for at in range(len(SMALL)):
    for change in (0x01, 0x80, 0xff, 0x04, 0x20):
        add(f"byte {at} changed by {change}",
            SMALL[:at] + bytes([SMALL[at] ^ change]) + SMALL[at + 1:], NEWER)
