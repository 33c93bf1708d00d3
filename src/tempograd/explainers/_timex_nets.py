"""The small networks of TimeX and TimeX++: which cells to keep, and what the kept cells become."""

import torch
from torch import Tensor, nn

CODE = 16  # numbers that tell a step's place in time
NEVER = 1e-9  # keeps the odds of a mask finite


def time_code(time: int) -> Tensor:
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
    asks the encoder. One linear layer turns each step's state into one probability per channel.
    """

    code: Tensor

    def __init__(self, time: int, channels: int) -> None:
        super().__init__()
        self.time, self.channels = time, channels
        width = channels + CODE
        self.register_buffer("code", time_code(time))
        self.encoder = nn.TransformerEncoderLayer(width, 1, 72, 0.25, batch_first=True)
        layer = nn.TransformerDecoderLayer(width, 1, 32, 0.1, batch_first=True)
        self.decoder = nn.TransformerDecoder(layer, 2)
        self.head = nn.Linear(width, channels if channels > 1 else 2)
        nn.init.xavier_uniform_(self.head.weight)
        nn.init.constant_(self.head.bias, 0.01)

    def forward(self, x: Tensor, padding: Tensor | None = None, *, across: bool = False) -> Tensor:
        """Return the probability that each cell is kept.

        ``padding`` (N, T) is True for steps that nobody may look at. ``across`` lets the attention run over
        the series instead of over the steps, as the released code does when it explains (B3).
        """
        code = self.code.expand(len(x), -1, -1)
        asked, asking = torch.cat([code, x], -1), torch.cat([x, code], -1)
        if across:
            asked, asking, padding = asked.transpose(0, 1), asking.transpose(0, 1), None
        memory = self.encoder(asked, src_key_padding_mask=padding)
        state = self.decoder(asking, memory, tgt_key_padding_mask=padding, memory_key_padding_mask=padding)
        answer: Tensor = self.head(state)
        p = answer.sigmoid() if self.channels > 1 else answer.softmax(-1)[..., 1:]
        return p.transpose(0, 1) if across else p


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
