"""TimeX and TimeX++: networks that learn once which cells of a series to keep, and then score any series."""

import copy
import math
from abc import abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from types import MethodType
from typing import ClassVar, NamedTuple, Self, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from tempograd.core import validation
from tempograd.core.errors import InputError, ModelError, arg, brief
from tempograd.core.estimate import Estimate
from tempograd.core.optimisers import AdamW
from tempograd.core.progress import progress_bar
from tempograd.engine import Ask, Batching, Block, both_logits, fingerprint, frozen, owner, place
from tempograd.engine.gradients import require_path
from tempograd.engine.model import by_lists, mutable_if_needed, spare
from tempograd.engine.outputs import is_probability
from tempograd.engine.predictor import Adapted, forward
from tempograd.explainers.base import EXPLAINERS, Explainer, check_training, one_by_one, require_probabilities
from tempograd.explainers.files import LearntNetwork
from tempograd.models.training import batches, seed_generators
from tempograd.typing import Model

# The small networks of TimeX and TimeX++: which cells to keep, and what the kept cells become.

CODE = 16  # numbers that tell a step's place in time
NEVER = 1e-9  # keeps the odds of a mask finite


def step_code(time: int) -> Tensor:
    r"""Sines and cosines of each step's place in [0, 1], (time, 16).

    With :math:`\lambda_k = T^{k/7}`, k = 0 … 7, step t is
    :math:`[\sin(\tau/\lambda_k), \cos(\tau/\lambda_k)]` at :math:`\tau = t / (T - 1)`.
    """
    place = torch.linspace(0, 1, time, dtype=torch.float64)[:, None]
    wave = place / time ** (torch.arange(CODE // 2, dtype=torch.float64) / (CODE // 2 - 1))
    return torch.cat([wave.sin(), wave.cos()], 1)


def gate(p: Tensor, uniform: Tensor) -> Tensor:
    r"""Hard draws :math:`b \in \{0, 1\}` with :math:`P(b = 1) = p`, whose gradient is that of a soft draw.

    The difference of two Gumbel numbers is logistic, so the soft draw of a Gumbel softmax at temperature 1 is
    :math:`\sigma(\mathrm{logit}\, p + \mathrm{logit}\, u)` with u uniform; the hard one rounds it.
    """
    soft = ((p + NEVER).log() - (1 - p + NEVER).log() + uniform.logit()).sigmoid()
    return (soft > 0.5).to(soft) + (soft - soft.detach())


class MaskGenerator(LearntNetwork):
    """Maps series (N, T, D) to soft masks in (0, 1), by attention over the steps.

    An encoder reads the series behind its time code; a decoder reads the series before its time code and
    attends to the encoder. One linear layer turns each step's state into one probability per channel.
    """

    code: Tensor

    def __init__(self, time: int, channels: int) -> None:
        super().__init__(time=time, channels=channels)
        self.channels = channels
        width = channels + CODE
        self.register_buffer("code", step_code(time))
        self.encoder = nn.TransformerEncoderLayer(width, 1, 72, 0.25, batch_first=True)
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(width, 1, 32, 0.1, batch_first=True), 2)
        self.head = nn.Linear(width, channels if channels > 1 else 2)
        nn.init.xavier_uniform_(self.head.weight)
        nn.init.constant_(self.head.bias, 0.01)

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """Return the probability that each cell is kept; ``padding`` (N, T) is True where nobody may look."""
        return self.attend(*self.coded(x), padding)

    def coded(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the series behind and before their time code."""
        code = self.code.expand(len(x), -1, -1)
        return torch.cat([code, x], -1), torch.cat([x, code], -1)

    def attend(self, source: Tensor, queries: Tensor, padding: Tensor | None = None) -> Tensor:
        """Return the probabilities by attention over the second axis."""
        memory = self.encoder(source, src_key_padding_mask=padding)
        state = self.decoder(queries, memory, tgt_key_padding_mask=padding, memory_key_padding_mask=padding)
        raw: Tensor = self.head(state)
        return raw.sigmoid() if self.channels > 1 else raw.softmax(-1)[..., 1:]


def small_network(inputs: int, activation: nn.Module, outputs: int, width: int = 32) -> nn.Sequential:
    """Return a network with one hidden layer."""
    return nn.Sequential(nn.Linear(inputs, width), activation, nn.Linear(width, outputs))


# What TimeX and TimeX++ minimise, each term a small function.
#
# Throughout, :math:`p` is a soft mask (series, time, channel), :math:`P, Q` are predictions (series, …, class)
# whose last axis sums to 1, and :math:`m = (P + Q) / 2`.

TINY = 1e-9  # keeps logarithms of probabilities finite
FLAT = 1e-8  # least variance of cosines: embeddings that are all alike have no geometry to be kept


def gsat(p: Tensor, prior: float) -> Tensor:
    r"""Divergence of the mask from a coin with probability r (the prior), 0 where :math:`p = r`.

    .. math:: \mathrm{mean}\Big[ p \ln\big(\tfrac{p}{r} + \epsilon\big)
        + (1 - p) \ln\big(\tfrac{1 - p}{1 - r + \epsilon} + \epsilon\big) \Big], \qquad \epsilon = 10^{-6}.
    """
    small = 1e-6
    return (p * (p / prior + small).log() + (1 - p) * ((1 - p) / (1 - prior + small) + small).log()).mean()


def connection_loss(p: Tensor) -> Tensor:
    r"""Jumps of the mask between neighbouring steps, :math:`\lVert p_{t+1} - p_t \rVert_F / \text{their number}`.

    One norm of the whole batch; 0 for a single step.

    Examples
    --------
    >>> connection_loss(torch.tensor([[[0.0], [3.0], [-1.0]]]))
    tensor(2.5000)
    """
    jumps = p[:, 1:] - p[:, :-1]
    norm: Tensor = torch.linalg.vector_norm(jumps)
    return norm / max(1, jumps.numel())


def geometry(a: Tensor, b: Tensor) -> Tensor:
    r"""How far embeddings b (series, feature) are from the geometry of a, "Emb".

    .. math:: \mathrm{mean}_{ij} \big(\cos(a_i, a_j) - \cos(b_i, b_j)\big)^2
        \;/\; \mathrm{var}_{ij} \cos(a_i, a_j).
    """
    wanted, found = (functional.normalize(z, dim=-1) @ functional.normalize(z, dim=-1).mT for z in (a, b))
    return (wanted - found).square().mean() / wanted.var(correction=0).clamp(min=FLAT)


def jensen_shannon(p: Tensor, q: Tensor) -> Tensor:
    r"""Jensen–Shannon divergence of two predictions over the last axis, half of KL(P‖m) + KL(Q‖m)."""
    p, q = p.clamp(min=TINY), q.clamp(min=TINY)
    m = (p + q) / 2
    return (p * (p / m).log() + q * (q / m).log()).sum(-1) / 2


def label_geometry(p: Tensor, q: Tensor) -> Tensor:
    r"""How far predictions q are from the pairwise distances of p, "Lab"; 0 if they are equal.

    With :math:`\mathrm{JS}_{ij}` the divergence between the predictions for series i < j,
    :math:`\mathrm{mean}_{ij} (\mathrm{JS}_{ij}(P) - \mathrm{JS}_{ij}(Q))^2`. A single series has no pairs and
    costs nothing.
    """
    if len(p) < 2:
        return (p - q).sum() * 0
    i, j = torch.triu_indices(len(p), len(p), offset=1, device=p.device)
    return (jensen_shannon(p[i], p[j]) - jensen_shannon(q[i], q[j])).square().mean()


def gaussian_kl(mean1: Tensor, log_var1: Tensor, mean2: Tensor, log_var2: Tensor) -> Tensor:
    r"""Mean divergence of Gaussians 1 from Gaussians 2, cell by cell.

    .. math:: \tfrac12 \mathrm{mean}\Big[ \ell_2 - \ell_1 - 1
        + \frac{e^{\ell_1} + (\mu_1 - \mu_2)^2}{e^{\ell_2}} \Big].
    """
    gap = log_var1 - log_var2
    return (gap.exp() - gap - 1 + (mean1 - mean2).square() * (-log_var2).exp()).mean() / 2


# A model's output together with its embedding: what its last linear layer reads.


def copied(model: Model) -> Model:
    """Return a copy with its own weights; a method such as ``net.predict`` then belongs to the copied net."""
    module = owner(model)
    if module is None:
        return model
    twin = copy.deepcopy(module)
    for part in twin.modules():
        if isinstance(part, nn.RNNBase):
            part.flatten_parameters()  # cuDNN warns about weights that lie apart, as copied ones do
    spare(twin)
    inner = model.model if isinstance(model, Adapted) else model
    copy_of = MethodType(inner.__func__, twin) if isinstance(inner, MethodType) else twin
    return replace(model, model=copy_of) if isinstance(model, Adapted) else copy_of


def module_of(model: Model) -> nn.Module:
    """Return the module whose layers a method reads: the model itself, or whose method it is."""
    module = owner(model)
    if module is None:
        raise InputError(f"{type(model).__name__} has no layers to read: pass the nn.Module itself.")
    return module


@dataclass(frozen=True)
class EmbeddingReader:
    """Runs a model and catches its embedding, what a linear layer reads.

    The embedding is (N, F), or (N, T, F) where the model has one output and one vector per step.
    """

    model: Model
    layer: str

    def __call__(self, z: Tensor) -> tuple[Tensor, Tensor]:
        caught: list[Tensor] = []

        def catch(_: nn.Module, args: tuple[Tensor, ...], named: dict[str, Tensor]) -> None:
            caught.append((*args, *named.values())[0])

        with module_of(self.model).get_submodule(self.layer).register_forward_pre_hook(catch, with_kwargs=True):
            raw = forward(self.model, z)
        embedding, (batch, time) = caught[-1], z.shape[:2]
        if len(embedding) == batch * time and time > 1:  # the steps joined the batch
            embedding = embedding.reshape(batch, time, -1)
        if len(embedding) != batch:
            rows = f"The last linear layer must read one row per series, {batch}, got {tuple(embedding.shape)}"
            raise ModelError(f"{rows}: use timexpp, which needs no embedding.")
        per_step = raw.ndim == embedding.ndim == 3 and embedding.shape[1] == time
        return raw, embedding if per_step else embedding.flatten(1)


def one_vector(embedding: Tensor) -> Tensor:
    """Return one vector per series: where there is one per step, their mean."""
    return embedding.mean(1) if embedding.ndim == 3 else embedding


def find_embedding(model: Model, x: Tensor) -> EmbeddingReader:
    """Choose the input of the last linear layer that runs."""
    ran: list[str] = []
    with ExitStack() as stack, torch.no_grad():
        for name, part in module_of(model).named_modules():
            if isinstance(part, nn.Linear):
                stack.enter_context(part.register_forward_hook(lambda *_, name=name: ran.append(name)))
        forward(model, x)
    if not ran:
        raise InputError("The model runs no linear layer to embed by: use timexpp, which needs no embedding.")
    return EmbeddingReader(model, ran[-1])


# The training that TimeX and TimeX++ share: series in, a mask generator out.

CLIP = 1.0  # largest norm of a step's gradient
HELD_OUT = 0.1  # share of the training series that choose the epoch
PATIENCE, FACTOR, THRESHOLD, STEADY = 5, 0.1, 1e-5, 20  # the rate falls on a plateau, after the first 20 epochs

Read = Callable[[Tensor], tuple[Tensor, Tensor | None]]  # series -> the model's raw output and its embedding


class Batch(NamedTuple):
    """A few training series, what the model says about them, and the draws of one pass."""

    x: Tensor
    prediction: Tensor  # probabilities, (series, …, class)
    embedding: Tensor | None
    uniform: Tensor  # for the gates
    filler: Tensor  # what takes the place of a cell that is not kept


class Objective(NamedTuple):
    """What a method learns and how it judges a mask."""

    generator: MaskGenerator
    learns: nn.ModuleList  # everything whose weights move
    fidelity: Callable[[Batch, Tensor, Tensor], Tensor]  # of a batch, its gates and its masked series


def probabilities(raw: Tensor) -> Tensor:
    """Turn raw outputs into probabilities that sum to 1: softmax, or for one logit a no and a yes."""
    return both_logits(raw, "probability").softmax(-1)


class TrainingSet:
    """Training series and, read once, what the model says about them; probabilities are taken at their word."""

    def __init__(self, x: Tensor, read: Read, device: torch.device, dtype: torch.dtype, label: str) -> None:
        self.x, self.read, self.device, self._theirs = x, read, device, dtype
        self.dtype = torch.promote_types(dtype, torch.float32)
        parts: list[tuple[Tensor, Tensor | None]] = []
        with torch.no_grad():
            reading = Batching(device, x[0].numel())
            reading.run(len(x), 1, lambda rows, _: parts.append(self.run_model(x[rows])), label)
        outputs, embeddings = torch.cat([raw for raw, _ in parts]), [each for _, each in parts if each is not None]
        self.embeddings = torch.cat(embeddings) if embeddings else None
        self.output_shape = tuple(outputs.shape[1:])
        self._given = is_probability(outputs)
        self.predictions = self.probabilities(outputs)
        self.mean = x.mean(0).to(device, self.dtype)
        self.deviation = x.std(0, correction=0).to(device, self.dtype)

    def probabilities(self, raw: Tensor) -> Tensor:
        """Return the model's outputs as probabilities."""
        return raw if self._given else probabilities(raw)

    def run_model(self, z: Tensor) -> tuple[Tensor, Tensor | None]:
        raw, embedding = self.read(z.to(self.device, self._theirs))
        return raw.to(self.dtype), None if embedding is None else one_vector(embedding).to(self.dtype)

    def batch(self, rows: Tensor, random: torch.Generator) -> Batch:
        """Return some of the series, with draws from a generator on the host."""
        x = self.x[rows.to(self.x.device)].to(self.device, self.dtype)
        noise = torch.randn(x.shape, generator=random).to(x)
        uniform = torch.rand(x.shape, generator=random).clamp(1e-6, 1 - 1e-6).to(x)
        there = rows.to(self.device)
        embedding = None if self.embeddings is None else self.embeddings[there]
        return Batch(x, self.predictions[there], embedding, uniform, self.mean + self.deviation * noise)


def require_gradient(model: Model, x: Tensor) -> None:
    """Refuse a model that cannot be differentiated with respect to its input, by the first of some series."""
    z = x[:1].to(*place(model, x)).clone().requires_grad_()
    raw = forward(model, z, z.shape)
    require_path(raw, z)
    torch.autograd.grad(raw.sum(), z, allow_unused=True)


class Training:
    """Minimises fidelity + sparsity · GSAT + connection · Connect, and keeps the best epoch's generator."""

    def __init__(
        self, objective: Objective, data: TrainingSet, settings: "MaskNetwork", random: torch.Generator
    ) -> None:
        self.objective, self.data, self.settings, self.random = objective, data, settings, random
        order = torch.randperm(len(data.x), generator=random)
        held_out = max(2, round(HELD_OUT * len(order)))
        self.watched, self.learning = order[:held_out], order[held_out:]
        self.fixed = int(torch.randint(2**62, (), generator=random))  # the same draws judge every epoch
        self.weights = [weight for weight in objective.learns.parameters() if weight.requires_grad]
        decay, lists = settings.weight_decay, by_lists()
        self.optimiser = AdamW(self.weights, lr=settings.learning_rate, weight_decay=decay, foreach=lists)

    def run(self, label: str) -> MaskGenerator:
        """Train, and return the generator in evaluation mode with its losses as facts."""
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(
            self.optimiser, factor=FACTOR, patience=PATIENCE, threshold=THRESHOLD
        )
        generator, losses = self.objective.generator, list[float]()
        best: dict[str, Tensor] = {}
        with progress_bar(self.settings.epochs, label) as advance:
            for epoch in range(self.settings.epochs):
                self._mode(training=True)
                order = self.learning[torch.randperm(len(self.learning), generator=self.random)]
                loss = torch.zeros(())
                for rows in batches(order, self.settings.fit_batch_size):
                    loss = self._step(self.data.batch(rows, self.random))
                advance()
                losses.append(float(self._judge(loss)))
                if not math.isfinite(losses[-1]):
                    odd = f"The loss became {losses[-1]} in epoch {epoch + 1}"
                    raise ModelError(f"{odd}: lower learning_rate, or look for NaN in the model's outputs.")
                if losses[-1] <= min(losses):
                    best = {name: tensor.clone() for name, tensor in generator.state_dict().items()}
                if epoch >= STEADY:
                    plateau.step(losses[-1])
        generator.load_state_dict(best)
        kept = max(epoch for epoch, loss in enumerate(losses) if loss == min(losses))
        generator.facts = {"losses": losses, "epoch": kept}
        return generator.eval().requires_grad_(False)

    def _mode(self, training: bool) -> None:
        """Switch dropout on or off."""
        self.objective.generator.train(training)

    def _step(self, batch: Batch) -> Tensor:
        """Take one step, and return the loss before it."""
        _, loss = self._losses(batch)
        # not backward(): it would also leave gradients on the weights of a model inside a function
        gradients = torch.autograd.grad(loss, self.weights, allow_unused=True)
        for weight, gradient in zip(self.weights, gradients, strict=True):
            weight.grad = gradient
        self._clip()
        self.optimiser.step()
        return loss.detach()

    def _clip(self) -> None:
        """Shorten gradients that are too long."""
        nn.utils.clip_grad_norm_(self.weights, CLIP, foreach=by_lists())

    def _losses(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the method's own part of the loss, and the whole of it."""
        p = self.objective.generator(batch.x)
        gates = gate(p, batch.uniform)
        masked = gates * batch.x + (1 - gates) * batch.filler
        fidelity, settings = self.objective.fidelity(batch, gates, masked), self.settings
        sparse, connected = settings.sparsity * gsat(p, settings.prior), settings.connection * connection_loss(p)
        return fidelity, fidelity + sparse + connected

    def _judge(self, last: Tensor) -> Tensor:
        """Return what chooses the epoch: the mean loss of the held-out series. ``last`` is the last batch's."""
        return self._held_out(1)

    @torch.no_grad()
    def _held_out(self, which: int) -> Tensor:
        """Return the mean over the held-out series of the method's own part of the loss, or of the whole."""
        self._mode(training=False)
        random = torch.Generator().manual_seed(self.fixed)
        total = torch.zeros((), device=self.data.device)
        for part in batches(self.watched, self.settings.fit_batch_size):
            total += len(part) / len(self.watched) * self._losses(self.data.batch(part, random))[which]
        return total


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
    needs_probabilities: ClassVar[bool] = True

    epochs: int = validation.integer(50)
    fit_batch_size: int = validation.integer(32, least=2)
    learning_rate: float = validation.positive(1e-4)
    weight_decay: float = validation.real(1e-3)
    prior: float = validation.real(0.5, high=1.0, closed=(False, False))
    sparsity: float = validation.real(2.0)
    connection: float = validation.real(4.0)
    network: MaskGenerator | None = validation.learnt(by_name=True)

    def _fit(self, model: Model, x: Tensor, seed: int) -> Self:
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
        if len(x) < LEAST:
            raise InputError(f"{self.name} learns from training series: got {len(x)}, pass at least {LEAST}.")
        mark = fingerprint(model.model if isinstance(model, Adapted) else model)
        fitted = mutable_if_needed(partial(self._learnt_from, model, x, seed % 2**63))
        cast("MaskGenerator", fitted.network).facts["model"] = mark()
        return fitted

    def _learnt_from(self, model: Model, x: Tensor, seed: int) -> Self:
        with frozen(model):
            require_gradient(model, x)
            return self._taught_by(model, x, seed)

    def _taught_by(self, model: Model, x: Tensor, seed: int) -> Self:
        """Learn from the outputs of a model that is frozen, which keeps the generators of random numbers, too."""
        device, dtype = place(model, x)
        seed_generators(seed, device)
        data = self._training_set(x, self._reader(model, x[:1].to(device, dtype)), device, dtype)
        objective = self._objective(MaskGenerator(*x.shape[1:]).to(device, data.dtype), data)
        training = self._training(model, objective, data, torch.Generator().manual_seed(seed))
        return replace(self, network=training.run(f"fit {self.name}"))

    def _training_set(self, x: Tensor, read: Read, device: torch.device, dtype: torch.dtype) -> TrainingSet:
        """Return the training series with the model's outputs for them."""
        return TrainingSet(x, read, device, dtype, f"read series for {self.name}")

    def _training(self, model: Model, objective: Objective, data: TrainingSet, rng: torch.Generator) -> Training:
        """Return what trains the generator."""
        return Training(objective, data, self, rng)

    @abstractmethod
    def _reader(self, model: Model, x: Tensor) -> Read:
        """Return what reads the model's outputs, after a look at how it takes one series."""

    @abstractmethod
    def _objective(self, generator: MaskGenerator, data: TrainingSet) -> Objective:
        """Return what is learnt and how a mask is judged."""

    def _network(self) -> type[MaskGenerator]:
        return MaskGenerator

    @one_by_one
    def attribute(self, ask: Ask) -> Estimate:
        generator = cast("MaskGenerator", self.network)  # no call gets here before fit
        if ask.question.steps is not None:
            steps = f"{arg:question.steps={brief(ask.question.steps)}}"
            raise InputError(f"{self.name} explains all steps together, got {steps}: leave steps out.")
        few = ask.block(slice(0, 2))
        with torch.no_grad():
            require_probabilities(self.name, ask, partial(ask.forward, few.x, few.index))
        check_training((len(generator.code), generator.channels), ask)
        if generator.code.device != ask.device:
            generator = copy.deepcopy(generator).to(ask.device)
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
        padding = torch.arange(block.x.shape[1], device=block.x.device) >= block.lengths[:, None]
        masks: Tensor = generator(block.x.to(generator.code.dtype), padding if bool(padding.any()) else None)
        return masks


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

    Notes
    -----
    The embedding is what the last linear layer reads, and Emb is divided by the variance of the cosines.
    A model with one output per step has one vector per step; Emb then compares their means over time. Any
    other embedding is flattened. Where the only linear layer reads the series themselves, use TimeX++: the
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

    label_weight: float = validation.real(1.0)

    def _reader(self, model: Model, x: Tensor) -> EmbeddingReader:
        return find_embedding(model, x)

    def _objective(self, generator: MaskGenerator, data: TrainingSet) -> Objective:
        reader = cast("EmbeddingReader", data.read)
        surrogate = replace(reader, model=copied(reader.model))
        module = module_of(surrogate.model).to(data.dtype)
        for weight in module.parameters():
            weight.requires_grad_(weight.is_floating_point())
        with torch.no_grad():
            one = surrogate(data.x[:1].to(data.device, data.dtype))[1]
        size, shape = one.shape[-1], data.output_shape  # step by step where there is one vector per step
        outputs = shape[-1] if one.ndim == 3 else math.prod(shape)
        head = small_network(size, nn.ReLU(), outputs, min(size, WIDEST)).to(generator.code)

        def fidelity(batch: Batch, _: Tensor, masked: Tensor) -> Tensor:
            found = surrogate(masked)[1]
            loss = geometry(cast("Tensor", batch.embedding), one_vector(found))
            predicted = probabilities(head(found).view(len(found), *shape))
            return loss + self.label_weight * self._label_loss(batch.prediction, predicted)

        return Objective(generator, nn.ModuleList([generator, module, head]), fidelity)

    def _label_loss(self, p: Tensor, q: Tensor) -> Tensor:
        """Return how far predictions q are from the distances between predictions p, Lab."""
        return label_geometry(p, q)


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

    learning_rate: float = validation.positive(5e-4)
    label_weight: float = validation.real(1.0)
    gaussian_weight: float = validation.real(0.1)
    reference_weight: float = validation.real(1.0)

    def _reader(self, model: Model, x: Tensor) -> Read:
        return lambda z: (forward(model, z), None)

    def _objective(self, generator: MaskGenerator, data: TrainingSet) -> Objective:
        cells = data.mean.numel()
        # makes a value from that of a cell and its gate
        conditioner = small_network(2, nn.ELU(), 1).to(generator.code)
        # mean and logarithm of the variance of every cell, given the series, and given what was made of it
        networks = [small_network(cells, nn.ELU(), cells).to(generator.code) for _ in range(4)]

        def fidelity(batch: Batch, gates: Tensor, masked: Tensor) -> Tensor:
            value = conditioner(torch.stack([batch.x, gates], -1)).squeeze(-1)
            label = self._divergence(batch.prediction, data.probabilities(data.run_model(value)[0])).mean()
            series = (part.flatten(1) for part in (batch.x, batch.x, value, value))
            mean, log_var, *changed = (network(part) for network, part in zip(networks, series, strict=True))
            tie = gaussian_kl(changed[0], changed[1], mean.mean(0), log_var.mean(0))
            reference = functional.mse_loss(value, masked)
            return self.label_weight * label + self.gaussian_weight * tie + self.reference_weight * reference

        return Objective(generator, nn.ModuleList([generator, conditioner, *networks]), fidelity)

    def _divergence(self, p: Tensor, q: Tensor) -> Tensor:
        """Return how far two predictions are from each other, JS."""
        return jensen_shannon(p, q)
