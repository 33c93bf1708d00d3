"""What a call may do: give the right answer, or raise one sentence."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tempograd.core.errors import TempogradError, TempogradWarning
from tests.fuzz.trials import sentence
from tests.helpers.models import linear

STEPS, CHANNELS = 4, 2
MODEL = linear(STEPS, CHANNELS)
WEIGHT = MODEL[1].weight[0].detach().double().view(STEPS, CHANNELS).numpy()


def outcome(call: Callable[[], Any], right: Callable[[Any], str]) -> tuple[str, str]:
    """Run a call; return "right", "refused" or "wrong", and what was said or what is wrong."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", TempogradWarning)
            found = call()
    except TempogradError as error:
        wrong = sentence(str(error))
        return ("wrong", wrong) if wrong else ("refused", str(error))
    except Exception as error:  # whatever it is, the user should not see it
        return "wrong", f"{type(error).__name__}: {error}"
    wrong = right(found)
    return ("wrong", wrong) if wrong else ("right", "")


def linear_scores(x: Any, baseline: Any = 0.0, mask: Any = None) -> np.ndarray:
    """Return w · (x − x'), a linear model's scores by integrated gradients, TIMING, DeepLIFT and occlusion."""
    scores = WEIGHT * (np.asarray(x, np.float64) - np.asarray(baseline, np.float64))
    return scores if mask is None else scores * (np.asarray(mask) > 0.5)


def near(values: torch.Tensor, expected: np.ndarray, tolerance: float = 2e-5) -> str:
    """Return what is wrong with scores; nothing if they are as expected."""
    gap = float(np.abs(values.double().numpy() - expected).max())
    return "" if gap <= tolerance * (1 + float(np.abs(expected).max())) else f"off by {gap:.3g}"
