"""A run that was made, read from the footers of its files: how good it is, which channels matter."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tempograd.bulk import repeats, table
from tempograd.bulk.folder import EXAMPLE, RunFolder
from tempograd.core import rng, validation
from tempograd.core.errors import DataError, InputError, brief, listed, short_path, warn
from tempograd.core.estimate import MANY
from tempograd.core.validation import text_key
from tempograd.data import Source
from tempograd.data.files import arrow
from tempograd.data.fragments import Fragment, read_fragment, version_of
from tempograd.explanation import Explanation
from tempograd.explanation.diagnostics import AGAINST, MOST, SAYS, about_error, in_few, without_error
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


def open_run(folder: str | Path) -> "Run":
    """Open the folder of a run of :func:`explain_dataset`, finished or not.

    Examples
    --------
    >>> open_run("no/such/folder")
    Traceback (most recent call last):
    ...
    tempograd.core.errors.DataError: no/such/folder is no run: name a folder that a run over a data set wrote.
    """
    return Run(RunFolder(folder))


class Run:
    """The results of :func:`explain_dataset`: a folder of Parquet files, and what can be told from their footers.

    ``folder/data/*.parquet`` is a table with one row per series that any database reads.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._told = folder.read()

    @property
    def folder(self) -> Path:
        """Return the folder."""
        return self._folder.root

    @property
    def files(self) -> list[Path]:
        """Return the files of results, sorted by name."""
        return [self._folder.path(name) for name in sorted(self._folder.done())]

    @property
    def key(self) -> str:
        """Return the hash of model, method, settings, options and shape."""
        return str(self._told["key"])

    def __repr__(self) -> str:
        return f"Run({short_path(self.folder)!r}, {len(self):,} series, method={self.method!r})"

    def __len__(self) -> int:
        return self._totals.rows

    @property
    def method(self) -> str:
        """Return the name of the method."""
        return str(self._told["facts"]["method"])

    @cached_property
    def example(self) -> Explanation:
        """Return the explanation of the first two series, which tells what all series share."""
        return Explanation.load(self._folder.own / EXAMPLE)

    @cached_property
    def _results(self) -> dict[Path, dict[str, Any]]:
        """Return the footer of every file."""
        found = {path: table.read_footer(str(path)) for path in self.files}
        for path, footer in found.items():
            if footer.get("key") != self.key:
                raise DataError(f"{short_path(path)} is no result of this run: move it to another folder.")
        return found

    @property
    def _footers(self) -> list[dict[str, Any]]:
        return list(self._results.values())

    @cached_property
    def _totals(self) -> table.Totals:
        whole = table.Totals()
        for footer in self._footers:
            whole.merge(table.totals_from(footer["totals"]))
        return whole

    def summary(self) -> dict[str, Any]:
        """Count series, faults, files and what they took, from footers alone."""
        totals, done = self._totals, self._folder.done()
        left = self._left(done)
        warnings: dict[str, int] = {}
        for footer in self._footers:
            for text, count in footer["warnings"].items():
                warnings[text] = warnings.get(text, 0) + count
        return {
            "folder": str(self.folder),
            "method": self.method,
            "cells": str(self._told["cells"]),
            "series": totals.rows,
            "faults": totals.faults,
            "good": totals.good,
            "fragments": len(done),
            "left": None if left is None else len(left),
            "series_left": None if left is None or None in left else sum(rows or 0 for rows in left),
            "failed": len(self._folder.failures()),
            "stale": len(self._folder.stale()),
            "samples": totals.samples,
            "missing": totals.missing / max(totals.cells, 1),
            "missing_read_as_zero": not totals.filled,
            "seconds": sum(footer["seconds"] for footer in self._footers),
            "devices": sorted({footer["device"] for footer in self._footers}),
            "warnings": warnings,
            "targets": {kind: int(sums[0]) for kind, sums in sorted(totals.channels.items())},
        }

    def _left(self, done: set[str]) -> list[int | None] | None:
        """Return how many series each fragment has that is not done, as far as that is known."""
        expected: dict[str, int | None] | None = self._folder.load("fragments.json")
        return None if expected is None else [rows for name, rows in expected.items() if name not in done]

    def verdict(self) -> str:
        """Say in one line how good the scores are, from footers alone."""
        totals = self._totals
        explained = totals.rows - totals.faults
        rest = "" if not totals.faults else f"; {totals.faults:,} of {totals.rows:,} series could not be explained"
        left = self.summary()["left"]
        rest += "" if not left else f"; {left:,} fragments are still to be done"
        if not explained:
            return f"nothing was explained{rest}"
        for name, what in AGAINST.items():
            count = totals.against.get(name, 0)
            if count > MANY * explained:
                return f"not to be relied on: {what} in {count:,} of {explained:,} series{rest}"
        rest = in_few(totals.against) + rest
        if totals.errors[table.BINS] == explained:
            facts = self.example.facts
            what = "complete" if facts.complete else SAYS[without_error(self.example, None)].format(again="")
            missed = "" if totals.good == explained else f" in {totals.good:,} of {explained:,} series"
            return f"{what}{missed}{rest}"
        good = "converged" if totals.good >= MOST * explained else "not converged"
        error = about_error(totals.middle_error())
        low, high = totals.least_samples, totals.most_samples
        used = f"{high:,} samples" if low == high else f"{low:,} to {high:,} samples"
        told = f"{totals.good:,} of {explained:,} series are good, {error} in the middle one"
        return f"{good}: {told}, with {used}{rest}"

    def channel_importance(self, target: int | None = None) -> ChannelImportance:
        """Return how much each channel mattered, from footers alone, over all series or those of one target.

        Parameters
        ----------
        target : int, optional
            The explained class or output; by default all series count.
        """
        channels = self._totals.channels
        if target is not None:
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
        for path in (path for path, footer in self._results.items() if footer["totals"]["faults"]):
            rows = _dataset([path]).to_table(columns=["id", "fault"], filter=_field("fault").is_valid())
            found |= dict(zip(rows.column("id").to_pylist(), rows.column("fault").to_pylist(), strict=True))
        return found

    def failures(self) -> dict[str, str]:
        """Return the tracebacks of fragments that failed three times, by their names."""
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
        repeats.refuse_two_kinds(self.files)  # which no column holds
        drawn: Any = None
        for path in self._results:
            more = _dataset([path]).to_table(columns=["id", "key", "fault"])
            drawn = more if drawn is None else arrow().concat_tables([drawn, more], promote_options="permissive")
            drawn = _lowest(drawn, count + self._totals.faults, seed)
        if drawn:
            known, counts = np.unique(drawn.column("key").to_numpy(), return_counts=True)
            drawn = drawn.filter(_field("key").isin(known[counts == 1]) & ~_field("fault").is_valid())
        if not drawn:
            raise InputError(f"{short_path(self.folder)} holds no explained series with an id of its own to draw.")
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
        if not self.files:
            raise InputError(f"{short_path(self.folder)} holds no explained series yet.")
        rows, names = self._rows(keys, wanted)
        faults = [(each, why) for each, why in zip(wanted, rows.column("fault").to_pylist(), strict=True) if why]
        if faults:
            raise InputError(f"Series {faults[0][0]} could not be explained: {faults[0][1]}")
        x, mask, raw = self._series(names, np.array(keys))
        return table.as_explanation(rows, self.example, x, mask, self._baseline(x, mask, len(keys)), raw)

    def _rows(self, keys: list[int], wanted: list[Any]) -> tuple[Any, list[str]]:
        """Return the rows of these keys in their order, and the fragment that each is of."""
        repeats.refuse_two_kinds(self.files)  # which no column holds
        ds = _dataset(self.files)
        parts, names = [], []
        for piece in ds.get_fragments(filter=_field("key").isin(keys)):
            found = piece.to_table(filter=_field("key").isin(keys), schema=ds.schema)
            parts.append(found)
            names += [Path(piece.path).stem] * len(found)
        whole = arrow().concat_tables(parts)
        places: dict[int, int] = {}
        for place, key in enumerate(whole.column("key").to_pylist()):
            if key in places:
                files = [self._folder.path(names[each]) for each in (places[key], place)]
                raise InputError(f"{repeats.told(files, key)}; {AGAIN}.")
            places[key] = place
        absent = [each for each, key in zip(wanted, keys, strict=True) if key not in places]
        if absent:
            raise InputError(f"The run has no series {listed(absent)}.")
        order = [places[key] for key in keys]
        return whole.take(order).combine_chunks(), [names[place] for place in order]

    def _series(self, names: list[str], keys: NDArray[np.int64]) -> tuple[Any, Any, Any]:
        """Return series, masks and what the series were before they were scaled, from their source."""
        told = self._told["columns"]  # of an older run more than a source has now
        source = Source("", **{name: told[name] for name in Source("").plain if name in told})
        shape = (len(keys), *(source.shape or ()))
        footers = {footer["fragment"]["name"]: footer["fragment"] for footer in self._footers}
        fragments = [Fragment.from_plain(footers[name]) for name in dict.fromkeys(names)]
        raw: NDArray[Any] | None = None
        try:
            for fragment in fragments:
                if version_of(fragment.file, source) != fragment.version:
                    raise DataError(f"{short_path(fragment.path)} has changed since it was explained.")
            x, mask = _read(fragments, source, keys, shape)
            if source.scale is not None:
                raw, seen = _read(fragments, replace(source, scale=None, fill=None), keys, shape)
                raw = np.where(seen, raw, np.nan)
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
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return the series with these keys, in their order, and their masks."""
    places = {int(key): place for place, key in enumerate(keys)}
    x, mask = np.zeros(0), np.ones(shape, dtype=bool)
    for fragment in fragments:
        for batch in read_fragment(fragment, source, READ_AT_ONCE):
            x = x if x.size else np.zeros(shape, dtype=batch.x.dtype)
            for row, key in enumerate(batch.keys.tolist()):
                if key in places:
                    x[places[key]] = batch.x[row]
                    mask[places[key]] = True if batch.mask is None else batch.mask[row]
    return x, mask


def _error(total: NDArray[np.float64], squares: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Return the standard error of a mean; infinite below two series."""
    if count < 2:
        return np.full_like(total, np.inf)
    spread = np.maximum(squares - total * total / count, 0) / (count - 1)
    return np.asarray(np.sqrt(spread / count))


def _dataset(files: list[Path]) -> Any:
    arrow()
    import pyarrow.dataset as ds  # noqa: PLC0415  # an extra

    return ds.dataset([str(path) for path in files], format="parquet")


def _field(name: str) -> Any:
    import pyarrow.compute as pc  # noqa: PLC0415  # an extra

    return pc.field(name)
