r"""What a model predicts at every step from the series up to it, and what it would predict with other values.

The prediction at step :math:`t` is the model's output for that step or, for a model with one output per series,
its answer to the prefix :math:`x_{0 \ldots t}`. Replacing a few values from step :math:`u` on changes nothing
before :math:`u`, so a recurrent model goes on from its remembered state: one step instead of a whole prefix.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from tempograd.engine.modules import Model, place
from tempograd.engine.prediction import default_class, raw
from tempograd.engine.question import Block, Question
from tempograd.engine.quiet import quiet
from tempograd.engine.stepping import State, Stepper, stepper
from tempograd.errors import ModelError

PROBES = 2  # series on which shortcuts are tried
STEPS = 16  # single steps that count as one sequence: with more of them at once a CPU leaves its cache


class Prefixes:
    """The predictions of a few series at every step.

    Parameters
    ----------
    question : Question
    block : Block
        Settled, so that it is known whether the model has one output per step.
    size : int
        Sequences that may go through the model at once.
    fast : bool, default=True
        Whether a recurrent model goes on from remembered states.

    Attributes
    ----------
    outputs : Tensor of shape (series, time, class)
        The prediction at every step.
    default : Tensor of shape (series, time)
        The class that is explained at every step where nobody asked for one.
    columns : int
        How many the model answers with; one may stand for two classes.
    """

    def __init__(self, question: Question, block: Block, size: int, *, fast: bool = True) -> None:
        self.question, self.block, self.size = question, block, size
        self._per_step = question.per_step
        self._stepper = _find_stepper(question, block) if fast else None
        self._states: State = []
        with torch.no_grad():
            answer = self._read()
            self.outputs, self.columns = question.linked(answer), answer.shape[-1]
        picked = callable(question.asked_target)  # from the model's own columns
        self.default = answer.argmax(-1) if picked else default_class(answer, question.output)

    def starts(self, candidates: int, length: int) -> Iterator[slice]:
        """Cut the steps into runs for which all ``candidates`` windows of all series fit through the model."""
        series, time, _ = self.block.x.shape
        room = self.size * (min(STEPS, max(1, time // length)) if self._stepper else 1)
        count = max(1, room // (series * candidates))
        for first in range(0, time, count):
            yield slice(first, min(time, first + count))

    @torch.no_grad()
    def replaced(self, starts: slice, windows: Tensor) -> Tensor:
        """Predict with other values.

        Parameters
        ----------
        starts : slice
            Steps at which windows begin.
        windows : Tensor of shape (series, starts, candidates, length, channel)
            What the series holds from there on; what lies beyond the end of the series is not looked at.

        Returns
        -------
        Tensor of shape (series, starts, candidates, length, class)
            The predictions at the steps of the window, each from the values up to it; 0 beyond the end.
        """
        shape = windows.shape[:4]
        if self._stepper is not None:
            answer = self._step_on(starts, windows)
        elif self._per_step:
            answer = self._whole(starts, windows)
        else:
            answer = self._prefix_by_prefix(starts, windows)
        answer = self.question.linked(answer.reshape(*shape, -1))
        reached = torch.arange(starts.start, starts.stop)[:, None] + torch.arange(shape[3])
        inside = (reached < self.block.x.shape[1]).to(answer.device)
        return answer * inside[:, None, :, None]

    def require_past(self, method: str) -> None:
        """Refuse a model whose prediction at a step depends on later steps."""
        x, time = self.block.x[:PROBES], self.block.x.shape[1]
        if not self._per_step or self._stepper is not None or time < 2:
            return
        half = time // 2
        with torch.no_grad():
            changed = raw(self.question.model, torch.cat([x[:, :half], x[:, half:] + 1], 1))
            same = raw(self.question.model, x)
        if not torch.allclose(changed[:, :half], same[:, :half], rtol=1e-3, atol=1e-5):
            raise ModelError(
                f"{method} needs predictions from the past alone, but this model's output at a step depends on "
                "later steps: use occlusion or integrated_gradients."
            )

    def _read(self) -> Tensor:
        x, model = self.block.x, self.question.model
        if self._stepper is not None:
            answers, self._states = self._stepper.walk(x)
            return answers
        if self._per_step:
            return raw(model, x)
        return torch.stack([_last(self.question, x[:, : t + 1]) for t in range(x.shape[1])], 1)

    def _step_on(self, starts: slice, windows: Tensor) -> Tensor:
        candidates, length = windows.shape[2:4]
        rows = windows.flatten(0, 2)
        state: State = [tuple(_rows(part[starts]) for part in layer) for layer in self._states]
        answers = []
        for step in range(length):
            shared = candidates if step == 0 else 1  # afterwards each candidate has its own past
            answer, state = self._stepper.step(rows[:, step], state, shared)  # type: ignore[union-attr]  # found
            answers.append(answer)
        return torch.stack(answers, 1)

    def _whole(self, starts: slice, windows: Tensor) -> Tensor:
        """Put the windows into the whole series and read the outputs at their steps."""
        series, count, candidates, length, channels = windows.shape
        time = self.block.x.shape[1]
        padded = torch.nn.functional.pad(self.block.x, (0, 0, 0, length))
        z = padded[:, None, None].repeat(1, count, candidates, 1, 1)
        places = torch.arange(starts.start, starts.stop)[:, None] + torch.arange(length)
        index = places.to(z.device)[None, :, None, :, None]
        z.scatter_(3, index.expand(series, count, candidates, length, channels), windows)
        answer = raw(self.question.model, z[..., :time, :].flatten(0, 2))
        answer = torch.nn.functional.pad(answer, (0, 0, 0, length)).view(
            series, count, candidates, time + length, -1
        )
        return answer.gather(3, index.expand(series, count, candidates, length, answer.shape[-1]))

    def _prefix_by_prefix(self, starts: slice, windows: Tensor) -> Tensor:
        series, count, candidates, length, _ = windows.shape
        x, time = self.block.x, self.block.x.shape[1]
        answers = torch.zeros(series, count, candidates, length, self.columns).to(self.outputs)
        for i, start in enumerate(range(starts.start, starts.stop)):
            past = x[:, None, :start].expand(-1, candidates, -1, -1)
            for step in range(min(length, time - start)):
                z = torch.cat([past, windows[:, i, :, : step + 1]], 2).flatten(0, 1)
                answers[:, i, :, step] = _last(self.question, z).view(series, candidates, -1)
        return answers


@torch.no_grad()
def at_every_step(question: Question, block: Block, z: Tensor) -> Tensor:
    """Return the raw prediction at every step of series like the block's, (rows, time, column)."""
    found = _find_stepper(question, block)
    if found is not None:
        return found.answers(z)
    if question.per_step:
        return raw(question.model, z)
    return torch.stack([_last(question, z[:, : t + 1]) for t in range(z.shape[1])], 1)


def _last(question: Question, z: Tensor) -> Tensor:
    """Return the raw answer to prefixes, (rows, class)."""
    try:
        return raw(question.model, z)
    except (RuntimeError, AssertionError) as error:  # the latter by exported programs
        if z.shape[1] == question.x.shape[1] or isinstance(error, torch.OutOfMemoryError):
            raise
        raise _rejected(z.shape[1], question.x.shape[1], error) from error


def require_prefixes(model: Model, x: Tensor) -> None:
    """Refuse, before anything is learnt, a model that does not answer the first step of the series ``x``."""
    device, dtype = place(model, x)
    with quiet(model), torch.no_grad():
        try:
            raw(model, x[:1, :1].to(device, dtype))
        except (RuntimeError, AssertionError) as error:
            raise _rejected(1, x.shape[1], error) from error


def _rejected(steps: int, time: int, error: Exception) -> ModelError:
    return ModelError(
        f"This method needs predictions on prefixes, but the model rejects the first {steps} of {time} steps "
        f"({str(error).splitlines()[0]}): use a method that explains the final prediction, such as occlusion."
    )


def _find_stepper(question: Question, block: Block) -> Stepper | None:
    """Try once per question whether the model can go on from remembered states."""
    if "stepper" not in question.shortcuts:
        x, time = block.x[:PROBES], block.x.shape[1]
        times = sorted({0, min(1, time - 1), time // 2, time - 1})
        with torch.no_grad():
            if question.per_step:
                expected = raw(question.model, x)[:, times]
            else:
                expected = torch.stack([_last(question, x[:, : t + 1]) for t in times], 1)
            question.shortcuts["stepper"] = stepper(question.model, x, expected, times)
    found: Stepper | None = question.shortcuts["stepper"]
    return found


def _rows(state: Tensor) -> Tensor:
    """Bring states (starts, depth, series, size) to the order of windows, (depth, series · starts, size)."""
    return state.permute(1, 2, 0, 3).flatten(1, 2).contiguous()
