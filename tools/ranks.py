"""The rooms of src/ and their ranks, for all checks that ask who may see whom.

docs/architecture.md has the picture and says what each room is for.
"""

RANKS = {
    "base": 0,
    "tensor": 1, "wire": 1,
    "graph": 2, "rpc": 2, "storage": 2,
    "runtime": 3, "collective": 3,
    "kernels": 4, "cluster": 4,
    "planner": 5, "launch": 5,
    "worker": 6,
    "master": 7,
    "task": 8,
    "client": 9,
    "server": 10,
    "train": 11,
}
# The folders of rooms that are divided, from below: those in one group do not see each other. What
# lies at the room's top stands above all of them.
INNER = {
    "kernels": (
        ("isa", "special"),
        ("loops",),
        ("shared",),
        ("codecs", "products", "tables", "text"),
        ("array", "data", "files", "flow", "image", "linalg", "lists", "math", "models", "nn",
         "quant", "queues", "random", "signal", "sparse", "state", "strings", "summary"),
    ),
}
INNER_RANKS = {room: {folder: rank for rank, group in enumerate(groups) for folder in group}
               for room, groups in INNER.items()}
EQUALS_ALLOWED = {("wire", "tensor")}


def may_see(room, target):
    """Whether files of `room` may include and call what is in the room `target`."""
    return (room == target or RANKS[target] < RANKS[room]
            or (room, target) in EQUALS_ALLOWED)


def inner_of(room, parts):
    """The inner folder of a file of `room` by its path below src/; None at the room's top."""
    return parts[1] if room in INNER and len(parts) > 2 else None


def may_see_inner(room, inner, target):
    """The same for folders of one divided room; None is its top."""
    if inner == target or inner is None:
        return True
    ranks = INNER_RANKS[room]
    return target is not None and ranks[target] < ranks[inner]
