"""A run that was made, read from its manifest: how good it is, which channels matter, which files count."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tempograd.bulk import repeats, table
from tempograd.bulk.folder import RunFolder
from tempograd.bulk.manifest import Entry, Manifest
from tempograd.bulk.run_plan import PLAN
from tempograd.bulk.table import TABLES
from tempograd.core import rng, validation
from tempograd.core.errors import DataError, InputError, brief, listed, short_path, warn
from tempograd.core.estimate import MANY
from tempograd.core.formatting import counted
from tempograd.core.validation import text_key
from tempograd.data import Source
from tempograd.data.files import arrow
from tempograd.data.fragments import Fragment, read_fragment, version_of
from tempograd.engine.outputs import named_target
from tempograd.explanation import Explanation
from tempograd.explanation.diagnostics import AGAINST, GOAL, MOST, SAYS, about_error, in_few, without_error
from tempograd.typing import ArrayLike

NORMAL = 1.959963984540054  # standard errors on either side of a mean that hold 95 %
READ_AT_ONCE = 512
AGAIN = "give every series an id of its own, and explain them again"


@dataclass(frozen=True, eq=False)
class ChannelImportance:
    """How much each channel mattered on average over series, with the errors of these means.

    Attributes
    ----------
    channels : tuple of str
        What they are called.
    count : int
        Series.
    effect, effect_error : array of shape (channel,)
        Mean over the series of the sum of a channel's scores, and the standard error of that mean.
    importance, importance_error : array of shape (channel,)
        The same for the sizes of the scores.
    """

    channels: tuple[str, ...]
    count: int
    effect: NDArray[np.float64]
    effect_error: NDArray[np.float64]
    importance: NDArray[np.float64]
    importance_error: NDArray[np.float64]

    def __repr__(self) -> str:
        """Write one line per channel, the most important first."""
        lines = [f"Channels of {self.count:,} series, by mean importance:"]
        for d in np.argsort(-self.importance, kind="stable").tolist():
            effect = f"effect {self.effect[d]:+.3g} ± {NORMAL * self.effect_error[d]:.2g}"
            lines.append(f"  {self.channels[d]}: importance {self.importance[d]:.3g}, {effect}")
        return "\n".join(lines)


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
    """

    def __init__(self, folder: RunFolder, version: int | None = None) -> None:
        self._folder, self._store = folder, folder.store
        self._told = folder.read()
        self._manifest = Manifest(folder.store, version)
        self._entries = list(self._manifest.entries.values())

    @property
    def folder(self) -> str:
        """Return the folder, or the address."""
        return self._store.place

    @property
    def version(self) -> int:
        """Return the number of the commit that this is."""
        return self._manifest.version

    @property
    def ids(self) -> str:
        """Tell what series are called by: "numbers" or "texts"."""
        return next((entry.made["ids"] for entry in self._entries), "texts")

    def files(self, table: str = "summary") -> list[str]:
        """Return the files of a table, sorted by name: all of them are of this version, and none is missing.

        Parameters
        ----------
        table : {"summary", "drivers", "cells"}
            Which one.
        """
        validation.check_choice(table, "table", TABLES)
        return [self._store.address(name) for name in self._manifest.files(table)]

    @property
    def key(self) -> str:
        """Return the hash of model, method, settings, options and shape."""
        return str(self._told["key"])

    def __repr__(self) -> str:
        return f"Run({str(self._store)!r}, {len(self):,} series, method={self.method!r})"

    def __len__(self) -> int:
        return self._totals.rows

    @property
    def method(self) -> str:
        """Return the name of the method."""
        return str(self._told["facts"]["method"])

    @cached_property
    def example(self) -> Explanation:
        """Return the explanation of the first two series, which tells what all series share."""
        return self._folder.example()

    @cached_property
    def _totals(self) -> table.Totals:
        whole = table.Totals()
        for entry in self._entries:
            whole.merge(entry.totals)
        return whole

    def summary(self) -> dict[str, Any]:
        """Count series, faults, files and what they took, from the manifest alone."""
        totals, left = self._totals, self._left()
        warnings: dict[str, int] = {}
        for entry in self._entries:
            for text, count in entry.warnings.items():
                warnings[text] = warnings.get(text, 0) + count
        return {
            "folder": self.folder,
            "version": self.version,
            "method": self.method,
            "cells": str(self._told["cells"]),
            "series": totals.rows,
            "faults": totals.faults,
            "good": totals.good,
            "fragments": len(self._entries),
            "left": len(left),
            "bytes": sum(size for entry in self._entries for size, _ in entry.files.values()),
            "failed": len(self.failures()),
            "samples": totals.samples,
            "missing": totals.missing / max(totals.cells, 1),
            "missing_read_as_zero": not totals.filled,
            "seconds": sum(entry.seconds for entry in self._entries),
            "devices": sorted({entry.made["device"] for entry in self._entries}),
            "warnings": warnings,
            "targets": {kind: int(sums[0]) for kind, sums in sorted(totals.channels.items())},
        }

    def _left(self) -> set[str]:
        """Return the files of the plan that have no results, or not all."""
        done = {(piece.path, piece.start) for entry in self._entries for piece in entry.fragment.pieces}
        cuts = {(each["file"][0], cut[0]) for each in self._store.load(PLAN) or () for cut in each["cuts"]}
        return {path for path, _ in cuts - done}

    def verdict(self) -> str:
        """Say in one line how good the scores are, from the manifest alone."""
        totals = self._totals
        explained = totals.rows - totals.faults
        rest = "" if not totals.faults else f"; {totals.faults:,} of {totals.rows:,} series could not be explained"
        left = self.summary()["left"]
        rest += "" if not left else f"; {counted(left, 'file')} still to be done"
        if not explained:
            return f"nothing was explained{rest}"
        for name, what in AGAINST.items():
            count = totals.against.get(name, 0)
            if count > MANY * explained:
                return f"not to be relied on: {what} in {count:,} of {explained:,} series{rest}"
        rest = in_few(totals.against) + rest
        if totals.errors[table.BINS] == explained:
            facts = self.example.facts
            what = "complete" if facts.complete else SAYS[without_error(self.example, None)]
            missed = "" if totals.good == explained else f" in {totals.good:,} of {explained:,} series"
            return f"{what}{missed}{rest}"
        good = "converged" if totals.good >= MOST * explained else "not converged"
        error = about_error(totals.middle_error())
        low, high = totals.least_samples, totals.most_samples
        used = f"{high:,} samples" if low == high else f"{low:,} to {high:,} samples"
        told = f"{totals.good:,} of {explained:,} series are good, {error} in the middle one"
        if good != "converged" and self.example.facts.adaptive and "tolerance" in self.example.parameters:
            rest = f"; with a tolerance of {GOAL:g} each series goes on until it is good{rest}"
        return f"{good}: {told}, with {used}{rest}"

    def channel_importance(self, target: int | str | None = None) -> ChannelImportance:
        """Return how much each channel mattered, from the manifest, over all series or those of one target.

        Parameters
        ----------
        target : int or str, optional
            The explained class or output, or its name; by default all series count.
        """
        channels = self._totals.channels
        if target is not None:
            target = named_target(target, self.example.classes)
            wanted = str(validation.check_int(target, "target", 0))
            if wanted not in channels:
                raise InputError(
                    f"No series was explained for target {target}: there are {listed(sorted(channels))}."
                )
            channels = {wanted: channels[wanted]}
        if not channels:
            raise InputError("No series was explained yet.")
        count = sum(sums[0] for sums in channels.values())
        effect, squares, size, more = (
            np.asarray([sums[place] for sums in channels.values()], dtype=np.float64).sum(0)
            for place in (1, 2, 3, 4)
        )
        names = self.example.channels or tuple(str(d) for d in range(len(effect)))
        parts = (effect / count, _error(effect, squares, count), size / count, _error(size, more, count))
        return ChannelImportance(names, count, *parts)

    def faults(self) -> dict[int | str, str]:
        """Return why series could not be explained, by their ids."""
        found: dict[int | str, str] = {}
        for entry in (entry for entry in self._entries if entry.totals.faults):
            rows = repeats.read_summary(self._store, entry, ["id", "fault"])
            rows = rows.filter(rows.column("fault").is_valid())
            found |= dict(zip(rows.column("id").to_pylist(), rows.column("fault").to_pylist(), strict=True))
        return found

    def failures(self) -> dict[str, str]:
        """Return why files, or some of them together, have no results, by their names."""
        return self._folder.failures()

    def sample(self, count: int, seed: int = 0) -> list[int | str]:
        """Return the ids of some explained series, for :meth:`take`; this reads the ids of all rows.

        A hash of seed and id draws them, so that all runs over the same series have the same sample. Series whose
        id occurs more than once are left out.

        Parameters
        ----------
        count : int
            How many; all of them where the run has fewer.
        seed : int
            Of the draw.
        """
        validation.check_int(count, "count", 1)
        validation.check_int(seed, "seed", 0)
        repeats.refuse_two_kinds(self._entries)  # which no column holds
        drawn: Any = None
        for entry in self._entries:
            more = repeats.read_summary(self._store, entry, ["id", "key", "fault"])
            drawn = more if drawn is None else arrow().concat_tables([drawn, more], promote_options="permissive")
            drawn = _lowest(drawn, count + self._totals.faults, seed)
        if drawn:
            known, counts = np.unique(drawn.column("key").to_numpy(), return_counts=True)
            field = arrow().compute.field
            drawn = drawn.filter(field("key").isin(known[counts == 1]) & ~field("fault").is_valid())
        if not drawn:
            raise InputError(f"{self._store} holds no explained series with an id of its own to draw.")
        return sorted(_lowest(drawn, count, seed).column("id").to_pylist())

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
        if self._told["cells"] != "all":
            raise InputError(
                f"This run keeps no map of the cells (cells={self._told['cells']!r}): make one with 'all'."
            )
        if not self._entries:
            raise InputError(f"{self._store} holds no explained series yet.")
        rows, entries = self._rows(keys, wanted)
        faults = [(each, why) for each, why in zip(wanted, rows.column("fault").to_pylist(), strict=True) if why]
        if faults:
            raise InputError(f"Series {faults[0][0]} could not be explained: {faults[0][1]}")
        x, mask, raw = self._series(entries, np.array(keys))
        return table.as_explanation(rows, self.example, x, mask, self._baseline(x, mask, len(keys)), raw)

    def _rows(self, keys: list[int], wanted: list[Any]) -> tuple[Any, list[Entry]]:
        """Return the rows of these keys in their order, summary and cells together, and what they are of."""
        pa, found, entries = arrow(), [], list[Entry]()
        repeats.refuse_two_kinds(self._entries)  # which no column holds
        for entry in self._entries:
            if not np.isin(keys, repeats.keys_of(self._store, entry)).any():
                continue
            entries.append(entry)
            parts = [
                self._read(entry, name).filter(pa.compute.field("key").isin(keys)) for name in ("summary", "cells")
            ]
            summary, cells = parts
            for name in set(cells.column_names) - set(summary.column_names):
                summary = summary.append_column(name, cells.column(name))
            found.append(summary)
        whole = pa.concat_tables(found, promote_options="permissive") if found else None
        places: dict[int, int] = {}
        for place, key in enumerate([] if whole is None else whole.column("key").to_pylist()):
            if key in places:
                raise InputError(f"{repeats.told(self._store, entries, key)}; {AGAIN}.")
            places[key] = place
        absent = [each for each, key in zip(wanted, keys, strict=True) if key not in places]
        if absent or whole is None:
            raise InputError(f"The run has no series {listed(absent)}.")
        return whole.take([places[key] for key in keys]).combine_chunks(), entries

    def _read(self, entry: Entry, name: str) -> Any:
        """Return a table of one entry."""
        names = [file for file in entry.files if file.startswith(f"{name}/")]
        return arrow().concat_tables([repeats.read_rows(self._store, file) for file in names])

    def _series(self, entries: list[Entry], keys: NDArray[np.int64]) -> tuple[Any, Any, Any]:
        """Return series, masks and what the series were before they were scaled, from their source."""
        told = self._told["columns"]  # of an older run more than a source has now
        named = {name: told[name] for name in Source("").plain if name in told}
        source = Source("", **named | {"keep": ()})  # whose types this does not know
        shape = (len(keys), *(source.shape or ()))
        try:
            for piece in (piece for entry in entries for piece in entry.fragment.pieces):
                if version_of(piece.file, source) != piece.version:
                    raise DataError(f"{short_path(piece.path)} has changed since it was explained.")
            x, mask, raw = _read([entry.fragment for entry in entries], source, keys, shape)
        except DataError as error:
            warn(f"{error.finding.text.rstrip('.')}: the series themselves are left out.")
            return None, None, None
        return x, None if mask.all() else mask, raw

    def _baseline(self, x: Any, mask: Any, count: int) -> Tensor:
        example = self.example
        if self._told["facts"]["options"].get("baseline") == "average" and x is not None:
            cells = torch.from_numpy(x)
            seen = None if mask is None else torch.from_numpy(mask)
            return validation.fill("average", cells, seen, "baseline")
        return example.baseline[:1].expand(count, -1, -1)


def _lowest(rows: Any, count: int, seed: int) -> Any:
    """Return the rows whose keys have the lowest hashes, so many or, where some are of one key, a few more."""
    if len(rows) <= count:
        return rows
    first, second = rng.keys(
        seed, torch.from_numpy(rows.column("key").to_numpy().copy()), rng.Stream.SAMPLES
    ).numpy()
    place = (first << 31) | (second >> 1)
    return rows.filter(arrow().array(place <= np.partition(place, count - 1)[count - 1]))


def _read(
    fragments: list[Fragment], source: Source, keys: NDArray[np.int64], shape: tuple[int, ...]
) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[Any] | None]:
    """Return the series with these keys, in their order, their masks, and what they were before scaling."""
    places = {int(key): place for place, key in enumerate(keys)}
    x, mask = np.zeros(0), np.ones(shape, dtype=bool)
    raw = None if source.scale is None else np.full(shape, np.nan)
    for fragment in fragments:
        for batch in read_fragment(fragment, source, READ_AT_ONCE):
            x = x if x.size else np.zeros(shape, dtype=batch.x.dtype)
            for row, key in enumerate(batch.keys.tolist()):
                if key in places:
                    x[places[key]] = batch.x[row]
                    mask[places[key]] = seen = True if batch.mask is None else batch.mask[row]
                    if raw is not None and (cells := batch.more.get("raw")) is not None:
                        raw[places[key]] = np.where(seen, cells[row], np.nan)
    return x, mask, raw


def _error(total: NDArray[np.float64], squares: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Return the standard error of a mean; infinite below two series."""
    if count < 2:
        return np.full_like(total, np.inf)
    spread = np.maximum(squares - total * total / count, 0) / (count - 1)
    return np.asarray(np.sqrt(spread / count))
