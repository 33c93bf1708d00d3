"""What clean outputs tell about a model: NaN, and scores that are probabilities already."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from tempograd.core.errors import InputError, ModelError
from tempograd.core.findings import arg
from tempograd.engine.cuda import HostCopy

KEPT = 2**14  # numbers of the first outputs that are kept for a second look


def written(output: str, columns: int | None) -> str:
    """Say what made probabilities of the model's columns, where their number is known.

    Examples
    --------
    >>> written("probability", 1), written("raw", 3)
    ("'probability' (sigmoid of 1 output)", "'raw'")
    """
    if output == "raw" or columns is None:
        return repr("raw" if output == "raw" else "probability")
    if output == "sigmoid":
        return f"'probability' (sigmoid of each of {columns} outputs)"
    return f"{output!r} ({'sigmoid of 1 output' if columns == 1 else f'softmax over {columns} outputs'})"


class Findings:
    """Collects what the outputs of the clean series show, and refuses them in one sentence.

    They are looked at on the device and judged on the host, as late as possible.
    """

    def __init__(self) -> None:
        self._found: list[Tensor] = []
        self._first: HostCopy | None = None  # until somebody looked at it
        self._kept: dict[int, tuple[int, HostCopy]] = {}  # by the first series: how many, and the outputs
        self._picked: list[Tensor] = []  # sums of what a function of the user's picked from the outputs

    def add(self, raw: Tensor, first: int, found: Tensor | None = None) -> None:
        """Look at the outputs of one block, which begins with series ``first``; ``found`` if somebody has."""
        self._found.append(findings(raw) if found is None else found)
        if len(self._found) == 1:
            self._first = HostCopy(self._found[0])
        most = max(1, KEPT // max(1, raw[0].numel()))
        count = min(len(raw), most - first)
        if count > self._kept.get(first, (0, None))[0]:
            self._kept[first] = count, HostCopy(raw[:count].clone())

    def add_picked(self, score: Tensor) -> None:
        """Look at the scores that a function picked from the outputs of one block."""
        self._picked.append(score.detach().sum(dtype=torch.float64))

    def kept(self) -> Tensor | None:
        """Return the outputs of the first series, on the host, (series, …); None if nothing was read."""
        parts: list[Tensor] = []
        place = 0
        while place in self._kept:
            count, outputs = self._kept[place]
            parts.append(outputs.cpu())
            place += count
        return torch.cat(parts) if parts else None

    def verify_once(self, output: str, shape: Sequence[int]) -> None:
        """Judge the first block, if nobody has, without waiting for later work."""
        if self._first is not None:
            _refuse([self._first.tolist()], output, shape)
            self._first = None

    def verify(self, output: str, shape: Sequence[int]) -> None:
        """Judge all blocks; this waits for the device."""
        if self._found:
            found = torch.stack(self._found)
            self._found.clear()
            self._first = None
            _refuse(found.tolist(), output, shape)
        if self._picked and not math.isfinite(torch.stack(self._picked).sum()):
            raise InputError("target(output) is NaN or infinite for some series: pick a score that is a number.")


def is_probability(raw: Tensor) -> bool:
    """Tell whether all rows are non-negative and sum to 1, of more than one number each."""
    return judge_outputs([findings(raw).tolist()])[1]


def findings(raw: Tensor) -> Tensor:
    """Look at clean outputs: their sum, the smallest of them, how far a row's sum is from 1, and the row's size.

    Few operations, since a single series has to wait for each; :func:`judge_outputs` reads the result on the host.
    """
    total = raw.sum(-1, dtype=torch.float64)
    return torch.stack(
        [total.sum(), raw.amin().double(), (total - 1).abs_().amax(), total.new_full((), raw.shape[-1])]
    )


def judge_outputs(found: Sequence[Sequence[float]]) -> tuple[bool, bool]:
    """Tell whether all outputs are finite, and whether all rows are probabilities, of more than one number each.

    Examples
    --------
    >>> judge_outputs([findings(torch.tensor([[0.2, 0.8], [1.0, 0.0]])).tolist()])
    (True, True)
    """
    finite = all(math.isfinite(total) for total, *_ in found)
    return finite, all(least >= 0 and far < 1e-4 and size > 1 for _, least, far, size in found)


def _refuse(found: Sequence[Sequence[float]], output: str, shape: Sequence[int]) -> None:
    finite, normalised = judge_outputs(found)
    if not finite:
        raise ModelError(
            f"The model returned NaN or infinity for series of shape {tuple(shape)}: check its weights and the "
            "scale of x."
        )
    if normalised and output == "probability":
        raise ModelError(
            "The model already returns probabilities (non-negative rows that sum to 1): pass "
            f"{arg:question.output=raw}, otherwise softmax would be applied twice."
        )
