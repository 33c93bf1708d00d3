"""A transformer classifier: every step looks at every other."""

import torch
from torch import Tensor, nn

from tempograd.errors import InputError
from tempograd.models.base import MODELS, Classifier, check_sizes


@MODELS.register("transformer")
class TransformerClassifier(Classifier):
    r"""One attention layer over the series and a code of the time.

    With :math:`u_t = (x_t, p_t)` the step joined with its code, :math:`d = D + P` its size and
    :math:`Q, K, V` linear maps of :math:`u`,

    .. math::

        h = \mathrm{norm}\big(W\, \mathrm{softmax}(Q K^\top / \sqrt d)\, V\big), \qquad
        o = \mathrm{norm}\big(h + W_2\, \mathrm{relu}(W_1 h)\big).

    As published there is no residual around the attention. One output per series: :math:`o` is averaged over
    time. One output per step: a step attends only to itself and to earlier ones. The head is a linear map,
    ReLU and another linear map.

    Parameters
    ----------
    channels, classes, per_step
        See :class:`~tempograd.models.base.Classifier`.
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
        options = {
            "positions": positions,
            "feedforward": feedforward,
            "dropout": dropout,
            "input_dropout": input_dropout,
        }
        super().__init__(channels, classes, per_step, options)
        check_sizes(positions=positions, feedforward=feedforward)
        if positions % 2:
            raise InputError(f"positions must be even, half sines and half cosines; got {positions}.")
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
        code = time_code(x.shape[1], self.positions).to(x)
        steps = self.input_dropout(torch.cat([x, code.expand(len(x), -1, -1)], dim=-1))
        later = (
            nn.Transformer.generate_square_subsequent_mask(x.shape[1], x.device, x.dtype)
            if self.per_step
            else None
        )
        attended, _ = self.attention(
            steps, steps, steps, need_weights=False, attn_mask=later, is_causal=self.per_step
        )
        hidden = self.attention_norm(attended)
        outputs: Tensor = self.output_norm(hidden + self.feedforward(hidden))
        return outputs

    def pool(self, features: Tensor) -> Tensor:
        return features.mean(dim=1)

    def head(self, features: Tensor) -> Tensor:
        logits: Tensor = self.readout(features)
        return logits


def time_code(steps: int, positions: int) -> Tensor:
    r"""Sines and cosines of the time at several scales, (steps, positions) in double precision.

    .. math:: p_t = \big(\sin(\tau_t / \lambda_j)\big)_j \,,\, \big(\cos(\tau_t / \lambda_j)\big)_j

    with the time :math:`\tau_t` even on [0, 1] and the scales :math:`\lambda_j = T^{e_j}`, :math:`e_j` even
    on [0, 1].
    """
    scales = float(steps) ** torch.linspace(0, 1, positions // 2, dtype=torch.float64, device="cpu")
    angles = torch.linspace(0, 1, steps, dtype=torch.float64, device="cpu")[:, None] / scales
    return torch.cat([angles.sin(), angles.cos()], dim=-1)
