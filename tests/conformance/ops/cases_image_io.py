"""Images and sounds as files: decoding in every form, encoding, damaged files; whole files."""
import atexit
import os
import shutil
import struct
import tempfile
import zlib

import numpy as np
import tensorflow as tf
from runner import Case

R = tf.raw_ops
tf1 = tf.compat.v1
RNG = np.random.RandomState(5)
FOLDER = tempfile.mkdtemp(prefix="downpour-images-")
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
CASES = []


def run(op):
    with tf1.Session() as session:
        return session.run(op)


def smooth(height, width, channels):
    y, x, c = np.mgrid[:height, :width, :channels]
    return (127 + 90 * np.sin(y / 5 + c) + 30 * np.cos(x / 7 - c)).astype(np.uint8)


# ---- PNG of every colour type and depth, made by hand ----
def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(width, height, depth, color, rows, extra=b"", interlaced=0, level=6, cut=1 << 20):
    packed = zlib.compress(rows, level)
    parts = b"".join(chunk(b"IDAT", packed[i:i + cut]) for i in range(0, len(packed), cut))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(
        ">IIBBBBB", width, height, depth, color, 0, 0, interlaced)) + extra + parts + \
        chunk(b"IEND", b"")


def noise_rows(width, height, bits):
    length = (width * bits + 7) // 8
    return b"".join(bytes([y % 5]) + RNG.bytes(length) for y in range(height))


FILES = []
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
for color, depths in [(0, (1, 2, 4, 8, 16)), (2, (8, 16)), (3, (1, 2, 4, 8)), (4, (8, 16)),
                      (6, (8, 16))]:
    for depth in depths:
        palette = chunk(b"PLTE", RNG.bytes(3 * min(256, 1 << depth))) if color == 3 else b""
        rows = noise_rows(13, 7, depth * CHANNELS[color])
        FILES.append(png(13, 7, depth, color, rows, palette, cut=50))
        if color == 3:
            FILES.append(png(13, 7, depth, color, rows, palette + chunk(b"tRNS", b"\x00\x80")))
        if color == 0:
            FILES.append(png(13, 7, depth, color, rows, chunk(b"tRNS", b"\x00\x01")))
        if color == 2:
            FILES.append(png(13, 7, depth, color, b"\0" * 300 + rows,
                             chunk(b"tRNS", b"\x00\x00" * 3)))


def interlaced(width, height, depth, color):
    rows = b""
    for x0, y0, dx, dy in [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4),
                           (1, 0, 2, 2), (0, 1, 1, 2)]:
        w, h = -(-(width - x0) // dx), -(-(height - y0) // dy)
        if w > 0 and h > 0:
            rows += noise_rows(w, h, depth * CHANNELS[color])
    return png(width, height, depth, color, rows, interlaced=1)


FILES += [interlaced(w, h, d, c) for w, h, d, c in
          [(13, 7, 8, 2), (1, 1, 8, 0), (5, 3, 16, 6), (9, 9, 1, 0), (3, 17, 8, 4)]]
for data in FILES:
    for channels in (0, 1, 3, 4):
        CASES.append(Case("DecodePng", [data], {"channels": channels}))
    CASES.append(Case("DecodePng", [data], {"dtype": tf.uint16}))
    CASES.append(Case("DecodePng", [data], {"dtype": tf.uint16, "channels": 1}))
    CASES.append(Case("DecodePng", [data], {"dtype": tf.uint16, "channels": 4}))
    CASES.append(Case("DecodeImage", [data], {"dtype": tf.float32}))
GOOD = png(13, 7, 8, 2, noise_rows(13, 7, 24))
for name, data in [("cut", GOOD[:-60]), ("cut head", GOOD[:20]), ("empty", b""),
                   ("bad checksum", GOOD[:60] + b"x" + GOOD[61:]),
                   ("bad head", GOOD[:16] + b"\0\0\0\0" + GOOD[20:]),
                   ("no palette", png(3, 3, 8, 3, b"\0" * 12)),
                   ("few pixels", png(13, 7, 8, 2, noise_rows(13, 3, 24))),
                   ("filter 9", png(1, 1, 8, 0, b"\x09\x00")),
                   ("unknown", b"hello, world")]:
    CASES.append(Case("DecodePng", [data], name=f"DecodePng {name}"))

# Headers of images that are not there.
for width, height in [(1000, 1000), (1000000, 9), (1000001, 1), (1, 1000001), (100000, 10000)]:
    data = png(width, height, 16, 6, b"\0" * 9)
    CASES.append(Case("DecodePng", [data], name=f"DecodePng hollow {width} {height}"))

for channels in (1, 2, 3, 4):
    for dtype in (np.uint8, np.uint16):
        image = (smooth(19, 23, channels).astype(dtype) * (1 if dtype == np.uint8 else 257))
        for compression in (-1, 0, 9):
            CASES.append(Case("EncodePng", [image], {"compression": compression}))
# A single pixel is not filtered, and packed accordingly; a single row or column is.
for shape in ((1, 1, 4), (1, 5, 1), (5, 1, 1)):
    for compression in (-1, 1, 5, 9):
        CASES.append(Case("EncodePng", [np.full(shape, 255, np.uint8)],
                          {"compression": compression}))
# Around what zlib gets less memory for: varied and not, small and not.
SMALL = np.random.RandomState(9)
for height, width, channels in ((16, 16, 3), (36, 36, 3), (37, 36, 3), (28, 28, 1), (9, 30, 4)):
    for colours in (2, 5, 40, 256):
        for compression in (-1, 5, 6, 9):
            CASES.append(Case("EncodePng", [SMALL.randint(0, colours, (height, width, channels))
                                            .astype(np.uint8)], {"compression": compression}))
CASES += [Case("EncodePng", [np.zeros([2, 2], np.uint8)]),
          Case("EncodePng", [np.zeros([2, 2, 5], np.uint8)]),
          Case("EncodePng", [np.zeros([0, 2, 3], np.uint8)]),
          Case("EncodePng", [smooth(6, 5, 3).reshape(2, 3, 5, 3)], since=(2, 16)),
          Case("EncodePng", [np.zeros([3, 0, 2, 3], np.uint8)], since=(2, 16))]

# ---- JPEG ----
JPEGS = []
with tf.Graph().as_default():
    for channels in (1, 3):
        for attrs in ({}, {"progressive": True}, {"chroma_downsampling": False, "quality": 50}):
            JPEGS.append(run(R.EncodeJpeg(image=smooth(37, 45, channels), **attrs)))
for data in JPEGS:
    for attrs in ({}, {"channels": 1}, {"channels": 3}, {"channels": 4}, {"ratio": 2}, {"ratio": 8},
                  {"dct_method": "INTEGER_ACCURATE"}, {"fancy_upscaling": False}, {"ratio": 3},
                  {"dct_method": "x"}):
        CASES.append(Case("DecodeJpeg", [data], attrs))
    for window in ([0, 0, 37, 45], [5, 7, 20, 30], [5, 8, 1, 1], [36, 44, 1, 1], [0, 0, 38, 45],
                   [-1, 0, 5, 5], [0, 0, 0, 5]):
        CASES.append(Case("DecodeAndCropJpeg", [data, np.int32(window)]))
    CASES.append(Case("DecodeAndCropJpeg", [data, np.int32([1, 2, 3])]))
    for kind in (tf.int32, tf.int64):
        CASES.append(Case("ExtractJpegShape", [data], {"output_type": kind}))
    for cut in (len(data) // 2, len(data) - 20, 30):
        CASES.append(Case("DecodeJpeg", [data[:cut]]))
        CASES.append(Case("DecodeJpeg", [data[:cut]], {"try_recover_truncated": True}))
        CASES.append(Case("DecodeJpeg", [data[:cut]], {"acceptable_fraction": 0.3}))
    CASES.append(Case("DecodeImage", [data], {"dtype": tf.float32}))
    CASES.append(Case("DecodeImage", [data], {"dtype": tf.uint16}))
    CASES.append(Case("DecodeGif", [data]))
    CASES.append(Case("DecodeBmp", [data]))
# Small ones are decoded in another way.
with tf.Graph().as_default():
    SMALL_JPEGS = [run(R.EncodeJpeg(image=image, quality=quality, chroma_downsampling=downsampling))
                   for image in (smooth(1, 1, 3), smooth(16, 16, 3), smooth(5, 3, 3), smooth(33, 9, 3),
                                 np.random.RandomState(7).randint(0, 256, [18, 41, 3]).astype(np.uint8))
                   for quality in (5, 60, 95, 100) for downsampling in (False, True)]
for data in SMALL_JPEGS:
    CASES += [Case("DecodeJpeg", [data], {"fancy_upscaling": fancy, "dct_method": method})
              for fancy in (False, True) for method in ("INTEGER_FAST", "INTEGER_ACCURATE")]
    CASES += [Case("DecodeJpeg", [data], {"channels": 1}), Case("DecodeImage", [data])]


def without_segments(data, kind):
    """The file without its tables: nothing may be left of those that the file before had."""
    kept, at = data[:2], 2
    while data[at + 1] != 0xda:
        end = at + 2 + int.from_bytes(data[at + 2:at + 4], "big")
        kept += data[at:end] if data[at + 1] != kind else b""
        at = end
    return kept + data[at:]


for data in JPEGS:
    CASES += [Case("DecodeJpeg", [without_segments(data, kind)]) for kind in (0xc4, 0xdb)]
CASES.append(Case("ExtractJpegShape", [b"\xff\xd8\xffnonsense"]))
CASES.append(Case("DecodeJpeg", [b"\xff\xd8\xffnonsense"]))
for channels in (1, 3):
    for attrs in ({}, {"quality": 10}, {"progressive": True}, {"optimize_size": True},
                  {"chroma_downsampling": False}, {"density_unit": "cm", "x_density": 7},
                  {"xmp_metadata": "data"}, {"format": "rgb"}, {"format": "grayscale"},
                  {"quality": 101}):
        CASES.append(Case("EncodeJpeg", [smooth(33, 21, channels)], attrs))
    CASES.append(Case("EncodeJpegVariableQuality", [smooth(9, 9, channels), np.int32(30)]))
# The same settings one after the other, in several sizes.
CASES += [Case("EncodeJpeg", [smooth(height, width, channels)]) for channels in (1, 3)
          for height, width in ((1, 1), (16, 16), (40, 300), (17, 8))]
CASES += [Case("EncodeJpeg", [np.zeros([2, 2, 4], np.uint8)]),
          Case("EncodeJpeg", [np.zeros([2, 2], np.uint8)]),
          Case("EncodeJpeg", [np.zeros([0, 2, 3], np.uint8)])]


# ---- BMP ----
def bmp(width, height, channels, size=None):
    row = (channels * width + 3) // 4 * 4
    pixels = RNG.bytes(row * abs(height))
    head = b"BM" + struct.pack("<IHHI", 54 + len(pixels), 0, 0, 54) + struct.pack(
        "<IiiHHIIiiII", 40, width, height, 1, channels * 8, 0, len(pixels), 0, 0, 0, 0)
    return (head + pixels)[:size]


for channels in (1, 3, 4):
    for height in (5, -5):
        data = bmp(7, height, channels)
        for wanted in (0, 3, 4, 1):
            CASES.append(Case("DecodeBmp", [data], {"channels": wanted}) if wanted in (0, channels)
                         else Case("DecodeBmp", [bmp(7, height, wanted)], {"channels": wanted}))
        CASES.append(Case("DecodePng", [data]))
CASES += [Case("DecodeBmp", [bmp(7, 5, 3, 100)]), Case("DecodeBmp", [bmp(7, 5, 3, 20)]),
          Case("DecodeBmp", [bmp(7, 5, 2)]), Case("DecodeImage", [bmp(7, 5, 3)]),
          Case("DecodeImage", [bmp(7, 5, 3)], {"dtype": tf.float32})]


# ---- Sounds ----
WAVE = np.sin(np.arange(60)).reshape(30, 2).astype(np.float32) * 1.2
with tf.Graph().as_default():
    SOUND = run(R.EncodeWav(audio=WAVE, sample_rate=8000))
CASES += [Case("EncodeWav", [WAVE, np.int32(44100)]), Case("EncodeWav", [WAVE, np.int32(0)]),
          Case("EncodeWav", [WAVE[:, 0], np.int32(1)]), Case("EncodeWav", [WAVE[:0], np.int32(1)])]
for attrs in ({}, {"desired_channels": 1}, {"desired_channels": 3}, {"desired_samples": 10},
              {"desired_samples": 40}):
    CASES.append(Case("DecodeWav", [SOUND], attrs))
for data in (SOUND[:-3], SOUND[:40], b"", SOUND[:20] + b"\x02" + SOUND[21:], SOUND + b"abc",
             SOUND[:36] + b"LIST\x02\0\0\0xy" + SOUND[36:]):
    CASES.append(Case("DecodeWav", [data]))


# ---- Files ----
def path(name):
    return os.path.join(FOLDER, name).encode()


for name in ("a1.txt", "a2.txt", "b1.txt", "folder/c.txt"):
    os.makedirs(os.path.dirname(path(name)), exist_ok=True)
    open(path(name), "wb").write(name.encode() * 1000)
open(path("empty"), "wb").close()
for name in ("a1.txt", "empty", "absent", "folder", "absent/x"):
    CASES.append(Case("ReadFile", [path(name)], name=f"ReadFile {name}"))
CASES.append(Case("ReadFile", [np.array([path("a1.txt")], object)], name="ReadFile vector"))
for size in (1, 22, 23, 1000, 4095, 4096, 4097):  # around what is read in one go
    open(path(f"size{size}"), "wb").write(bytes(i * 7 % 251 for i in range(size)))
    CASES.append(Case("ReadFile", [path(f"size{size}")], name=f"ReadFile of {size} bytes"))
for index, patterns in enumerate([path("*.txt"), path("a?.txt"), path("[ab]1.txt"), path("*/*.txt"),
                                  path("a1.txt"), path("zzz*"), path("zzz"), path("*"),
                                  np.array([path("b*"), path("a*")], object), b"",
                                  np.array([[path("b*")]], object), path("fo*/../a1.txt"),
                                  path("{a1,b1}.txt"), path("folder/")]):
    CASES.append(Case("MatchingFiles", [patterns], name=f"MatchingFiles {index}"))
CASES.append(Case("WriteFile", build=lambda: ({}, [
    [R.WriteFile(filename=path("new/deep/w.txt"), contents=b"x\0y" * 1000)],
    [R.ReadFile(filename=path("new/deep/w.txt"))],
    [R.WriteFile(filename=path("new/deep/w.txt"), contents=b"")],
    [R.ReadFile(filename=path("new/deep/w.txt"))],
    [R.WriteFile(filename=path("a1.txt/x"), contents=b"")]])))
CASES.append(Case("Timestamp", build=lambda: ({}, [[R.Timestamp()]]),
                  check=lambda got: None if got[0] > 1e9 else "no time"))
