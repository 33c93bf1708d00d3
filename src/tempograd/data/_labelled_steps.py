"""What the two hidden-state data sets share: labels drawn from one cell per step, and the cut into splits."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tempograd.data.base import Dataset, Split

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

TRAIN = 800
TEST = 200


def draw_labels(rng: np.random.RandomState, x: Floats, decider: Integers, slope: float) -> NDArray[np.bool_]:
    r"""Labels :math:`y_t \sim \mathrm{Bernoulli}(\sigma(\text{slope} \cdot x_{t, c_t}))`.

    Parameters
    ----------
    x : array of shape (N, T, D)
    decider : array of shape (N, T)
        The channel :math:`c_t` that decides each step.
    slope : float
        Steepness of the sigmoid :math:`\sigma`.
    """
    score = np.take_along_axis(x, decider[..., None], axis=2)[..., 0]
    return rng.random_sample(score.shape) < 1 / (1 + np.exp(-slope * score))


def synthetic_dataset(name: str, variant: str, x: Floats, decider: Integers, labels: NDArray[Any]) -> Dataset:
    """Put series, labels and the deciding cells together: the first 800 train, the rest tests."""
    channels = x.shape[2]
    whole = Split(
        x=torch.from_numpy(x).float(),
        y=torch.from_numpy(labels).long(),
        truth=torch.from_numpy(decider[..., None] == np.arange(channels)),
    )
    return Dataset(
        name=name,
        train=whole.take(slice(None, TRAIN)),
        validation=None,
        test=whole.take(slice(TRAIN, None)),
        classes=2,
        channels=tuple(f"feature {channel}" for channel in range(channels)),
        variant=variant,
    )
