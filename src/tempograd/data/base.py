"""What a data set and a file of series hold, and which series train, validate and test."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tempograd._utils import validation
from tempograd._utils.stamps import is_nested
from tempograd.errors import InputError, listed, warn
from tempograd.typing import Array, ArrayLike, SeriesOptions, Times, UnpaddedSeries

FOLDS = 5
SEED = 42  # of the shuffle before the cut
WHOLE = frozenset({torch.uint8, torch.int8, torch.int16, torch.int32})  # kinds of labels that int64 holds


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """Series with their labels and, where known, which values were observed and which decided the label.

    Arrays of numpy and lists become tensors.

    Parameters
    ----------
    x : Tensor of shape (N, T, D)
        The series, floating point.
    y : Tensor of shape (N,), (N, T) or (N, …)
        One class per series or one per time step, int64; floating point for the values of a regression, one per
        series, or of a forecast, (N, horizon) or shaped like whatever else the model puts out for a series.
        Reports show real values and :func:`~tempograd.models.train` refuses them.
    mask : BoolTensor like ``x``, optional
        True where the value was observed; None when all were.
    truth : BoolTensor like ``x``, optional
        True where the label was decided; None when nobody knows.
    ids : LongTensor of shape (N,), optional
        Distinct numbers that stay with the series through every subset, by default 0 … N-1.

    Examples
    --------
    >>> split = Split(torch.zeros(4, 10, 3), torch.tensor([0, 1, 1, 0]))
    >>> split.take([3, 1]).ids
    tensor([3, 1])
    >>> split
    Split(4 series × 10 steps × 3 channels, 2 classes)
    """

    x: Tensor
    y: Tensor
    mask: Tensor | None = None
    truth: Tensor | None = None
    ids: Tensor = None  # type: ignore[assignment]  # completed below, so that no reader ever meets None

    if TYPE_CHECKING:  # any arrays, which become tensors below

        def __init__(
            self,
            x: Array,
            y: ArrayLike,
            mask: Array | None = None,
            truth: Array | None = None,
            ids: ArrayLike | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        for name in ("x", "y", "mask", "truth", "ids"):  # arrays and lists of other libraries are welcome
            part = getattr(self, name)
            if part is not None and not isinstance(part, Tensor):
                object.__setattr__(self, name, validation.check_numbers(part, name))
        if self.y.dtype in WHOLE:
            object.__setattr__(self, "y", self.y.long())
        if self.x.ndim != 3 or not self.x.is_floating_point():
            raise InputError(
                f"x must be a floating-point (series, time, channel) tensor, got {self.x.dtype} of shape "
                f"{tuple(self.x.shape)}."
            )
        if self.ids is None:
            object.__setattr__(self, "ids", torch.arange(len(self.x)))
        _check_labels(self.x, self.y)
        for name, cells in (("mask", self.mask), ("truth", self.truth)):
            if cells is not None and (cells.shape != self.x.shape or cells.dtype != torch.bool):
                raise InputError(
                    f"{name} must be a bool tensor shaped like x {tuple(self.x.shape)}, got {cells.dtype} of "
                    f"shape {tuple(cells.shape)}."
                )
        object.__setattr__(self, "ids", validation.with_sign(self.ids, "ids"))
        if self.ids.shape != (len(self.x),) or len(torch.unique(self.ids)) != len(self.x):
            raise InputError(f"ids must be {len(self.x)} distinct integers, one per series.")

    def __len__(self) -> int:
        return len(self.x)

    def __repr__(self) -> str:
        series, steps, channels = self.x.shape
        noun = "channel" if channels == 1 else "channels"
        parts = [f"{series} series × {steps} steps × {channels} {noun}", _labels(self.y)]
        if self.mask is not None:
            parts.append(f"{1 - float(self.mask.float().mean()):.0%} missing".replace("%", " %"))
        if self.truth is not None:
            parts.append("truth known")
        return f"{type(self).__name__}({', '.join(parts)})"

    def take(self, indices: "Tensor | NDArray[Any] | Sequence[int] | slice") -> Self:
        """Return the series at ``indices`` (positions, a slice or a bool mask), which keep their ids."""
        index = torch.arange(len(self))[indices].reshape(-1)

        def pick(cells: Tensor | None) -> Tensor | None:
            return None if cells is None else cells[index.to(cells.device)]

        fields = {name: pick(getattr(self, name)) for name in ("x", "y", "mask", "truth", "ids")}
        return replace(self, **fields)  # type: ignore[arg-type]  # x, y and ids are never None


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Training and test series with what is needed to build a model for them.

    Parameters
    ----------
    name : str
        What the data set is called in tables and files.
    train, validation, test : Split
        ``validation`` is None unless a fold was asked for.
    classes : int
        Labels run from 0 to ``classes - 1``; the number of outputs where they are real values.
    channels : tuple of str
        The channels' names, in the order of the last axis of ``x``.
    variant : str
        Which version of the data this is, for instance ``"released"`` or ``"paper"``.
    centre, scale : Tensor that broadcasts to (time, channel), optional
        What was taken from the source's values, and what the rest was divided by: :meth:`raw` undoes it. None
        where nothing was, or where it cannot be undone.
    units : tuple of str, optional
        What the source's values are measured in, one text per channel, empty where there is none (a score, a
        share); None where the source does not say.

    Examples
    --------
    >>> split = Split(torch.tensor([[[-1.0], [2.0]]]), torch.tensor([0]))
    >>> scaling = {"centre": torch.tensor([37.0]), "scale": torch.tensor([0.5]), "units": ("°C",)}
    >>> toy = Dataset("toy", split, None, split, classes=1, channels=("Temp",), **scaling)
    >>> toy.raw(toy.test).flatten().tolist(), toy.units
    ([36.5, 38.0], ('°C',))
    """

    name: str
    train: Split
    validation: Split | None
    test: Split
    classes: int
    channels: tuple[str, ...]
    variant: str = "default"
    centre: Tensor | None = None
    scale: Tensor | None = None
    units: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for split in (self.train, self.validation, self.test):
            if split is None:
                continue
            if split.x.shape[-1] != len(self.channels):
                raise InputError(
                    f"{self.name} has {len(self.channels)} channel names for {split.x.shape[-1]} channels."
                )
            if (
                len(split)
                and not split.y.is_floating_point()
                and not 0 <= int(split.y.min()) <= int(split.y.max()) < self.classes
            ):
                raise InputError(f"The labels of {self.name} must lie in 0 … {self.classes - 1}.")
        self._check_scaling()

    def _check_scaling(self) -> None:
        if (self.centre is None) != (self.scale is None):
            raise InputError(f"{self.name} has one of centre and scale: pass both, or neither.")
        cells = self.train.x.shape[1:]
        for name, part in (("centre", self.centre), ("scale", self.scale)):
            if part is not None and not _broadcasts(part, cells):
                raise InputError(
                    f"{name} must broadcast to the (time, channel) {tuple(cells)} of {self.name}, got "
                    f"{tuple(part.shape)}."
                )
        if self.units is not None and len(self.units) != len(self.channels):
            raise InputError(f"{self.name} has {len(self.units)} units for {len(self.channels)} channels.")

    def raw(self, split: Split) -> Tensor:
        """Return the series of a split of this data set as the source has them, in ``units``.

        In double precision, like ``split.x``; NaN where nothing was observed. Without ``centre`` and ``scale`` the
        values are those of ``split.x``.
        """
        if split.x.shape[1:] != self.train.x.shape[1:]:
            raise InputError(
                f"raw is for splits of {self.name}, with series of shape {tuple(self.train.x.shape[1:])}, got "
                f"{tuple(split.x.shape[1:])}."
            )
        x = split.x.double()
        if self.centre is not None and self.scale is not None:
            x = x * self.scale.to(x) + self.centre.to(x)
        return x if split.mask is None else x.masked_fill(~split.mask, torch.nan)

    def __repr__(self) -> str:
        """Write one line per part."""
        lines = [f"Dataset {self.name} ({self.variant}), {self.classes} classes, channels {listed(self.channels)}"]
        for part in ("train", "validation", "test"):
            split = getattr(self, part)
            if split is not None:
                lines.append(f"  {part:10} {split!r}")
        return "\n".join(lines)

    @property
    def per_step(self) -> bool:
        """Whether every time step has a label of its own."""
        return self.train.y.shape == self.train.x.shape[:2]

    def fold(self, fold: int | None) -> "Dataset":
        """Cut the training series into those of fold 0 … 4 that train and that validate; None: leave them."""
        if fold is None:
            return self
        train, validation = fold_indices(len(self.train), fold)
        return replace(self, train=self.train.take(train), validation=self.train.take(validation))


@dataclass(frozen=True, eq=False, repr=False)
class Series(Split):
    """A :class:`Split` with the names its file gave to series, channels, steps and classes.

    Parameters
    ----------
    channels, times : tuple of str, optional
        Names of the channels and of the time steps; ``times`` holds such a tuple for each series where their
        stamps differ, with empty texts for steps that a series does not have.
    names : tuple of str, optional
        What the file calls its series, where that is not a whole number: those are in ``ids``.
    classes : tuple of str, optional
        What the file calls class 0, 1, …, where that is text.
    labelled : bool
        Whether the file has labels. Without them all series are in class 0.
    units : tuple of str, optional
        Units of the channels' values.
    raw : Tensor like ``x``, optional
        The values before they were scaled for a model, NaN where nothing was observed.
    inputs : dict of str to Tensor, optional
        The inputs of a model that takes several; ``x`` then holds all of them side by side.
    fixed : dict of str to Tensor, optional
        What such a model gets along with them, one row per series.
    padded : bool
        Whether the reader brought series of unequal length to one, with 0 at the end of shorter ones.

    Examples
    --------
    >>> read = Series(torch.zeros(2, 5, 1), torch.tensor([1, 0]), names=("ward 3", "ward 7"), channels=("pulse",))
    >>> read.take([1]).names
    ('ward 7',)
    >>> sorted(read.options)
    ['channels', 'ids', 'mask', 'names', 'raw', 'times', 'units']
    """

    channels: tuple[str, ...] | None = None
    times: Times | None = None
    names: tuple[str, ...] | None = None
    classes: tuple[str, ...] | None = None
    labelled: bool = True
    units: tuple[str, ...] | None = None
    raw: Tensor | None = None
    inputs: dict[str, Tensor] | None = None
    fixed: dict[str, Tensor] | None = None
    padded: bool = False

    @property
    def options(self) -> SeriesOptions:
        """What :func:`tempograd.explain` takes beside ``x``: ``explain(model, series.x, **series.options)``.

        Several inputs have names of channels and steps, and cells that are missing, of their own. Where the reader
        padded series, a warning says that the model reads the padding.
        """
        if padding_note(self):
            warn(
                f"{padding_note(self)} Unless it was trained on padded series, write tempograd.explain(model, "
                "**series.unpadded), which calls it with each length by itself."
            )
        if self.inputs is not None:
            return SeriesOptions(ids=self.ids, names=self.names)
        return SeriesOptions(
            mask=self.mask,
            ids=self.ids,
            channels=self.channels,
            times=self.times,
            names=self.names,
            units=self.units,
            raw=self.raw,
        )

    @property
    def unpadded(self) -> UnpaddedSeries:
        """The series without their padding, and their names, so that a model is shown each at its own length.

        For :func:`tempograd.explain`, as ``explain(model, **series.unpadded)``: ``x`` is a list of series. One
        without any observed value keeps its first step.

        Examples
        --------
        >>> mask = torch.tensor([[[True], [True], [True]], [[True], [False], [False]]])
        >>> read = Series(torch.zeros(2, 3, 1), torch.tensor([1, 0]), mask, times=("Mon", "Tue", "Wed"))
        >>> [tuple(one.shape) for one in read.unpadded["x"]]
        [(3, 1), (1, 1)]
        """
        if self.inputs is not None:
            raise InputError("Several inputs cannot be shown at lengths of their own: pass them padded.")
        steps = validation.lengths(self.mask, self.x).clamp(min=1).tolist()
        times = self.times[: max(steps)] if self.times is not None and not is_nested(self.times) else self.times
        return UnpaddedSeries(
            x=_cut(self.x, steps),
            mask=_cut(self.mask, steps),
            ids=self.ids,
            channels=self.channels,
            times=_cut(times, steps) if is_nested(times) else times,
            names=self.names,
            units=self.units,
            raw=_cut(self.raw, steps),
        )

    def take(self, indices: "Tensor | NDArray[Any] | Sequence[int] | slice") -> Self:
        """Return the series at ``indices`` (positions, a slice or a bool mask), with their ids and names."""
        part, places = super().take(indices), torch.arange(len(self))[indices].reshape(-1)
        rows, times = places.tolist(), self.times
        several: dict[str, Any] = {
            name: None if each is None else {key: value[places] for key, value in each.items()}
            for name, each in (("inputs", self.inputs), ("fixed", self.fixed))
        }
        return replace(
            part,
            names=None if self.names is None else tuple(self.names[row] for row in rows),
            times=(tuple(times[row] for row in rows) or None) if is_nested(times) else times,
            raw=None if self.raw is None else self.raw[places.to(self.raw.device)],
            **several,
        )


def padding_note(series: Series) -> str:
    """Say what a model reads after the end of series that a reader padded; nothing where there are none."""
    steps = series.x.shape[1]
    short = int((validation.lengths(series.mask, series.x) < steps).sum())
    if not series.padded or not short:
        return ""
    return (
        f"{short} of {len(series)} series {'has' if short == 1 else 'have'} fewer than {steps} steps: shorter "
        "series end in 0, which the model reads and which is masked."
    )


def _cut(part: Any, steps: Sequence[int]) -> Any:
    """Return a list with the first steps of each series; None stays None."""
    return None if part is None else [one[:end] for one, end in zip(part, steps, strict=True)]


def _labels(y: Tensor) -> str:
    """Say in two words what kind of labels these are."""
    if y.is_floating_point():
        return "real values"
    count = len(torch.unique(y))
    return f"{count} {'class' if count == 1 else 'classes'}{' per step' if y.ndim == 2 else ''}"


def _check_labels(x: Tensor, y: Tensor) -> None:
    classes = y.dtype == torch.long and y.shape in {x.shape[:1], x.shape[:2]}
    if not classes and not (y.is_floating_point() and y.shape[:1] == x.shape[:1]):
        raise InputError(
            f"y must be classes (int64) or real values, one per series {tuple(x.shape[:1])} or one per step "
            f"{tuple(x.shape[:2])}, or the real values of a forecast ({len(x)}, horizon), got {y.dtype} of shape "
            f"{tuple(y.shape)}."
        )


def _broadcasts(part: Tensor, cells: torch.Size) -> bool:
    try:
        part.expand(cells)
    except RuntimeError:
        return False
    return True


def fold_indices(
    series: int, fold: int, *, folds: int = FOLDS, seed: int = SEED
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    r"""Positions of the training and of the validation series of one fold.

    Shuffle :math:`0, \dots, n-1` with the legacy Mersenne generator and cut the result into contiguous blocks of
    :math:`\lfloor n/K \rfloor` (the first :math:`n \bmod K` blocks are one longer); block :math:`k` validates,
    the rest trains, both in ascending order.

    Parameters
    ----------
    series : int
        How many series there are.
    fold : int
        Which fold, from 0 to ``folds - 1``.
    folds, seed : int, default=5 and 42

    Notes
    -----
    Equal to scikit-learn's ``KFold(folds, shuffle=True, random_state=seed)``.

    Examples
    --------
    >>> fold_indices(7, 0)
    (array([2, 3, 4, 5, 6]), array([0, 1]))
    """
    check_fold(fold, folds)
    if series < folds:
        raise InputError(f"{folds} folds need at least {folds} series, got {series}.")
    order = np.arange(series)
    np.random.RandomState(seed).shuffle(order)
    fold = int(fold)
    start = fold * (series // folds) + min(fold, series % folds)
    stop = start + series // folds + (fold < series % folds)
    return np.sort(np.delete(order, np.s_[start:stop])), np.sort(order[start:stop])


def check_fold(fold: int, folds: int = FOLDS) -> None:
    """Refuse a fold that is not there."""
    if fold not in range(folds):
        raise InputError(f"fold must be an integer from 0 to {folds - 1} or None, got {fold!r}.")
