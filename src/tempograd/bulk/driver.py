"""From a source to a folder of results: two series first, then all fragments, with a limit on faults."""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

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
from tempograd.bulk.telling import EVENTS, Log, Progress, Telling, appending, beside
from tempograd.bulk.worker import Worker
from tempograd.core import validation
from tempograd.core.errors import (
    LONGEST,
    DataError,
    InputError,
    ModelError,
    WarningCounts,
    arg,
    brief,
    one_line,
    warn,
)
from tempograd.core.io import write_atomically
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
    limit: int | None = None,
    log: Log | None = None,
    price: float | None = None,
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
    limit : int, optional
        End after about so many series more, whole fragments of them; the same call without it goes on.
    log : {"text", "json"}, optional
        Lines with a time stamp on standard error: text, one a minute, or all events as JSON; by default text where
        that is no terminal.
    price : float, optional
        Money per hour, for the forecast of what the rest will take.
    progress : callable, optional
        Called with a :class:`~tempograd.bulk.Progress` after each fragment, instead of what is shown by default.
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
    _check_telling(limit, log, price)
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
        for name, text in (beside.get() or {}).items():
            write_atomically(folder.own / name, partial(Path.write_text, data=text, encoding="utf-8"))
        driving = Driving(plan, job.key, max_faults, limit, log=log, progress=progress, price=price)
        attempts = _attempts(worker, engine, workers, timeout, driving.telling)
    return driving.drive(attempts)


def _attempts(
    worker: Worker, engine: Any, workers: int | None, timeout: float | None, telling: Telling
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
        pool, worker.tell = Here(worker), telling.tell
    telling.workers = pool.capacity
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


def _check_telling(limit: Any, log: Any, price: Any) -> None:
    """Refuse what cannot be told."""
    if limit is not None:
        validation.check_int(limit, "limit", 1)
    if log is not None:
        validation.check_choice(log, "log", get_args(Log))
    if price is not None and validation.check_float(price, "price") < 0:
        raise InputError(f"price must not be negative, got {brief(price)}.")


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
    """Goes through the fragments that are left, counts faults, and tells how far it is."""

    def __init__(self, plan: RunPlan, key: str, max_faults: float, limit: int | None, **told: Any) -> None:
        self.plan, self.folder, self.max_faults, self.limit = plan, plan.folder, max_faults, limit
        self.there = self.folder.done()
        self.fragments = {fragment.name: fragment.rows for fragment in plan.fragments}
        before = sum(rows or 0 for name, rows in self.fragments.items() if name in self.there)
        append = appending(self.folder.own / EVENTS)
        self.telling = Telling(plan.total, before, run=key, append=append, **told)
        self.first_fault, self.failed = "", list[Attempt]()
        self.warnings = WarningCounts()
        self.compared: tuple[Path, NDArray[np.int64]] | None = None  # a file of results, and its keys

    def drive(self, attempts: Attempts) -> Run:
        self.folder.forget_failures()
        self.folder.write("fragments.json", self.fragments)
        self.folder.retire(self.plan.fragments)
        with self.telling:
            with self.telling.showing():
                for attempt in attempts(self._coming()):
                    self._note(attempt)
            if self.limit is not None:
                self.telling.forecast()
            return self._finish()

    def _coming(self) -> Iterator[Fragment]:
        """Yield what is to be done, as long as the limit is not reached."""
        begun = 0
        for fragment in self.plan.fragments:
            if fragment.name in self.there:
                continue
            if self.limit is not None and max(begun, self.telling.done) >= self.limit:
                return
            if self.limit is not None and not begun and (fragment.rows or 0) > self.limit:
                warn(
                    f"The next fragment has {fragment.rows:,} series, more than {arg:run.limit={self.limit}}: all "
                    "of them are explained."
                )
            begun += fragment.rows or 0
            yield fragment

    def _note(self, attempt: Attempt) -> None:
        outcome, telling, name = attempt.outcome, self.telling, attempt.fragment.name
        if outcome is None:
            self.failed.append(attempt)
            self.folder.note_failure(attempt.fragment, attempt.error)
            telling.failed(name, kept_reason(attempt.error))
            return
        self.first_fault = self.first_fault or outcome.first_fault
        for text, times in outcome.warnings:
            self.warnings.add(text, times)
        path = self.folder.path(name)
        telling.note(name, outcome.rows, outcome.faults, outcome.seconds, path.stat().st_size)
        self._compare(path)
        total, done, faults = self.plan.total, telling.done, telling.faults
        if faults > self.max_faults * (max(done, FEWEST) if total is None else total):
            self._stop(done, faults)

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
