"""From a source to a folder of results: two series first, then all fragments, with a limit on faults."""

import copy
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from tempograd.bulk.engines import Attempt, Here, Pool, Processes, RayTasks, Threads, run_by
from tempograd.bulk.folder import RunFolder, kept_reason
from tempograd.bulk.repeats import keys_of, refusal, refuse_repeats, refuse_two_kinds
from tempograd.bulk.run_plan import RunPlan
from tempograd.bulk.runs import Run
from tempograd.bulk.table import RESULTS
from tempograd.bulk.worker import Worker
from tempograd.core import validation
from tempograd.core.errors import LONGEST, DataError, InputError, ModelError, WarningCounts, arg, brief, one_line
from tempograd.core.progress import Advance, progress_bar
from tempograd.core.question import asks, divided
from tempograd.data import Source
from tempograd.data.files import arrow
from tempograd.data.fragments import Fragment
from tempograd.engine.predictor import Predictor
from tempograd.explainers import Explainer
from tempograd.explainers.by_name import explainer_of, require_alone
from tempograd.models import load_model
from tempograd.typing import Model

Attempts = Callable[[Iterable[Fragment]], Iterator[Attempt]]
FEWEST = 10_000  # series before which a share of faults says nothing, where nobody knows how many will come
KeptCells = Literal["all", "top", "none"]
Engine = Literal["ray"]


class Progress(NamedTuple):
    """How far a run is.

    Attributes
    ----------
    done, total : int
        Series, with those that were done before; ``total`` is None where nobody knows it.
    faults : int
        Series that could not be explained since the start.
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


@asks()
def explain_dataset(
    model: Model | Predictor | str | Path,
    source: Source | str | Path | Sequence[str],
    out: str | Path,
    *,
    method: str | Explainer = "timing",
    cells: KeptCells = "all",
    engine: Engine | None = None,
    workers: int | None = None,
    device: str | torch.device | None = None,
    timeout: float | None = None,
    fragment: int = 8_192,
    max_faults: float = 0.01,
    progress: Callable[[Progress], object] | None = None,
    **options: Any,
) -> Run:
    """Explain any number of series, from files to a folder of files; started again, it goes on.

    Memory does not grow with the number of files, and every score is the one that a single call of
    :func:`tempograd.explain` gives. What is finished is never lost or computed twice, however a run ends.

    Parameters
    ----------
    model : nn.Module, callable, Predictor, or what load_model takes
        Other processes get a pickled copy of a module. Functions are for this process alone.
    source : Source, path, pattern, folder, address or list of paths
        What ``Source`` takes: ``tg.Source("lake/", id="machine", keep=["day"])``. Parquet files
        with a whole series in each row and ``.npy`` files are read in parts, others whole.
    out : path
        A folder: a new one, an empty one, or that of the same run, which goes on.
    method : str or Explainer
        As in :func:`tempograd.explain`.
    cells : {"all", "top", "none"}
        What is kept of each cell: everything, the 20 strongest, or sums by channel and step alone.
    engine : {"ray"}, optional
        Who runs the workers: this process or several of them, or a Ray cluster.
    workers : int, optional
        How many; by default one in this process, and with Ray one per GPU or core.
    device : str or device, optional
        Where models compute; by default where the model is, and in other processes on a GPU if there is one.
    timeout : float, optional
        Seconds after which the run ends, its workers too, if no fragment was finished meanwhile. Such a run has
        processes of its own; by default it waits.
    fragment : int
        About how many series go into one file of results.
    max_faults : float
        Share of the series that may have no explanation before the run stops.
    progress : callable, optional
        Called with a :class:`~tempograd.bulk.Progress` after each fragment, instead of the line on a terminal.
    **options
        The question as in :func:`tempograd.explain`, the same for all series, and settings of a method given by
        name.

    Returns
    -------
    Run
        The folder, with its verdict, sums and single explanations.

    See Also
    --------
    open_run : the same for a folder that is there.
    """
    arrow()
    source = source if isinstance(source, Source) else Source(source)
    question, effort, settings = divided(options)
    batch_size = effort.batch_size
    asked = vars(question) | vars(effort)
    _check_question(asked)
    asked = {name: value for name, value in asked.items() if name not in {"targets", "batch_size"}}
    _check_source(source)
    _check_amounts(cells, fragment, batch_size, workers, max_faults, timeout)
    if engine not in {None, "ray"}:
        raise InputError(f"engine must be None or 'ray', got {brief(engine)}.")
    explainer = explainer_of(method, settings, explain_dataset)
    require_alone(explainer)
    folder = RunFolder(out)
    elsewhere = engine is not None or (workers or 1) > 1 or timeout is not None
    predictor = _predictor(model, device, elsewhere=elsewhere)
    with folder.preparing():
        plan = RunPlan(folder, predictor, explainer, asked, source, fragment)
        plan.look(batch_size)
        job = plan.begin(cells=cells, batch=batch_size, device=None if device is None else str(device))
        worker = Worker(job, predictor.called)
        driving = Driving(plan, max_faults, progress)
        attempts = _attempts(worker, engine, workers, timeout, driving.tell)
    return driving.drive(attempts)


def _attempts(
    worker: Worker, engine: Any, workers: int | None, timeout: float | None, tell: Callable[[int], None]
) -> Attempts:
    """Return who runs the fragments; workers elsewhere have been started."""
    pool: Pool
    if engine == "ray":
        pool = RayTasks(worker, workers, worker.job.device)
    elif (workers or 1) > 1 or timeout is not None:
        pool = Processes(worker, workers or 1)
    elif worker.device == "cuda":
        pool = Threads(worker)
    else:
        pool, worker.tell = Here(worker), tell
    return lambda fragments: run_by(pool, fragments, timeout)


def _predictor(model: Any, device: Any, *, elsewhere: bool) -> Predictor:
    """Return the model as it is called here: on its device, a copy where it has to move."""
    if isinstance(model, (str, Path)):
        model = load_model(model, device or ("cuda" if torch.cuda.is_available() else "cpu"))
    predictor = model if isinstance(model, Predictor) else Predictor(model)
    if elsewhere and not isinstance(predictor.model, nn.Module):
        raise ModelError(f"Other processes cannot get {brief(predictor.model)}: pass an nn.Module.")
    if device is None or elsewhere:
        return predictor
    if not isinstance(predictor.model, nn.Module):
        raise InputError(f"{arg:run.device} is for modules: a function computes where it likes.")
    place, module = torch.empty(0, device=device).device, predictor.model
    if all(part.device == place for part in (*module.parameters(), *module.buffers())):
        return predictor
    return replace(predictor, model=copy.deepcopy(module).to(place))


def _check_question(options: Mapping[str, Any]) -> None:
    """Refuse what is of single series, which belongs into the source."""
    target, baseline = options["target"], options["baseline"]
    if options["targets"] is not None:
        raise InputError(f"A run explains one target: pass {arg:question.target}.")
    if hasattr(target, "shape") and getattr(target, "ndim", 0) > 0:
        raise InputError(f"{arg:question.target} must be the same for all series: an output, a function, or None.")
    if getattr(baseline, "ndim", 0) == 3 and len(baseline) != 1:
        raise InputError(
            f"{arg:question.baseline} must be the same for all series: of shape (time, channel), or a name."
        )
    if isinstance(baseline, Mapping):
        raise InputError("explain_dataset explains models of one input: pass one baseline.")


def _check_amounts(
    cells: Any, fragment: Any, batch_size: Any, workers: Any, max_faults: Any, timeout: Any
) -> None:
    """Refuse numbers that cannot be."""
    validation.check_choice(cells, "cells", get_args(KeptCells))
    for name, value in (("fragment", fragment), ("batch_size", batch_size), ("workers", workers)):
        if value is not None:
            validation.check_int(value, name, 1)
    if not 0 <= validation.check_float(max_faults, "max_faults") <= 1:
        raise InputError(f"max_faults must be a share from 0 to 1, got {brief(max_faults)}.")
    if timeout is not None and validation.check_float(timeout, "timeout") <= 0:
        raise InputError(f"timeout must be more than 0 seconds, got {brief(timeout)}.")


def _check_source(source: Source) -> None:
    """Refuse columns that would take the place of results."""
    for name in source.keep:
        if name in RESULTS and not name == (source.id or "id") == "id":
            raise InputError(
                f"{arg:source.keep} cannot name {name!r}: results have a column of that name. Rename yours in the "
                "files."
            )


# The way through the fragments that are left


class Driving:
    """Goes through the fragments that are left, counts faults, and shows how far it is."""

    def __init__(self, plan: RunPlan, max_faults: float, progress: Callable[[Progress], object] | None) -> None:
        self.plan, self.folder, self.max_faults, self.progress = plan, plan.folder, max_faults, progress
        self.fragments: dict[str, int | None] = {}
        self.before = self.done = self.faults = self.shown = 0
        self.first_fault, self.failed = "", list[Attempt]()
        self.warnings = WarningCounts()
        self.advance: Advance
        self.compared: tuple[Path, NDArray[np.int64]] | None = None  # a file of results, and its keys

    def drive(self, attempts: Attempts) -> Run:
        plan, there = self.plan, self.folder.done()
        self.folder.forget_failures()
        self.fragments = {fragment.name: fragment.rows for fragment in plan.fragments}
        self.before = sum(rows or 0 for name, rows in self.fragments.items() if name in there)
        self.folder.write("fragments.json", self.fragments)
        self.folder.retire(plan.fragments)
        self.start = time.monotonic()
        with progress_bar(None if plan.total is None else plan.total - self.before, "explain") as self.advance:
            for attempt in attempts(each for each in plan.fragments if each.name not in there):
                self._note(attempt)
        return self._finish()

    def tell(self, rows: int) -> None:
        """Show that some series of a fragment are explained, before all of them are."""
        if self.progress is not None:  # who hears of whole fragments
            return
        self.shown += rows
        self.advance(rows, self._rate(self.done + self.shown))

    def _rate(self, done: int) -> str:
        faults = f", {self.faults:,} without an explanation" if self.faults else ""
        return f"{done / max(time.monotonic() - self.start, 1e-9):,.0f} series/s{faults}"

    def _note(self, attempt: Attempt) -> None:
        outcome = attempt.outcome
        if outcome is None:
            self.failed.append(attempt)
            self.folder.note_failure(attempt.fragment, attempt.error)
            return
        self.done, self.faults = self.done + outcome.rows, self.faults + outcome.faults
        self.first_fault = self.first_fault or outcome.first_fault
        for text, times in outcome.warnings:
            self.warnings.add(text, times)
        total, seconds = self.plan.total, time.monotonic() - self.start
        if self.progress is None:
            self.advance(outcome.rows - self.shown, self._rate(self.done))
        else:
            done, rate = self.before + self.done, self.done / seconds if seconds else 0.0
            left = None if total is None or not rate else max(0.0, (total - done) / rate)
            self.progress(Progress(done, total, self.faults, seconds, rate, left))
        self.shown = 0
        self._compare(self.folder.path(attempt.fragment.name))
        if self.faults > self.max_faults * (max(self.done, FEWEST) if total is None else total):
            self._stop(self.done, self.faults)

    def _compare(self, path: Path) -> None:
        """Refuse a file whose ids are of another kind than those of the first one, or are the same ones.

        All are compared with each other at the end: their keys would not fit into memory.
        """
        keys = keys_of(path)
        if self.compared is None:
            self.compared = path, keys
        refuse_two_kinds(sorted({self.compared[0], path}))
        both = np.intersect1d(self.compared[1], keys, assume_unique=True)
        if len(both) and path != self.compared[0]:
            raise refusal([self.compared[0], path], int(both[0]))

    def _stop(self, rows: int, faults: int) -> None:
        told = (
            f"The first: {one_line(self.first_fault, 150)}" if self.first_fault else f"{arg:run.faults} tells why."
        )
        raise DataError(
            f"{faults:,} of {rows:,} series could not be explained, more than "
            f"{arg:run.max_faults={self.max_faults:g}} allows; what is done stays. {told}",
            code="run.faults",
        )

    def _finish(self) -> Run:
        run = Run(self.folder)
        for text, times in self.warnings.items():
            self.plan.warned.add(text, times)
        self.plan.warned.say()
        if self.failed:
            told = (
                f"{len(self.failed)} of {len(self.fragments)} fragments failed three times, and the others are "
                f"done; {arg:run.failures} tells more. The first: "
            )
            said = one_line(kept_reason(self.failed[0].error), LONGEST - len(told))
            raise DataError(told + said, code="run.faults")
        summary = run.summary()
        if summary["faults"] > self.max_faults * summary["series"]:
            self._stop(summary["series"], summary["faults"])
        refuse_repeats(run.files, summary["series"])
        return run
