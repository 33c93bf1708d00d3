"""The way of one call: what ``tg.explain(net, x, method)`` runs through in the library, on a CPU.

    python perf/way.py [METHOD ...] [--list]

A second call with six series is traced, also in threads that it starts; only code in the library's files counts.
Functions: a lambda or generator expression counts as the function around it. Calls: entries into functions, also
into a generator that goes on. Changes: entries whose file is not that of the entry before. Frames: those above the
deepest ``forward`` of the model, lambdas among them. Comprehensions are part of their function everywhere, as they
are from Python 3.12 on. ``--list`` prints the frames, and the functions with their calls.
"""

import argparse
import gc
import re
import sys
import threading
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from traceback import walk_stack
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import tempograd as tg

METHODS = ("timing", "integrated_gradients", "occlusion")
LIBRARY = Path(tg.__file__).parent
PARTS = re.compile(r"(\.<locals>\.<\w+>)+$")  # of a function: lambdas, generator expressions, also in each other
Place = tuple[str, str]  # a file of the library, and a function in it
INLINED = ("<listcomp>", "<dictcomp>", "<setcomp>")  # frames of their own up to Python 3.11


class Way(NamedTuple):
    """Counts of one call; then the calls of every place, and the places of the frames, the innermost first."""

    files: int
    functions: int
    calls: int
    changes: int
    frames: int
    places: Counter[Place]
    stack: list[Place]


class Net(nn.Module):
    """A small classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.GRU(3, 8, batch_first=True), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.layer(x)[0][:, -1])
        return logits


def place(code: CodeType) -> Place | None:
    """Return file and function of a piece of code; None outside the library and for comprehensions."""
    path, name = Path(code.co_filename), PARTS.sub("", code.co_qualname)
    if LIBRARY not in path.parents or code.co_name in INLINED:
        return None
    alone = f" in line {code.co_firstlineno}" if name.endswith("<lambda>") else ""  # outside every function
    return path.relative_to(LIBRARY).as_posix(), name + alone


def way(method: str) -> Way:
    """Trace a second call of a method with the same model and the same six series."""
    torch.manual_seed(0)
    net, x = Net().eval(), torch.randn(6, 20, 3)
    entries, stacks = defaultdict[int, list[Place]](list), list[list[Place]]()

    def trace(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code is Net.forward.__code__:
            stacks.append([*filter(None, (place(above.f_code) for above, _ in walk_stack(frame)))])
        elif event == "call" and (entered := place(frame.f_code)):
            entries[threading.get_ident()].append(entered)

    tg.explain(net, x, method)
    gc.collect()  # or what is collected in between would run its own clean-up
    threading.setprofile(trace)
    sys.setprofile(trace)
    try:
        tg.explain(net, x, method)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    places = Counter(entered for thread in entries.values() for entered in thread)
    changes = sum(one[0] != other[0] for thread in entries.values() for one, other in pairwise(thread))
    files, stack = {file for file, _ in places}, max(stacks, key=len)
    return Way(len(files), len(places), places.total(), changes, len(stack), places, stack)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", nargs="*", default=METHODS)
    parser.add_argument("--list", action="store_true", help="print the frames, and the functions with their calls")
    options = parser.parse_args()
    for method in options.methods:
        *counts, places, stack = way(method)
        print(f"{method}:", ", ".join(f"{count} {name}" for name, count in zip(Way._fields, counts, strict=False)))
        if options.list:
            calls = (f"{file}: {name}, {places[file, name]}" for file, name in sorted(places))
            print("  frames, the innermost first:", *map(": ".join, stack), sep="\n    ")
            print("  functions and their calls:", *calls, sep="\n    ")


if __name__ == "__main__":
    main()
