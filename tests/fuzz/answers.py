"""Models that return anything: what is one row of numbers per series is explained, all else is refused."""

import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import tempograd as tg
from tests.fuzz import parts
from tests.fuzz.calls import QUICK, near
from tests.fuzz.trials import REFUSED, RIGHT, Case, OwnError, must
from tests.fuzz.worlds import CHANNELS, TIME, WEIGHTS

METHODS = (
    "timing",
    "integrated_gradients",
    "occlusion",
    "rand_ig",
    "gradient_shap",
    "lime",
    "random",
    "deep_lift",
)


class Answers(nn.Module):
    """A linear model with a head that turns its answer into something else."""

    def __init__(self, head: Any) -> None:
        super().__init__()
        self.weights, self.head = nn.Parameter(torch.from_numpy(WEIGHTS).float()), head

    def forward(self, x: torch.Tensor) -> Any:
        return self.head(torch.einsum("ntd,ctd->nc", x, self.weights.to(x.dtype)), x)


def _raised(*_: Any) -> Any:
    raise OwnError("of the user's own\nmodel")


def _nested(answer: torch.Tensor) -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a prototype, which says so
        return torch.nested.as_nested_tensor([answer[0]] * len(answer))


# what stands for the three outputs themselves, with the scale of their scores
SOUND: dict[str, Any] = {
    "as it is": lambda a, x: a,
    "double": lambda a, x: a.double(),
    "in place": lambda a, x: (x.mul_(0), a)[1],
    "a copy": lambda a, x: a.clone().contiguous(),
    "a view": lambda a, x: torch.stack([a, a], 0)[0],
    "not contiguous": lambda a, x: torch.cat([a, a], 1)[:, :3],
    "a list": lambda a, x: [a],
    "a dict": lambda a, x: {"logits": a, "loss": None},
}
NOTHING: dict[str, Any] = {
    "None": lambda a, x: None,
    "a tuple": lambda a, x: (a, a),
    "a number": lambda a, x: 1.5,
    "text": lambda a, x: "yes",
    "bool": lambda a, x: a > 0,
    "complex": lambda a, x: torch.complex(a, a),
    "sparse": lambda a, x: a.to_sparse(),
    "NaN": lambda a, x: a * torch.nan,
    "infinite": lambda a, x: a / 0,
    "no column": lambda a, x: a[:, :0],
    "no row": lambda a, x: a[:0],
    "a row too many": lambda a, x: torch.cat([a, a[:1]]),
    "a number for all": lambda a, x: a.sum(),
    "meta": lambda a, x: a.to("meta"),
    "nested": lambda a, x: _nested(a),
    "an object": lambda a, x: object(),
    "a class": lambda a, x: torch.Tensor,
}
OPEN: dict[str, Any] = {
    "four axes": lambda a, x: a[:, None, None, :].expand(-1, 2, 2, -1),
    "steps of another series": lambda a, x: a[:, None].expand(-1, TIME + 1, -1),
    "integers": lambda a, x: (a * 100).to(torch.int64),
    "half": lambda a, x: a.half(),
    "bfloat16": lambda a, x: a.bfloat16(),
    "no gradient": lambda a, x: a.detach(),
    "numpy": lambda a, x: a.detach().numpy(),
    "zeros": lambda a, x: a * 0,
    "constant": lambda a, x: torch.ones_like(a),
    "huge": lambda a, x: a * 1e30,
    "tiny": lambda a, x: a * 1e-40,
    "probabilities": lambda a, x: a.softmax(-1),
    "steps": lambda a, x: a[:, None].expand(-1, TIME, -1),
    "NaN for one series": lambda a, x: torch.cat([a[:1] * torch.nan, a[1:]]),
    "one axis": lambda a, x: a[:, 0],
    "a subclass": lambda a, x: nn.Parameter(a.detach()),
    "float8": lambda a, x: a.to(torch.float8_e4m3fn),
    "raises": _raised,
    "of noise": lambda a, x: a + torch.randn_like(a),
    "counting": lambda a, x: a[:, :1] if len(a) % 2 else a,
}


def answer(rng: random.Random, _: Path) -> Case:
    """Explain, and sometimes evaluate, a model that returns something odd."""
    kinds = rng.choice((SOUND, NOTHING, NOTHING, OPEN, OPEN))
    name = rng.choice(sorted(kinds))
    inner = Answers(kinds[name]).eval()
    model = inner if rng.random() < 0.5 else inner.forward
    x = parts.numbers(rng, rng.randint(2, 3), TIME, CHANNELS)
    series, method = torch.from_numpy(x).float(), rng.choice(METHODS)
    target = rng.choice((0, 1, None)) if kinds is not SOUND else rng.randrange(3)
    options = {"output": rng.choice(("raw", "raw", "probability")), "target": target, **QUICK.get(method, {})}
    if method in {"timing", "rand_ig"}:
        options = options | {"n_samples": 8}
    elif method == "integrated_gradients":
        options = options | {"n_steps": 8}
    on_evaluation = rng.random() < 0.25

    def call() -> Any:
        if not on_evaluation:
            return tg.explain(model, series, method, **options)
        sound = tg.explain(Answers(SOUND["as it is"]), series, "random", output="raw", target=0)
        return tg.evaluate(model, sound, metrics=["cpd", "accuracy"], k=2)

    def right(found: Any) -> str:
        if on_evaluation:
            return (
                ""
                if all(scores.shape == (len(x),) and not scores.isinf().any() for scores in found.values())
                else "no scores"
            )
        values = found.values.double().numpy()
        if values.shape != x.shape or not np.isfinite(values).all():
            return f"values of shape {values.shape}, or not finite"
        if kinds is SOUND and options["output"] == "raw" and method in METHODS[:4] and name != "in place":
            return near(values, WEIGHTS[target] * x)
        return ""

    what = "evaluate" if on_evaluation else method
    may = {id(NOTHING): must(REFUSED)}.get(id(kinds), must(RIGHT, REFUSED))
    if method == "random" or on_evaluation:
        may = must(RIGHT, REFUSED)
    return Case(
        text=f"{what} of a model that returns {name}, {options}, module: {model is inner}",
        call=call,
        right=right,
        may=may,
        watched=(inner, series),
        own_error=name == "raises",
        draws=name == "of noise",
    )
