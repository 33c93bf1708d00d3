"""The end of ``tempograd explain``: what was explained, what mattered, and what to do next."""

import argparse
import json
import shlex
from typing import TYPE_CHECKING, Any

from tempograd.cli.series import COLUMNS

if TYPE_CHECKING:
    from torch import nn

    from tempograd.explanation import Explanation

STRONGEST = 5


def show(explanation: "Explanation", model: "nn.Module", args: argparse.Namespace) -> None:
    """Print the summary, for people or as JSON."""
    facts = summary(explanation, _outputs(model, explanation))
    command = _report_command(args)
    if args.json:
        print(json.dumps({"out": str(args.out), **facts, "next": command}, indent=2, ensure_ascii=False))
        return
    size = f"{facts['steps']} steps × {_count(facts['channels'], 'channel')}"
    gaps = f", {100 * facts['missing']:.0f} % missing" if facts["missing"] else ""
    print(f"Explained {facts['series']} series ({size}{gaps}) with {facts['method']}.")
    if facts["outputs"] > 1:
        kind = "predicted" if args.target is None else "explained"
        unit = "series" if explanation.target is None or explanation.target.ndim == 1 else "steps"
        counts = [f"{_name(args, number)} ({count} {unit})" for number, count in facts["explained"].items()]
        print(f"  {kind} {'classes' if args.output == 'probability' else 'outputs'}: {', '.join(counts)}")
    if facts["channels"] > 1:
        strongest = [f"{entry['channel']} {100 * entry['share']:.0f} %" for entry in facts["strongest_channels"]]
        print(f"  share of the attribution by channel: {', '.join(strongest)}")
    print(f"Wrote {args.out}.")
    print(f"Next: {command}")


def summary(explanation: "Explanation", outputs: int) -> dict[str, Any]:
    r"""Return what an explanation is about, as plain data.

    A channel's share is its part of the sum of all sizes of scores, :math:`\sum_{n,t} |A_{ntd}|`; scores below
    0 of methods without a sign count as 0.
    """
    import torch

    size = explanation.strength.clamp(min=0).sum((0, 1)).double()
    share = size / size.sum() if float(size.sum()) else size
    names = explanation.channels or tuple(f"channel {number}" for number in range(len(share)))
    order = share.argsort(descending=True, stable=True)[:STRONGEST].tolist()
    found: dict[str, Any] = {
        "method": explanation.method,
        "series": len(explanation),
        "steps": explanation.values.shape[1],
        "channels": explanation.values.shape[2],
        "missing": 0.0 if explanation.mask is None else 1 - float(explanation.mask.double().mean()),
        "outputs": outputs,
        "explained": {},
        "strongest_channels": [{"channel": names[place], "share": float(share[place])} for place in order],
    }
    if explanation.target is not None:
        numbers, counts = torch.unique(explanation.target, return_counts=True)
        found["explained"] = {str(n): c for n, c in zip(numbers.tolist(), counts.tolist(), strict=True)}
    return found


def _outputs(model: "nn.Module", explanation: "Explanation") -> int:
    """Return how many classes or outputs the model has."""
    import torch

    from tempograd.engine import place, predict, quiet

    if explanation.x is None:
        return 0
    with quiet(model), torch.no_grad():
        return predict(model, explanation.x[:1].to(*place(model, explanation.x)), "raw").shape[-1]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _name(args: argparse.Namespace, number: str) -> str:
    known = args.classes or ()
    return str(known[int(number)]) if int(number) < len(known) else number


def _report_command(args: argparse.Namespace) -> str:
    """Return the command that shows what was explained."""
    words = ["tempograd", "report", str(args.out), "--model", str(args.model)]
    words += [] if args.weights is None else ["--weights", str(args.weights)]
    words += ["--data", args.data]
    for name in ("split", "root", "variant", *COLUMNS):
        value = getattr(args, name)
        if value is not None and (name, value) != ("split", "test"):
            words += [f"--{name}", ",".join(value) if isinstance(value, list) else str(value)]
    return shlex.join(words)
