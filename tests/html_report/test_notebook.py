"""What a notebook shows, read back from its HTML, and what it shows in one."""

import base64
import os
import subprocess
import sys
import textwrap
from dataclasses import replace
from html.parser import HTMLParser
from io import BytesIO
from types import SimpleNamespace

import pytest
import torch
from IPython.core.formatters import DisplayFormatter

import tempograd as tg
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


def test_the_sentence_comes_first_and_the_picture_is_of_what_it_names(monkeypatch):
    drawn = []
    stub = SimpleNamespace(savefig=lambda buffer, **_: buffer.write(b"a picture"))
    monkeypatch.setattr(tg.Explanation, "plot", lambda *_, **options: drawn.append(options["channels"]) or stub)
    values = torch.zeros(2, 6, 9)
    values[1, 2:4, 7], values[1, 5, 0], values[1, 0, 4], values[1, 1, 3] = 3.0, -2.0, 1.0, 0.9
    wide = made(values, channels=tuple("abcdefghi"))[1:]
    text = shown(wide).text
    assert text.startswith(f"Series 11\n: {wide.describe(0)}.\n")
    assert "raised by h 0 at steps 2–3 (+6)" in text
    assert drawn == [[7, 4, 3]]  # up, then down, as the sentence has them
    shown(made(values[..., :2]))
    assert drawn[1:] == [None]  # few channels are all drawn


def test_names_with_html_in_them_are_text(real_pictures):
    found = replace(explained(), channels=tuple(NASTY), times=("<b>",) * 9)
    found.parameters["note"] = "<i>"
    html = DisplayFormatter().format(found)[0]["text/html"]
    page = Reader(html)
    assert page.tags <= TAGS
    assert 'note = "<i>"' in page.text
    assert {name for name, _ in page.attributes} <= {"style", "alt", "src", "scope", "tabindex"}
    assert [value.partition(",")[0] for name, value in page.attributes if name == "src"] == [
        "data:image/png;base64"
    ]
    assert "http" not in html
    assert page.open == []


def test_the_picture_is_that_of_the_series(real_pictures):
    found = explained()
    (source,) = [value for name, value in shown(found).attributes if name == "src"]
    buffer = BytesIO()
    found.plot(0).savefig(buffer, format="png", dpi=144)
    assert base64.b64decode(source.partition(",")[2]) == buffer.getvalue()


def test_without_matplotlib_or_series_the_rest_is_shown(monkeypatch, tmp_path, real_pictures):
    found = explained()
    bare = tg.Explanation.load(found.save(tmp_path / "bare.safetensors", series=False))
    page = shown(bare)
    assert "No picture: the explanation was saved without its series.\n" in page.text
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "tempograd.plots.picture", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    page = shown(found)
    assert "No picture. This needs matplotlib: pip install 'tempograd[plots]'.\n" in page.text
    assert "img" not in page.tags


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
    assert "Explained: the model's output, as the model returns it.\n" in shown(raw).text
    # a file of an earlier version does not say whether 0 is the first class or a single probability, of class 1
    older = replace(one, columns=None, target=torch.zeros(6, dtype=torch.int64))
    assert "Explained: output 0, as a probability.\n" in shown(older).text
    many = tg.explain(lambda z: z[:, 0].repeat(1, 2) * 3, x, target=torch.arange(6))
    assert "Explained: 6 different classes, as a probability.\n" in shown(many).text
    steps = Recurrent(per_step=True).eval()
    told = "Explained: class 0 for 18 steps, class 1 for 18 steps, class 2 for 18 steps, as a probability, "
    mixed = {"target": torch.arange(6) % 3}
    assert f"{told}summed over the steps.\n" in shown(tg.explain(steps, x, **mixed)).text
    assert f"{told}each cell for its own step.\n" in shown(tg.explain(steps, x, steps="own", **mixed)).text
    alarm = Recurrent(classes=1, per_step=True).eval()
    told = "Explained: class 1, as a probability, summed over the steps.\n"
    assert told in shown(tg.explain(alarm, x)).text


def test_settings_and_origin_are_kept():
    found = explained(n_samples=30, max_length=4)
    page = shown(found)
    assert "n_samples = 30" in page.text
    assert "max_length = 4" in page.text
    assert "max_samples" not in page.text
    assert "tolerance = 0.5" in (other := shown(explained(tolerance=0.5)).text)
    assert "max_samples = 3200" in other
    assert all(text in page.text for text in (found.fingerprint, f"tempograd {tg.__version__}"))


def test_series_that_have_nothing_to_show():
    mask = torch.ones(2, 9, 3, dtype=torch.bool)
    mask[0] = False
    found = explained(2, mask=mask)
    assert "nothing of the series was observed" in shown(found).text
    empty = shown(found[[]])
    assert ": 0 series of 9 steps × 3 channels\n" in empty.text
    assert "img" not in empty.tags
    with pytest.warns(tg.TempogradWarning, match="active in only"):
        single = tg.explain(lambda z: z.sum((1, 2))[:, None], torch.ones(1, 2, 1), n_samples=1, output="raw")
    assert ": 1 series of 2 steps × 1 channel\n" in shown(single).text


NOTEBOOK = """
    import torch
    import tempograd as tg
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 2))
    x = torch.randn(3, 6, 2)
    exp = tg.explain(model, tg.Series(x, channels=["HR", "pH"]))
    exp
    exp.plot(1)
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
        "exp|text/html|text/plain|0|1",
        "exp.plot(1)|image/png|text/plain|0|0",
        "",
    ]


def environment():
    return {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}


def test_it_says_how_sure_the_scores_are():
    model, x = Recurrent().eval(), series(3, 8, 3)
    found = tg.explain(model, x, n_samples=9)
    text = Reader(found._repr_html_()).text
    assert f"How sure: {found.verdict()}." in text
    alone = Reader(found[1:2]._repr_html_()).text
    assert f"How sure: {found.verdict(1)}." in alone
