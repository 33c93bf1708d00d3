"""The training that TimeX and TimeX++ share, and what they minimise."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from tempograd.core.errors import ModelError
from tempograd.core.optimisers import AdamW
from tempograd.core.progress import progress_bar
from tempograd.engine import Batching, Model, both_logits, differentiate, forward, place, require_path, resumed
from tempograd.engine.gradients import one_sentence
from tempograd.engine.guesses import is_probability
from tempograd.engine.model import by_lists
from tempograd.explainers.timex.networks import MaskGenerator, gate, one_vector
from tempograd.models.training import batches

if TYPE_CHECKING:
    from tempograd.explainers.timex.timex import MaskNetwork

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


def geometry(a: Tensor, b: Tensor, *, scaled: bool = True) -> Tensor:
    r"""How far embeddings b (series, feature) are from the geometry of a, "Emb".

    .. math:: \mathrm{mean}_{ij} \big(\cos(a_i, a_j) - \cos(b_i, b_j)\big)^2
        \;/\; \mathrm{var}_{ij} \cos(a_i, a_j),

    without the division where ``scaled`` is False.
    """
    wanted, found = (functional.normalize(z, dim=-1) @ functional.normalize(z, dim=-1).mT for z in (a, b))
    distance = (wanted - found).square().mean()
    return distance / wanted.var(correction=0).clamp(min=FLAT) if scaled else distance


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


class Learnt(NamedTuple):
    """A mask generator, and how its training went."""

    generator: MaskGenerator
    losses: tuple[float, ...]  # what chose the epoch, one number per epoch
    epoch: int  # the one that was kept


def probabilities(raw: Tensor) -> Tensor:
    """Turn raw outputs into probabilities that sum to 1: softmax, or for one logit a no and a yes."""
    return both_logits(raw, "probability").softmax(-1)


class TrainingSet:
    """Training series and, read once, what the model says about them; probabilities are taken at their word."""

    def __init__(self, x: Tensor, read: Read, device: torch.device, dtype: torch.dtype, label: str) -> None:
        self.x, self.read, self.device, self._theirs = x, read, device, dtype
        self.dtype = torch.promote_types(dtype, torch.float32)
        outputs, self.embeddings = self._read_all(label)
        if not bool(outputs.isfinite().all()):
            raise ModelError(
                f"The model returned NaN or infinity for training series of shape {tuple(x.shape[1:])}: "
                "check its weights and the scale of the series."
            )
        self.output_shape = tuple(outputs.shape[1:])
        self._given = is_probability(outputs)
        self.predictions = self.probabilities(outputs)
        self.mean = x.mean(0).to(device, self.dtype)
        self.deviation = x.std(0, correction=0).to(device, self.dtype)

    def predict(self, z: Tensor) -> Tensor:
        """Return the model's probabilities for any series."""
        return self.probabilities(self.run_model(z)[0])

    def probabilities(self, raw: Tensor) -> Tensor:
        """Return the model's outputs as probabilities."""
        return raw if self._given else probabilities(raw)

    def run_model(self, z: Tensor) -> tuple[Tensor, Tensor | None]:
        raw, embedding = self.read(z.to(self.device, self._theirs))
        return raw.to(self.dtype), None if embedding is None else one_vector(embedding).to(self.dtype)

    @torch.no_grad()
    def _read_all(self, label: str) -> tuple[Tensor, Tensor | None]:
        parts: list[tuple[Tensor, Tensor | None]] = []
        Batching(self.device, self.x[0].numel()).run(
            len(self.x), 1, lambda rows, _: parts.append(self.run_model(self.x[rows])), label
        )
        embeddings = [embedding for _, embedding in parts if embedding is not None]
        return torch.cat([raw for raw, _ in parts]), torch.cat(embeddings) if embeddings else None

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
    raw = forward(resumed(model, z), z, z.shape)
    require_path(raw, z)
    differentiate(raw.sum(), z)


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
        self.optimiser = AdamW(
            self.weights, lr=settings.learning_rate, weight_decay=settings.weight_decay, foreach=by_lists()
        )

    def run(self, label: str) -> Learnt:
        """Train, and return the generator in evaluation mode."""
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(
            self.optimiser, factor=FACTOR, patience=PATIENCE, threshold=THRESHOLD
        )
        generator, losses = self.objective.generator, list[float]()
        best: dict[str, Tensor] = {}
        with progress_bar(self.settings.epochs, label) as advance:
            for epoch in range(self.settings.epochs):
                self._mode(training=True)
                order = self.learning[torch.randperm(len(self.learning), generator=self.random)]
                parts, loss = batches(order, self.settings.fit_batch_size), torch.zeros(())
                for rows in parts:
                    loss = self._step(self.data.batch(rows, self.random))
                    advance(1 / len(parts), f"loss {losses[-1]:.4f}" if losses else "")
                losses.append(_finite(float(self._judge(loss)), epoch))
                if losses[-1] <= min(losses):
                    best = {name: tensor.clone() for name, tensor in generator.state_dict().items()}
                if epoch >= STEADY:
                    plateau.step(losses[-1])
        generator.load_state_dict(best)
        kept = max(epoch for epoch, loss in enumerate(losses) if loss == min(losses))
        return Learnt(generator.eval().requires_grad_(False), tuple(losses), kept)

    def _mode(self, training: bool) -> None:
        """Switch dropout on or off."""
        self.objective.generator.train(training)

    def _step(self, batch: Batch) -> Tensor:
        """Take one step, and return the loss before it."""
        _, loss = self._losses(batch)
        # not backward(): it would also leave gradients on the weights of a model inside a function
        with one_sentence():
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
        fidelity = self.objective.fidelity(batch, gates, masked)
        whole = (
            fidelity
            + self.settings.sparsity * gsat(p, self.settings.prior)
            + self.settings.connection * connection_loss(p)
        )
        return fidelity, whole

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


def _finite(loss: float, epoch: int) -> float:
    if not math.isfinite(loss):
        raise ModelError(f"The loss became {loss} in epoch {epoch + 1}: lower learning_rate.")
    return loss
