"""What an explanation consists of: its fields, slices of them, and the numbers that follow from them."""

from collections import Counter
from copy import copy
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, Literal, Self

import torch
from torch import Tensor

from tempograd.core import stats, validation
from tempograd.core.errors import Finding, InputError, brief, printable
from tempograd.core.estimate import GradientCheck, relative_error
from tempograd.core.question import Question
from tempograd.core.series import is_nested
from tempograd.engine import Call
from tempograd.explanation import fields as declared
from tempograd.explanation.answers import Top
from tempograd.explanation.fields import ALIKE, PLAIN, per_cell, per_series
from tempograd.typing import ArrayLike, Task, Times
from tempograd.version import __version__


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
    mask: Tensor | None = field(metadata=declared.MASK)
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
    channels: tuple[str, ...] | None = field(default=None, metadata=declared.PER_CHANNEL)
    times: Times | None = field(default=None, metadata=declared.TIMES)
    names: tuple[str, ...] | None = field(default=None, metadata=declared.NAMES)
    version: str = field(default=__version__, metadata=PLAIN)
    n_evals: Tensor | None = field(default=None, metadata=per_series())
    delta: Tensor | None = field(default=None, metadata=per_series("floats", finite=False))
    curve_samples: Tensor | None = field(default=None, metadata=declared.LOOKS)
    curve_error: Tensor | None = field(default=None, metadata=declared.LOOKED_AT)
    draws: int = field(default=1, metadata=declared.COUNT)
    varies: bool = field(default=False, metadata=ALIKE)
    mixes_series: bool = field(default=False, metadata=ALIKE)
    columns: int | None = field(default=None, metadata=declared.COUNT)
    gradient_check: GradientCheck | None = field(default=None, metadata=per_series("entries"))
    facts: Facts = field(default=Facts(), metadata=ALIKE)
    task: Task | None = field(default=None, metadata=ALIKE)
    call: Call = field(default_factory=Call, metadata=declared.CALL)
    output_shape: tuple[int, ...] = field(default=(), metadata=ALIKE)
    classes: tuple[str, ...] | None = field(default=None, metadata=ALIKE)
    units: tuple[str, ...] | None = field(default=None, metadata=declared.PER_CHANNEL)
    raw: Tensor | None = field(default=None, metadata=declared.RAW)
    prediction: Tensor | None = field(default=None, metadata=per_series("floats"))
    y: Tensor | None = field(default=None, metadata=declared.LABELS)
    question: Question = field(default=Question(), metadata=declared.QUESTION)
    findings: tuple[Finding, ...] = field(default=(), metadata=declared.FINDINGS)

    def __post_init__(self) -> None:
        """Take what steers a terminal out of names, whoever gave them."""
        texts = {name: value for name, value in vars(self).items() if isinstance(value, str | tuple | dict)}
        vars(self).update({name: printable(value) for name, value in texts.items()})

    def _with(self, **changes: Any) -> Self:
        """Return the explanation with other fields, which are known to fit."""
        changed = copy(self)
        vars(changed).update(changes)
        return changed

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: int | slice | ArrayLike) -> Self:
        """Return one series, or some of them, each once: as many as were asked for."""
        places: Any = [rows] if isinstance(rows, Integral) else rows
        try:
            places = range(len(self))[rows] if isinstance(rows, slice) else places
        except (TypeError, ValueError) as error:
            raise InputError(f"rows must be a slice of integers, got {brief(rows)}.") from error
        index = validation.check_positions(places, "rows", len(self))
        return self._with(**declared.taken(self, validation.check_distinct(index)))

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
    def importance(self) -> Tensor:
        """Return how much each cell matters: the size of a signed score, and any other score as it is.

        FIT and WinIT give scores below 0 to values that matter less than nothing; those come last, not first.
        """
        return self.values.abs() if self.signed else self.values + 0.0  # no sort may tell -0 from 0

    def top(self, k: int = 10) -> Top:
        """Return the ``k`` observed cells of each series that matter most, strongest first."""
        k = validation.check_int(k, "k", 1, self.values.shape[1:].numel())
        size = self.importance.flatten(1)
        if self.mask is not None:
            size = size.masked_fill(~self.mask.flatten(1), -torch.inf)
        best = size.topk(k, dim=1)
        missing = best.values.isinf()
        time, channel = best.indices // self.values.shape[2], best.indices % self.values.shape[2]
        values = self.values.flatten(1).gather(1, best.indices)
        cells = time.masked_fill(missing, -1), channel.masked_fill(missing, -1), values.masked_fill(missing, 0)
        return Top(*cells, self.names or self.ids.tolist(), self.times, self.channels)
