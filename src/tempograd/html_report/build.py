"""One self-contained HTML file: the series, what moved the prediction, and how far to trust it."""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any, cast

from torch import Tensor

from tempograd.core.errors import InputError
from tempograd.core.formatting import counted
from tempograd.core.io import REPORT, check_output, write_atomically
from tempograd.core.series import Series
from tempograd.explanation.core import Explanation, warn_of_another_model
from tempograd.explanation.diagnostics import assumed
from tempograd.explanation.targets import as_explained
from tempograd.html_report.content import collect
from tempograd.html_report.notebook import facts
from tempograd.metrics import METRICS, PaperTable
from tempograd.metrics import table as metric_table
from tempograd.metrics.aggregate import MetricScores
from tempograd.metrics.evaluation import measure
from tempograd.typing import Inputs, Model
from tempograd.version import __version__
from tempograd.views import palette
from tempograd.views.drivers import doubts
from tempograd.views.labels import Compared, as_mapping, explained, size
from tempograd.views.network import network_plan
from tempograd.views.series import chosen, most, whole_series

SCRIPTS = (  # one scope, in this order
    *("page", "pictures", "choosing", "tables", "card", "channels", "maps", "removal", "trust", "groups"),
    *("operations", "layers", "network", "live"),
    *("outcomes", "summary", "controls", "main"),
)
LIBRARY = "uPlot"  # in vendor/, which make vendor renews


def report(
    path: str | Path,
    model: Model | None,
    explanations: Compared,
    *,
    series: Sequence[int] | None = None,
    scores: MetricScores | None = None,
    usual: Inputs | Series | str | None = None,
    live: bool = True,
    title: str = "What moved the model’s prediction",
    force: bool = False,
) -> Path:
    """Write a report that opens in any browser, without a network.

    Parameters
    ----------
    path : path
        The HTML file to write. A report that was there before is replaced, another file only with
        ``force=True``.
    model : nn.Module or callable, optional
        The model that was explained. Without one (None) the page has no predictions and removes nothing.
    explanations : Explanation, or sequence or mapping of them
        Explanations of the same series, the most important first; a mapping gives them names. Labels, truth and
        values before scaling are those of the first that knows them, units and classes those of the first.
    series : sequence of int, optional
        Positions of the series to show, by default all, or as many as a file of about 15 MB holds, which then
        differ in class and size of effect. Scores and summary are about all series either way.
    scores : mapping of method to mapping of metric to Tensor, optional
        One score per series, as ``evaluate`` returns them, also of methods that are not drawn. By default
        computed: CPD and CPP, and with a truth AUROC and AUPRC.
    usual : series like those explained, "neighbours" or "baseline", optional
        What takes the place of a part of a series, to tell what would be predicted then: see
        :func:`tempograd.what_if`. Best are the series of training; by default it is the baseline.
    live : bool, default=True
        Whether a small model becomes part of the file, with its weights, and runs in the page on values that a
        reader changes.
    title : str, optional
        The heading of the page.
    force : bool, optional
        Overwrite a file that is no report.
    """
    check_output(path, REPORT, force=force)
    named = as_mapping(explanations)
    first = next(iter(named.values()))
    model = None if model is None else as_explained(model, first)
    if not len(first):
        raise InputError("The explanation holds no series, so there is nothing to report.")
    names: dict[str, Any] = {"x": whole_series(named.values()), "units": first.units, "classes": first.classes}
    for name in ("y", "raw", "truth"):
        names[name] = next((part for each in named.values() if (part := getattr(each, name)) is not None), None)
    named = {label: replace(found, **names) for label, found in named.items()}
    first = next(iter(named.values()))
    shown = chosen(first, series, most(named))
    message = None if model is None else warn_of_another_model(model, named)
    notice, unsaid = " ".join(filter(None, (message, doubts(named.values())))), assumed(named.values())
    if scores is None:
        scores = {} if model is None else compute_scores(model, named)
    if scores and set(named) - set(scores):
        raise InputError(f"scores must have entries of {', '.join(named)}; got {', '.join(scores)}.")
    table = metric_table({label: scores[label] for label in (next(iter(named)), *scores)}) if scores else None
    header, pack = collect(model, named, shown, scores, table, usual)
    header["network"] = None if model is None or not live else network_plan(model, first[[*shown]], pack.add)
    page = _page(
        title=escape(title),
        lead=_lead(named, len(shown)),
        notice=f'<p class="notice">{escape(notice)}</p>' if notice else "",
        assumed=escape(unsaid and f"Assumed: {unsaid}."),
        explained=escape(explained(first)),
        scores=_score_section(table),
        provenance=_provenance(named),
        data=pack.text(header),
    )
    written = page.encode("utf-8", "replace")  # half of a letter, as in a title that is no UTF-8, becomes a ?
    return write_atomically(path, lambda temporary: temporary.write_bytes(written), kind=REPORT, force=force)


def compute_scores(model: Model, explanations: Mapping[str, Explanation]) -> dict[str, dict[str, Tensor]]:
    """Score every method by what its strongest cells do to the prediction and, where known, by the truth.

    It warns of no other model: the caller has done so, once for all methods.
    """
    first = next(iter(explanations.values()))
    names = ("cpd", "cpp") if first.truth is None else ("cpd", "cpp", "auroc", "auprc")
    metrics = [METRICS[name]() for name in names]
    baseline = first.baseline  # the same removals for all, or differences mean nothing
    return {label: measure(model, found, metrics, baseline) for label, found in explanations.items()}


def _lead(explanations: Mapping[str, Explanation], shown: int) -> str:
    """Say what the page holds."""
    first = next(iter(explanations.values()))
    count = len(first)
    methods = ", ".join(label.replace("_", " ") for label in explanations)
    part = "" if shown == count else f"{shown:,} of "
    return escape(
        f"{part}{counted(count, 'series', 'series')} of {size(first, ' and ')}, explained with {methods}."
    )


def _score_section(table: PaperTable | None) -> str:
    """Return the table of scores, as :func:`tempograd.table` prints it."""
    if table is None:
        return '<p class="small">No model was given, so nothing could be removed and nothing scored.</p>'
    scored = max(cell.count for cell in table.cells.values())
    return (
        f"<h3>Scores of the methods, means over {counted(scored, 'series', 'series')}</h3>"
        '<div class="wide" tabindex="0" role="region" aria-label="Scores">'
        f'<pre id="scores">{escape(repr(table))}</pre></div>'
    )


def _provenance(explanations: Mapping[str, Explanation]) -> str:
    """Return how each explanation was made."""
    parts = "".join(
        f"<section><h3>{escape(label.replace('_', ' '))}</h3><dl>{facts(found)}</dl></section>"
        for label, found in explanations.items()
    )
    return (
        f'<div class="provenance">{parts}</div>'
        '<p class="small">The same data, model, parameters and seed give the same numbers again.</p>'
    )


def _page(**parts: str) -> str:
    """Fill the template; the policy allows exactly the script that is written into it, and no address."""
    here = files("tempograd.html_report")
    licence, library, look = (
        _read(here / "vendor" / f"{LIBRARY}.{kind}") for kind in ("LICENSE.txt", "iife.min.js", "min.css")
    )
    script = "".join(_read(here / "scripts" / f"{name}.js") for name in SCRIPTS)
    # also on paper, and in saved pictures
    sharp = "const devicePixelRatio = Math.max(2, window.devicePixelRatio);"
    words = f"const WORDS = {json.dumps(palette.WORDS)};"
    script = f'"use strict";\n(() => {{\n{sharp}\n/*\n{licence}*/\n{library}\n{words}\n{script}}})();\n'
    return Template(_read(here / "page.html")).substitute(
        parts | {f"word_{name}": word for name, word in palette.WORDS.items()},
        style=f"{look}\n{_colours()}\n{_read(here / 'style.css')}\n{_read(here / 'live.css')}",
        script=script,
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        version=escape(__version__),
    )


def _colours() -> str:
    """Return the colours of both themes: the screen's own, unless the page's button says otherwise."""
    grounds = palette.LIGHT, palette.DARK
    light, dark = ("; ".join(f"--{name}: {colour}" for name, colour in ground.items()) for ground in grounds)
    dark = f"color-scheme: dark; {dark}"
    return (
        f":root {{ {light} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root:not([data-theme=light]) {{ {dark} }} }}\n"
        f":root[data-theme=dark] {{ {dark} }}"
    )


def _read(file: Any) -> str:
    return cast("str", file.read_text(encoding="utf-8"))
