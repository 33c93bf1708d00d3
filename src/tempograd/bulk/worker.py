"""One worker: reads a fragment, explains it batch by batch, writes one file of results. It needs no engine."""

import copy
import ctypes
import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tempograd.bulk import table
from tempograd.bulk.manifest import STAGED, Entry
from tempograd.bulk.store import TABLES, Files, Store
from tempograd.core.errors import (
    DataError,
    ModelError,
    OutputError,
    arg,
    brief,
    counted_warnings,
    short_path,
    warn,
)
from tempograd.core.progress import muted
from tempograd.core.series import Series
from tempograd.data import Source
from tempograd.data.files import arrow
from tempograd.data.fragments import Fragment, read_fragment
from tempograd.data.pivot import Part
from tempograd.engine import fingerprint, frozen, place
from tempograd.engine.model import find_device
from tempograd.engine.predictor import Predictor
from tempograd.explainers import Explainer
from tempograd.explanation import Explanation
from tempograd.models.files import load_model, program_of
from tempograd.typing import Model
from tempograd.version import __version__

CPU_BATCH, GPU_BATCH = 512, 8_192  # series per call: from there on, more of them are no faster
MOST_CELLS = 1 << 24  # of a batch, so that long series do not fill the memory
# Passes of a few rows go through other kernels, which round otherwise. Measured on one x86 CPU (GRU, CNN; TIMING
# with 2 to 50 samples, integrated gradients): calls of one series, and with 2 or 3 samples of two, differ from one
# large call in the last bits; filled up to 4, 8 or 16 they never did. This is no proof for other processors.
FILLED = 8  # series that a call has at least, copies of its first where there are fewer


@dataclass(frozen=True)
class Job:
    """What a worker does with every fragment.

    Attributes
    ----------
    store : Store
        Where results go.
    key : str
        Of the run, which every file of results holds.
    source : Source
        Which columns or arrays are what.
    explainer : Explainer
        The method.
    example : Explanation
        Of two series, which tells what all share.
    kept : pyarrow.Schema, optional
        The types of the columns that go along.
    about : dict
        What was said of the model, the fields of :class:`tempograd.Predictor`.
    options : dict
        Those of :func:`tempograd.explain`.
    cells : {"all", "top", "none"}
        What is kept of each cell.
    batch : int, optional
        Series per call.
    device : str, optional
        Where models of other processes compute; by default on a GPU if there is one.
    """

    store: Store
    key: str
    source: Source
    explainer: Explainer
    example: Explanation
    kept: Any
    about: dict[str, Any]
    options: dict[str, Any]
    cells: str
    batch: int | None
    device: str | None


class Worker:
    """Explains fragments of a run, one after the other.

    A fragment may be run twice, by one worker or two: its results are written once, whole, under its name. So any
    engine that runs every task at least once gives every result exactly once.

    Parameters
    ----------
    job : Job
        What to do.
    model : nn.Module or callable
        The model.
    """

    def __init__(self, job: Job, model: Model) -> None:
        self.job, self.model = job, model
        self.tell: Callable[[int], None] = lambda rows: None  # of every batch, to whoever shows progress
        self.lock = threading.Lock()  # of the model, which several threads may feed
        time_, depth = job.source.shape or (1, 1)
        self.place = place(model, torch.zeros(1, 1, 1))[0]
        self.device = self.place.type
        self.most = max(1, MOST_CELLS // (time_ * depth))
        self.size = min(job.batch or (CPU_BATCH if self.device == "cpu" else GPU_BATCH), self.most)
        self.alone = {"batch_size": job.batch or 1} if job.example.mixes_series else {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Let other processes get a copy; a program in a file, which nothing can pickle, is read there again."""
        if (file := program_of(self.model)) is not None:
            return _worker_elsewhere, (self.job, file, fingerprint(self.model)())
        with frozen(self.model):
            return _worker_elsewhere, (self.job, copy.deepcopy(cast("nn.Module", self.model)).cpu())

    def run(self, fragment: Fragment | None) -> Entry | None:
        """Explain a fragment, and leave what became of it in the store, for a driver that is killed."""
        if fragment is None:  # who asks wants to know whether this worker opens
            return None
        store, staged = self.job.store, f"{STAGED}/{fragment.name}.json"
        if (finished := store.load(staged)) is not None:  # by a worker that died before it could tell
            return Entry.from_plain(finished)
        with store.scratch() as folder:
            entry = _Writing(self, fragment, folder).write()
        store.write(staged, entry.plain)
        return entry

    def explain(self, batch: Part, rows: NDArray[np.int64]) -> Explanation:
        """Explain some rows of a batch in one call, whose numbers do not depend on how many there are."""
        count = len(rows)
        keys, more = _filled(batch.keys[rows], min(FILLED, self.most))
        rows = np.concatenate([rows, np.repeat(rows[:1], more)])
        whole = count == len(batch) and not more
        x = torch.from_numpy(batch.x if whole else batch.x[rows])
        mask = None if batch.mask is None else torch.from_numpy(batch.mask if whole else batch.mask[rows])
        with self.lock:
            found = self._call(x, mask, torch.from_numpy(keys))
        return found[:count] if more else found

    def _call(self, x: Tensor, mask: Tensor | None, ids: Tensor) -> Explanation:
        """Explain; series that lie on a CUDA device let the columns of the table be computed there too."""
        if self.device == "cuda":  # other accelerators do not add in double precision
            x, mask = x.to(self.place), mask if mask is None else mask.to(self.place)
        job, example = self.job, self.job.example
        with muted():
            series = Series(x, mask=mask, ids=ids, channels=job.source.channels, units=job.source.units)
            found = job.explainer(Predictor(self.model, **job.about), series, **(self.alone | job.options))
        # one series, filled up with copies, does not show that a batch matters
        return replace(found, varies=example.varies, mixes_series=True) if example.mixes_series else found

    def explain_each(self, batch: Part, known: set[int]) -> table.ExplainedRows:
        """Explain a batch; what fails is halved until the series stand alone that cannot be explained.

        ``known`` are keys that the fragment had before, to which those of the batch are added.
        """
        faults = dict(batch.faults)
        for row, key in enumerate(batch.keys.tolist()):
            if key in known and row not in faults:
                called, origin = batch.ids[row].as_py(), batch.more["origins"][row]
                twice = f"its id {brief(called)} occurs more than once ({origin})"
                faults[row] = f"{twice}: make ids of several columns, such as {arg:source.id=day,machine}"
            known.add(key)
        rows = np.array([row for row in range(len(batch)) if row not in faults], dtype=np.int64)
        bad = ~np.isfinite(batch.x).all((1, 2))[rows]  # these may be refused: they are asked about one by one
        waiting = [part for part in (rows[~bad], *rows[bad][:, None]) if len(part)]
        done = []
        while waiting:
            rows = waiting.pop(0)
            try:
                done.append((rows, self.explain(batch, rows)))
            except (MemoryError, torch.OutOfMemoryError, OutputError):
                raise
            except Exception as error:  # whatever a model raises for one series must not cost the others
                if len(rows) == 1:
                    faults[int(rows[0])] = table.reason_of(error)
                else:
                    waiting = [rows[: len(rows) // 2], rows[len(rows) // 2 :], *waiting]
        return table.ExplainedRows(done, faults)


def _worker_elsewhere(job: Job, model: nn.Module | Path, mark: str = "") -> Worker:
    """Return a worker of another process, from its job and a module, or the file of one and its fingerprint."""
    device = job.device or ("cuda" if torch.cuda.is_available() else "cpu")
    if isinstance(model, nn.Module):
        return Worker(job, model.to(find_device(device)).eval())
    program = load_model(model, device, trust=True)  # the program that sent it trusts it
    if fingerprint(program)() != mark:
        raise ModelError(f"{short_path(model)} is not the file that the run began with.")
    return Worker(job, program)


def _filled(keys: NDArray[np.int64], least: int) -> tuple[NDArray[np.int64], int]:
    """Add keys that are nobody's, so that there are at least so many, and tell how many were added.

    Examples
    --------
    >>> _filled(np.array([7, 8]), 4)
    (array([7, 8, 0, 1]), 2)
    """
    more = np.setdiff1d(np.arange(least), keys)[: max(0, least - len(keys))]
    return np.concatenate([keys, more]), len(more)


_TRIM = getattr(ctypes.CDLL(None) if os.name == "posix" else None, "malloc_trim", lambda kept: None)


class _File:
    """A Parquet file of results that is being written, in groups of rows."""

    def __init__(self, path: Path, schema: Any) -> None:
        self.path, self.waiting, self.writer = path, list[Any](), table.open_writer(str(path), schema)

    def add(self, rows: Any) -> None:
        self.waiting.append(rows)
        if sum(each.nbytes for each in self.waiting) >= table.GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what waits, as one group of rows."""
        if self.waiting:
            whole, self.waiting = arrow().concat_tables(self.waiting), []
            self.writer.write_table(whole, row_group_size=max(1, len(whole)))  # there may be no driver
            del whole
            arrow().default_memory_pool().release_unused()  # or it keeps what it once had
            _TRIM(0)  # and so does glibc, for each of the threads that read and write


class _Writing:
    """The writing of the results of a fragment: reads ahead, explains, and writes behind, in three threads."""

    def __init__(self, worker: Worker, fragment: Fragment, folder: Path) -> None:
        self.worker, self.fragment, self.folder = worker, fragment, folder
        self.start = time.perf_counter()
        self.counts, self.ids = Counter[str](), "numbers"
        self.files: dict[str, _File] = {}  # by names in the store

    def write(self) -> Entry:
        worker, known = self.worker, set[int]()
        batches = read_fragment(self.fragment, worker.job.source, worker.size, worker.job.kept)
        stream = torch.cuda.current_stream(worker.place) if worker.device == "cuda" else None
        try:
            with ThreadPoolExecutor(2) as beside, counted_warnings() as told:
                coming = beside.submit(next, batches, None)
                pending: Future[Any] = beside.submit(int)  # nothing to keep yet
                while (batch := coming.result()) is not None:
                    coming = beside.submit(next, batches, None)
                    self._tell_padding(batch)
                    done = worker.explain_each(batch, known)
                    pending.result()
                    pending = beside.submit(self._keep, batch, done, stream and stream.record_event())
                    worker.tell(len(batch))
                pending.result()
            if not self.files:
                raise DataError(f"{self.fragment.where} holds no series.")
            for file in self.files.values():
                file.flush()
        finally:
            for file in self.files.values():
                file.writer.close()
        made = {"device": worker.device, "tempograd": __version__, "torch": torch.__version__, "ids": self.ids}
        seconds = time.perf_counter() - self.start
        return Entry(self.fragment, self._publish(), dict(self.counts), dict(told), seconds, made)

    def _publish(self) -> Files:
        """Put the files into the store, those that have a row for every series last."""
        store, published = self.worker.job.store, Files()
        for name in sorted(self.files, key=lambda name: TABLES.index(name.partition("/")[0])):
            status = self.files[name].path.stat()
            store.publish(self.files[name].path, name)
            published[name] = status.st_size, status.st_mtime if store.local else 0.0
        return published

    def _tell_padding(self, batch: Part) -> None:
        """Say what a model reads after the end of shorter series, which readers pad; arrays come as they are."""
        if batch.mask is None or self.fragment.pieces[0].file.ending == ".npy":
            return
        ends = ~batch.mask[:, -1].any(-1) & (batch.x[:, -1] == 0).all(-1)
        if short := int(ends.sum()):
            warn(
                f"{short} of {len(batch)} series end before the last step: the model reads 0 there, which is "
                "masked. Unless it was trained on padded series, explain such files one by one, with each length "
                "by itself."
            )

    def _keep(self, batch: Part, done: table.ExplainedRows, explained: Any) -> None:
        """Turn a batch into rows of the tables; a GPU explains the next one meanwhile, and neither waits."""
        if explained is not None:
            stream = torch.cuda.Stream(self.worker.place)  # type: ignore[no-untyped-call]  # of torch
            stream.wait_event(explained)
            torch.cuda.set_stream(stream)  # of this thread
        job = self.worker.job
        self.ids = "numbers" if arrow().types.is_integer(batch.ids.type) else "texts"
        example = replace(job.example, channels=job.source.channels, units=job.source.units)
        tables, counts = table.as_tables(batch, done, example, job.cells, job.key)
        self.counts.update(counts)
        for name, rows in tables.items():
            for folder, part in table.parted(rows, job.source.partition):
                path = f"{name}/{folder}{self.fragment.name}.parquet"
                if path not in self.files:
                    self.files[path] = _File(self.folder / f"{len(self.files)}.parquet", part.schema)
                self.files[path].add(part)
