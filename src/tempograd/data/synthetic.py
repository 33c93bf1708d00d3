"""The two data sets of hidden states, whose truly salient cells are known: Switch-Feature and State."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tempograd.core.series import Series
from tempograd.data.datasets import DATASETS, Dataset, choose_variant, dataset

_Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
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


STATE_COVARIANCES = np.array(
    [
        [[0.801, 0.01, 0.0], [0.01, 0.801, 0.0], [0.0, 0.0, 0.801]],
        [[0.801, 0.0, 0.01], [0.0, 0.801, 0.0], [0.01, 0.0, 0.801]],
    ]
)
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
