"""How an explanation shows itself in a notebook: one small piece of HTML.

Everything is inside it: styles, and the picture as a data URI. It has no script, and no colours of its own but in
the picture, so that it can be read on a light and on a dark page.
"""

import json
from base64 import b64encode
from html import escape
from io import BytesIO

from tempograd.core.errors import MissingExtraError
from tempograd.explanation import Explanation
from tempograd.explanation.diagnostics import assumed
from tempograd.views.drivers import told_channels
from tempograd.views.labels import explained, method, size
from tempograd.views.palette import WORDS

CHANNELS = 3  # that are drawn, those of the sentence: more would not fit on a screen with the rest


def as_html(explanation: Explanation, *, several: str = "") -> str:
    """Return the sentence of the first series, how sure it is, and its picture, the rest folded.

    ``several`` lists the targets of which this is the first.
    """
    count = len(explanation)
    told = f"{count:,} series of {size(explanation)}"
    if explanation.mask is not None and count and explanation.call.packing is None:
        told += f", {100 * explanation.mask.double().mean().item():.0f} % of the cells observed"
    parts = [f'<p style="margin:.3em 0"><b>{escape(method(explanation.method))}</b>: {told}</p>']
    parts += [_note(f"Targets: {several}. This is the first; explanations[…] has the others.")] if several else []
    parts.append(_note(f"Explained: {explained(explanation)}."))
    if count:
        parts.insert(0, _sentence(explanation))
        parts += [_note(f"How sure: {explanation.verdict()}."), _picture(explanation)]
    made = f"<summary>How it was computed</summary><dl>{facts(explanation)}</dl>"
    parts.append(f'<details style="margin:.3em 0">{made}</details>')
    return f'<div style="max-width:56em;line-height:1.4">{"".join(parts)}</div>'


def _sentence(explanation: Explanation) -> str:
    """Say first what was predicted, and what drove it."""
    text = explanation.describe(0)
    said = f"<b>Series {escape(str(explanation.label(0)))}</b>: {escape(text)}.".replace(" ± ", "&nbsp;±&nbsp;")
    note = WORDS["spread"] if "±" in text else ""
    said += f' <span style="font-size:.8em;opacity:.8;white-space:nowrap">{note}</span>' if note else ""
    return f'<p style="margin:.3em 0 .6em;font-size:1.15em">{said}</p>'


def _picture(explanation: Explanation) -> str:
    """Draw the series, or say why not: a notebook must show the rest in any case."""
    if explanation.shown is None:
        return _note("No picture: the explanation was saved without its series.")
    few, buffer = explanation.values.shape[2] <= CHANNELS, BytesIO()
    channels = None if few else told_channels(explanation, 0)[:CHANNELS] or CHANNELS
    try:
        explanation.plot(0, channels=channels).savefig(buffer, format="png", dpi=144)
    except MissingExtraError as error:
        return _note(f"No picture. {error}")
    image = b64encode(buffer.getvalue()).decode("ascii")
    said = f"Series {explanation.label(0)}: its values, and below them the attribution of each, channel by channel"
    return (
        f'<img alt="{escape(said)}" src="data:image/png;base64,{image}" '
        'style="display:block;width:100%;max-width:680px;height:auto;background:#fff;margin:.6em 0">'
    )


def _note(text: str) -> str:
    return f'<p style="margin:.3em 0;opacity:.8">{escape(text)}</p>'


def facts(found: Explanation) -> str:
    """Return what an explanation was made with, as terms of a list."""
    known = {name: value for name, value in found.parameters.items() if value not in (None, [])}
    used = [f"{name} = {json.dumps(value, default=str)}" for name, value in known.items()]
    terms = {
        "method": found.method,
        "parameters": ", ".join(used) or "the default ones",
        "seed": str(found.seed),
        "verdict": found.verdict(),
        "assumed": assumed([found]) or "nothing",
        "baseline": found.baseline_kind,
        "model": found.fingerprint or "not known",
        "made with": f"tempograd {found.version}",
    }
    return "".join(f"<dt>{name}</dt><dd>{escape(fact)}</dd>" for name, fact in terms.items())
