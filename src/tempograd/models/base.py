"""What every classifier shares: its configuration, its two kinds of output, and the table of names."""

import inspect
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from tempograd.brief import brief
from tempograd.errors import InputError, UnknownNameError
from tempograd.registry import Registry

LARGEST = 1_000_000  # of sizes: a layer of so many units already takes terabytes
MODELS: Registry[type["Classifier"]] = Registry("model")


class Classifier(nn.Module, ABC):
    """Maps series (N, T, D) to logits: (N, C), or (N, T, C) with ``per_step=True``.

    Subclasses turn a series into one vector per step (:meth:`features`), and one such vector into logits
    (:meth:`head`). With ``per_step=True`` the vector of step t depends on the steps up to t alone, and the
    head is applied to every step; otherwise :meth:`pool` makes one vector per series.

    Parameters
    ----------
    channels : int
        D, the size of the last axis of a series.
    classes : int
        C, the number of logits.
    per_step : bool, default=False
        One prediction per step instead of one per series.
    options : dict
        The subclass's sizes, by name, as plain JSON values.

    Attributes
    ----------
    config : dict
        Everything :func:`build` needs to make the module again, as plain JSON values.
    facts : dict
        What is known about the training (data set, seed, recipe, …), as plain JSON values.
    """

    name: ClassVar[str]
    facts: dict[str, Any]

    def __init__(self, channels: int, classes: int, per_step: bool, options: dict[str, Any]) -> None:
        super().__init__()
        check_sizes(channels=channels, classes=classes)
        self.channels, self.classes, self.per_step = channels, classes, per_step
        self.config: dict[str, Any] = {
            "name": self.name,
            "channels": channels,
            "classes": classes,
            "per_step": per_step,
            "options": options,
        }
        self.facts = {}

    @abstractmethod
    def features(self, x: Tensor) -> Tensor:
        """One vector per step, (N, T, F); the series of a model without ``per_step`` may come out shorter."""

    @abstractmethod
    def pool(self, features: Tensor) -> Tensor:
        """One vector per series, (N, F)."""

    @abstractmethod
    def head(self, features: Tensor) -> Tensor:
        """Logits (M, C) of vectors (M, F)."""

    def forward(self, x: Tensor) -> Tensor:
        """Logits of the series ``x`` (N, T, D)."""
        return self._read(self.features(self._checked(x)))

    def _read(self, features: Tensor) -> Tensor:
        if not self.per_step:
            return self.head(self.pool(features))
        # the steps join the batch, so that batch normalisation sees features on its channel axis
        return self.head(features.flatten(0, 1)).view(*features.shape[:2], -1)

    def last(self, x: Tensor) -> Tensor:
        """Logits (N, C) of the last step alone; batch normalisation then sees no other step."""
        return self.head(self.features(self._checked(x))[:, -1])

    def _checked(self, x: Tensor) -> Tensor:
        if x.ndim != 3 or x.shape[-1] != self.channels or x.shape[1] == 0:
            got = f"series of {x.shape[1]} steps and {x.shape[2]} channels" if x.ndim == 3 else f"{x.ndim} axes"
            swapped = x.ndim == 3 and x.shape[1] == self.channels
            hint = ": swap its axes, or pass layout='BDT' to tempograd.explain" if swapped else ""
            raise InputError(f"This model takes series of shape (batch, time, {self.channels}), got {got}{hint}.")
        return x


def build(
    name: str, channels: int, classes: int, per_step: bool = False, seed: int = 0, **options: Any
) -> Classifier:
    """Make an untrained model by name, with initial weights that depend on ``seed`` alone.

    Parameters
    ----------
    name : str
        A key of ``MODELS``.
    channels, classes : int
        Sizes of the series' last axis and of the output's.
    per_step : bool, default=False
        One prediction per step instead of one per series.
    seed : int, default=0
        For the initial weights; the global random state is neither used nor changed.
    **options
        The model's own sizes, by default those of the paper.

    Examples
    --------
    >>> model = build("gru", channels=3, classes=2, hidden=8)
    >>> model(torch.zeros(5, 20, 3)).shape
    torch.Size([5, 2])
    >>> model.config
    {'name': 'gru', 'channels': 3, 'classes': 2, 'per_step': False, 'options': {'hidden': 8, 'dropout': 0.5}}
    """
    kind = MODELS[name]
    known = set(inspect.signature(kind).parameters) - {"channels", "classes", "per_step"}
    for option in options:
        if option not in known:
            raise UnknownNameError(f"option of {name}", option, known)
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would also seed the GPUs
        return kind(channels, classes, per_step=per_step, **options)


def check_sizes(**sizes: int) -> None:
    """Refuse sizes that are not positive integers."""
    for size, value in sizes.items():
        if not isinstance(value, int) or value < 1:
            raise InputError(f"{size} must be a positive integer, got {brief(value)}.")
        if value > LARGEST:
            raise InputError(f"{size} must be at most {LARGEST}, got {brief(value)}: no memory holds more.")
