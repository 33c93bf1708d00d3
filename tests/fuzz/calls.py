"""Calls of ``explain``: sound ones against the numbers they must give, others with one or two odd arguments."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import tempograd as tg
from tempograd.explainers import EXPLAINERS
from tests.fuzz import parts
from tests.fuzz.parts import LEFT_OUT, NONSENSE, OPEN, Part
from tests.fuzz.trials import REFUSED, RIGHT, Case, must
from tests.fuzz.worlds import CHANNELS, TIME, WORLDS, World, linear_map, occluded

# as quick as they can be
QUICK: dict[str, dict[str, Any]] = {
    "augmented_occlusion": {"n_samples": 2},
    "contralsp": {"epochs": 1},
    "dynamask": {"epochs": 1, "areas": (0.3,)},
    "extremal_mask": {"epochs": 1},
    "fit": {"epochs": 1, "n_samples": 2, "hidden": 2, "fit_batch_size": 4},
    "gradient_shap": {"n_samples": 4},
    "lime": {"n_samples": 8},
    "timex": {"epochs": 1, "fit_batch_size": 4},
    "timexpp": {"epochs": 1, "fit_batch_size": 4},
    "winit": {"epochs": 1, "n_samples": 1, "window": 2, "fit_batch_size": 4},
}
EXACT = ("timing", "integrated_gradients", "rand_ig", "deep_lift", "occlusion")  # w·(x − x') for a linear model
OFTEN = (*EXACT, "timing", "integrated_gradients", "occlusion", "random", "gradient_shap", "lime")
LEARNING = ("augmented_occlusion", "contralsp", "dynamask", "extremal_mask", "fit", "timex", "timexpp", "winit")
OF_SERIES = ("mask", "ids", "channels", "times", "layout")
ALWAYS = {"timing", "integrated_gradients", "rand_ig", "occlusion", "random"}  # answer any sound question


def call(rng: random.Random, _: Path) -> Case:
    """Make a call of explain."""
    asked = Asked(rng)
    return Case(
        text=f"explain({asked.world.name}, {parts.listed(asked.options)})",
        call=asked.answer,
        right=asked.fault,
        may=asked.may(),
        watched=(asked.world.model, asked.options["x"], asked.options.get("mask"), asked.options.get("baseline")),
    )


class Asked:
    """A question with what each of its arguments stands for."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.world: World = rng.choice(WORLDS)
        learning = rng.random() < 0.12
        self.method = rng.choice(LEARNING if learning else OFTEN)
        self.odd = rng.choice((0, 0, 1, 1, 1, 2))  # how many arguments may be anything
        self.count = rng.randint(1, 3)
        self.truth = parts.numbers(rng, self.count, TIME, CHANNELS)
        self.parts: dict[str, Part] = {}
        self._fill()
        self.options = {name: part.value for name, part in self.parts.items() if part.means is not LEFT_OUT}
        self.options |= {"method": self.method, **QUICK.get(self.method, {})}
        if EXPLAINERS[self.method].needs_fit or rng.random() < 0.05:
            self.train = torch.from_numpy(parts.numbers(rng, 6, TIME, CHANNELS)).float()
            self.options["background"] = self.train

    def answer(self) -> Any:
        """Explain, with what belongs to the series in a Series."""
        known = {name: value for name, value in self.options.items() if name in OF_SERIES}
        question = {name: value for name, value in self.options.items() if name not in (*OF_SERIES, "x")}
        x = self.options["x"]
        model = self.world.predictor(output=question.get("output"), steps=question.get("steps"))
        return tg.explain(model, tg.Series(x, **known) if known else x, **question)

    def _fill(self) -> None:
        """Choose the arguments: most are left out, a few are sound, up to two are anything."""
        rng = self.rng
        shape, series = self.truth.shape, torch.from_numpy(self.truth).float()
        plain = Part(series, self.truth)
        makers: dict[str, Callable[[], Part]] = {
            "output": lambda: parts.word(rng, ("raw", "raw", "probability"), none=LEFT_OUT),
            "x": lambda: parts.series(rng, self.truth),
            "mask": lambda: parts.mask(rng, shape),
            "baseline": lambda: parts.baseline(rng, self.truth, self._seen()),
            "target": lambda: parts.target(rng, self.world, self.count, self._word("output", "probability")),
            "steps": lambda: parts.steps(rng, self.world, self.count),
            "seed": lambda: parts.seed(rng),
            "ids": lambda: parts.ids(rng, self.count),
            "channels": lambda: parts.labels(rng, CHANNELS),
            "times": lambda: parts.labels(rng, TIME),
            "draws": lambda: parts.integer(rng, (1, 1, 2), 1),
            "batch_size": lambda: parts.integer(rng, (1, 2, 7, 1000), 1),
            "precision": lambda: parts.word(rng, ("full", "full", "tf32")),
            "gradient_check": lambda: parts.flag(rng),
        }
        anything = set(rng.sample(sorted(makers), self.odd))
        often = {"x": 1.0, "output": 0.8, "baseline": 0.4, "mask": 0.35, "target": 0.5}
        for name, make in makers.items():
            if name in anything:
                self.parts[name] = make()
            elif rng.random() < often.get(name, 0.12):
                self.parts[name] = plain if name == "x" and rng.random() < 0.6 else _sound(make)
        self._turn()

    def _turn(self) -> None:
        """Pass the same series the other way round, or with gaps, now and then."""
        x = self.parts["x"]
        if isinstance(x.means, np.ndarray) and self.rng.random() < 0.15:
            self._transpose()
        elif isinstance(x.means, np.ndarray) and self.rng.random() < 0.2:
            gaps = np.array([self.rng.random() < 0.3 for _ in range(self.truth.size)]).reshape(self.truth.shape)
            self.parts["x"] = Part(torch.from_numpy(np.where(gaps, np.nan, self.truth)).float(), ("gaps", gaps))
            if self.rng.random() < 0.6:
                self.parts["mask"] = Part("nan", None)
            baseline = self.parts.get("baseline")
            if baseline is not None and isinstance(baseline.value, str) and baseline.value == "average":
                del self.parts["baseline"]  # which is one of the cells that are left

    def _transpose(self) -> None:
        baseline = self.parts.get("baseline")
        if (
            baseline is not None
            and isinstance(baseline.means, np.ndarray)
            and not isinstance(baseline.value, str | None)
        ):
            del self.parts["baseline"]  # whose axes nobody has said to be turned
        self.parts["x"] = Part(torch.from_numpy(self.truth).float().transpose(1, 2), self.truth)
        self.parts["layout"] = Part("BDT", "BDT")
        seen = self.parts.get("mask")
        if seen is not None and isinstance(seen.means, np.ndarray):
            self.parts["mask"] = Part(np.swapaxes(seen.means, 1, 2), seen.means)

    def _word(self, name: str, usual: Any) -> Any:
        means = self.parts.get(name, Part(None, usual)).means
        return usual if isinstance(means, parts.Sign) else means

    def _seen(self) -> np.ndarray:
        found = self._word("mask", None)
        found = np.ones(self.truth.shape, bool) if found is None else found
        x = self.parts.get("x")
        if x is not None and isinstance(x.means, tuple) and x.means[0] == "gaps":
            found = found & ~x.means[1]
        return found

    def may(self) -> frozenset[str]:
        """Return what may come of the call."""
        signs = {part.means for part in self.parts.values() if isinstance(part.means, parts.Sign)}
        x, mask = self.parts["x"].means, self.parts.get("mask", Part(None, None))
        observed = np.ones(self.truth.shape, bool) if mask.means is None else mask.means
        marked = isinstance(mask.value, str) and mask.value == "nan"
        gaps = isinstance(x, tuple) and x[0] == "gaps" and isinstance(observed, np.ndarray) and not marked
        if NONSENSE in signs or (gaps and (x[1] & observed).any()):
            return must(REFUSED)
        if OPEN in signs or self.method not in ALWAYS:
            return must(RIGHT, REFUSED)
        return must(RIGHT)

    def fault(self, found: Any) -> str:
        """Say what is wrong with an explanation."""
        values = found.values.double().numpy()
        if values.shape != self.truth.shape or not np.isfinite(values).all():
            return f"values of shape {values.shape}, or not finite"
        seen = self._seen()
        if values[~seen].any():
            return "a cell that was not observed has a score"
        wrong = self._names(found)
        if wrong or OPEN in {part.means for part in self.parts.values() if isinstance(part.means, parts.Sign)}:
            return wrong
        return self._numbers(found, values, seen)

    def _names(self, found: Any) -> str:
        for name in ("ids", "channels", "times"):
            expected = self._word(name, None)
            kept = getattr(found, name)
            if expected is not None and list(kept.tolist() if name == "ids" else kept) != list(expected):
                return f"{name} came back as {kept}"
        return ""

    def _numbers(self, found: Any, values: np.ndarray, seen: np.ndarray) -> str:
        output, steps = self._word("output", "probability"), self._word("steps", None)
        absent = self._word("baseline", np.zeros_like(self.truth))
        gaps = self.parts["x"].means
        x = np.where(gaps[1], 0, self.truth) if isinstance(gaps, tuple) else self.truth
        if self.world.per_step and steps is None:  # all but the padding
            last = np.array([max((t + 1 for t in range(TIME) if row[t].any()), default=0) for row in seen])
            steps = (np.arange(TIME) < last[:, None]).astype(float)
        target = self._word("target", None)
        if target is None:
            if not self.world.clear(x):
                return ""
            target = self.world.predicted(x, output)
        given = self.options.get("background") is not None and self.options.get("baseline") is None
        if given and self.method == "occlusion":
            absent = np.broadcast_to(self.train.double().numpy().mean(0), x.shape)
        absent = np.where(seen, absent, x)
        if self.method == "occlusion":
            return near(values, occluded(self.world, x, absent, target, steps, output) * seen, self._rounding())
        if self.method in EXACT and self.world.linear and output == "raw":
            return near(values, linear_map(self.world, x, absent, target, steps) * seen, self._rounding())
        if self.method == "integrated_gradients" and not isinstance(steps, str):
            delta = self.world.scores(x, target, steps, output) - self.world.scores(absent, target, steps, output)
            return near(values.sum((1, 2)), delta, 2e-2) or near(
                found.delta.double().numpy(), delta, self._rounding()
            )
        return ""

    def _rounding(self) -> float:
        """Return what rounding may do: a function computes in the precision of its series, which may be a half."""
        kind = str(getattr(self.options["x"], "dtype", "float16"))
        return 1e-4 if self.world.module or "32" in kind or "64" in kind or "f4" in kind or "f8" in kind else 3e-2


def _sound(make: Callable[[], Part]) -> Part:
    """Return an argument that stands for something; it is left out where there is none."""
    tried = (make() for _ in range(30))
    return next((part for part in tried if not isinstance(part.means, parts.Sign)), Part(None, LEFT_OUT))


def near(found: np.ndarray, expected: np.ndarray, tolerance: float = 1e-4) -> str:
    """Say how far numbers are off; nothing where that is rounding."""
    gap = float(np.abs(found - expected).max())
    return "" if gap <= tolerance * (1 + float(np.abs(expected).max())) else f"off by {gap:.3g}"
