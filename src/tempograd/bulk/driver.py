"""From a source to a folder of results: two series first, then all fragments, with a limit on faults."""

import copy
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import nn

from tempograd.bulk.engines import Attempt, Here, Pool, Processes, RayTasks, Threads, run_by
from tempograd.bulk.folder import RunFolder, kept_reason
from tempograd.bulk.manifest import Entry, Manifest
from tempograd.bulk.repeats import keys_of, refusal, refuse_repeats, refuse_two_kinds
from tempograd.bulk.run_plan import Removed, RunPlan, cuts_of
from tempograd.bulk.runs import Run
from tempograd.bulk.table import RESULTS
from tempograd.bulk.telling import Events, Log, Progress, Telling, beside
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
from tempograd.core.question import asks, divided
from tempograd.data import Source
from tempograd.data.files import OWN, arrow
from tempograd.data.fragments import Fragment
from tempograd.engine.predictor import Predictor
from tempograd.explainers import Explainer
from tempograd.explainers.by_name import explainer_of, require_alone
from tempograd.models import load_model
from tempograd.typing import Model

Attempts = Callable[[Iterable[Fragment]], Iterator[Attempt]]
COMMIT_EVERY = 1.0  # seconds
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
    partition: str | None = None,
    removed: Removed = "keep",
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
    out : path or address
        A folder, here or at an address such as ``s3://…``: a new one, an empty one, or that of the same run, which
        goes on.
    method : str or Explainer
        As in :func:`tempograd.explain`.
    cells : {"all", "top", "none"}
        What is kept of each cell: everything, the 20 strongest, or sums by channel and step alone.
    partition : str, optional
        A column of ``keep`` of the source, whose values make folders of results: ``day=2026-01-31/``.
    removed : {"keep", "drop", "refuse"}
        What becomes of the results of files that are gone since the last time.
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
    _check_amounts(cells, removed, fragment, batch_size, workers, max_faults, timeout)
    _check_telling(limit, log, price)
    if engine not in {None, "ray"}:
        raise InputError(f"engine must be None or 'ray', got {brief(engine)}.")
    explainer = explainer_of(method, settings, explain_dataset)
    require_alone(explainer)
    if partition is not None and partition not in source.keep:
        raise InputError(f"{arg:run.partition} must be one of the columns that go along: {arg:source.keep}.")
    folder = RunFolder(out)
    elsewhere = engine is not None or (workers or 1) > 1 or timeout is not None
    predictor = _predictor(model, device, elsewhere=elsewhere)
    address = str(model) if isinstance(model, (str, Path)) else None
    with folder.preparing():
        plan = RunPlan(folder, predictor, explainer, asked, source, fragment)
        plan.look(batch_size)
        where = None if device is None else str(device)
        job = plan.begin(cells=cells, batch=batch_size, device=where, partition=partition, address=address)
        worker = Worker(job, predictor.called)
        for name, text in (beside.get() or {}).items():
            folder.store.write_text(f"{OWN}/{name}", text)
        told: dict[str, Any] = {"run": job.key, "log": log, "progress": progress, "price": price}
        driving = Driving(plan, removed, max_faults, limit, told)
        pool = _pool(worker, engine, workers, timeout, driving.telling) if driving.changes.todo else Here(worker)
    return driving.drive(lambda fragments: run_by(pool, fragments, timeout))


def _pool(worker: Worker, engine: Any, workers: int | None, timeout: float | None, telling: Telling) -> Pool:
    """Return who runs the fragments; workers elsewhere have been started."""
    pool: Pool
    if engine == "ray":
        pool = RayTasks(worker, workers, timeout)
    elif (workers or 1) > 1 or timeout is not None:
        pool = Processes(worker, workers or 1, timeout)
    elif worker.device == "cuda":
        pool = Threads(worker)
    else:
        pool, worker.tell = Here(worker), telling.tell
    telling.workers = pool.capacity
    return pool


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
    cells: Any, removed: Any, fragment: Any, batch_size: Any, workers: Any, max_faults: Any, timeout: Any
) -> None:
    """Refuse numbers that cannot be."""
    validation.check_choice(cells, "cells", get_args(KeptCells))
    validation.check_choice(removed, "removed", get_args(Removed))
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
    """Goes through the fragments that are left, commits what is done, counts faults, and tells how far it is."""

    def __init__(
        self, plan: RunPlan, removed: Removed, max_faults: float, limit: int | None, told: dict[str, Any]
    ) -> None:
        self.plan, self.folder, self.max_faults, self.limit = plan, plan.folder, max_faults, limit
        self.manifest = Manifest(plan.folder.store)
        self.changes = plan.compare(self.manifest, removed)
        plan.write()
        self.ready = list[Entry]()  # to be committed
        self.dropped = self.changes.dropped
        there = [entry for name, entry in self.manifest.entries.items() if name in self.changes.done]
        for entry in self.manifest.adopt({fragment.name: fragment for fragment in self.changes.todo}):
            self.changes.done.add(entry.name)
            there.append(entry)
            self._keep(entry)
        before = sum(entry.totals.rows for entry in there)
        self.telling = Telling(plan.total, before, append=Events(plan.folder.store).append, **told)
        self.ready += self.changes.renewed
        self.first_fault, self.failed = "", dict[str, str]()
        self.warnings = WarningCounts()
        self.committed = time.monotonic()
        self.compared = list[Entry]()  # the first two

    def drive(self, attempts: Attempts) -> Run:
        self.folder.forget_failures()
        for origin, error in self.plan.unread.items():
            self._failed(origin, error)
        with self.telling:
            self.telling.inputs(self.changes.files)
            try:
                with self.telling.showing():
                    for attempt in attempts(self._coming()):
                        self._note(attempt)
            finally:
                self._commit()
            if self.limit is not None:
                self.telling.forecast()
            return self._finish()

    def _coming(self) -> Iterator[Fragment]:
        """Yield what is to be done, as long as the limit is not reached."""
        begun = 0
        todo = [fragment for fragment in self.changes.todo if fragment.name not in self.changes.done]
        if self.limit is not None:  # nobody knows how many series are in files that are read together
            todo = [part for each in todo for part in (each.apart() if each.rows is None else [each])]
        for fragment in todo:
            if self.limit is not None and max(begun, self.telling.done) >= self.limit:
                return
            if self.limit is not None and not begun and (fragment.rows or 0) > self.limit:
                warn(
                    f"The next fragment has {fragment.rows:,} series, more than {arg:run.limit={self.limit}}: all "
                    "of them are explained."
                )
            begun += fragment.rows or 0
            yield fragment

    def _failed(self, where: str, error: str) -> None:
        self.failed[where] = kept_reason(error)
        self.folder.note_failure(where, error)

    def _note(self, attempt: Attempt) -> None:
        entry, telling = attempt.entry, self.telling
        if entry is None:
            self._failed(attempt.fragment.where, attempt.error)
            telling.failed(attempt.fragment.where, kept_reason(attempt.error))
            return
        self.first_fault = self.first_fault or entry.first_fault
        for text, times in entry.warnings.items():
            self.warnings.add(text, times)
        size = sum(size for size, _ in entry.files.values())
        telling.note(entry.fragment.where, entry.totals.rows, entry.totals.faults, entry.seconds, size)
        self._keep(entry)
        if time.monotonic() - self.committed >= COMMIT_EVERY:
            self._commit()
        self._compare(entry)
        total, done, faults = self.plan.total, telling.done, telling.faults
        if faults > self.max_faults * (max(done, FEWEST) if total is None else total):
            self._stop(done, faults)

    def _keep(self, entry: Entry) -> None:
        """Let an entry be committed, at once or with all that takes the place of the same earlier results."""
        parts = cuts_of(entry.fragment)
        swap = next((swap for part in parts if (swap := self.changes.swaps.get(part))), None)
        if swap is None:
            self.ready.append(entry)
            return
        swap.entries.append(entry)
        swap.left -= parts
        if not swap.left:
            self.ready += swap.entries
            self.dropped |= swap.old

    def _commit(self) -> None:
        """Make a version of what is ready."""
        if self.ready or self.dropped:
            self.manifest.commit(self.ready, self.dropped)
        self.ready, self.dropped, self.committed = [], set(), time.monotonic()

    def _compare(self, entry: Entry) -> None:
        """Refuse ids of another kind than those of the first fragment, and a second one that has the same.

        All are compared with each other at the end: their keys would not fit into memory.
        """
        if not self.compared:
            known = self.manifest.entries.values()  # some of earlier input, others damaged
            self.compared = [*islice((each for each in known if each.name in self.changes.done), 1)]
        refuse_two_kinds([*self.compared[:1], entry])
        if len(self.compared) < 2:
            self.compared.append(entry)
            if len(self.compared) == 2 and self.compared[0].name != entry.name:
                one, two = (keys_of(self.folder.store, each) for each in self.compared)
                both = np.intersect1d(one, two, assume_unique=True)
                if len(both):
                    raise refusal(self.folder.store, self.compared, int(both[0]))

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
            what = "1 file or fragment" if len(self.failed) == 1 else f"{len(self.failed):,} files or fragments"
            told = (
                f"{what} could not be read or explained; the others are done, and {arg:run.failures} tells more. "
            )
            first = next(iter(self.failed.values()))
            raise DataError(f"{told}The first: {one_line(first, LONGEST - len(told))}", code="run.faults")
        summary = run.summary()
        if summary["faults"] > self.max_faults * summary["series"]:
            self._stop(summary["series"], summary["faults"])
        refuse_repeats(self.manifest)
        return run
