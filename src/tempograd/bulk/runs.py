"""A run that was made, read from its manifest: how good it is, which files count, and single explanations."""

import heapq
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tempograd.bulk.manifest import Entry, Manifest, keys_of, read_results, refuse_two_kinds, repeat
from tempograd.bulk.run_plan import PLAN
from tempograd.bulk.store import FAILED, TABLES, RunFolder
from tempograd.bulk.table import as_explanation, side_by_side
from tempograd.core import rng, validation
from tempograd.core.errors import DataError, InputError, brief, listed, short_path, warn
from tempograd.core.estimate import MANY
from tempograd.core.formatting import counted
from tempograd.core.series import is_nested
from tempograd.core.validation import text_key
from tempograd.data import Source
from tempograd.data.files import arrow
from tempograd.data.fragments import read_fragment, version_of
from tempograd.explanation import Explanation
from tempograd.explanation.diagnostics import AGAINST, GOAL, MOST, SAYS, in_few, without_error
from tempograd.typing import ArrayLike

READ_AT_ONCE = 512


def open_run(folder: str | Path, version: int | None = None) -> "Run":
    """Open the folder of a run of :func:`explain_dataset`, finished or not.

    Parameters
    ----------
    folder : path or address
        Where its results are.
    version : int, optional
        A commit of it, which stays what it is while the run goes on; by default the last one.

    Examples
    --------
    >>> open_run("no/such/folder")
    Traceback (most recent call last):
    ...
    tempograd.core.errors.DataError: no/such/folder is no run: name a folder that a run over a data set wrote.
    """
    return Run(RunFolder(folder), version)


class Run:
    """The results of :func:`explain_dataset`: a folder of Parquet files, and what can be told from its manifest.

    ``folder/summary``, ``folder/drivers`` and ``folder/cells`` are tables that any database reads.

    Attributes
    ----------
    folder : str
        The folder, or the address.
    version : int
        The number of the commit that this is.
    key, method : str
        The hash of model, method, settings, options and shape, and the name of the method.
    ids : {"numbers", "texts"}
        What series are called by.
    """

    def __init__(self, folder: RunFolder, version: int | None = None) -> None:
        self._store, self._told, self._manifest = folder, folder.told(), Manifest(folder, version)
        self._entries, self._counts = list(self._manifest.entries.values()), Counter[str]()
        for entry in self._entries:
            self._counts.update(entry.counts)
        self.folder, self.version = folder.place, self._manifest.version
        self.key, self.method = str(self._told["key"]), str(self._told["facts"]["method"])
        self.ids = next((entry.made["ids"] for entry in self._entries), "texts")

    @cached_property
    def example(self) -> Explanation:
        """Return the explanation of the first two series, which tells what all series share."""
        return self._store.example()

    def __repr__(self) -> str:
        return f"Run({str(self._store)!r}, {len(self):,} series, method={self.method!r})"

    def __len__(self) -> int:
        return self._counts["series"]

    def files(self, table: str = "summary") -> list[str]:
        """Return the files of a table, sorted by name: all of them are of this version, and none is missing.

        Parameters
        ----------
        table : {"summary", "drivers", "cells"}
            Which one.
        """
        validation.check_choice(table, "table", TABLES)
        return [self._store.address(name) for name in self._manifest.files(table)]

    def summary(self) -> dict[str, Any]:
        """Count series, faults, files and what they took, from the manifest alone."""
        counts, warnings = self._counts, Counter[str]()
        for entry in self._entries:
            warnings.update(entry.warnings)
        done = {(piece.path, piece.start) for entry in self._entries for piece in entry.fragment.pieces}
        cuts = {(each["file"][0], cut[0]) for each in self._store.load(PLAN) or () for cut in each["cuts"]}
        return {
            **{name: getattr(self, name) for name in ("folder", "version", "method")},
            "cells": str(self._told["cells"]),
            **{name: counts[name] for name in ("series", "faults", "good", "samples")},
            "fragments": len(self._entries),
            "left": len({path for path, _ in cuts - done}),
            "bytes": sum(entry.size for entry in self._entries),
            "failed": len(self.failures()),
            "missing": counts["missing"] / max(counts["cells"], 1),
            "missing_read_as_zero": not counts["filled"],
            "seconds": sum(entry.seconds for entry in self._entries),
            "devices": sorted({entry.made["device"] for entry in self._entries}),
            "warnings": dict(warnings),
        }

    def verdict(self) -> str:
        """Say in one line how good the scores are, from the manifest alone."""
        counts, left = self._counts, self.summary()["left"]
        series, faults, good = counts["series"], counts["faults"], counts["good"]
        explained = series - faults
        rest = f"; {faults:,} of {series:,} series could not be explained" if faults else ""
        rest += f"; {counted(left, 'file')} still to be done" if left else ""
        if not explained:
            return f"nothing was explained{rest}"
        for what in AGAINST.values():
            if counts[what] > MANY * explained:
                return f"not to be relied on: {what} in {counts[what]:,} of {explained:,} series{rest}"
        rest = in_few({name: counts[what] for name, what in AGAINST.items()}) + rest
        if self.example.standard_error is None:
            what = "complete" if self.example.facts.complete else SAYS[without_error(self.example, None)]
            return f"{what} in {good:,} of {explained:,} series{rest}"
        status = "converged" if good >= MOST * explained else "not converged"
        settings = self.example.parameters
        if status != "converged" and self.example.facts.adaptive and "tolerance" in settings:
            on = f"with a tolerance of {GOAL:g} each series goes on until it is good"
            rest = f"; {on if settings['tolerance'] is None else 'the others ended at max_samples'}{rest}"
        used = f"{counts['samples'] / explained:,.0f} samples a series"
        return f"{status}: {good:,} of {explained:,} series are good, with {used}{rest}"

    def faults(self) -> dict[int | str, str]:
        """Return why series could not be explained, by their ids."""
        found: dict[int | str, str] = {}
        for entry in (entry for entry in self._entries if entry.counts["faults"]):
            rows = read_results(self._store, entry, "summary", ["id", "fault"]).drop_null()
            found |= zip(rows.column("id").to_pylist(), rows.column("fault").to_pylist(), strict=True)
        return found

    def failures(self) -> dict[str, str]:
        """Return why files, or some of them together, have no results, by their names."""
        return self._store.load(FAILED) or {}

    def sample(self, count: int, seed: int = 0) -> list[int | str]:
        """Return the ids of some explained series, for :meth:`take`; this reads the ids of all rows.

        A hash of seed and id draws them, so that all runs over the same series have the same sample.

        Parameters
        ----------
        count : int
            How many; all of them where the run has fewer.
        seed : int
            Of the draw.
        """
        validation.check_int(count, "count", 1)
        refuse_two_kinds(self._entries)  # which no column holds
        drawn: list[tuple[int, Any]] = []
        for entry in self._entries:
            rows = read_results(self._store, entry, "summary", ["id", "key", "fault"])
            wrong = rows.filter(rows.column("fault").is_valid()).column("key")  # also of ids that come twice
            rows = rows.filter(~arrow().compute.field("key").isin(wrong.combine_chunks()))
            keys = torch.from_numpy(rows.column("key").to_numpy().copy())
            first, second = rng.keys(seed, keys, rng.Stream.SAMPLES).numpy()
            places = ((first << 31) | (second >> 1)).tolist()
            drawn = heapq.nsmallest(count, {*drawn, *zip(places, rows.column("id").to_pylist(), strict=True)})
        if not drawn:
            raise InputError(f"{self._store} holds no explained series to draw.")
        return sorted(name for _, name in drawn)

    def take(self, ids: ArrayLike | Sequence[str] | Sequence[int | str]) -> Explanation:
        """Return the explanation of some series, for plots, reports and metrics.

        The series are read from their source again; where that is gone or has changed, they are left out, with a
        warning. Effective sample sizes, and so intervals, are there if the run was made with ``ess=True``.

        Parameters
        ----------
        ids : sequence of int or str
            As the source calls them.
        """
        wanted: list[Any] = np.asarray(ids).tolist()
        keys = [text_key(each) if isinstance(each, str) else validation.check_int(each, "ids") for each in wanted]
        if not keys or len(set(keys)) < len(keys):
            raise InputError(f"ids must be distinct and at least one, got {brief(wanted)}.")
        if (kept := self._told["cells"]) != "all":
            raise InputError(f"This run keeps no map of the cells (cells={kept!r}): make one with 'all'.")
        refuse_two_kinds(self._entries)  # which no column holds
        entries = [entry for entry in self._entries if np.isin(keys, keys_of(self._store, entry)).any()]
        places: dict[int, int] = {}
        rows = self._rows(entries, keys)
        faults = rows.column("fault").to_pylist() if entries else []
        for place, key in enumerate(rows.column("key").to_pylist() if entries else ()):
            if key in places:
                ways = "give every series an id of its own, and explain them again"
                raise InputError(f"{repeat(self._store, entries, key)}; {ways}.")
            places[key] = place
        if absent := [each for each, key in zip(wanted, keys, strict=True) if key not in places]:
            raise InputError(f"The run has no series {listed(absent)}.")
        for each, key in zip(wanted, keys, strict=True):
            if why := faults[places[key]]:
                raise InputError(f"Series {each} could not be explained: {why}")
        rows = rows.take([places[key] for key in keys]).combine_chunks()
        series = self._series(entries, np.array(keys))
        series["baseline"] = self.example.baseline[:1].expand(len(keys), -1, -1)
        if self._told["facts"]["options"].get("baseline") == "average" and "x" in series:
            series["baseline"] = validation.fill("average", series["x"], series.get("mask"), "baseline")
        return as_explanation(rows, self.example, series)

    def _rows(self, entries: list[Entry], keys: list[int]) -> Any:
        """Return the rows of these keys, summary and cells together."""
        pa, found = arrow(), []
        for entry in entries:
            here = pa.compute.field("key").isin(keys)
            summary, cells = (read_results(self._store, entry, name).filter(here) for name in ("summary", "cells"))
            found.append(side_by_side(summary, cells))
        return pa.concat_tables(found, promote_options="permissive") if found else None

    def _series(self, entries: list[Entry], keys: NDArray[np.int64]) -> dict[str, Any]:
        """Return what an explanation holds of the series, from their source; nothing where that has changed."""
        source = Source("", **self._told["columns"] | {"keep": ()})  # whose types this does not know
        shape, places = (len(keys), *(source.shape or ())), {int(key): place for place, key in enumerate(keys)}
        x, mask, times = np.zeros(0), np.ones(shape, dtype=bool), list[Any]([()] * len(keys))
        raw = None if source.scale is None else np.full(shape, np.nan)
        try:
            for piece in (piece for entry in entries for piece in entry.fragment.pieces):
                if version_of(piece.file, source) != piece.version:
                    raise DataError(f"{short_path(piece.path)} has changed since it was explained.")
            fragments = (entry.fragment for entry in entries)
            for batch in chain.from_iterable(read_fragment(each, source, READ_AT_ONCE) for each in fragments):
                x, stamps = x if x.size else np.zeros(shape, dtype=batch.x.dtype), batch.more.get("times")
                for row, key in enumerate(batch.keys.tolist()):
                    if (place := places.pop(key, None)) is None:
                        continue
                    x[place] = batch.x[row]
                    own = (stamps[row] if is_nested(stamps) else stamps) or ()
                    times[place] = (*own, *map(str, range(len(own), shape[1])))[: shape[1]] if own else None
                    mask[place] = seen = True if batch.mask is None else batch.mask[row]
                    if raw is not None and (cells := batch.more.get("raw")) is not None:
                        raw[place] = np.where(seen, cells[row], np.nan)
        except DataError as error:
            warn(f"{error.finding.text.rstrip('.')}: the series themselves are left out.")
            return {}
        cells = {"x": x, "mask": None if mask.all() else mask, "raw": raw}
        found = {name: torch.from_numpy(each) for name, each in cells.items() if each is not None}
        return found | {"times": None if None in times else tuple(times)}
