"""From a source to a folder of results: two series first, then all fragments, with a limit on faults."""

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tempograd.bulk.engines import Attempt, Here, Pool, Processes, RayTasks, Threads, run_by
from tempograd.bulk.manifest import Entry, Manifest, refuse_repeats
from tempograd.bulk.run_plan import PLAN, RunPlan
from tempograd.bulk.runs import Run
from tempograd.bulk.store import FAILED, RunFolder, kept_reason
from tempograd.bulk.table import columns_of
from tempograd.bulk.telling import EVENTS, Telling, Terms, beside
from tempograd.bulk.worker import Worker
from tempograd.core.errors import LONGEST, DataError, InputError, ModelError, arg, brief, one_line
from tempograd.core.question import asks, divided
from tempograd.core.validation import check_settings
from tempograd.data import Source
from tempograd.data.files import OWN, arrow
from tempograd.data.fragments import Fragment
from tempograd.engine.predictor import Predictor
from tempograd.explainers import Explainer
from tempograd.explainers.by_name import explainer_of, require_alone
from tempograd.models import load_model
from tempograd.typing import Model

FEWEST = 10_000  # series before which a share of faults says nothing, where nobody knows how many will come


@asks(Terms, without=("targets", "gradient_check"))
def explain_dataset(
    model: Model | Predictor | str | Path,
    source: Source | str | Path | Sequence[str],
    out: str | Path,
    *,
    method: str | Explainer = "timing",
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
    removed : {"keep", "drop", "refuse"}
        What becomes of the results of files that are gone since the last time.
    engine : {"ray"}, optional
        Who runs the workers: this process or several of them, or a Ray cluster.
    workers : int, optional
        How many; by default one in this process, and with Ray one per GPU or core.
    device : str or device, optional
        Where models compute, to which a module is moved; by default where the model is, and in other processes on
        a GPU if there is one.
    timeout : float, optional
        Seconds after which the run ends, its workers too, if no fragment was finished meanwhile. Such a run has
        processes of its own; by default it waits.
    fragment : int
        About how many series go into one file of results.
    max_faults : float
        Share of the series that may have no explanation before the run stops.
    limit : int, optional
        End after about so many series more, whole fragments of them; the same call without it goes on.
    progress : {"text", "json"}, Log or callable, optional
        What is written to standard error, a :class:`~tempograd.bulk.Log` or its kind: by default a bar on a
        terminal, and text elsewhere. Or what is called with a :class:`~tempograd.bulk.Progress` after each
        fragment instead.
    **options
        The question as in :func:`tempograd.explain`, the same for all series, and settings of a method given by
        name. Gradients are always checked.

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
    terms = Terms(**{each.name: settings.pop(each.name) for each in fields(Terms) if each.name in settings})
    check_settings(terms)
    asked = vars(question) | vars(effort)
    _check_question(asked)
    if "gradient_check" in options:
        raise InputError(f"A run always checks gradients: leave {arg:effort.gradient_check} out.")
    del asked["targets"], asked["batch_size"]
    explainer = explainer_of(method, settings, explain_dataset)
    require_alone(explainer)
    if source.partition is not None and source.partition not in source.keep:
        raise InputError(f"{arg:source.partition} must be one of the columns that go along: {arg:source.keep}.")
    folder = RunFolder(out)
    folder.check()
    plan = RunPlan(folder, _predictor(model, terms), explainer, asked, source, terms)
    plan.look(effort.batch_size)
    for name in {*source.keep} & columns_of(plan.example) - ({"id"} if source.id in {None, "id"} else set()):
        clash = f"{arg:source.keep} cannot name {name!r}: results have a column of that name"
        raise InputError(f"{clash}. Rename yours in the files.")
    job, content = plan.job(effort.batch_size, str(model) if isinstance(model, (str, Path)) else None)
    worker = Worker(job, plan.predictor.called)
    driving = Driving(plan, job.key)
    pool = _pool(worker, terms, driving.telling) if plan.todo else Here(worker)
    with closing(pool):
        folder.begin(content, plan.example)
        for name, text in (beside.get() or {}).items():
            folder.write_text(f"{OWN}/{name}", text)
        return driving.drive(pool)


def _pool(worker: Worker, terms: Terms, telling: Telling) -> Pool:
    """Return who runs the fragments; workers elsewhere have been started."""
    if terms.engine == "ray":
        pool: Pool = RayTasks(worker, terms.workers, terms.timeout)
    elif terms.timeout is not None or (terms.workers or 1) > 1:
        pool = Processes(worker, terms.workers or 1, terms.timeout)
    elif worker.device == "cuda":
        pool = Threads(worker)
    else:
        pool, worker.tell = Here(worker), telling.tell
    telling.workers = pool.capacity
    return pool


def _predictor(model: Any, terms: Terms) -> Predictor:
    """Return the model as it is called here, on its device."""
    device, elsewhere = terms.device, terms.engine or terms.timeout or (terms.workers or 1) > 1
    if isinstance(model, (str, Path)):
        model = load_model(model, device or ("cuda" if torch.cuda.is_available() else "cpu"))
    predictor = model if isinstance(model, Predictor) else Predictor(model)
    module = predictor.model
    if device is None and not elsewhere:
        return predictor
    if not isinstance(module, nn.Module):
        raise ModelError(f"{arg:run.device} and other processes are for an nn.Module, got {brief(module)}.")
    if elsewhere or all(p.device == torch.empty(0, device=device).device for p in module.state_dict().values()):
        return predictor
    return replace(predictor, model=copy.deepcopy(module).to(device))


def _check_question(options: Mapping[str, Any]) -> None:
    """Refuse what is of single series, which belongs into the source."""
    if options["targets"] is not None:
        raise InputError(f"A run explains one target: pass {arg:question.target}.")
    for name, axes in (("target", 0), ("baseline", 2)):
        if getattr(options[name], "ndim", 0) > axes and len(options[name]) != 1:
            raise InputError(f"{arg:question.{name}} must be the same for all series: pass one of them.")


# The way through the fragments that are left


class Driving:
    """Goes through the fragments that are left, commits what is done, counts faults, and tells how far it is."""

    def __init__(self, plan: RunPlan, key: str) -> None:
        self.plan, self.folder, self.terms = plan, plan.folder, plan.terms
        self.manifest = Manifest(plan.folder)
        plan.compare(self.manifest)
        self.waiting = list[Entry]()  # for all that takes the place of the same earlier results
        self.older = set().union(*(entry.fragment.paths for entry in plan.old.values()))
        there = [entry for name, entry in self.manifest.entries.items() if name in plan.sound]
        self.first = there[:1]  # the first two, which are compared at once
        self.adopted = self.manifest.adopt({fragment.name for fragment in plan.todo})
        before = sum(entry.counts["series"] for entry in [*there, *self.adopted])
        self.failed = dict[str, str]()
        self.telling = Telling(plan.total, before, key, self._append, plan.terms)

    def drive(self, pool: Pool) -> Run:
        self.folder.write(PLAN, [each.plain for each in self.plan.found])
        self.folder.delete(FAILED)  # all is tried again
        for origin, error in self.plan.unread.items():
            self._failed(origin, error)
        with self.telling:
            self.telling.inputs(self.plan.changed)
            self._keep(*self.plan.renewed, *self.adopted)
            try:
                with self.telling.showing():
                    for attempt in run_by(pool, self._coming(), self.terms.timeout):
                        self._note(attempt)
            finally:
                self.manifest.commit(*self.plan.replacing(self.waiting))
            if self.terms.limit is not None:
                self.telling.forecast()
            return self._finish()

    def _append(self, event: dict[str, Any]) -> None:
        self.folder.append(EVENTS, json.dumps(event) + "\n")

    def _coming(self) -> Iterator[Fragment]:
        """Yield what is to be done, as long as the limit is not reached."""
        begun, limit, done = 0, self.terms.limit, {entry.name for entry in self.adopted}
        for each in (fragment for fragment in self.plan.todo if fragment.name not in done):
            # nobody knows how many series are in files that are read together
            for fragment in each.apart() if limit is not None and each.rows is None else [each]:
                if limit is not None and max(begun, self.telling.done) >= limit:
                    return
                begun += fragment.rows or 0
                yield fragment

    def _failed(self, where: str, error: str) -> None:
        self.failed[where] = error
        self.folder.write(FAILED, self.failed)

    def _note(self, attempt: Attempt) -> None:
        entry, telling = attempt.entry, self.telling
        if entry is None:
            self._failed(attempt.fragment.where, attempt.error)
            telling.failed(attempt.fragment.where, kept_reason(attempt.error))
            return
        for text, times in entry.warnings.items():
            self.plan.warned.add(text, times)
        series, faults = entry.counts["series"], entry.counts["faults"]
        telling.note(entry.fragment.where, series, faults, entry.seconds, entry.size)
        self._keep(entry)
        if len(self.first) < 2:  # files that count alike; the others are compared at the end
            self.first.append(entry)
            refuse_repeats(self.folder, self.first)
        series = max(telling.done, FEWEST) if self.plan.total is None else self.plan.total
        self._stop_at(telling.faults, telling.done, series)

    def _keep(self, *entries: Entry) -> None:
        """Commit entries, unless they take the place of earlier results: those wait until all are there."""
        wait = [entry for entry in entries if not self.older.isdisjoint(entry.fragment.paths)]
        self.waiting += wait
        if len(wait) < len(entries):
            self.manifest.commit(entry for entry in entries if entry not in wait)

    def _stop_at(self, faults: int, done: int, series: int) -> None:
        """Stop where too large a share of so many series has no explanation."""
        if faults > self.terms.max_faults * series:
            share = f"more than {arg:run.max_faults={self.terms.max_faults:g}} allows; what is done stays"
            told = f"{faults:,} of {done:,} series could not be explained, {share}. {arg:run.faults} tells why."
            raise DataError(told, code="run.faults")

    def _finish(self) -> Run:
        self.plan.warned.say()
        if self.failed:
            what = "1 file or fragment" if len(self.failed) == 1 else f"{len(self.failed):,} files or fragments"
            why = f"{what} could not be read or explained; the others are done, and {arg:run.failures} tells more."
            first = kept_reason(next(iter(self.failed.values())))
            raise DataError(f"{why} The first: {one_line(first, LONGEST - len(why))}", code="run.faults")
        run = Run(self.folder)
        summary = run.summary()
        self._stop_at(summary["faults"], summary["series"], summary["series"])
        refuse_repeats(self.folder, self.manifest.entries.values())
        return run
