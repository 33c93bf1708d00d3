"""One cell of a table: everything its number depends on, and the keys made of that."""

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from tempograd.explanation.files import SETTING_WORDS
from tempograd.typing import Rank

Pairs = tuple[tuple[str, Any], ...]
"""Settings as (name, JSON value) pairs: like a dict, but frozen."""

FIRST_VARIANTS = {("state", "redrawn"): "released", ("state", "released"): "released-series"}
"""Variants that were called otherwise in the first version, or did not exist there, in the words of its keys."""

RemovalBaseline = Literal["zero", "average", "background"]

FORMAT = 1  # part of every key; raised when the meaning of a field, or what a protocol does, changes


@dataclass(frozen=True)
class Measure:
    """A metric as a table uses it.

    Parameters
    ----------
    name : str
        What its scores are called in the record, for instance ``"cpd50_zero"``.
    metric : str
        A key of ``METRICS``.
    k : int or float, optional
        Cells removed: a count, or a share of the observed cells; None for metrics of localisation.
    baseline : {"zero", "average", "background"}
        What takes the place of removed cells.
    """

    name: str
    metric: str
    k: int | float | None = None
    baseline: RemovalBaseline = "zero"


@dataclass(frozen=True)
class Cell:
    """One explainer on one model of one fold of one data set, with all settings.

    Parameters
    ----------
    dataset, variant, fold
        Which series, see :func:`~tempograd.data.load_dataset`.
    model : str
        A key of ``MODELS``.
    method : str
        A key of ``EXPLAINERS``.
    measures : tuple of Measure
    protocol : {"published", "fair", "tuned"}
    settings : pairs
        Hyper-parameters of the method that replace those of the protocol.
    rank : {"absolute", "signed"}
        How the metrics rank the scores.
    series : int, optional
        Explain so many test series only, evenly spaced.
    seed : int
        Of training, fitting and explaining.
    training, sizes : pairs
        Settings of the training and sizes of the model that replace those of the protocol.
    """

    dataset: str
    variant: str
    fold: int
    model: str
    method: str
    measures: tuple[Measure, ...]
    protocol: str
    settings: Pairs = ()
    rank: Rank = "absolute"
    series: int | None = None
    seed: int = 42
    training: Pairs = ()
    sizes: Pairs = ()

    @property
    def key(self) -> str:
        """Name the record."""
        return self._key(*asdict(self))

    @property
    def explanation_key(self) -> str:
        """Name the explanation, which depends on no metric."""
        return self._key(*(name for name in asdict(self) if name not in {"measures", "rank"}))

    def explanation_key_against(self, baseline: str) -> str:
        """Name the explanation of a tuned method against one baseline; what is chosen depends on the rank."""
        return self._key(*(name for name in asdict(self) if name != "measures"), baseline=baseline)

    @property
    def model_key(self) -> str:
        """Name the trained model, which depends on no explainer; tuned cells have the models of fair ones."""
        names = "dataset", "variant", "fold", "model", "protocol", "seed", "training", "sizes"
        return self._key(*names, protocol="fair" if self.protocol == "tuned" else self.protocol)

    @property
    def kept_variant(self) -> str:
        """The variant in the words of the first version, which files are named by."""
        return FIRST_VARIANTS.get((self.dataset, self.variant), self.variant)

    def __str__(self) -> str:
        settings = "".join(f", {name}={value}" for name, value in self.settings)
        return f"{self.method}{settings} on {self.dataset}/{self.variant}, {self.model}, fold {self.fold}"

    def _key(self, *names: str, **others: str) -> str:
        values = _in_first_words(asdict(self)) | {"variant": self.kept_variant}
        text = json.dumps([FORMAT, {name: values[name] for name in names} | others], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:20]


def cell_from(plain: dict[str, Any], key: str | None = None) -> Cell:
    """Rebuild a cell from ``dataclasses.asdict`` that went through JSON, also of the first version's words.

    ``key`` is the name under which it was kept: it tells what the first version called "released" from what is
    called so now.
    """
    words = SETTING_WORDS.get(plain["method"], {})
    measures = tuple(Measure(**_renamed(measure, {"substitute": "baseline"})) for measure in plain["measures"])
    pairs = {name: _frozen(plain[name]) for name in ("settings", "training", "sizes")}
    pairs["settings"] = tuple(sorted((words.get(name, name), value) for name, value in pairs["settings"]))
    cell = Cell(**(plain | {"measures": measures} | pairs))
    same = [replace(cell, variant=new) for (name, new) in FIRST_VARIANTS if name == cell.dataset]
    return next((other for other in same if other.key == key), cell)


def _in_first_words(values: dict[str, Any]) -> dict[str, Any]:
    """Return a cell in the words of the first version: keys are made of them, so that its records stay known."""
    words = {new: old for old, new in SETTING_WORDS.get(values["method"], {}).items()}
    measures = [_renamed(measure, {"baseline": "substitute"}) for measure in values["measures"]]
    settings = sorted((words.get(name, name), value) for name, value in values["settings"])
    return values | {"measures": measures, "settings": settings}


def _renamed(plain: dict[str, Any], words: dict[str, str]) -> dict[str, Any]:
    return {words.get(name, name): value for name, value in plain.items()}


def _frozen(value: Any) -> Any:
    return tuple(_frozen(part) for part in value) if isinstance(value, list | tuple) else value
