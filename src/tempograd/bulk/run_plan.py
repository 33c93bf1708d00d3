"""What is explained by what: two series first, so that mistakes are found before anything starts."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from tempograd.bulk.folder import RunFolder
from tempograd.bulk.manifest import Entry, Manifest
from tempograd.bulk.worker import Job
from tempograd.core import validation
from tempograd.core.errors import DataError, TempogradError, WarningCounts, arg, counted_warnings, short_path, warn
from tempograd.core.question import Question
from tempograd.core.series import Series
from tempograd.data import Source
from tempograd.data.columns import Part
from tempograd.data.files import OWN, File
from tempograd.data.fragments import Fragment, Piece, read_fragment
from tempograd.data.inspection import Inspected, agreed_channels, inspect_files, joined_fragments, kept_types
from tempograd.engine import fingerprint
from tempograd.engine.model import code_mark
from tempograd.engine.predictor import Predictor
from tempograd.explainers import Explainer
from tempograd.explainers.base import fitted
from tempograd.explanation import Explanation
from tempograd.targets import TargetScore
from tempograd.version import ALGORITHM

FIRST = 2  # series that are explained before anything starts
LOOKED_AT = 64  # series among which those are
PLAN = f"{OWN}/plan.json"
NAMED = 3  # files that a sentence names
TRIED = 8  # fragments, or files, among which readable ones are looked for
ANSWERS = 0.01  # the share by which answers of one model may differ from one device to another
NOBODY = Inspected(File("", ""), ())
Removed = Literal["keep", "drop", "refuse"]
FilePart = tuple[str, int]


@dataclass(eq=False)
class Swap:
    """Results of earlier input, and what takes their place all at once: parts still to come, and entries."""

    old: set[str]
    left: set[FilePart]
    entries: list[Entry] = field(default_factory=list)


class Changes(NamedTuple):
    """What a plan and the results that are there have to do with each other.

    Attributes
    ----------
    done : set of str
        Fragments whose results are there, and whole.
    renewed : list of Entry
        Those of them whose files, or files of results, lie elsewhere or have another time than was noted.
    todo : list of Fragment
        The others.
    swaps : dict of (str, int) to Swap
        For parts of files, what they take the place of.
    dropped : set of str
        Results that go without anything in their place.
    files : dict of str to list of str
        Files that are new, changed or gone since the last time.
    """

    done: set[str]
    renewed: list[Entry]
    todo: list[Fragment]
    swaps: dict[FilePart, Swap]
    dropped: set[str]
    files: dict[str, list[str]]


class RunPlan:
    """What is explained by what, and the fragments of it."""

    def __init__(
        self,
        folder: RunFolder,
        predictor: Predictor,
        explainer: Explainer,
        options: dict[str, Any],
        source: Source,
        size: int,
    ) -> None:
        self.folder, self.model, self.size = folder, predictor.called, size
        self.about = {name: getattr(predictor, name) for name in ("task", "classes", "pick", "layout")}
        self.about["classes"] = predictor.classes or source.classes  # labels and outputs have the same names
        self.explainer, self.options = explainer, options
        known = (Inspected.from_plain(each) for each in folder.store.load(PLAN) or ())
        self.before = {each.file.path: each for each in known}
        self.found = inspect_files(source.path, source, size, self.before)
        self.source = agreed_channels(self.found, source)
        self.kept = kept_types(self.found)
        self.fragments = joined_fragments(self.found, size)
        self.example: Explanation
        self.warned = WarningCounts()

    @property
    def unread(self) -> dict[str, str]:
        """Return why files cannot be read, by their names."""
        return {each.file.origin: each.error for each in self.found if each.error}

    @property
    def total(self) -> int | None:
        """Return how many series there are, where that is known."""
        counts = [fragment.rows for fragment in self.fragments]
        return None if None in counts else sum(count for count in counts if count is not None)

    def write(self) -> None:
        """Note the files of the source, which are not read again while they stay as they are."""
        self.folder.store.write(PLAN, [each.plain for each in self.found])

    def compare(self, manifest: Manifest, removed: Removed) -> Changes:
        """Compare the plan with the results that are there; ``removed`` says what becomes of those without a file.

        Results of files that are as they were stay as they are, whatever has joined their neighbours since.
        """
        now = {each.file.path: each for each in self.found}
        moved = _moved(self.before, now)
        self.before = {moved.get(path, path): each for path, each in self.before.items()}
        made_of = {
            name: [replace(each, path=moved.get(each.path, each.path)) for each in entry.fragment.pieces]
            for name, entry in manifest.entries.items()
        }
        known = {piece.path: piece for pieces in made_of.values() for piece in pieces}
        gone = {path: piece for path, piece in known.items() if path not in now}
        if gone and removed == "refuse":
            raise DataError(
                f"{_are_gone(gone.values())}: bring back what is missing, or pass {arg:run.removed=keep} or "
                f"{arg:run.removed=drop}."
            )
        # what cannot be read any more stays what it was
        current = {path: (known.get(path) if each.error else None) or each for path, each in now.items()}
        versions = {path: each.version for path, each in (current | (gone if removed == "keep" else {})).items()}
        listed, sound = self.folder.results(), dict[str, Entry]()
        for name, entry in manifest.entries.items():
            pieces = made_of[name]
            numbered = entry.fragment.alone and len(now) > 1 and not now.get(pieces[0].path, NOBODY).ids
            same = not numbered and all(versions.get(piece.path) == piece.version for piece in pieces)
            if same and (checked := entry.checked(self.folder.store, listed)) is not None:
                sound[name] = replace(checked, fragment=replace(entry.fragment, pieces=tuple(pieces)))
        renewed = [entry for name, entry in sound.items() if entry != manifest.entries[name]]
        covered = {(piece.path, piece.start) for entry in sound.values() for piece in entry.fragment.pieces}
        left = [each for each in self.found if any((each.file.path, cut[0]) not in covered for cut in each.cuts)]
        fragments = (replace(each, alone=len(now) == 1) for each in joined_fragments(left, self.size))
        todo = [fragment for fragment in fragments if fragment.name not in sound]
        self.fragments = [*(entry.fragment for entry in sound.values()), *todo]
        old = {name: entry for name, entry in manifest.entries.items() if name not in sound}
        if gone and removed == "keep":
            _tell_kept(gone, [entry.fragment for entry in old.values()])
        was = {path: each.version for path, each in self.before.items()}
        files = {
            "new": [each.file.origin for path, each in now.items() if path not in was and was],
            "changed": [e.file.origin for path, e in now.items() if was.get(path, e.version) != e.version],
            "gone": [piece.origin for piece in gone.values()],
        }
        return Changes(set(sound), renewed, todo, *_swaps(old, todo), files)

    def look(self, batch_size: int | None) -> None:
        """Explain two series, so that mistakes are found before anything starts."""
        batch, company = self._first_series()
        channels = self.source.channels or batch.channels  # also of files that will join a single one
        self.source = replace(self.source, channels=channels)
        if len(batch) == 1 and company is not None:  # one could not show that a model mixes series
            batch = _rows_of_both(batch, company)
        rows = _first_rows(batch)
        x, ids = torch.from_numpy(batch.x[rows]), torch.from_numpy(batch.keys[rows])
        mask = None if batch.mask is None else torch.from_numpy(batch.mask[rows])
        series = Series(x, mask=mask, ids=ids, channels=channels, units=self.source.units)
        predictor = Predictor(self.model, **self.about)
        question = Question(baseline=self.options["baseline"], background=self.options["background"])
        self.explainer = fitted(self.explainer, predictor, series, question, self.options["seed"])
        if not validation.is_background(question.baseline):
            self.options["background"] = None
        with counted_warnings() as self.warned:
            self.example = self.explainer(predictor, series, **(self.options | {"batch_size": batch_size}))

    def _first_series(self) -> tuple[Part, Part | None]:
        """Return some series of the first file, and of a second one; what cannot be read is passed by."""
        found, wrong = list[Part](), list[Exception]()
        for fragment in chain.from_iterable(each.apart() for each in self.fragments[:TRIED]):
            try:
                if self.source.shape is None:  # that of the longest series of the first fragment
                    shapes = [part.x.shape[1:] for part in read_fragment(fragment, self.source, self.size)]
                    self.source = replace(self.source, shape=max(shapes, default=None))
                found += islice(read_fragment(fragment, self.source, LOOKED_AT, self.kept), 1)
            except (TempogradError, OSError, ValueError) as error:  # who explains it says what is wrong there
                wrong.append(error)
            if len(found) == 2 or (found and len(found[0]) > 1) or len(wrong) > TRIED:
                break
        if not found:
            told = next(iter(self.unread.values()), "")
            raise wrong[0] if wrong else DataError(told or "There is no series to explain: the source is empty.")
        return found[0], found[1] if len(found) > 1 else None

    def begin(
        self, *, cells: str, batch: int | None, device: str | None, partition: str | None, address: str | None
    ) -> Job:
        """Begin the run, or go on with it, and return what workers do."""
        about = {"task": self.about["task"], "pick": self.about["pick"], "model_layout": self.about["layout"]}
        told = self.options | about | {"missing": self.source.missing or "error"}
        facts = {
            "model": fingerprint(self.model)(),
            "code": code_mark(self.model),
            "method": self.explainer.name,
            "settings": plain_options(self.explainer.parameters),
            "learnt": getattr(self.explainer, "fingerprint", "") if self.explainer.learnt is not None else "",
            "options": plain_options(told),
            "shape": list(self.source.shape or ()),
            "columns": {name: part for name, part in self.source.plain.items() if name not in ("shape", "units")},
            "cells": cells,
            "partition": partition,
            "fragment": self.size,
            "algorithm": ALGORITHM,
        }
        more = {"columns": self.source.plain, "cells": cells, "batch": batch, "address": address}
        key = self.folder.begin(facts, more, self.example)
        if not self.folder.begun_here:
            self._refuse_another_model()
        options = {name: value for name, value in self.options.items() if value is not None}
        what = (self.folder.store, key, self.source, self.explainer, self.example, self.kept, self.about, options)
        return Job(*what, cells, partition, batch, device)

    def _refuse_another_model(self) -> None:
        """Refuse a model that answers otherwise than the run's: of a library nothing else is known."""
        known, new = self.folder.example(), self.example
        if known.varies or new.varies or known.x is None or new.x is None:
            return
        rows = {key: row for row, key in enumerate(known.ids.tolist())}
        for row, key in enumerate(new.ids.tolist()):
            same = key in rows and torch.equal(known.x[rows[key]].cpu(), new.x[row].cpu())
            if same and _answers_differ(known[[rows[key]]], new[[row]]):
                raise DataError(
                    f"{self.folder.store} holds results of another model: for the first series it predicted "
                    "something else than this one. Name another folder."
                )


def cuts_of(fragment: Fragment) -> set[FilePart]:
    """Return the parts of files that a fragment holds, by path and first row."""
    return {(piece.path, piece.start) for piece in fragment.pieces}


def _swaps(old: Mapping[str, Entry], todo: Sequence[Fragment]) -> tuple[dict[FilePart, Swap], set[str]]:
    """Return for parts of files which results give way to them, and the results that give way to nothing."""
    coming: dict[str, set[FilePart]] = {}
    for fragment in todo:
        for path in fragment.paths:
            coming.setdefault(path, set()).update(cuts_of(fragment))
    swaps, dropped = dict[FilePart, Swap](), set[str]()
    for name, entry in old.items():
        new = set().union(*(coming.get(path, set()) for path in entry.fragment.paths))
        touched = {id(swaps[part]): swaps[part] for part in new if part in swaps}.values()
        swap = Swap({name}.union(*(each.old for each in touched)), new.union(*(each.left for each in touched)))
        swaps |= dict.fromkeys(swap.left, swap)
        if not new:
            dropped.add(name)
    return swaps, dropped


def _moved(before: Mapping[str, Inspected], now: Mapping[str, Inspected]) -> dict[str, str]:
    """Return where files are now that lay elsewhere the last time, by their old paths: of one name and content."""
    new = {(each.file.origin, each.version): path for path, each in now.items() if path not in before}
    gone = {path: (each.file.origin, each.version) for path, each in before.items() if path not in now}
    return {path: new[key] for path, key in gone.items() if key[1] and key in new}


def _are_gone(pieces: Iterable[Piece]) -> str:
    origins = [each.origin for each in pieces]
    is_, what = ("is", "1 file") if len(origins) == 1 else ("are", f"{len(origins):,} files")
    return f"{what} that the run has explained {is_} gone ({short_list(origins, NAMED)})"


def _tell_kept(gone: Mapping[str, Piece], replaced: Sequence[Fragment]) -> None:
    """Say that results stay though their files are gone, and which do not: those beside others that give way."""
    lost = sorted({path for fragment in replaced for path in fragment.paths} & gone.keys())
    names = short_list([gone[path].origin for path in lost], NAMED)
    rest = f" The results of {names} go with those of files beside them, which have changed." if lost else ""
    warn(f"{_are_gone(gone.values())}: the results stay, and {arg:run.removed=drop} takes them out.{rest}")


def short_list(names: Sequence[str], most: int) -> str:
    """Write the first of some names.

    Examples
    --------
    >>> short_list(["a.csv", "b.csv", "c.csv"], 2)
    'a.csv, b.csv and 1 more'
    """
    rest = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(map(short_path, names[:most])) + rest


def _rows_of_both(one: Part, other: Part) -> Part:
    """Put series of two fragments together to look at them, without what goes along; one shape only."""
    if one.x.shape[1:] != other.x.shape[1:]:
        return one
    masks = [np.ones(each.x.shape, dtype=bool) if each.mask is None else each.mask for each in (one, other)]
    faults = one.faults | {row + len(one): why for row, why in other.faults.items()}
    keys, x, mask = (np.concatenate(parts) for parts in ((one.keys, other.keys), (one.x, other.x), masks))
    return Part(None, x, None if mask.all() else mask, faults=faults, keys=keys)


def _answers_differ(known: Explanation, new: Explanation) -> bool:
    """Tell whether the prediction for a series, or its change, differs by more than another device explains."""
    pairs = ((known.prediction, new.prediction), (known.delta, new.delta))
    told = [(was.double().cpu(), now.double().cpu()) for was, now in pairs if was is not None and now is not None]
    gap = max((float((was - now).abs().max()) for was, now in told), default=0.0)
    size = max((float(each.abs().max()) for pair in told for each in pair), default=0.0)
    return gap > ANSWERS * size  # of the larger of both: a change of nearly 0 is rounding


def _first_rows(batch: Part) -> list[int]:
    """Return the first two series that hold numbers alone, or the first, whose fault is then said."""
    sound = np.isfinite(batch.x).reshape(len(batch), -1).all(1)
    rows = [row for row in range(len(batch)) if row not in batch.faults]
    if not rows:
        raise DataError(
            f"No series of the first {len(batch)} has the right shape. The first: "
            f"{next(iter(batch.faults.values()))}."
        )
    distinct = list({int(batch.keys[row]): row for row in reversed(rows)}.values())[::-1]
    return ([row for row in distinct if sound[row]] or distinct)[:FIRST]


def plain_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as plain data, arrays and functions by what tells them from others."""
    return {name: _plain(value) for name, value in sorted(options.items())}


def _plain(value: Any) -> Any:
    if isinstance(value, Series):
        value = {name: getattr(value, name) for name in ("x", "mask", "fill", "ids")}
    if isinstance(value, TargetScore):
        return {"score": value.spec()}
    if callable(value):
        name = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__name__)}"
        return {"function": name, "source": code_mark(value)}
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if hasattr(value, "shape"):
        tensor = validation.as_tensor(value, "option").detach().cpu().contiguous()
        mark = hashlib.blake2b(tensor.numpy().tobytes(), digest_size=8).hexdigest()
        return {"tensor": mark, "shape": list(tensor.shape), "type": str(tensor.dtype)}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value
