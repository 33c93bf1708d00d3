"""Classifiers to explain: a recurrent, a convolutional and an attending one, and what they share."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from tempograd.core.errors import InputError, arg
from tempograd.core.registry import Registry

# What every classifier shares: its configuration, its two kinds of output, and the table of names.

MODELS: Registry[type["Classifier"]] = Registry("model")


class Classifier(nn.Module, ABC):
    """Maps series (N, T, D) to logits: (N, C), or (N, T, C) with ``per_step=True``.

    Subclasses turn a series into one vector per step (:meth:`features`), and one such vector into logits
    (``readout``). With ``per_step=True`` the vector of step t depends on the steps up to t alone, and the
    head is applied to every step; otherwise :meth:`pool` makes one vector per series.

    Parameters
    ----------
    channels : int
        D, the size of the last axis of a series.
    classes : int
        C, the number of logits.
    per_step : bool, default=False
        One prediction per step instead of one per series.
    options : dict
        The subclass's sizes, by name, as plain JSON values.

    Attributes
    ----------
    config : dict
        Everything :func:`build` needs to make the module again, as plain JSON values.
    facts : dict
        What is known about the training (data set, seed, recipe, …), as plain JSON values.
    """

    name: ClassVar[str]
    facts: dict[str, Any]
    readout: nn.Module

    def __init__(self, channels: int, classes: int, per_step: bool, options: dict[str, Any]) -> None:
        super().__init__()
        self.channels, self.classes, self.per_step = channels, classes, per_step
        sizes = {"channels": channels, "classes": classes, "per_step": per_step}
        self.config: dict[str, Any] = {"name": self.name, **sizes, "options": options}
        self.facts = {}
        self.tempograd_task = "per_step" if per_step else "classification"  # so that nobody has to tell it

    @abstractmethod
    def features(self, x: Tensor) -> Tensor:
        """One vector per step, (N, T, F); the series of a model without ``per_step`` may come out shorter."""

    def pool(self, features: Tensor) -> Tensor:
        """One vector per series, (N, F): by default the mean over the steps."""
        return features.mean(dim=1)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of the series ``x`` (N, T, D)."""
        return self._read(self.features(self._checked(x)))

    def _read(self, features: Tensor) -> Tensor:
        if not self.per_step:
            return cast("Tensor", self.readout(self.pool(features)))
        # the steps join the batch, so that batch normalisation sees features on its channel axis
        return cast("Tensor", self.readout(features.flatten(0, 1)).view(*features.shape[:2], -1))

    def last(self, x: Tensor) -> Tensor:
        """Logits (N, C) of the last step alone; batch normalisation then sees no other step."""
        return cast("Tensor", self.readout(self.features(self._checked(x))[:, -1]))

    def _checked(self, x: Tensor) -> Tensor:
        if x.ndim != 3 or x.shape[-1] != self.channels or x.shape[1] == 0:
            shapes = f"(batch, time, {self.channels}), got (batch, {', '.join(map(str, x.shape[1:]))})"
            turn = f": if channels come first, pass {arg:series.layout=BDT}" * (x.shape[1:2] == (self.channels,))
            raise InputError(f"This model takes series of shape {shapes}{turn}.")
        return x


def build(
    name: str, channels: int, classes: int, per_step: bool = False, seed: int = 0, **options: Any
) -> Classifier:
    """Make an untrained model by name, with initial weights that depend on ``seed`` alone.

    Parameters
    ----------
    name : str
        A key of ``MODELS``.
    channels, classes : int
        Sizes of the series' last axis and of the output's.
    per_step : bool, default=False
        One prediction per step instead of one per series.
    seed : int, default=0
        For the initial weights; the global random state is neither used nor changed.
    **options
        The model's own sizes, such as ``hidden``.

    Examples
    --------
    >>> model = build("gru", channels=3, classes=2, hidden=8)
    >>> model(torch.zeros(5, 20, 3)).shape
    torch.Size([5, 2])
    >>> model.config
    {'name': 'gru', 'channels': 3, 'classes': 2, 'per_step': False, 'options': {'hidden': 8, 'dropout': 0.5}}
    """
    kind = MODELS[name]
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would also seed the GPUs
        return kind(channels, classes, per_step=per_step, **options)


# A recurrent classifier: what the series has shown so far, kept in one vector.


@MODELS.register("gru")
class GRUClassifier(Classifier):
    r"""Gated recurrent unit, read out at the last step or at every step.

    With :math:`\odot` the product cell by cell and :math:`\sigma` the sigmoid, the state :math:`h_t` obeys

    .. math::

        r_t &= \sigma(W_r x_t + b_r + U_r h_{t-1} + c_r), \\
        z_t &= \sigma(W_z x_t + b_z + U_z h_{t-1} + c_z), \\
        n_t &= \tanh\!\big(W_n x_t + b_n + r_t \odot (U_n h_{t-1} + c_n)\big), \qquad
        h_t = (1 - z_t) \odot n_t + z_t \odot h_{t-1}, \quad h_0 = 0.

    The head is batch normalisation, ReLU, dropout and a linear map.

    Parameters
    ----------
    channels, classes, per_step
        See :class:`~tempograd.models.networks.Classifier`.
    hidden : int, default=200
        Size of the state.
    dropout : float, default=0.5
        Share of the head's inputs dropped in training.

    References
    ----------
    .. [1] K. Cho et al., "Learning phrase representations using RNN encoder-decoder for statistical machine
       translation", EMNLP 2014. https://arxiv.org/abs/1406.1078
    """

    name = "gru"

    def __init__(
        self, channels: int, classes: int, *, per_step: bool = False, hidden: int = 200, dropout: float = 0.5
    ) -> None:
        super().__init__(channels, classes, per_step, {"hidden": hidden, "dropout": dropout})
        self.recurrence = nn.GRU(channels, hidden, batch_first=True)
        self.readout = nn.Sequential(
            nn.BatchNorm1d(hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, classes)
        )

    def features(self, x: Tensor) -> Tensor:
        return cast("Tensor", self.recurrence(x)[0])

    def pool(self, features: Tensor) -> Tensor:
        return features[:, -1]


# A convolutional classifier: local shapes, wherever they occur.

KERNELS = (7, 3, 3)
SHORTEST = 2 ** len(KERNELS)  # every layer halves the series, and one step must remain


@MODELS.register("cnn")
class CNNClassifier(Classifier):
    r"""Three convolutions over time with kernels of 7, 3 and 3 steps.

    One output per series: each convolution is centred (zero padding on both sides) and followed by ReLU and a
    maximum over pairs of steps; what remains is averaged over time. Series shorter than 8 steps are padded
    with zeros at their end. One output per step: the same kernels look back only (all padding on the left),
    and nothing is pooled. The head is a linear map, ReLU and another linear map.

    Parameters
    ----------
    channels, classes, per_step
        See :class:`~tempograd.models.networks.Classifier`.
    hidden : int, default=128
        Channels of every convolution and of the head.
    """

    name = "cnn"

    def __init__(self, channels: int, classes: int, *, per_step: bool = False, hidden: int = 128) -> None:
        super().__init__(channels, classes, per_step, {"hidden": hidden})
        self.convolutions = nn.ModuleList(
            nn.Conv1d(hidden if layer else channels, hidden, kernel) for layer, kernel in enumerate(KERNELS)
        )
        self.activations = nn.ModuleList(nn.ReLU() for _ in KERNELS)
        self.readout = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, classes))

    def features(self, x: Tensor) -> Tensor:
        series = x.transpose(1, 2)  # (N, D, T)
        if not self.per_step:
            series = functional.pad(series, (0, max(0, SHORTEST - series.shape[-1])))
        for kernel, convolve, activate in zip(KERNELS, self.convolutions, self.activations, strict=True):
            left = kernel - 1 if self.per_step else kernel // 2
            series = activate(convolve(functional.pad(series, (left, kernel - 1 - left))))
            if not self.per_step:
                series = functional.max_pool1d(series, 2)
        return series.transpose(1, 2)


# A transformer classifier: every step looks at every other.


@MODELS.register("transformer")
class TransformerClassifier(Classifier):
    r"""One attention layer over the series and a code of the time.

    With :math:`u_t = (x_t, p_t)` the step joined with its code, :math:`d = D + P` its size and
    :math:`Q, K, V` linear maps of :math:`u`,

    .. math::

        h = \mathrm{norm}\big(W\, \mathrm{softmax}(Q K^\top / \sqrt d)\, V\big), \qquad
        o = \mathrm{norm}\big(h + W_2\, \mathrm{relu}(W_1 h)\big).

    There is no residual around the attention. One output per series: :math:`o` is averaged over time. One output
    per step: a step attends only to itself and to earlier ones. The head is a linear map, ReLU and another linear
    map.

    Parameters
    ----------
    channels, classes, per_step
        See :class:`~tempograd.models.networks.Classifier`.
    positions : int, default=16
        P, the size of the time code: half sines, half cosines.
    feedforward : int, default=72
        Size of the hidden layer :math:`W_1 h`.
    dropout : float, default=0.25
        In training, the share dropped of attention weights, of the attention's output, of the hidden layer
        and of its output.
    input_dropout : float, default=0.3
        In training, the share of :math:`u` that is dropped.

    Notes
    -----
    The code depends on the length of the series (see :func:`time_code`), so a model with one output per step
    gives a prefix other outputs than the same steps of the whole series.

    References
    ----------
    .. [1] A. Vaswani et al., "Attention is all you need", NeurIPS 2017. https://arxiv.org/abs/1706.03762
    .. [2] O. Queen et al., "Encoding time-series explanations through self-supervised model behavior
       consistency" (TimeX), NeurIPS 2023. https://arxiv.org/abs/2306.02109
    """

    name = "transformer"

    def __init__(
        self,
        channels: int,
        classes: int,
        *,
        per_step: bool = False,
        positions: int = 16,
        feedforward: int = 72,
        dropout: float = 0.25,
        input_dropout: float = 0.3,
    ) -> None:
        options: dict[str, float] = {"positions": positions, "feedforward": feedforward}
        options |= {"dropout": dropout, "input_dropout": input_dropout}
        super().__init__(channels, classes, per_step, options)
        self.positions = positions
        size = channels + positions
        self.input_dropout = nn.Dropout(input_dropout)
        self.attention = nn.MultiheadAttention(size, num_heads=1, dropout=dropout, batch_first=True)
        self.attention_norm = nn.Sequential(nn.Dropout(dropout), nn.LayerNorm(size))
        self.feedforward = nn.Sequential(
            nn.Linear(size, feedforward),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(feedforward, size),
            nn.Dropout(dropout),
        )
        self.output_norm = nn.LayerNorm(size)
        self.readout = nn.Sequential(nn.Linear(size, size), nn.ReLU(), nn.Linear(size, classes))

    def features(self, x: Tensor) -> Tensor:
        code = time_code(x.shape[1], self.positions, x.device if x.is_cuda else "cpu").to(x)
        steps = self.input_dropout(torch.cat([x, code.expand(len(x), -1, -1)], dim=-1))
        later = None
        if self.per_step:
            later = nn.Transformer.generate_square_subsequent_mask(x.shape[1], x.device, x.dtype)
        attended, _ = self.attention(
            steps, steps, steps, need_weights=False, attn_mask=later, is_causal=self.per_step
        )
        hidden = self.attention_norm(attended)
        return cast("Tensor", self.output_norm(hidden + self.feedforward(hidden)))


def time_code(steps: int, positions: int, device: torch.device | str = "cpu") -> Tensor:
    r"""Sines and cosines of the time at several scales, (steps, positions) in double precision.

    They are computed on the host, or on the GPU that needs them, which would else wait for the host each time.

    .. math:: p_t = \big(\sin(\tau_t / \lambda_j)\big)_j \,,\, \big(\cos(\tau_t / \lambda_j)\big)_j

    with the time :math:`\tau_t` even on [0, 1] and the scales :math:`\lambda_j = T^{e_j}`, :math:`e_j` even
    on [0, 1].
    """
    scales = torch.pow(float(steps), torch.linspace(0, 1, positions // 2, dtype=torch.float64, device=device))
    angles = torch.linspace(0, 1, steps, dtype=torch.float64, device=device)[:, None] / scales
    return torch.cat([angles.sin(), angles.cos()], dim=-1)
