"""A model's output together with its embedding: what one of its layers returns, or what its last one reads."""

import copy
from contextlib import ExitStack
from dataclasses import dataclass, replace
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn

from tempograd.core.errors import InputError, ModelError, arg
from tempograd.engine import Model, owner
from tempograd.engine.model import spare
from tempograd.engine.predictor import Adapted, forward

SOME = 8  # layers that a message names


def copied(model: Model) -> Model:
    """Return a copy with its own weights; a method such as ``net.predict`` then belongs to the copied net."""
    module = owner(model)
    if module is None:
        return model
    try:
        twin = copy.deepcopy(module)
    except Exception as error:
        raise ModelError(
            f"The model cannot be copied ({type(error).__name__}), and this method trains a copy of it: make "
            "copy.deepcopy(model) work, for instance by rebuilding it from its weights."
        ) from error
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
        raise InputError(
            f"This method reads layers, and a {type(model).__name__} has none: pass the nn.Module itself."
        )
    return module


@dataclass(frozen=True)
class EmbeddingReader:
    """Runs a model and catches its embedding.

    The embedding is (N, F), or (N, T, F) where the model has one output and one vector per step.
    """

    model: Model
    layer: str
    inward: bool  # what the layer reads rather than what it says

    def __call__(self, z: Tensor) -> tuple[Tensor, Tensor]:
        caught: list[Any] = []

        def catch(_: nn.Module, args: tuple[Any, ...], named: dict[str, Any], said: Any) -> None:
            read = (*args, *named.values(), None)[0]
            caught.append(read if self.inward else said)

        layer = module_of(self.model).get_submodule(self.layer)
        with layer.register_forward_hook(catch, with_kwargs=True):
            raw = forward(self.model, z)
        if not caught:
            raise ModelError(f"The layer {self.layer!r} takes no part in the model's output: name one that does.")
        return raw, _per_series(caught[-1], raw, z, self.layer)


def one_vector(embedding: Tensor) -> Tensor:
    """Return one vector per series: where there is one per step, their mean."""
    return embedding.mean(1) if embedding.ndim == 3 else embedding


def find_embedding(model: Model, x: Tensor, layer: str | None) -> EmbeddingReader:
    """Choose the output of a named layer or, without a name, the input of the last linear layer that runs."""
    module, ran = module_of(model), list[str]()
    known = [name for name, _ in module.named_modules() if name]
    if layer is not None:
        if layer not in known:
            some = ", ".join(known[:SOME]) + (", …" if len(known) > SOME else "")
            raise InputError(f"The model has no layer {layer!r}: embedding must be one of {some}.")
        return EmbeddingReader(model, layer, inward=False)
    with ExitStack() as stack, torch.no_grad():
        for name, part in module.named_modules():
            if isinstance(part, nn.Linear):
                stack.enter_context(part.register_forward_hook(lambda *_, name=name: ran.append(name)))
        forward(model, x)
    if not ran:
        raise InputError(f"The model runs no linear layer to embed by: name a layer with {arg:method.embedding}.")
    return EmbeddingReader(model, ran[-1], inward=True)


def _per_series(embedding: Any, raw: Tensor, z: Tensor, layer: str) -> Tensor:
    if isinstance(embedding, (tuple, list)) and embedding:
        embedding = embedding[0]  # a recurrent layer says its states first
    batch, time = z.shape[:2]
    if isinstance(embedding, Tensor) and embedding.ndim > 1:
        if len(embedding) == batch * time and time > 1:  # the steps joined the batch
            embedding = embedding.reshape(batch, time, -1)
        if len(embedding) == batch:
            per_step = raw.ndim == embedding.ndim == 3 and embedding.shape[1] == time
            whole: Tensor = embedding if per_step else embedding.flatten(1)
            return whole
    got = tuple(embedding.shape) if isinstance(embedding, Tensor) else type(embedding).__name__
    raise ModelError(
        f"The embedding at {layer!r} must have one row per series, {batch}, got {got}: name another layer with "
        f"{arg:method.embedding}."
    )
