"""What a notebook shows, read back from its HTML, and where it goes when there is no notebook."""

import base64
import os
import subprocess
import sys
import textwrap
import webbrowser
from dataclasses import replace
from html.parser import HTMLParser
from io import BytesIO
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from IPython.core.formatters import DisplayFormatter
from matplotlib.image import imread

import tempograd as tg
from tempograd.core.errors import InputError
from tempograd.core.formatting import alike
from tests.helpers.explanations import made
from tests.helpers.models import Recurrent, series

NASTY = ("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "a & b</td></table>")
TAGS = {
    "div",
    "dl",
    "dt",
    "dd",
    "span",
    "p",
    "b",
    "img",
    "table",
    "caption",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "details",
    "summary",
    "ul",
    "li",
}


class Reader(HTMLParser):
    """Collects tags, attributes, the cells of tables and all text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags, self.attributes, self.rows, self.text, self.open = set(), [], [], "", []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs
        if tag != "img":
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in {"td", "th"}:
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data + "\n"
        if self.open and self.open[-1] in {"td", "th"}:
            self.rows[-1][-1] += data


@pytest.fixture
def real_pictures():
    """Asked for by tests that look at pictures; others are spared the second that each takes."""


@pytest.fixture(autouse=True)
def quick_pictures(request, monkeypatch):
    if "real_pictures" not in request.fixturenames:
        stub = SimpleNamespace(savefig=lambda buffer, **_: buffer.write(b"a picture"))
        monkeypatch.setattr(tg.Explanation, "plot", lambda *_, **__: stub)


def explained(batch=3, *, method="timing", mask=None, **options):
    x = tg.Series(series(batch, 9, 3), mask=mask, ids=torch.arange(batch) + 70)
    return tg.explain(Recurrent().eval(), x, method=method, seed=1, **options)


def shown(explanation):
    """What IPython's own formatter takes from the explanation."""
    return Reader(DisplayFormatter().format(explanation)[0]["text/html"])


def test_the_table_holds_the_strongest_cells_of_the_first_series():
    mask = torch.rand(3, 9, 3, generator=torch.Generator().manual_seed(0)) > 0.3
    found = explained(mask=mask).with_names(channels=("HR", "pH", "Na"), times=[f"{t} h" for t in range(9)])
    page = shown(found)
    assert page.rows[0] == ["channel", "step", "value", "attribution", "95 % interval"]
    size = np.where(mask[0], np.abs(found.values[0].numpy()), -1)
    low, high = (side[0] for side in found.interval(0.95))
    expected = []
    for flat in np.argsort(-size.ravel())[:5]:
        t, d = divmod(int(flat), 3)
        numbers = f"{low[t, d]:+#.3g} to {high[t, d]:+#.3g}"
        row = [
            ("HR", "pH", "Na")[d],
            f"{t} h",
            f"{found.x[0, t, d]:.4g}",
            f"{found.values[0, t, d]:+#.3g}",
            numbers,
        ]
        expected.append([cell.replace("-", "−") for cell in row])
    assert page.rows[1:] == expected
    share = 100 * mask.double().mean()
    assert f": 3 series of 9 steps × 3 channels, {share:.0f} % of the cells observed\n" in page.text
    assert "The strongest single values of series 70; the sentence adds up neighbours\n" in page.text


def test_the_sentence_comes_first_and_the_picture_is_of_what_it_names(monkeypatch):
    drawn = []
    stub = SimpleNamespace(savefig=lambda buffer, **_: buffer.write(b"a picture"))
    monkeypatch.setattr(tg.Explanation, "plot", lambda *_, **options: drawn.append(options["channels"]) or stub)
    values = torch.zeros(2, 6, 9)
    values[1, 2:4, 7], values[1, 5, 0], values[1, 0, 4], values[1, 1, 3] = 3.0, -2.0, 1.0, 0.9
    wide = made(values, channels=tuple("abcdefghi"))
    text = Reader(tg.html_report.notebook.as_html(wide, 1)).text
    assert text.startswith(f"Series 11\n: {wide.describe(1)}.\n")
    assert "raised mainly by h 0 at steps 2–3 (+6.0)" in text
    assert drawn == [[7, 0, 4]]
    tg.html_report.notebook.as_html(made(values[..., :2]), 0)
    assert drawn[1:] == [None]  # few channels are all drawn


def test_names_with_html_in_them_are_text(real_pictures):
    found = explained().with_names(channels=NASTY, times=["<b>"] * 9)
    found.parameters["note"] = "<i>"
    html = DisplayFormatter().format(found)[0]["text/html"]
    page = Reader(html)
    assert page.tags <= TAGS
    assert {row[0] for row in page.rows[1:]} <= set(NASTY)
    assert {row[1] for row in page.rows[1:]} == {"<b>"}
    assert 'note = "<i>"' in page.text
    assert {name for name, _ in page.attributes} <= {"style", "alt", "src", "scope", "tabindex"}
    assert [value.partition(",")[0] for name, value in page.attributes if name == "src"] == [
        "data:image/png;base64"
    ]
    assert "http" not in html
    assert page.open == []


@pytest.mark.parametrize("i", [0, 2])
def test_the_picture_is_that_of_the_series(i, real_pictures):
    found = explained()
    page = Reader(tg.html_report.notebook.as_html(found, i))
    (source,) = [value for name, value in page.attributes if name == "src"]
    drawn = imread(BytesIO(base64.b64decode(source.partition(",")[2])))
    pixels = {}
    for other in (0, 2):
        buffer = BytesIO()
        found.plot(other).savefig(buffer, format="png", dpi=144)
        buffer.seek(0)
        pixels[other] = imread(buffer)
    np.testing.assert_array_equal(drawn, pixels[i])
    assert not np.array_equal(pixels[0], pixels[2])
    assert f"The strongest single values of series {70 + i}; the sentence adds up neighbours\n" in page.text


def test_without_matplotlib_or_series_the_rest_is_shown(monkeypatch, tmp_path, real_pictures):
    found = explained()
    bare = tg.Explanation.load(found.save(tmp_path / "bare.safetensors", series=False))
    page = shown(bare)
    assert "No picture: the explanation was saved without its series.\n" in page.text
    assert page.rows[0] == ["channel", "step", "attribution", "95 % interval"]
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "tempograd.plots.picture", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    page = shown(found)
    assert "No picture. This needs matplotlib: pip install 'tempograd[plots]'.\n" in page.text
    assert "img" not in page.tags
    assert len(page.rows) == 6


def binary(z):
    return z.sum((1, 2))[:, None] * 9


binary.tempograd_task = "classification"


EXPLAINED = {
    "classes": (
        {"target": torch.tensor([2, 0, 2])},
        "class 2 for 2 series, class 0 for 1 series, as a probability",
    ),
    "one class": ({"target": 1}, "class 1, as a probability"),
    "the first class": ({"target": 0}, "class 0, as a probability"),
    "the first raw output": ({"target": 0, "output": "raw"}, "output 0, as the model returns it"),
    "raw": ({"target": 1, "output": "raw"}, "output 1, as the model returns it"),
    "a function": (
        {"target": lambda answer: answer.sum(1)},
        "a score of your own",
    ),
}


@pytest.mark.parametrize(("options", "text"), EXPLAINED.values(), ids=EXPLAINED)
def test_it_says_what_was_explained(options, text):
    assert f"Explained: {text}.\n" in shown(explained(**options)).text


def test_it_says_what_was_explained_of_other_models():
    x = series(6, 9, 3)
    one = tg.explain(binary, x)
    assert "Explained: class 1, as a probability.\n" in shown(one).text
    assert "Explained: class 0, as a probability.\n" in shown(tg.explain(binary, x, target=0)).text
    told = "Explained: class 0 for 4 series, class 1 for 2 series, as a probability.\n"
    assert told in shown(tg.explain(binary, x, target=torch.tensor([0, 0, 1, 0, 1, 0]))).text
    raw = tg.explain(binary, x, output="raw")
    assert "Explained: the model's only output, as the model returns it.\n" in shown(raw).text
    # a file of an earlier version does not say whether 0 is the first class or a single probability, of class 1
    older = replace(one, columns=None, target=torch.zeros(6, dtype=torch.int64))
    assert "Explained: output 0, as a probability.\n" in shown(older).text
    many = tg.explain(lambda z: z[:, 0].repeat(1, 2) * 3, x, target=torch.arange(6))
    assert "Explained: 6 different classes, as a probability.\n" in shown(many).text
    steps = Recurrent(per_step=True).eval()
    told = "Explained: one output per step, its probabilities, "
    mixed = {"target": torch.arange(6) % 3}
    assert f"{told}summed over the steps.\n" in shown(tg.explain(steps, x, **mixed)).text
    assert f"{told}each cell's effect on its own step.\n" in shown(tg.explain(steps, x, steps="own", **mixed)).text
    alarm = Recurrent(classes=1, per_step=True).eval()
    told = "Explained: one output per step, the probability of class 1, summed over the steps.\n"
    assert told in shown(tg.explain(alarm, x)).text


def test_scores_without_sign_or_error_say_so():
    signed = shown(explained(method="occlusion", baseline="average"))
    assert signed.rows[0] == ["channel", "step", "value", "attribution"]
    assert "Positive: compared with its baseline in its place, the value pushed the output up" in signed.text
    plain = shown(explained(method="random"))
    assert not any(row[3].startswith("+") for row in plain.rows[1:])
    assert "it does not tell in which direction. This is about the model" in plain.text
    assert "compared with 0 in its place" in shown(explained()).text


def test_settings_and_origin_are_kept():
    found = explained(n_samples=30, max_length=4)
    page = shown(found)
    assert "n_samples = 30" in page.text
    assert "max_length = 4" in page.text
    assert "held = automatic" in page.text
    assert "max_samples" not in page.text
    assert "tolerance = 0.5" in (other := shown(explained(tolerance=0.5)).text)
    assert "max_samples = 3200" in other
    assert all(text in page.text for text in (found.fingerprint, f"tempograd {tg.__version__}"))


def test_series_that_have_nothing_to_show():
    mask = torch.ones(2, 9, 3, dtype=torch.bool)
    mask[0] = False
    found = explained(2, mask=mask)
    assert "Nothing of this series was observed.\n" in shown(found).text
    empty = shown(found[[]])
    assert ": 0 series of 9 steps × 3 channels\n" in empty.text
    assert "img" not in empty.tags
    with pytest.warns(tg.TempogradWarning, match="active in only"):
        single = tg.explain(lambda z: z.sum((1, 2))[:, None], torch.ones(1, 2, 1), n_samples=1, output="raw")
    assert ": 1 series of 2 steps × 1 channel\n" in shown(single).text
    assert {row[4] for row in shown(single).rows[1:]} == {"−∞ to +∞"}


# ---- show ----


@pytest.fixture
def screenless(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    opened = []
    monkeypatch.setattr(webbrowser, "open", lambda address: opened.append(address) or True)
    return opened


def test_without_a_screen_the_page_is_written_and_named(screenless, tmp_path, capsys):
    found = explained().with_names(channels=NASTY)
    assert found.show(1) is None
    (path,) = tmp_path.iterdir()
    assert capsys.readouterr().out == f"There is no browser to open here. Written to {path}\n"
    assert screenless == []
    page = path.read_text(encoding="utf-8")
    assert tg.html_report.notebook.as_html(found, 1) in page
    assert page.startswith("<!doctype html>")
    assert '<meta charset="utf-8">' in page
    assert "<title>timing, series 71</title>" in page


@pytest.mark.parametrize("name", ["DISPLAY", "WAYLAND_DISPLAY", "BROWSER"])
def test_with_a_screen_a_browser_opens_it(screenless, tmp_path, capsys, monkeypatch, name):
    monkeypatch.setenv(name, ":0")
    explained().show()
    (path,) = tmp_path.iterdir()
    assert screenless == [path.as_uri()]
    assert capsys.readouterr().out == f"Opened {path}\n"


def failing(_):
    raise webbrowser.Error("could not locate runnable browser")


@pytest.mark.parametrize("broken", [lambda _: False, failing], ids=["no", "error"])
def test_a_browser_that_fails_is_no_failure(screenless, tmp_path, capsys, monkeypatch, broken):
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(webbrowser, "open", broken)
    explained().show()
    (path,) = tmp_path.iterdir()
    assert capsys.readouterr().out == f"There is no browser to open here. Written to {path}\n"


def test_ipython_in_a_terminal_is_no_notebook(screenless, tmp_path, monkeypatch):
    monkeypatch.setattr("IPython.get_ipython", SimpleNamespace)
    explained().show()
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    ("i", "message"), [(3, "There is no series 3: the explanation holds 3"), (-1, "at least 0")]
)
def test_a_series_that_is_not_there(screenless, tmp_path, i, message):
    with pytest.raises(InputError, match=message):
        explained().show(i)
    assert list(tmp_path.iterdir()) == []


NOTEBOOK = """
    import torch
    import tempograd as tg
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 2))
    x = torch.randn(3, 6, 2)
    exp = tg.explain(model, x).with_names(channels=["HR", "pH"])
    exp
    exp.plot(1)
    exp.show(2)
"""
RUN = """
    import sys
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output
    shell = InteractiveShell.instance()
    shell.kernel = object()  # as in a notebook
    for line in sys.argv[1].strip().splitlines():
        with capture_output(display=True) as captured:
            result = shell.run_cell(line)
        assert result.success, captured.stdout
        shown = [output.data for output in captured.outputs]
        shown += [] if result.result is None else [shell.display_formatter.format(result.result)[0]]
        for data in shown:
            html = data.get("text/html", "")
            print(line, *sorted(data), html.count("<tr"), html.count("<img"), sep="|")
"""


@pytest.mark.slow  # starts IPython
def test_a_notebook_of_ten_lines(tmp_path):
    """In a process of its own, since a shell changes much of its own."""
    command = [sys.executable, "-c", textwrap.dedent(RUN), textwrap.dedent(NOTEBOOK)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**environment(), "IPYTHONDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n") == [
        "exp|text/html|text/plain|6|1",
        "exp.plot(1)|image/png|text/plain|0|0",
        "exp.show(2)|text/html|text/plain|6|1",
        "",
    ]


def environment():
    return {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}


def test_it_says_how_sure_the_scores_are():
    model, x = Recurrent().eval(), series(3, 8, 3)
    found = replace(tg.explain(model, x, n_samples=9), delta=torch.tensor([0.25, -0.5, 0.125]))
    text = Reader(found._repr_html_()).text
    assert f"How sure: {found.verdict()}." in text
    total, delta = alike(float(found.values[0].sum()), 0.25)
    sums = f"The scores sum to {total}; the prediction changed by {delta}."
    assert f"This series alone: {found.verdict(0)}. {sums}" in text
    unread = replace(found, delta=None)
    alone = Reader(unread[1:2]._repr_html_()).text
    assert f"How sure: {unread.verdict(1)}." in alone
    assert "This series alone" not in alone
    assert "sum to" not in alone
