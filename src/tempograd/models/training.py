"""Training a model on a data set: how, as data; one readable loop; and how good it is."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from tempograd.core import validation
from tempograd.core.errors import InputError, ModelError, arg, brief
from tempograd.core.optimisers import Adam
from tempograd.core.progress import Advance, progress_bar
from tempograd.core.series import Series
from tempograd.data.datasets import Dataset
from tempograd.engine import Call, Predictor, frozen
from tempograd.engine.model import find_device, no_denormals, place
from tempograd.engine.predictor import numbers_of
from tempograd.models.networks import Classifier, build
from tempograd.typing import Model, Setting

# How a model is trained, as data.


@dataclass(frozen=True)
class Recipe:
    """Settings of one training: Adam on the mean cross-entropy.

    Parameters
    ----------
    epochs : int, default=200
        Passes over the training series, at most.
    learning_rate, weight_decay : float, default=2e-3, 0
        Of Adam; the decay is added to the gradient (L2).
    batch_size : int, default=32
        Series per step, at least two because batch normalisation needs them.
    shuffle : bool, default=True
        Whether every epoch sees the series in a new order.
    patience : int or None, default=5
        Epochs without a notably lower validation loss before the training ends and the best weights come
        back; None trains to the last epoch and keeps its weights.
    minimum_steps : int, default=0
        Optimiser steps before patience may end the training: a small data set takes few of them per epoch.
    """

    epochs: int = validation.integer(200)
    learning_rate: float = validation.positive(2e-3)
    weight_decay: float = validation.real(0.0)
    batch_size: int = validation.integer(32, least=2)
    shuffle: bool = validation.boolean(True)
    patience: int | None = validation.integer(5, optional=True)
    minimum_steps: int = validation.integer(0, least=0)

    __post_init__ = validation.check_settings  # type: ignore[misc]  # a function of the object alone, and so a method

    def _loss(self, network: nn.Module, x: Tensor, y: Tensor, generator: torch.Generator) -> Tensor:
        """Return what a step on a batch lowers; other losses may draw from the generator."""
        return cross_entropy(network(x), y)


DEFAULT = Recipe(minimum_steps=200)


# Running a model as it will be used: evaluation mode, no gradients, batch by batch.

BATCH = 256


def accuracy(model: nn.Module | Predictor, split: Series) -> float:
    """Share of right predictions: over the series, or over all steps where every step has a label.

    Examples
    --------
    >>> always_one = nn.Sequential(nn.Flatten(), nn.Linear(8, 2))
    >>> with torch.no_grad():
    ...     _ = always_one[1].weight.zero_(), always_one[1].bias.copy_(torch.tensor([0.0, 1.0]))
    >>> accuracy(always_one, Series(torch.randn(4, 4, 2), torch.tensor([1, 1, 0, 1])))
    0.75
    """
    predictor = model if isinstance(model, Predictor) else Predictor(model)
    asked = Call(pick=predictor.pick, model_layout=predictor.layout).adapt(predictor.called)
    logits, y = predictions(asked, split)
    return float((logits.argmax(-1) == y).double().mean())


def mean_loss(model: nn.Module, split: Series) -> float:
    """Mean cross-entropy, over the series or over all steps where every step has a label."""
    with frozen(model), torch.no_grad():
        total = sum(float(cross_entropy(logits, y, "sum")) for logits, y in _predictions(model, split))
    return float(total / split.y.numel())


def predictions(model: Model, split: Series) -> tuple[Tensor, Tensor]:
    """Return logits (M, C) and labels (M,) on the CPU, of all series or of all their steps."""
    with frozen(model), torch.no_grad():
        parts = [(logits.flatten(0, -2).cpu(), y.flatten().cpu()) for logits, y in _predictions(model, split)]
    return torch.cat([logits for logits, _ in parts]), torch.cat([y for _, y in parts])


def cross_entropy(logits: Tensor, y: Tensor, reduction: str = "mean") -> Tensor:
    """Cross-entropy of logits (…, C) and labels (…)."""
    return functional.cross_entropy(one_per_class(logits, y).flatten(0, -2), y.flatten(), reduction=reduction)


def one_per_class(logits: Tensor, y: Tensor) -> Tensor:
    """Return logits (…, C) for labels (…): a single logit l, with or without an axis of its own, means (0, l).

    Examples
    --------
    >>> one_per_class(torch.tensor([2.0, -1.0]), torch.tensor([1, 1]))
    tensor([[ 0.,  2.],
            [ 0., -1.]])
    """
    logits = logits[..., None] if logits.ndim == y.ndim else logits
    return torch.cat([torch.zeros_like(logits), logits], -1) if logits.shape[-1] == 1 else logits


def _predictions(model: Any, split: Series) -> Iterator[tuple[Tensor, Tensor]]:
    if split.y.is_floating_point():
        raise InputError(f"y must hold classes here, got {split.y.dtype}: values of a regression have no classes.")
    device, dtype = place(model, split.x)
    for x, y in zip(torch.split(split.x, BATCH), torch.split(split.y, BATCH), strict=True):
        z = x.to(device, dtype)
        yield one_per_class(numbers_of(model(z), z), y), y.to(device)


# Training a model on a data set: one readable loop.

NOTABLE = 5e-4  # a validation loss that falls by less does not restart patience: the last digits take for ever


def train(
    model: str | nn.Module,
    data: Dataset,
    *,
    seed: int = 0,
    recipe: Recipe = DEFAULT,
    device: str | torch.device | None = None,
    options: Mapping[str, Setting] | None = None,
    **overrides: Setting,
) -> nn.Module:
    r"""Train a classifier and return it in evaluation mode.

    Minimises the mean cross-entropy :math:`-\ln \mathrm{softmax}(f(x))_y`, over the series or, where every
    step has a label, over all steps at once.

    Parameters
    ----------
    model : str or nn.Module
        A key of ``MODELS``, or a module (N, T, D) → (N, C), or (N, T, C) for labels per step; a module is
        trained in place.
    data : Dataset
        Learns from ``data.train``. A recipe with patience watches ``data.validation``, or without one a
        seeded fifth of the training series that it then does not learn from. The test series are never
        touched.
    seed : int, default=0
        Decides the initial weights, the order of the series and dropout. On a CPU the same seed gives the
        same weights. The global random state is neither used nor changed.
    recipe : Recipe, optional
        By default one that shuffles, stops when the validation loss no longer falls and keeps the best weights.
    device : str or torch.device, optional
        Where to train and leave the model, by default where a given module is, and for a name the GPU if
        there is one.
    options : mapping, optional
        Sizes of a model given by name, for instance ``{"hidden": 32}``.
    **overrides
        Single settings of the recipe, for instance ``epochs=5``.

    Notes
    -----
    A last batch of a single series joins the batch before it, because batch normalisation cannot learn from
    one.

    Examples
    --------
    >>> x = torch.randn(60, 5, 2, generator=torch.Generator().manual_seed(0))
    >>> split = Series(x, (x.mean(dim=(1, 2)) > 0).long())
    >>> toy = Dataset("toy", split, None, split, classes=2, channels=("a", "b"))
    >>> model = train("gru", toy, seed=0, options={"hidden": 4}, epochs=2)
    >>> model.training, model.facts["dataset"], model.facts["epochs"]
    (False, 'toy', 2)
    """
    if not isinstance(data, Dataset):
        raise InputError(f"data must be a Dataset, as load_dataset returns it, got {brief(data)}.")
    seed = validation.check_int(seed, "seed")
    if data.train.y.is_floating_point():
        own = f"train a regression model of your own, and explain it with {arg:question.output=raw}"
        raise InputError(f"{data.name} has real values for labels, but train makes classifiers: {own}.")
    recipe = replace(recipe, **overrides)  # type: ignore[arg-type]  # which checks them
    network = model
    if not isinstance(network, nn.Module):
        network = build(network, len(data.channels), data.classes, data.per_step, seed, **(options or {}))
    elif options:
        raise InputError("options are for models given by name; a module has its sizes already.")
    if device is None:
        best = "cuda" if torch.cuda.is_available() else "cpu"
        device = best if isinstance(model, str) else place(network, torch.empty(0))[0]
    target = find_device(device)
    network.to(target)
    generator = torch.Generator().manual_seed(seed)
    train_part, watched = _parts(data, recipe, generator)
    label = f"train {network.config['name'] if isinstance(network, Classifier) else 'model'} on {data.name}"
    gpus = [target] if target.type == "cuda" else []
    with torch.random.fork_rng(devices=gpus), no_denormals(), progress_bar(recipe.epochs, label) as advance:
        seed_generators(seed, target)
        outcome = _fit(network, train_part, watched, recipe, generator, advance)
    if isinstance(network, Classifier):
        origin = {"dataset": data.name, "variant": data.variant, "seed": seed, "recipe": asdict(recipe)}
        network.facts = origin | outcome
    return network.eval()


def _parts(data: Dataset, recipe: Recipe, generator: torch.Generator) -> tuple[Series, Series | None]:
    """Training and validation series; a fifth is held out where a recipe needs one and the data has none."""
    train_part, watched = data.train, data.validation
    if watched is None and recipe.patience is not None:
        order = torch.randperm(len(train_part), generator=generator)
        held_out = max(1, len(train_part) // 5)
        watched = train_part.take(order[:held_out])
        train_part = train_part.take(order[held_out:].sort().values)
    if len(train_part) < 2:
        raise InputError(f"Training needs at least two series, {data.name} leaves {len(train_part)}.")
    return train_part, watched


def seed_generators(seed: int, device: torch.device) -> None:
    """Seed the generators that initial weights and dropout draw from; ``torch.manual_seed`` seeds every GPU."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(seed)


def _fit(
    network: nn.Module,
    train_part: Series,
    watched: Series | None,
    recipe: Recipe,
    generator: torch.Generator,
    advance: Advance,
) -> dict[str, Any]:
    """Train, and tell how it went: epochs run, and which one's weights were kept at what validation loss."""
    optimiser = Adam(network.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay)
    (device, dtype), count = place(network, train_part.x), len(train_part)
    loss, epoch = math.nan, 0
    best, best_epoch, weights = math.inf, 0, dict[str, Tensor]()
    notable, notable_epoch = math.inf, 0  # a loss that fell by enough to be worth more epochs
    for epoch in range(1, recipe.epochs + 1):
        network.train()
        total = torch.zeros((), dtype=torch.float64, device=device)
        order = torch.randperm(count, generator=generator) if recipe.shuffle else torch.arange(count)
        parts = batches(order, recipe.batch_size)
        for batch in parts:
            x, y = train_part.x[batch].to(device, dtype), train_part.y[batch].to(device)
            step = recipe._loss(network, x, y, generator)
            optimiser.zero_grad()
            step.backward()  # type: ignore[no-untyped-call]  # torch has no types here
            optimiser.step()
            total += step.detach()  # a sum on the device, so that a GPU need not wait for every batch
        _finite(float(total), "training")
        advance()
        if watched is None or (recipe.patience is None and epoch < recipe.epochs):
            continue  # nothing depends on the loss before the end
        loss = _finite(mean_loss(network, watched), "validation")
        if recipe.patience is not None:
            if loss < best:
                best, best_epoch = loss, epoch
                weights = {name: tensor.clone() for name, tensor in network.state_dict().items()}
            if loss < notable - NOTABLE:
                notable, notable_epoch = loss, epoch
            if epoch >= max(notable_epoch + recipe.patience, recipe.minimum_steps / len(parts)):
                break
    if recipe.patience is not None:
        network.load_state_dict(weights)
        return {"epochs": epoch, "kept_epoch": best_epoch, "validation_loss": best}
    return {"epochs": epoch, "kept_epoch": epoch} | ({} if watched is None else {"validation_loss": loss})


def _finite(loss: float, part: str) -> float:
    if not math.isfinite(loss):
        raise ModelError(f"The {part} loss became {loss}: look for NaN in the series, or lower the learning_rate.")
    return loss


def batches(order: Tensor, size: int) -> list[Tensor]:
    """Cut ``order`` into batches; a single series left over joins the batch before it.

    Batch normalisation, and losses between pairs, need two.
    """
    parts = list(torch.split(order, size))
    if len(parts) > 1 and len(parts[-1]) == 1:
        parts[-2:] = [torch.cat(parts[-2:])]
    return parts
