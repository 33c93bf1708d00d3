"""What is explained by what: two series first, so that mistakes are found before anything starts."""

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from tempograd.bulk.folder import EXAMPLE, RunFolder
from tempograd.bulk.worker import Job
from tempograd.core import validation
from tempograd.core.errors import DataError, TempogradError, WarningCounts, counted_warnings, short_path
from tempograd.core.question import Question
from tempograd.core.series import Series
from tempograd.data import Source
from tempograd.data.columns import Part
from tempograd.data.fragments import read_fragment
from tempograd.data.reading import with_channels
from tempograd.engine import fingerprint
from tempograd.engine.code_marks import code_mark
from tempograd.engine.predictor import Predictor
from tempograd.explainers import Explainer
from tempograd.explainers.base import fitted
from tempograd.explanation import Explanation
from tempograd.targets import TargetScore
from tempograd.version import __version__

FIRST = 2  # series that are explained before anything starts
LOOKED_AT = 64  # series among which those are
ANSWERS = 0.01  # the share by which answers of one model may differ from one device to another


class RunPlan:
    """What is explained by what, and the fragments of it."""

    def __init__(
        self,
        folder: RunFolder,
        predictor: Predictor,
        explainer: Explainer,
        options: dict[str, Any],
        source: Source,
        fragment: int,
    ) -> None:
        self.folder, self.model, self.size = folder, predictor.called, fragment
        self.about = {name: getattr(predictor, name) for name in ("task", "classes", "pick", "layout")}
        self.explainer, self.options = explainer, options
        self.source = source
        self.fragments = list(source.fragments(fragment))
        self.example: Explanation
        self.warned = WarningCounts()

    @property
    def total(self) -> int | None:
        """Return how many series there are, where that is known."""
        counts = [fragment.rows for fragment in self.fragments]
        return None if None in counts else sum(count for count in counts if count is not None)

    def look(self, batch_size: int | None) -> None:
        """Explain two series, so that mistakes are found before anything starts."""
        if not self.fragments:
            raise DataError("There is no series to explain: the source is empty.")
        first = self.fragments[0]
        files = {each.path: each.file for each in self.fragments}
        self.source = with_channels(list(files.values()), self.source)
        if self.source.shape is None:  # that of the longest series of the first fragment
            shapes = [batch.x.shape[1:] for batch in read_fragment(first, self.source, self.size)]
            self.source = replace(self.source, shape=max(shapes, default=None))
        batch = next(read_fragment(first, self.source, LOOKED_AT), None)
        if batch is None:
            raise DataError(f"There is no series to explain: {first.origin} is empty.")
        channels = self.source.channels or batch.channels  # also of files that will join a single one
        self.source = replace(self.source, channels=channels)
        batch = self._with_company(batch)
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

    def _with_company(self, batch: Part) -> Part:
        """Add series of the second fragment to a single one, which could not show that a model mixes series."""
        if len(batch) > 1:
            return batch
        with suppress(TempogradError, OSError, ValueError):  # who explains it says what is wrong there
            for fragment in self.fragments[1:2]:
                more = next(read_fragment(fragment, self.source, LOOKED_AT), None)
                return batch if more is None else _rows_of_both(batch, more)
        return batch

    def begin(self, *, cells: str, batch: int | None, device: str | None = None) -> Job:
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
            "fragment": self.size,
            "version": __version__,
        }
        more = {"columns": self.source.plain, "cells": cells, "batch": batch}
        if not self.folder.is_run:
            self.example.save(self.folder.own / EXAMPLE)
        key = self.folder.begin(facts, more)
        if not self.folder.begun_here:
            self._refuse_another_model()
        options = {name: value for name, value in self.options.items() if value is not None}
        what = (self.folder, key, self.source, self.explainer, self.example, self.about, options)
        return Job(*what, cells, batch, device)

    def _refuse_another_model(self) -> None:
        """Refuse a model that answers otherwise than the run's: of a library nothing else is known."""
        known, new = Explanation.load(self.folder.own / EXAMPLE), self.example
        if known.varies or new.varies or known.x is None or new.x is None:
            return
        rows = {key: row for row, key in enumerate(known.ids.tolist())}
        for row, key in enumerate(new.ids.tolist()):
            same = key in rows and torch.equal(known.x[rows[key]].cpu(), new.x[row].cpu())
            if same and _answers_differ(known[[rows[key]]], new[[row]]):
                raise DataError(
                    f"{short_path(self.folder.root)} holds results of another model: for the first series it "
                    "predicted something else than this one. Name another folder."
                )


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
