"""Random ops: every number must be TensorFlow's, bit for bit, over several runs of one kernel.

Cases without seeds are checked by their shape, range and moments.
"""
import numpy as np
import tensorflow as tf
from runner import Case, bfloat16, make_op

R = tf.raw_ops
tf1 = tf.compat.v1
FLOATS = [np.float32, np.float64, np.float16, bfloat16]
EXACT = (0, 0)
CASES = []
COUNTER = [0]


def feed(value):
    return tf1.placeholder_with_default(value, shape=None)


def case(op, label, build, tolerance=EXACT, check=None, runs=3):
    """`build` gives one fetch list, which is run several times."""
    CASES.append(Case(op, name=f"{op} {label}", tolerance=tolerance, check=check,
                      build=lambda: ({}, [build()] * runs)))


def shape_of(*dims, dtype=np.int32):
    return feed(np.array(dims, dtype))


SHAPES = [(), (1,), (3,), (7, 5), (0, 2), (5003,)]
SEEDS = [(1, 0), (0, 7), (123456789012, -98765432101)]

# ---- Kernels with seeds ----
for op in ("RandomUniform", "RandomStandardNormal", "TruncatedNormal"):
    for number in FLOATS:
        for size in SHAPES:
            case(op, f"{np.dtype(number).name}{list(size)}",
                 lambda op=op, number=number, size=size: [getattr(R, op)(
                     shape=shape_of(*size), dtype=number, seed=87654321, seed2=42)])
        for seed, seed2 in SEEDS:
            case(op, f"{np.dtype(number).name} seeds {seed} {seed2}",
                 lambda op=op, number=number, seed=seed, seed2=seed2: [getattr(R, op)(
                     shape=shape_of(203, dtype=np.int64), dtype=number, seed=seed, seed2=seed2)])
    case(op, "large", lambda op=op: [getattr(R, op)(shape=shape_of(300, 1001), dtype=tf.float32,
                                                    seed=5, seed2=6)], runs=2)
    for bad in ([-1], [[2]], [3, -2]):
        case(op, f"shape {bad}", lambda op=op, bad=bad: [getattr(R, op)(
            shape=feed(np.array(bad, np.int32)), dtype=tf.float32, seed=1)], runs=1)
for number in (np.int32, np.int64):
    for low, high in ((0, 10), (-5, 5), (0, 1), (-2**31, 2**31 - 1), (5, 5), (7, 3)):
        case("RandomUniformInt", f"{number.__name__} {low} {high}",
             lambda number=number, low=low, high=high: [R.RandomUniformInt(
                 shape=shape_of(1001), minval=feed(number(low)), maxval=feed(number(high)), seed=3,
                 seed2=4)])
    case("RandomUniformInt", f"{number.__name__} empty",
         lambda number=number: [R.RandomUniformInt(shape=shape_of(0), minval=feed(number(7)),
                                                   maxval=feed(number(3)), seed=3)])
    case("RandomUniformInt", f"{number.__name__} vector", lambda number=number: [R.RandomUniformInt(
        shape=shape_of(2), minval=feed(number([1])), maxval=feed(number(3)), seed=3)])


def build_mixed():
    """Two kernels, other shapes between: each goes on where it was."""
    small = R.RandomUniform(shape=shape_of(3), dtype=tf.float32, seed=9, seed2=9)
    other = R.RandomStandardNormal(shape=shape_of(2, 2), dtype=tf.float64, seed=9, seed2=9)
    return {}, [[small], [small, other], [other], [small], [other, small]]


CASES.append(Case("RandomUniform", name="RandomUniform mixed", tolerance=EXACT, build=build_mixed))


def check_free(results):
    values = np.asarray(results[0])
    if values.shape != (4000,) or values.min() < 0 or values.max() >= 1:
        return f"shape {values.shape}, from {values.min()} to {values.max()}"
    return None if abs(values.mean() - 0.5) < 0.05 else f"mean {values.mean()}"


case("RandomUniform", "without seeds",
     lambda: [R.RandomUniform(shape=shape_of(4000), dtype=tf.float32)], check=check_free)
case("NonDeterministicInts", "int64", lambda: [R.NonDeterministicInts(shape=shape_of(50))],
     check=lambda r: None if len(set(np.asarray(r[0]).tolist())) == 50 else "repeated numbers")

# ---- Stateless ops ----
STATELESS = {"StatelessRandomUniform": FLOATS, "StatelessRandomNormal": FLOATS,
             "StatelessTruncatedNormal": FLOATS,
             "StatelessRandomUniformFullInt": [np.int32, np.int64, np.uint32, np.uint64]}
for op, numbers in STATELESS.items():
    for number in numbers:
        for size in [(), (6, 5), (1003,), (0,)]:
            for seed_type in (np.int32, np.int64):
                case(op, f"{np.dtype(number).name}{list(size)} {seed_type.__name__}",
                     lambda op=op, number=number, size=size, seed_type=seed_type: [getattr(R, op)(
                         shape=shape_of(*size), seed=feed(np.array([-3, 77], seed_type)),
                         dtype=number)], runs=1)
            case(op + "V2", f"{np.dtype(number).name}{list(size)}",
                 lambda op=op, number=number, size=size: [getattr(R, op + "V2")(
                     shape=shape_of(*size), key=feed(np.uint64([2**63 + 5])),
                     counter=feed(np.uint64([2**64 - 3, 17])), alg=feed(np.int32(1)),
                     dtype=number)], runs=1)
    for seed in ([1], [[1, 2]], 3):
        case(op, f"seed {seed}", lambda op=op, seed=seed, number=numbers[0]: [getattr(R, op)(
            shape=shape_of(2), seed=feed(np.array(seed, np.int32)), dtype=number)], runs=1)
    for key, counter, algorithm in (([1, 2], [1, 2], 1), ([1], [[1, 2]], 1),
                                    ([1], [1, 2, 3], 1), ([1], [1, 2], 3), ([1], [1, 2], 2),
                                    ([1], [1, 2], 9), ([1], [1, 2], [1])):
        case(op + "V2", f"key {key} counter {counter} alg {algorithm}",
             lambda op=op, number=numbers[0], key=key, counter=counter, algorithm=algorithm:
             [getattr(R, op + "V2")(shape=shape_of(5), key=feed(np.array(key, np.uint64)),
                                    counter=feed(np.array(counter, np.uint64)),
                                    alg=feed(np.array(algorithm, np.int32)), dtype=number)], runs=1)
for number in (np.int32, np.int64):
    for low, high in ((0, 10), (-500, 2000000000), (3, 3)):
        case("StatelessRandomUniformInt", f"{number.__name__} {low} {high}",
             lambda number=number, low=low, high=high: [R.StatelessRandomUniformInt(
                 shape=shape_of(503), seed=feed(np.int64([2, 2**40])), minval=feed(number(low)),
                 maxval=feed(number(high)))], runs=1)
        case("StatelessRandomUniformIntV2", f"{number.__name__} {low} {high}",
             lambda number=number, low=low, high=high: [R.StatelessRandomUniformIntV2(
                 shape=shape_of(503), key=feed(np.uint64([9])), counter=feed(np.uint64([1, 2])),
                 alg=feed(np.int32(1)), minval=feed(number(low)), maxval=feed(number(high)))],
             runs=1)
for seed in ([1, 2], [-1, 2**31 - 1], [1]):
    for op in ("StatelessRandomGetKeyCounter", "StatelessRandomGetKeyCounterAlg"):
        case(op, f"{seed}", lambda op=op, seed=seed: list(getattr(R, op)(
            seed=feed(np.array(seed, np.int32)))), runs=1)
case("StatelessRandomGetAlg", "", lambda: [R.StatelessRandomGetAlg()], runs=1)


# ---- Generators in variables ----
def state_steps(make, state=(5, -7, 11), steps=5):
    def build():
        COUNTER[0] += 1
        handle = R.VarHandleOp(dtype=tf.int64, shape=None, shared_name=f"generator{COUNTER[0]}")
        start = R.AssignVariableOp(resource=handle, value=feed(np.int64(state)))
        made = make(handle)
        read = R.ReadVariableOp(resource=handle, dtype=tf.int64)
        return {}, [[start], [made], [read], [made], [read]][:steps]
    return build


def state_case(op, label, make, **more):
    CASES.append(Case(op, name=f"{op} {label}", tolerance=EXACT, build=state_steps(make, **more)))


for number in FLOATS:
    for op in ("StatefulUniform", "StatefulStandardNormalV2", "StatefulTruncatedNormal"):
        state_case(op, np.dtype(number).name, lambda h, op=op, number=number: getattr(R, op)(
            resource=h, algorithm=feed(np.int64(1)), shape=shape_of(37, 3), dtype=number))
    state_case("StatefulStandardNormal", np.dtype(number).name, lambda h, number=number: make_op(
        "StatefulStandardNormal", resource=h, shape=shape_of(37, 3), dtype=number))
for number in (np.int32, np.int64, np.uint32, np.uint64):
    state_case("StatefulUniformFullInt", number.__name__, lambda h, number=number:
               R.StatefulUniformFullInt(resource=h, algorithm=feed(np.int64(1)), shape=shape_of(41),
                                        dtype=number))
for number in (np.int32, np.int64):
    for low, high in ((-3, 100), (4, 4)):
        state_case("StatefulUniformInt", f"{number.__name__} {low} {high}",
                   lambda h, number=number, low=low, high=high: R.StatefulUniformInt(
                       resource=h, algorithm=feed(np.int64(1)), shape=shape_of(41),
                       minval=feed(number(low)), maxval=feed(number(high))))
for state in ((1, 2), (1, 2, 3, 4, 5), (), (-1, -1, -1)):
    state_case("StatefulUniform", f"state {state}", lambda h: R.StatefulUniform(
        resource=h, algorithm=feed(np.int64(1)), shape=shape_of(5)), state=state)
for algorithm in (2, 3, 0):
    state_case("StatefulUniform", f"algorithm {algorithm}", lambda h, algorithm=algorithm:
               R.StatefulUniform(resource=h, algorithm=feed(np.int64(algorithm)),
                                 shape=shape_of(5)))
state_case("StatefulUniform", "empty", lambda h: R.StatefulUniform(
    resource=h, algorithm=feed(np.int64(1)), shape=shape_of(0)))
state_case("RngSkip", "", lambda h: R.RngSkip(resource=h, algorithm=feed(np.int64(1)),
                                              delta=feed(np.int64(12345))))
state_case("RngReadAndSkip", "", lambda h: R.RngReadAndSkip(resource=h, alg=feed(np.int32(1)),
                                                            delta=feed(np.uint64(2**40))))

# ---- Gamma ----
ALPHAS = [0.3, 0.9, 1.0, 1.5, 7.0, 120.0]
for number in FLOATS[:3]:
    case("RandomGamma", np.dtype(number).name, lambda number=number: [R.RandomGamma(
        shape=shape_of(101), alpha=feed(np.array(ALPHAS).astype(number)), seed=11, seed2=12)])
    case("StatelessRandomGammaV2", np.dtype(number).name, lambda number=number: [
        R.StatelessRandomGammaV2(shape=shape_of(50, 2, 3), seed=feed(np.int32([4, 5])),
                                 alpha=feed(np.array(ALPHAS).reshape(2, 3).astype(number)))], runs=1)
    case("StatelessRandomGammaV3", np.dtype(number).name, lambda number=number: [
        R.StatelessRandomGammaV3(shape=shape_of(50, 6), key=feed(np.uint64([4])),
                                 counter=feed(np.uint64([5, 6])), alg=feed(np.int32(1)),
                                 alpha=feed(np.array(ALPHAS).astype(number)))], runs=1)
case("RandomGamma", "scalar alpha", lambda: [R.RandomGamma(
    shape=shape_of(2, 3), alpha=feed(np.float32(2)), seed=1)])
case("RandomGamma", "empty", lambda: [R.RandomGamma(
    shape=shape_of(2, 0), alpha=feed(np.float32([2])), seed=1)])
case("StatelessRandomGammaV2", "wrong shape", lambda: [R.StatelessRandomGammaV2(
    shape=shape_of(4, 3), seed=feed(np.int32([4, 5])), alpha=feed(np.float32([1, 2])))], runs=1)
for number in (np.float32, np.float64):
    case("RandomGammaGrad", np.dtype(number).name, lambda number=number: [R.RandomGammaGrad(
        alpha=feed(np.array([[0.2], [0.9], [1], [2.5], [30], [200]]).astype(number)),
        sample=feed(np.array([0, 1e-4, 0.1, 0.7, 1, 1.5, 3, 10, 25, 50, 210]).astype(number)))],
         tolerance=(2e-4, 1e-5) if number == np.float32 else (1e-9, 1e-11), runs=1)

# ---- Counts ----
RATES = [0.0, 0.5, 3.0, 9.99, 10.0, 35.5, 1000.0]
for number in (np.float32, np.float64, np.float16):
    case("RandomPoisson", np.dtype(number).name, lambda number=number: [R.RandomPoisson(
        shape=shape_of(101), rate=feed(np.array(RATES).astype(number)), seed=21, seed2=2)])
    for output in (np.float16, np.float32, np.float64, np.int32, np.int64):
        case("RandomPoissonV2", f"{np.dtype(number).name} {np.dtype(output).name}",
             lambda number=number, output=output: [R.RandomPoissonV2(
                 shape=shape_of(31), rate=feed(np.array(RATES).astype(number)), dtype=output,
                 seed=21, seed2=2)])
        case("StatelessRandomPoisson", f"{np.dtype(number).name} {np.dtype(output).name}",
             lambda number=number, output=output: [R.StatelessRandomPoisson(
                 shape=shape_of(31, 7), seed=feed(np.int32([1, 2])), dtype=output,
                 lam=feed(np.array(RATES).astype(number)))], runs=1)
        case("StatelessRandomBinomial", f"{np.dtype(number).name} {np.dtype(output).name}",
             lambda number=number, output=output: [R.StatelessRandomBinomial(
                 shape=shape_of(20, 3, 6), seed=feed(np.int32([1, 2])), dtype=output,
                 counts=feed(np.array([[1.0], [30.0], [500.0]]).astype(number)),
                 probs=feed(np.array([0.0, 0.01, 0.3, 0.5, 0.9, 1.0]).astype(number)))], runs=1)
        state_case("StatefulRandomBinomial", f"{np.dtype(number).name} {np.dtype(output).name}",
                   lambda h, number=number, output=output: R.StatefulRandomBinomial(
                       resource=h, algorithm=feed(np.int64(1)), shape=shape_of(11, 2), dtype=output,
                       counts=feed(np.array([10.0, 100.0]).astype(number)),
                       probs=feed(np.array(0.4).astype(number))),
                   steps=2)  # TensorFlow moves on a copy of the state when somebody holds it
for number in (np.int32, np.int64):
    case("RandomPoissonV2", f"rates {number.__name__}", lambda number=number: [R.RandomPoissonV2(
        shape=shape_of(31), rate=feed(np.array([1, 5, 50], number)), seed=2)])
case("StatelessRandomBinomial", "wrong shape", lambda: [R.StatelessRandomBinomial(
    shape=shape_of(4, 3), seed=feed(np.int32([1, 2])), counts=feed(np.float32([1, 2])),
    probs=feed(np.float32(0.5)))], runs=1)

# ---- Choices ----
for number in FLOATS:
    for output in (np.int32, np.int64):
        def logits(number):
            values = np.random.RandomState(3).normal(size=(5, 9)) * 2
            values[1, 3] = -np.inf
            return feed(values.astype(number))
        case("Multinomial", f"{np.dtype(number).name} {np.dtype(output).name}",
             lambda number=number, output=output: [R.Multinomial(
                 logits=logits(number), num_samples=feed(np.int32(33)), seed=4, seed2=5,
                 output_dtype=output)])
        case("StatelessMultinomial", f"{np.dtype(number).name} {np.dtype(output).name}",
             lambda number=number, output=output: [R.StatelessMultinomial(
                 logits=logits(number), num_samples=feed(np.int32(7)), seed=feed(np.int32([4, 5])),
                 output_dtype=output)], runs=1)
for label, values, count in (("vector", [1.0, 2.0], 3), ("negative", [[1.0]], -1),
                             ("no classes", np.zeros((2, 0)), 3), ("no rows", np.zeros((0, 2)), 3),
                             ("no samples", [[1.0, 2.0]], 0), ("vector count", [[1.0]], [1])):
    case("Multinomial", label, lambda values=values, count=count: [R.Multinomial(
        logits=feed(np.array(values, np.float32)), num_samples=feed(np.array(count, np.int32)),
        seed=1)], runs=1)
for number in FLOATS + [np.int8, np.int32, np.int64, np.uint8, np.bool_, np.complex64]:
    for size in [(50,), (11, 3), (1, 4), (6, 0), ()]:
        case("RandomShuffle", f"{np.dtype(number).name}{list(size)}",
             lambda number=number, size=size: [R.RandomShuffle(
                 value=feed(np.arange(np.prod(size)).reshape(size).astype(number)), seed=6,
                 seed2=7)])
        case("StatelessShuffle", f"{np.dtype(number).name}{list(size)}",
             lambda number=number, size=size: [R.StatelessShuffle(
                 value=feed(np.arange(np.prod(size)).reshape(size).astype(number)),
                 key=feed(np.uint64([6])), counter=feed(np.uint64([7, 8])), alg=feed(np.int32(1)))],
             runs=1)
case("RandomShuffle", "strings", lambda: [R.RandomShuffle(
    value=feed(np.array([f"text {i}" * (i % 5) for i in range(20)])), seed=6)])
case("RandomShuffle", "large", lambda: [R.RandomShuffle(
    value=feed(np.arange(40000, dtype=np.float32).reshape(20000, 2)), seed=6)])
for number in (np.uint8, np.int8, np.int16, np.int32, np.int64, np.float32, np.float64):
    for size in ((3, 4), (6, 5), (6, 2), (0, 3), (7, 1), (1, 6)):
        case("RandomCrop", f"{np.dtype(number).name} {size}",
             lambda number=number, size=size: [R.RandomCrop(
                 image=feed(np.arange(90).reshape(6, 5, 3).astype(number)),
                 size=feed(np.int64(size)), seed=8, seed2=9)])

# ---- Truncated normals with parameters ----
BOUNDS = [(-1.0, 1.0), (-3.0, 0.5), (2.0, 3.0), (1.5, np.inf), (-np.inf, -2.0), (-np.inf, 1.0),
          (0.1, 0.2), (4.0, 10.0)]
for number in (np.float32, np.float64, np.float16):
    exact = EXACT if number != np.float16 else (2e-2, 1e-2)
    for low, high in BOUNDS:
        case("ParameterizedTruncatedNormal", f"{np.dtype(number).name} {low} {high}",
             lambda number=number, low=low, high=high: [R.ParameterizedTruncatedNormal(
                 shape=shape_of(307), means=feed(number(0.25)), stdevs=feed(number(1.5)),
                 minvals=feed(number(low)), maxvals=feed(number(high)), seed=9, seed2=3)],
             tolerance=exact)
    rows = [np.array(values).astype(number) for values in
            ([0, 1, -1, 0, 2], [1, 2, 0.5, 1, 1], [-1, 2, -1.2, 3, -np.inf], [1, np.inf, 0, 4, 9])]
    case("ParameterizedTruncatedNormal", f"{np.dtype(number).name} rows",
         lambda number=number, rows=rows: [R.ParameterizedTruncatedNormal(
             shape=shape_of(5, 7), means=feed(rows[0]), stdevs=feed(rows[1]), minvals=feed(rows[2]),
             maxvals=feed(rows[3]), seed=9, seed2=3)], tolerance=exact)
    case("StatelessParameterizedTruncatedNormal", f"{np.dtype(number).name} rows",
         lambda number=number, rows=rows: [R.StatelessParameterizedTruncatedNormal(
             shape=shape_of(3, 2, 5), seed=feed(np.int32([3, 4])), means=feed(rows[0]),
             stddevs=feed(rows[1]), minvals=feed(rows[2]), maxvals=feed(rows[3]))],
         tolerance=exact, runs=1)
for label, mean, deviation, low, high in (("deviation", 0, 0, 1, 2), ("bounds", 0, 1, 2, 1),
                                          ("infinite", 0, 1, -np.inf, np.inf),
                                          ("matrix", [[0]], 1, 1, 2), ("length", [0, 1], 1, 1, 2)):
    case("ParameterizedTruncatedNormal", f"bad {label}",
         lambda mean=mean, deviation=deviation, low=low, high=high: [
             R.ParameterizedTruncatedNormal(
                 shape=shape_of(3), means=feed(np.array(mean, np.float32)),
                 stdevs=feed(np.float32(deviation)), minvals=feed(np.float32(low)),
                 maxvals=feed(np.float32(high)), seed=9)], runs=1)

# ---- Candidate samplers ----
TRUE_CLASSES = np.int64([[0, 5], [3, 9], [1, 1]])
SAMPLERS = ["UniformCandidateSampler", "LogUniformCandidateSampler",
            "LearnedUnigramCandidateSampler", "ThreadUnsafeUnigramCandidateSampler"]
COUNTS = (3e-6, 1e-9)  # expected counts come from functions of libm
for op in SAMPLERS:
    for unique in (False, True):
        for count, limit in ((5, 20), (16, 16), (30, 1000), (7, 10)):
            if unique and count > limit:
                continue
            case(op, f"{count} of {limit} {unique}",
                 lambda op=op, unique=unique, count=count, limit=limit: list(getattr(R, op)(
                     true_classes=feed(TRUE_CLASSES), num_true=2, num_sampled=count, unique=unique,
                     range_max=limit, seed=13, seed2=14)), tolerance=COUNTS, runs=4)
    case(op, "too many", lambda op=op: list(getattr(R, op)(
        true_classes=feed(TRUE_CLASSES), num_true=2, num_sampled=30, unique=True, range_max=20,
        seed=13)), runs=1)
    case(op, "columns", lambda op=op: list(getattr(R, op)(
        true_classes=feed(TRUE_CLASSES), num_true=3, num_sampled=3, unique=True, range_max=20,
        seed=13)), runs=1)
case("AllCandidateSampler", "", lambda: list(R.AllCandidateSampler(
    true_classes=feed(TRUE_CLASSES), num_true=2, num_sampled=12, unique=True, seed=1)))
for unique in (False, True):
    for distortion in (1.0, 0.75):
        case("FixedUnigramCandidateSampler", f"{unique} {distortion}",
             lambda unique=unique, distortion=distortion: list(R.FixedUnigramCandidateSampler(
                 true_classes=feed(TRUE_CLASSES), num_true=2, num_sampled=6, unique=unique,
                 range_max=12, distortion=distortion, num_reserved_ids=2,
                 unigrams=[1.0, 5.0, 2.0, 3.0, 0.5, 8.0, 1.0, 1.0, 4.0, 2.5], seed=15)),
             tolerance=COUNTS, runs=4)
case("FixedUnigramCandidateSampler", "without weights", lambda: list(
    R.FixedUnigramCandidateSampler(true_classes=feed(TRUE_CLASSES), num_true=2, num_sampled=6,
                                   unique=True, range_max=12, seed=15)), runs=1)
case("ComputeAccidentalHits", "", lambda: list(R.ComputeAccidentalHits(
    true_classes=feed(TRUE_CLASSES), sampled_candidates=feed(np.int64([7, 1, 9, 1, 0])),
    num_true=2)), runs=1)
case("ComputeAccidentalHits", "none", lambda: list(R.ComputeAccidentalHits(
    true_classes=feed(TRUE_CLASSES), sampled_candidates=feed(np.int64([])), num_true=2)), runs=1)
