"""State: two hidden states, each with a channel of its own that decides the label of every step."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tempograd.data._labelled_steps import TEST, TRAIN, Floats, Integers, draw_labels, synthetic_dataset
from tempograd.data.base import Dataset
from tempograd.data.loading import choose_variant, dataset

STEPS = 200
SEED = 42
MEANS = np.array([[0.1, 1.6, 0.5], [-0.1, -0.4, -1.5]])


@dataclass(frozen=True)
class Law:
    """What the two variants disagree about."""

    diagonal: float  # of both covariances
    coupled: tuple[tuple[int, int], tuple[int, int]]  # per state: the two channels with covariance 0.01
    slope: float  # of the label's sigmoid
    ageing: bool  # whether the chance to stay in state 1 falls with the time spent there

    def covariances(self) -> Floats:
        """Σ₀ and Σ₁, of shape (2, 3, 3)."""
        result = np.stack([self.diagonal * np.eye(3)] * 2)
        for state, (first, second) in enumerate(self.coupled):
            result[state, first, second] = result[state, second, first] = 0.01
        return result


VARIANTS = {
    "released": Law(diagonal=0.801, coupled=((0, 1), (0, 2)), slope=2.0, ageing=True),
    "paper": Law(diagonal=0.8, coupled=((1, 2), (0, 1)), slope=1.0, ageing=False),
}


@dataset("state", VARIANTS)
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
        ``"released"`` (the default) is what the published experiments ran on, ``"paper"`` what their text
        says.

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
        0 … 4: cut the training series by the published rule.

    Notes
    -----
    The seed is the published one (42), the order of the draws is our own: same law, other series.

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
    variant = choose_variant("state", variant, VARIANTS)
    law = VARIANTS[variant]
    rng = np.random.RandomState(SEED)  # numpy promises never to change this stream
    states = (ageing_states if law.ageing else independent_states)(rng, TRAIN + TEST, STEPS)
    x = emit(rng, states, law.covariances())
    return synthetic_dataset("state", variant, x, 1 + states, draw_labels(rng, x, 1 + states, law.slope)).fold(
        fold
    )


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


def emit(rng: np.random.RandomState, states: Integers, covariances: Floats) -> Floats:
    """Series (series, steps, 3): each step Gaussian with the mean and covariance of its state."""
    noise = rng.standard_normal((*states.shape, 3))
    factors = np.linalg.cholesky(covariances)  # (2, 3, 3)
    coloured = [noise @ factor.T for factor in factors]
    return np.asarray(MEANS[states] + np.where(states[..., None] == 1, coloured[1], coloured[0]))
