"""From a source to a folder of results: two series first, then all fragments, with a limit on faults."""

import copy
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import nn

from tempograd._utils import validation
from tempograd._utils.progress import progress_bar
from tempograd.bulk.engines import Attempt, Processes, in_this_process, through, watched
from tempograd.bulk.folder import RunFolder
from tempograd.bulk.readers import ReadRows, read_batches, with_long_shape
from tempograd.bulk.runs import Run, with_shape
from tempograd.bulk.sources import ArrayBatch, Columns, Fragment, arrow, as_array, is_streamed, list_fragments
from tempograd.bulk.travel import EXAMPLE, plain_options, write_job
from tempograd.bulk.worker import Job, Outcome, Worker
from tempograd.data import Series, Split
from tempograd.engine import Call, fingerprint
from tempograd.engine.background import is_background
from tempograd.engine.guesses import PROBABILITY
from tempograd.errors import DataError, InputError, WarningCounts, brief, counted_warnings, one_line
from tempograd.explainers import Explainer
from tempograd.explainers.by_name import explainer_of, fitted, require_alone
from tempograd.explanation import Explanation
from tempograd.models import load_model
from tempograd.typing import (
    Array,
    ArrayLike,
    InputBaselines,
    Inputs,
    Layout,
    Missing,
    Model,
    ModelLayout,
    Output,
    Pick,
    Precision,
    Setting,
    Steps,
    Target,
    Task,
)
from tempograd.version import __version__

KeptCells = Literal["all", "top", "none"]
Engine = Literal["ray"]
FIRST = 2  # series that are explained before anything starts
LOOKED_AT = 64  # series among which those are
FEWEST = 10_000  # series before which a share of faults says nothing, where nobody knows how many will come
NAMES = ("channels", "times", "classes", "units")  # for people: they change no number


class Progress(NamedTuple):
    """How far a run is.

    Attributes
    ----------
    done, total : int
        Series; ``total`` is None where nobody knows it.
    faults : int
        Series that could not be explained.
    seconds, per_second : float
        Since the start, and series per second since then.
    left : float, optional
        Seconds that the rest will take.
    """

    done: int
    total: int | None
    faults: int
    seconds: float
    per_second: float
    left: float | None


CustomEngine = Callable[[str, list[dict[str, object]]], Iterable[object]]
"""A function of a run's folder and its fragments that runs a worker on each of them, anywhere, and yields what
the workers returned."""


def explain_dataset(
    model: Model | str | Path,
    source: str | Path | Sequence[str] | Array | Split | Iterable[object],
    out: str | Path,
    *,
    method: str | Explainer = "timing",
    x: str | Sequence[str] = "x",
    id: str | ArrayLike | Sequence[str] | None = "id",  # noqa: A002  # as in read_series
    mask: str | Array | None = None,
    time: str | None = None,
    shape: tuple[int, int] | None = None,
    keep: Sequence[str] = (),
    cells: KeptCells = "all",
    ess: bool = True,
    engine: Engine | CustomEngine | None = None,
    workers: int | None = None,
    device: str | torch.device | None = None,
    batch: int | None = None,
    fragment: int = 8_192,
    max_faults: float = 0.01,
    weights: str | Path | None = None,
    trust: bool = False,
    progress: Callable[[Progress], object] | None = None,
    background: Inputs | None = None,
    target: Target | None = None,
    baseline: InputBaselines | None = None,
    steps: Steps | None = None,
    output: Output = PROBABILITY,
    seed: int = 0,
    channels: Sequence[str] | None = None,
    times: Sequence[object] | None = None,
    layout: Layout = "BTD",
    missing: Missing = "error",
    draws: int = 1,
    batch_size: int | None = None,
    precision: Precision = "full",
    gradient_check: bool = True,
    task: Task | None = None,
    pick: Pick | None = None,
    model_layout: ModelLayout = "BTD",
    classes: Sequence[str] | None = None,
    units: Sequence[str] | None = None,
    **settings: Setting,
) -> Run:
    """Explain any number of series, from files to a folder of files; started again, it goes on.

    Memory does not grow with the number of series, and every score is the one that a single call of
    :func:`tempograd.explain` gives. What is finished is never lost or computed twice, however a run ends.

    Parameters
    ----------
    model : nn.Module, callable, or what load_model takes
        For several workers something that can travel: a model by name, ``"module:callable"`` with ``weights=``, or
        an exported program.
    source : path, pattern, list of paths, array, or iterable
        Parquet files, local or at an address such as ``s3://…``; ``.npy`` and ``.npz`` files, memory maps, arrays;
        ``.csv`` and ``.ts`` files, each read whole; batches of ``(ids, x)`` or ``(ids, x, mask)``.
    out : path
        A folder: a new one, an empty one, or that of the same run, which goes on.
    method : str or Explainer
        As in :func:`tempograd.explain`.
    x : str or sequence of str
        The column with the series, one per row, as a list of T lists of D numbers, or flat with ``shape=``.
        Several columns are the channels of long rows, one row per step; the rows of a series stand together.
    id : str or array, optional
        The column of the ids, whole numbers or texts; ``.npy`` file or array of them, beside arrays. None: series
        are numbered, in several files by file and row.
    mask : str or array, optional
        The column, ``.npy`` file or array that tells what was observed.
    time : str, optional
        The column by which long rows are sorted within each series.
    shape : tuple of int, optional
        Steps and channels, where series are flat lists or of unequal length; shorter ones are padded.
    keep : sequence of str
        Columns that go along to the results.
    cells : {"all", "top", "none"}
        What is kept of each cell: everything, the 20 strongest, or sums by channel and step alone.
    ess : bool
        Whether the effective sample sizes are kept too, which intervals and verdicts on single series need.
    engine : {"ray"} or callable, optional
        Who runs the workers: this process or several of them, a Ray cluster, or a function of your own.
    workers : int, optional
        How many; by default one in this process, and with Ray one per GPU or core.
    device : str or device, optional
        Where models compute; by default where the model is, or on a GPU if there is one.
    batch : int, optional
        Series per call; found automatically by default.
    fragment : int
        About how many series go into one file of results.
    max_faults : float
        Share of the series that may have no explanation before the run stops.
    weights, trust
        As in :func:`tempograd.load_model`, for a model given by name.
    progress : callable, optional
        Called with a :class:`~tempograd.bulk.Progress` after each fragment, instead of the line on a terminal.
    background, target, baseline, steps, output, seed, channels, times, layout, missing, draws, batch_size
        As in :func:`tempograd.explain`, the same for all series.
    precision, gradient_check, task, pick, model_layout, classes, units
        The same.
    **settings
        Hyper-parameters of a method given by name.

    Returns
    -------
    Run
        The folder, with its verdict, sums and single explanations.

    See Also
    --------
    open_run : the same for a folder that is there.
    """
    arrow()
    options = {
        "target": target,
        "baseline": baseline,
        "steps": steps,
        "output": output,
        "seed": seed,
        "layout": layout,
        "missing": missing,
        "draws": draws,
        "batch_size": batch_size,
        "precision": precision,
        "gradient_check": gradient_check,
        "task": task,
        "pick": pick,
        "model_layout": model_layout,
        "background": background,
        "channels": channels,
        "times": times,
        "classes": classes,
        "units": units,
    }
    _check_options(options)
    _check_numbers(cells, fragment, batch, workers, max_faults)
    explainer = explainer_of(method, settings)
    require_alone(explainer)
    folder = RunFolder(out)
    elsewhere = engine is not None or (workers or 1) > 1
    source, columns = _columns(source, x, id, mask, time, shape, keep)
    if elsewhere and (is_streamed(source) or not _is_files(source)):
        raise InputError("Only files can be explained by several workers: write the series to .npy or Parquet.")
    live = _live(model, device, weights, trust=trust)
    folder.check()
    plan = _Plan(folder, live, explainer, options, columns, source, fragment)
    plan.look()
    job = plan.begin(cells=cells, ess=ess, batch=batch)
    if elsewhere:
        folder.write("job.json", write_job(job, model, live, weights, trust=trust))
    attempts: Callable[[Iterable[Fragment]], Iterator[Attempt]]
    attempts = _engine(engine, job, live, workers, None if device is None else str(device))
    return _Driving(plan, max_faults, progress).drive(attempts)


def _check_options(options: Mapping[str, Any]) -> None:
    """Refuse what is of single series, which belongs into the source."""
    target, baseline = options["target"], options["baseline"]
    if hasattr(target, "shape") and getattr(target, "ndim", 0) > 0:
        raise InputError("target= must be the same for all series: an output, a function, or None.")
    if getattr(baseline, "ndim", 0) == 3 and len(baseline) != 1:
        raise InputError("baseline= must be the same for all series: of shape (time, channel), or a name.")
    if isinstance(baseline, Mapping):
        raise InputError("explain_dataset explains models of one input: pass one baseline.")


def _check_numbers(cells: Any, fragment: Any, batch: Any, workers: Any, max_faults: Any) -> None:
    validation.check_choice(cells, "cells", get_args(KeptCells))
    validation.check_int(fragment, "fragment", 1)
    for name, value in (("batch", batch), ("workers", workers)):
        if value is not None:
            validation.check_int(value, name, 1)
    if not 0 <= validation.check_float(max_faults, "max_faults") <= 1:
        raise InputError(f"max_faults must be a share from 0 to 1, got {brief(max_faults)}.")


def _columns(source: Any, x: Any, ids: Any, mask: Any, time_: Any, shape: Any, keep: Any) -> tuple[Any, Columns]:
    """Return the source, with arrays of ids and masks beside arrays of series, and where its parts are found."""
    if isinstance(keep, str):
        raise InputError(f"keep must be a list of columns, got {keep!r}: write [{keep!r}].")
    beside = {"ids": ids, "mask": mask}
    beside = {name: part for name, part in beside.items() if part is not None and not isinstance(part, str)}
    if beside:
        if is_streamed(source) or _is_files(source) or isinstance(source, Split):
            raise InputError("id= and mask= are arrays beside an array alone: name columns or .npy files.")
        ids_, mask_ = beside.get("ids"), beside.get("mask")
        series = as_array(source)
        parts = (None if ids_ is None else np.asarray(ids_), series, None if mask_ is None else as_array(mask_))
        for name, part in zip(("id", "", "mask"), parts, strict=True):
            if part is not None and len(part) != len(series):
                raise InputError(f"{name}= has {len(part)} rows for {len(series)} series.")
        source = ArrayBatch(*parts)
    if isinstance(source, Series) and source.inputs is not None:
        raise InputError("explain_dataset explains models of one input.")
    return source, Columns(
        x if isinstance(x, str) else tuple(x),
        ids if isinstance(ids, str) else None,
        mask if isinstance(mask, str) else None,
        time_,
        tuple(keep),
        _checked(shape),
    )


def _checked(shape: Any) -> tuple[int, int] | None:
    if shape is None:
        return None
    if not isinstance(shape, (tuple, list)) or len(shape) != 2:
        raise InputError(f"shape must be (time, channel), got {brief(shape)}.")
    return validation.check_int(shape[0], "shape", 1), validation.check_int(shape[1], "shape", 1)


def _is_files(source: Any) -> bool:
    return isinstance(source, (str, Path)) or (
        isinstance(source, (list, tuple))
        and not isinstance(source, ArrayBatch)
        and bool(source)
        and all(isinstance(each, (str, Path)) for each in source)
    )


def _live(model: Any, device: Any, weights: Any, *, trust: bool) -> Model:
    """Return the model itself, on its device; a module that has to move is copied."""
    if isinstance(model, (str, Path)):
        place = device or ("cuda" if torch.cuda.is_available() else "cpu")
        return load_model(model, place, weights=weights, trust=trust)
    if weights is not None:
        raise InputError("weights= are for a model given as 'module:callable'.")
    validation.check_model(model)
    if device is None:
        return model  # type: ignore[no-any-return]
    if not isinstance(model, nn.Module):
        raise InputError("device= is for modules: a function computes where it likes.")
    return copy.deepcopy(model).to(device)


class _Plan:
    """What is explained by what, and the fragments of it."""

    def __init__(
        self,
        folder: RunFolder,
        model: Model,
        explainer: Explainer,
        options: dict[str, Any],
        columns: Columns,
        source: Any,
        fragment: int,
    ) -> None:
        self.folder, self.model, self.columns, self.size = folder, model, columns, fragment
        self.explainer, self.options = explainer, options
        self.streamed = is_streamed(source)
        listing = list_fragments(source, columns, fragment)
        self.fragments: Iterable[Fragment] = listing if self.streamed else list(listing)
        self.example: Explanation
        self.warned = WarningCounts()

    @property
    def total(self) -> int | None:
        """Return how many series there are, where that is known."""
        if self.streamed:
            return None
        counts = [fragment.rows for fragment in self.fragments]
        return None if None in counts else sum(count for count in counts if count is not None)

    def look(self) -> None:
        """Explain two series, so that mistakes are found before anything starts."""
        fragments = iter(self.fragments)
        first = next(fragments, None)
        if first is None:
            raise DataError("There is no series to explain: the source is empty.")
        if self.streamed:
            self.fragments = itertools.chain([first], fragments)
        else:
            self.columns = with_long_shape(list(self.fragments), self.columns)
        batch = next(read_batches(first, self.columns, LOOKED_AT), None)
        if batch is None:
            raise DataError(f"There is no series to explain: {first.origin} is empty.")
        self.columns = with_shape(self.columns, batch)
        rows = _first_rows(batch)
        drawn = is_background(self.options["baseline"])
        background = self.options["background"]
        if background is not None and (not drawn or self.explainer.needs_fit):
            call = Call(pick=self.options["pick"], model_layout=self.options["model_layout"])
            series = torch.from_numpy(batch.x[rows])
            layout, seed = self.options["layout"], self.options["seed"]
            self.explainer = fitted(self.explainer, self.model, series, background, layout, call, seed)
        if not drawn:
            self.options["background"] = None
        with counted_warnings() as self.warned:
            self.example = self.explainer(
                self.model,
                torch.from_numpy(batch.x[rows]),
                mask=None if batch.mask is None else torch.from_numpy(batch.mask[rows]),
                ids=torch.from_numpy(batch.keys[rows]),
                **self.options,
            )

    def begin(self, *, cells: str, ess: bool, batch: int | None) -> Job:
        """Begin the run, or go on with it, and return what workers do."""
        ess = validation.check_flag(ess, "ess")
        told = {name: value for name, value in self.options.items() if name not in (*NAMES, "batch_size")}
        facts = {
            "model": fingerprint(self.model)(),
            "method": self.explainer.name,
            "settings": plain_options(self.explainer.parameters),
            "learnt": getattr(self.explainer, "fingerprint", "") if self.explainer.learnt is not None else "",
            "options": plain_options(told),
            "shape": list(self.columns.shape or ()),
            "columns": {
                "x": self.columns.x,
                "id": self.columns.id,
                "mask": self.columns.mask,
                "keep": self.columns.keep,
            },
            "cells": cells,
            "ess": ess,
            "fragment": self.size,
            "version": __version__,
        }
        kept = not self.streamed and self.total is not None and _can_be_read_again(self.fragments)
        more = {"columns": self.columns.plain, "cells": cells, "ess": ess, "series": not kept, "batch": batch}
        if not self.folder.is_run:
            self.example.save(self.folder.own / EXAMPLE)
        key = self.folder.begin(facts, more)
        self.folder.sweep()
        options = {name: value for name, value in self.options.items() if value is not None}
        return Job(
            self.folder, key, self.columns, self.explainer, self.example, options, cells, ess, not kept, batch
        )


def _can_be_read_again(fragments: Iterable[Fragment]) -> bool:
    return all(fragment.kind != "memory" for fragment in fragments)


def _first_rows(batch: ReadRows) -> list[int]:
    """Return the first two series that hold numbers alone, or the first, whose fault is then said."""
    sound = np.isfinite(batch.x).reshape(len(batch), -1).all(1)
    rows = [row for row in range(len(batch)) if row not in batch.faults]
    if not rows:
        raise DataError(
            f"The first {len(batch)} rows hold no series of the right shape: {next(iter(batch.faults.values()))}."
        )
    distinct = list({int(batch.keys[row]): row for row in reversed(rows)}.values())[::-1]
    return ([row for row in distinct if sound[row]] or distinct)[:FIRST]


def _engine(
    engine: Any, job: Job, model: Model, workers: int | None, device: str | None
) -> Callable[[Iterable[Fragment]], Iterator[Attempt]]:
    folder = str(job.folder.root.resolve())
    if engine is None and (workers or 1) == 1:
        worker = Worker(job, model)
        return lambda fragments: in_this_process(worker, fragments)
    if engine is None:
        return lambda fragments: through(Processes(folder, workers or 1, device), fragments)
    if engine == "ray":
        from tempograd.bulk.on_ray import RayActors  # noqa: PLC0415  # an extra

        return lambda fragments: through(RayActors(folder, workers, device), fragments)
    if callable(engine):
        return lambda fragments: _custom(engine, folder, list(fragments))
    raise InputError(f"engine must be None, 'ray' or a function of your own, got {brief(engine)}.")


def _custom(engine: CustomEngine, folder: str, fragments: list[Fragment]) -> Iterator[Attempt]:
    named = {fragment.name: fragment for fragment in fragments}
    for outcome in watched(engine, folder, fragments):
        if not isinstance(outcome, Outcome):
            raise InputError(f"An engine must yield what Worker.run returned, got {brief(outcome)}.")
        yield Attempt(named[outcome.name], outcome)


class _Driving:
    """Goes through the fragments that are left, counts faults, and shows how far it is."""

    def __init__(self, plan: _Plan, max_faults: float, progress: Callable[[Progress], object] | None) -> None:
        self.plan, self.folder, self.max_faults, self.progress = plan, plan.folder, max_faults, progress
        self.names: list[str] = []
        self.done = self.faults = self.computed = 0
        self.first_fault, self.failed = "", list[Attempt]()
        self.warnings = WarningCounts()

    def drive(self, attempts: Callable[[Iterable[Fragment]], Iterator[Attempt]]) -> Run:
        plan, there = self.plan, self.folder.done()
        self.folder.forget_failures()
        if not plan.streamed:
            self.names = [fragment.name for fragment in plan.fragments]
            self.folder.write("fragments.json", self.names)
            self.folder.retire(plan.fragments)
        waiting = self._waiting(there)
        self.start = time.monotonic()
        with progress_bar(plan.total or 1, "explain") as advance:
            for attempt in attempts(waiting):
                self._note(attempt, advance)
        if plan.streamed:
            self.folder.write("fragments.json", self.names)
            self.folder.retire(Fragment(name, "memory", "", "") for name in self.names)
        return self._finish()

    def _waiting(self, there: set[str]) -> Iterator[Fragment]:
        for fragment in self.plan.fragments:
            if self.plan.streamed:
                self.names.append(fragment.name)
            if fragment.name not in there:
                yield fragment

    def _note(self, attempt: Attempt, advance: Any) -> None:
        outcome = attempt.outcome
        if outcome is None:
            self.failed.append(attempt)
            self.folder.note_failure(attempt.fragment, attempt.error)
            return
        self.done, self.faults = self.done + outcome.rows, self.faults + outcome.faults
        self.first_fault = self.first_fault or outcome.first_fault
        self.warnings.update(dict(outcome.warnings))
        seconds = time.monotonic() - self.start
        rate = self.done / seconds if seconds else 0.0
        if self.progress is None:
            advance(outcome.rows, f"{rate:,.0f} series/s")
        else:
            total = self.plan.total
            left = None if total is None or not rate else max(0.0, (total - self.done) / rate)
            self.progress(Progress(self.done, total, self.faults, seconds, rate, left))
        total = self.plan.total
        if self.faults > self.max_faults * (max(self.done, FEWEST) if total is None else total):
            self._stop(self.done, self.faults)

    def _stop(self, rows: int, faults: int) -> None:
        reason = f" The first: {one_line(self.first_fault, 150)}" if self.first_fault else ""
        raise DataError(
            f"{faults:,} of {rows:,} series could not be explained, more than max_faults={self.max_faults:g} "
            f"allows; what is done stays.{reason}"
        )

    def _finish(self) -> Run:
        run = Run(self.folder)
        self.plan.warned.update(self.warnings.plain())
        self.plan.warned.say()
        if self.failed:
            last = self.failed[0].error.strip().rpartition("\n")[2]
            raise DataError(
                f"{len(self.failed)} of {len(self.names)} fragments failed three times, and the others are done; "
                f"open_run(…).failures() tells more. The first: {one_line(last, 150)}"
            )
        summary = run.summary()
        if summary["faults"] > self.max_faults * summary["series"]:
            self._stop(summary["series"], summary["faults"])
        return run
