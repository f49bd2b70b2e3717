"""Sound: spectrograms of pieces of every size, and mel-frequency cepstral coefficients of them."""
import numpy as np
from runner import Case

CASES = []
rng = np.random.default_rng(41)
LOOSE = (1e-4, 1e-4)


def add(op, inputs, name, **attrs):
    CASES.append(Case(op, inputs, attrs, tolerance=LOOSE, name=f"{len(CASES)}:{op}({name},{attrs})"))


def sound(samples, channels=1):
    return rng.uniform(-1, 1, (samples, channels)).astype(np.float32)


for squared in (False, True):
    for samples, channels, window, stride in ((100, 1, 8, 4), (64, 2, 64, 1), (50, 3, 10, 7), (9, 1, 10, 3),
                                              (400, 1, 33, 16), (5, 1, 2, 1), (0, 1, 4, 2), (40, 0, 4, 2)):
        add("AudioSpectrogram", [sound(samples, channels)], f"{samples}x{channels}", window_size=window, stride=stride,
            magnitude_squared=squared)
add("AudioSpectrogram", [sound(20)[:, 0]], "rank", window_size=4, stride=2)

SPECTRA = rng.uniform(0, 10, (2, 3, 257)).astype(np.float32)
for attrs in ({}, {"upper_frequency_limit": 7000.0}, {"lower_frequency_limit": 300.0}, {"filterbank_channel_count": 10},
              {"dct_coefficient_count": 40}, {"filterbank_channel_count": 5, "dct_coefficient_count": 2}):
    for rate in (16000, 44100):
        add("Mfcc", [SPECTRA, np.int32(rate)], f"{rate}", **attrs)
add("Mfcc", [np.zeros((1, 2, 129), np.float32), np.int32(16000)], "silence")
add("Mfcc", [np.zeros((0, 2, 129), np.float32), np.int32(16000)], "empty")
for name, spectra, rate, attrs in (
        ("rank", SPECTRA[0], np.int32(16000), {}), ("rate", SPECTRA, np.int32(0), {}),
        ("rates", SPECTRA, np.array([16000, 8000], np.int32), {}),
        ("limits", SPECTRA, np.int32(16000), {"lower_frequency_limit": 5000.0}),
        ("low", SPECTRA, np.int32(16000), {"lower_frequency_limit": -1.0}),
        ("bands", SPECTRA, np.int32(16000), {"filterbank_channel_count": 0}),
        ("coefficients", SPECTRA, np.int32(16000), {"dct_coefficient_count": 0}),
        ("more than bands", SPECTRA, np.int32(16000), {"dct_coefficient_count": 41}),
        ("short", SPECTRA[:, :, :1], np.int32(16000), {})):
    add("Mfcc", [spectra, rate], name, **attrs)
