"""Commands as people type them, with one or two things wrong: the result, or one line and the right exit code."""

import io
import json
import random
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

import tempograd as tg
from tempograd.cli import main
from tempograd.core.errors import TempogradError
from tests.fuzz.files import models
from tests.fuzz.series_files import long_csv
from tests.fuzz.trials import REFUSED, RIGHT, Case, must, sentence
from tests.fuzz.worlds import CHANNELS, TIME, Flat

OTHER = "somebody else's\n"
EXPLANATIONS = {"timing.safetensors", "occlusion.safetensors", "other.safetensors"}


class LineError(TempogradError):
    """What a command printed in place of a result."""


@cache
def _files() -> dict[str, bytes]:
    """Return the files that lie in the folder of every command."""
    x = np.arange(3.0 * TIME * CHANNELS, dtype=np.float32).reshape(3, TIME, CHANNELS) / 8 - 1
    found = {name: models()[name] for name in ("model.safetensors", "weights.pt", "script.pt", "pickled.pt")}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.savez(folder / "series.npz", x=x, y=np.array([0, 1, 2]), channels=np.array(["a", "b"]))
        np.savez(folder / "truth.npz", x=x, truth=x > 0)
        np.savez(folder / "gaps.npz", x=np.where(x == 0, np.nan, x))
        np.save(folder / "array.npy", x)
        np.savez(folder / "wide.npz", x=x[:, :, [0, 1, 0]])
        series = torch.from_numpy(x)
        for method in ("timing", "occlusion"):
            tg.explain(Flat().eval(), series, method, output="raw", target=1).save(
                folder / f"{method}.safetensors"
            )
        tg.explain(Flat().eval(), tg.Series(series[:2], ids=[7, 9]), "random").save(
            folder / "other.safetensors", series=False
        )
        found |= {path.name: path.read_bytes() for path in folder.iterdir()}
    found["long.csv"] = long_csv()
    found["other.txt"] = OTHER.encode()
    found["empty.npz"] = found["empty.safetensors"] = b""
    found["plan.toml"] = b'title = "t"\ndatasets = ["nothing"]\nmodels = ["gru"]\nexplainers = ["random"]\n'
    return found


# what is plausible, by command; a list is a choice
MODELS = ["tests.fuzz.worlds:Flat", "tests.fuzz.worlds:Flat", "tests.fuzz.worlds:Cumulative", "model.safetensors"]
DATA = ["series.npz", "series.npz", "array.npy", "truth.npz", "long.csv"]
Options = dict[str, list[str | None]]
PLAUSIBLE: dict[str, tuple[list[list[str]], Options]] = {
    "explain": (
        [[]],
        {
            "--model": MODELS,
            "--data": DATA,
            "--out": ["new.safetensors", "new.safetensors", "timing.safetensors"],
            "--method": ["timing", "random", "occlusion", "integrated_gradients", "lime"],
            "--set": ["n_samples=4", "seed=3", "n_samples=none", "control_variates=false", "n_steps=4"],
            "--target": ["0", "1"],
            "--baseline": ["zero", "average"],
            "--output": ["raw", "probability"],
            "--steps": ["own", "0,1", "2"],
            "--seed": ["0", "5"],
            "--limit": ["1", "2"],
            "--train": ["series.npz"],
            "--missing": ["mask", "error"],
            "--device": ["cpu"],
            "--weights": ["weights.pt"],
            "--json": [None],
            "--force": [None],
        },
    ),
    "evaluate": (
        [["timing.safetensors"], ["timing.safetensors", "occlusion.safetensors"], ["other.safetensors"]],
        {
            "--model": MODELS,
            "--data": DATA,
            "--metrics": ["cpd", "cpd,cpp", "prediction_difference", "auroc,cpd"],
            "--k": ["0.1", "2", "1.0"],
            "--substitute": ["zero", "average"],
            "--json": [None],
        },
    ),
    "report": (
        [["timing.safetensors"], ["timing.safetensors", "occlusion.safetensors"]],
        {
            "--model": MODELS,
            "--data": DATA,
            "--out": ["new.html"],
            "--series": ["0", "2"],
            "--units": ["mmol/L,bpm", "a,"],
            "--classes": ["a,b,c", "well,ill"],
            "--force": [None],
        },
    ),
    "list": ([[], ["explainers"], ["metrics"], ["datasets"], ["models"]], {"--json": [None]}),
    "table": (
        [["table1"], ["smoke"], ["plan.toml"]],
        {
            "--results": ["folder", "nowhere"],
            "--format": ["markdown", "latex", "csv", "json"],
            "--protocol": ["fair", "published"],
            "--out": ["new.md"],
            "--json": [None],
        },
    ),
}
NEVER_RUN: dict[str, tuple[list[list[str]], Options]] = {  # what would take long if nothing were wrong with it
    "train": (
        [["stat"], [""], ["state\n"], ["series.npz"], ["other.txt"]],
        {
            "--model": ["gru", "cnn"],
            "--fold": ["0"],
            "--out": ["new.safetensors"],
            "--epochs": ["1"],
            "--json": [None],
        },
    ),
    "bench": (
        [["plan.toml"], ["nowhere.toml"], ["other.txt"], [""], ["long.csv"], ["folder"]],
        {"--out": ["folder/new"], "--workers": ["1", "0", "-3"], "--datasets": ["state"], "--folds": ["0", "x"]},
    ),
    "demo": (
        [
            ["--out", "other.txt"],
            ["--methods", "nothing"],
            ["--device", "nowhere"],
            ["--series", "0"],
            ["--epochs", "-1"],
        ],
        {"--seed": ["0"], "--force": [None]},
    ),
}
ODD = (
    *(
        "",
        " ",
        "-1",
        "0",
        "1e400",
        "nan",
        "inf",
        "²",
        "x" * 400,
        "a\nb",
        "\x1b[31m",
        "null",
        "[[[[",
        "none",
        "--",
        "=",
        "a=b=c",
        "1,2,,",
        ",",
    ),
    *(
        "folder",
        "other.txt",
        "empty.npz",
        "empty.safetensors",
        "gaps.npz",
        "wide.npz",
        "pickled.pt",
        "script.pt",
        "weights.pt",
        "nowhere.npz",
    ),
    *(
        "nowhere/new.safetensors",
        "other.txt/new.html",
        "series.npz",
        "model.safetensors",
        "timing.safetensors",
        "long.csv",
        "cuda",
        "meta",
    ),
    *(
        "tests.fuzz.worlds:Nothing",
        "tests.fuzz.worlds:",
        ":Flat",
        "..:x",
        "nothing:Net",
        "sys:exit",
        "tests.fuzz.worlds:WORLDS",
        "json:loads",
        "9" * 400,
        "1_000",
        "٣",
        "\udcff",
    ),
    *(
        "n_samples=²",
        "x=1",
        "model=1",
        "n_samples=[[[",
        "quirks=1",
        "=",
        "n_samples",
        "n_samples=1e9",
        "method=timing",
        "times=5",
        "names=5",
        "a=" + "[" * 3000,
    ),
)
STRAYS = (
    "--",
    "-h",
    "--help",
    "--version",
    "--no-such",
    "-x",
    "--jsonn",
    "stray",
    "",
    "--out",
    "--model",
    "--data",
    "--set",
    "--k",
    "-",
)


def command(rng: random.Random, folder: Path) -> Case:
    """Run a command in a folder with a few small files."""
    for name, content in _files().items():
        (folder / name).write_bytes(content)
    (folder / "folder").mkdir()
    words, run = _words(rng)
    leaves = {"explanation.safetensors", "report.html"}
    written = next((value for option, value in reversed(list(pairwise(words))) if option == "--out"), "")
    if "--force" in words or not _files().get(written) or (words[0] == "explain" and written in EXPLANATIONS):
        leaves |= {written} - _inputs(words)
    return Case(
        f"tempograd {' '.join(_shown(word) for word in words)}",
        lambda: _run(words),
        lambda out: _wrong(words, out, folder),
        must(RIGHT, REFUSED) if run else must(REFUSED),
        leaves=frozenset(leaves),
        prints=True,
        draws=True,  # a model without weights of its own is made anew
    )


def _shown(word: str) -> str:
    """Write a word of a command as Python would."""
    return repr(word[:60])


def _inputs(words: list[str]) -> set[str]:
    outputs = {value for option, value in pairwise(words) if option == "--out"}
    return {word for word in words if word not in outputs}


def _words(rng: random.Random) -> tuple[list[str], bool]:
    run = rng.random() < 0.85
    name = rng.choice(
        ("explain", "explain", "explain", "evaluate", "evaluate", "report", "list", "table")
        if run
        else tuple(NEVER_RUN)
    )
    places, options = (PLAUSIBLE if run else NEVER_RUN)[name]
    pairs: list[list[str]] = []
    needed = {"--model", "--data", "--out", "--results"}
    for option, values in options.items():
        often = 0.9 if option in needed and not (name in {"evaluate", "report"} and option == "--data") else 0.25
        if rng.random() < often:
            value = rng.choice(values)
            pairs.append([option] if value is None else [option, value])
    for _ in range(rng.choice((0, 0, 1, 1, 2)) if pairs else 0):
        pair = rng.choice(pairs)
        if len(pair) == 2:
            pair[1] = rng.choice(ODD)
    rng.shuffle(pairs)
    head = list(rng.choice(places))
    if run and head and rng.random() < 0.15:
        head[rng.randrange(len(head))] = rng.choice(ODD)
    words = [name, *head, *(word for pair in pairs for word in pair)]
    if rng.random() < 0.12:
        words.insert(rng.randint(0, len(words)), rng.choice(STRAYS))
        run = True  # help may be asked for
    return words, run


def _run(words: list[str]) -> str:
    """Return what a command printed; whatever it refuses becomes an error with its line."""
    out, err, path = io.StringIO(), io.StringIO(), list(sys.path)
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code: Any = main(words)
    except SystemExit as stop:
        code = stop.code
    finally:
        sys.path[:] = path
    if code == 0:
        strange = _lines(err)
        if strange:
            raise RuntimeError(f"exit code 0, and on standard error {strange[0]!r}")
        return out.getvalue()
    raise LineError(_line(code, err))


def _lines(err: io.StringIO) -> list[str]:
    """Return what stands on standard error beside warnings."""
    return [line for line in err.getvalue().splitlines() if not line.startswith("tempograd: warning: ")]


def _line(code: Any, err: io.StringIO) -> str:
    """Return the one line of a command that was refused; anything else is a fault."""
    lines, said = _lines(err), ""
    if code in {2, 3, 4, 5} and len(lines) == 1 and lines[0].startswith("tempograd: "):
        said = lines[0].removeprefix("tempograd: ")
    elif code == 2 and lines and ": error: " in lines[-1] and lines[0].startswith("usage: "):
        said = f"Wrong usage ({len(lines[-1])} characters)."  # argparse writes no sentences
        said = said if lines[-1].isprintable() else lines[-1]
    fault = sentence(said) if said else f"standard error is {err.getvalue()[:400]!r}"
    if fault:
        raise RuntimeError(f"exit code {code}: {fault}")
    return said


def _wrong(words: list[str], out: str, folder: Path) -> str:
    """Say what is wrong with a result."""
    if {"-h", "--help", "--version"} & set(words):
        return "" if out else "no help"
    given = dict(pairwise(words))
    if "--json" in words:
        json.loads(out)
    if words[0] == "explain":
        made = tg.Explanation.load(folder / given.get("--out", "explanation.safetensors"))
        return "" if bool(made.values.isfinite().all()) and len(made) else "no scores"
    if words[0] == "report":
        page = (folder / given.get("--out", "report.html")).read_text(encoding="utf-8")
        return "" if page.lower().startswith("<!doctype html") else "no page"
    return "" if out or "--out" in words else "nothing was printed"
