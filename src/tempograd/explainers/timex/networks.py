"""The small networks of TimeX and TimeX++, and a model's output together with its embedding."""

import copy
from contextlib import ExitStack
from dataclasses import dataclass, replace
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn

from tempograd.core.errors import InputError, ModelError
from tempograd.core.findings import arg
from tempograd.engine import Model, owner, predict, spare
from tempograd.engine.calls import Adapted

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
    odds = (p + NEVER).log() - (1 - p + NEVER).log()
    soft = (odds + uniform.logit()).sigmoid()
    return (soft > 0.5).to(soft) + (soft - soft.detach())


class MaskGenerator(nn.Module):
    """Maps series (N, T, D) to soft masks in (0, 1), by attention over the steps.

    An encoder reads the series behind its time code; a decoder reads the series before its time code and
    attends to the encoder. One linear layer turns each step's state into one probability per channel.
    """

    code: Tensor

    def __init__(self, time: int, channels: int) -> None:
        super().__init__()
        self.time, self.channels = time, channels
        width = channels + CODE
        self.register_buffer("code", step_code(time))
        self.encoder = nn.TransformerEncoderLayer(width, 1, 72, 0.25, batch_first=True)
        layer = nn.TransformerDecoderLayer(width, 1, 32, 0.1, batch_first=True)
        self.decoder = nn.TransformerDecoder(layer, 2)
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


class Conditioner(nn.Module):
    """Makes a value from each cell's value and its gate, cell by cell: 2 → 32 → 1 with an ELU."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 32), nn.ELU(), nn.Linear(32, 1))

    def forward(self, x: Tensor, gates: Tensor) -> Tensor:
        value: Tensor = self.layers(torch.stack([x, gates], -1))
        return value.squeeze(-1)


class Gaussian(nn.Module):
    """Mean and logarithm of the variance of every cell, each from the whole series: TD → 32 → TD with an ELU."""

    def __init__(self, cells: int) -> None:
        super().__init__()
        self.mean, self.log_var = (
            nn.Sequential(nn.Flatten(), nn.Linear(cells, 32), nn.ELU(), nn.Linear(32, cells)) for _ in range(2)
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return both, (N, T·D)."""
        return self.mean(x), self.log_var(x)


# A model's output together with its embedding: what one of its layers returns, or what its last one reads

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
    if isinstance(model, Adapted):
        return replace(model, model=_of_twin(model.model, twin))
    return _of_twin(model, twin)


def _of_twin(model: Model, twin: nn.Module) -> Model:
    return MethodType(model.__func__, twin) if isinstance(model, MethodType) else twin


@dataclass(frozen=True)
class EmbeddingReader:
    """Runs a model and catches its embedding.

    The embedding is (N, F), or (N, T, F) where the model has one output and one vector per step.
    """

    model: Model
    layer: str
    inward: bool  # what the layer reads rather than what it says

    @property
    def module(self) -> nn.Module:
        """Return the module behind the model."""
        return _module(self.model)

    def copied(self) -> "EmbeddingReader":
        """Return a reader of a copy of the model."""
        return replace(self, model=copied(self.model))

    def __call__(self, z: Tensor) -> tuple[Tensor, Tensor]:
        caught: list[Any] = []

        def catch(_: nn.Module, args: tuple[Any, ...], named: dict[str, Any], said: Any) -> None:
            read = (*args, *named.values(), None)[0]
            caught.append(read if self.inward else said)

        handle = self.module.get_submodule(self.layer).register_forward_hook(catch, with_kwargs=True)
        try:
            raw = predict(self.model, z, "raw")
        finally:
            handle.remove()
        if not caught:
            raise ModelError(f"The layer {self.layer!r} takes no part in the model's output: name one that does.")
        return raw, _per_series(caught[-1], raw, z, self.layer)


def one_vector(embedding: Tensor) -> Tensor:
    """Return one vector per series: where there is one per step, their mean."""
    return embedding.mean(1) if embedding.ndim == 3 else embedding


def find_embedding(model: Model, x: Tensor, layer: str | None) -> EmbeddingReader:
    """Choose the output of a named layer or, without a name, the input of the last linear layer that runs."""
    module = _module(model)
    if layer is None:
        return EmbeddingReader(model, _last_linear(model, module, x), inward=True)
    known = [name for name, _ in module.named_modules() if name]
    if layer not in known:
        some = ", ".join(known[:SOME]) + (", …" if len(known) > SOME else "")
        raise InputError(f"The model has no layer {layer!r}: embedding must be one of {some}.")
    return EmbeddingReader(model, layer, inward=False)


def _module(model: Model) -> nn.Module:
    module = owner(model)
    if module is None:
        raise InputError(
            f"This method reads layers, and a {type(model).__name__} has none: pass the nn.Module itself."
        )
    return module


def _last_linear(model: Model, module: nn.Module, x: Tensor) -> str:
    ran: list[str] = []
    with ExitStack() as stack, torch.no_grad():
        for name, part in module.named_modules():
            if isinstance(part, nn.Linear):
                handle = part.register_forward_hook(lambda *_, name=name: ran.append(name))
                stack.callback(handle.remove)
        predict(model, x, "raw")
    if not ran:
        raise InputError(
            "The model runs no linear layer whose input could be its embedding: name a layer with "
            f"{arg:method.embedding}."
        )
    return ran[-1]


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
