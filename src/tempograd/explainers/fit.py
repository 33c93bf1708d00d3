"""FIT: how much of a prediction's change at a step one value explains by itself."""

from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from tempograd import settings
from tempograd.engine import Model, Prefixes, Question, require_prefixes
from tempograd.errors import UnknownNameError
from tempograd.explainers._generator import Generator, nearest_past
from tempograd.explainers._learning import Plan, learn, training_series
from tempograd.explainers._over_prefixes import (
    distributions,
    divergence,
    over_prefixes,
    replaced,
    require_probabilities,
    require_width,
    scrambled,
)
from tempograd.explainers._path import Attribution
from tempograd.explainers._published import REAL, SYNTHETIC
from tempograd.explainers.base import EXPLAINERS, Explainer

RECIPES = ("validated", "plain")
WIDEST = 8192  # hidden units of the generator


@EXPLAINERS.register("fit")
@dataclass(frozen=True)
class Fit(Explainer):
    r"""Feature importance in time: the shift of the prediction from step to step that one value explains.

    .. math:: \Delta_{t,i} = \mathrm{KL}(p_t \,\|\, p_{t-1})
        - \frac{1}{S} \sum_s \mathrm{KL}\big(p_t \,\|\, \hat p_t^{(i,s)}\big), \qquad
        A_{t,i} = \frac{2}{1 + e^{-5 \Delta_{t,i}}} - 1,

    where :math:`p_t` is the prediction from :math:`x_{0 \ldots t}`, and :math:`\hat p_t^{(i,s)}` the one in which
    at step :math:`t` only :math:`x_{t,i}` is as observed and the other channels are drawn given it and the past.
    Scores lie in (-1, 1), larger ones matter more, and a negative one says that the value alone leads further
    away from the prediction than no value at all; they are 0 at the first step.

    Parameters
    ----------
    samples : int, default=10
        Draws S per value; each costs one step of the model.
    hidden : int, optional
        Size of the generator's recurrent state, by default three per channel.
    epochs : int, default=300
        At most so many passes over the training series.
    patience : int or None, default=30
        Stop after so many epochs without a better one; None never does.
    batch_size : int, default=100
    recipe : {"validated", "plain"}
        How the generator learns. ``"validated"``: at three log-spaced steps of every batch, and the weights with
        the lowest loss on a tenth of the series are kept. ``"plain"``: at one random step of every batch, and
        the last weights are kept.

    Notes
    -----
    :meth:`fit` learns the generator from training series and does not look at the model. Explained series may
    be longer or shorter than those. With one channel there is nothing to draw:
    :math:`\Delta_t = \mathrm{KL}(p_t \| p_{t-1})`.

    Models with one output per series are asked for the prediction on every prefix. The scores are about the whole
    distribution, so a target makes no difference.

    Quirk B2: the released code reads scores that are laid out by channel as if they were laid out by step.

    References
    ----------
    .. [1] S. Tonekaboni et al., "What went wrong and when? Instance-wise feature importance for time-series
       black-box models", NeurIPS 2020. https://arxiv.org/abs/2003.02821

    Examples
    --------
    One channel, a prediction that depends on the current value alone:

    >>> now = lambda x: x[:, -1] * torch.tensor([1.0, 0.0])
    >>> x = torch.tensor([[[0.0], [0.0], [2.0]]])
    >>> explainer = Fit(epochs=1).fit(now, torch.randn(20, 3, 1))
    >>> explainer(now, x).values.flatten()
    tensor([0.0000, 0.0000, 0.6748])
    """

    needs_gradient: ClassVar[bool] = False
    needs_fit: ClassVar[bool] = True
    needs_prefixes: ClassVar[bool] = True
    needs_probabilities: ClassVar[bool] = True
    signed: ClassVar[bool] = False
    targeted: ClassVar[bool] = False
    known_quirks: ClassVar[frozenset[str]] = frozenset({"B2"})

    samples: int = settings.whole(10)
    hidden: int | None = settings.whole(None, most=WIDEST)
    epochs: int = settings.whole(300)
    patience: int | None = settings.whole(30, optional=True)
    batch_size: int = settings.whole(100, least=2)
    recipe: str = settings.choice("validated", RECIPES)
    generator: Any = field(default=None, metadata={"fitted": True}, repr=False, compare=False)

    @classmethod
    def published(cls, dataset: str) -> Self:
        """Return the paper's settings.

        On real data all epochs are run and the scores are read in the wrong layout (B2). On synthetic data the
        paper trained the generator on the series it explained; pass those to :meth:`fit` to do the same.
        """
        if dataset in REAL:
            return cls(epochs=301, patience=None, quirks=cls.known_quirks)
        if dataset in SYNTHETIC:
            return cls(hidden=6, epochs=200, patience=None, batch_size=32, recipe="plain")
        raise UnknownNameError("published setting of FIT", dataset, REAL + SYNTHETIC)

    def fit(self, model: Model, x: Any, *, seed: int = 0) -> Self:
        """Return a new explainer that has learnt the distribution of a step given the steps before it."""
        series = training_series(x, self.name)
        require_prefixes(model, series)
        channels, plain = series.shape[2], self.recipe == "plain"
        hidden, noise = self.hidden or 3 * channels, 1e-5 if plain else 1e-4
        plan = Plan(self.epochs, self.batch_size, held_out=0 if plain else 0.1, patience=self.patience)
        generator = learn(
            lambda: Generator(channels, hidden, noise, bounded=plain),
            lambda network: nearest_past(network, random_step=plain),
            model,
            series,
            plan._replace(epochs=0) if channels == 1 else plan,  # nothing is ever drawn from it
            seed,
            f"train the generator of {self.name}",
        )
        return replace(self, generator=generator)

    def attribute(self, question: Question) -> Attribution:
        channels = question.x.shape[2]
        require_width(self.generator.channels, question, self.name)
        # draws given a value that is nearly certain magnify rounding, which depends on a series' company
        generator = deepcopy(self.generator).to(question.device, torch.float64)

        def scores(prefixes: Prefixes) -> Tensor:
            require_probabilities(prefixes, self.name)
            p = distributions(prefixes.outputs)
            shift = divergence(p[:, 1:], p[:, :-1])[..., None]
            delta = shift - self._left(prefixes, p, generator)[:, 1:] if channels > 1 else shift
            return torch.nn.functional.pad(2 * torch.sigmoid(5 * delta) - 1, (0, 0, 1, 0))

        values = over_prefixes(question, channels * self.samples if channels > 1 else 1, scores, self.name)
        return Attribution(scrambled(values) if "B2" in self.quirks else values)

    def _left(self, prefixes: Prefixes, p: Tensor, generator: Generator) -> Tensor:
        """Return the shift that is left when one value is known, (series, time, channel)."""
        block, channels = prefixes.block, prefixes.block.x.shape[2]
        x = block.x.double()
        left, past = torch.zeros_like(x), generator.past(x)
        for at in prefixes.starts(channels * self.samples, 1):
            drawn = generator.candidates(x, past, at, block.ids, prefixes.question.seed, self.samples).to(block.x)
            drawn = drawn.where(block.observed[:, at, None, None], block.x[:, at, None, None]).flatten(2, 3)
            answers = distributions(replaced(prefixes, at, drawn[:, :, :, None])[..., 0, :])
            shift = divergence(p[:, at, None], answers)
            left[:, at] = shift.view(*shift.shape[:2], channels, self.samples).mean(-1)
        return left
