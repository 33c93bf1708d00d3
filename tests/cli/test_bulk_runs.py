"""Many files into a folder by command: the numbers of one call, going on, faults, counts, samples."""

import io
import json
import re
from contextlib import redirect_stderr
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import tempograd as tg
from tempograd.bulk import Log
from tempograd.bulk.store import TABLES
from tempograd.bulk.worker import Worker
from tempograd.cli import main
from tempograd.core import progress
from tempograd.data import fragments
from tempograd.models import build
from tests.bulk.conftest import alone, explain_files  # noqa: F401  # a fixture
from tests.helpers.report_page import Page

FILES, EACH, TIME, CHANNELS = 3, 8, 10, 2
MODEL = ["--model", "m.safetensors", "--device", "cpu"]
EXPLAIN = ["explain", *MODEL, "--data", "in/*.parquet", "--out", "out/", "--n-samples", "6", "--seed", "3"]
IDS = [100 + 7 * row for row in range(FILES * EACH)]


def write(x, masks=None):
    """Write series into three files, with two columns that are no series."""
    Path("in").mkdir(exist_ok=True)
    for number in range(FILES):
        rows = slice(number * EACH, (number + 1) * EACH)
        table = {"id": IDS[rows], "x": x[rows].tolist(), "day": [number] * EACH, "site": ["a", "b"] * (EACH // 2)}
        table |= {} if masks is None else {"seen": masks[rows].tolist()}
        kind = pa.list_(pa.list_(pa.float32()))
        schema = {"id": pa.int64(), "x": kind, "day": pa.int32(), "site": pa.string(), "seen": kind}
        pq.write_table(
            pa.table(table, pa.schema([(name, schema[name]) for name in table])), f"in/{number}.parquet"
        )


@pytest.fixture
def x(tmp_path, monkeypatch):
    """Series in three files of an empty folder, where a model is too."""
    monkeypatch.chdir(tmp_path)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        tg.save_model(build("gru", CHANNELS, 2, hidden=4), "m.safetensors")
    x = torch.randn(FILES * EACH, TIME, CHANNELS, generator=torch.Generator().manual_seed(1))
    write(x)
    return x


def rows(folder="out"):
    """Return all results as plain data, read by pyarrow alone, in the order of their ids."""
    summary, kept = (pq.read_table(f"{folder}/{name}").sort_by("key").to_pylist() for name in ("summary", "cells"))
    found = [one | other for one, other in zip(summary, kept, strict=True) if one["id"] == other["id"]]
    assert len(found) == len(summary)
    return sorted(found, key=lambda row: row["id"])


def cells(folder, name="values"):
    return np.array([row[name] for row in rows(folder)], dtype=np.float32)


def states(folder="out"):
    paths = [path for name in TABLES for path in Path(folder, name).glob("*.parquet")]
    return {str(path): (path.stat().st_ino, path.stat().st_mtime_ns) for path in paths}


def test_the_command_gives_the_numbers_of_one_call_bit_for_bit(x, capsys):
    assert main([*EXPLAIN, "--keep", "day,site"]) == 0
    shown = capsys.readouterr()
    assert re.fullmatch(r"(\S+Z \d+ of 24 series.*\n){2}", shown.err)  # bars are for terminals
    assert "Explained 24 series with timing." in shown.out
    model = tg.load_model("m.safetensors")
    one = tg.explain(model, tg.Series(x, ids=IDS), n_samples=6, seed=3)
    run = tg.explain_dataset(model, tg.Source("in", keep=["day", "site"]), "other", n_samples=6, seed=3)
    for name in ("values", "standard_error", "ess"):
        np.testing.assert_array_equal(cells("out", name), getattr(one, name).flatten(1).numpy())
    assert [(row["id"], row["target"]) for row in rows()] == list(zip(IDS, one.target.tolist(), strict=True))
    assert [(row["day"], row["site"]) for row in rows()] == [(n // EACH, "ab"[n % 2]) for n in range(len(x))]
    np.testing.assert_equal(rows(), rows("other"))  # NaN equals NaN
    assert f"  {run.verdict()}\n" in shown.out


def test_every_option_arrives(x):
    masks = torch.rand(x.shape, generator=torch.Generator().manual_seed(2)) > 0.2
    masks[:, 0] = True
    write(x, masks)
    pool = torch.randn(5, TIME, CHANNELS, generator=torch.Generator().manual_seed(4))
    np.savez("pool.npz", x=pool.numpy())
    more = ["--mask", "seen", "--method", "gradient_shap", "--background", "pool.npz", "--set", "noise=0.5"]
    more += ["--target", "1", "--baseline", "average", "--output", "raw", "--batch-size", "3", "--fragment", "5"]
    assert main([*EXPLAIN, *more, "--channels", "pulse,sodium"]) == 0
    model = tg.load_model("m.safetensors")
    options = {"background": pool, "noise": 0.5, "target": 1, "baseline": "average", "output": "raw"}
    one = tg.explain(model, tg.Series(x, mask=masks, ids=IDS), "gradient_shap", n_samples=6, seed=3, **options)
    np.testing.assert_array_equal(cells("out"), one.values.flatten(1).numpy())
    assert tg.open_run("out").take(IDS[:2]).channels == ("pulse", "sodium")


@pytest.mark.usefixtures("x")
def test_rare_options_arrive_too(monkeypatch):
    given = {}

    def note(*args, **options):
        given.update(args[1].plain | options, model=args[0], source=args[1].path, out=args[2])
        raise tg.TempogradError("seen")

    monkeypatch.setattr("tempograd.cli.explaining.explain_dataset", note)
    more = "--steps 3,4 --task per_step --pick 1 --model-layout BDT --missing mask --units mV,C --classes no,yes"
    elsewhere = "--engine ray --workers 3 --timeout 60 --device cpu --fragment 9 --batch-size 2 --max-faults 0.5"
    elsewhere += " --cells none --time t --limit 7 --log json --price 4.5"
    elsewhere += " --partition day --removed drop"
    words = f"{more} {elsewhere} --align order --target yes --x a --id who --mask seen --shape 4,1 --keep day"
    assert main([*EXPLAIN, *words.split(), "--draws", "2"]) == 5
    model = given["model"]
    assert (model.task, model.pick, model.layout, model.classes) == ("per_step", 1, "BDT", ("no", "yes"))
    expected = {"steps": [3, 4], "missing": "mask"}
    expected |= {"units": ("mV", "C"), "engine": "ray", "workers": 3, "timeout": 60.0, "device": "cpu"}
    expected |= {"fragment": 9, "batch_size": 2, "max_faults": 0.5, "cells": "none", "time": "t", "target": "yes"}
    expected |= {"limit": 7, "progress": Log("json", 4.5), "partition": "day", "removed": "drop"}
    expected |= {
        "x": "a",
        "align": "order",
        "id": "who",
        "mask": "seen",
        "shape": (4, 1),
        "keep": ("day",),
        "draws": 2,
    }
    expected |= {"source": "in/*.parquet", "out": "out/", "method": "timing", "seed": 3}
    assert {name: given[name] for name in expected} == expected


@pytest.mark.usefixtures("x")
def test_less_is_kept_on_demand(capsys):
    assert main([*EXPLAIN, "--cells", "top"]) == 0
    assert "values" not in rows()[0]
    assert "Next: tempograd runs out/" in capsys.readouterr().out  # a report needs all cells


@pytest.mark.usefixtures("x")
def test_a_column_that_goes_along_is_a_folder_on_demand():
    assert main([*EXPLAIN, "--keep", "day,site", "--partition", "day"]) == 0
    for table in TABLES:
        assert {path.name for path in Path("out", table).iterdir()} == {f"day={day}" for day in range(FILES)}
    assert [(row["id"], row["day"]) for row in rows()] == [(name, n // EACH) for n, name in enumerate(IDS)]


def test_rows_that_are_one_step_each(x, capsys):
    Path("long").mkdir()
    table = {"who": np.repeat(IDS, TIME), "when": np.tile(np.arange(TIME)[::-1], len(x))}
    table |= {name: x[..., d].flip(1).flatten().numpy() for d, name in enumerate(("a", "b"))}
    pq.write_table(pa.table(table), "long/x.parquet")
    command = ["explain", *MODEL, "--data", "long", "--out", "out", "--n-samples", "6", "--seed", "3"]
    assert main([*command, "--channels", "a,b", "--time", "when"]) == 3
    assert "the only series has this time twice" in capsys.readouterr().err
    assert main([*command, "--channels", "a,b", "--id", "who", "--time", "when"]) == 0
    one = tg.explain(tg.load_model("m.safetensors"), tg.Series(x, ids=IDS), n_samples=6, seed=3)
    np.testing.assert_array_equal(cells("out"), one.values.flatten(1).numpy())


def test_series_without_ids_in_flat_lists(x):
    Path("flat").mkdir()
    pq.write_table(pa.table({"series": x.flatten(1).tolist()}), "flat/x.parquet")
    more = ["--x", "series", "--shape", f"{TIME},{CHANNELS}"]
    command = ["explain", *MODEL, "--data", "flat/", "--out", "out", "--method", "integrated_gradients"]
    assert main([*command, *more]) == 0
    found = {str(row["id"]): row["values"] for row in rows()}
    one = tg.explain(tg.load_model("m.safetensors"), x, "integrated_gradients").values.flatten(1)
    for row, expected in enumerate(one.numpy()):
        np.testing.assert_allclose(found[str(row)], expected, rtol=1e-4, atol=1e-6)


@pytest.mark.usefixtures("alone")
def test_a_command_that_was_interrupted_goes_on(x, capsys, monkeypatch):
    real = Worker.explain_each

    def stop(self, batch, known):
        if IDS[EACH] in batch.keys:
            raise KeyboardInterrupt
        return real(self, batch, known)

    with monkeypatch.context() as patch:
        patch.setattr(Worker, "explain_each", stop)
        assert main(EXPLAIN) == 130
    assert capsys.readouterr().err.splitlines()[-1] == (
        "tempograd: interrupted, what is done stays: the same command goes on from there."
    )
    before = states()
    assert len(before) == len(TABLES)  # of one file
    assert main(["runs", "out"]) == 0
    assert "left: 2 files" in capsys.readouterr().out
    assert main(EXPLAIN) == 0
    assert "24 series; left: 0 files" in capsys.readouterr().out
    assert {name: state for name, state in states().items() if name in before} == before
    one = tg.explain(tg.load_model("m.safetensors"), tg.Series(x, ids=IDS), n_samples=6, seed=3)
    np.testing.assert_array_equal(cells("out"), one.values.flatten(1).numpy())
    after = states()
    assert main(EXPLAIN) == 0
    assert "24 series; left: 0 files" in capsys.readouterr().out
    assert states() == after


class Terminal(io.StringIO):
    """What takes itself for a terminal."""

    def isatty(self):
        return True


@pytest.mark.usefixtures("x", "alone")
def test_a_terminal_shows_how_fast_it_goes_and_all_of_what_is_left(monkeypatch):
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setattr(progress, "PERIOD", 0.0)
    for expected in (FILES * EACH, EACH):
        with redirect_stderr(Terminal()) as shown:
            assert main([*EXPLAIN, "--batch-size", "2"]) == 0
        lines = re.findall(
            r"explain \[[#.]{24}\] +(\d+) %  \d+:\d\d elapsed, \d+:\d\d left  [\d.]+ series/s", shown.getvalue()
        )
        assert len(lines) >= expected // 2  # within files too
        assert list(map(int, lines)) == sorted(map(int, lines))
        assert lines[-1] == "100"
        next(Path("out/summary").iterdir()).unlink()


@pytest.mark.usefixtures("x", "alone")
def test_programs_hear_how_far_it_is(capsys, monkeypatch):
    """One line of JSON on standard error for each event, the summary on standard output."""
    assert main([*EXPLAIN, "--json"]) == 0
    shown = capsys.readouterr()
    begin, *lines, end = [json.loads(line) for line in shown.err.splitlines()]
    assert (begin["event"], end["event"], end["done"]) == ("begin", "end", FILES * EACH)
    assert [(line["done"], line["total"], line["faults"]) for line in lines] == [
        (EACH * (number + 1), FILES * EACH, 0) for number in range(FILES)
    ]
    for line in lines:
        assert line["per_second"] == pytest.approx(line["done"] / line["seconds"])
        rest = (line["total"] - line["done"]) / line["per_second"]
        assert line["left"] == pytest.approx(rest)
    assert json.loads(shown.out)["series"] == FILES * EACH
    monkeypatch.setattr(progress, "DELAY", 0.0)
    with redirect_stderr(Terminal()) as terminal:
        next(Path("out/summary").iterdir()).unlink()
        assert main([*EXPLAIN, "--json", "--batch-size", "2"]) == 0
    (line,) = (line for line in terminal.getvalue().splitlines() if '"fragment"' in line)
    assert json.loads(line)["done"] == FILES * EACH
    assert "series/s" not in terminal.getvalue()  # and no bar beside them


def planted(x):
    """Plant three series that cannot be explained."""
    bad = x.clone()
    bad[3, 2, 1], bad[11, 0, 0], bad[12, 0, 0] = torch.nan, torch.inf, torch.nan
    write(bad)
    return {IDS[3], IDS[11], IDS[12]}


def test_faults_are_an_exit_code_of_their_own(x, capsys, said):
    planted(x)
    assert main([*EXPLAIN, "--max-faults", "0.1"]) == 4
    shown = capsys.readouterr()
    assert shown.out == ""
    said(shown.err)
    assert main([*EXPLAIN, "--max-faults", "0.1"]) == 4
    said(capsys.readouterr().err)
    assert main([*EXPLAIN, "--max-faults", "0.2"]) == 4
    assert tg.open_run("out").verdict() in capsys.readouterr().out


@pytest.mark.usefixtures("alone")
def test_runs_counts_what_is_in_the_files(x, capsys):
    bad = planted(x)
    assert main([*EXPLAIN, "--max-faults", "1", "--keep", "day", "--limit", str(2 * EACH)]) == 4
    capsys.readouterr()
    assert main(["runs", "out", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    there = rows()
    assert {row["day"] for row in there} == {0, 1}
    faults = {row["id"]: row["fault"] for row in there if row["fault"] is not None}
    assert faults.keys() == bad
    assert (told["series"], told["fragments"], told["faults"]) == (len(there), 2, len(faults))
    assert (told["left"], told["failed"], told["version"]) == (1, 0, tg.open_run("out").version)
    assert told["bytes"] == sum(path.stat().st_size for name in TABLES for path in Path("out", name).iterdir())
    assert told["good"] == sum(row["verdict"] == "good" for row in there)
    assert sorted((each["series"], each["ids"]) for each in told["fault_reasons"]) == [
        (1, [IDS[11]]),
        (2, [IDS[3], IDS[12]]),
    ]
    assert told["verdict"] == tg.open_run("out").verdict()
    assert main(["runs", "out/"]) == 0
    shown = capsys.readouterr().out
    for line in ("done: 16 series; left: 1 file", "without an explanation: 3 of 16 series"):
        assert f"  {line}\n" in shown
    assert told["verdict"] in shown


@pytest.mark.usefixtures("alone")
def test_runs_tells_what_failed_and_keeps_what_is_old_until_then(x, capsys, monkeypatch):
    assert main(EXPLAIN) == 0
    old = {row["source"]: row for row in rows()}["1.parquet"]
    write(x.flip(0))
    real = Worker.explain_each

    def failing(self, batch, known):
        if IDS[EACH] in batch.keys:
            raise RuntimeError("the cable is loose")
        return real(self, batch, known)

    monkeypatch.setattr(Worker, "explain_each", failing)
    capsys.readouterr()
    assert main(EXPLAIN) == 4
    error = capsys.readouterr().err
    assert "1 file or fragment could not be read or explained" in error
    assert "'tempograd runs FOLDER' tells more" in error
    np.testing.assert_equal({row["source"]: row for row in rows()}["1.parquet"], old)
    assert main(["runs", "out"]) == 0
    shown = capsys.readouterr().out
    assert "  done: 24 series; left: 0 files\n" in shown
    assert "  failed: 1.parquet, RuntimeError: the cable is loose\n" in shown


def test_a_sample_is_evaluated_as_its_series_are(x, capsys):
    bad = planted(x)
    for out, method in (("out/", "timing"), ("other/", "occlusion")):
        settings = ["--n-samples", "6", "--seed", "3"] if method == "timing" else []
        options = ["--data", "in", "--max-faults", "1", "--out", out, "--method", method]
        assert main(["explain", *MODEL, *options, *settings]) == 4
    capsys.readouterr()
    argv = ["evaluate", "out", "other", *MODEL, "--metrics", "cpd,accuracy", "--sample", "9", "--json"]
    assert main(argv) == 0
    told = json.loads(capsys.readouterr().out)
    ids = told["ids"]
    assert len(set(ids)) == 9
    assert set(ids) <= set(IDS) - bad
    model = tg.load_model("m.safetensors")
    for folder, entry in zip(("out", "other"), told["explanations"], strict=True):
        expected = tg.evaluate(model, tg.open_run(folder).take(ids), metrics=["cpd", "accuracy"])
        for metric, scores in expected.items():
            assert entry["metrics"][metric]["scores"] == scores.tolist()
    plain = tg.explain(model, tg.Series(x[[IDS.index(each) for each in ids]], ids=ids), n_samples=6, seed=3)
    expected = tg.evaluate(model, plain, metrics=["cpd"])["cpd"]
    np.testing.assert_allclose(told["explanations"][0]["metrics"]["cpd"]["scores"], expected, rtol=1e-5)
    assert main(["evaluate", "out", *MODEL, "--sample", "9"]) == 0
    assert capsys.readouterr().out.startswith("9 of 24 series of out\n")


@pytest.mark.usefixtures("x")
def test_a_report_shows_the_sample(capsys):
    assert main(EXPLAIN) == 0
    capsys.readouterr()
    assert main(["report", "out/", *MODEL, "--sample", "5"]) == 0
    assert capsys.readouterr().out == ("Wrote report.html about 5 of 24 series of out: open it in a browser.\n")
    page = Page(Path("report.html")).content
    assert len(page["ids"]) == 5
    expected = tg.open_run("out").take(page["ids"])
    tg.report("expected.html", tg.load_model("m.safetensors"), [expected])
    np.testing.assert_equal(page["maps"], Page(Path("expected.html")).content["maps"])


@pytest.mark.usefixtures("x")
def test_one_series_of_a_run_is_looked_at(capsys):
    assert main(EXPLAIN) == 0
    capsys.readouterr()
    assert main(["top", "out", "--series", str(IDS[5]), "--k", "3", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    row = next(row for row in rows() if row["id"] == IDS[5])
    assert [each["attribution"] for each in told["strongest"]] == row["top_value"][:3]
    assert main(["top", "out", "--json"]) == 0
    assert int(json.loads(capsys.readouterr().out)["series"]) in IDS


FAULTS = (
    "--data in",
    "--data in --out e.safetensors",
    "--data nowhere/ --out out/",
    "--data in/*.csv --out out/",
    "--data in --out in/",
    "--data in --out in/0.parquet/",
    "--data in --out s3://lake/out/",
    "--data in --out out/ --x y",
    "--data in --out out/ --x day",
    "--data in --out out/ --keep dya",
    "--data in --out out/ --keep day --partition site",
    "--data in --out out/ --shape 3,2",
    "--data in --out out/ --max-faults 2",
    "--data in --out out/ --workers 0",
    "--data in --out out/ --limit 0",
    "--data in --out out/ --price -1",
    "--data x.npy --price 3",
    "--data x.npy --partition day",
    "--data in --out out/ --no-gradient-check",
    "--data in --out out/ --targets 0,1",
    "--data in --out out/ --method contralsp",
    "--data in --out out/ --method fit",
    "--data in --out out/ --target 7",
    "--data state --out out/ --workers 2",
    "--data x.npy --workers 2",
    "--data x.npy --out out/ --keep day",
)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_mistake_is_one_sentence_before_anything_starts(fault, x, capsys, said):
    np.save("x.npy", x.numpy())
    assert main(["explain", *MODEL, *fault.split()]) in {2, 3, 5}
    said(capsys.readouterr().err)
    assert not Path("out").exists()


@pytest.mark.usefixtures("x")
def test_another_run_in_the_folder_is_refused(capsys, said):
    assert main(EXPLAIN) == 0
    before = states()
    capsys.readouterr()
    assert main([*EXPLAIN, "--n-samples", "7", "--keep", "day"]) == 5
    said(capsys.readouterr().err)
    assert states() == before


@pytest.mark.parametrize(
    "words",
    [
        "runs in",
        "runs nowhere",
        "runs m.safetensors",
        "evaluate in --model m.safetensors",
        "evaluate out --model m.safetensors --sample 0",
        "evaluate m.safetensors --model m.safetensors --sample 3",
        "report out other --out r.html",
        "top out --series nobody",
        "top out --series 5",
    ],
)
def test_what_is_no_run_or_not_in_it(words, x, capsys, said):
    assert main(EXPLAIN) == 0
    explain_files(tg.load_model("m.safetensors"), tg.Series(x[:1], ids=["a"]), "other", n_samples=6)
    capsys.readouterr()
    assert main(words.split()) in {2, 3, 5}
    said(capsys.readouterr().err)


def tables(**files):
    """Write one CSV file for each text of lines, into a folder."""
    Path("csv").mkdir()
    for name, lines in files.items():
        Path("csv", f"{name}.csv").write_text("\n".join(lines.split()))


COLUMNS = ["explain", *MODEL, "--data", "csv/*.csv", "--out", "out/", "--method", "integrated_gradients"]


@pytest.mark.usefixtures("x")
@pytest.mark.parametrize(
    "options",
    ["--channels b,a", "--channels b,a --shape 3,2", "--channels b,a --label state"],
)
def test_columns_of_tables_by_name(options, capsys):
    tables(q="id,time,a,state,b u,0,1,ill,0.5 u,1,2,ill,-1 u,2,-1,ill,1")
    assert main([*COLUMNS, *options.split()]) == 0
    one = [
        *COLUMNS[:3],
        *MODEL[2:],
        "--data",
        "csv/q.csv",
        "--method",
        "integrated_gradients",
        "--out",
        "one.safetensors",
    ]
    assert main([*one, "--channels", "b,a"]) == 0
    expected = tg.Explanation.load("one.safetensors")
    np.testing.assert_allclose(cells("out"), expected.values.flatten(1).numpy(), rtol=1e-5, atol=1e-7)
    capsys.readouterr()
    assert main(["top", "out", "--series", "u", "--json"]) == 0
    assert {each["channel"] for each in json.loads(capsys.readouterr().out)["strongest"]} == {"a", "b"}


@pytest.mark.usefixtures("x")
@pytest.mark.parametrize("together", [1, 2])
def test_an_id_in_two_files_is_told_by_every_command(together, capsys, monkeypatch, said):
    monkeypatch.setattr(fragments, "MOST_FILES", together)
    line = "k,0,1,2 k,1,3,4"
    tables(p=f"id,time,a,b {line}", q=f"id,time,a,b {line}")
    for words in (
        COLUMNS,
        ["top", "out", "--series", "k"],
        ["top", "out"],
        ["report", "out", "--out", "r.html"],
        ["evaluate", "out", *MODEL],
    ):
        assert main(words) in {2, 3, 4, 5}
        said(capsys.readouterr().err)


@pytest.mark.usefixtures("x")
def test_ids_of_two_kinds_are_told_by_every_command(capsys, said):
    tables(p="id,time,a,b 1,0,1,2 1,1,3,4", q="id,time,a,b 007,0,1,2 007,1,3,4")
    for words in (COLUMNS, ["top", "out", "--series", "007"], ["report", "out"], ["evaluate", "out", *MODEL]):
        assert main(words) in {2, 3, 5}
        said(capsys.readouterr().err)


GAP = {
    "p": "id,time,a,b u,0,1,2 u,1,3,4 u,2,5,6",
    "q": "id,time,a,b v,0,1,2 v,2,5,6 w,0,1,2 w,1,3,4 w,2,5,6",
}


@pytest.mark.usefixtures("x")
def test_what_is_wrong_with_a_file_is_kept_whole(capsys):
    """With what to do about it, which then works."""
    tables(**GAP)
    assert main(COLUMNS) == 4
    capsys.readouterr()
    assert main(["runs", "out"]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "failed" in line)
    assert "align=" in line
    assert main([*COLUMNS[:-3], "other/", *COLUMNS[-2:], "--align", "time"]) == 0
    assert "  missing: 11 % of the cells, which the model reads as 0\n" in capsys.readouterr().out


def masked(x):
    """Leave out a cell of the first series, the end of the second, and all of the third, which has no number."""
    masks = torch.ones(x.shape, dtype=torch.bool)
    masks[0, 2, 1], masks[1, 7:], masks[2, 3] = False, False, False
    x[2, 0, 0] = torch.nan
    return masks


@pytest.mark.parametrize("value", [0.0, 5.0])
def test_missing_cells_are_told_once(value, x, capsys):
    masks = masked(x)
    x[~masks] = value
    write(x, masks)
    assert main([*EXPLAIN, "--mask", "seen", "--max-faults", "1"]) == 4
    shown = capsys.readouterr().out
    share = 1 / ((FILES * EACH - 1) * TIME * CHANNELS - 3 * CHANNELS)  # of explained series, up to their ends
    line = f"  missing: {100 * share:.2g} % of the cells{'' if value else ', which the model reads as 0'}\n"
    assert line in shown
    assert main(["runs", "out", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["missing"] == pytest.approx(share)
    assert main(["runs", "out"]) == 0
    assert line in capsys.readouterr().out


@pytest.mark.usefixtures("x")
def test_nothing_is_said_where_no_cell_is_missing(capsys):
    assert main(EXPLAIN) == 0
    assert main(["runs", "out"]) == 0
    assert "missing" not in capsys.readouterr().out


@pytest.mark.slow  # three processes load torch
def test_several_workers_give_the_same(x):
    assert main([*EXPLAIN, "--workers", "2"]) == 0
    one = tg.explain(tg.load_model("m.safetensors"), tg.Series(x, ids=IDS), n_samples=6, seed=3)
    np.testing.assert_array_equal(cells("out"), one.values.flatten(1).numpy())
