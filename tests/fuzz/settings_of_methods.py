"""Settings of all explainers: several at once, one of them perhaps of a kind that it cannot be."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import torch

import tempograd as tg
from tempograd.explainers import EXPLAINERS
from tests.fuzz import parts
from tests.fuzz.calls import QUICK
from tests.fuzz.trials import REFUSED, RIGHT, Case, must
from tests.fuzz.worlds import CHANNELS, TIME, WORLDS

COUNTS = (1, 2, 3, 5, 8)
SHARES = (0.1, 0.3, 0.5, 0.9)
WEIGHTS = (0.0, 0.1, 1.0, 10.0)
# what each setting may hold, written down here once more, and not read from the code that is tested
SOUND: dict[str, tuple[Any, ...]] = {
    "n_steps": COUNTS,
    "n_samples": COUNTS,
    "epochs": (1, 2),
    "segments": (None, 0, 1, 2),
    "min_length": (None, 1, 2),
    "max_length": (None, 1, 2, TIME),
    "anchored": (None, 0.0, 0.5, 0.95),
    "control_variates": (True, False),
    "tolerance": (None, 0.1, 0.5),
    "max_samples": (8, 16, 64),
    "stop_when": ("error", "top"),
    "rule": ("gauss-legendre", "midpoint"),
    "absolute": (True, False),
    "p": SHARES,
    "noise": WEIGHTS,
    "alpha": (0.01, 0.1),
    "relative": (True, False),
    "width": (0.5, 2.0),
    "distance": ("kept", "series", "pd", "kl", "js"),
    "marginal": ("per_time", "pooled"),
    "over": ("target", "all"),
    "mask_weight": WEIGHTS,
    "replacement_weight": WEIGHTS,
    "sigma": (0.1, 1.0),
    "lr": (0.01, 0.1),
    "learning_rate": (0.001, 0.01),
    "contrastive": ("none", "triplet"),
    "areas": ((0.3,), (0.2, 0.5), [0.1, 1.0], np.array([0.5])),
    "perturbation": ("blur", "mean", "window", "reference"),
    "size_weight": WEIGHTS,
    "growth": (1.0, 10.0),
    "time_weight": WEIGHTS,
    "deletion": (True, False),
    "hidden": (None, 2),
    "patience": (None, 1),
    "fit_batch_size": (2, 4),
    "weight_decay": WEIGHTS,
    "prior": SHARES,
    "sparsity": WEIGHTS,
    "connection": WEIGHTS,
    "label_weight": WEIGHTS,
    "scaled": (True, False),
    "embedding": (None,),
    "gaussian_weight": WEIGHTS,
    "reference_weight": WEIGHTS,
    "window": (1, 2),
    "aggregation": ("mean", "max", "absmax"),
    "sampler": ("generator", "marginal"),
}
NEVER: tuple[Any, ...] = (  # no setting may hold these
    *("twelve", "", b"1", object(), {"a": 1}, 1j, float("nan"), float("inf"), -1.0, -7, 10**400, [], [[1]], ...),
    *(
        np.array([1, 2]),
        np.float64("nan"),
        torch.tensor([1.0, 2.0]),
        torch.tensor(float("nan")),
        "x\n" * 1000,
        len,
    ),
    *(np.datetime64("2020"), 1e400, -np.inf, (0.5, 0.1), ["a"], np.zeros((2, 2)), torch.zeros(3, device="meta")),
)
SEVERAL = {"areas"}  # which hold several values


def setting(rng: random.Random, _: Path) -> Case:
    """Explain with several settings of a method."""
    method = rng.choice(sorted(EXPLAINERS))
    chosen, odd = _chosen(rng, method)
    world = rng.choice([world for world in WORLDS if world.module]) if rng.random() < 0.8 else rng.choice(WORLDS)
    x = torch.from_numpy(parts.numbers(rng, 2, TIME, CHANNELS)).float()
    train = (
        torch.from_numpy(parts.numbers(rng, 5, TIME, CHANNELS)).float()
        if EXPLAINERS[method].needs_fit or rng.random() < 0.2
        else None
    )
    output = rng.choice(("raw", "probability"))
    positional = {"model", "x"} & chosen.keys()

    def call() -> Any:
        if positional:  # Python itself refuses two values for one argument
            return tg.explain(**({"model": world.model, "x": x} | chosen), method=method)
        return tg.explain(world.predictor(output=output), x, method, background=train, output=output, **chosen)

    def right(found: Any) -> str:
        values = found.values
        if values.shape != x.shape or not values.isfinite().all():
            return f"values of shape {tuple(values.shape)}, or not finite"
        if not found.signed and method != "random" and method not in {"fit", "winit"} and float(values.min()) < 0:
            return "a score below 0 of a method without a sign"
        kept = found.parameters
        for name, value in chosen.items():
            plain = value.item() if isinstance(value, np.generic) else value
            if name in kept and name not in SEVERAL and kept[name] != plain:
                return f"{name}={value!r} came back as {kept[name]!r}"
        return "" if found.method == method and repr(found) else "no name"

    return Case(
        text=f"{method}({parts.listed(chosen)}) on {world.name}, output={output}",
        call=call,
        right=right,
        may=must(REFUSED) if odd else must(RIGHT, REFUSED),
        watched=(world.model, x),
    )


def _chosen(rng: random.Random, method: str) -> tuple[dict[str, Any], bool]:
    """Return settings, and whether one of them must be refused."""
    names = [name for name in SOUND if name in EXPLAINERS[method].__dataclass_fields__]
    some = rng.sample(names, rng.randint(0, min(4, len(names))))
    chosen = QUICK.get(method, {}) | {name: _form(rng, rng.choice(SOUND[name])) for name in some}
    if chosen.get("tolerance") is not None and "max_samples" in names:
        chosen.setdefault("max_samples", 32)
    else:  # which make no difference then, and are refused
        chosen = {name: value for name, value in chosen.items() if name not in {"max_samples", "stop_when"}}
    if rng.random() < 0.05:
        return chosen | {rng.choice(("pionts", "model", "x", "self", "", "lr2", "a b")): 1}, True
    if not names or rng.random() < 0.5:
        return chosen, False
    odd = rng.choice(names)
    chosen[odd] = rng.choice(NEVER)
    if odd in SEVERAL and isinstance(chosen[odd], (list, tuple, np.ndarray)):
        chosen[odd] = ["twelve"]
    return chosen, True


def _form(rng: random.Random, value: Any) -> Any:
    """Return a number as numpy has it, now and then."""
    if isinstance(value, bool):
        return np.bool_(value) if rng.random() < 0.2 else value
    if isinstance(value, int) and rng.random() < 0.3:
        return rng.choice((np.int64, np.int32, np.uint8))(value)
    return np.float64(value) if isinstance(value, float) and rng.random() < 0.3 else value
