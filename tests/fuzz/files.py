"""Files of explanations, models and series that were damaged, or that say what is not true of them."""

import json
import random
import tempfile
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save, save_file

import tempograd as tg
from tempograd.explanation import Explanation
from tempograd.explanation.files import checksum
from tests.fuzz import series_files
from tests.fuzz.trials import REFUSED, RIGHT, Case, must
from tests.fuzz.uses import same
from tests.fuzz.worlds import CHANNELS, TIME, Flat


def file(rng: random.Random, folder: Path) -> Case:
    """Open a file that something is wrong with."""
    return rng.choice((_explanation, _forged, _model, _series))(rng, folder)


def damaged(content: bytes, rng: random.Random) -> bytes:
    """Damage some bytes in one of many ways."""
    return bytes(rng.choice(series_files.DAMAGES)(bytearray(content), rng))


# --- explanations ----------------------------------------------------------------------------------------------


@cache
def _stored() -> tuple[bytes, Explanation]:
    x = torch.arange(2.0 * TIME * CHANNELS).view(2, TIME, CHANNELS) / 8 - 1
    found = tg.explain(
        Flat().eval(),
        tg.Series(x, mask=x != 0.5, ids=["a", "b"], channels=["c", "d"]),
        n_samples=4,
        output="raw",
        target=1,
    )
    with tempfile.TemporaryDirectory() as folder:
        return found.save(Path(folder) / "e.safetensors").read_bytes(), found


def _explanation(rng: random.Random, folder: Path) -> Case:
    content, found = _stored()
    bad = damaged(content, rng)
    (folder / "e.safetensors").write_bytes(bad)
    may = must(RIGHT) if bad == content else must(REFUSED)
    return Case(
        "Explanation.load of damaged bytes",
        lambda: Explanation.load("e.safetensors"),
        lambda loaded: same(found, loaded),
        may,
    )


ODD_JSON: tuple[Any, ...] = (
    None,
    5,
    -1,
    1.5,
    "x",
    "",
    [],
    {},
    True,
    10**30,
    [1],
    ["a"] * 9,
    {"a": 1},
    "\ud800",
    [[]],
    "raw\n" * 99,
)


def _forged(rng: random.Random, folder: Path) -> Case:
    """Write a file whose checksum fits, and whose parts may not."""
    content, _ = _stored()
    (folder / "e.safetensors").write_bytes(content)
    with safe_open(folder / "e.safetensors", "pt") as stored:
        header = dict(stored.metadata())
        tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118  # no dict
    what = rng.choice(("plain", "shapes", "tensor", "without", "schema"))
    if what in {"plain", "shapes"}:
        part = "tempograd" if what == "plain" else "shapes"
        found = json.loads(header[part])
        name = rng.choice(sorted(found))
        found[name] = rng.choice(ODD_JSON)
        header[part] = rng.choice(
            (json.dumps(found), json.dumps(found), json.dumps(found)[:-3], "[" * 5000, "null")
        )
    elif what == "schema":
        name, header["schema"] = "schema", rng.choice(("2", "-1", "x", "", "9" * 4000, "0"))
    else:
        name = rng.choice(sorted(tensors))
        tensor = tensors.pop(name)
        if what == "tensor":
            changes = (
                tensor[:1],
                tensor.flatten()[:0],
                tensor.double(),
                tensor.long(),
                tensor.bool(),
                tensor[None],
                tensor.float() * torch.nan,
            )
            tensors[name] = rng.choice(changes).contiguous()
    if rng.random() < 0.8:
        header = {key: text for key, text in header.items() if key != "checksum"}
        header["checksum"] = checksum(tensors, header)
    save_file(tensors, folder / "e.safetensors", header)

    def use() -> str:
        loaded = Explanation.load("e.safetensors")
        loaded.verdict()
        loaded.top(1)
        loaded.to_dataframe()
        return repr(loaded) + repr(loaded[:1])

    return Case(f"a forged explanation: {what} {name}", use, lambda text: "" if text else "nothing")


# --- models ----------------------------------------------------------------------------------------------------


@cache
def models() -> dict[str, bytes]:
    """Return one file of every kind that is quick to open."""
    found = {}
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is deprecated
        folder = Path(name)
        with torch.random.fork_rng():
            torch.manual_seed(0)
            tg.save_model(tg.models.build("gru", CHANNELS, 3, hidden=2), folder / "model.safetensors")
        torch.save(Flat().state_dict(), folder / "weights.pt")
        torch.save(Flat().state_dict(), folder / "old.pth", _use_new_zipfile_serialization=False)
        torch.save(Flat(), folder / "pickled.pt")
        torch.jit.save(
            torch.jit.script(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(8, 3)).eval()),
            folder / "script.pt",
        )
        found = {path.name: path.read_bytes() for path in folder.iterdir()}
    found["weights.safetensors"] = save(Flat().state_dict())
    return found


def _model(rng: random.Random, folder: Path) -> Case:
    name = rng.choice(sorted(models()))
    content = models()[name] if rng.random() < 0.15 else damaged(models()[name], rng)
    path = f"{rng.choice(('', '', '', 'a b', 'ä'))}{name}"
    if rng.random() < 0.1:
        path = f"file{rng.choice(('.pt', '.safetensors', '.pt2', '.onnx', '', '.pth', '.PT', '.pkl'))}"
    (folder / path).write_bytes(content)
    as_weights = rng.random() < 0.5
    trust = rng.random() < 0.3 and name != "pickled.pt"
    options: dict[str, Any] = {"trust": True} if trust else {}
    if rng.random() < 0.1:
        options["device"] = rng.choice(("cuda", "meta", "", "cpu:0", "gpu", None, 5, "cpu\n", "xla"))

    def call() -> Any:
        if as_weights:
            return tg.load_model("tests.fuzz.worlds:Flat", weights=path, **options)
        return tg.load_model(path, **options)

    def right(model: Any) -> str:
        if model.training:
            return "a model in training mode"
        with torch.no_grad():
            answer = model(torch.zeros(2, TIME, CHANNELS))
        return "" if len(answer) == 2 else "no answer"

    pickled = name == "pickled.pt" or (name == "script.pt" and not trust and not as_weights)
    return Case(
        f"load_model({'weights=' if as_weights else ''}{path!r} with damage, {options})",
        call,
        right,
        must(REFUSED) if pickled else must(RIGHT, REFUSED),
        draws=True,
    )


# --- series ----------------------------------------------------------------------------------------------------


@cache
def sound_series() -> tuple[series_files.SeriesFile, ...]:
    with tempfile.TemporaryDirectory() as folder:
        return tuple(series_files.sound_files(Path(folder)))


@cache
def _odd_series() -> tuple[series_files.SeriesFile, ...]:
    return (*series_files.lying_headers(), *series_files.odd_archives(), *series_files.odd_content())


ODD_OPTIONS: tuple[tuple[str, Any], ...] = (
    *(("format", value) for value in ("long", "wide", "tall", "", None, 5)),
    *(("align", value) for value in ("time", "order", "both", 1)),
    *(
        (name, value)
        for name in ("id", "time", "label")
        for value in ("id", "time", "a", "none", "", 5, "x" * 999)
    ),
    *(("channels", value) for value in (["a"], ["b", "a"], ["a", "a"], [], "ab", 5, ["none"], None)),
    *(("classes", value) for value in (["well", "ill"], ["well"], ["a", "a"], [], "ab", 5, [1, 2])),
    *(("missing", value) for value in ("mask", "error", "fill", 5)),
)


def _series(rng: random.Random, folder: Path) -> Case:
    """Read a file of series that is damaged, lies, or is told to be what it is not."""
    kind = rng.choice(("damaged", "damaged", "odd", "options"))
    file = rng.choice(_odd_series() if kind == "odd" else sound_series())
    content = damaged(file.content, rng) if kind == "damaged" else file.content
    name = (
        file.name
        if rng.random() < 0.9
        else rng.choice(("x.csv", "x.npz", "x.parquet", "x.ts", "x", "x.txt", "x.npy", "x.csv.gz"))
    )
    (folder / name).write_bytes(content)
    options = dict(file.options)
    for _ in range(rng.randint(0, 2) if kind == "options" else 0):
        key, value = rng.choice(ODD_OPTIONS)
        options[key] = value

    def right(found: Any) -> str:
        found = found.padded()
        if not bool(found.x.isfinite().all()) or min(found.x.shape) == 0:
            return "series that are empty or not finite"
        count, steps, channels = found.x.shape
        own = found.times is not None and not isinstance(found.times[0], str)
        stamps = [(times, steps) for times in (found.times if own else [found.times])]
        sizes = ((found.ids, count), (found.channels, channels), (found.times if own else None, count), *stamps)
        if (
            any(names is not None and len(names) != size for names, size in sizes)
            or len(set(found.keys.tolist())) != count
        ):
            return "names that do not fit"
        return "" if found.mask is None or found.mask.shape == found.x.shape else "a mask of another shape"

    return Case(
        f"read_series({name!r}: {kind} {file.what}, {options})", lambda: tg.read_series(name, **options), right
    )
