"""Explanations of several batches put together into one."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from tempograd.core.errors import InputError, brief
from tempograd.core.findings import arg
from tempograd.core.formatting import counted
from tempograd.core.series import series_ids, text_key
from tempograd.explanation.core import Explanation, require
from tempograd.explanation.fields import joined, of_kind
from tempograd.explanation.same import same_output
from tempograd.explanation.targets import Explanations
from tempograd.typing import ArrayLike

E = TypeVar("E", Explanation, Explanations)


def concat(parts: Iterable[E], *, ids: ArrayLike | Sequence[str] | None = None) -> E:
    """Join explanations of several batches of series, explained alike, into one.

    Parameters
    ----------
    parts : iterable of Explanation, or of Explanations
        Of the same model, method, settings and targets; the series of each part follow those of the one before.
    ids : distinct integers or texts, optional
        Numbers of all series together, where the parts have the same ones: by default each part keeps its own.

    Returns
    -------
    Explanation or Explanations
        As if all series had been explained in one call, where the parts had the ids that they have here: the
        draws of a random method depend on them.

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
        return _joined([require(part) for part in batches], ids)  # type: ignore[return-value]  # of the kind of the parts
    keys = list(batches[0])
    if any(not isinstance(part, Explanations) or list(part) != keys for part in batches):
        raise InputError("Some parts explain other targets than the first: join those made alike.")
    return Explanations({key: _joined([part[key] for part in batches], ids) for key in keys})  # type: ignore[return-value]


def _joined(parts: Sequence[Explanation], ids: Any) -> Explanation:
    first = parts[0]
    for number, part in enumerate(parts):
        _require_alike(first, part, number)
    content = joined(parts)
    if ids is not None:
        distinct = series_ids(ids, len(content["ids"]))
        texts = distinct if isinstance(distinct, tuple) else None
        content |= {"names": texts, "ids": torch.tensor([*map(text_key, texts)])} if texts else {"ids": distinct}
    else:
        _require_distinct(content["ids"], content["names"])
    return first._with(**content)


def _require_distinct(ids: Tensor, names: Sequence[str] | None) -> None:
    ordered = ids.sort().values
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(twice):
        place = int((ids == twice[0]).nonzero()[0])
        what = ids[place] if names is None else names[place]
        raise InputError(
            f"The id {what} occurs in more than one part: explain each part with ids= of its own, or pass "
            "the ids of all series to concat."
        )


def _require_alike(first: Explanation, part: Explanation, number: int) -> None:
    """Refuse a part that was explained in another way than the first."""
    for name in (*(each.name for each in of_kind(first, "alike")), "target_text", "background"):
        mine, other = getattr(first, name), getattr(part, name)
        if mine != other:
            raise InputError(
                f"Part {number} differs from part 0 in {_difference(name, other, mine)}: join explanations that "
                "were made alike."
            )
    if not same_output(first, part):
        raise InputError(f"Part {number} explains another output than part 0: join explanations of the same one.")
    shapes = tuple(first.values.shape[1:]), tuple(part.values.shape[1:])
    if shapes[0] != shapes[1]:
        raise InputError(
            f"Part {number} is of series of {counted(shapes[1][0], 'step')} and "
            f"{counted(shapes[1][1], 'channel')}, part 0 of {shapes[0][0]} and {shapes[0][1]}: pad the "
            f"shorter ones, with {arg:series.mask}, before they are explained."
        )


def _difference(name: str, other: Any, mine: Any) -> str:
    """Name what differs, of settings the first that does."""
    if isinstance(mine, dict) and isinstance(other, dict):
        first = next(key for key in {**mine, **other} if mine.get(key) != other.get(key))
        name, other, mine = first, other.get(first), mine.get(first)
    return f"{name} ({brief(other)} and {brief(mine)})"
