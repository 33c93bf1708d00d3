"""Data sets: what one holds, those that are loaded by name, and the two that are made, of hidden states."""

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import update_wrapper
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tempograd.core.errors import InputError, UnknownNameError, listed
from tempograd.core.io import as_path
from tempograd.core.registry import Registry
from tempograd.core.series import Series

PARTS = ("train", "validation", "test")
FOLDS = 5
SEED = 42  # of the shuffle before the cut
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Training and test series with what is needed to build a model for them.

    Parameters
    ----------
    name : str
        What the data set is called in tables and files.
    train, validation, test : Series
        With the names and units of their channels, and their values in these as ``raw``.
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
    >>> series = Series(torch.tensor([[[-1.0], [2.0]]]), torch.tensor([0]))
    >>> scaling = {"centre": torch.tensor([37.0]), "scale": torch.tensor([0.5]), "units": ("°C",)}
    >>> toy = Dataset("toy", series, None, series, classes=1, channels=("Temp",), **scaling)
    >>> toy.raw(toy.test).flatten().tolist(), toy.units
    ([36.5, 38.0], ('°C',))
    """

    name: str
    train: Series
    validation: Series | None
    test: Series
    classes: int
    channels: tuple[str, ...]
    variant: str = "default"
    centre: Tensor | None = None
    scale: Tensor | None = None
    units: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if (self.centre is None) != (self.scale is None):
            raise InputError(f"{self.name} has one of centre and scale: pass both, or neither.")
        for part in PARTS:
            series = vars(self)[part]
            if series is None:
                continue
            y = series.y
            if y is None:
                raise InputError(f"The {part} series of {self.name} have no labels: pass y=.")
            if len(series) and not y.is_floating_point() and not 0 <= int(y.min()) <= int(y.max()) < self.classes:
                raise InputError(f"The labels of {self.name} must lie in 0 … {self.classes - 1}.")
            raw = series.raw if series.raw is not None or self.centre is None else self.raw(series).to(series.x)
            vars(self)[part] = replace(series, channels=self.channels, units=self.units, raw=raw)

    def raw(self, series: Series) -> Tensor:
        """Return series of this data set as the source has them, in ``units``.

        In double precision, like ``series.x``; NaN where nothing was observed. Without ``centre`` and ``scale``
        the values are those of ``series.x``.
        """
        x: Tensor = series.x.double()
        if self.centre is not None and self.scale is not None:
            x = x * self.scale.to(x) + self.centre.to(x)
        return x if series.mask is None else x.masked_fill(~series.mask, torch.nan)

    def __repr__(self) -> str:
        """Write one line per part."""
        head = f"Dataset {self.name} ({self.variant}), {self.classes} classes, channels {listed(self.channels)}"
        parts = [f"  {part:10} {series!r}" for part in PARTS if (series := getattr(self, part)) is not None]
        return "\n".join([head, *parts])

    @property
    def per_step(self) -> bool:
        """Whether every time step has a label of its own."""
        return bool(self.train.y.shape == self.train.x.shape[:2])

    def fold(self, fold: int | None) -> "Dataset":
        """Cut the training series into those of fold 0 … 4 that train and that validate; None: leave them."""
        if fold is None:
            return self
        train, validation = fold_indices(len(self.train), fold)
        return replace(self, train=self.train.take(train), validation=self.train.take(validation))


def fold_indices(series: int, fold: int, *, folds: int = FOLDS, seed: int = SEED) -> tuple[Integers, Integers]:
    r"""Integers of the training and of the validation series of one fold.

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
    validation = np.sort(np.array_split(order, folds)[fold])
    return np.setdiff1d(order, validation), validation


def check_fold(fold: int, folds: int = FOLDS) -> None:
    """Refuse a fold that is not there."""
    if fold not in range(folds):
        raise InputError(f"fold must be an integer from 0 to {folds - 1} or None, got {fold!r}.")


# Data sets that are loaded by name

ReadsDataset = Callable[..., Dataset]  # reads or makes a data set for root=, variant= and fold=, or None for each


@dataclass(eq=False)
class Loader:
    """A data set that can be loaded by name.

    Parameters
    ----------
    read : function of root, variant and fold
        Reads or makes the data set; ``root`` is the folder that holds its files, if it needs any.
    variants : tuple of str
        The versions it offers, the default first.
    own_folds : bool
        Whether it brings its own training, validation and test series for each fold, in place of cutting the
        training series by the rule of ``tempograd.data.fold_indices``.
    needs_files : bool
        Whether it is read from files that the user has.
    """

    read: ReadsDataset
    variants: tuple[str, ...]
    own_folds: bool = False
    needs_files: bool = False

    def __post_init__(self) -> None:
        update_wrapper(self, self.read)

    def __call__(self, **choices: Any) -> Dataset:
        return self.read(**choices)


_WANTED = "a function under @tempograd.data.dataset, nor a Loader"
DATASETS = Registry[Loader]("dataset", "tempograd.datasets", lambda thing: isinstance(thing, Loader), _WANTED)
DATASETS.more = (
    "The paper's data sets come with tempograd-paper: pip install ./reproduction in a clone of tempograd."
)


def dataset(
    name: str, variants: Collection[str], *, own_folds: bool = False, needs_files: bool = False
) -> Callable[[ReadsDataset], ReadsDataset]:
    """Decorate a function to make it available under ``name``; it stays a plain function."""

    def add(read: ReadsDataset) -> ReadsDataset:
        DATASETS.register(name)(Loader(read, tuple(variants), own_folds, needs_files))
        return read

    return add


def load_dataset(
    name: str, *, root: str | Path | None = None, fold: int | None = None, variant: str | None = None
) -> Dataset:
    """Load a data set by name.

    Parameters
    ----------
    name : str
        A key of ``DATASETS``.
    root : path, optional
        Folder with the data sets' files, by default the environment variable ``TEMPOGRAD_DATA``. Synthetic
        data needs none.
    fold : int, optional
        0 … 4: cut the training series into ``.train`` and ``.validation`` by a shuffled five-fold rule
        (``tempograd.data.fold_indices``); data sets that come with splits of their own take split ``fold``,
        test series included. Without it ``.validation`` is None.
    variant : str, optional
        Which version of the data; each data set says what it offers and what its default is.

    Examples
    --------
    >>> data = load_dataset("switch_feature", fold=0)
    >>> len(data.train), len(data.validation), len(data.test), data.channels
    (640, 160, 200, ('feature 0', 'feature 1', 'feature 2'))
    """
    loader, folder = DATASETS[name], root if root is not None else os.environ.get("TEMPOGRAD_DATA") or None
    return loader(root=None if folder is None else as_path(folder, "root"), variant=variant, fold=fold)


def choose_variant(dataset: str, variant: str | None, known: Collection[str]) -> str:
    """Return ``variant``, or the first of ``known`` when None; other names are refused."""
    chosen = next(iter(known)) if variant is None else variant
    if chosen not in known:
        raise UnknownNameError(f"variant of {dataset}", chosen, known)
    return chosen


# The two data sets of hidden states, whose truly salient cells are known: Switch-Feature and State

_Floats = NDArray[np.float64]
TRAIN, TEST = 800, 200  # series


# Switch-Feature

SWITCH_MEANS = np.array([[0.8, -0.5, -0.2], [0.0, -1.0, 0.0], [-0.2, -0.2, 0.8]])
TRANSITIONS = np.array([[0.95, 0.02, 0.03], [0.02, 0.95, 0.03], [0.03, 0.02, 0.95]])


SWITCH_VARIANTS = {  # the chance of each first state, and the slope of the label's sigmoid
    "released": ((2 / 3, 1 / 3, 0.0), 3.0),
    "paper": ((1 / 3, 1 / 3, 1 / 3), 1.0),
}


@dataset("switch_feature", SWITCH_VARIANTS)
def load_switch_feature(
    *, root: Path | None = None, variant: str | None = None, fold: int | None = None
) -> Dataset:
    r"""Three-state hidden Markov series with a label at every step and the true importance of every cell.

    Which channel matters changes with a state that the model cannot see, so an explanation is right only if
    it follows the state. 1,000 series (the first 800 train, the others test) of 100 steps and 3 channels.

    The state :math:`s_t \in \{0, 1, 2\}` follows the transition rows (.95 .02 .03), (.02 .95 .03), (.03 .02
    .95); the series emits independent channels :math:`x_{t,c} \sim \mathcal N(\mu_{s_t, c}, 0.1)` around
    :math:`\mu_0 = (.8, -.5, -.2)`, :math:`\mu_1 = (0, -1, 0)`, :math:`\mu_2 = (-.2, -.2, .8)`, and the label
    is drawn as :math:`y_t \sim \mathrm{Bernoulli}(\sigma(\beta\, x_{t, s_t}))`: the true importance is the
    cell :math:`(t, s_t)`, one per step. Nothing is normalised.

    Parameters
    ----------
    root : path, optional
        Not used: the data is made, not read.
    variant : {"released", "paper"}, optional
        ``"released"`` (the default) is what the generator of the reference does, ``"paper"`` what its text says.

        * start. Released: state 1 with probability 1/3, else state 0; never 2. Paper: each state with
          probability 1/3.
        * label. Released: :math:`\beta = 3`. Paper: :math:`\beta = 1`.

    fold : int, optional
        0 … 4: cut the training series by ``tempograd.data.fold_indices``.

    Notes
    -----
    The released generator draws each run of one state from a Gaussian process with a squared-exponential
    kernel of length 0.2. One step apart its correlation is :math:`e^{-12.5} \approx 4 \cdot 10^{-6}`, so we
    draw independent values. The text only says "γ = 0.2"; read as :math:`e^{-\gamma \Delta^2}` neighbours
    would correlate at 0.82, but both variants here keep to the length.

    The seed is that of the released generator (234), the order of the draws is our own, so the series differ.
    They cannot be had again on every machine: the released generator colours each run by the singular vectors of a
    matrix that is nearly a multiple of the identity, whose signs the linear algebra library at hand picks.

    References
    ----------
    .. [1] S. Tonekaboni et al., "What went wrong and when? Instance-wise feature importance for time-series
       black-box models", NeurIPS 2020. https://arxiv.org/abs/2003.02821
    .. [2] Z. Liu et al., "Explaining time series via contrastive and locally sparse perturbations", ICLR
       2024. https://arxiv.org/abs/2401.08552

    Examples
    --------
    >>> data = load_switch_feature()
    >>> data.test.x.shape, int(data.test.truth.sum()) == 200 * 100
    (torch.Size([200, 100, 3]), True)
    """
    variant = choose_variant("switch_feature", variant, SWITCH_VARIANTS)
    initial, slope = SWITCH_VARIANTS[variant]
    rng = np.random.RandomState(234)  # numpy promises never to change this stream
    states = switching_states(rng, TRAIN + TEST, 100, initial)
    x = SWITCH_MEANS[states] + np.sqrt(0.1) * rng.standard_normal((*states.shape, 3))
    labels = draw_labels(rng, x, states, slope)
    return splits("switch_feature", variant, x, labels, states).fold(fold)


def switching_states(rng: np.random.RandomState, series: int, steps: int, initial: Sequence[float]) -> Integers:
    """States (series, steps) of the Markov chain, by inverting the distribution function of each row."""
    uniform = rng.random_sample((series, steps))
    states = np.empty((series, steps), dtype=np.int64)
    ceilings = np.tile(np.cumsum(initial), (series, 1))  # of states 0, 1 and 2
    for step in range(steps):
        # the last ceiling is 1 up to rounding, so only the first two can be passed
        states[:, step] = (uniform[:, step, None] >= ceilings[:, :2]).sum(axis=1)
        ceilings = np.cumsum(TRANSITIONS, axis=1)[states[:, step]]
    return states


# State
STATE_STEPS = 200

STATE_MEANS = np.array([[0.1, 1.6, 0.5], [-0.1, -0.4, -1.5]])


STATE_COVARIANCES = np.stack([0.801 * np.eye(3)] * 2)
for _state, _channel in ((0, 1), (1, 2)):  # which channel 0 goes along with
    STATE_COVARIANCES[_state, [0, _channel], [_channel, 0]] = 0.01
STATE_SLOPE = 2.0  # of the label's sigmoid


@dataset("state", ("redrawn", "released"))
def load_state(*, root: Path | None = None, variant: str | None = None, fold: int | None = None) -> Dataset:
    r"""Two-state hidden Markov series with a label at every step and the true importance of every cell.

    Which channel matters changes with a state that the model cannot see, so an explanation is right only if
    it follows the state. 1,000 series (the first 800 train, the others test) of 200 steps and 3 channels.

    In state :math:`s_t \in \{0, 1\}` the series emits :math:`x_t \sim \mathcal N(\mu_{s_t}, \Sigma_{s_t})`
    with :math:`\mu_0 = (0.1, 1.6, 0.5)`, :math:`\mu_1 = (-0.1, -0.4, -1.5)`, variances of 0.801 and a
    covariance of 0.01 between channels 0 and 1 (state 0) or 0 and 2 (state 1). The label is drawn as
    :math:`y_t \sim \mathrm{Bernoulli}(\sigma(2\, x_{t, 1 + s_t}))`: the true importance is the cell
    :math:`(t, 1 + s_t)`, one per step. Nothing is normalised.

    With :math:`\tau` the steps since the last change (0 at the start), :math:`P(1 \mid 1) = 0.95 - \tau/500` and
    :math:`P(1 \mid 0) = 0.05`; a state before the first step is a fair coin.

    Parameters
    ----------
    root : path, optional
        Not used: the data is made, not read.
    variant : {"redrawn", "released"}, optional
        ``"redrawn"`` (the default) follows the law of the reference's generator, with draws of our own;
        ``"released"`` is that generator's series, number by number.

    fold : int, optional
        0 … 4: cut the training series by ``tempograd.data.fold_indices``.

    Notes
    -----
    Both variants start from the seed of the released generator (42). ``"released"`` takes its draws in the order
    of that generator, so the series are the same to a rounding of float64; ``"redrawn"`` takes all states first,
    then all emissions, then all labels, so its series differ. The paper's text says otherwise in places (a chance
    of 0.9 for state 1 at every step, variances of 0.8, :math:`\sigma(x)`), but its numbers come from this law.

    References
    ----------
    .. [1] S. Tonekaboni et al., "What went wrong and when? Instance-wise feature importance for time-series
       black-box models", NeurIPS 2020. https://arxiv.org/abs/2003.02821
    .. [2] J. Crabbé and M. van der Schaar, "Explaining time series predictions with dynamic masks", ICML
       2021. https://arxiv.org/abs/2106.05303

    Examples
    --------
    >>> data = load_state()
    >>> data.train.x.shape, data.train.y.shape, data.per_step
    (torch.Size([800, 200, 3]), torch.Size([800, 200]), True)
    """
    variant = choose_variant("state", variant, DATASETS["state"].variants)
    rng = np.random.RandomState(42)  # numpy promises never to change this stream
    if variant == "released":
        x, states, labels = released_draws(rng, TRAIN + TEST, STATE_STEPS)
    else:
        states = ageing_states(rng, TRAIN + TEST, STATE_STEPS)
        x = emit(rng, states)
        labels = draw_labels(rng, x, 1 + states, STATE_SLOPE)
    return splits("state", variant, x, labels, 1 + states).fold(fold)


# √λ·v, a row for each pair (λ, v) of an eigenvalue and a unit eigenvector of the released covariance, by state.
# Any signs of v give the same law; these, and the falling λ, give the released series, whatever the machine.
_SIDE, _MIDDLE, _FAR = (0.811 / 2) ** 0.5, 0.801**0.5, (0.791 / 2) ** 0.5
RELEASED_FACTORS = np.array(
    [
        [[-_SIDE, -_SIDE, 0.0], [0.0, 0.0, _MIDDLE], [-_FAR, _FAR, 0.0]],
        [[-_SIDE, 0.0, -_SIDE], [0.0, -_MIDDLE, 0.0], [_FAR, 0.0, -_FAR]],
    ]
)


def released_draws(rng: np.random.RandomState, series: int, steps: int) -> tuple[_Floats, Integers, Integers]:
    """Series (series, steps, 3), states and labels (series, steps), drawn in the order of the released generator.

    Series by series: the state before the first step; then, step by step, the state, the emission, the label.
    """
    x = np.empty((series, steps, 3))
    states, labels = (np.empty((series, steps), dtype=np.int64) for _ in range(2))
    for row in range(series):
        previous, age = rng.binomial(1, 0.5), 0
        for step in range(steps):
            state = rng.binomial(1, 0.95 - age / 500 if previous == 1 else 0.05)
            age = age + 1 if state == previous else 0
            emission = STATE_MEANS[state] + rng.standard_normal(3) @ RELEASED_FACTORS[state]
            label = rng.binomial(1, 1 / (1 + np.exp(-STATE_SLOPE * emission[1 + state])))
            x[row, step], states[row, step], labels[row, step] = emission, state, label
            previous = state
    return x, states, labels


def ageing_states(rng: np.random.RandomState, series: int, steps: int) -> Integers:
    """States of the released generator, (series, steps): state 1 is left the sooner the longer it lasts."""
    states = np.empty((series, steps), dtype=np.int64)
    previous, age = rng.randint(2, size=series), np.zeros(series)
    for step in range(steps):
        chance = np.where(previous == 1, 0.95 - age / 500, 0.05)  # of state 1
        states[:, step] = rng.random_sample(series) < chance
        age = np.where(states[:, step] == previous, age + 1, 0)
        previous = states[:, step]
    return states


def emit(rng: np.random.RandomState, states: Integers) -> _Floats:
    """Series (series, steps, 3): each step Gaussian with the mean and covariance of its state."""
    noise = rng.standard_normal((*states.shape, 3))
    factors = np.linalg.cholesky(STATE_COVARIANCES)  # (2, 3, 3)
    coloured = [noise @ factor.T for factor in factors]
    return np.asarray(STATE_MEANS[states] + np.where(states[..., None] == 1, coloured[1], coloured[0]))


def draw_labels(rng: np.random.RandomState, x: _Floats, decider: Integers, slope: float) -> Integers:
    r"""Draw labels (N, T), :math:`y_t \sim \mathrm{Bernoulli}(\sigma(\text{slope} \cdot x_{t, c_t}))`.

    The channel :math:`c_t` of ``decider`` (N, T) decides each step of the series ``x`` (N, T, D).
    """
    score = np.take_along_axis(x, decider[..., None], axis=2)[..., 0]
    return np.asarray(rng.random_sample(score.shape) < 1 / (1 + np.exp(-slope * score)), np.int64)


def splits(name: str, variant: str, x: _Floats, labels: Integers, decider: Integers) -> Dataset:
    """Put series, labels and deciding cells together: the first 800 train, the others test."""
    whole = Series(x.astype(np.float32), labels, truth=decider[..., None] == np.arange(3))
    train, test = whole.take(slice(None, TRAIN)), whole.take(slice(TRAIN, None))
    return Dataset(name, train, None, test, 2, ("feature 0", "feature 1", "feature 2"), variant)
