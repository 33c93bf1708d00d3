"""TIMING as captum's users call it; for a linear model every choice of masks gives w·(x − x')."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.fuzz import parts
from tests.fuzz.calls import near
from tests.fuzz.parts import NONSENSE, OPEN, Part
from tests.fuzz.trials import REFUSED, RIGHT, Case, must
from tests.fuzz.worlds import CHANNELS, CLASSES, TIME, WEIGHTS, WORLDS

ONE_SCORE = [world for world in WORLDS if world.linear and not world.per_step and world.columns > 1]


def captum_call(rng: random.Random, _: Path) -> Case:
    """Make a method and call it, with one of its arguments perhaps wrong."""
    from tempograd.captum import Timing

    world = rng.choice(ONE_SCORE)
    truth = parts.numbers(rng, rng.randint(1, 3), TIME, CHANNELS)
    x = torch.from_numpy(truth).to(torch.float64 if world.name == "double" else torch.float32)
    settings, call = _settings(rng), _arguments(rng, x)
    inputs, model = _put_wrong(rng, x, Part(world.model, world), call)
    every = [inputs, model, *settings.values(), *call.values()]
    signs = {part.means for part in every if isinstance(part.means, parts.Sign)}

    def right(found: Any) -> str:
        values = found.double().numpy() if isinstance(found, torch.Tensor) else np.array(np.nan)
        if not np.isfinite(values).all():
            return "no finite scores"
        absent = call["baselines"].means if "baselines" in call else 0.0
        return "" if signs else near(values, WEIGHTS[call["target"].means] * (truth - absent))

    made, options = ({name: part.value for name, part in given.items()} for given in (settings, call))
    name = world.name if model.means is world else parts.shown(model.value)
    return Case(
        f"captum.Timing({name}, {made}).attribute({parts.shown(inputs.value)}, {parts.listed(options)})",
        lambda: Timing(model.value, **made).attribute(inputs.value, **options),
        right,
        must(REFUSED) if NONSENSE in signs else must(RIGHT, REFUSED) if signs else must(RIGHT),
        (world.model, x),
    )


def _settings(rng: random.Random) -> dict[str, Part]:
    found = {}
    if rng.random() < 0.2:
        found["segments"] = parts.integer(rng, (0, 1, 2), 0)
    if rng.random() < 0.2:
        found["seed"] = parts.seed(rng)
    return found


def _arguments(rng: random.Random, x: torch.Tensor) -> dict[str, Part]:
    many, one = [rng.randrange(CLASSES) for _ in range(len(x))], rng.randrange(CLASSES)
    same = np.full(len(x), one)
    targets = (Part(torch.tensor(many), np.array(many)), Part(many, np.array(many)), Part(one, same))
    call = {"target": rng.choice((*targets, Part(torch.tensor([one]), same)))}
    if rng.random() < 0.4:
        given = parts.numbers(rng, *rng.choice((x.shape, (1, *x.shape[1:]))))
        numbers = (Part(0.5, np.array(0.5)), Part(2, np.array(2.0)), Part(None, np.zeros(1)))
        call["baselines"] = rng.choice((Part(torch.from_numpy(given).to(x), given), *numbers))
    call["n_steps"] = parts.integer(rng, (4, 8), 1) if rng.random() < 0.3 else Part(4, 4)
    if rng.random() < 0.3:
        call["internal_batch_size"] = parts.integer(rng, (1, 2, 100), 1)
    return call


def _put_wrong(rng: random.Random, x: torch.Tensor, model: Part, call: dict[str, Part]) -> tuple[Part, Part]:
    """Make one thing wrong, or nothing; return the inputs and the model."""
    odd = rng.choice(("", "", "", "inputs", "target", "baselines", "forward", "delta"))
    if odd == "inputs":
        series = (x.numpy(), x[0], x[:0], x.long(), x * torch.nan, x.to_sparse(), x.to("meta"), x[0, 0, 0])
        return Part(rng.choice((*series, (x, 5), (), None, "x", [x], (x, x[:0]))), NONSENSE), model
    if odd == "target":
        wrong = (None, CLASSES, -9, "0", 0.5, [0] * 9, (0, 1), torch.zeros(2, 2, 2), {}, object(), True, [None])
        call["target"] = Part(rng.choice(wrong), OPEN)
    elif odd == "baselines":
        wrong = ("zero", x[:, :2], (0, 0), torch.zeros(9), float("nan"), {}, object(), [1, [2]], x * torch.nan)
        call["baselines"] = Part(rng.choice(wrong), NONSENSE)
    elif odd == "forward":
        model = Part(rng.choice((None, "model", 5, torch.nn.Linear, [model.value])), NONSENSE)
    elif odd == "delta":
        call["return_convergence_delta"] = Part(rng.choice(("yes", 2, None)), NONSENSE)
    return Part(x, x), model
