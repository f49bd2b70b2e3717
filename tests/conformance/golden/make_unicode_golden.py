"""Writes src/kernels/text/regex_unicode.inc: what genuine TensorFlow's patterns mean by Unicode classes.

usage: python make_unicode_golden.py OUTPUT    (with the python of a TensorFlow environment)

Each class is asked of TensorFlow itself, code point by code point: general categories and scripts as
ranges, and for letters which other letters are equal to them without regard to case.
"""
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

CATEGORIES = ("Cc Cf Co Ll Lm Lo Lt Lu Mc Me Mn Nd Nl No Pc Pd Pe Pf Pi Po Ps Sc Sk Sm So Zl Zp "
              "Zs").split()
SCRIPTS = ("Adlam Ahom Anatolian_Hieroglyphs Arabic Armenian Avestan Balinese Bamum Bassa_Vah Batak "
           "Bengali Bhaiksuki Bopomofo Brahmi Braille Buginese Buhid Canadian_Aboriginal Carian "
           "Caucasian_Albanian Chakma Cham Cherokee Chorasmian Common Coptic Cuneiform Cypriot "
           "Cypro_Minoan Cyrillic Deseret Devanagari Dives_Akuru Dogra Duployan Egyptian_Hieroglyphs "
           "Elbasan Elymaic Ethiopic Georgian Glagolitic Gothic Grantha Greek Gujarati Gunjala_Gondi "
           "Gurmukhi Han Hangul Hanifi_Rohingya Hanunoo Hatran Hebrew Hiragana Imperial_Aramaic "
           "Inherited Inscriptional_Pahlavi Inscriptional_Parthian Javanese Kaithi Kannada Katakana "
           "Kawi Kayah_Li Kharoshthi Khitan_Small_Script Khmer Khojki Khudawadi Lao Latin Lepcha Limbu "
           "Linear_A Linear_B Lisu Lycian Lydian Mahajani Makasar Malayalam Mandaic Manichaean Marchen "
           "Masaram_Gondi Medefaidrin Meetei_Mayek Mende_Kikakui Meroitic_Cursive Meroitic_Hieroglyphs "
           "Miao Modi Mongolian Mro Multani Myanmar Nabataean Nag_Mundari Nandinagari New_Tai_Lue Newa "
           "Nko Nushu Nyiakeng_Puachue_Hmong Ogham Ol_Chiki Old_Hungarian Old_Italic Old_North_Arabian "
           "Old_Permic Old_Persian Old_Sogdian Old_South_Arabian Old_Turkic Old_Uyghur Oriya Osage "
           "Osmanya Pahawh_Hmong Palmyrene Pau_Cin_Hau Phags_Pa Phoenician Psalter_Pahlavi Rejang "
           "Runic Samaritan Saurashtra Sharada Shavian Siddham SignWriting Sinhala Sogdian Sora_Sompeng "
           "Soyombo Sundanese Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet Takri Tamil "
           "Tangsa Tangut Telugu Thaana Thai Tibetan Tifinagh Tirhuta Toto Ugaritic Vai Vithkuqi Wancho "
           "Warang_Citi Yezidi Yi Zanabazar_Square").split()
POINTS = [point for point in range(0x110000) if not 0xd800 <= point <= 0xdfff]


def matches(texts, pattern):
    return tf.raw_ops.StaticRegexFullMatch(input=texts, pattern=pattern).numpy()


def ranges_of(points):
    ranges = []
    for point in points:
        if ranges and (ranges[-1][1] == point - 1 or (ranges[-1][1], point) == (0xd7ff, 0xe000)):
            ranges[-1][1] = point
        else:
            ranges.append([point, point])
    return ranges


def write_classes(out):
    texts = tf.constant([chr(point).encode() for point in POINTS])
    points, ends, total = np.array(POINTS), [], 0
    out.write("static const dp_regex_range class_ranges[] = {\n")
    for name in CATEGORIES + SCRIPTS:
        try:
            ranges = ranges_of(points[matches(texts, f"\\p{{{name}}}")].tolist())
        except tf.errors.InvalidArgumentError:
            continue
        out.write(f"    /* {name} */\n")
        for begin in range(0, len(ranges), 5):
            row = ranges[begin:begin + 5]
            out.write("    " + " ".join(f"{{0x{low:x}, 0x{high:x}}}," for low, high in row) + "\n")
        total += len(ranges)
        ends.append((name, total))
    out.write("};\n\n/* Each class ends where the next begins. */\n")
    out.write("static const unicode_class classes[] = {\n")
    for name, end in ends:
        out.write(f"    {{\"{name}\", {end}}},\n")
    out.write("};\n\n")


def write_cases(out):
    letters = [chr(point) for point in POINTS
               if len({chr(point), chr(point).lower(), chr(point).upper(), chr(point).casefold()}) > 1]
    texts = tf.constant([letter.encode() for letter in letters])
    pairs = []
    for letter in letters:
        for index in np.flatnonzero(matches(texts, f"(?i)\\x{{{ord(letter):x}}}")):
            if letters[index] != letter:
                pairs.append((ord(letter), ord(letters[index])))
    out.write("/* Letter and another that is equal to it without regard to case; by rising letter. */\n")
    out.write("static const case_pair case_pairs[] = {\n")
    for begin in range(0, len(pairs), 5):
        out.write("    " + " ".join(f"{{0x{a:x}, 0x{b:x}}}," for a, b in pairs[begin:begin + 5]) + "\n")
    out.write("};\n")


def main():
    with open(sys.argv[1], "w") as out:
        out.write("/* Made by tests/conformance/golden/make_unicode_golden.py from what genuine "
                  "TensorFlow's patterns\n * match; included by regex_unicode.c alone. */\n")
        write_classes(out)
        write_cases(out)


if __name__ == "__main__":
    main()
