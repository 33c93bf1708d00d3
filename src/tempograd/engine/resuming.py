r"""Models that go on from their state: what many series begin with goes through such a model once.

After step :math:`t` a recurrent model knows nothing of a series but its state :math:`h_t`, so

.. math:: f(x_{0 \ldots T-1}) = f\big(x_{t \ldots T-1} \mid h_t(x_{0 \ldots t-1})\big)

exactly. Series that differ from each other late only, such as one with another single cell replaced in each copy,
share the states of their beginnings: half of the work on average. The steps go through the model a span at
a time, which also keeps what it computes inside a processor's cache.
"""

from typing import Protocol, TypeGuard, runtime_checkable

import torch
from torch import Tensor, nn

from tempograd.engine.batching import Chunks
from tempograd.engine.model import Model, undisturbed_by_others
from tempograd.engine.outputs import raw

SPAN = 25  # steps that go through the model at once
WIDER = 4  # times as many series at once as of a model that needs all their steps
EVEN = 16  # matrix products treat all rows alike when their number is a multiple of this


@runtime_checkable
class Resumable(Protocol):
    """A module whose class promises that ``forward`` is ``resume`` from no state, which is all it remembers."""

    @property
    def resumable(self) -> bool:
        """Whether that is true of this very object, whose parts may have been exchanged."""

    def resume(self, x: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the answer to more steps (rows, time, channel), and the state (rows, …) after them."""


def resumes(model: Model) -> TypeGuard[Resumable]:
    """Tell whether a model can go on from its state.

    The promise is that of one class: whoever changes what ``forward`` does, in a class derived from it or on the
    object, has to make it anew. Hooks on any part may want to see all steps at once.
    """
    if not isinstance(model, nn.Module) or "resume" not in type(model).__dict__ or model.training:
        return False
    hooked = any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())
    hooked = hooked or not undisturbed_by_others()
    return not hooked and "forward" not in model.__dict__ and bool(model.resumable)


def wider(chunks: Chunks, model: Model) -> Chunks:
    """Let more series begin together; what goes through the model at once is then still less than their steps."""
    if chunks.automatic and chunks.device.type == "cpu" and resumes(model):
        chunks.size *= WIDER
    return chunks


def spans(time: int) -> list[slice]:
    """Cut the steps of a series.

    Examples
    --------
    >>> spans(60)
    [slice(0, 25, None), slice(25, 50, None), slice(50, 60, None)]
    """
    return [slice(first, min(first + SPAN, time)) for first in range(0, time, SPAN)]


def answered(model: Model, z: Tensor, alike: Tensor | None = None) -> Tensor:
    """Call the model, without a gradient where the caller wants none.

    Parameters
    ----------
    model : Model
    z : Tensor of shape (series, time, channel)
    alike : LongTensor of shape (series, spans), optional
        Series with the same number in column s are equal from the first step to the end of span s.
    """
    if torch.is_grad_enabled() or z.device.type != "cpu" or not resumes(model):
        return raw(model, z)
    return raw(lambda z: _along(model, z, alike), z)


def _along(model: Resumable, z: Tensor, alike: Tensor | None) -> Tensor:
    answers: list[Tensor] = []
    state, member = None, torch.arange(len(z))  # of which group each series is
    for column, span in enumerate(spans(z.shape[1])):
        if alike is None:
            answer, state = model.resume(z[:, span], state)
            answers.append(answer)
            continue
        example, group = _groups(alike[:, column])
        answer, after = model.resume(z[example, span], None if state is None else state[member[example]])
        answers.append(answer[group])
        state, member = after, group
    return torch.cat(answers, 1) if answers[-1].ndim == 3 else answers[-1]


def _groups(label: Tensor) -> tuple[Tensor, Tensor]:
    """Return one series of each group, some of them again to make their number even, and the group of each."""
    kinds, group = torch.unique(label, return_inverse=True)
    example = torch.empty_like(kinds).scatter_(0, group, torch.arange(len(label)))
    more = -len(kinds) % EVEN if len(kinds) > 1 else 0
    return torch.cat([example, example[:1].expand(more)]), group


def nested(gone: Tensor, row: Tensor, way: Tensor | int = 0) -> Tensor:
    """Return the same number for states that lack the same cells up to the end of a span, (state, spans).

    Parameters
    ----------
    gone : Tensor of shape (state, time, channel)
        Which cells each state lacks.
    row : Tensor of shape (state,)
        Which series each state is of.
    way : Tensor of shape (state,), optional
        States of one series and one way lack sets that contain each other. So do the parts of these sets up to a
        step, and how many cells lie in such a part tells which it is.
    """
    ends = torch.tensor([span.stop - 1 for span in spans(gone.shape[1])], device=gone.device)
    count = gone.sum(2).cumsum(1)[:, ends]
    way = torch.as_tensor(way, device=gone.device).expand(len(gone))[:, None]
    owner = torch.where(count > 0, way, 0) + row[:, None] * (int(way.max()) + 1)
    return owner * (gone[0].numel() + 1) + count
