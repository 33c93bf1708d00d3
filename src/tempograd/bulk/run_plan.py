"""What is explained by what: two series first, so that mistakes are found before anything starts."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any

import numpy as np
import torch

from tempograd.bulk.manifest import Entry, Manifest
from tempograd.bulk.store import TABLES, RunFolder
from tempograd.bulk.telling import Terms
from tempograd.bulk.worker import Job
from tempograd.core import validation
from tempograd.core.errors import DataError, TempogradError, arg, counted_warnings, listed, warn
from tempograd.core.formatting import counted
from tempograd.core.question import Question
from tempograd.core.series import Series
from tempograd.data import Source, fragments
from tempograd.data.files import OWN
from tempograd.data.fragments import Fragment, Inspected, Piece, digest, identified, read_fragment
from tempograd.data.pivot import Part
from tempograd.engine import fingerprint
from tempograd.engine.model import code_mark
from tempograd.engine.predictor import Predictor
from tempograd.explainers import Explainer
from tempograd.explainers.base import fitted
from tempograd.targets import TargetScore
from tempograd.version import ALGORITHM

FIRST = 2  # series that are explained before anything starts
LOOKED_AT = 64  # series among which those are
PLAN = f"{OWN}/plan.json"
TRIED = 8  # fragments, or files, among which readable ones are looked for
ANSWERS = 0.01  # the share by which answers of one model may differ from one device to another
# fields of a source that say nothing of values, or are known otherwise: a table of scales by its content
OTHERWISE = ("shape", "units", "scale", "partition")
FilePart = tuple[str, int]


@dataclass(eq=False)
class RunPlan:
    """What is explained by what, and the fragments of it.

    Beside what it is made from it knows ``found``, the files, those ``unread`` with the reason, and all
    ``fragments``; after :meth:`look` an ``example``; and after :meth:`compare` what is ``sound``, the fragments
    whose results are there, and whole, which of these are ``renewed``, since files lie elsewhere or have another
    time than was noted, which are ``todo``, the ``old`` results that give way, of earlier input or damaged, and
    what has ``changed`` since then.
    """

    folder: RunFolder
    predictor: Predictor
    explainer: Explainer
    options: dict[str, Any]
    source: Source
    terms: Terms

    def __post_init__(self) -> None:
        # labels and outputs have the same names
        self.predictor = replace(self.predictor, classes=self.predictor.classes or self.source.classes)
        known = (Inspected.from_plain(each) for each in self.folder.load(PLAN) or ())
        self.before = {each.file.path: each for each in known}
        self.found = fragments.inspect_files(self.source.path, self.source, self.terms.fragment, self.before)
        self.unread = {each.file.origin: each.error for each in self.found if each.error}
        self.source = fragments.agreed_channels(self.found, self.source)
        self.kept = fragments.kept_types(self.found)
        self.fragments = fragments.joined_fragments(self.found, self.terms.fragment)

    def compare(self, manifest: Manifest) -> None:
        """Compare the plan with the results that are there.

        Results of files that are as they were stay as they are, whatever has joined their neighbours since.
        """
        now, keep = {each.file.path: each for each in self.found}, self.terms.removed == "keep"
        moved = _moved((piece for entry in manifest.entries.values() for piece in entry.fragment.pieces), now)
        entries = {name: _placed(entry, moved) for name, entry in manifest.entries.items()}
        known = {piece.path: piece for entry in entries.values() for piece in entry.fragment.pieces}
        gone = {path: piece for path, piece in known.items() if path not in now}
        if gone and self.terms.removed == "refuse":
            ways = f"bring back what is missing, or pass {arg:run.removed=keep} or {arg:run.removed=drop}"
            raise DataError(f"{_are_gone(gone.values())}: {ways}.")
        # what cannot be read any more stays what it was
        current = {path: (known.get(path) if each.error else None) or each for path, each in now.items()}
        versions = {path: each.version for path, each in (current | (gone if keep else {})).items()}
        listed = {name: told for table in TABLES for name, told in self.folder.files(table).items()}
        sound = dict[str, Entry]()
        for name, entry in entries.items():
            fragment = entry.fragment
            first = now.get(fragment.paths[0])
            numbered = fragment.alone and len(now) > 1 and not (first and first.ids)  # called otherwise now
            same = not numbered and all(versions.get(piece.path) == piece.version for piece in fragment.pieces)
            if same and (checked := entry.checked(self.folder, listed)) is not None:
                sound[name] = checked
        covered = set().union(*(cuts_of(entry.fragment) for entry in sound.values()))
        left = [each for each in self.found if any((each.file.path, cut[0]) not in covered for cut in each.cuts)]
        joined = fragments.joined_fragments(left, self.terms.fragment)
        new = (replace(each, alone=len(now) == 1) for each in joined)
        self.todo = [fragment for fragment in new if fragment.name not in sound]
        self.fragments = [*(entry.fragment for entry in sound.values()), *self.todo]
        counts = [fragment.rows for fragment in self.fragments]
        self.total = None if None in counts else sum(filter(None, counts))
        self.old = {name: entry for name, entry in entries.items() if name not in sound}
        if gone and keep:
            _tell_kept(gone, [entry.fragment for entry in self.old.values()])
        was = {moved.get(path, path): each.version for path, each in self.before.items()}
        scale = fragments.scale_version(self.source)  # which all versions end with
        own, scaled = slice(-len(scale) or None), {each[len(each) - len(scale) :] for each in was.values()}
        self.changed = {
            "new": [each.file.origin for path, each in now.items() if path not in was and was],
            "changed": [str(self.source.scale)] * bool(scaled - {scale, ()})
            + [e.file.origin for path, e in now.items() if was.get(path, e.version)[own] != e.version[own]],
            "gone": [piece.origin for piece in gone.values()],
        }
        self.sound, self.renewed = sound, [each for name, each in sound.items() if each != manifest.entries[name]]

    def replacing(self, new: Sequence[Entry]) -> tuple[list[Entry], set[str]]:
        """Return those of some new results that can take the place of old ones, and the names of these.

        They can where all new results of the files of an old one are there: readers see each series once.
        """
        there = set().union(*(cuts_of(entry.fragment) for entry in new))
        missing = set().union(*(cuts_of(fragment) for fragment in self.todo)) - there
        waiting = {path for path, _ in missing}
        parts = [{*entry.fragment.paths} for entry in (*self.old.values(), *new)]
        while more := {path for paths in parts if paths & waiting for path in paths} - waiting:
            waiting |= more
        gone = {name for name, entry in self.old.items() if not waiting & {*entry.fragment.paths}}
        return [entry for entry in new if not waiting & {*entry.fragment.paths}], gone

    def look(self, batch_size: int | None) -> None:
        """Explain two series, so that mistakes are found before anything starts."""
        batch = self._first_series()
        channels = self.source.channels or batch.channels  # also of files that will join a single one
        self.source = replace(self.source, channels=channels)
        rows = _first_rows(batch)
        x, ids = torch.from_numpy(batch.x[rows]), torch.from_numpy(batch.keys[rows])
        mask = None if batch.mask is None else torch.from_numpy(batch.mask[rows])
        series = Series(x, mask=mask, ids=ids, channels=channels, units=self.source.units)
        question = Question(baseline=self.options["baseline"], background=self.options["background"])
        self.explainer = fitted(self.explainer, self.predictor, series, question, self.options["seed"])
        if not validation.is_background(question.baseline):
            self.options["background"] = None
        with counted_warnings() as self.warned:
            self.example = self.explainer(self.predictor, series, **(self.options | {"batch_size": batch_size}))

    def _first_series(self) -> Part:
        """Return some series, those of a second file too if the first has one; what cannot be read is passed by.

        One alone could not show that a model mixes series.
        """
        found, wrong = list[Part](), list[Exception]()
        for fragment in chain.from_iterable(each.apart() for each in self.fragments[:TRIED]):
            try:
                if self.source.shape is None:  # that of the longest series of the first fragment
                    parts = read_fragment(fragment, self.source, self.terms.fragment)
                    shape = max((part.x.shape[1:] for part in parts), default=None)
                    self.source = replace(self.source, shape=shape)
                found += islice(read_fragment(fragment, self.source, LOOKED_AT, self.kept), 1)
            except (TempogradError, OSError, ValueError) as error:  # who explains it says what is wrong there
                wrong.append(error)
            if sum(map(len, found)) > 1 or len(wrong) > TRIED:
                break
        if not found:
            wrong += map(DataError, [*self.unread.values(), "There is no series to explain: the source is empty."])
            raise wrong[0]
        return identified(found)

    def job(self, batch: int | None, address: str | None) -> tuple[Job, dict[str, Any]]:
        """Return what workers do, and what the run is of; another run in the folder is refused."""
        terms, predictor = self.terms, self.predictor
        about = {name: getattr(predictor, name) for name in ("task", "classes", "pick", "layout")}
        told = self.options | about | {"classes": None, "missing": self.source.missing or "error"}
        facts = {
            "model": fingerprint(predictor.called)(),
            "code": code_mark(predictor.called),
            "method": self.explainer.name,
            "settings": plain(self.explainer.parameters),
            "learnt": getattr(self.explainer, "fingerprint", "") if self.explainer.learnt is not None else "",
            "options": plain(told),
            "shape": list(self.source.shape or ()),
            "columns": {n: part for n, part in self.source.plain.items() if n not in OTHERWISE},
            "scaled": self.source.scale is not None,
            "cells": terms.cells,
            "partition": self.source.partition,
            "fragment": terms.fragment,
            "algorithm": ALGORITHM,
        }
        key, more = digest(facts, size=16), {"columns": self.source.plain, "cells": terms.cells}
        content = {"key": key, "facts": facts, "batch": batch, "address": address, **more}
        if self.folder.is_run:
            self.folder.agree(content)
            self._refuse_another_model()
        options = {name: value for name, value in self.options.items() if value is not None}
        device = None if terms.device is None else str(terms.device)
        what = (self.folder, key, self.source, self.explainer, self.example, self.kept, about, options)
        return Job(*what, terms.cells, batch, device), content

    def _refuse_another_model(self) -> None:
        """Refuse a model that answers otherwise than the run's: of a library nothing else is known."""
        was, now = self.folder.example(), self.example
        one, two, x, again = was.prediction, now.prediction, was.x, now.x
        if one is None or two is None or x is None or again is None or was.varies or now.varies:
            return
        gap, size = (one - two.cpu()).abs().max(), torch.maximum(one.abs(), two.abs().cpu()).max()
        if was.ids.equal(now.ids) and x.equal(again.cpu()) and bool(gap > ANSWERS * size):
            told = "for the first series it predicted something else than this one. Name another folder"
            raise DataError(f"{self.folder} holds results of another model: {told}.")


def cuts_of(fragment: Fragment) -> set[FilePart]:
    """Return the parts of files that a fragment holds, by path and first row."""
    return {(piece.path, piece.start) for piece in fragment.pieces}


def _moved(known: Iterable[Piece], now: Mapping[str, Inspected]) -> dict[str, str]:
    """Return where files are now that lay elsewhere, by their old paths: of one name and content."""
    pieces = {piece.path: (piece.origin, piece.version) for piece in known}
    new = {(each.file.origin, each.version): path for path, each in now.items() if path not in pieces}
    return {path: new[key] for path, key in pieces.items() if path not in now and key in new}


def _placed(entry: Entry, moved: Mapping[str, str]) -> Entry:
    """Return an entry with the places where its files are now."""
    pieces = tuple(replace(piece, path=moved.get(piece.path, piece.path)) for piece in entry.fragment.pieces)
    return replace(entry, fragment=replace(entry.fragment, pieces=pieces))


def _are_gone(pieces: Iterable[Piece]) -> str:
    origins = [each.origin for each in pieces]
    are = "is" if len(origins) == 1 else "are"
    return f"{counted(len(origins), 'file')} that the run has explained {are} gone ({listed(origins)})"


def _tell_kept(gone: Mapping[str, Piece], replaced: Sequence[Fragment]) -> None:
    """Say that results stay though their files are gone, and which do not: those beside others that give way."""
    lost = sorted({path for fragment in replaced for path in fragment.paths} & gone.keys())
    names = listed(gone[path].origin for path in lost)
    rest = f" The results of {names} go with those of files beside them, which have changed." if lost else ""
    warn(f"{_are_gone(gone.values())}: the results stay, and {arg:run.removed=drop} takes them out.{rest}")


def _first_rows(batch: Part) -> list[int]:
    """Return the first two series that hold numbers alone, or the first, whose fault is then said."""
    rows = [row for row in range(len(batch)) if row not in batch.faults]
    if not rows:
        first = next(iter(batch.faults.values()))
        raise DataError(f"No series of the first {len(batch)} has the right shape. The first: {first}.")
    distinct = list({int(batch.keys[row]): row for row in reversed(rows)}.values())[::-1]
    return ([row for row in distinct if np.isfinite(batch.x[row]).all()] or distinct)[:FIRST]


def plain(value: Any) -> Any:
    """Return an option, or several by name, as plain data: arrays and functions by what tells them from others."""
    if isinstance(value, Series):
        value = {name: getattr(value, name) for name in ("x", "mask", "fill", "ids")}
    if isinstance(value, TargetScore):
        return {"score": value.spec()}
    if callable(value):
        name = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__name__)}"
        return {"function": name, "source": code_mark(value)}
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if hasattr(value, "shape"):
        tensor = validation.as_tensor(value, "option").detach().cpu().contiguous()
        mark = hashlib.blake2b(tensor.numpy().tobytes(), digest_size=8).hexdigest()
        return {"tensor": mark, "shape": list(tensor.shape), "type": str(tensor.dtype)}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value
