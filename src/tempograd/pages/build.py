"""One self-contained HTML file: the series, what moved the prediction, and how far to trust it."""

import base64
import hashlib
import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempograd.data import Split
from tempograd.engine import Model
from tempograd.explanation import Explanation, warn_of_another_model
from tempograd.files import write_atomically
from tempograd.pages import predictions, selection, text
from tempograd.pages.case import case, summary
from tempograd.pages.records import Flags, Record, StepOutputs, record
from tempograd.pages.scores import Scores, compute_scores, score_table
from tempograd.version import __version__

READABLE = 400_000  # numbers to read off with the cursor; beyond, the file would become unwieldy


def report(
    path: str | Path,
    model: Model,
    explanations: selection.Explanations,
    split: Split | None = None,
    *,
    series: Sequence[int] | None = None,
    scores: Scores | None = None,
) -> Path:
    """Write a report that opens in any browser, without a network.

    Parameters
    ----------
    path : path
        The HTML file to write.
    model : nn.Module or callable
        The model that was explained.
    explanations : Explanation, or sequence or mapping of them
        Explanations of the same series, the most important first; a mapping gives them names.
    split : Split, optional
        Labels, missing cells and, where known, the truth of these series.
    series : sequence of int, optional
        Positions of the series to show, by default up to twelve that differ in class and size of effect.
    scores : mapping of method to mapping of metric to Tensor, optional
        One score per series, as ``evaluate`` returns them, also of methods that are not drawn. By default
        computed: CPD and CPP, and with a truth AUROC and AUPRC.
    """
    named = selection.labelled(explanations)
    first = next(iter(named.values()))
    split = selection.aligned(first, split)
    x = selection.values(named, split)
    records = [
        record(
            named,
            x,
            index,
            split,
            predictions.outputs(model, first, x, index, split),
            predictions.curves(model, named, x, index),
        )
        for index in selection.chosen(first, series)
    ]
    if scores is None:
        scores = compute_scores(model, named, x, split)
    page = _page(
        title=escape(", ".join(named)),
        lead=text.lead(named, len(records)),
        notice=_notice(model, named),
        legend=text.legend(named, records),
        scores=text.score_section(score_table(scores, tuple(named))),
        choices="\n".join(_choice(shown) for shown in records),
        cases="\n".join(case(shown) for shown in records),
        provenance=text.provenance(named),
        data=data(records),
    )
    return write_atomically(path, lambda temporary: temporary.write_text(page, encoding="utf-8"))


def _page(**parts: str) -> str:
    here = files("tempograd.pages")
    style, script, template = (
        here.joinpath(name).read_text(encoding="utf-8") for name in ("style.css", "script.js", "page.html")
    )
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return Template(template).substitute(
        parts, style=style, script=script, digest=digest, version=escape(__version__)
    )


def _choice(shown: Record) -> str:
    about = summary(shown)
    return f"<option>Series {shown.id}{escape(': ' + about if about else '')}</option>"


def _notice(model: Model, named: dict[str, Explanation]) -> str:
    """Warn, here and on the page, of explanations of another model."""
    message = warn_of_another_model(model, named)
    return f'<p class="notice">{escape(message)}</p>' if message else ""


def data(records: Sequence[Record]) -> str:
    """Return the numbers behind the pictures as JSON that is safe inside HTML; none if there are too many."""
    cells = sum(drawn.values.size for shown in records for drawn in shown.maps)
    series = [_numbers(shown) if cells <= READABLE else None for shown in records]
    text = json.dumps({"series": series}, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("&", "\\u0026")


def _numbers(shown: Record) -> dict[str, Any]:
    output = None
    if isinstance(shown.outputs, StepOutputs):
        output = {"name": shown.outputs.name, "values": _decimals(shown.outputs.values)}
    return {
        "times": shown.times,
        "channels": [channel.name for channel in shown.channels],
        "x": [_decimals(channel.x, channel.observed) for channel in shown.channels],
        "output": output,
        "maps": [
            {
                "label": drawn.label.replace("_", " "),
                "values": [_decimals(column) for column in drawn.values.T],
                "low": None if drawn.low is None else [_decimals(column) for column in drawn.low.T],
                "high": None if drawn.high is None else [_decimals(column) for column in drawn.high.T],
            }
            for drawn in shown.maps
        ],
    }


def _decimals(values: NDArray[np.float32], known: Flags | None = None) -> list[float | None]:
    """Return the shortest decimals that read back as the same float32; None where unknown or infinite."""
    keep = np.isfinite(values) if known is None else np.isfinite(values) & known
    return [float(str(value)) if use else None for value, use in zip(values, keep, strict=True)]
