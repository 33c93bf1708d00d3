"""What ``explain`` and ``evaluate`` tell: what was explained, what mattered, what may be wrong, what is next."""

import argparse
import json
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tempograd.cli.arguments import command
from tempograd.cli.colour import coloured
from tempograd.cli.holding import release
from tempograd.cli.inputs import SOURCE, repeated
from tempograd.core.errors import InputError, short_path, warn
from tempograd.core.formatting import percent
from tempograd.data import Series
from tempograd.explainers import EXPLAINERS
from tempograd.explanation import Explanation, Explanations
from tempograd.explanation.targets import other_targets
from tempograd.tuning.outcome import Circumstances
from tempograd.views.drivers import CONTROL, spread_note
from tempograd.views.labels import size
from tempograd.views.summary import CELLS, explanation_summary, most_telling

NAMED_CHANNELS, NAMED = 3, 6  # channels that a warning names, classes whose numbers are told
ENOUGH = 20  # values of a channel that tell how far apart they lie


def compares(args: argparse.Namespace) -> bool:
    """Tell whether the method compares with one baseline; a pool takes the place of one that nobody named."""
    kind, pooled = EXPLAINERS[args.method], args.background is not None and args.baseline is None
    return kind.uses_baseline and not (kind.draws_baselines and pooled)


def warn_of_fresh_weights(args: argparse.Namespace, model: nn.Module) -> None:
    """Warn where a class was called for the model and no weights were given; a function may load its own."""
    module, _, attribute = str(args.model).partition(":")
    found: Any = sys.modules.get(module)
    for name in attribute.split("."):
        found = getattr(found, name, None)
    if args.weights is None and isinstance(found, type) and any(True for _ in model.parameters()):
        warn(
            f"{found.__name__} is explained with the weights it was created with: pass --weights FILE if it was "
            "trained."
        )


def warn_of_far_zero(series: Series) -> None:
    """Warn where 0 lies further from a channel's observed values than these lie apart, if there are enough."""
    far = []
    for number in range(series.x.shape[2]):
        values = series.x[..., number]
        values = values.flatten() if series.mask is None else values[series.mask[..., number]]
        if len(values) >= ENOUGH:
            low, high = float(values.min()), float(values.max())
            if low < high and (low > high - low or -high > high - low):
                far.append((series.channels[number] if series.channels else f"channel {number}", low, high))
    if far:
        named = ", ".join(name for name, _, _ in far[:NAMED_CHANNELS])
        more = f" and {len(far) - NAMED_CHANNELS} more channels" if len(far) > NAMED_CHANNELS else ""
        name, low, high = far[0]
        warn(
            f"0 is far from every observed value of {named}{more} ({name} {low:.3g} to {high:.3g}): scores "
            "compare with 0. For data in natural units pass --baseline average."
        )


def warn_of_padding(args: argparse.Namespace, series: Series) -> None:
    """Warn where the model reads 0 after the end of series, unless somebody said how it is to be called."""
    short = 0 if not isinstance(series.x, list) else sum(len(part) < series.shape[1] for part in series.x)
    note = short and (
        f"{short} of {len(series)} series {'has' if short == 1 else 'have'} fewer than {series.shape[1]} steps: "
        "shorter series end in 0, which the model reads and which is masked."
    )
    if note and "lengths" not in args:  # 'tune' and 'rank' have padded series only
        warn(f"{note} Pass series of one length if it was not trained on padded ones.")
    elif note and args.lengths is None:
        warn(
            f"{note} Pass --lengths own to call it with each length by itself, or --lengths padded if it was "
            "trained on padded series."
        )


def warn_of_changing_labels(explanation: Explanation, series: Series) -> None:
    """Warn where labels change within a series although the model gives one answer per series."""
    one = explanation.target is not None and explanation.target.ndim == 1 and explanation.task != "forecast"
    if not one or series.y is None or series.y.shape != series.shape[:2]:
        return
    seen = torch.ones_like(series.y, dtype=torch.bool) if series.mask is None else series.mask.any(2)
    labels = series.y.gather(1, seen.int().argmax(1, keepdim=True))  # the first of each series
    rows, steps = torch.nonzero(seen & (series.y != labels), as_tuple=True)
    if len(rows):
        place, count = int(rows[0]), len(set(rows.tolist()))
        more = f" and within {count - 1} more series" if count > 1 else ""
        when = f"{'step ' if explanation.times is None else ''}{explanation.times_of(place)[int(steps[0])]}"
        warn(
            f"The label changes within series {explanation.label(place)}, at {when}{more}: labels are left out, "
            "as the model gives one answer per series. Write one label for all rows of a series."
        )


def fitting_classes(
    named: Sequence[str] | None, outputs: int | None, output: str, *, given: bool
) -> Sequence[str]:
    """Return the names of the classes if there is one for each output of the model; else warn, and return none.

    Names that were not ``given`` are labels of the data, which need not be the names of raw outputs.
    """
    if not named or outputs is None or len(named) == outputs:
        return named or ()
    if given or output == "probability":
        who = "--classes names" if given else "The labels name"
        what, gone = ("classes", "names and labels") if output == "probability" else ("outputs", "the names")
        warn(
            f"{who} {len(named)} classes, but the model has {outputs} {what}: {gone} are left out. Pass --classes "
            "with one name for each, in the model's order."
        )
    return ()


def warn_of_low_accuracy(accuracy: float | None, outputs: int, count: int) -> None:
    r"""Warn where a model is worse than guessing by two standard errors, :math:`\sqrt{c (1 - c) / n}`."""
    chance = 1 / max(outputs, 2)
    if accuracy is not None and accuracy < chance - 2 * (chance * (1 - chance) / count) ** 0.5:
        warn(
            f"The model is right on {100 * accuracy:.0f} % of the labels, guessing on {100 * chance:.0f} %: "
            "likely reasons are the order of --classes, missing --weights, the order of --channels, or --align."
        )


def refuse_several_targets(named: Mapping[str, Explanation]) -> None:
    """Refuse to say which explanation is better where they explain different outputs."""
    (base, first), *others = named.items()
    for label, other in others:
        if unlike := other_targets(first, other):
            raise InputError(
                f"{label} explains other outputs than {base} in {len(unlike)} of {len(first)} series, so neither "
                "can be better: explain the same --target with both, or evaluate them one by one."
            )


def warn_of_several_baselines(named: Mapping[str, Explanation]) -> None:
    """Warn where explanations compare with different baselines, which then replace removed values."""
    kinds = {label: found.baseline_kind for label, found in named.items()}
    first, *others = named.values()
    if not all(
        torch.equal(first.baseline, other.baseline) and first.background == other.background for other in others
    ):
        told = ", ".join(f"{label}: {kind}" for label, kind in kinds.items())
        warn(
            f"Removed values become what each explanation compares with, and these differ ({told}), so their "
            "scores are not about the same removals: pass --baseline zero or --baseline average."
        )


def warn_of_other_circumstances(path: Path | str, baseline: str | None, k: int | float | None = None) -> None:
    """Warn where settings from a file are used under another baseline, or k, than they were chosen under."""
    for name, before, now in Circumstances.of_file(path).differing(baseline or "zero", k):
        warn(
            f"The settings in {short_path(path)} were chosen with {name} {before} and are used with {now}, where "
            "others may be better: use the same, or tune again."
        )


def print_summary(
    result: Explanation | Explanations, model: nn.Module, series: Series, args: argparse.Namespace, *, faulty: bool
) -> None:
    """Print the summary, for people or as JSON, and warn where the model seems to be the wrong one.

    Where labels are ``faulty``, a report takes the series from the explanation.
    """
    several = result if isinstance(result, Explanations) else None
    explanation = result.at(0) if isinstance(result, Explanations) else result
    facts = explanation_summary(explanation, model, series, "shell")
    named, classes = args.classes or series.classes, explanation.classes or ()
    if named and not classes:
        facts["accuracy"] = None  # nobody knows which class a label is
    following = _report_command(args, fits=bool(classes) or not named, faulty=faulty)
    if several is not None:
        facts |= {"targets": list(several), "verdict": several.verdict()}
        following += f" --target {_typed(next(iter(several)))}"
    warn_of_low_accuracy(facts["accuracy"], facts["outputs"], facts["series"])
    warn_of_changing_labels(explanation, series)
    known = series.y is not None and not faulty and bool(classes or not named)
    facts["most_telling"] = _most_telling(explanation, model, series.y if known else None)
    release()
    if args.json:
        facts = {"out": str(args.out), **facts, "classes": list(classes) or None, "next": following}
        print(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    against = f", baseline: {facts['baseline']}" if compares(args) else ""
    shape = f"{size(explanation)}{_gaps(explanation, series)}"
    print(f"Explained {facts['series']} series ({shape}) with {facts['method']}{against}.")
    if several is not None:
        print(f"  targets: {several.listed}; below, the first of them")
    telling = facts["most_telling"]
    if telling is not None:
        name = coloured(f"most telling, series {telling['series']}:", "bold", sys.stdout)
        print(f"  {name} {telling['sentence']}")
        if spread_note(telling["sentence"]):
            print(f"  {coloured(spread_note(telling['sentence']), 'faint', sys.stdout)}")
    unit = "series" if explanation.target is None or explanation.target.ndim == 1 else "steps"
    for line in (*_model_lines(facts, args, classes, unit), *_score_lines(facts)):
        print(f"  {line}")
    print(f"Wrote {args.out}.")
    print("Next:", coloured(following, "command", sys.stdout))


def _gaps(explanation: Explanation, series: Series) -> str:
    """Say how many cells are missing and what the model reads there, and whether it was shown any padding."""
    if explanation.mask is None or explanation.inputs:
        return ""
    inside, ends = torch.ones_like(explanation.mask), explanation.call.lengths
    if ends is not None:
        inside &= (torch.arange(inside.shape[1]) < torch.tensor(ends)[:, None])[..., None]
    gone = inside & ~explanation.mask
    own = "" if ends is None else ", each at its own length"
    if not gone.any():
        return own
    read = "" if series.x[gone].any() else ", which the model reads as 0"
    return f"{own}, {percent(float(gone.sum() / inside.sum()))} missing{read}"


def _most_telling(explanation: Explanation, model: nn.Module, y: Tensor | None) -> dict[str, Any] | None:
    """Return the name and the sentence of the series that tells most; None of scores that mean nothing."""
    if explanation.method == CONTROL:
        return None
    place = most_telling(explanation)
    return {"series": explanation.label(place), "sentence": explanation.describe(place, model=model, y=y)}


def _model_lines(
    facts: dict[str, Any], args: argparse.Namespace, classes: Sequence[str], unit: str
) -> Iterator[str]:
    """Say what the model predicts and how often it is right."""
    if facts["task"] in ("multilabel", "regression", "forecast"):  # which have no predicted class
        if facts["task"] == "multilabel" and args.target is None:
            yield f"most probable labels: {_counted(classes, facts['explained'], unit)}"
    elif facts["outputs"] > 1:
        predicted, explained = facts["predicted"], facts["explained"]
        if predicted is not None:
            yield f"predicted classes: {_counted(classes, predicted, unit)}"
        if predicted is None:
            yield f"explained outputs: {_counted(classes, explained, unit)}"
        elif args.target is not None or explained != predicted:
            yield f"explained class: {_counted(classes, explained, unit)}"
    if facts["accuracy"] is not None:
        numbers = [f"{number} = {name}" for number, name in enumerate(classes[:NAMED])]
        numbers += ["…"] if len(classes) > NAMED else []
        order = "" if args.classes else ", in sorted order; --classes changes it"
        known = f" (class {', '.join(numbers)}{order})" if classes else ""
        yield f"right on {_percent(facts['accuracy'])} of the labels{known}"


def _score_lines(facts: dict[str, Any]) -> Iterator[str]:
    """Say which channels matter and how good the scores are."""
    if facts["channels"] > 1:
        strongest = [f"{entry['channel']} {100 * entry['share']:.0f} %" for entry in facts["strongest_channels"]]
        yield f"share of the attribution by channel: {', '.join(strongest)}"
    yield facts["verdict"]
    if facts["sign_certain"] is not None:
        which = "the ten strongest values" if facts["steps"] * facts["channels"] > CELLS else "the values"
        yield f"sign certain for {_percent(facts['sign_certain'])} of {which} of each series"
    yield f"explained: {facts['what']}"


def _counted(classes: Sequence[str], counts: dict[str, int], unit: str) -> str:
    return ", ".join(f"{_name(classes, number)} ({count} {unit})" for number, count in counts.items())


def _name(known: Sequence[str], number: str) -> str:
    return str(known[int(number)]) if int(number) < len(known) else number


def _typed(target: int | tuple[int, ...] | str) -> str:
    """Write a target as the command line reads it."""
    return ",".join(map(str, target)) if isinstance(target, tuple) else shlex.quote(str(target))


def _percent(share: float) -> str:
    """Write a share so that only all of it is 100 %, and only nothing is 0 %.

    Examples
    --------
    >>> _percent(0.834), _percent(0.998), _percent(0.001), _percent(1.0)
    ('83 %', 'over 99 %', 'under 1 %', '100 %')
    """
    if 0.99 < share < 1:
        return "over 99 %"
    return "under 1 %" if 0 < share < 0.01 else f"{100 * share:.0f} %"


def _report_command(args: argparse.Namespace, *, fits: bool, faulty: bool) -> str:
    """Return the command that shows what was explained, without what would make it fail."""
    options = repeated(args, "model", "weights", "trust", *(() if faulty else (*SOURCE, "split")))
    if not fits:
        options.pop("classes", None)
    return command("report", str(args.out), **options)
