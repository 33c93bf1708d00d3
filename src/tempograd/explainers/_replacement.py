"""A small network that learns what to put in the place of a value, shared by all series it is trained on."""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, pad
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from tempograd.engine import Block, Question

Net = TypeVar("Net", bound=nn.Module)


class Replacement(nn.Module):
    """A bidirectional GRU as wide as the series, its states scaled to length 1, and a linear layer."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gru = nn.GRU(channels, channels, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * channels, channels)

    def forward(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        """Return replacements; ``lengths`` (on the CPU) keeps the way back in time from padding."""
        if lengths is None:
            states = self.gru(x)[0]
        else:
            packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            states, _ = pad_packed_sequence(self.gru(packed)[0], batch_first=True, total_length=x.shape[1])
        answer: Tensor = self.head(normalize(states, dim=-1))
        return answer


class Trend(nn.Module):
    """One network per channel that sees its whole course: time to 32 to time, all channels at once."""

    HIDDEN = 32

    def __init__(self, time: int, channels: int) -> None:
        super().__init__()
        self.time = time
        self.first = _uniform(time, channels, time, self.HIDDEN)
        self.first_bias = _uniform(time, channels, self.HIDDEN)
        self.second = _uniform(self.HIDDEN, channels, self.HIDDEN, time)
        self.second_bias = _uniform(self.HIDDEN, time, channels)

    def forward(self, x: Tensor) -> Tensor:
        """Return the trend of the first ``time`` steps and 0 for padding after them."""
        hidden = (torch.einsum("ntd,dth->ndh", x[:, : self.time], self.first) + self.first_bias).relu()
        trend = torch.einsum("ndh,dht->ntd", hidden, self.second) + self.second_bias
        return pad(trend, (0, 0, 0, x.shape[1] - self.time))


def _uniform(inputs: int, *shape: int) -> nn.Parameter:
    """Weights as a linear layer with so many inputs has them at first."""
    return nn.Parameter(torch.empty(shape).uniform_(-(inputs**-0.5), inputs**-0.5))


def seeded(question: Question, dtype: torch.dtype, make: Callable[[], Net]) -> Net:
    """Make a network whose first weights depend on the seed alone, on the model's device."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(question.seed & 0x7FFFFFFFFFFFFFFF)
        return make().to(question.device, dtype)


def ends(question: Question, block: Block) -> Tensor | None:
    """Return the lengths of a block's series on the CPU, None if none is padded."""
    lengths = question.lengths[block.rows]
    return None if bool((lengths == question.x.shape[1]).all()) else lengths.clamp(min=1)
