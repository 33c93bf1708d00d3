"""What analysts read of many series at once: a class, a sentence, and drivers by name, all as columns."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tempograd.data.columns import Part
from tempograd.data.files import arrow
from tempograd.explanation import Explanation
from tempograd.views import labels
from tempograd.views.drivers import CONTROL, MOST, NAMED
from tempograd.views.prediction import percent_text
from tempograd.views.stretches import Stretches, stretches_of

GOOD = ("good", "rough")  # verdicts that leave the sentence as it is
DIGITS = 3  # of values in a sentence
AND = ", "


class Shown(NamedTuple):
    """What people know of some series: names of steps, for all or for each, and values as they were read."""

    times: Any
    values: NDArray[Any]


@dataclass(frozen=True)
class Told:
    """Some series in words.

    Attributes
    ----------
    series : pyarrow.Table
        Class, probability, sentence and verdict of each.
    found : Stretches
        The drivers.
    columns : dict of str to array
        Of each driver: what the table of drivers holds beside ids.
    """

    series: Any
    found: Stretches
    columns: dict[str, Any]

    def drivers_of(self, batch: Part, rows: NDArray[np.int64]) -> Any:
        """Return the rows of the table of drivers; ``rows`` are where the series stand in the batch."""
        pa = arrow()
        place = pa.array(rows[self.found.row.cpu().numpy()])
        named = {"id": batch.ids.take(place), "key": pa.array(batch.keys).take(place)}
        kept = {name: column.take(place) for name, column in batch.kept.items()}
        return pa.table(named | kept | self.columns)


def tell(found: Explanation, verdict: NDArray[Any], shown: Shown | None) -> Told:
    """Say of each series what was predicted and what drove it; ``verdict`` is that on each map."""
    pa = arrow()
    place = stretches_of(found, MOST)
    columns = _driver_columns(found, place, shown)
    head, name, share = _predicted(found)
    sentence = _sentences(found, place, columns, head, numbered=shown is None or shown.times is None)
    doubt = pa.array(["" if word in GOOD else f"{word}; " for word in verdict], pa.string())
    texts = {"class": name, "probability": share, "sentence": _join(doubt, sentence)}
    return Told(pa.table(texts | {"verdict": pa.array(verdict, pa.string())}), place, columns)


def _driver_columns(found: Explanation, place: Stretches, shown: Shown | None) -> dict[str, Any]:
    """Return rank, channel, from, to, value, unit, effect, low, high and certain of each driver."""
    pa = arrow()
    row, rank, channel, start, stop, total, _, reach, certain = (part.cpu().numpy() for part in place)
    values = np.zeros((len(found), *found.values.shape[1:])) if shown is None else shown.values
    steps = np.arange(values.shape[1])
    inside = (steps >= start[:, None]) & (steps < stop[:, None])
    if found.mask is not None:
        inside &= found.mask.cpu().numpy()[row, :, channel]
    mean = values[row, :, channel].sum(1, where=inside, dtype=np.float64) / inside.sum(1).clip(1)
    units, unknown = (
        pa.array([unit or None for unit in found.units or [None] * values.shape[2]], pa.string()),
        ~np.isfinite(reach),
    )
    return {
        "rank": pa.array(rank.astype(np.int32) + 1),
        "channel": pa.array(labels.channel_names(found), pa.string()).take(pa.array(channel)),
        "from": _times(row, start, steps, shown),
        "to": _times(row, stop - 1, steps, shown),
        "value": pa.array(mean),
        "unit": units.take(pa.array(channel)),
        "effect": pa.array(total),
        "low": pa.array(total - reach, mask=unknown),
        "high": pa.array(total + reach, mask=unknown),
        "certain": pa.array(certain),
    }


def _times(row: NDArray[Any], step: NDArray[Any], steps: NDArray[Any], shown: Shown | None) -> Any:
    """Return what the steps of drivers are called, or their numbers."""
    pa = arrow()
    times = None if shown is None else shown.times
    if times is not None and len(times) and not isinstance(times[0], str):
        pairs = zip(row.tolist(), step.tolist(), strict=True)
        return pa.array([times[r][t] if t < len(times[r]) else str(t) for r, t in pairs], pa.string())
    names = [*(times or ()), *map(str, steps[len(times or ()) :].tolist())]
    return pa.array(names, pa.string()).take(pa.array(step))


def _predicted(found: Explanation) -> tuple[Any, Any, Any]:
    """Return how each sentence begins, the output that was explained, and its probability."""
    pa, count, target = arrow(), len(found), found.target
    if target is None or target.ndim != 1:
        name = found.target_text or ("the score" if target is None else "the steps' classes")
        names = plain = pa.array([name] * count, pa.string())
    else:
        columns, place = np.unique(target.cpu().numpy(), return_inverse=True)
        called = [labels.output_name(found, column) for column in columns.tolist()]
        names, plain = (
            pa.array(texts, pa.string()).take(pa.array(place))
            for texts in (called, [text.strip("“”") for text in called])
        )
    if found.prediction is None:
        return names, plain, pa.nulls(count, pa.float32())
    number = found.prediction.float().cpu().numpy()
    if found.output != "probability" or target is None or target.ndim != 1:
        return _join(names, pa.scalar(" is "), _digits(number)), plain, pa.nulls(count, pa.float32())
    shares = pa.array([percent_text(share / 100) for share in range(101)] + ["under 1 %", "over 99 %"])
    part = np.rint(100 * number).clip(0, 100).astype(np.int64)
    part = np.where((part == 0) & (number > 0), 101, np.where((part == 100) & (number < 1), 102, part))
    return _join(shares.take(pa.array(part)), pa.scalar(" probability of "), names), plain, pa.array(number)


def _sentences(found: Explanation, place: Stretches, columns: dict[str, Any], head: Any, *, numbered: bool) -> Any:
    """Return one sentence for each series: what was predicted, and the drivers that push each way."""
    pa, pc, count = arrow(), arrow().compute, len(found)
    if found.method == CONTROL:
        return _join(head, pa.scalar("; the scores are random, a control that says nothing about the model"))
    row, rank = place.row.cpu().numpy(), place.rank.cpu().numpy()
    grid = np.full((count, MOST), -1)  # where each driver stands
    grid[row, rank] = np.arange(len(row))
    total = np.append(place.total.cpu().numpy(), 0.0)[grid]
    named = (grid >= 0) & (np.abs(total) >= NAMED * np.abs(total[:, :1]))
    sure = named & np.append(place.certain.cpu().numpy(), False)[grid]
    phrases = pa.concat_arrays([pa.array([""]), _join(pa.scalar(AND), _phrases(columns, numbered=numbered))])

    def listed(start: str, chosen: NDArray[np.bool_]) -> Any:
        """Write some of the drivers of each series one after the other, nothing where there is none."""
        places = (pa.array(np.where(chosen[:, k], grid[:, k], -1) + 1) for k in range(MOST))
        text = _join(*(phrases.take(place) for place in places))
        whole = _join(pa.scalar(start), pc.utf8_slice_codeunits(text, len(AND), None))
        return pc.if_else(pa.array(chosen.any(1)), whole, "")

    if not found.signed:
        return _join(head, listed("; what matters is ", named), _none(named))
    first_up = np.take_along_axis(total > 0, sure.argmax(1)[:, None], 1)
    sides = [sure & ((total > 0) == first_up), sure & ((total > 0) != first_up)]
    verbs = [listed(f", {verb} by ", side & up) for side in sides for verb, up in _verbs(total)]
    only = np.zeros_like(sure)
    only[:, 0] = named[:, 0] & ~sure.any(1)
    return _join(head, *verbs, listed("; no driver is certain, the largest: ", only), _none(named))


def _verbs(total: NDArray[Any]) -> list[tuple[str, NDArray[np.bool_]]]:
    return [("raised", total > 0), ("lowered", total < 0)]


def _none(named: NDArray[np.bool_]) -> Any:
    texts = arrow().array(["", "; no value has a score other than 0"])
    return texts.take(arrow().array(1 * ~named.any(1)))


def _phrases(columns: dict[str, Any], *, numbered: bool) -> Any:
    """Return each driver in a few words: channel, value and when."""
    pa, pc = arrow(), arrow().compute
    start, stop = columns["from"], columns["to"]
    when = pc.if_else(pc.equal(start, stop), start, _join(start, pa.scalar("–"), stop))
    unit = pc.if_else(pc.is_valid(columns["unit"]), _join(pa.scalar(" "), columns["unit"]), "")
    value = _digits(columns["value"].to_numpy())
    return _join(
        columns["channel"], pa.scalar(" "), value, unit, pa.scalar(" at step " if numbered else " at "), when
    )


def _digits(numbers: NDArray[Any]) -> Any:
    """Write numbers with three digits."""
    pa, size = arrow(), np.abs(numbers.astype(np.float64))
    places = DIGITS - 1 - np.floor(np.log10(np.where((size > 0) & np.isfinite(size), size, 1.0)))
    scale = 10.0 ** np.clip(places, 0, 300)
    text = pa.array(np.rint(numbers * scale) / scale).cast(pa.string())
    return arrow().compute.replace_substring_regex(text, r"\.0$", "")


def _join(*parts: Any) -> Any:
    """Put texts behind each other; a null is nothing."""
    filled = (arrow().compute.coalesce(part, "") for part in parts)
    return arrow().compute.binary_join_element_wise(*filled, "")
