"""What of an error's message is compared with genuine TensorFlow's, and which words differ on purpose.

Messages follow TensorFlow 2.21's. They are compared without what changes from run to run (NOISE).
Where TensorFlow prints insides of its own, or slips, a user reads more in other words: those are
listed in OWN_WORDS, by what TensorFlow says, with the reason.
"""
import re

NOISE = [(re.compile(pattern), replacement) for pattern, replacement in [
    # A fed placeholder's name after TensorFlow has cut the graph.
    (r"\b_arg_(\S+?)_0_\d+", r"\1"),
    # The colon, which some of the optimizers forget or move.
    (r" is not a scalar(?: :)? ?\[", " is not a scalar: ["),
    # Counters of steps, of TensorArrays, of stacks and of datasets.
    (r"\b__per_step_\d+", "step"),
    (r"(passed to \w+):\d+ transformation", r"\1 transformation"),
    (r"(TensorArray \S+?|\bStack\[\w+?)_\d+\b", r"\1"),
    # What TensorFlow's optimizer makes of a pipeline, and datasets that only tell it something: they
    # are no part of ours.
    (r"(passed to MapDataset transformation with iterator: \S+)::ParallelMapV2:", r"\1::Map:"),
    (r"(?<=::)(?:Model|NonSerializable|AssertNext|LatencyStats|BytesProducedStats|"
     r"SetStatsAggregator|ThreadPool|PrivateThreadPool|MaxIntraOpParallelism)::", ""),
    # In which function a node lies, where TensorFlow says it.
    (r"^\{\{function_node \S+\}\} ", ""),
    # The default container has the job's name.
    (r"\blocalhost\b", "local"),
    # A container is there once anything was put into it, by whatever case.
    (r"Container \S+ does not exist\. \(Could not find resource: ([^)]*)\)",
     r"Resource \1 does not exist."),
    (r"(Resource \S+)/(?:N10tensorflow\w+|<unknown>) does not exist", r"\1 does not exist"),
]]

OWN_WORDS = {
    # Slips of the pen.
    r"^The rank of the tensor should be  ": "a row of spaces in the middle",
    r"^var and mg do not have the same shape(\[.*\]) \1$": "the shape of var where mg's is meant",
    r"updates\[shape=\[\]\] = \d+$": "a number behind the end of a shape without dimensions",
    r"got: \d{3}$": "three ranks without anything between",
    r"^Input values should be a vector but received shape \[\d+,\d+\]": "the shape of indices",
    r"^Input should have rank >= 2, but received shape: \d+$": "a size where a rank is meant",
    r"inputs\[0 has shape": "a bracket that is never closed, and no word of which type it is",
    # Insides.
    r"Tensor<type: |Variant<type: ": "the whole tensor, as the debugger prints it",
    r"goo\.gle/debug": "a message in the form that its own library prints for debugging",
    r"DatasetOp::Dataset|DatasetV2Op::Dataset": "names of classes",
    r"^MaybeMoveContiguousSlices": "the name of a function",
    r"was replaced by InternalError": "why the code is another one than the op's own",
    r"^Error while parsing JSON": "what its library says, with spaces at random between the words",
    r"^Could not parse example input, value: '": "bytes as they are, which no terminal shows",
    r"as TensorProto, base64": "the whole message; ours says what is wrong with it",
    r"^Invalid  rendezvous key": "the whole key; ours says which device it names",
    r"^Table \S+ \S+ is not initializable": "the table's container before its name",
    r"^In ReadVariablesOp the following": "all variables in a row; ours says why the first is not there",
    # Whichever of several threads is first.
    r"^Cannot add tensor to the batch: number of elements": "the first element or another one",
    r"^\d+ root error\(s\) found": "several errors at once",
    r"' failed with Read less bytes": "two messages run together",
    # Whatever cases ran before.
    r"^Container \S+ does not exist\.$": "a container that nothing was put into; ours has its default",
    # Files: ours say which one, and where in it.
    r"^Snappy_Uncompress failed|^Parsing error in Snappy|^Failed to read \d+ bytes from file":
        "no file is named",
    # What is only there.
    r"^Only ZLIB, ZSTD, GZIP": "formats that are not here",
    r"^Unknown image file format": "formats that are not here",
    r"^max_load_factor must be between": "the old form of this table cannot be made here at all",
    # ParseSequenceExample looks at all examples together, ours at one after the other and names it.
    r"has an unexpected number of values": "no example is named",
}
OWN_WORDS = {re.compile(pattern): why for pattern, why in OWN_WORDS.items()}


def without_noise(message):
    """The message without where the node was made, what it is called, and NOISE."""
    text = message.split("\nNode: ", 1)[-1].partition("\n")[2] if "\nNode: " in message else message
    text = text.removeprefix("Graph execution error:\n\n").split("\n\t [[")[0] \
        .split("\n\nOriginal stack trace")[0].strip()
    for pattern, replacement in NOISE:
        text = pattern.sub(replacement, text)
    return text


def agree(theirs, ours):
    """Whether two messages without noise say the same. Ours may go on where TensorFlow's ends: with
    a colon, and what exactly is wrong."""
    return theirs == ours or ours.startswith(theirs + ": ") or \
        any(pattern.search(theirs) for pattern in OWN_WORDS)
