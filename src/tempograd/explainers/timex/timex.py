"""TimeX and TimeX++: networks that learn once which cells of a series to keep, and then score any series."""

import copy
from abc import abstractmethod
from dataclasses import dataclass, field, replace
from math import prod
from typing import ClassVar, Self, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from tempograd.core import settings, validation
from tempograd.core.errors import InputError, brief
from tempograd.core.estimate import Estimate
from tempograd.core.findings import arg
from tempograd.engine import Ask, Batching, Block, frozen, mutable_if_needed, place, predict
from tempograd.engine.guesses import is_probability
from tempograd.explainers.base import EXPLAINERS, Explainer, check_training, one_by_one
from tempograd.explainers.files import LearntParts, network_of, parts_of_network
from tempograd.explainers.timex.networks import (
    Conditioner,
    EmbeddingReader,
    Gaussian,
    MaskGenerator,
    find_embedding,
    one_vector,
)
from tempograd.explainers.timex.training import (
    Batch,
    Learnt,
    Objective,
    Read,
    Training,
    TrainingSet,
    gaussian_kl,
    geometry,
    jensen_shannon,
    label_geometry,
    probabilities,
    require_gradient,
)
from tempograd.models.training import seed_generators
from tempograd.typing import Inputs, Model

LEAST = 4  # training series: two to learn from and two to choose the epoch
WIDEST = 200  # hidden size of the head


@dataclass(frozen=True)
class MaskNetwork(Explainer):
    """A network that maps a series to a soft mask, learnt over training series."""

    signed: ClassVar[bool] = False
    targeted: ClassVar[bool] = False
    deterministic: ClassVar[bool] = True
    needs_fit: ClassVar[bool] = True
    uses_baseline: ClassVar[bool] = False
    amortised: ClassVar[bool] = True
    needs_probabilities: ClassVar[bool] = True

    epochs: int = settings.integer(50)
    fit_batch_size: int = settings.integer(32, least=2)
    learning_rate: float = settings.positive(1e-4)
    weight_decay: float = settings.real(1e-3)
    prior: float = settings.real(0.5, high=1.0, closed=(False, False))
    sparsity: float = settings.real(2.0)
    connection: float = settings.real(4.0)
    network: Learnt | None = field(
        default=None, metadata={"fitted": True}, repr=False, compare=False, kw_only=True
    )

    def _fit(self, model: Model, x: Inputs, seed: int) -> Self:
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
        x = validation.check_series(x, name="the training series")
        seed = validation.check_seed(seed) % 2**63
        if len(x) < LEAST:
            raise InputError(f"{self.name} learns from training series: got {len(x)}, pass at least {LEAST}.")
        return mutable_if_needed(lambda: self._learnt_from(model, x, seed))

    def _learnt_from(self, model: Model, x: Tensor, seed: int) -> Self:
        with frozen(model):
            require_gradient(model, x)
            return self._taught_by(model, x, seed)

    def _taught_by(self, model: Model, x: Tensor, seed: int) -> Self:
        """Learn from the outputs of a model that is frozen, which keeps the generators of random numbers, too."""
        device, dtype = place(model, x)
        seed_generators(seed, device)
        read = self._reader(model, x[:1].to(device, dtype))
        data = self._training_set(x, read, device, dtype)
        objective = self._objective(MaskGenerator(*x.shape[1:]).to(device, data.dtype), data)
        training = self._training(model, objective, data, torch.Generator().manual_seed(seed))
        return replace(self, network=training.run(f"fit {self.name}"))

    def _training_set(self, x: Tensor, read: Read, device: torch.device, dtype: torch.dtype) -> TrainingSet:
        """Return the training series with the model's outputs for them."""
        return TrainingSet(x, read, device, dtype, f"read series for {self.name}")

    def _training(
        self, model: Model, objective: Objective, data: TrainingSet, random: torch.Generator
    ) -> Training:
        """Return what trains the generator."""
        return Training(objective, data, self, random)

    @abstractmethod
    def _reader(self, model: Model, x: Tensor) -> Read:
        """Return what reads the model's outputs, after a look at how it takes one series."""

    @abstractmethod
    def _objective(self, generator: MaskGenerator, data: TrainingSet) -> Objective:
        """Return what is learnt and how a mask is judged."""

    def _learnt_parts(self) -> LearntParts | None:
        if self.network is None:
            return None
        generator, losses, epoch = self.network
        found = parts_of_network(generator, time=generator.time, channels=generator.channels)
        return found._replace(facts=found.facts | {"losses": list(losses), "epoch": epoch})

    def _with_learnt(self, parts: LearntParts) -> Self:
        generator = network_of(parts, MaskGenerator)
        return replace(self, network=Learnt(generator, tuple(parts.facts["losses"]), parts.facts["epoch"]))

    @one_by_one
    def attribute(self, ask: Ask) -> Estimate:
        learnt = cast("Learnt", self.network)  # no call gets here before fit
        _check(ask, self.name)
        generator = _at_home(learnt.generator, ask)
        values = torch.zeros(ask.x.shape, device=ask.x.device)

        @torch.no_grad()
        def work(rows: slice, _: int) -> None:
            block = ask.with_target(ask.block(rows))
            values[rows] = self._masks(generator, block).where(block.observed, 0).to(values)

        self._batching(ask).run(len(values), 1, work, f"explain with {self.name}")
        return Estimate(values)

    def _batching(self, ask: Ask) -> Batching:
        """Return how many series get their masks at once."""
        return ask.batching

    def _masks(self, generator: MaskGenerator, block: Block) -> Tensor:
        """Return the soft masks of some series."""
        masks: Tensor = generator(block.x.to(generator.code.dtype), _padding(block.lengths, block.x.shape[1]))
        return masks


def _check(ask: Ask, method: str) -> None:
    """Refuse asks about other outputs than the ones the generator was learnt for."""
    if ask.question.steps is not None:
        raise InputError(
            f"{method} explains all steps together, got {arg:question.steps={brief(ask.question.steps)}}: "
            "leave steps out."
        )
    if ask.output == "sigmoid":
        raise InputError(
            f"{method} is for classifiers, and the task 'multilabel' has no classes: use occlusion or "
            "integrated_gradients."
        )
    if ask.output == "raw":
        block = ask.block(slice(0, 2))
        with torch.no_grad():
            raw = ask.forward(block.x, block.index)
        if not is_probability(raw):
            raise InputError(
                f"{method} is for classifiers: with {arg:question.output=raw} the model's rows are no "
                "probabilities; leave output out if softmax belongs there, and use occlusion or "
                "integrated_gradients for regression."
            )


def _at_home(generator: MaskGenerator, ask: Ask) -> MaskGenerator:
    """Return the generator on the model's device, after a check that it knows such series."""
    check_training((generator.time, generator.channels), ask)
    if generator.code.device == ask.device:
        return generator
    return copy.deepcopy(generator).to(ask.device)


def _padding(lengths: Tensor, time: int) -> Tensor | None:
    """Tell the steps after a series' last observation, None where no series has any."""
    padding = torch.arange(time, device=lengths.device) >= lengths[:, None]
    return padding if bool(padding.any()) else None


@EXPLAINERS.register("timex")
@dataclass(frozen=True)
class TimeX(MaskNetwork):
    r"""TimeX: a mask generator learnt so that masked series keep their place among the model's embeddings.

    Experimental: it learns slowly and coarsely, and its scores may still change with each minor release.

    A transformer g gives each cell the probability :math:`p = g(x)` of being kept. Gates b are drawn from p,
    cells that are not kept take a value from the training series' distribution at that cell, and a trainable
    copy of the model embeds the result as :math:`\tilde z`, from which a small head predicts
    :math:`\tilde y`. With z and y the model's own embedding and prediction, g, copy and head minimise

    .. math:: \mathrm{Emb}(z, \tilde z) + \lambda_l \mathrm{Lab}(y, \tilde y)
        + \lambda_s \mathrm{GSAT}(p) + \lambda_c \mathrm{Connect}(p).

    The scores are p: between 0 and 1, the same for every target. One fit serves any number of explanations,
    each of which costs one small pass.

    Parameters
    ----------
    epochs, fit_batch_size : int, default=50, 32
        Passes over the training series, and how many of them are compared at a time.
    learning_rate, weight_decay : float, default=1e-4, 1e-3
        Of AdamW. The rate falls tenfold on a plateau, from epoch 21 on.
    prior : float, default=0.5
        Share of cells that are kept where nothing speaks for or against them, r of GSAT.
    sparsity, connection : float, default=2, 4
        Weights of GSAT and Connect; the paper's 2 · 1 and 2 · 2.
    label_weight : float, default=1
        Weight of Lab, which compares the divergences between two series' predictions, pair by pair.
    scaled : bool, default=True
        Whether Emb is divided by the variance of the cosines.
    embedding : str, optional
        Name of the layer whose output is the embedding; by default what the last linear layer reads.

    Notes
    -----
    A model with one output per step has one vector per step; Emb then compares their means over time. Any
    other embedding is flattened. Where the only linear layer reads the series themselves, name a layer: the
    series as their own embedding say nothing about the model. The outputs are read as class probabilities.

    The copy stays frozen like the model (no dropout, fixed normalisation), so that a series which loses
    nothing starts exactly where it belongs. The paper's prototypes learn from the embeddings without acting
    on them: they change no score, and are left out, as is the constant cross-entropy of the frozen model.

    References
    ----------
    .. [1] O. Queen et al., "Encoding Time-Series Explanations through Self-Supervised Model Behavior
       Consistency", NeurIPS 2023. https://arxiv.org/abs/2306.02109

    Examples
    --------
    >>> x = torch.randn(40, 6, 2, generator=torch.Generator().manual_seed(0))
    >>> model = nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.Tanh(), nn.Linear(8, 2))
    >>> scores = TimeX(epochs=1).fit(model, x)(model, x[:3]).values
    >>> bool(((scores > 0) & (scores < 1)).all())
    True
    """

    needs_module: ClassVar[bool] = True

    label_weight: float = settings.real(1.0)
    scaled: bool = settings.boolean(True)
    embedding: str | None = settings.text(None, "the name of a layer")

    def _reader(self, model: Model, x: Tensor) -> EmbeddingReader:
        return find_embedding(model, x, self.embedding)

    def _objective(self, generator: MaskGenerator, data: TrainingSet) -> Objective:
        surrogate = cast("EmbeddingReader", data.read).copied()
        surrogate.module.to(data.dtype)
        for weight in surrogate.module.parameters():
            weight.requires_grad_(weight.is_floating_point())
        with torch.no_grad():
            one = surrogate(data.x[:1].to(data.device, data.dtype))[1]
        head = _Head(one, data.output_shape).to(generator.code)

        def fidelity(batch: Batch, _: Tensor, masked: Tensor) -> Tensor:
            found = surrogate(masked)[1]
            loss = geometry(cast("Tensor", batch.embedding), one_vector(found), scaled=self.scaled)
            predicted = probabilities(head(found))
            return loss + self.label_weight * self._label_loss(batch.prediction, predicted)

        return Objective(generator, nn.ModuleList([generator, surrogate.module, head]), fidelity)

    def _label_loss(self, p: Tensor, q: Tensor) -> Tensor:
        """Return how far predictions q are from the distances between predictions p, Lab."""
        return label_geometry(p, q)


class _Head(nn.Module):
    """Predicts from an embedding, with one hidden layer; step by step where there is one vector per step."""

    def __init__(self, embedding: Tensor, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.shape = shape
        size, hidden = embedding.shape[-1], min(embedding.shape[-1], WIDEST)
        outputs = shape[-1] if embedding.ndim == 3 else prod(shape)
        self.layers = nn.Sequential(nn.Linear(size, hidden), nn.ReLU(), nn.Linear(hidden, outputs))

    def forward(self, embedding: Tensor) -> Tensor:
        predicted: Tensor = self.layers(embedding)
        return predicted.view(len(embedding), *self.shape)


@EXPLAINERS.register("timexpp", "timex++")
@dataclass(frozen=True)
class TimeXPP(MaskNetwork):
    r"""TimeX++: a mask generator learnt so that masked series stay in distribution and keep their prediction.

    Experimental: it learns slowly and coarsely, and its scores may still change with each minor release.

    A transformer g gives each cell the probability :math:`p = g(x)` of being kept, and gates b are drawn from
    it. With r drawn from the training series' distribution at each cell,

    .. math:: x_{ref} = b x + (1 - b) r, \qquad \tilde x = c(x, b),

    where c is a small network applied cell by cell. Two further networks give every cell of a series a
    Gaussian, :math:`q(x)` and :math:`\tilde q(\tilde x)`. With F the frozen model, all of them minimise

    .. math:: \lambda_l \mathrm{JS}(F(\tilde x), F(x)) + \lambda_g \mathrm{KL}(\tilde q \Vert q)
        + \lambda_r \lVert \tilde x - x_{ref} \rVert^2
        + \lambda_s \mathrm{GSAT}(p) + \lambda_c \mathrm{Connect}(p),

    each term a mean; :math:`q` has the batch's mean parameters. The scores are p: between 0 and 1, the same
    for every target. One fit serves any number of explanations, each of which costs one small pass.

    Parameters
    ----------
    epochs, fit_batch_size : int, default=50, 32
        Passes over the training series, and how many go through the model at a time.
    learning_rate, weight_decay : float, default=5e-4, 1e-3
        Of AdamW. The rate falls tenfold on a plateau, from epoch 21 on.
    prior : float, default=0.5
        Share of cells that are kept where nothing speaks for or against them, r of GSAT.
    sparsity, connection : float, default=2, 4
        Weights of GSAT and Connect; the paper's 2 · 1 and 2 · 2.
    label_weight, gaussian_weight, reference_weight : float, default=1, 0.1, 1
        Weights of the prediction, of the Gaussians and of the reference.

    Notes
    -----
    The outputs are read as class probabilities: softmax, sigmoid for one column, or as they are if they
    already sum to 1. The divergence of the Gaussians is a weak tie, since both sides learn freely. So does c,
    which may learn to pass on what the mask drops: on small models the cells that matter scored highest with one
    seed and lowest with the next. Fit with several seeds, and check the maps with ``evaluate``.

    References
    ----------
    .. [1] Z. Liu et al., "TimeX++: Learning Time-Series Explanations with Information Bottleneck", ICML 2024.
       https://arxiv.org/abs/2405.09308

    Examples
    --------
    >>> x = torch.randn(40, 6, 2, generator=torch.Generator().manual_seed(0))
    >>> model = nn.Sequential(nn.Flatten(), nn.Linear(12, 2))
    >>> scores = TimeXPP(epochs=1).fit(model, x)(model, x[:3]).values
    >>> bool(((scores > 0) & (scores < 1)).all())
    True
    """

    learning_rate: float = settings.positive(5e-4)
    label_weight: float = settings.real(1.0)
    gaussian_weight: float = settings.real(0.1)
    reference_weight: float = settings.real(1.0)

    def _reader(self, model: Model, x: Tensor) -> Read:
        return lambda z: (predict(model, z, "raw"), None)

    def _objective(self, generator: MaskGenerator, data: TrainingSet) -> Objective:
        conditioner = Conditioner().to(generator.code)
        original, conditioned = (Gaussian(data.mean.numel()).to(generator.code) for _ in range(2))

        def fidelity(batch: Batch, gates: Tensor, masked: Tensor) -> Tensor:
            value = conditioner(batch.x, gates)
            label = self._divergence(batch.prediction, data.predict(value)).mean()
            mean, log_var = original(batch.x)
            mean_value, log_var_value = conditioned(value)
            tie = gaussian_kl(mean_value, log_var_value, mean.mean(0), log_var.mean(0))
            reference = functional.mse_loss(value, masked)
            return self.label_weight * label + self.gaussian_weight * tie + self.reference_weight * reference

        return Objective(generator, nn.ModuleList([generator, conditioner, original, conditioned]), fidelity)

    def _divergence(self, p: Tensor, q: Tensor) -> Tensor:
        """Return how far two predictions are from each other, JS."""
        return jensen_shannon(p, q)
