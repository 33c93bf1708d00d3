"""Several targets of one call: a mapping of explanations, and what targets are called."""

from collections.abc import Iterator, Mapping
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import Tensor

from tempograd.core import validation
from tempograd.core.errors import InputError, UnknownNameError, brief
from tempograd.explanation import diagnostics, files
from tempograd.explanation.core import Explanation
from tempograd.explanation.files import Key
from tempograd.typing import ArrayLike

if TYPE_CHECKING:
    import pandas as pd

SHOWN = 8  # targets that a sentence names


class Explanations(Mapping[Key, Explanation]):
    """Explanations of several targets of the same series, in the order in which they were asked for.

    A key is the target as it was asked for: a number, a name or an address; a function, or one target for each
    series, is ``"target 2"`` by its place, counted from 0. An output may also be looked up in another of these
    ways, and a function by itself.

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
        explained = list(self._parts.values())
        ids = [part.ids for part in explained if isinstance(part, Explanation)]
        if not ids or len(ids) < len(explained) or not all(torch.equal(ids[0], other) for other in ids):
            raise InputError(f"All parts must be explanations of the same series, got {brief(parts)}.")

    def __getitem__(self, target: Any) -> Explanation:
        if isinstance(target, int | str | tuple) and not isinstance(target, bool) and target in self._parts:
            return self._parts[target]
        for part in self._parts.values():
            if not isinstance(target, bool | Tensor | np.ndarray) and target in spellings(part):
                return part
        raise UnknownNameError("target", target, map(str, self))

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
        return self._each(lambda part: part[rows])

    def with_names(self, **names: Any) -> Self:
        """Return the same with what people call the parts; see :meth:`Explanation.with_names`."""
        return self._each(lambda part: part.with_names(**names))

    def _each(self, change: Any) -> Self:
        return type(self)({key: change(part) for key, part in self._parts.items()})

    def __repr__(self) -> str:
        count = "1 target" if len(self) == 1 else f"{len(self)} targets"
        return f"Explanations of {count}, {self.listed}; the first: {self.at(0)!r}"

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
        text = self[first].verdict(i)
        if others:
            text += f"; this is of {first}, the first of {len(self)} targets"
        bad = [key for key in others if diagnostics.poor(self[key] if i is None else self[key][i])]
        return text + (f", and {len(bad)} of the others fell short: see explanations[{bad[0]!r}]" if bad else "")

    def to_dataframe(self) -> "pd.DataFrame":
        """Return the tables of all targets, one below the other; the first column is the ``target``."""
        tables = [part.to_dataframe() for part in self.values()]
        for table, key in zip(tables, self, strict=True):
            table.insert(0, "target", [key] * len(table))
        import pandas as pd  # noqa: PLC0415  # an extra, which made them

        return pd.concat(tables, ignore_index=True)

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


def address(explanation: Explanation) -> tuple[int, ...] | None:
    """Return the same as a place in an output with several axes."""
    place, shape = number(explanation), explanation.output_shape
    return None if place is None or not shape else tuple(map(int, np.unravel_index(place, shape)))


def called(explanation: Explanation) -> Key:
    """Return what was explained: the name of an output, its number, its address, or words."""
    place, classes = number(explanation), explanation.classes
    if place is None:
        one = "a score of your own" if explanation.target is None else "one output per series"
        return explanation.target_text or one
    if classes is not None and place < len(classes):
        return classes[place]
    return address(explanation) or place


def spellings(explanation: Explanation) -> list[Any]:
    """Return all that the target of an explanation may be looked up by: name, number, address, words, function."""
    place, words = number(explanation), explanation.target_text
    known = called(explanation), place, address(explanation) or (place,), words, explanation.picker
    return [name for name in known if name is not None]
