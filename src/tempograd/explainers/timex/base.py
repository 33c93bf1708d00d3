"""What TimeX and TimeX++ share: fields, one fit for many explanations, one small pass per series."""

import copy
from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from tempograd._utils import settings, validation
from tempograd.engine import Block, Chunks, Model, Question, mutable_if_needed, place, quiet
from tempograd.engine.guesses import is_probability
from tempograd.errors import InputError, brief
from tempograd.explainers.base import Explainer
from tempograd.explainers.integration import Attribution
from tempograd.explainers.timex.networks import MaskGenerator
from tempograd.explainers.timex.training import (
    Learnt,
    Objective,
    Plan,
    Read,
    Training,
    TrainingSet,
    require_gradient,
)

LEAST = 4  # training series: two to learn from and two to choose the epoch


@dataclass(frozen=True)
class MaskNetwork(Explainer):
    """A network that maps a series to a soft mask, learnt over training series."""

    signed: ClassVar[bool] = False
    targeted: ClassVar[bool] = False
    deterministic: ClassVar[bool] = True
    needs_fit: ClassVar[bool] = True
    amortised: ClassVar[bool] = True
    needs_probabilities: ClassVar[bool] = True

    epochs: int = settings.whole(50)
    batch: int = settings.whole(32, least=2)
    learning_rate: float = settings.positive(1e-4)
    weight_decay: float = settings.number(1e-3)
    prior: float = settings.number(0.5, high=1.0, closed=(False, False))
    sparsity: float = settings.number(2.0)
    connection: float = settings.number(4.0)
    network: Any = field(default=None, metadata={"fitted": True}, repr=False, compare=False, kw_only=True)

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
        with quiet(model):
            return self._taught_by(model, x, seed)

    def _taught_by(self, model: Model, x: Tensor, seed: int) -> Self:
        """Learn from the answers of a model that is at rest."""
        device, dtype = place(model, x)
        _seed_dropout(seed, device)
        one = x[:1].to(device, dtype)
        require_gradient(model, one)
        data = self._training_set(x, self._reader(model, one), device, dtype)
        objective = self._objective(MaskGenerator(*x.shape[1:]).to(device, data.dtype), data)
        training = self._training(model, objective, data, torch.Generator().manual_seed(seed))
        return replace(self, network=training.run(f"fit {self.name}"))

    def _training_set(self, x: Tensor, read: Read, device: torch.device, dtype: torch.dtype) -> TrainingSet:
        """Return the training series with the model's answers to them."""
        return TrainingSet(x, read, device, dtype, f"read series for {self.name}")

    def _training(
        self, model: Model, objective: Objective, data: TrainingSet, random: torch.Generator
    ) -> Training:
        """Return what trains the generator."""
        return Training(objective, data, self._plan, random)

    @property
    def _plan(self) -> Plan:
        return Plan(
            self.epochs,
            self.batch,
            self.learning_rate,
            self.weight_decay,
            self.prior,
            self.sparsity,
            self.connection,
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

        @torch.no_grad()
        def work(rows: slice, _: int) -> None:
            block = question.settled(question.block(rows))
            values[rows] = self._masks(generator, block).where(block.observed, 0).to(values)

        self._chunks(question).run(len(values), 1, work, f"explain with {self.name}")
        return Attribution(values)

    def _chunks(self, question: Question) -> Chunks:
        """Return how many series get their masks at once."""
        return question.chunks

    def _masks(self, generator: MaskGenerator, block: Block) -> Tensor:
        """Return the soft masks of some series."""
        masks: Tensor = generator(block.x.to(generator.code.dtype), _padding(block.lengths, block.x.shape[1]))
        return masks


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
