"""What is asked of a model: series and a question about them, checked, in blocks on the device, with baselines."""

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, Self, cast

import torch
from torch import Tensor

from tempograd.core import validation
from tempograd.core.errors import InputError, ModelError, arg
from tempograd.core.question import Question
from tempograd.core.rng import FAR, Stream, bits, keys, split
from tempograd.engine import outputs
from tempograd.engine.batching import CELLS, DEFAULT, Batching, slices, suits_cpu
from tempograd.engine.cuda import HostWriter
from tempograd.engine.model import Model, modules_of, place
from tempograd.engine.predictor import Call, forward
from tempograd.targets import TargetScore
from tempograd.typing import Picker

FINE = 22  # bits of a place within a part: with the part and the row, no product leaves 64 bits
HASHED = 2**22  # cells that are hashed at once
WORDS = {torch.float64: torch.int32, torch.float32: torch.int32}  # others are half as wide
LOOKS, LOOKED = 16, 1 << 10  # series whose mean score stands for that of the pool, and the stage that draws them

Starts = Callable[[slice], Tensor]
"""Looks up what some samples of each series are compared with, (series, samples, time, channel)."""


class Block(NamedTuple):
    """A few series on the model's device. Cells that were not observed have their own value as baseline."""

    rows: slice
    x: Tensor  # (series, time, channel)
    baseline: Tensor
    observed: Tensor
    ids: Tensor  # (series,)
    lengths: Tensor  # (series,)
    index: Tensor  # type: ignore[assignment]  # (series,), which of all series they are; hides tuple.index
    target: Tensor | Picker | None = None  # (series,), (series, time) or a function; None before it was read
    steps: Tensor | Literal["own"] | None = None  # (series, time), "own" or None
    clean_score: Tensor | None = None  # (series, …): score of the series themselves, known with the target
    background: "Background | None" = None  # whose values samples are compared with, instead of the baseline

    def take(self, kept: Tensor) -> "Block":
        """Go on with some of the series; ``rows`` stays that of all."""
        return Block(*(part[kept] if isinstance(part, Tensor) else part for part in self))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Background:
    r"""A pool of series, in the order of their marks, from which the baselines of samples are drawn.

    Rows of the pool are drawn anew for every sample. For :math:`n` samples and a pool of :math:`R` rows the range
    of rows is cut into :math:`n` equal parts, which go to the samples in random order, and

    .. math:: r_i = \Big\lfloor \frac{R \, (\pi_i + u_i)}{n} \Big\rfloor, \qquad u_i \sim \mathrm{U}(0, 1),

    with a random permutation :math:`\pi`: each row is as likely as any other for every sample, and over all
    samples of a series no row comes much more often than another, so that a pool larger than the samples gives
    each row once at most, up to the edges of the parts. Rows are in the order of a hash of their values: neither
    the order of the pool nor the company of a series changes a draw. Rows that equal the explained series in
    every cell lie next to each other in that order and are left out.
    """

    pool: Tensor  # (rows, time, channel), as the model is called with them
    marks: Tensor  # (rows,), hashes of the rows, in order
    mean: Tensor  # (time, channel), in double precision as the next
    spread: Tensor  # (time, channel), variance over the rows
    seed: int
    purpose: Stream

    @classmethod
    def of(cls, pool: Any, x: Tensor, seed: int, place: tuple[torch.device, torch.dtype], purpose: Stream) -> Self:
        """Lay a pool ready for series ``x``, as the model is called with them, on its device if there is room."""
        device, dtype = place
        pool = validation.check_series(pool, "background")
        if pool.shape[1:] != x.shape[1:]:
            raise InputError(
                f"The background series have shape {tuple(pool.shape[1:])}, x has {tuple(x.shape[1:])}: pass "
                f"series of the same length and channels as {arg:question.background}."
            )
        pool = pool.to(dtype) if pool.numel() > CELLS else pool.to(device, dtype)
        marks, order = marks_of(pool).sort(stable=True)
        alike = bool(marks[0] == marks[-1])
        if alike and bool((marks_of(x.to(dtype)).to(marks.device) == marks[0]).any()):
            raise InputError(
                f"{arg:question.background} holds nothing but the explained series itself: pass others, such as "
                "training series."
            )
        pool = pool[order]
        mean = pool.mean(0, dtype=torch.float64)
        some = slices(len(pool), max(1, HASHED // pool[0].numel()))
        spread = sum((pool[rows].double() - mean).square().sum(0) for rows in some) / len(pool)
        return cls(pool, marks.to(device), mean.to(device), spread.to(device), seed, purpose)

    @property
    def fingerprint(self) -> str:
        """Name the pool by a hash of its values, whatever their order."""
        return f"{len(self.pool)} series:{hashlib.sha256(self.marks.cpu().numpy().tobytes()).hexdigest()[:16]}"

    def starts(self, block: Block, samples: int, stage: int = 0, *, group: int | None = None) -> Starts:
        """Draw for each sample of the series of a block what it is compared with.

        Cells that were not observed stay what they are. Each ``stage`` has draws of its own. Draws are spread
        evenly over the samples of a stage, or over those of each ``group``, whatever number of samples there are.
        """
        stages = [stage] if group is None else range(-(-samples // group))
        parts = [self.rows(block.x, block.ids, group or samples, each) for each in stages]
        rows = torch.cat(parts, 1).to(self.pool.device)

        def look_up(batch: slice) -> Tensor:
            drawn = self.pool[rows[:, batch]].to(block.x.device)
            return torch.where(block.observed[:, None], drawn, block.x[:, None])

        return look_up

    def rows(self, x: Tensor, ids: Tensor, samples: int, stage: int = 0) -> Tensor:
        """Return the rows of the pool that each sample of some series gets, (series, samples)."""
        stream = keys(self.seed, ids, self.purpose)
        if stage:
            stream = split(stream, FAR - stage)
        first, stop = self._own(x)
        number = FAR + torch.arange(samples, device=ids.device)
        part = bits(stream[..., None], number).argsort(dim=1, stable=True)
        place = (part << FINE) + (bits(stream[..., None], number + samples) >> (32 - FINE))
        row = place * (len(self.pool) - (stop - first)) // (samples << FINE)
        return row + torch.where(row >= first, stop - first, 0)

    def displacement(self, block: Block) -> Tensor:
        """Return how far the cells of some series are from the pool: root mean squares, 0 where not observed."""
        return (self.spread + (block.x.double() - self.mean).square()).sqrt().to(block.x).where(block.observed, 0)

    def mean_step(self, block: Block) -> Tensor:
        """Return how far they are from the mean of what can be drawn for them, 0 where not observed."""
        first, stop = self._own(block.x)
        share = len(self.pool) / (len(self.pool) - (stop - first)).double()  # of the pool, the rest
        return ((block.x.double() - self.mean) * share[..., None]).to(block.x).where(block.observed, 0)

    def _own(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return from and up to which row the pool holds each series itself, (series, 1)."""
        marks = marks_of(x)
        first, stop = (torch.searchsorted(self.marks, marks, right=right)[:, None] for right in (False, True))
        return first, stop


def marks_of(x: Tensor) -> Tensor:
    """Hash the values of each series, (series,): a sum over cells of keyed permutations of their bits.

    Examples
    --------
    >>> x = torch.tensor([[[0.5], [2.0]], [[2.0], [0.5]], [[0.5], [2.0]]])
    >>> one, other, same = marks_of(x)
    >>> bool(one == same), bool(one == other)
    (True, False)
    """
    cells = (x.flatten(1) + 0.0).contiguous().view(WORDS.get(x.dtype, torch.int16))  # no bit may tell -0 from 0
    stream = keys(0, torch.arange(cells.shape[1], device=x.device), Stream.MARKS)
    other = split(stream, 1)
    parts = []
    for rows in slices(len(x), max(1, HASHED // cells.shape[1])):
        word = cells[rows].to(torch.int64) & 0xFFFFFFFF
        high, low = (bits(each[:, None], word).sum(1) for each in (stream, other))
        parts.append(((high & 0x7FFFFFFF) << 32) | (low & 0xFFFFFFFF))
    return torch.cat(parts)


class Reading(NamedTuple):
    """What a captured pass tells of the clean series of a block."""

    findings: Tensor
    target: Tensor  # (series,)
    score: Tensor  # (series,)


@dataclass(frozen=True, eq=False)
class Resolved:
    """What the first output of the model tells, and the question that it completes."""

    task: str | None
    shape: tuple[int, ...]  # of one output with several axes, whose cells are then the columns
    axis: int  # from which on the axes of raw outputs are flattened to columns
    columns: int  # numbers per series, or step
    per_step: bool
    target: Tensor | Picker  # the predicted classes are written there, block by block
    steps: Tensor | Literal["own"] | None
    averaged: tuple[int, ...] = ()  # shape of an output whose mean is explained, since no target was asked for


@dataclass(eq=False)
class AskProgress:
    """What passes have told so far."""

    resolved: Resolved | None = None
    prediction: Tensor | None = None  # (series,), the explained score of each as it is; NaN before it was read
    fits: bool = False  # whether the model took several series at once
    findings: outputs.Findings = field(default_factory=outputs.Findings)
    host_writer: HostWriter = field(default_factory=HostWriter)


@dataclass(frozen=True, eq=False)
class Ask:
    """A model, series and a question about one target, or about several, checked.

    The target is fixed on the clean series, which are read together with the first path points: a pass
    of their own would double the waiting time for a single series.
    """

    model: Model
    x: Tensor
    baseline: Tensor
    mask: Tensor | None
    lengths: Tensor
    ids: Tensor
    question: Question  # names of outputs are numbers here
    output: str  # what is applied to the model's raw outputs
    seed: int
    time: int  # how many steps the series have: of several inputs, the first that has time
    device: torch.device
    dtype: torch.dtype
    precision: torch.dtype  # to compute scores in: that of the model, but no less than single
    batch_size: int | None = None
    task: str | None = None  # what the output is, where somebody said it
    call: Call = field(default_factory=Call)
    named_baseline: bool = False  # whether the caller chose the baseline, which no learnt one replaces then
    classes: Sequence[str] | None = None  # names of the outputs, whose number is checked once it is known
    checked: bool = False  # whether the gradient is compared with differences of the score
    background: Background | None = None  # other series that are the baseline, whose mean is then ``baseline``
    several: tuple["Ask", ...] = ()  # one for each target, where there are several
    shortcuts: dict[str, Any] = field(default_factory=dict)  # what was found out about the model
    progress: AskProgress = field(default_factory=AskProgress)

    @classmethod
    def create(
        cls,
        model: Model,
        x: Any,
        question: Question,
        *,
        mask: Any = None,
        empty: float | None = 0,
        seed: int = 0,
        ids: Any = None,
        task: str | None = None,
        classes: Sequence[str] | None = None,
        call: Call | None = None,
        where: tuple[torch.device, torch.dtype] | None = None,
        **more: Any,
    ) -> Self:
        """Check a question about series; the model must already be frozen.

        The series go to it in the precision and on the device of its weights, or as ``where`` says.
        """
        if question.output is not None:
            validation.check_choice(question.output, "output", outputs.OUTPUTS)
        question = replace(question, target=outputs.named_target(question.target, classes))
        x = validation.check_series(x, gaps=mask is not None)
        observed = None if mask is None else validation.check_mask(mask, x)
        x, observed, absent = validation.without_gaps(x, observed, question.baseline, "baseline", empty)
        device, dtype = where or place(model, x)
        call = call or Call()
        series = call.series_of(x)
        return cls(
            model=model,
            x=x,
            baseline=absent,
            mask=observed,
            lengths=validation.lengths(None if observed is None else call.series_of(observed), series),
            ids=torch.arange(len(x)) if ids is None else ids,
            question=question,
            output=outputs.link_for(question.output, task),
            seed=validation.check_int(seed, "seed"),
            time=series.shape[1],
            device=device,
            dtype=dtype,
            precision=torch.promote_types(dtype, torch.float32),
            task=task,
            call=call,
            classes=classes,
            **more,
        )

    def replace(self, **changes: Any) -> Self:
        """Return a fresh ask that differs in some of its parts, or in its question's."""
        asked = {name: changes.pop(name) for name in ("target", "steps") if name in changes}
        return replace(self, question=replace(self.question, **asked), progress=AskProgress(), **changes)

    def each(self) -> list["Ask"]:
        """Return an ask for each target; they differ in nothing else, so one pass of the model serves all."""
        return list(self.several) or [self]

    @property
    def resolved(self) -> Resolved:
        """Return what the first pass told."""
        return cast("Resolved", self.progress.resolved)

    @property
    def observed_cells(self) -> Tensor:
        """Return how many cells of each series were observed, (series,)."""
        if self.mask is None:
            return torch.full((len(self.x),), self.x[0].numel())
        return self.mask.flatten(1).sum(1).cpu()

    @property
    def batching(self) -> Batching:
        """Return fresh batching: how much goes through the model at once."""
        return self.gradient_batching(0)

    def gradient_batching(self, targets: int) -> Batching:
        """Return the same for passes with a gradient; what is kept of their points is kept of each target."""
        cells = self.x[0].numel() * max(1, targets // 2)  # a pass itself takes as much as two targets
        on_cpu = DEFAULT
        if targets and self.device.type == "cpu":
            on_cpu = suits_cpu(modules_of(self.model), self.x.shape[1], self.x.shape[2], self.dtype)
        return Batching(self.device, cells, self.batch_size, on_cpu)

    def block(self, rows: slice) -> Block:
        """Bring some series to the model's device."""
        x = self.x[rows].to(self.device, self.dtype).contiguous()  # methods write into flat views of it
        baseline = self.baseline[rows]
        baseline = validation.unexpanded(baseline).to(self.device, self.dtype).expand_as(baseline)
        if self.mask is None:
            observed = torch.ones((), dtype=torch.bool, device=self.device).expand_as(x)
        else:
            observed = self.mask[rows].to(self.device)
            baseline = torch.where(observed, baseline, x)
        ids, lengths, index = (part[rows] for part in self._on_device)
        return Block(rows, x, baseline, observed, ids, lengths, index, background=self.background)

    @cached_property
    def _on_device(self) -> tuple[Tensor, Tensor, Tensor]:
        """Ids, lengths and rows on the device, sent there once: a copy per block would make the host wait."""
        ids, lengths = (part.to(self.device, non_blocking=True) for part in (self.ids, self.lengths))
        return ids, lengths, torch.arange(len(self.ids), device=self.device)

    def read(self, block: Block, raw: Tensor, known: Reading | None = None) -> Block:
        """Take the model's raw output for the clean series of a block: fix their target.

        ``known`` is what a captured pass, which has one output per series, has already told of it.
        """
        progress = self.progress
        resolved = progress.resolved = progress.resolved or self.resolve(raw)
        raw, target, steps = raw.detach(), resolved.target, resolved.steps
        progress.findings.add(raw, block.rows.start, None if known is None else known.findings)
        if isinstance(resolved.target, Tensor) and self.question.target is None:
            columns = raw.flatten(resolved.axis)
            target = outputs.default_class(columns, self.output) if known is None else known.target
            progress.host_writer.write(resolved.target, block.rows, target)
        elif isinstance(target, Tensor):
            target = target[block.rows].to(self.device)
        if isinstance(steps, Tensor):
            steps = steps[block.rows].to(self.device)
        block = block._replace(target=target, steps=steps)
        score = self.score(self.apply_link(raw), block, 1, block.x) if known is None else known.score
        if callable(target):
            progress.findings.picked.append(score.detach().sum(dtype=torch.float64))
        if score.ndim == 1:
            if progress.prediction is None:
                progress.prediction = torch.full((len(self.x),), torch.nan, device=self.x.device)
            progress.host_writer.write(progress.prediction, block.rows, score.detach())
        return block._replace(clean_score=score)

    def read_all(self) -> None:
        """Read all clean series, for methods that have no use for their own passes."""

        def work(rows: slice, _: int) -> None:
            self.with_target(self.block(rows))

        self.batching.run(len(self.x), 1, work, "read the predictions")
        self.progress.host_writer.flush()

    def with_target(self, block: Block) -> Block:
        """Return a block with its target known: read its clean series in a pass of their own."""
        return with_targets([self], block)[0]

    def verify_once(self) -> None:
        """Verify the first block's outputs, so that a long run fails early; waits for no later work."""
        self.progress.findings.verify(self.output, self.x.shape[1:], first=True)

    def verify(self, values: Tensor) -> None:
        """Refuse NaN and probabilities among the clean outputs, and NaN among the results.

        This waits for the device, so it comes after all other work has been sent to it.
        """
        self.progress.host_writer.flush()
        total = values.sum(dtype=torch.float64)
        self.progress.findings.verify(self.output, self.x.shape[1:])
        if not math.isfinite(total):
            raise ModelError("The model's gradient is NaN or infinite on the path from the baseline to x.")

    def apply_link(self, raw: Tensor) -> Tensor:
        """Return one number per class from raw outputs; a function gets the model's own columns to pick from."""
        resolved = self.resolved
        if callable(resolved.target):
            return outputs.apply_link(raw, self.output)
        return outputs.by_class(raw.flatten(resolved.axis), self.output)

    def raw_outputs(self, z: Tensor, block: Block) -> Tensor:
        """Return what the model says about ``z``, (series, points, time, channel): (series, points, …, column)."""
        raw = self.forward(z.flatten(0, 1), block.index.repeat_interleave(z.shape[1]))
        return raw.reshape(*z.shape[:2], *raw.shape[1:])

    @torch.no_grad()
    def scores(self, z: Tensor, block: Block) -> Tensor:
        """Return the explained score of each ``z``, (series, points), without a gradient.

        For ``steps="own"`` it is the score of each step, (series, points, time). The block's target must be known.
        """
        return self.scores_of(self.raw_outputs(z, block), block, z)

    def scores_of(self, raw: Tensor, block: Block, z: Tensor) -> Tensor:
        """Return the same from what :meth:`raw_outputs` told of ``z``."""
        score = self.score(self.apply_link(raw).flatten(0, 1), block, z.shape[1], z.flatten(0, 1))
        return score.view(*z.shape[:2], *score.shape[1:])

    def score(self, linked: Tensor, block: Block, points: int, z: Tensor | None = None) -> Tensor:
        """Return the explained score from the linked outputs of some points of each series, in their order.

        ``z`` are the points, (series · points, time, channel), for scores that depend on them too.
        """
        target, observed = cast("Tensor | Picker", block.target), None  # known once the block was read
        if isinstance(target, Tensor):
            target = target.repeat_interleave(points, 0)
        elif z is not None and getattr(target, "takes_input", False):
            z, observed = map(self.call.series_of, (z, block.observed.repeat_interleave(points, 0)))
            linked = self.call.turned_back(linked)
        score = outputs.select_target(linked, target, z, observed)
        if isinstance(block.steps, Tensor):
            score = (score * block.steps.repeat_interleave(points, 0)).sum(-1)
        return score

    def at(self, rows: Tensor) -> Model:
        """Return the model as a function of series that are these ``rows`` of all, where that matters."""
        return self.model.at(rows) if self.call.by_row else self.model  # type: ignore[attr-defined]  # Adapted

    def forward(self, z: Tensor, rows: Tensor) -> Tensor:
        """Call the model with ``rows`` of the series; where the very first do not fit it, say so in one sentence.

        One series that did fit says nothing of several.
        """
        progress = self.progress
        shape = None if progress.fits else self.x.shape
        raw = forward(self.at(rows), z, shape, per_step=outputs.outputs_of(self.task).per_step)
        progress.fits = progress.fits or len(z) > 1
        progress.resolved = progress.resolved or self.resolve(raw)
        return raw

    def resolve(self, raw: Tensor) -> Resolved:
        """Find out from the first output what kind of output the model has, and complete target and steps."""
        whole, asked, output = tuple(raw.shape[1:]), self.question, self.output
        if asked.steps is not None and callable(asked.target):
            raise InputError(
                f"{arg:question.steps} cannot be combined with a function as target: pick them there.",
                code="steps.function",
            )
        task = outputs.found_task(self.task, asked, whole, self.time)
        row = outputs.outputs_of(task)
        per_step = row.per_step and len(whole) == 2 and whole[0] == self.time
        if asked.steps is not None and not per_step:
            raise InputError(
                f"{arg:question.steps} is for models with one output per time step, "
                f"{arg:predictor.task=per_step}, and the task is {task!r}: pass {arg:question.target} to choose "
                "an output."
            )
        columns = row.columns(whole)
        validation.check_classes(self.classes, outputs.class_count(columns, output))
        usual = row.target if asked.target is None and columns > 1 else None
        if usual == "none":
            choice = f"an address such as {(0,) * len(whole)}" if len(whole) > 1 else f"0 to {columns - 1}"
            raise InputError(
                f"The model returns {columns} numbers per series, and the task {task!r} has no predicted class to "
                f"choose one by: pass {arg:question.target}, {choice}."
            )
        target = usual if isinstance(usual, TargetScore) else asked.target
        averaged = whole if target is not asked.target else ()
        axes = () if callable(target) or per_step or len(whole) == 1 else whole
        axis = -max(1, len(axes))
        shape = (len(self.x), *([] if axes else whole[:-1]))
        if callable(target):
            return Resolved(task, axes, axis, columns, per_step, target, None, averaged)
        chosen = torch.zeros(shape, dtype=torch.int64, device=self.x.device)  # of the predicted class
        if target is not None:
            chosen = outputs.resolve_target(target, shape, columns, output, axes)
        steps = outputs.resolve_steps(asked.steps, self.lengths, raw.flatten(axis), shown=self.call.lengths)
        return Resolved(task, axes, axis, columns, per_step, chosen, steps, averaged)


# Several targets of the same series: their asks differ in nothing else, so one pass of the model serves all


@torch.no_grad()
def with_targets(asks: Sequence[Ask], block: Block) -> list[Block]:
    """Return a block for each ask, its target known: the clean series are read once."""
    raw = asks[0].forward(block.x, block.index)
    return [ask.read(block, raw) for ask in asks]


@torch.no_grad()
def all_scores(asks: Sequence[Ask], z: Tensor, blocks: Sequence[Block]) -> list[Tensor]:
    """Return for each ask what :meth:`Ask.scores` returns, from one pass."""
    raw = asks[0].raw_outputs(z, blocks[0])
    return [ask.scores_of(raw, block, z) for ask, block in zip(asks, blocks, strict=True)]


def score_delta(ask: Ask) -> Tensor | None:
    """Return the score of each series minus that of its baseline, (series,), for methods that do not read it.

    Where other series are the baseline, that is the mean score of a few of them.

    None for ``steps="own"``, where no one number is it.
    """
    found = torch.zeros(len(ask.x), device=ask.x.device)

    def work(rows: slice, _: int) -> None:
        block = ask.with_target(ask.block(rows))
        if block.clean_score is not None and block.clean_score.ndim == 1:
            starts = block.baseline[:, None]
            if block.background is not None:
                starts = block.background.starts(block, LOOKS, LOOKED)(slice(0, LOOKS))
            ask.progress.host_writer.write(found, rows, block.clean_score - ask.scores(starts, block).mean(1))

    ask.batching.run(len(found), 1 if ask.background is None else LOOKS, work, "read the change of the prediction")
    ask.progress.host_writer.flush()
    return None if isinstance(ask.resolved.steps, str) else found
