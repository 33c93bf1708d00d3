"""What TimeX and TimeX++ share: fields, one fit for many explanations, one small pass per series."""

import copy
from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from tempograd._utils import settings, validation
from tempograd.engine import Model, Question, mutable_if_needed, owner, place, quiet
from tempograd.engine.guesses import is_probability
from tempograd.errors import InputError, UnknownNameError, brief
from tempograd.explainers._published import REAL
from tempograd.explainers.base import Explainer
from tempograd.explainers.integration import Attribution
from tempograd.explainers.timex.networks import MaskGenerator, copied
from tempograd.explainers.timex.training import (
    Learnt,
    Objective,
    Plan,
    Read,
    TrainingSet,
    learn,
    require_gradient,
)

LEAST = 4  # training series: two to learn from and two to choose the epoch
CLIP = 1.0  # largest norm of a step's gradient
TEST_BATCH = 50  # series that the released code explains together (B3)


@dataclass(frozen=True)
class MaskNetwork(Explainer):
    """A network that maps a series to a soft mask, learnt over training series."""

    signed: ClassVar[bool] = False
    targeted: ClassVar[bool] = False
    deterministic: ClassVar[bool] = True
    needs_fit: ClassVar[bool] = True
    amortised: ClassVar[bool] = True
    needs_probabilities: ClassVar[bool] = True
    choose_by_if_published: ClassVar[dict[str, str]] = {}
    """What the released code chooses the epoch by, under the key of that quirk."""

    epochs: int = settings.whole(50)
    batch: int = settings.whole(32, least=2)
    learning_rate: float = settings.positive(1e-4)
    weight_decay: float = settings.number(1e-3)
    prior: float = settings.number(0.5, high=1.0, closed=(False, False))
    sparsity: float = settings.number(2.0)
    connection: float = settings.number(4.0)
    network: Any = field(default=None, metadata={"fitted": True}, repr=False, compare=False, kw_only=True)

    @classmethod
    def published(cls, dataset: str) -> Self:
        """Return the paper's setting, the same for its six real data sets; synthetic data was not explained."""
        if dataset not in REAL:
            raise UnknownNameError(f"published setting of {cls.__name__}", dataset, REAL)
        return cls(quirks=cls.known_quirks)

    def fit(self, model: Model, x: Any, *, seed: int = 0) -> Self:
        """Return a new explainer whose mask generator has learnt from series like those the model was trained on.

        Parameters
        ----------
        model : nn.Module
            Frozen and in evaluation mode throughout; put back as it was.
        x : Tensor or array of shape (batch, time, channel)
            At least four series. A tenth of them, held out, chooses the epoch. Series are taken as they are:
            put values into cells that were not observed, as for the model's own training.
        seed : int, default=0
            Decides initial weights, order, gates and dropout. On a CPU the same seed gives the same fit.
        """
        x = validation.series(x, name="the training series")
        seed = validation.seed(seed) % 2**63
        if len(x) < LEAST:
            raise InputError(f"{self.name} learns from training series: got {len(x)}, pass at least {LEAST}.")
        return mutable_if_needed(lambda: self._learnt_from(model, x, seed))

    def _learnt_from(self, model: Model, x: Tensor, seed: int) -> Self:
        restless = "7.3" in self.quirks
        box = copied(model) if restless else model  # before the model comes to rest, for its dropout
        module = owner(box)
        with quiet(model):
            device, dtype = place(model, x)
            _seed_dropout(seed, device)
            one = x[:1].to(device, dtype)
            require_gradient(model, one)
            if restless and module is not None:
                module.eval().requires_grad_(False)
            read = self._reader(box, one)
            data = TrainingSet(x, read, device, dtype, restless=restless, label=f"read series for {self.name}")
            objective = self._objective(MaskGenerator(*x.shape[1:]).to(device, data.dtype), data)
            if restless and module is not None:
                objective = objective._replace(restless=(module, *objective.restless))
            random = torch.Generator().manual_seed(seed)
            return replace(self, network=learn(objective, data, self._plan, random, f"fit {self.name}"))

    @property
    def _plan(self) -> Plan:
        by = next((how for key, how in self.choose_by_if_published.items() if key in self.quirks), "loss")
        return Plan(
            self.epochs,
            self.batch,
            self.learning_rate,
            self.weight_decay,
            self.prior,
            self.sparsity,
            self.connection,
            None if "B10" in self.quirks else CLIP,
            by,
        )

    @abstractmethod
    def _reader(self, model: Model, x: Tensor) -> Read:
        """Return what reads the model's answers, after a look at how it takes one series."""

    @abstractmethod
    def _objective(self, generator: MaskGenerator, data: TrainingSet) -> Objective:
        """Return what is learnt and how a mask is judged."""

    def attribute(self, question: Question) -> Attribution:
        learnt: Learnt = self.network
        _check(question, self.name)
        generator = _at_home(learnt.generator, question)
        values = torch.zeros(question.x.shape, device=question.x.device)
        dtype = generator.code.dtype

        @torch.no_grad()
        def work(rows: slice, _: int) -> None:
            block = question.settled(question.block(rows))
            if "B3" in self.quirks:
                parts = torch.split(block.x.to(dtype), TEST_BATCH)
                p = torch.cat([generator(part, across=True) for part in parts])
            else:
                p = generator(block.x.to(dtype), _padding(block.lengths, block.x.shape[1]))
            values[rows] = p.where(block.observed, 0).to(values)

        chunks = question.chunks
        if "B3" in self.quirks:
            chunks.size = max(TEST_BATCH, chunks.size // TEST_BATCH * TEST_BATCH)
        chunks.run(len(values), 1, work, f"explain with {self.name}")
        return Attribution(values)


def _check(question: Question, method: str) -> None:
    """Refuse questions about other answers than the ones the generator was learnt for."""
    if question.asked_steps is not None:
        raise InputError(
            f"{method} explains all steps together, got steps={brief(question.asked_steps)}: leave steps out."
        )
    if question.output == "raw":
        with torch.no_grad():
            answer = question.answers(question.block(slice(0, 2)).x[:, None])
        if not is_probability(answer):
            raise InputError(
                f"{method} is for classifiers: with output='raw' the model's rows are no probabilities; leave "
                "output out if softmax belongs there, and use occlusion or integrated_gradients for regression."
            )


def _seed_dropout(seed: int, device: torch.device) -> None:
    """Seed the generators that initial weights and dropout draw from; the quiet model's context puts them back."""
    torch.default_generator.manual_seed(seed)  # torch.manual_seed would also seed every GPU
    if device.type == "cuda":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(seed)


def _at_home(generator: MaskGenerator, question: Question) -> MaskGenerator:
    """Return the generator on the model's device, after a check that it knows such series."""
    fitted = (generator.time, generator.channels)
    if fitted != tuple(question.x.shape[1:]):
        raise InputError(
            f"The mask generator was fitted to series of shape {fitted}, x has {tuple(question.x.shape[1:])}: "
            "fit with series of the same length and channels."
        )
    if generator.code.device == question.device:
        return generator
    return copy.deepcopy(generator).to(question.device)


def _padding(lengths: Tensor, time: int) -> Tensor | None:
    """Tell the steps after a series' last observation, None where there are none in any series."""
    padding = torch.arange(time, device=lengths.device) >= lengths[:, None]
    return padding if bool(padding.any()) else None
