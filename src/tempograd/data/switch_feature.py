"""Switch-Feature: three hidden states, each of which hands the label to another channel."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tempograd.data._labelled_steps import TEST, TRAIN, Integers, draw_labels, synthetic_dataset
from tempograd.data.base import Dataset
from tempograd.data.loading import choose_variant, dataset

STEPS = 100
SEED = 234
VARIANCE = 0.1
MEANS = np.array([[0.8, -0.5, -0.2], [0.0, -1.0, 0.0], [-0.2, -0.2, 0.8]])
TRANSITIONS = np.array([[0.95, 0.02, 0.03], [0.02, 0.95, 0.03], [0.03, 0.02, 0.95]])


@dataclass(frozen=True)
class Law:
    """What the two variants disagree about."""

    initial: tuple[float, float, float]
    slope: float  # of the label's sigmoid


VARIANTS = {
    "released": Law(initial=(2 / 3, 1 / 3, 0.0), slope=3.0),
    "paper": Law(initial=(1 / 3, 1 / 3, 1 / 3), slope=1.0),
}


@dataset("switch_feature", VARIANTS)
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
        ``"released"`` (the default) is what the published experiments ran on, ``"paper"`` what their text
        says.

        * start. Released: state 1 with probability 1/3, else state 0; never 2. Paper: each state with
          probability 1/3.
        * label. Released: :math:`\beta = 3`. Paper: :math:`\beta = 1`.

    fold : int, optional
        0 … 4: cut the training series by the published rule.

    Notes
    -----
    The published generator draws each run of one state from a Gaussian process with a squared-exponential
    kernel of length 0.2. One step apart its correlation is :math:`e^{-12.5} \approx 4 \cdot 10^{-6}`, so we
    draw independent values. The text only says "γ = 0.2"; read as :math:`e^{-\gamma \Delta^2}` neighbours
    would correlate at 0.82, but both variants here keep to the length.

    The seed is the published one (234), the order of the draws is our own: same law, other series.

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
    variant = choose_variant("switch_feature", variant, VARIANTS)
    law = VARIANTS[variant]
    rng = np.random.RandomState(SEED)  # numpy promises never to change this stream
    states = switching_states(rng, TRAIN + TEST, STEPS, law.initial)
    x = MEANS[states] + np.sqrt(VARIANCE) * rng.standard_normal((*states.shape, 3))
    return synthetic_dataset("switch_feature", variant, x, states, draw_labels(rng, x, states, law.slope)).fold(
        fold
    )


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
