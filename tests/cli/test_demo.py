"""``tempograd demo``: TIMING's report first, the others join it, and whoever interrupts keeps what is done."""

import os
import pty
import re
import signal
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

import tempograd as tg
from tempograd import Explanation, evaluate, explain, load_dataset, load_model, summarise
from tempograd.cli import demo, main
from tempograd.explainers import EXPLAINERS
from tempograd.metrics import table as metric_table
from tempograd.models import accuracy
from tempograd.sampling.stretches import stretches_of

METRICS = ["cpd", "cpp", "aup", "aur", "auroc"]
FEW = 20  # training series to learn from
FILES = {"model.safetensors", "report.html", "table.md", "timing.safetensors"}


def command(out, *, methods="random,deep_lift,winit", series=10, epochs=1):
    sizes = ["--series", str(series), "--epochs", str(epochs), "--seed", "1", "--device", "cpu"]
    return ["demo", "--out", str(out), *sizes, "--methods", methods]


def rows(out):
    text = (out / "table.md").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in (lines[0], *lines[2:])]
    return {row[0]: row[1:] for row in cells}


def drawn(page):
    """Methods that a report has in its table of scores."""
    printed = page.split('<pre id="scores">')[1].split("</pre>")[0]
    return re.findall(r"^\| (\w+)", printed, re.MULTILINE)[1:]


class Run(NamedTuple):
    out: Path
    joined: list  # after each method: its name, those in the table, those in the report, the files
    printed: str
    errors: str


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A demo that ran to its end."""
    out, joined = tmp_path_factory.mktemp("demo") / "out", []
    join = demo.Demo.join

    def watched(results, method, *done):
        join(results, method, *done)
        page = (out / "report.html").read_text(encoding="utf-8")
        joined.append((method, list(rows(out))[1:], drawn(page), {path.name for path in out.iterdir()}))

    with pytest.MonkeyPatch.context() as patch, StringIO() as printed, StringIO() as errors:
        patch.setattr(demo, "LEARNT_FROM", FEW)
        patch.setattr(demo, "HIDDEN", 16)
        patch.setattr(demo.Demo, "join", watched)
        with redirect_stdout(printed), redirect_stderr(errors):
            assert main(command(out)) == 0
        return Run(out, joined, printed.getvalue(), errors.getvalue())


def test_methods_join_report_and_table_one_by_one_the_cheap_ones_first(finished):
    order = ["timing", "random", "deep_lift", "winit"]
    assert [method for method, *_ in finished.joined] == order
    for count, (_, in_table, in_report, files) in enumerate(finished.joined, 1):
        assert in_table == order[:count]
        assert in_report == order[:count]
        assert files == FILES


def test_the_numbers_are_the_librarys(finished):
    out = finished.out
    model, test = load_model(out / "model.safetensors"), load_dataset("pump").test.take(slice(10))
    timing = Explanation.load(out / "timing.safetensors")
    assert timing.seed == 1
    assert timing.names == test.ids
    first = evaluate(model, timing, metrics=METRICS, truth=test.truth)
    noise = explain(model, tg.Series(test.x, ids=test.ids, mask=test.mask), "random", seed=1)
    second = evaluate(model, noise, metrics=METRICS, truth=test.truth)
    found = rows(out)
    expected = metric_table({"timing": first, "random": second})
    for method in ("timing", "random"):
        cells = [expected.cells[method, metric] for metric in expected.metrics]
        means = [float(re.match(r"−?[\d.]+", text)[0].replace("−", "-")) for text in found[method]]
        assert means == pytest.approx([cell.mean for cell in cells], abs=0.01)


def test_where_nobody_looks_each_finished_step_is_one_line(finished):
    assert finished.errors == ""
    assert "\r" not in finished.printed
    out, report = finished.out, (finished.out / "report.html").resolve().as_uri()
    steps = finished.printed.split("\n\n")[0].splitlines()
    words = ["data", "train", "explain", "answer", "TIMING's", *["explain"] * 3]
    assert [line.split()[0] for line in steps] == words
    assert [line.split()[1] for line in steps if line.startswith("explain")] == [
        each[0] for each in finished.joined
    ]
    reached = accuracy(load_model(out / "model.safetensors"), load_dataset("pump").test)
    assert f"test accuracy {reached:.3f}" in steps[1]
    assert report in steps[4]
    assert finished.printed.count(report) == 2
    assert (out / "table.md").read_text(encoding="utf-8") in finished.printed


@pytest.mark.slow  # trains the model of the demo as people do
def test_it_says_the_known_false_alarm_and_names_a_planted_cause_first(tmp_path, capsys):
    assert main(["demo", "--out", str(tmp_path), "--methods", "timing", "--device", "cpu"]) == 0
    (answer,) = re.findall(r"^answer +(.*)$", capsys.readouterr().out, re.MULTILINE)
    assert re.fullmatch(r"P-704: .* of “failure” \(true: “healthy”\), raised by .*", answer)
    for sensor in (r"vibration \d\S* mm/s at .*\d\d:\d\d", r"bearing temperature \d\S* °C at .*\d\d:\d\d"):
        assert re.search(sensor, answer)
    assert accuracy(load_model(tmp_path / "model.safetensors"), load_dataset("pump").test) >= 0.95
    exp = Explanation.load(tmp_path / "timing.safetensors")
    found = stretches_of(exp, exp.mask, 1)
    right = exp.y[found.row] & (exp.target[found.row] == 1)
    drivers = zip(
        found.row.tolist(), found.channel.tolist(), found.start.tolist(), found.stop.tolist(), strict=True
    )
    planted = torch.tensor([bool(exp.truth[i, a:b, d].any()) for i, d, a, b in drivers])[right == 1]
    assert len(planted) >= 15
    assert planted.double().mean() >= 0.9


def test_every_method_is_there_and_others_are_refused(capsys):
    assert demo.SETTINGS.keys() <= set(EXPLAINERS)
    assert demo.QUICK[0] == "timing"
    assert main(["demo", "--methods", "timinf"]) == 2
    assert "Did you mean 'timing'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ([], list(demo.QUICK)),
        (["--methods", "all"], list(dict.fromkeys((*demo.QUICK, *EXPLAINERS)))),
        (["--methods", "dynamask,random"], ["timing", "dynamask", "random"]),
    ],
)
def test_seven_quick_methods_run_unless_others_are_named(asked, expected, tmp_path, monkeypatch):
    asks = []

    def run(self, advance):
        asks.append(self.methods)
        self.scores = {"timing": {"cpd": torch.ones(2)}}

    monkeypatch.setattr(demo.Demo, "run", run)
    assert main(["demo", "--out", str(tmp_path), *asked]) == 0
    assert asks == [expected]
    assert set(demo.SHOWN) <= set(demo.QUICK)  # every map of the report is there without being asked for


SLOW = """
import sys, time
from tempograd.core import progress
from tempograd.cli import demo, main
from tempograd.metrics import table as metric_table
usual, progress.DELAY, progress.PERIOD = demo.explain, 0.0, 0.0
def explain(model, split, method, **options):
    if method == "deep_lift":
        progress.say("waiting")
        time.sleep(60)
    return usual(model, split, method, **options)
demo.explain = explain
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory, interruptible):
    """A demo on a terminal that was interrupted after its second method: folder, exit code, what was shown."""
    out = tmp_path_factory.mktemp("interrupted")
    argv = [sys.executable, "-c", SLOW, *command(out, methods="random,deep_lift", series=2)]
    master, slave = pty.openpty()
    environment, shown, sent = os.environ | {"OMP_NUM_THREADS": "1"}, b"", False
    with subprocess.Popen(argv, stdout=slave, stderr=slave, env=environment) as process:
        os.close(slave)
        try:
            while part := os.read(master, 4096):
                shown += part
                if b"waiting" in shown and not sent:
                    process.send_signal(signal.SIGINT)
                    sent = True
        except OSError:  # the other end was closed
            pass
    os.close(master)
    return out, process.returncode, shown.decode().replace("\r\n", "\n")


@pytest.mark.slow  # trains in a process of its own
def test_an_interruption_keeps_what_is_done(interrupted):
    out, code, shown = interrupted
    assert code == 130
    last = shown.rstrip("\n").split("\n")[-1].split("\r")[-1]  # a bar may have been there
    assert "interrupted" in last
    assert {path.name for path in out.iterdir()} == FILES
    assert list(rows(out)) == ["Method", "timing", "random"]
    page = (out / "report.html").read_text(encoding="utf-8")
    assert drawn(page) == ["timing", "random"]
    assert page.rstrip().endswith("</html>")
    model, timing = load_model(out / "model.safetensors"), Explanation.load(out / "timing.safetensors")
    cpd = summarise(evaluate(model, timing)["cpd"])
    assert float(rows(out)["timing"][0].split()[0]) == pytest.approx(cpd.mean, rel=0.01)


@pytest.mark.slow  # the same process
def test_a_terminal_sees_share_and_time_left_and_whole_lines(interrupted):
    _, _, shown = interrupted
    bars = re.findall(r"demo \[[#.]{24}\] +(\d+) %  \d+:\d\d elapsed, (\S+) left  (\w+)", shown)
    shares = [int(share) for share, _, _ in bars]
    assert shares == sorted(shares)
    assert {share for share, left, _ in bars if left == "?"} == {"0"}
    assert {"train", "timing", "random"} <= {note for _, _, note in bars}
    stays = [line.split("\r")[-1] for line in shown.split("\n")]
    assert any(re.fullmatch(r"explain +random +\d+ s", line) for line in stays)
    assert not any("elapsed" in line for line in stays)
