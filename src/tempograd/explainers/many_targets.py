"""Several targets in one call: which they are, and what comes back."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tempograd.engine import Request, class_count, with_targets
from tempograd.errors import InputError, brief
from tempograd.explanation import Explanation

ALL = "all"


def check_targets(target: Any, targets: Any) -> list[Any] | None:
    """Return the targets of a call, empty for all outputs; None if it is about one target.

    Examples
    --------
    >>> check_targets(None, [0, 5]), check_targets(None, "all"), check_targets(3, None)
    ([0, 5], [], None)
    """
    if targets is None:
        return None
    if target is not None:
        raise InputError("target= and targets= exclude each other: put all targets into targets=.")
    if isinstance(targets, str) and targets == ALL:
        return []
    if isinstance(targets, str) or not isinstance(targets, Sequence):
        raise InputError(f"targets must be 'all' or a list of targets, such as [0, 5], got {brief(targets)}.")
    if not targets:
        raise InputError("targets= is empty: list the targets, or pass 'all'.")
    for place, each in enumerate(targets):
        if each is None:
            raise InputError("targets= holds None: leave targets= out to explain the predicted class.")
        if any(_same(each, other) for other in targets[:place]):
            raise InputError(f"targets= holds {brief(each)} twice: name each target once.")
    return list(targets)


def _same(one: Any, other: Any) -> bool:
    """Tell whether two targets are written alike."""
    if isinstance(one, Tensor | np.ndarray) or isinstance(other, Tensor | np.ndarray):
        return np.array_equal(np.asarray(one), np.asarray(other)) if type(one) is type(other) else False
    return bool(one == other)


def requests_of(request: Request, wanted: Sequence[Any]) -> list[Request]:
    """Return a request for each target; one series is read to see how many there are, or that all differ."""
    if wanted and all(type(each) is int or callable(each) for each in wanted):
        return [request.of_target(each) for each in wanted]
    first = request.block(slice(0, 1))
    if not wanted:
        probe = request.of_target(None)
        with_targets([probe], first)
        if probe.columns is None:
            raise RuntimeError("The first series was read, and the columns are not known.")
        return [request.of_target(each) for each in range(class_count(probe.columns, probe.output))]
    probes = [request.of_target(each) for each in wanted]
    with_targets(probes, first)
    for place, probe in enumerate(probes):
        twin = next((other for other in probes[:place] if _same_target(probe, other)), None)
        if twin is not None:
            both = f"{brief(twin.requested_target)} and {brief(probe.requested_target)}"
            raise InputError(f"targets= holds the same target twice, {both}: name each target once.")
    return [request.of_target(each) for each in wanted]


def _same_target(one: Request, other: Request) -> bool:
    parts = one.target, other.target
    return all(isinstance(part, Tensor) for part in parts) and torch.equal(*parts)  # type: ignore[arg-type]  # tensors


def together(explanations: Sequence[Explanation]) -> Explanation:
    """Return the explanation of the first target, with those of the others."""
    first, *others = explanations
    return replace(first, siblings=tuple(others)) if others else first


def shares_passes(explainer: type) -> bool:
    """Tell whether a class explains several targets together in the way in which it explains one.

    One that overrides ``attribute`` alone, below one that has both, must explain several by its own ``attribute``.
    """
    one, several = (
        next(place for place, kind in enumerate(explainer.__mro__) if name in vars(kind))
        for name in ("attribute", "attribute_all")
    )
    return several <= one
