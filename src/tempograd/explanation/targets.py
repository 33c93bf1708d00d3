"""Several explanations: of the targets of one call, of batches that become one, and whether they are alike."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from numbers import Integral
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from tempograd.core import validation
from tempograd.core.errors import InputError, UnknownNameError, brief
from tempograd.core.formatting import counted
from tempograd.engine import Model, Predictor
from tempograd.engine.outputs import in_full, outputs_of
from tempograd.explanation import diagnostics, files
from tempograd.explanation.core import Explanation, require
from tempograd.explanation.files import Key
from tempograd.explanation.record import joined
from tempograd.typing import ArrayLike

SHOWN = 8  # targets that a sentence names
ROUNDED = 1e-4  # of a value, or four units of the last place of either precision: no more apart is the same value


class Explanations(Mapping[Key, Explanation]):
    """Explanations of several targets of the same series, in the order in which they were asked for.

    A key is the target as it was asked for: a number, a name or an address; a function, or one target for each
    series, is ``"target 2"`` by its place, counted from 0.

    Parameters
    ----------
    parts : mapping
        Explanations of the same series by their targets.

    Examples
    --------
    >>> import tempograd as tg
    >>> every = tg.explain(lambda x: x.sum(1), torch.ones(4, 5, 3), targets=[0, 2], output="raw", n_samples=8)
    >>> list(every), every[2].values.shape, every.at(0) is every[0]
    ([0, 2], torch.Size([4, 5, 3]), True)
    """

    def __init__(self, parts: Mapping[Key, Explanation]) -> None:
        self._parts = dict(parts)
        ids = [part.ids for part in self.values() if isinstance(part, Explanation)]
        if not ids or len(ids) < len(self) or not all(torch.equal(ids[0], other) for other in ids):
            raise InputError(f"All parts must be explanations of the same series, got {brief(parts)}.")

    def __getitem__(self, target: Any) -> Explanation:
        try:
            return self._parts[target]
        except (KeyError, TypeError):  # what has no hash is none either
            raise UnknownNameError("target", target, map(str, self)) from None

    def __iter__(self) -> Iterator[Key]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def at(self, place: int) -> Explanation:
        """Return the explanation of the target at a place, counted from 0."""
        place = validation.check_int(place, "place", -len(self), len(self) - 1)
        return list(self._parts.values())[place]

    def take(self, rows: int | slice | ArrayLike) -> Self:
        """Return the explanations of some of the series, for every target."""
        return type(self)({key: part[rows] for key, part in self.items()})

    def __repr__(self) -> str:
        return f"Explanations of {counted(len(self), 'target')}, {self.listed}; the first: {self.at(0)!r}"

    @property
    def listed(self) -> str:
        """The targets as a part of a sentence, the first few of many."""
        more = f" and {len(self) - SHOWN} more" if len(self) > SHOWN else ""
        words = (part.target_text for part in self.values())
        named = [f"{key} ({text})" if text else str(key) for key, text in zip(self, words, strict=True)]
        return ", ".join(named[:SHOWN]) + more

    def verdict(self, i: int | None = None) -> str:
        """Say how good the scores of the first target are, and which others are not good.

        Parameters
        ----------
        i : int, optional
            Position of a series; by default the line is about all of them.
        """
        first, *others = self
        more = f"; this is of {first}, the first of {len(self)} targets" if others else ""
        bad = [key for key in others if diagnostics.poor(self[key] if i is None else self[key][i])]
        more += f", and {len(bad)} of the others fell short: see explanations[{bad[0]!r}]" if bad else ""
        return self[first].verdict(i) + more

    def _repr_html_(self) -> str:
        """Show the first series of the first target where a notebook would print the explanations."""
        from tempograd.html_report.notebook import as_html  # noqa: PLC0415  # above

        return as_html(self.at(0), several=self.listed)

    def save(self, path: str | Path, *, series: bool = True, force: bool = False) -> Path:
        """Write all targets to one file, what they share once; see :meth:`Explanation.save`."""
        return files.write_explanations(path, list(self.values()), list(self), series=series, force=force)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what :meth:`save` wrote, or an explanation of one target, as a mapping of one."""
        parts, keys = files.read_explanations(path, Explanation)
        if keys is None:  # which earlier schemas did not keep
            keys = [key_of(called(part) if number(part) is not None else None, p) for p, part in enumerate(parts)]
        return cls(dict(zip(keys, parts, strict=True)))


def key_of(target: Any, place: int) -> Key:
    """Return the key of a target as it was asked for."""
    if isinstance(target, Integral) and not isinstance(target, bool):
        return int(target)
    if isinstance(target, tuple):
        return tuple(map(int, target))
    return target if isinstance(target, str) else f"target {place}"


def number(explanation: Explanation) -> int | None:
    """Return the one output that was explained of all series, as a number; None if there is no such one."""
    numbers = set() if explanation.target is None else set(explanation.target.flatten().tolist())
    return numbers.pop() if len(numbers) == 1 else None


def called(explanation: Explanation) -> Key:
    """Return what was explained: the name of an output, its number, its address, or words."""
    place, classes, shape = number(explanation), explanation.classes, explanation.output_shape
    if place is None:
        one = "a score of your own" if explanation.target is None else "one output per series"
        return explanation.target_text or one
    if classes is not None and place < len(classes):
        return classes[place]
    return tuple(map(int, np.unravel_index(place, shape))) if shape else place


# Batches that become one

E = TypeVar("E", Explanation, Explanations)


def concat(parts: Iterable[E]) -> E:
    """Join explanations of several batches of series, explained alike and of as many steps, into one.

    Parameters
    ----------
    parts : iterable of Explanation, or of Explanations
        Of the same model, method, settings and targets; the series of each part follow those of the one before.
        Their ids are distinct, since the draws of a random method depend on them.

    Returns
    -------
    Explanation or Explanations
        As if all series had been explained in one call.

    Examples
    --------
    >>> from tempograd import IntegratedGradients, Series
    >>> total, explainer = lambda x: x.sum((1, 2)), IntegratedGradients(n_steps=1)
    >>> halves = [explainer(total, Series(torch.ones(2, 3, 1), ids=[a, a + 1]), output="raw") for a in (0, 2)]
    >>> concat(halves).ids
    tensor([0, 1, 2, 3])
    """
    batches: Sequence[Any] = list(parts)
    if not batches:
        raise InputError("There is nothing to join: pass at least one explanation.")
    if not isinstance(batches[0], Explanations):
        return _joined([require(part) for part in batches])  # type: ignore[return-value]  # of the kind of the parts
    keys = list(batches[0])
    if any(not isinstance(part, Explanations) or list(part) != keys for part in batches):
        raise InputError("Some parts explain other targets than the first: join those made alike.")
    return Explanations({key: _joined([part[key] for part in batches]) for key in keys})  # type: ignore[return-value]


def _joined(parts: Sequence[Explanation]) -> Explanation:
    first = parts[0]
    for number, part in enumerate(parts):
        _require_alike(first, part, number)
    content = joined(parts)
    validation.check_ids(content["ids"], len(content["ids"]))
    return replace(first, **content)


def _require_alike(first: Explanation, part: Explanation, number: int) -> None:
    """Refuse a part that was explained in another way than the first."""
    names = [f.name for f in fields(first) if f.metadata["per"] == "alike"]
    pairs = {name: (getattr(part, name), getattr(first, name)) for name in (*names, "target_text", "background")}
    pairs["steps and channels"] = tuple(part.values.shape[1:]), tuple(first.values.shape[1:])
    for name, (other, mine) in pairs.items():
        if other != mine:
            pair = f"{brief(other)} and {brief(mine)}"
            raise InputError(f"Part {number} differs from part 0 in {name} ({pair}): join those made alike.")
    if not same_output(first, part):
        raise InputError(f"Part {number} explains another output than part 0: join explanations of the same one.")


def same_output(one: Explanation, other: Explanation) -> bool:
    """Tell whether two explanations are of the same output, where a task has no predicted class to choose it."""
    predicted = any(outputs_of(part.task).target in ("predicted", "one") for part in (one, other))
    if predicted or one.target is None or other.target is None:
        return True
    return set(one.target.flatten().tolist()) == set(other.target.flatten().tolist())


def other_targets(one: Explanation, other: Explanation) -> list[int]:
    """Return the ids of series of which two explanations explain different outputs, as far as both tell."""
    if one.target is None or other.target is None or one.target.shape != other.target.shape:
        return []
    unlike = (one.target.cpu() != other.target.cpu()).reshape(len(one), -1).any(1)
    return one.ids.cpu()[unlike].tolist()


def other_series(explanation: Explanation, x: Tensor | None, mask: Tensor | None = None) -> list[int]:
    """Return the ids of series whose observed values in ``x`` are not those that were explained.

    Cells that are missing in either hold a baseline or NaN, which may differ. Nothing is known of an explanation
    that keeps no series.
    """
    kept = explanation.x
    if kept is None or x is None or x is kept or x.shape != kept.shape:
        return []
    x = x.to(kept.device)
    rounded = max(ROUNDED, *(4 * torch.finfo(part.dtype).eps for part in (x, kept)))
    # rounding errors of values near 0 come from those around them
    size = float(kept.double().abs().nan_to_num(0.0, 0.0, 0.0).mean()) if kept.numel() else 0.0
    same = torch.isclose(x.double(), kept.double(), rtol=rounded, atol=rounded * size, equal_nan=True) | x.isnan()
    for observed in (explanation.mask, mask):
        same = same if observed is None else same | ~observed.to(kept.device)
    return explanation.ids[~same.flatten(1).all(1).to(explanation.ids.device)].tolist()


def as_explained(model: Model | Predictor, explanation: Explanation) -> Model:
    """Return the model alone, which the explanation knows how to call; refuse a predictor that says otherwise."""
    if not isinstance(model, Predictor):
        return model
    call, layout = explanation.call, None if model.layout == "BTD" else model.layout
    task = in_full(model.task, explanation.columns)
    stated = {"task": task, "classes": model.classes, "pick": model.pick, "layout": layout}
    explained = explanation.task, explanation.classes, call.pick, call.model_layout
    for (name, ours), theirs in zip(stated.items(), explained, strict=True):
        if ours is not None and theirs is not None and ours != theirs:
            pair = f"{name}={brief(ours)}, and the explanation was made with {brief(theirs)}"
            raise InputError(f"The predictor says {pair}: pass the one that was explained, or its model alone.")
    return model.called
