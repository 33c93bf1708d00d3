"""Explain and score some of the series with some explainer, and count what that costs."""

import math
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from tempograd._utils import validation
from tempograd.engine import Call, is_several
from tempograd.engine.background import baseline_in_time_order, in_time_order, is_background
from tempograd.engine.calls import FixedInputs
from tempograd.engine.outputs import PassCount, counting
from tempograd.engine.second_look import generators_kept
from tempograd.errors import InputError, brief, silenced
from tempograd.explainers import Explainer, explain
from tempograd.explainers.by_name import fitted, keywords
from tempograd.explanation import Explanation
from tempograd.metrics import METRICS, Metric, evaluate
from tempograd.metrics.base import KINDS, MeasuredMetric
from tempograd.metrics.evaluation import measure
from tempograd.metrics.localisation import Localisation
from tempograd.typing import Inputs, Model

CALL = keywords(explain)
SCORING = ("k", "truth", "of")  # what evaluate takes and explain does not
SHOWN = ("channels", "times", "names", "units", "raw")  # for people, and of no use here


def one_metric(metric: str | Metric) -> Metric:
    """Return the metric, which must give every series a score of its own."""
    found = METRICS[metric]() if isinstance(metric, str) else metric
    if not isinstance(found, MeasuredMetric):
        raise InputError(
            f"metric must be a name or a metric, got {brief(metric)}: write metric='cpd', or an object of {KINDS}."
        )
    if isinstance(found, Localisation) and found.whole:
        raise InputError(
            f"{found.name} with pooled=True is one number for all series, and settings are compared series by "
            "series: leave pooled= out."
        )
    return found


@dataclass(frozen=True)
class Scored:
    """Scores of some series, one each, and the passes of the model that maps and scores took."""

    scores: Tensor  # (series,), float64 on the CPU
    explained: int
    scored: int
    known: bool  # whether the method itself knows how many passes it takes
    shape: tuple[int, int]  # of a series, (time, channel)


@dataclass
class Bench:
    """A model, the series that explainers are tried on, and how these are called and scored."""

    model: Model
    x: Inputs
    metric: Metric
    count: int  # series
    ids: Tensor
    call: dict[str, Any]  # arguments of an explainer, with a row for each series where they have rows
    background: Inputs | None
    k: int | float
    truth: Inputs | None
    of: Any
    seed: int
    spent: int = 0  # passes so far
    removals: int | None = None  # other series whose values take the place of removed cells, where they do

    @classmethod
    def of_call(cls, model: Model, x: Inputs, metric: str | Metric, options: Mapping[str, Any]) -> Self:
        """Check and complete the arguments of a call."""
        validation.check_model(model)
        if options.get("targets") is not None:
            raise InputError("Explainers are compared by one target: pass target= instead of targets=.")
        chosen = one_metric(metric)
        several = is_several(x)
        x = _tensors(x) if several else validation.as_tensor(x, "x")
        first = next(iter(_parts(x)), None)
        if first is None or first.ndim == 0 or len(first) == 0:
            raise InputError(f"x must hold the series that settings are tried on, got {brief(x)}.")
        count, layout = len(first), options.get("layout", "BTD")
        truth = options.get("truth")
        if isinstance(chosen, Localisation) and truth is None:
            raise InputError(f"{chosen.name} compares with the truly salient cells: pass truth=.")
        if truth is not None:
            truth = _tensors(truth) if is_several(truth) else validation.as_tensor(truth, "truth")
            _require_rows(truth, "truth", count)
            truth = truth.transpose(1, 2) if layout == "BDT" and not several else truth
        mask = options.get("mask")
        if mask is not None:
            _require_rows(
                _tensors(mask) if is_several(mask) else validation.as_tensor(mask, "mask"), "mask", count
            )
        used = set(CALL) - {"background", "ids", "seed", *SHOWN}
        return cls(
            model=model,
            x=x,
            metric=chosen,
            count=count,
            ids=validation.check_ids(options.get("ids"), count),
            call={name: value for name, value in options.items() if name in used},
            background=options.get("background"),
            k=options.get("k", 0.1),
            truth=truth,
            of=options.get("of"),
            seed=validation.check_seed(options.get("seed", 0)),
        )

    @property
    def higher_is_better(self) -> bool:
        """The direction of a good score."""
        return self.metric.higher_is_better

    @property
    def other_series(self) -> dict[str, Inputs | None]:
        """The other series that are the baseline, as an argument of calls, where they are."""
        return {"background": self.background} if is_background(self.call.get("baseline")) else {}

    @property
    def baseline_kind(self) -> str:
        """What maps compare with and removed cells become: the baseline's name, or "own" for numbers."""
        given = self.call.get("baseline")
        return "zero" if given is None else given if isinstance(given, str) else "own"

    def order(self) -> Tensor:
        """Return all series in a random order, since files are often sorted by class."""
        return torch.randperm(self.count, generator=torch.Generator().manual_seed(self.seed % 2**63))

    def ready(self, explainer: Explainer) -> Explainer:
        """Return the explainer as it is after it learnt from the background series, if there are some."""
        if self.background is None or (self.other_series and not explainer.needs_fit):
            return explainer
        convention = Call(pick=self.call.get("pick"), model_layout=self.call.get("model_layout", "BTD"))
        layout = self.call.get("layout", "BTD")
        return fitted(explainer, self.model, self.x, self.background, layout, convention, self.seed)

    def explain(self, explainer: Explainer, rows: Tensor, *, quiet: bool = True) -> Explanation:
        """Explain some of the series; ``quiet`` where another explainer has said what there is to say."""
        call = {name: self._rows(name, value, rows) for name, value in self.call.items()}
        call |= {"ids": self.ids[rows], "seed": self.seed, **self.other_series}
        if quiet:
            call["gradient_check"] = False
        with silenced() if quiet else nullcontext():
            return explainer(self.model, _taken(self.x, rows), **call)

    def score(
        self,
        explainer: Explainer,
        rows: Tensor,
        *,
        quiet: bool = True,
        most: float = math.inf,
        known: bool = False,
    ) -> Scored:
        """Explain and score some of the series, and add what that takes to ``spent``.

        PassesError before that is more than ``most``; with ``known`` the caller has made sure of it for the maps.
        """
        maps, removals = PassCount(math.inf if known else most), PassCount(math.inf)
        explained = None
        try:
            with counting(maps):
                explanation = self.explain(explainer, rows, quiet=quiet)
            explained = explained_passes(explanation, maps.passes)
            removals.most = most - explained
            with counting(removals):
                scores = self._scores(explanation, rows, quiet=quiet)
        finally:
            self.spent += (maps.passes if explained is None else explained) + removals.passes
        _, time, channels = explanation.values.shape
        return Scored(scores, explained, removals.passes, explanation.n_evals is not None, (time, channels))

    def _scores(self, explanation: Explanation, rows: Tensor, *, quiet: bool) -> Tensor:
        truth = None if self.truth is None else _taken(self.truth, rows)
        layout = self.call.get("layout", "BTD")
        baseline = baseline_in_time_order(self._rows("baseline", self.call.get("baseline"), rows), layout)
        options: dict[str, Any] = {"batch_size": self.call.get("batch_size"), "of": self.of}
        if self.other_series and self.background is not None:
            options |= {"background": in_time_order(self.background, layout), "draws": self.removals}
        arguments: Any = ([self.metric], "zero" if baseline is None else baseline, self.k, truth)
        with generators_kept(self.model):
            found = (measure if quiet else evaluate)(self.model, explanation, None, *arguments, **options)
        return found[self.metric.name].detach().double().cpu()

    def _rows(self, name: str, value: Any, rows: Tensor) -> Any:
        """Return the part of an argument that belongs to some of the series."""
        if value is None or isinstance(value, (str, bool, int, float)) or callable(value):
            return value
        if name == "mask":
            return _taken(_tensors(value) if is_several(value) else validation.as_tensor(value, name), rows)
        if name == "baseline":
            return _baseline_rows(value, self.x, rows)
        if name == "fixed":
            return _fixed_rows(value, self.count, rows)
        if name in ("target", "steps") and not isinstance(value, tuple):
            tensor = validation.check_numbers(value, name)
            own = tensor.ndim > (name == "steps") and len(tensor) == self.count
            return tensor[rows.to(tensor.device)] if own else value
        return value


def explained_passes(explanation: Explanation, counted: int) -> int:
    """Return how many passes of the model an explanation took: what it knows itself, or else what was counted.

    Looks at the model that are no part of the method, such as the comparison of the gradient with differences, do
    not count where the method knows.
    """
    if explanation.n_evals is None:
        return counted
    return int(explanation.n_evals.sum()) * explanation.draws


def _tensors(inputs: Any) -> Any:
    if isinstance(inputs, Mapping):
        return {name: validation.as_tensor(value, str(name)) for name, value in inputs.items()}
    return tuple(validation.as_tensor(value, "x") for value in inputs)


def _parts(x: Any) -> list[Tensor]:
    if isinstance(x, Mapping):
        return list(x.values())
    return list(x) if isinstance(x, tuple) else [x]


def _require_rows(value: Any, name: str, count: int) -> None:
    """Refuse what has another number of rows than there are series, of which some are taken at a time."""
    for part in _parts(value):
        rows = len(part) if part.ndim else 0
        if rows != count:
            raise InputError(f"{name} has {rows} rows and x has {count} series: pass one row for each.")


def _taken(inputs: Any, rows: Tensor) -> Any:
    if isinstance(inputs, Mapping):
        return {name: _taken(value, rows) for name, value in inputs.items()}
    if isinstance(inputs, tuple):
        return tuple(_taken(value, rows) for value in inputs)
    return inputs[rows.to(inputs.device)]


def _baseline_rows(value: Any, x: Any, rows: Tensor) -> Any:
    """Return the rows of a baseline that has one for each series; others are the same for all."""
    if isinstance(value, Mapping):
        known = x if isinstance(x, Mapping) else {}
        return {name: _baseline_rows(part, known.get(name), rows) for name, part in value.items()}
    if value is None or isinstance(value, (str, int, float)):
        return value
    tensor, like = validation.as_tensor(value, "baseline"), x if isinstance(x, Tensor) else None
    own = like is not None and tensor.ndim == like.ndim and len(tensor) == len(like)
    return tensor[rows.to(tensor.device)] if own else value


def _fixed_rows(value: Any, count: int, rows: Tensor) -> Any:
    """Return the rows of inputs that go along with the series; constants stay."""
    known = FixedInputs.of(value, count).rows
    taken = {
        name: part[rows.to(part.device)] if isinstance(part, Tensor) else [part[i] for i in rows.tolist()]
        for name, part in known.items()
    }
    if isinstance(value, Mapping):
        return {name: taken.get(str(name), part) for name, part in value.items()}
    return [taken.get(str(place), part) for place, part in enumerate(value)]
