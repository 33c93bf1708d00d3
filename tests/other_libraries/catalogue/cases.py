"""What a case of the catalogue is: a model of another library, the lines that explain it, and a plain forward."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

MOST_LINES, WIDTH = 3, 115
SERIES, PAST, AHEAD = 4, 32, 8


class Built(NamedTuple):
    """What a user has before the lines, and the explained score as a plain forward.

    ``score`` is called with the explained inputs as the user has them, a tensor or a dict of tensors, all rows at
    once and in order, and returns one number per series. It knows nothing of tempograd. ``baseline`` is the other
    end of the path, by default zeros.
    """

    names: dict[str, Any]
    inputs: Any
    score: Callable[[Any], Tensor]
    baseline: Any = None


@dataclass(frozen=True)
class Case:
    """A model, and how it is explained.

    ``flagged`` says why gradients of this model are not those of its score; its verdict has to tell so too.
    """

    library: str
    model: str
    lines: str
    build: Callable[[], Built]
    flagged: str = ""


CASES: dict[tuple[str, str], Case] = {}  # by library and model


def case(library: str, model: str, lines: str, *, flagged: str = "") -> Callable[[Callable[[], Built]], object]:
    """Add a case whose decorated function builds the model."""
    text = lines.strip()
    written = text.splitlines()
    if len(written) > MOST_LINES or max(map(len, written)) > WIDTH:
        raise ValueError(f"{model}: {len(written)} lines, the longest of {max(map(len, written))} characters.")

    def add(build: Callable[[], Built]) -> object:
        CASES[library, model] = Case(library, model, text, build, flagged)
        return build

    return add


def walks(channels: int = 1, *, series: int = SERIES, time: int = PAST, seed: int = 0) -> Tensor:
    """Return random walks around 10, (series, time, channel)."""
    draws = torch.randn(series, time, channels, generator=torch.Generator().manual_seed(seed))
    return 10 + draws.cumsum(1)


def lively(model: Any, factor: float = 3.0) -> Any:
    """Make matrices of an untrained model larger, whose answers hardly depend on the series otherwise."""
    with torch.no_grad():
        for weights in model.parameters():
            if weights.dim() > 1:
                weights.mul_(factor)
    return model.eval()
