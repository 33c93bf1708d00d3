"""The two data sets of hidden states, whose truly salient cells are known: Switch-Feature and State."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from tempograd.data.base import Dataset, Split
from tempograd.data.loading import choose_variant, dataset

_Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
TRAIN, TEST = 800, 200  # series


# Switch-Feature
SWITCH_STEPS = 100
SWITCH_SEED = 234
VARIANCE = 0.1
SWITCH_MEANS = np.array([[0.8, -0.5, -0.2], [0.0, -1.0, 0.0], [-0.2, -0.2, 0.8]])
TRANSITIONS = np.array([[0.95, 0.02, 0.03], [0.02, 0.95, 0.03], [0.03, 0.02, 0.95]])


@dataclass(frozen=True)
class SwitchLaw:
    """What the two variants disagree about."""

    initial: tuple[float, float, float]
    slope: float  # of the label's sigmoid


SWITCH_VARIANTS = {
    "released": SwitchLaw(initial=(2 / 3, 1 / 3, 0.0), slope=3.0),
    "paper": SwitchLaw(initial=(1 / 3, 1 / 3, 1 / 3), slope=1.0),
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
    process = SWITCH_VARIANTS[variant]
    rng = np.random.RandomState(SWITCH_SEED)  # numpy promises never to change this stream
    states = switching_states(rng, TRAIN + TEST, SWITCH_STEPS, process.initial)
    x = SWITCH_MEANS[states] + np.sqrt(VARIANCE) * rng.standard_normal((*states.shape, 3))
    return labelled_splits("switch_feature", variant, rng, x, states, process.slope).fold(fold)


def switching_states(
    rng: np.random.RandomState, series: int, steps: int, initial: tuple[float, float, float]
) -> Integers:
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
STATE_SEED = 42
STATE_MEANS = np.array([[0.1, 1.6, 0.5], [-0.1, -0.4, -1.5]])


@dataclass(frozen=True)
class StateLaw:
    """What the two variants disagree about."""

    diagonal: float  # of both covariances
    coupled: tuple[tuple[int, int], tuple[int, int]]  # per state: the two channels with covariance 0.01
    slope: float  # of the label's sigmoid
    ageing: bool  # whether the chance to stay in state 1 falls with the time spent there

    def covariances(self) -> _Floats:
        """Σ₀ and Σ₁, of shape (2, 3, 3)."""
        result = np.stack([self.diagonal * np.eye(3)] * 2)
        for state, (first, second) in enumerate(self.coupled):
            result[state, first, second] = result[state, second, first] = 0.01
        return result


STATE_VARIANTS = {
    "released": StateLaw(diagonal=0.801, coupled=((0, 1), (0, 2)), slope=2.0, ageing=True),
    "paper": StateLaw(diagonal=0.8, coupled=((1, 2), (0, 1)), slope=1.0, ageing=False),
}


@dataset("state", STATE_VARIANTS)
def load_state(*, root: Path | None = None, variant: str | None = None, fold: int | None = None) -> Dataset:
    r"""Two-state hidden Markov series with a label at every step and the true importance of every cell.

    Which channel matters changes with a state that the model cannot see, so an explanation is right only if
    it follows the state. 1,000 series (the first 800 train, the others test) of 200 steps and 3 channels.

    In state :math:`s_t \in \{0, 1\}` the series emits :math:`x_t \sim \mathcal N(\mu_{s_t}, \Sigma_{s_t})`
    with :math:`\mu_0 = (0.1, 1.6, 0.5)`, :math:`\mu_1 = (-0.1, -0.4, -1.5)`, and the label is drawn as
    :math:`y_t \sim \mathrm{Bernoulli}(\sigma(\beta\, x_{t, 1 + s_t}))`: the true importance is the cell
    :math:`(t, 1 + s_t)`, one per step. Nothing is normalised.

    Parameters
    ----------
    root : path, optional
        Not used: the data is made, not read.
    variant : {"released", "paper"}, optional
        ``"released"`` (the default) is what the generator of the reference does, ``"paper"`` what its text says.

        * transitions. Released: with :math:`\tau` the steps since the last change (0 at the start),
          :math:`P(1 \mid 1) = 0.95 - \tau/500` and :math:`P(1 \mid 0) = 0.05`. Paper: :math:`P(1 \mid \cdot)
          = 0.9`.
        * start. Released: a state before the first step is a fair coin, and the first step follows from it by
          the transition rule. Paper: the first step's state is a fair coin.
        * covariance. Released: diagonal 0.801 and covariance 0.01 between channels 0 and 1 (state 0) or 0 and
          2 (state 1). Paper: diagonal 0.8 and covariance 0.01 between channels 1 and 2 (state 0) or 0 and 1
          (state 1).
        * label. Released: :math:`\beta = 2`. Paper: :math:`\beta = 1`.

    fold : int, optional
        0 … 4: cut the training series by ``tempograd.data.fold_indices``.

    Notes
    -----
    The seed is that of the released generator (42), the order of the draws is our own, so the series differ.

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
    variant = choose_variant("state", variant, STATE_VARIANTS)
    process = STATE_VARIANTS[variant]
    rng = np.random.RandomState(STATE_SEED)  # numpy promises never to change this stream
    states = (ageing_states if process.ageing else independent_states)(rng, TRAIN + TEST, STATE_STEPS)
    x = emit(rng, states, process.covariances())
    return labelled_splits("state", variant, rng, x, 1 + states, process.slope).fold(fold)


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


def independent_states(rng: np.random.RandomState, series: int, steps: int) -> Integers:
    """States of the paper's text, (series, steps): its two rows are equal, so no step knows the last."""
    chance = np.where(np.arange(steps) == 0, 0.5, 0.9)
    return (rng.random_sample((series, steps)) < chance).astype(np.int64)


def emit(rng: np.random.RandomState, states: Integers, covariances: _Floats) -> _Floats:
    """Series (series, steps, 3): each step Gaussian with the mean and covariance of its state."""
    noise = rng.standard_normal((*states.shape, 3))
    factors = np.linalg.cholesky(covariances)  # (2, 3, 3)
    coloured = [noise @ factor.T for factor in factors]
    return np.asarray(STATE_MEANS[states] + np.where(states[..., None] == 1, coloured[1], coloured[0]))


def labelled_splits(
    name: str, variant: str, rng: np.random.RandomState, x: _Floats, decider: Integers, slope: float
) -> Dataset:
    r"""Draw labels, and put them together with the series and the deciding cells: the first 800 train.

    :math:`y_t \sim \mathrm{Bernoulli}(\sigma(\text{slope} \cdot x_{t, c_t}))` for series ``x`` (N, T, D), where
    the channel :math:`c_t` of ``decider`` (N, T) decides each step.
    """
    score = np.take_along_axis(x, decider[..., None], axis=2)[..., 0]
    labels = rng.random_sample(score.shape) < 1 / (1 + np.exp(-slope * score))
    channels = range(x.shape[2])
    whole = Split(
        x=torch.from_numpy(x).float(),
        y=torch.from_numpy(labels).long(),
        truth=torch.from_numpy(decider[..., None] == np.array(channels)),
    )
    train, test = whole.take(slice(None, TRAIN)), whole.take(slice(TRAIN, None))
    return Dataset(name, train, None, test, 2, tuple(f"feature {channel}" for channel in channels), variant)
