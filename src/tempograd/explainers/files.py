"""Explainers in files: settings, and what was learnt, as tensors with a JSON header; nothing in them is trusted.

The header's ``format`` has the version of this format, ``version`` that of the library, ``method`` and
``settings`` make the explainer, ``learnt`` is what goes with the tensors, ``fingerprint`` is a hash of the last
three and of the tensors.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from tempograd.core import validation
from tempograd.core.errors import DataError, TempogradError, one_line, quote, short_path
from tempograd.core.io import EXPLAINER, as_path, read_tensors, write_tensors
from tempograd.explanation.files import damaged
from tempograd.typing import Inputs
from tempograd.version import __version__

FORMAT = "tempograd-explainer-1"
LARGEST = 2**31  # of sizes in a header
_Explainer = TypeVar("_Explainer")


class LearntParts(NamedTuple):
    """What a method learnt, as a file holds it: plain JSON data, None before it learnt, and tensors by name."""

    facts: Any
    tensors: dict[str, Tensor]


class LearntNetwork(nn.Module):
    """A network that a method learns: made again from its ``sizes``; ``facts`` are plain data on how it learnt."""

    def __init__(self, **sizes: int) -> None:
        super().__init__()
        self.sizes, self.facts = sizes, dict[str, Any]()


def learnt_parts(learnt: Any, method: str) -> LearntParts:
    """Take apart what a method learnt: a network, or series of one input or of several."""
    if isinstance(learnt, LearntNetwork):
        return LearntParts({"sizes": learnt.sizes} | learnt.facts, dict(learnt.state_dict()))
    names = [str(name) for name in learnt] if isinstance(learnt, Mapping) else None
    series = learnt.values() if names is not None else learnt if isinstance(learnt, tuple) else (learnt,)
    what = f"What {method} learnt, unless it defines _learnt_parts,"
    tensors = {f"series.{place}": validation.as_tensor(part, what) for place, part in enumerate(series)}
    return LearntParts({"inputs": names, "several": isinstance(learnt, tuple)}, tensors)


def inputs_of(parts: LearntParts) -> Inputs:
    """Put series together again."""
    names, series = parts.facts["inputs"], [parts.tensors[f"series.{n}"] for n in range(len(parts.tensors))]
    if not all(each.is_floating_point() and each.ndim >= 2 and bool(each.isfinite().all()) for each in series):
        raise ValueError("series that nobody can have learnt from")
    if names is not None:
        return dict(zip(names, series, strict=True))
    return tuple(series) if parts.facts["several"] else series[0]


def network_of(parts: LearntParts, make: Callable[..., LearntNetwork]) -> LearntNetwork:
    """Make a network from its sizes and give it its weights, whatever the precision."""
    facts = dict(parts.facts)
    sizes = facts.pop("sizes")
    if not all(type(size) is int and 0 < size < LARGEST for size in sizes.values()):
        raise ValueError("sizes that no network can have")
    with torch.device("meta"):  # no memory and no random numbers for weights that are replaced at once
        network = make(**sizes)
    network.load_state_dict(parts.tensors, assign=True)
    network.facts = facts
    return network.eval().requires_grad_(requires_grad=False)


# Files


def fingerprint_of_explainer(method: str, settings: Mapping[str, Any], learnt: LearntParts) -> str:
    """Name an explainer by a hash of its method, its settings and all that it learnt."""
    digest = hashlib.sha256(json.dumps([method, settings, learnt.facts], sort_keys=True).encode())
    for name, tensor in sorted(learnt.tensors.items()):
        digest.update(f"\n{len(name)}:{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return f"{method}:{digest.hexdigest()[:16]}"


def write_explainer(
    path: str | Path, method: str, settings: Mapping[str, Any], learnt: LearntParts, *, force: bool = False
) -> Path:
    """Write the parts of an explainer; a file that is none is only replaced with ``force``."""
    header = {
        "format": FORMAT,
        "version": __version__,
        "method": method,
        "settings": json.dumps(settings),
        "learnt": json.dumps(learnt.facts),
        "fingerprint": fingerprint_of_explainer(method, settings, learnt),
    }
    kept = {name: tensor.clone() for name, tensor in learnt.tensors.items()}  # each with memory of its own
    return write_tensors(path, kept, header, EXPLAINER, force=validation.check_flag(force, "force"))


def read_explainer(
    path: str | Path, known: Mapping[str, Callable[..., _Explainer]]
) -> tuple[_Explainer, LearntParts]:
    """Read what :func:`write_explainer` wrote: one of the ``known`` methods as it was set, and what it learnt."""
    path = as_path(path)
    header, tensors = read_tensors(path)
    if header.get("format") != FORMAT:
        other = "holds no explainer that this version of tempograd reads: write one with Explainer.save"
        raise DataError(f"{short_path(path)} {other}.")
    try:
        method, settings, facts = header["method"], json.loads(header["settings"]), json.loads(header["learnt"])
        learnt = LearntParts(facts, tensors)
        fits = header["fingerprint"] == fingerprint_of_explainer(method, settings, learnt)
    except (KeyError, ValueError, RecursionError, TypeError) as error:
        raise damaged(path, "its header cannot be read") from error
    if not fits or not isinstance(settings, dict):
        raise damaged(path, "its content does not fit its fingerprint")
    if method not in known:
        raise DataError(f"{short_path(path)} has settings of {quote(method)}, which is not installed here.")
    try:
        return known[method](**settings), learnt
    except (TempogradError, TypeError) as error:
        reason = error.finding.text if isinstance(error, TempogradError) else one_line(str(error), 90)
        raise DataError(f"{short_path(path)} holds settings that {method} does not take: {reason}") from error
