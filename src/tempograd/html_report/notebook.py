"""How an explanation shows itself in a notebook, or in a browser when there is none: one small piece of HTML.

Everything is inside it: styles, and the picture as a data URI. It has no script, and no colours of its own but in
the picture, so that it can be read on a light and on a dark page.
"""

import os
import sys
import tempfile
import webbrowser
from base64 import b64encode
from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any

from tempograd.core import validation
from tempograd.core.errors import InputError, MissingExtraError, OutputError
from tempograd.core.formatting import alike
from tempograd.core.io import reason
from tempograd.explanation import Explanation
from tempograd.html_report.text import explained, facts
from tempograd.views.drivers import drivers_of
from tempograd.views.labels import method, size
from tempograd.views.palette import WORDS

CELLS = 5  # strongest cells that are listed
CHANNELS = 3  # that are drawn, those of the drivers: more would not fit on a screen with the rest
CELL = "padding:.15em .8em .15em 0;text-align:left;vertical-align:top;white-space:nowrap"
NAME = CELL.replace("nowrap", "normal") + ";overflow-wrap:anywhere;min-width:8em"
NUMBER = CELL.replace("left", "right") + ";font-variant-numeric:tabular-nums"
LINE = "border-top:1px solid rgba(128,128,128,.4)"
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>{title}</title></head>
<body style="font-family:system-ui,sans-serif;max-width:56em;margin:1.5em auto;padding:0 1em">
{body}
</body></html>
"""


def show(explanation: Explanation, i: int = 0) -> None:
    """Show series ``i``: below the cell of a notebook, else in a browser.

    Where there is no screen, as on a server, the page is only written, and its place is printed.
    """
    if validation.check_int(i, "i", 0) >= len(explanation):
        raise InputError(f"There is no series {i}: the explanation holds {len(explanation)}, counted from 0.")
    body = as_html(explanation, i)
    if _in_notebook():
        from IPython import display  # noqa: PLC0415  # there is one, since a notebook runs

        display.display(display.HTML(body))  # type: ignore[no-untyped-call]  # IPython has no types here
        return
    title = escape(f"{method(explanation.method)}, series {explanation.label(i)}")
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="tempograd-", suffix=".html", delete=False, encoding="utf-8"
        ) as file:
            file.write(PAGE.format(title=title, body=body))
    except OSError as error:
        raise OutputError(f"There is no place for the page in the temporary folder: {reason(error)}.") from error
    try:
        opened = _has_screen() and webbrowser.open(Path(file.name).as_uri())
    except (webbrowser.Error, OSError):
        opened = False
    print(f"{'Opened' if opened else 'There is no browser to open here. Written to'} {file.name}")  # noqa: T201


def as_html(explanation: Explanation, i: int = 0, *, several: str = "") -> str:
    """Return the sentence of series ``i``, how sure it is, its picture and strongest cells, the rest folded.

    ``several`` lists the targets of which this is the first.
    """
    count = len(explanation)
    told = f"{count:,} series of {size(explanation)}"
    if explanation.mask is not None and count and explanation.call.packing is None:
        told += f", {100 * explanation.mask.double().mean().item():.0f} % of the cells observed"
    question = _note(f"Explained: {explained(explanation)}.")
    parts = [f'<p style="margin:.3em 0"><b>{escape(method(explanation.method))}</b>: {told}</p>']
    parts += [_note(f"Targets: {several}. This is the first; explanations[…] has the others.")] if several else []
    if not count:
        parts.append(question)
    else:
        parts.insert(0, _sentence(explanation, i))
        parts += [_note(f"How sure: {explanation.verdict()}."), _picture(explanation, i)]
        parts.append(_strongest(explanation, i))
        parts.append(_folded("How to read it", question + _sureness(explanation, i) + _reading(explanation, i)))
    parts.append(_folded("How it was computed", f"<dl>{facts(explanation)}</dl>"))
    return f'<div style="max-width:56em;line-height:1.4">{"".join(parts)}</div>'


def _sentence(explanation: Explanation, i: int) -> str:
    """Say first what was predicted, and what drove it."""
    text = explanation.describe(i)
    said = f"<b>Series {escape(str(explanation.label(i)))}</b>: {escape(text)}.".replace(" ± ", "&nbsp;±&nbsp;")
    note = WORDS["spread"] if "±" in text else ""
    said += f' <span style="font-size:.8em;opacity:.8;white-space:nowrap">{note}</span>' if note else ""
    return f'<p style="margin:.3em 0 .6em;font-size:1.15em">{said}</p>'


def _picture(explanation: Explanation, i: int) -> str:
    """Draw the series, or say why not: a notebook must show the rest in any case."""
    if explanation.shown is None:
        return _note("No picture: the explanation was saved without its series.")
    buffer = BytesIO()
    try:
        explanation.plot(i, channels=_drawn(explanation, i)).savefig(buffer, format="png", dpi=144)
    except MissingExtraError as error:
        return _note(f"No picture. {error}")
    image = b64encode(buffer.getvalue()).decode("ascii")
    said = f"Series {explanation.label(i)}: its values, and below them the attribution of each, channel by channel"
    return (
        f'<img alt="{escape(said)}" src="data:image/png;base64,{image}" '
        'style="display:block;width:100%;max-width:680px;height:auto;background:#fff;margin:.6em 0">'
    )


def _drawn(explanation: Explanation, i: int) -> list[int] | int | None:
    """Return the channels that are drawn: those of the drivers, which the sentence names, or all of a few."""
    if explanation.values.shape[2] <= CHANNELS:
        return None
    named = list(dict.fromkeys(each.channel for each in drivers_of(explanation, i)))
    return named[:CHANNELS] or CHANNELS


def _strongest(explanation: Explanation, i: int) -> str:
    one = explanation[i : i + 1]
    top = one.top(min(CELLS, one.values[0].numel()))
    cells = [(int(t), int(d)) for t, d in zip(top.time[0], top.channel[0], strict=True) if t >= 0]
    if not cells:
        return _note("Nothing of this series was observed.")
    limits = one.interval(0.95) if one.standard_error is not None and one.ess is not None else None
    heads = [("channel", CELL), ("step", CELL), *([("value", NUMBER)] if one.shown is not None else [])]
    heads += [("attribution", NUMBER), *([("95 % interval", NUMBER)] if limits is not None else [])]
    names, times, rows = list(one.channels or map(str, range(one.values.shape[2]))), one.times_of(0), []
    for t, d in cells:
        unit = f" [{one.units[d]}]" if one.units is not None and one.units[d] else ""
        numbers = [] if one.shown is None else [f"{one.shown[0, t, d].item():.4g}"]
        numbers.append(f"{one.values[0, t, d].item():{'+' if one.signed else ''}#.3g}")
        if limits is not None:
            numbers.append(" to ".join(f"{side[0, t, d].item():+#.3g}" for side in limits).replace("inf", "∞"))
        cell = f'<td style="{NAME}">{escape(names[d] + unit)}</td><td style="{CELL}">{escape(times[t])}</td>'
        cell += "".join(f'<td style="{NUMBER}">{text.replace("-", "−")}</td>' for text in numbers)
        rows.append(f'<tr style="{LINE}">{cell}</tr>')
    return (
        '<div style="overflow-x:auto" tabindex="0">'
        '<table style="border-collapse:collapse;margin:.4em 0;table-layout:auto;font-size:.92em">'
        '<caption style="text-align:left">The strongest single values of series '
        f"{escape(str(one.label(0)))}; the sentence adds up neighbours</caption><thead><tr>"
        + "".join(f'<th scope="col" style="{style}">{name}</th>' for name, style in heads)
        + f"</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _sureness(explanation: Explanation, i: int) -> str:
    """Say how good the scores of this series are, where the line about all series does not."""
    text = "" if len(explanation) == 1 else f"This series alone: {explanation.verdict(i)}. "
    if explanation.delta is not None:
        total, delta = alike(float(explanation.values[i].sum()), float(explanation.delta[i]))
        text += f"The scores sum to {total}; the prediction changed by {delta}."
    return _note(text.strip()) if text else ""


def _reading(explanation: Explanation, i: int) -> str:
    zero = "0" if explanation.raw is None else "0, as the model reads it,"
    instead = "its baseline" if bool(explanation.baseline[i].any()) else zero
    if explanation.background is not None:
        instead = "values of other series"
    if explanation.signed:
        text = f"Positive: compared with {instead} in its place, the value pushed the output up; negative: down."
    else:
        text = "The larger the attribution, the more the value matters; it does not tell in which direction."
    return _note(text + " This is about the model, not about the world.")


def _folded(title: str, content: str) -> str:
    return f'<details style="margin:.3em 0"><summary>{title}</summary>{content}</details>'


def _note(text: str) -> str:
    return f'<p style="margin:.3em 0;opacity:.8">{escape(text)}</p>'


def _in_notebook() -> bool:
    """Tell whether a kernel runs this, which can show HTML; IPython in a terminal cannot."""
    interactive: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(interactive, "kernel", None) is not None


def _has_screen() -> bool:
    """Tell whether a window can open; without one ``webbrowser`` would start a browser inside the terminal."""
    if sys.platform in {"darwin", "win32"}:
        return True
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
