"""Every other public function: loading, saving, training, wrapping, objects of explainers and metrics."""

import random
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import tempograd as tg
from tempograd.data import Dataset, Series
from tempograd.explainers import EXPLAINERS
from tempograd.metrics import METRICS
from tempograd.models import Recipe
from tests.fuzz import parts
from tests.fuzz.calls import QUICK, near
from tests.fuzz.files import models
from tests.fuzz.trials import REFUSED, RIGHT, Case, OwnError, must
from tests.fuzz.worlds import CHANNELS, CLASSES, TIME, WEIGHTS, Flat

PATHS: tuple[Any, ...] = (
    *(
        None,
        5,
        1.5,
        "",
        "a\0b",
        b"x",
        [],
        {},
        object(),
        "nowhere",
        "a\nb",
        "folder",
        "other.txt",
        Path("nowhere/deep"),
    ),
    *(
        "\udcff",
        ".",
        "folder/",
        "other.txt/deep",
        "~",
        "%s",
        "http://example.org/x.csv",
        "x.npz",
        "x.safetensors",
        torch.zeros(2),
        len,
    ),
)


def door(rng: random.Random, folder: Path) -> Case:
    """Call one of the other public functions."""
    (folder / "other.txt").write_text("somebody else's")
    (folder / "folder").mkdir()
    return rng.choice((_reading, _saving, _training, _object, _metric, _wrapped, _picked, _fitted, _again))(
        rng, folder
    )


def _reading(rng: random.Random, _: Path) -> Case:
    """Read from a place where nothing can be read."""
    path = rng.choice(PATHS)
    name = rng.choice(("Explanation.load", "read_series", "load_model", "weights", "load_dataset", "root"))
    functions: dict[str, Callable[[], Any]] = {
        "Explanation.load": lambda: tg.Explanation.load(path),
        "read_series": lambda: tg.read_series(path),
        "load_model": lambda: tg.load_model(path),
        "weights": lambda: tg.load_model("tests.fuzz.worlds:Flat", weights=path),
        "load_dataset": lambda: tg.load_dataset(path),
        "root": lambda: tg.load_dataset("wafer", root=path),
    }
    may = must(REFUSED) if path is not None or name not in {"weights", "root"} else must(RIGHT, REFUSED)
    return Case(f"{name}({parts.shown(path)})", functions[name], lambda found: "", may, draws=name == "weights")


def _saving(rng: random.Random, folder: Path) -> Case:
    """Save a model, or what is none, somewhere."""
    (folder / "model.safetensors").write_bytes(models()["model.safetensors"])
    model = (
        tg.load_model(folder / "model.safetensors")
        if rng.random() < 0.7
        else rng.choice((Flat(), None, "model", 5, nn.Linear))
    )
    path = rng.choice(("new.safetensors", "new.safetensors", "model.safetensors", *PATHS))
    facts = None if rng.random() < 0.7 else rng.choice(({"a": 1}, {}, {"a": float("nan")}, {"a": {"b": [1]}}))
    sound = (
        isinstance(model, nn.Module)
        and not isinstance(model, Flat)
        and path in ("new.safetensors", "model.safetensors")
        and facts is None
    )

    def call() -> Any:
        tg.save_model(model, path, facts=facts)
        return tg.load_model(path)

    def right(found: Any) -> str:
        kept = all(
            torch.equal(a, b)
            for a, b in zip(model.state_dict().values(), found.state_dict().values(), strict=True)
        )
        return "" if kept else "other weights"

    leaves = frozenset({"new.safetensors", "model.safetensors"} | ({path} if isinstance(path, str) else set()))
    text = f"save_model({parts.shown(model)}, {parts.shown(path)}, facts={parts.shown(facts)})"
    return Case(
        text,
        call,
        right,
        must(RIGHT) if sound else must(RIGHT, REFUSED),
        leaves=leaves - {"other.txt", "folder"},
        draws=True,
    )


def _small(rng: random.Random, count: int = 6) -> Dataset:
    def split() -> Series:
        return Series(
            torch.from_numpy(parts.numbers(rng, count, TIME, CHANNELS)).float(), torch.arange(count) % CLASSES
        )

    return Dataset("small", split(), None, split(), CLASSES, ("a", "b"))


ODD_TRAINING: dict[str, tuple[Any, ...]] = {
    "model": ("grue", None, 5, nn.Linear, "", len),
    "seed": ("a", 1.5, None, 2**70, [1]),
    "recipe": (Recipe(1, 1e-3, 0.0, 4, shuffle=False, patience=None),),
    "device": ("cpu", "cuda:99", "nowhere", 5, "", "meta"),
    "options": ({}, {"hidden": 2}, {"hiden": 2}, {"hidden": -1}, {"hidden": "a"}, {"hidden": 10**12}),
    "epochs": (0, -1, 1.5, "a", None, True, [1]),
    "learning_rate": (-1.0, "a", float("nan"), None),
    "batch_size": (0, "a", -3, 1.5),
}


def _training(rng: random.Random, _: Path) -> Case:
    options: dict[str, Any] = {"epochs": 1, "options": {"hidden": 2}}
    name = rng.choice(("gru", "cnn", "transformer"))
    given: dict[str, Any] = {"model": name if name == "gru" else "gru"}
    if rng.random() < 0.9:
        key = rng.choice(sorted(ODD_TRAINING))
        (given if key == "model" else options)[key] = rng.choice(ODD_TRAINING[key])
    data: Any = _small(rng)
    if rng.random() < 0.2:
        data = rng.choice((None, "state", 5, torch.zeros(2), data.train, {}))

    def right(model: Any) -> str:
        reached = tg.accuracy(model, data.test)
        return "" if not model.training and 0 <= reached <= 1 else "no model"

    text = f"train({parts.shown(given['model'])}, {parts.shown(data)}, {parts.listed(options)})"
    return Case(text, lambda: tg.train(given["model"], data, **options), right, draws=True)


def _object(rng: random.Random, _: Path) -> Case:
    """Call an explainer as an object, with arguments of which one may be wrong."""
    method = rng.choice(("Timing", "IntegratedGradients", "RandIG", "Occlusion", "DeepLift"))
    explainer = getattr(tg, method)()
    truth = parts.numbers(rng, 2, TIME, CHANNELS)
    x = torch.from_numpy(truth).float()
    model: Any = Flat().eval()
    options: dict[str, Any] = {"output": "raw", "target": rng.randrange(CLASSES)}
    odd = rng.random() < 0.5
    if odd:
        model, x, options = rng.choice(
            (
                (None, x, options),
                (model, None, options),
                (Flat, x, options),
                (model, x[0], options),
                (model, x, options | {"target": 9}),
                ("tests.fuzz.worlds:Flat", x, options),
                (model, x[:, :2], options),
                (model, x[..., :1], options),
                (model, torch.cat([x, x], 2), options),
                (nn.Linear(7, 2), x, options),
                (nn.GRU(CHANNELS, 2), x, options),
                (lambda a, b: a, x, options),
                (lambda: None, x, options),
            )
        )
    return Case(
        f"{method}()({parts.shown(model)}, {parts.shown(x)}, {options})",
        lambda: explainer(model, x, **options),
        lambda found: near(found.values.double().numpy(), WEIGHTS[options["target"]] * truth),
        must(REFUSED) if odd else must(RIGHT),
        watched=(model if isinstance(model, nn.Module) else None, x),
    )


def _metric(rng: random.Random, _: Path) -> Case:
    """Make a metric with odd settings."""
    kind = rng.choice(sorted(METRICS))
    names = sorted(part.name for part in fields(METRICS[kind]))
    odd: tuple[Any, ...] = (
        5,
        "",
        None,
        -1,
        0,
        1.5,
        "signed",
        [],
        {},
        object(),
        float("nan"),
        "a\nb" * 200,
        True,
        np.array([1, 2]),
        10**400,
    )
    options = {rng.choice(names): rng.choice(odd) for _ in range(rng.randint(1, 2))}
    text = f"METRICS[{kind!r}]({parts.listed(options)})"
    return Case(
        text,
        lambda: METRICS[kind](**options),
        lambda found: "" if found.name and found.parameters is not None else "no name",
    )


def _wrapped(rng: random.Random, _: Path) -> Case:
    net: Any = Flat().eval()
    calls: tuple[Any, ...] = (net.forward, net, lambda z, scale=1: net(z) * scale)
    odd: tuple[Any, ...] = (None, 5, "call", len, lambda: None, lambda a, b, c: a, lambda z: None)
    sound = rng.random() < 0.5
    call = rng.choice(calls if sound else odd)
    given: Any = net if sound or rng.random() < 0.5 else rng.choice((None, nn.Linear, "net", 5))
    truth = parts.numbers(rng, 2, TIME, CHANNELS)
    x = torch.from_numpy(truth).float()
    return Case(
        f"Predictor({parts.shown(call)}, modules=[{parts.shown(given)}])",
        lambda: tg.explain(tg.Predictor(call, modules=[given]), x, "integrated_gradients", output="raw", target=1),
        lambda found: near(found.values.double().numpy(), WEIGHTS[1] * truth),
        must(RIGHT) if sound else must(REFUSED),
        watched=(net, x),
    )


def _raise(_: Any) -> Any:
    raise OwnError


def _picked(rng: random.Random, _: Path) -> Case:
    """Explain what a function picks from the output."""
    sound: tuple[Any, ...] = (lambda out: out[:, 1], lambda out: out[..., 1], lambda out: out[:, 1:2].sum(1))
    odd: tuple[Any, ...] = (
        *(
            lambda out: out,
            lambda out: out[0],
            lambda out: None,
            lambda out: 1.0,
            lambda out: out[:, 1].detach().numpy(),
        ),
        *(
            lambda out: out[:, 1] > 0,
            lambda out: "a",
            lambda out: out[:0, 1],
            lambda out: (out[:, 1],),
            lambda out: out[:, 1] * torch.nan,
        ),
        *(
            lambda out: torch.complex(out[:, 1], out[:, 1]),
            lambda out: out[:, 1].to_sparse(),
            lambda out: out[:, 1].to("meta"),
        ),
    )
    kind = rng.choice(("sound", "odd", "odd", "raises"))
    function = _raise if kind == "raises" else rng.choice(sound if kind == "sound" else odd)
    method = rng.choice(("timing", "integrated_gradients", "occlusion", "rand_ig", "lime", "gradient_shap"))
    truth = parts.numbers(rng, rng.randint(2, 3), TIME, CHANNELS)
    x, model = torch.from_numpy(truth).float(), Flat().eval()

    def right(found: Any) -> str:
        exact = kind == "sound" and method in {"timing", "integrated_gradients", "occlusion", "rand_ig"}
        return near(found.values.double().numpy(), WEIGHTS[1] * truth) if exact else ""

    may = {"sound": must(RIGHT), "odd": must(REFUSED), "raises": must(REFUSED)}[kind]
    text = f"{method} with a function as target, {kind} {odd.index(function) if kind == 'odd' else ''}"
    settings = QUICK.get(method, {})
    return Case(
        text,
        lambda: tg.explain(model, x, method, output="raw", target=function, **settings),
        right,
        may,
        (model, x),
        own_error=kind == "raises",
    )


def _fitted(rng: random.Random, _: Path) -> Case:
    """Learn from training series, of which something may be wrong, and explain."""
    method = rng.choice(sorted(EXPLAINERS))
    explainer = EXPLAINERS[method](**QUICK.get(method, {}))
    x = torch.from_numpy(parts.numbers(rng, 2, TIME, CHANNELS)).float()
    train = torch.from_numpy(parts.numbers(rng, 6, TIME, CHANNELS)).float()
    wrong = (
        None,
        "train",
        train[0],
        train[:0],
        train[:1],
        train[..., :1],
        train[:, :1],
        train * torch.nan,
        train.long(),
        [train],
        5,
    )
    odd = rng.random() < 0.5
    given: Any = rng.choice(wrong) if odd else train
    seed: Any = rng.choice((0, 5, np.int64(3))) if rng.random() < 0.8 else rng.choice((1.5, "a", None, 2**70))
    model: Any = (
        Flat().eval()
        if rng.random() < 0.6
        else nn.Sequential(nn.Flatten(), nn.Linear(TIME * CHANNELS, CLASSES)).eval()
    )

    def call() -> Any:
        return explainer.fit(model, given, seed=seed)(model, x)

    def right(found: Any) -> str:
        return "" if bool(found.values.isfinite().all()) and found.values.shape == x.shape else "no scores"

    return Case(
        f"{method}.fit({parts.shown(given)}, seed={parts.shown(seed)}) and call", call, right, watched=(model, x)
    )


def _again(rng: random.Random, _: Path) -> Case:
    """Explain twice, the second time within another context of torch's: the same numbers."""
    method = rng.choice(
        (
            "timing",
            "integrated_gradients",
            "occlusion",
            "rand_ig",
            "gradient_shap",
            "lime",
            "random",
            "dynamask",
            "extremal_mask",
        )
    )
    x, model = torch.from_numpy(parts.numbers(rng, 3, TIME, CHANNELS)).float(), Flat().train()
    options = {"seed": rng.randrange(100), "output": rng.choice(("raw", "probability")), **QUICK.get(method, {})}
    contexts: dict[str, Callable[[], Any]] = {
        "no_grad": torch.no_grad,
        "inference_mode": torch.inference_mode,
        "enable_grad": torch.enable_grad,
        "anomaly": lambda: torch.autograd.set_detect_anomaly(True, check_nan=False),
        "saved on the CPU": torch.autograd.graph.save_on_cpu,
        "errors of numpy": lambda: np.errstate(all="raise"),
    }
    name = rng.choice(sorted(contexts))

    def call() -> Any:
        first = tg.explain(model, x, method, **options)
        with contexts[name]():
            return first, tg.explain(model, x, method, **options)

    def right(found: Any) -> str:
        first, second = found
        return near(second.values.numpy(), first.values.numpy(), 1e-6)

    return Case(f"{method}({options}) and again within {name}", call, right, must(RIGHT), (model, x))
