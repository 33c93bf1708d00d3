"""Explanations of several batches put together into one, and whether explanations are about the same."""

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any, TypeVar

import torch
from torch import Tensor

from tempograd.core.errors import InputError, brief
from tempograd.core.series import series_ids, text_key
from tempograd.engine import Model, Predictor
from tempograd.explanation.core import Explanation, require
from tempograd.explanation.fields import joined
from tempograd.explanation.targets import Explanations
from tempograd.typing import ArrayLike

E = TypeVar("E", Explanation, Explanations)
ROUNDED = 1e-4  # of a value, or four units of the last place of either precision: no more apart is the same value


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
    numbers = content["ids"].tolist()
    if ids is not None:
        distinct = series_ids(ids, len(numbers))
        texts = distinct if isinstance(distinct, tuple) else None
        content |= {"names": texts, "ids": torch.tensor([*map(text_key, texts)])} if texts else {"ids": distinct}
    elif len(set(numbers)) < len(numbers):
        place = next(place for place, number in enumerate(numbers) if number in numbers[:place])
        raise InputError(
            f"The id {(content['names'] or numbers)[place]} occurs in more than one part: explain each part with "
            "ids= of its own, or pass the ids of all series to concat."
        )
    return first._with(**content)


def _require_alike(first: Explanation, part: Explanation, number: int) -> None:
    """Refuse a part that was explained in another way than the first."""
    names = [each.name for each in fields(first) if each.metadata["per"] == "alike" and each.name != "parameters"]
    pairs = {name: (getattr(part, name), getattr(first, name)) for name in (*names, "target_text", "background")}
    settings = part.parameters, first.parameters
    pairs |= {name: (settings[0].get(name), settings[1].get(name)) for name in settings[0] | settings[1]}
    pairs["steps and channels"] = tuple(part.values.shape[1:]), tuple(first.values.shape[1:])
    for name, (other, mine) in pairs.items():
        if other != mine:
            raise InputError(
                f"Part {number} differs from part 0 in {name} ({brief(other)} and {brief(mine)}): join "
                "explanations that were made alike."
            )
    if not same_output(first, part):
        raise InputError(f"Part {number} explains another output than part 0: join explanations of the same one.")


def same_output(one: Explanation, other: Explanation) -> bool:
    """Tell whether two explanations are of the same output, where a task has no predicted class to choose it."""
    chosen = {"regression", "forecast"}
    if one.task not in chosen or other.task not in chosen or one.target is None or other.target is None:
        return True
    return set(one.target.flatten().tolist()) == set(other.target.flatten().tolist())


def other_targets(one: Explanation, other: Explanation) -> list[int]:
    """Return the ids of series of which two explanations explain different outputs, as far as both tell."""
    if one.target is None or other.target is None or one.target.shape != other.target.shape:
        return []
    unlike = (one.target.cpu() != other.target.cpu()).reshape(len(one), -1).any(1)
    return one.ids.cpu()[unlike].tolist()


def same_lengths(one: Explanation, other: Explanation) -> bool:
    """Tell whether the model was shown as many steps of each series in both."""
    first, second = (part.call.lengths or (part.values.shape[1],) * len(part) for part in (one, other))
    return first == second


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
    call = explanation.call
    known = (
        ("task", model.task, explanation.task),
        ("classes", model.classes, explanation.classes),
        ("pick", model.pick, call.pick),
        ("layout", None if model.layout == "BTD" else model.layout, call.model_layout),
    )
    for name, stated, explained in known:
        if stated is not None and explained is not None and stated != explained:
            raise InputError(
                f"The predictor says {name}={brief(stated)}, and the explanation was made with {brief(explained)}"
                ": pass the predictor that was explained, or its model alone."
            )
    return model.called
