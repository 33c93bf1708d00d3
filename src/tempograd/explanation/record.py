"""What an explanation consists of: its fields, what each of them is, and the numbers that follow from them.

What a field is stands beside it: slices, joins, files and checks derive from that. The ``metadata`` of every
field are one of these: :func:`per_cell`, :func:`per_series`, :data:`ALIKE` or :data:`PLAIN`. ``join`` says how the
values of parts become one where that is not plain; ``absent`` returns what a part that has None is joined with.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import chain
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, get_args, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tempograd.core import stats, validation
from tempograd.core.errors import Finding, InputError, MissingExtraError, brief, printable
from tempograd.core.estimate import GradientCheck, relative_error
from tempograd.core.formatting import alike, table
from tempograd.core.question import Question
from tempograd.core.series import Series, has_rows, is_nested
from tempograd.engine import Call
from tempograd.typing import ArrayLike, Task, Times
from tempograd.version import __version__

if TYPE_CHECKING:
    import pandas as pd

Metadata = dict[str, Any]
NUMBERS: dict[str, Callable[[Tensor], bool]] = {  # that tensors hold
    "floats": lambda part: part.is_floating_point(),
    "bool": lambda part: part.dtype == torch.bool,
    "integers": lambda part: not (part.is_floating_point() or part.is_complex() or part.dtype == torch.bool),
    "numbers": lambda part: True,
}


def per_cell(holds: str = "floats", **more: Any) -> Metadata:
    """Declare a tensor like the scores. It ``holds`` finite floats, bool, integers or any numbers."""
    return {"per": "cell", "shapes": ("series time channel",), "holds": holds, "finite": True} | more


def per_series(holds: str = "numbers", *shapes: str, **more: Any) -> Metadata:
    """Declare what has one entry for each series; ``shapes`` name the axes, by default that of the series alone.

    ``finite=False``: it may be NaN or infinite.
    """
    return {"per": "series", "shapes": shapes or ("series",), "holds": holds, "finite": True} | more


def taken(record: Any, rows: Tensor) -> dict[str, Any]:
    """Return the fields that have an entry for each series, with those at some places."""
    content: dict[str, Any] = {}
    for each in fields(record):
        name, value = each.name, getattr(record, each.name)
        if each.metadata["per"] not in {"cell", "series"}:
            continue
        if isinstance(value, Call):
            content[name] = value.take(rows)
        elif isinstance(value, Question) and not all(map(_same_for_all, vars(value).values())):
            content[name] = value.take(rows, Series(record.apart(record.values)))
        elif isinstance(value, Tensor | GradientCheck):
            content[name] = value[rows]
        elif isinstance(value, tuple) and (name != "times" or is_nested(value)):
            content[name] = tuple(value[place] for place in rows.tolist()) or None
    return content


def _same_for_all(value: Any) -> bool:
    """Tell whether an argument is the same for all series: a number, a name, an address, a function."""
    if isinstance(value, tuple):
        return all(map(_same_for_all, value))
    return isinstance(value, str | int | float | None) or (callable(value) and not isinstance(value, Tensor))


# Parts that become one


def joined(parts: Sequence[Any]) -> dict[str, Any]:
    """Return every field of parts that follow each other."""
    content: dict[str, Any] = {}
    for each in fields(parts[0]):
        declared, values = each.metadata, [getattr(part, each.name) for part in parts]
        absent = declared.get("absent")
        if "join" in declared:
            content[each.name] = declared["join"](values, parts)
        elif declared["per"] in {"alike", "call"} or all(value is None for value in values):
            content[each.name] = values[0]
        else:
            pairs = zip(values, parts, strict=True)
            values = [absent(part) if value is None and absent else value for value, part in pairs]
            content[each.name] = None if any(value is None for value in values) else one_of(values)
    return content


def one_of(values: Sequence[Any]) -> Any:
    """Put values of several parts, all of a kind, behind each other; a text is that of all series."""
    first = values[0]
    if any(type(value) is not type(first) for value in values):
        raise InputError(f"Some parts have {brief(first)}, others not: join explanations that were made alike.")
    if isinstance(first, str):
        return first
    if isinstance(first, tuple | list):
        return type(first)(chain(*values))
    if isinstance(first, GradientCheck):
        return GradientCheck(*map(torch.cat, zip(*(vars(value).values() for value in values), strict=True)))
    return torch.cat(list(values))


def _joined_times(values: Sequence[Any], parts: Sequence[Any]) -> Any:
    """Return the time stamps of all series alike, or those of each."""
    if all(times == values[0] for times in values) and not is_nested(values[0]):
        return values[0]
    return tuple(part.times_of(i) for part in parts for i in range(len(part)))


def _joined_calls(calls: Sequence[Call], _: Sequence[Any]) -> Call:
    """Return how the model is called with the series of all parts."""
    first, manners = calls[0], []
    for call in calls:
        constants = {name: has_rows(part) or (part,) for name, part in call.companions.items()}
        manners.append((call.packing, call.pick, call.model_layout, call.lengths is None, constants))
    if any(manner != manners[0] for manner in manners):
        raise InputError("The parts called the model in other ways, or with other fixed inputs: join those alike.")
    fixed: Any = {
        name: one_of([call.companions[name] for call in calls]) if has_rows(part) else part
        for name, part in first.companions.items()
    }
    fixed = first.fixed and (fixed if isinstance(first.fixed, Mapping) else tuple(fixed.values()))
    lengths = None if first.lengths is None else one_of([call.lengths for call in calls])
    return replace(first, fixed=fixed, lengths=lengths, gaps=None)


def _joined_questions(questions: Sequence[Question], parts: Sequence[Any]) -> Question:
    """Return the first question; where others ask for something else, what was explained of each series."""
    changed = {}
    for name in ("target", "steps", "baseline"):
        first, *others = (getattr(question, name) for question in questions)
        same = all(other is first or (_same_for_all((first, other)) and other == first) for other in others)
        explained = [getattr(part, name) for part in parts]
        if not same and all(isinstance(part, Tensor) for part in explained):
            cells = one_of(explained)
            changed[name] = parts[0].call.unpacked(cells) if name == "baseline" else cells
    return replace(questions[0], **changed)


# Whether the fields fit each other


def check_fields(record: Any, sizes: Mapping[str, int]) -> None:
    """Refuse tensors and names that are not of the kind and size that is declared, and numbers that are none."""
    for each in fields(record):
        name, declared, value = each.name, each.metadata, getattr(record, each.name)
        optional = type(None) in get_args(each.type)
        if "shapes" not in declared or (value is None and optional) or (name == "steps" and value == "own"):
            continue
        holds = NUMBERS.get(declared.get("holds", ""))
        shape = brief(value) if holds is not None and not isinstance(value, Tensor) else _shape(value)
        wanted = [tuple(sizes.get(axis, ...) for axis in axes.split()) for axes in declared["shapes"]]
        if shape not in wanted and (*shape[:1], ...) not in wanted:
            expected = " or ".join(map(str, wanted)).replace("Ellipsis", "…")
            raise InputError(f"{name} must have shape {expected}, got {shape}.")
        if holds is None:
            continue
        if not holds(value):
            raise InputError(f"{name} must hold {declared['holds']}, got {value.dtype}.")
        finite = declared["finite"]
        good = value >= 0 if finite == "or infinite" else value.isfinite()
        if finite == "observed" and record.mask is not None:  # a model may read NaN where nothing was
            good |= ~record.mask
        if finite and not bool(good.all()):
            raise InputError(f"{name} must hold finite numbers.")


def _shape(value: Any) -> tuple[int, ...]:
    """Return the shape of a tensor or of names, which may be of several lengths, one after the other."""
    if isinstance(value, Tensor):
        return tuple(value.shape)
    return (len(value), *sorted({len(row) for row in value} if is_nested(value) else ()))


# What it answers with: its strongest cells, and sums over blocks of steps, which print themselves

_Numbers = NDArray[np.floating[Any]]
LISTED = 10  # rows of a table that prints itself


def as_table(content: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> "pd.DataFrame":
    """Return columns, or rows, as a DataFrame, where pandas is installed."""
    try:
        import pandas as pd  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise MissingExtraError("pandas", "data") from error
    return pd.DataFrame(content)


def more_channels(count: int) -> str:
    """Say how many channels a table leaves out, on a line of its own; nothing if it has them all."""
    rest = count - LISTED
    return f"\n… and {rest:,} more channel{'s' * (rest > 1)}" if rest > 0 else ""


class Top(NamedTuple):
    """The strongest cells of each series, (series, k) each; -1 and 0 where a series has fewer observed cells."""

    time: Tensor
    channel: Tensor
    values: Tensor


@dataclass(frozen=True, eq=False)
class Blocks:
    """Sums of scores over blocks of steps, as means over a group of series; arrays are (channel, block).

    Attributes
    ----------
    channels, times : tuple of str
        What people call the channels, and the blocks.
    edges : tuple of int
        Block ``b`` holds the steps from ``edges[b]`` to ``edges[b + 1]``, the latter excluded.
    series : int
        How many series the group has.
    signed : bool
        Whether scores have a sign; without, ``mean`` is the mean size.
    mean, error, low, high : array
        Mean over the series, its standard error and 95 % interval (infinite for a single series).
    size : array
        Mean over the series of the sum of the sizes of the scores.
    present : array
        Share of the series in which anything was observed there.
    """

    channels: tuple[str, ...]
    times: tuple[str, ...]
    edges: tuple[int, ...]
    series: int
    signed: bool
    mean: _Numbers
    error: _Numbers
    low: _Numbers
    high: _Numbers
    size: _Numbers
    present: _Numbers

    @property
    def order(self) -> list[int]:
        """Return the channels by their size over all blocks, the largest first."""
        return [int(d) for d in np.argsort(-self.size.sum(1), kind="stable")]

    def __repr__(self) -> str:
        shown = self.order[:LISTED]
        head = ["", *self.times]
        texts = iter(alike(*self.mean[shown].ravel().tolist()))
        rows = [[self.channels[d], *(next(texts) for _ in self.times)] for d in shown]
        text = table([head, *rows]) + more_channels(len(self.channels))
        what = "attribution" if self.signed else "importance"
        return f"Mean {what} of {self.series:,} series by channel and block, strongest channels first:\n{text}"


@dataclass(frozen=True, eq=False)
class InputExplanation:
    """What an explanation says about one of several inputs, each part in the shape of that input.

    Attributes
    ----------
    name : str
        What the input is called.
    values, standard_error, n_draws, ess, x, baseline, mask, raw, truth : Tensor
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
    truth: Tensor | None = None
    channels: tuple[str, ...] | None = None
    units: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        return f"InputExplanation({self.name!r}, {' × '.join(map(str, self.values.shape))})"


# The fields

PLAIN: Metadata = {"per": "call"}  # of a call: parts that are joined may differ, and the first one's is taken
ALIKE: Metadata = {"per": "alike"}  # parts that differ in it cannot be joined
PER_CHANNEL = ALIKE | {"shapes": ("channel",)}
COUNT = ALIKE | {"least": 1}
MASK = per_cell("bool", absent=lambda part: torch.ones_like(part.values, dtype=torch.bool))
RAW = per_cell(finite=False, of_series=True, absent=lambda part: part.x)
NAMES = per_series("names", absent=lambda part: tuple(map(str, part.ids.tolist())))
LABELS = per_series("numbers", "series …", finite=False, of_series=True)
TIMES = per_series("names", "time", "series time", join=_joined_times)
FINDINGS = PLAIN | {"join": lambda values, _: tuple(dict.fromkeys(chain(*values)))}  # each once
CALL = {"per": "series", "join": _joined_calls}
QUESTION = {"per": "series", "join": _joined_questions}


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


@dataclass(frozen=True, eq=False, repr=False)
class Record:
    """The fields of an explanation, as :class:`~tempograd.Explanation` has them, and what follows from them."""

    values: Tensor = field(metadata=per_cell())
    target: Tensor | None = field(metadata=per_series("integers", "series", "series steps"))
    output: str = field(metadata=ALIKE)
    steps: Tensor | Literal["own"] | None = field(metadata=per_series("bool", "series steps"))
    baseline: Tensor = field(metadata=per_cell())
    mask: Tensor | None = field(metadata=MASK)
    x: Tensor | None = field(metadata=per_cell(finite="observed", of_series=True))
    ids: Tensor = field(metadata=per_series("integers"))
    seed: int = field(metadata=ALIKE)
    method: str = field(metadata=ALIKE)
    parameters: dict[str, Any] = field(metadata=ALIKE)
    fingerprint: str = field(metadata=ALIKE)
    signed: bool = field(default=True, metadata=ALIKE)
    standard_error: Tensor | None = field(default=None, metadata=per_cell(finite="or infinite"))
    n_draws: Tensor | None = field(default=None, metadata=per_cell("numbers"))
    ess: Tensor | None = field(default=None, metadata=per_cell("numbers"))
    channels: tuple[str, ...] | None = field(default=None, metadata=PER_CHANNEL)
    times: Times | None = field(default=None, metadata=TIMES)
    names: tuple[str, ...] | None = field(default=None, metadata=NAMES)
    version: str = field(default=__version__, metadata=PLAIN)
    n_evals: Tensor | None = field(default=None, metadata=per_series())
    delta: Tensor | None = field(default=None, metadata=per_series("floats", finite=False))
    draws: int = field(default=1, metadata=COUNT)
    varies: bool = field(default=False, metadata=ALIKE)
    mixes_series: bool = field(default=False, metadata=ALIKE)
    columns: int | None = field(default=None, metadata=COUNT)
    gradient_check: GradientCheck | None = field(default=None, metadata=per_series("entries"))
    facts: Facts = field(default=Facts(), metadata=ALIKE)
    task: Task | None = field(default=None, metadata=ALIKE)
    call: Call = field(default_factory=Call, metadata=CALL)
    output_shape: tuple[int, ...] = field(default=(), metadata=ALIKE)
    classes: tuple[str, ...] | None = field(default=None, metadata=ALIKE)
    units: tuple[str, ...] | None = field(default=None, metadata=PER_CHANNEL)
    raw: Tensor | None = field(default=None, metadata=RAW)
    prediction: Tensor | None = field(default=None, metadata=per_series("floats"))
    y: Tensor | None = field(default=None, metadata=LABELS)
    truth: Tensor | None = field(default=None, metadata=per_cell("bool", of_series=True))
    question: Question = field(default=Question(), metadata=QUESTION)
    findings: tuple[Finding, ...] = field(default=(), metadata=FINDINGS)

    def __post_init__(self) -> None:
        """Take what steers a terminal out of names, whoever gave them."""
        texts = {name: value for name, value in vars(self).items() if isinstance(value, str | tuple | dict)}
        vars(self).update({name: printable(value) for name, value in texts.items()})

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, rows: str) -> InputExplanation: ...

    @overload
    def __getitem__(self, rows: int | slice | ArrayLike) -> Self: ...

    def __getitem__(self, rows: str | int | slice | ArrayLike) -> Self | InputExplanation:
        """Return the explanation of one series, or of some of them; it holds as many as were asked for.

        The name of one of several inputs gives the part that is about that input, in its own shape.
        """
        if isinstance(rows, str):
            return self._input(rows)
        places: Any = range(len(self))[rows] if isinstance(rows, slice) else rows
        places = [places] if isinstance(places, Integral) else places
        index = validation.check_positions(places, "rows", len(self))
        return replace(self, **taken(self, validation.check_distinct(index)))

    def _input(self, name: str) -> InputExplanation:
        if self.call.packing is None:
            raise InputError(f"There is no input {brief(name)}: the model has one, whose rows have numbers.")
        part = self.call.packing.part(name)
        cells = {f.name: getattr(self, f.name) for f in fields(self) if f.metadata["per"] == "cell"}
        tensors: Any = {name: None if cell is None else part.unpacked(cell) for name, cell in cells.items()}
        channels, units = (names and names[part.channels] for names in (self.channels, self.units))
        return InputExplanation(part.name, **tensors, channels=channels, units=units)

    def apart(self, cells: Tensor) -> Any:
        """Return cells (series, time, channel) as the series were given: a tensor, a list, or several inputs."""
        if self.call.lengths is not None:
            return [row[:length] for row, length in zip(cells, self.call.lengths, strict=True)]
        return self.call.unpacked(cells)

    @property
    def background(self) -> str | None:
        """The number and a hash of the other series that are compared with; None where the baseline is one."""
        return self.question.background  # type: ignore[return-value]  # of an explanation, words

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

    def label(self, i: int) -> int | str:
        """Return what people call series ``i``: its name where it has one, else its id."""
        return int(self.ids[i]) if self.names is None else self.names[i]

    @property
    def labels(self) -> tuple[str, ...]:
        """Return what people call each series."""
        return self.names or tuple(map(str, self.ids.tolist()))

    def times_of(self, i: int) -> tuple[str, ...]:
        """Return what people call the steps of series ``i``: their names or time stamps, else their numbers."""
        if self.times is None:
            return tuple(str(step) for step in range(self.values.shape[1]))
        return self.times[i] if is_nested(self.times) else self.times  # type: ignore[return-value]  # else one for all

    @property
    def importance(self) -> Tensor:
        """Return how much each cell matters: the size of a signed score, and any other score as it is.

        FIT and WinIT give scores below 0 to values that matter less than nothing; those come last, not first.
        """
        return self.values.abs() if self.signed else self.values + 0.0  # no sort may tell -0 from 0

    def top(self, k: int = 10) -> Top:
        """Return the ``k`` observed cells of each series that matter most, strongest first."""
        k = validation.check_int(k, "k", 1, self.values.shape[1:].numel())
        size = self.importance
        best = (size if self.mask is None else size.masked_fill(~self.mask, -torch.inf)).flatten(1).topk(k, dim=1)
        missing = best.values.isinf()
        time, channel = best.indices // self.values.shape[2], best.indices % self.values.shape[2]
        values = self.values.flatten(1).gather(1, best.indices)
        return Top(time.masked_fill(missing, -1), channel.masked_fill(missing, -1), values.masked_fill(missing, 0))
