"""The result of an explainer: signed scores with error bars, and everything needed to use them again."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack, cast, overload

import torch
from torch import Tensor

from tempograd.core import stats, validation
from tempograd.core.errors import InputError, TempogradError, brief, printable, warn
from tempograd.core.estimate import GradientCheck, relative_error
from tempograd.core.findings import Finding
from tempograd.core.registry import joined
from tempograd.core.stamps import check_times, is_nested
from tempograd.engine import Call, Model, class_count, fingerprint
from tempograd.engine.guesses import written
from tempograd.explanation import files, messages, targets
from tempograd.explanation.answers import Blocks, Top, as_table, stacked
from tempograd.targets import TargetScore, from_spec
from tempograd.typing import (
    Array,
    ArrayLike,
    BlockSteps,
    DescribeOptions,
    Output,
    Picker,
    SeriesPlotOptions,
    Target,
    Task,
    Times,
)
from tempograd.version import __version__

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Facts:
    """What a method promises about its scores; by default nothing, as where nobody knows the method.

    Attributes
    ----------
    complete : bool
        Whether the scores sum to the explained score of the series minus that of its baseline.
    deterministic : bool, optional
        Whether the seed makes no difference; None if nobody knows.
    needs_gradient : bool
        Whether the scores come from gradients.
    adaptive : bool
        Whether ``tolerance=`` can be passed, and then stops each series where its error is small enough.
    unit : str
        The setting that buys accuracy, such as ``"n_samples"``; empty if there is none.
    """

    complete: bool = False
    deterministic: bool | None = None
    needs_gradient: bool = True
    adaptive: bool = False
    unit: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "unit", printable(self.unit))
        for name, value in vars(self).items():
            kinds = {"unit": str, "deterministic": bool | None}.get(name, bool)
            if not isinstance(value, kinds):
                raise InputError(f"{name} of a method cannot be {brief(value)}.")


CELLS = ("values", "baseline", "mask", "x", "raw", "standard_error", "n_draws", "ess")
ROWS = (
    "target",
    "steps",
    "ids",
    "n_evals",
    "delta",
    "prediction",
    "curve_error",
)  # one entry, or one row, per series
TENSORS = (*CELLS, *ROWS, "curve_samples")
FLOATS = ("baseline", "x", "raw", "standard_error", "delta", "prediction", "curve_error")
KINDS = dict.fromkeys(FLOATS, "floats")
KINDS |= {"mask": "bool", "steps": "bool", "ids": "integers", "target": "integers"}
UNBOUNDED = ("delta", "curve_error", "raw")  # where there may be no number; raw is checked by itself
LIVE = ("call", "picker", "siblings", "findings")  # that are no plain data
FIXED = "fixed"  # before the names of tensors that go along with the series
CHECK, CHECKS = "gradient_check", tuple(f.name for f in fields(GradientCheck))


@dataclass(frozen=True, eq=False)
class InputExplanation:
    """What an explanation says about one of several inputs, each part in the shape of that input.

    Attributes
    ----------
    name : str
        What the input is called.
    values, standard_error, n_draws, ess, x, baseline, mask, raw : Tensor
        (series, time, channel), or (series, value) for static values; see :class:`Explanation`.
    channels, units : tuple of str, optional
        What people call the channels or static values, and their units.
    """

    name: str
    values: Tensor
    baseline: Tensor
    x: Tensor | None = None
    mask: Tensor | None = None
    standard_error: Tensor | None = None
    n_draws: Tensor | None = None
    ess: Tensor | None = None
    raw: Tensor | None = None
    channels: tuple[str, ...] | None = None
    units: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        shape = " × ".join(str(size) for size in self.values.shape)
        return f"InputExplanation({self.name!r}, {shape})"

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True, eq=False)
class Explanation:
    """How much each value of each series pushed a prediction up (positive) or down (negative).

    Attributes
    ----------
    values : Tensor of shape (series, time, channel)
        Signed where the method is. Unobserved cells hold 0; ``mask`` tells which they are.
    standard_error, n_draws, ess : Tensor like ``values``, optional
        Monte-Carlo error of each value (infinite below two draws), how many draws counted for it, and how many
        equally weighted ones they are worth (the effective sample size). None where it means nothing.
    n_evals : Tensor of shape (series,), optional
        How often the model was evaluated for each series: the path points that it got.
    delta : Tensor of shape (series,), optional
        Explained score of the series minus that of its baseline; None where it was not read.
    prediction : Tensor of shape (series,), optional
        The explained score of each series: a probability, or the model's output as it is; over several steps their
        sum. None where it was not read.
    gradient_check : GradientCheck, optional
        Whether the gradient is that of the score that the model computes, for methods that follow a path; None
        for others, and where it was switched off. :meth:`verdict` begins with it where it is not.
    curve_samples, curve_error : Tensor of shape (looks,) and (series, looks), optional
        Numbers of samples at which the error was looked at, and the estimated relative error there; NaN after a
        series had stopped.
    target : Tensor, optional
        Explained class, (series,) or (series, time); None if a function picked the score. A single probability is
        that of class 1, and 0 is its complement.
    columns : int, optional
        Numbers that the model returns per series, or per step. None in files of versions that did not know:
        there, 0 was the name of a single probability.
    output : str
        ``"probability"`` or ``"raw"``: what was differentiated and is measured.
    steps : Tensor or "own", optional
        Explained steps, (series, time), for models with one output per step.
    baseline, mask, x : Tensor like ``values``
        The series, what they were compared with, and which of their cells were observed.
    facts : Facts
        What the method promises, which the verdict builds on.
    draws, varies, mixes_series : int, bool and bool
        Realisations that were averaged, whether the model's outputs for the same series differ, and whether they
        depend on the rest of a batch. If only the last is true, each series was run by itself.
    channels, times, names : tuple of str, optional
        What people call the channels, the time steps and the series; ``ids`` number the latter. ``times`` may hold
        such a tuple for each series.
    classes, units : tuple of str, optional
        What people call the model's outputs, and the units of the channels' values.
    raw : Tensor like ``values``, optional
        The values as people know them, before they were scaled for the model.
    task : str, optional
        What the model's output is; None where that is not known.
    call : Call
        How the model is called with the series.
    output_shape : tuple of int
        Shape of one output with several axes, whose cells are then the columns; empty for plain columns.
    target_text : str
        What was explained, in words, where ``target`` does not tell it.
    picker : callable, optional
        The function that picked the score; it is not written to files.
    siblings : tuple of Explanation
        The explanations of the further targets of one call.
    background : str, optional
        The name, a hash of their values, of the other series that the scores compare with; ``baseline`` is then
        their mean at each cell. None where the baseline is one.
    """

    values: Tensor
    target: Tensor | None
    output: Output
    steps: Tensor | Literal["own"] | None
    baseline: Tensor
    mask: Tensor | None
    x: Tensor | None
    ids: Tensor
    seed: int
    method: str
    parameters: dict[str, Any]
    fingerprint: str
    signed: bool = True
    standard_error: Tensor | None = None
    n_draws: Tensor | None = None
    ess: Tensor | None = None
    channels: tuple[str, ...] | None = None
    times: Times | None = None
    names: tuple[str, ...] | None = None
    version: str = field(default=__version__)
    n_evals: Tensor | None = None
    delta: Tensor | None = None
    curve_samples: Tensor | None = None
    curve_error: Tensor | None = None
    draws: int = 1
    varies: bool = False
    mixes_series: bool = False
    columns: int | None = None
    gradient_check: GradientCheck | None = None
    facts: Facts = Facts()
    task: Task | None = None
    call: Call = field(default_factory=Call)
    output_shape: tuple[int, ...] = ()
    target_text: str = ""
    picker: Picker | None = None
    siblings: tuple["Explanation", ...] = ()
    classes: tuple[str, ...] | None = None
    units: tuple[str, ...] | None = None
    raw: Tensor | None = None
    background: str | None = None
    prediction: Tensor | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def assumptions(self) -> tuple[Finding, ...]:
        """Return what nobody said and was assumed by a stated rule."""
        return tuple(finding for finding in self.findings if finding.severity == "assumption")

    def __post_init__(self) -> None:
        for name in (each.name for each in fields(self) if each.name not in LIVE):  # whoever gave them
            object.__setattr__(self, name, printable(getattr(self, name)))
        _check_parts(self)

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        shape = " × ".join(str(size) for size in self.values.shape)
        if self.call.packing is not None:
            parts = (
                f"{printable(part.name)} {' × '.join(map(str, part.shape)) or 1}"
                for part in self.call.packing.parts
            )
            shape = f"{len(self)} series, {', '.join(parts)}"
        told = {name: value for name, value in self.parameters.items() if value is not None and value != []}
        settings = ", ".join(f"{name}={value!r}" for name, value in told.items())
        baseline = self.baseline_kind
        output, draws = written(self.link, self.columns), f"draws={self.draws}, " if self.draws > 1 else ""
        several = f"targets=[{targets.target_list(self)}], " if self.siblings else ""
        return (
            f"Explanation({shape}, method={self.method!r}, {several}output={output}, baseline={baseline!r}, "
            f"seed={self.seed}, {draws}{settings})"
        )

    def __str__(self) -> str:
        """Say what this is, what drove the first prediction, and how sure all of it is."""
        lines = [repr(self)]
        if len(self) and not self.siblings:
            more = f"; {len(self) - 1:,} more: describe(i)" if len(self) > 1 else ""
            lines.append(f"Series {self.label(0)}: {self.describe(0)}{more}")
        return "\n".join([*lines, f"How sure: {self.verdict()}"])

    @overload
    def __getitem__(self, rows: str) -> "InputExplanation": ...

    @overload
    def __getitem__(self, rows: int | slice | ArrayLike) -> Self: ...

    def __getitem__(self, rows: str | int | slice | ArrayLike) -> "Self | InputExplanation":
        """Return the explanation of one series, or of some of them; it holds as many as were asked for.

        The name of one of several inputs gives the part that is about that input, in its own shape.
        """
        if isinstance(rows, str):
            return self._input(rows)
        if isinstance(rows, Integral):
            rows = _one(rows, len(self))
        rows = (
            _sliced(rows, len(self))
            if isinstance(rows, slice)
            else validation.check_positions(rows, "rows", len(self))
        )
        parts = {name: getattr(self, name) for name in (*CELLS, *ROWS)}
        picked: dict[str, Any] = {name: part[rows] for name, part in parts.items() if isinstance(part, Tensor)}
        if self.names is not None:
            picked["names"] = tuple(self.names[row] for row in torch.arange(len(self))[rows].tolist())
        if is_nested(self.times):
            times = tuple(self.times[row] for row in torch.arange(len(self))[rows].tolist())
            picked["times"] = times or None
        if self.gradient_check is not None:
            picked["gradient_check"] = self.gradient_check[rows]
        picked["call"] = self.call.take(torch.arange(len(self))[rows])
        return replace(self, **picked, siblings=tuple(sibling[rows] for sibling in self.siblings))

    @property
    def targets(self) -> list[int | tuple[int, ...] | str]:
        """Return what was explained, one entry per target: an output's name, number or address, or words."""
        return [targets.called(each) for each in targets.every(self)]

    def for_target(self, target: Target) -> Self:
        """Return the explanation of one target of several.

        Parameters
        ----------
        target : int, tuple of int, str or callable
            The target as it was asked for. A number that is no target is a position among them, with a warning.
        """
        return cast("Self", targets.find(self, target))

    @property
    def inputs(self) -> tuple[str, ...]:
        """Return the names of the inputs that were explained; empty for a model of one input."""
        return () if self.call.packing is None else self.call.packing.names

    def _input(self, name: str) -> "InputExplanation":
        packing = self.call.packing
        if packing is None:
            raise InputError(
                f"There is no input {brief(name)}: the model has one, the series, whose rows have numbers."
            )
        part = packing.part(name)
        cells: dict[str, Any] = {each: getattr(self, each) for each in CELLS}
        cells = {each: None if tensor is None else part.unpacked(tensor) for each, tensor in cells.items()}
        return InputExplanation(
            name=part.name,
            **cells,
            channels=None if self.channels is None else self.channels[part.channels],
            units=None if self.units is None else self.units[part.channels],
        )

    def interval(self, level: float = 0.95) -> tuple[Tensor, Tensor]:
        """Return the lower and upper limits that should hold the converged value with probability ``level``.

        Student's t with the effective sample size minus one degrees of freedom; infinite where fewer
        than two draws counted. A method without Monte-Carlo error has no interval. Where a model is steep, rare
        draws carry the variance and the limits may be too narrow (see "Limits" in the README): more samples help.
        """
        level = validation.check_share(level, "level")
        if self.standard_error is None or self.ess is None:
            raise InputError(f"{self.method} has no Monte-Carlo error, so there is no interval to give.")
        freedom = (self.ess - 1).clamp(min=0)
        half = torch.where(self.standard_error == 0, 0, stats.t_quantile(level, freedom) * self.standard_error)
        half = torch.where(self.standard_error.isinf(), torch.inf, half)
        return self.values - half, self.values + half

    @property
    def baseline_kind(self) -> Literal["zero", "average", "background", "own"]:
        """Return what the scores compare with: ``"own"`` are any other numbers.

        Without the series an average is not recognised.
        """
        if self.background is not None:
            return "background"
        return validation.filled_with(self.baseline, self.x, self.mask)

    @property
    def n_outputs(self) -> int | None:
        """Return how many outputs, or classes, the model has: a single probability stands for two classes."""
        return None if self.columns is None else class_count(self.columns, self.link)

    @property
    def link(self) -> str:
        """Return what makes ``output`` of the model's columns.

        That is "probability" (softmax, or a sigmoid of a single one), "sigmoid" (of each by itself, for several
        labels) or "raw".
        """
        return "sigmoid" if self.task == "multilabel" and self.output == "probability" else self.output

    @property
    def relative_error(self) -> Tensor | None:
        r"""Return each series' estimated relative error; None for a method without Monte-Carlo error.

        The expected size of all errors over that of all scores, :math:`\sqrt{2/\pi} \sum s / \sum |A|`.
        """
        error = self.standard_error
        ess = self.ess if self.facts.adaptive else None  # whose errors tell how single draws vary
        return None if error is None else relative_error(self.values, error, self.mask, ess)

    @property
    def convergence_delta(self) -> Tensor | None:
        """Return the sum of each series' scores minus the change of its prediction; None where that is not known.

        0 up to rounding for integrated gradients, and sampling error for their random kin. TIMING with segments
        is not complete: its convergence delta stays, however many points there are.
        """
        delta = self.delta
        return None if delta is None else self.values.sum((1, 2), dtype=torch.float64).to(delta) - delta

    def verdict(self, i: int | None = None) -> str:
        """Say in one line how good the scores are and what would make them better.

        Parameters
        ----------
        i : int, optional
            Position of a series; by default the line is about all of them.
        """
        return messages.sentence(self, i)

    def describe(self, i: int | str = 0, **options: Unpack[DescribeOptions]) -> str:
        """Say in one sentence what was predicted of series ``i``, what is true, and what drove the prediction.

        Neighbouring values of a channel that push one way are one driver; two to four are named, each with its
        values, its time and the sum of its scores with the standard error (at most: errors of neighbours are added
        up). Uncertain ones come last and are called so. The page "The answer in a sentence" has the rule.

        Parameters
        ----------
        i : int or str
            Position of the series, or its name.
        **options
            ``model`` tells the prediction where the explanation does not know it, ``y`` the labels or true values
            of all series, ``classes`` the names of the outputs.
        """
        return str(joined("describe")(self, i, **options))

    def blocks(self, rows: ArrayLike | None = None, *, steps: BlockSteps | None = None) -> Blocks:
        """Return the mean attribution of each channel in each block of steps, over a group of series.

        Parameters
        ----------
        rows : sequence of int or bool, optional
            The series of the group, by position or as one flag each; by default all.
        steps : int or sequence of int, optional
            How many steps a block has, or where blocks begin and the last one ends. By default there are eight.

        Returns
        -------
        Blocks
            With 95 % intervals over the series; ``to_dataframe()`` is its table.
        """
        found: Blocks = joined("blocks")(self, rows, steps=steps)
        return found

    def label(self, i: int) -> int | str:
        """Return what people call series ``i``: its name where it has one, else its id."""
        return int(self.ids[i]) if self.names is None else self.labels[i]

    @property
    def labels(self) -> tuple[str, ...]:
        """Return what people call each series; behind a name that several of them have stands the id."""
        ids, count = self.ids.tolist(), Counter(self.names)
        pairs = zip(self.names or map(str, ids), ids, strict=True)
        return tuple(f"{name} ({number})" if count[name] > 1 else name for name, number in pairs)

    def times_of(self, i: int) -> tuple[str, ...]:
        """Return what people call the steps of series ``i``: their names or time stamps, else their numbers."""
        if self.times is None:
            return tuple(str(step) for step in range(self.values.shape[1]))
        return self.times[i] if is_nested(self.times) else self.times  # type: ignore[return-value]  # else one for all

    @property
    def shown(self) -> Tensor | None:
        """Return the values that people are shown: ``raw`` where it is known, else ``x``."""
        return self.x if self.raw is None else self.raw

    @property
    def importance(self) -> Tensor:
        """Return how much each cell matters: the size of a signed score, and any other score as it is.

        FIT and WinIT give scores below 0 to values that matter less than nothing; those come last, not first.
        """
        return self.values.abs() if self.signed else self.values + 0.0  # no sort may tell -0 from 0

    def top(self, k: int = 10) -> Top:
        """Return the ``k`` observed cells of each series that matter most, strongest first."""
        cells = self.values.shape[1] * self.values.shape[2]
        k = validation.check_int(k, "k", 1)
        if k > cells:
            raise InputError(f"k={brief(k)} is more than the {cells} cells of a series.")
        size = self.importance.flatten(1)
        if self.mask is not None:
            size = size.masked_fill(~self.mask.flatten(1), -torch.inf)
        best = size.topk(k, dim=1)
        missing = best.values.isinf()
        time, channel = best.indices // self.values.shape[2], best.indices % self.values.shape[2]
        values = self.values.flatten(1).gather(1, best.indices)
        top = Top(time.masked_fill(missing, -1), channel.masked_fill(missing, -1), values.masked_fill(missing, 0))
        top.series, top.times, top.channels = self.names or self.ids.tolist(), self.times, self.channels
        return top

    def with_names(
        self,
        channels: Sequence[str] | None = None,
        times: Sequence[object] | None = None,
        names: Sequence[object] | None = None,
        classes: Sequence[str] | None = None,
        units: Sequence[str] | None = None,
        raw: Array | None = None,
    ) -> Self:
        """Return the same explanation with what people call its parts; what is not given stays.

        Parameters
        ----------
        channels : sequence of str, optional
            Names of the channels.
        times : sequence, optional
            One name or time stamp for each step, or for each series such a sequence of its own.
        names : sequence, optional
            Names of the series.
        classes : sequence of str, optional
            One name for each output of the model.
        units : sequence of str, optional
            The unit of each channel's values, empty where there is none.
        raw : Tensor or array like ``values``, optional
            The values before they were scaled for the model; NaN where nothing was observed.
        """
        series, time, depth = self.values.shape
        given = {
            "channels": validation.check_names(channels, depth, "channels"),
            "times": check_times(times, series, time),
            "names": validation.check_names(names, series, "names"),
            "classes": validation.check_classes(classes, self.n_outputs),
            "units": validation.check_names(units, depth, "units"),
            "raw": validation.check_raw(raw, self.values, self.mask),
        }
        changed: dict[str, Any] = {name: part for name, part in given.items() if part is not None}
        others = tuple(each.with_names(channels, times, names, classes, units, raw) for each in self.siblings)
        return replace(self, **changed, siblings=others)

    def to_dataframe(self) -> "pd.DataFrame":
        """Return one row per observed cell, in the order of series, time and channel.

        Columns: ``id``, of several inputs ``input``, ``time``, ``channel``, ``attribution`` and, where they are
        known, the ``value`` as people know it (``raw``, else ``x``), its ``unit``, the name of the explained
        ``class``, the limits ``low`` and ``high`` of the 95 % interval, ``standard_error`` and ``n_draws``.
        With several targets, one below the other, the first column tells the ``target``.
        """
        if self.siblings:
            tables = [each.to_dataframe() for each in targets.every(self)]
            for table, name in zip(tables, self.targets, strict=True):
                table.insert(0, "target", [name] * len(table))
            return stacked(tables)
        seen = torch.ones_like(self.values, dtype=torch.bool) if self.mask is None else self.mask
        row, time, channel = (index.cpu().numpy() for index in seen.nonzero(as_tuple=True))
        content: dict[str, Any] = {
            "id": self.ids.numpy()[row] if self.names is None else [self.names[r] for r in row],
        }
        if self.call.packing is not None:
            owners = [part.name for part in self.call.packing.parts for _ in range(part.depth)]
            content["input"] = [owners[c] for c in channel]
        content |= {
            "time": time if self.times is None else self._stamps(row, time),
            "channel": channel if self.channels is None else [self.channels[c] for c in channel],
        }
        columns: dict[str, Any] = {"attribution": self.values, "value": self.shown}
        if self.units is not None:
            columns["unit"] = [self.units[c] for c in channel]
        if self.classes is not None and self.target is not None and self.n_outputs is not None:
            target = self.target.cpu().numpy()
            columns["class"] = [self.classes[k] for k in (target[row] if target.ndim == 1 else target[row, time])]
        if self.ess is not None:
            columns["low"], columns["high"] = self.interval()
        columns |= {"standard_error": self.standard_error, "n_draws": self.n_draws}
        for name, part in columns.items():
            if part is not None:
                content[name] = part[seen].cpu().numpy() if isinstance(part, Tensor) else part
        return as_table(content)

    def _stamps(self, rows: Iterable[int], steps: Iterable[int]) -> list[str]:
        """Return what people call each of these steps."""
        of = [self.times_of(row) for row in range(len(self))]
        return [of[row][step] for row, step in zip(rows, steps, strict=True)]

    def plot(self, i: int | str = 0, **options: Unpack[SeriesPlotOptions]) -> "Figure":
        """Draw series ``i``, a position or a name; the options are those of :func:`tempograd.plots.series`."""
        figure: Figure = joined("plot")(self, i, **options)
        return figure

    def show(self, i: int = 0) -> None:
        """Show series ``i`` with its strongest cells: in a notebook below the cell, elsewhere in a browser.

        Without a browser, as on a server, the page is written to a temporary file, and its place is printed.
        """
        joined("show")(self, i)

    def _repr_html_(self) -> str:
        """Show the first series where a notebook would print the explanation."""
        return str(joined("as_html")(self))

    def save(self, path: str | Path, *, series: bool = True, force: bool = False) -> Path:
        """Write a safetensors file with a JSON header and a checksum; ``series=False`` leaves the series out.

        Fixed inputs are always kept: without them the model could not be called again.

        An explanation that was saved before is replaced, another file only with ``force=True``.
        """
        series, force = validation.check_flag(series, "series"), validation.check_flag(force, "force")
        parts = [each._parts(series=series) for each in targets.every(self)]
        return files.write_explanation(path, *files.pack_targets(parts), force=force)

    def _parts(self, *, series: bool) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the tensors and the plain data that a file holds of one target."""
        tensors = {name: getattr(self, name) for name in TENSORS if series or name not in {"x", "raw"}}
        tensors = {name: tensor for name, tensor in tensors.items() if isinstance(tensor, Tensor)}
        if self.gradient_check is not None:
            tensors |= {f"{CHECK}.{name}": getattr(self.gradient_check, name) for name in CHECKS}
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in (*TENSORS, CHECK, *LIVE)}
        plain["facts"] = asdict(self.facts)
        plain["call"] = self.call.plain
        tensors |= {f"{FIXED}.{name}": tensor for name, tensor in self.call.tensors.items()}
        plain["own_steps"] = isinstance(self.steps, str)
        plain["picker_spec"] = self.picker.spec() if isinstance(self.picker, TargetScore) else None
        return tensors, plain

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what :meth:`save` wrote, also by versions that knew less.

        A file that was damaged, whose parts do not fit each other, or that a newer version wrote in another way is
        refused. Files of schema 1 do not tell the facts of their method: those of a name in
        ``tempograd.EXPLAINERS`` are looked up there, of other methods, and of variants of known ones, nothing is
        claimed.
        """
        names = (*TENSORS, *(f"{CHECK}.{name}" for name in CHECKS))
        parts = files.read_explanation(path, names)
        try:
            first, *others = [cls._assembled(*part) for part in parts]
            return replace(first, siblings=tuple(others)) if others else first
        except TempogradError as error:
            raise files.damaged(path, str(error).rstrip(".")) from error

    @classmethod
    def _assembled(cls, tensors: Mapping[str, Tensor], plain: dict[str, Any]) -> Self:
        """Put together what a file holds of one target."""
        content: dict[str, Any] = {name: tensors.get(name) for name in TENSORS}
        check = {name: tensors.get(f"{CHECK}.{name}") for name in CHECKS}
        if plain["own_steps"]:
            content["steps"] = "own"
        for name in ("channels", "times", "names", "classes", "units", "output_shape"):
            if plain.get(name) is not None:
                plain[name] = tuple(tuple(part) if isinstance(part, list) else part for part in plain[name])
        if None not in check.values():  # older files have none
            content[CHECK] = GradientCheck(**cast("dict[str, Tensor]", check))
        fixed = {name.removeprefix(f"{FIXED}."): part for name, part in tensors.items() if name.startswith(FIXED)}
        plain["call"] = Call.from_plain(plain.get("call", {}), fixed, len(tensors["values"]))
        told = plain.get("facts")
        plain["facts"] = (
            joined("facts")(plain["method"], plain["parameters"])
            if told is None
            else Facts(**{f.name: told[f.name] for f in fields(Facts) if f.name in told})
        )
        if plain.get("picker_spec") is not None:
            content["picker"] = from_spec(plain["picker_spec"])
        found = cls(**content, **{f.name: plain[f.name] for f in fields(cls) if f.name in plain})
        _check_content(found)
        return found


def require(value: Any, *, several: bool = False) -> Explanation:
    """Refuse what is no explanation and, unless ``several`` can be taken, one of several targets."""
    if isinstance(value, Explanation):
        if value.siblings and not several:
            named = targets.target_list(value)
            raise InputError(
                f"The explanation is of {1 + len(value.siblings)} targets, {named}: take one with "
                f"for_target({value.targets[0]!r})."
            )
        return value
    hint = ": read it with tempograd.Explanation.load" if isinstance(value, (str, Path)) else ""
    raise InputError(f"An Explanation was expected, as tempograd.explain returns it, got {brief(value)}{hint}.")


def _one(row: Any, count: int) -> slice:
    """Return the slice that holds one series; as in lists, negative positions count from the end."""
    place = validation.check_int(row, "a position", -(2**63))
    if not -count <= place < count:
        raise InputError(f"There is no series {place}: the explanation holds {count}, counted from 0.")
    return slice(place % count, place % count + 1)


def _sliced(rows: slice, count: int) -> slice | Tensor:
    """Return a slice that tensors know, or the places that it chooses: tensors know no steps backwards."""
    try:
        start, stop, step = rows.indices(count)
    except (TypeError, ValueError) as error:
        raise InputError(f"rows must be a slice of integers, got {brief(rows)}.") from error
    return rows if step == 1 else torch.tensor(range(start, stop, step), dtype=torch.int64)


def _check_parts(found: Explanation) -> None:
    """Refuse parts that are not of the kind and size that the scores need."""
    values = found.values
    if not isinstance(values, Tensor) or values.ndim != 3 or not values.is_floating_point():
        raise InputError(f"values must be a float tensor (series, time, channel), got {brief(values)}.")
    if (found.curve_samples is None) != (found.curve_error is None):
        raise InputError("curve_samples and curve_error belong together: pass both or neither.")
    count, time, depth = values.shape
    packing = found.call.packing
    if packing is not None and (packing.time, packing.channels) != (time, depth):
        raise InputError(
            f"values must hold all inputs, {packing.time} × {packing.channels}, got {time} × {depth}."
        )
    steps = time if packing is None else packing.first.time
    looks = found.curve_samples.numel() if isinstance(found.curve_samples, Tensor) else 0
    rows: dict[str, list[tuple[int, ...]]] = {
        name: [(count,)] for name in ("ids", "n_evals", "delta", "prediction")
    }
    rows |= {"target": [(count,), (count, steps)], "steps": [(count, steps)]}
    rows |= {"curve_samples": [(looks,)], "curve_error": [(count, looks)]}
    for name in TENSORS:
        part, shapes = getattr(found, name), rows.get(name, [tuple(values.shape)])
        if (part is None and name not in {"baseline", "ids"}) or (name == "steps" and isinstance(part, str)):
            continue
        if not isinstance(part, Tensor) or tuple(part.shape) not in shapes:
            got = tuple(part.shape) if isinstance(part, Tensor) else brief(part)
            raise InputError(f"{name} must have shape {' or '.join(map(str, shapes))}, got {got}.")
        _check_kind(name, part)
    _check_labels(found)
    check = found.gradient_check
    if check is not None and len(check) != count:
        raise InputError(f"gradient_check must be of {count} series, got {len(check)}.")
    _check_siblings(found)


def _check_siblings(found: Explanation) -> None:
    for sibling in found.siblings:
        if not isinstance(sibling, Explanation) or sibling.siblings or not _alike(found, sibling):
            raise InputError(
                f"siblings must be explanations of other targets of the same series, got {sibling!r}."
            )


def _alike(found: Explanation, other: Explanation) -> bool:
    return found.values.shape == other.values.shape and torch.equal(found.ids, other.ids)


def _check_labels(found: Explanation) -> None:
    count, time, depth = found.values.shape
    sizes = {"channels": depth, "times": time, "names": count, "units": depth}
    if is_nested(found.times):
        sizes["times"] = count
        if any(len(row) != time for row in found.times):
            raise InputError(f"times must have {time} entries for each series.")
    for name, size in sizes.items():
        labels = getattr(found, name)
        if labels is not None and len(labels) != size:
            raise InputError(f"{name} must have {size} entries, got {len(labels)}.")
    validation.check_classes(found.classes, found.n_outputs)


def _check_kind(name: str, part: Tensor) -> None:
    kind = KINDS.get(name)
    whole = not (part.is_floating_point() or part.is_complex() or part.dtype == torch.bool)
    kinds = {"floats": part.is_floating_point(), "bool": part.dtype == torch.bool, "integers": whole}
    if kind is not None and not kinds[kind]:
        raise InputError(f"{name} must hold {kind}, got {part.dtype}.")


def _check_content(found: Explanation) -> None:
    """Refuse numbers of a file that no explanation has."""
    for name in (each for each in TENSORS if each not in UNBOUNDED):
        part = getattr(found, name)
        open_end = name == "standard_error"  # which is infinite below two draws
        if isinstance(part, Tensor) and not bool((part >= 0 if open_end else part.isfinite()).all()):
            raise InputError(f"{name} must hold finite numbers.")
    validation.check_ids(found.ids, len(found))
    validation.check_raw(found.raw, found.values, found.mask)
    if found.output_shape and math.prod(found.output_shape) != found.columns:
        raise InputError(f"output_shape {found.output_shape} must have {found.columns} cells.")
    limit = 2**31 if found.n_outputs is None else found.n_outputs
    if found.target is not None and bool(((found.target < 0) | (found.target >= limit)).any()):
        raise InputError(f"target must lie in 0 … {limit - 1}.")
    check = found.gradient_check
    if check is not None:
        check.verify()
    given, facts = found.parameters, found.facts  # of the settings, the verdict reads these
    tolerance = given.get("tolerance") if facts.adaptive else None
    if tolerance is not None and not 0 < validation.check_float(tolerance, "tolerance") < math.inf:
        raise InputError(f"tolerance must be a finite number above 0, got {brief(tolerance)}.")
    for name in {facts.unit, facts.unit if tolerance is None else "max_samples"} & given.keys():
        validation.check_int(given[name], name, 0, 2**63)


def warn_of_another_model(model: Model, explanations: Mapping[str, Explanation]) -> str:
    """Warn if some of the explanations are not of ``model``, and return what was said, nothing if all are.

    An explanation without a fingerprint, made by hand, may be of any model.
    """
    here = fingerprint(model)()
    others = [name for name, found in explanations.items() if found.fingerprint not in {"", here}]
    if not others:
        return ""
    message = (
        f"{', '.join(others)} explained another model ({explanations[others[0]].fingerprint}) than the one "
        f"given here ({here}): pass the model that was explained."
    )
    warn(message)
    return message
