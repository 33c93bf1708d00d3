"""What clean answers tell about a model, looked at on the device and judged on the host, as late as possible."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from tempograd.engine.later import Later
from tempograd.errors import InputError, ModelError

KEPT = 2**14  # numbers of the first answers that are kept for a second look


class Findings:
    """Collects what the answers to the clean series show, and refuses them in one sentence."""

    def __init__(self) -> None:
        self._found: list[Tensor] = []
        self._first: Later | None = None  # until somebody looked at it
        self._kept: dict[int, tuple[int, Later]] = {}  # by the first series: how many, and the answers
        self._picked: list[Tensor] = []  # sums of what a function of the user's picked from the answers

    def add(self, answer: Tensor, first: int) -> None:
        """Look at the answers of one block, which begins with series ``first``."""
        self._found.append(findings(answer))
        if len(self._found) == 1:
            self._first = Later(self._found[0])
        most = max(1, KEPT // max(1, answer[0].numel()))
        count = min(len(answer), most - first)
        if count > self._kept.get(first, (0, None))[0]:
            self._kept[first] = count, Later(answer[:count].clone())

    def add_picked(self, score: Tensor) -> None:
        """Look at the scores that a function picked from the answers of one block."""
        self._picked.append(score.detach().sum(dtype=torch.float64))

    def kept(self) -> Tensor | None:
        """Return the answers to the first series, on the host, (series, …); None if nothing was answered."""
        parts: list[Tensor] = []
        place = 0
        while place in self._kept:
            count, answers = self._kept[place]
            parts.append(answers.cpu())
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


def is_probability(answer: Tensor) -> bool:
    """Tell whether all rows are non-negative and sum to 1, of more than one number each."""
    return judge([findings(answer).tolist()])[1]


def findings(answer: Tensor) -> Tensor:
    """Look at clean answers: their sum, the smallest of them, how far a row's sum is from 1, and the row's size.

    Few operations, since a single series has to wait for each; :func:`judge` reads the result on the host.
    """
    total = answer.sum(-1, dtype=torch.float64)
    return torch.stack(
        [total.sum(), answer.amin().double(), (total - 1).abs_().amax(), total.new_full((), answer.shape[-1])]
    )


def judge(found: Sequence[Sequence[float]]) -> tuple[bool, bool]:
    """Tell whether all answers are finite, and whether all rows are probabilities, of more than one number each.

    Examples
    --------
    >>> judge([findings(torch.tensor([[0.2, 0.8], [1.0, 0.0]])).tolist()])
    (True, True)
    """
    finite = all(math.isfinite(total) for total, *_ in found)
    return finite, all(least >= 0 and far < 1e-4 and size > 1 for _, least, far, size in found)


def _refuse(found: Sequence[Sequence[float]], output: str, shape: Sequence[int]) -> None:
    finite, normalised = judge(found)
    if not finite:
        raise ModelError(
            f"The model returned NaN or infinity for series of shape {tuple(shape)}: "
            "check its weights and the scale of x."
        )
    if normalised and output == "probability":
        raise ModelError(
            "The model already returns probabilities (non-negative rows that sum to 1): "
            "pass output='raw', otherwise softmax would be applied twice."
        )
