"""The reports that the browser opens: small, quick to make, and each with something that may go wrong.

Numbers of a page are compared with what the library says about the same model and series, so a case keeps both.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import tempograd as tg
from tests.helpers.explanations import named_ward

HOSTILE = (
    "<img src=x onerror='window.hacked=1'>",
    "</script><script>window.hacked=2</script>",
    "Tom &amp; <b>O₂</b>",
    '" onmouseover="window.hacked=3',
)
CLASSES = ("calm", "<i onclick='window.hacked=4'>storm</i>", "a & b")
LINK = '<a href="https://example.org/?q=1">mmol</a>'


@dataclass(frozen=True)
class Case:
    """A report and what it was made from."""

    path: Path
    model: Callable[[Tensor], Tensor] | None
    explanations: dict[str, tg.Explanation]
    split: tg.Series | None = None
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def first(self) -> tg.Explanation:
        return next(iter(self.explanations.values()))

    @property
    def x(self) -> Tensor:
        assert self.first.x is not None
        return self.first.x

    @property
    def ids(self) -> list[int]:
        """The numbers of the series on the page: their places, where their ids are texts."""
        return self.first.ids.tolist() if self.first.names is None else list(range(len(self.first)))

    def row(self, name: Any) -> int:
        return self.ids.index(int(name))

    def observed(self, row: int) -> Tensor:
        mask = self.first.mask
        return torch.ones_like(self.x[row], dtype=torch.bool) if mask is None else mask[row]

    def shown(self) -> Tensor:
        """Return the values people read: in their own units where those were given."""
        return self.options.get("raw", self.x if self.first.raw is None else self.first.raw)

    def answer(self, series: Tensor) -> Tensor:
        """Return what the page calls the prediction: probabilities or the output as it is, a mean over steps."""
        assert self.model is not None
        with torch.no_grad():
            found = self.model(series)
        if self.first.output == "probability":
            both = torch.cat([0 * found, found], -1) if found.shape[-1] == 1 else found  # of class 1 of two
            found = both.softmax(-1)
        return found if found.ndim == 2 else found.mean(1)

    def order(self, method: str, row: int) -> list[tuple[int, int]]:
        """Return the observed cells of a series, the strongest first, by a plain sort of their sizes."""
        explanation, seen = self.explanations[method], self.observed(row)
        found = explanation.importance[row]
        cells = [(t, d) for t in range(seen.shape[0]) for d in range(seen.shape[1]) if seen[t, d]]
        return sorted(cells, key=lambda cell: -float(found[cell]))

    def without(self, method: str, row: int, count: int) -> Tensor:
        """Return what the model says once the ``count`` strongest cells stand at the baseline, by a plain loop."""
        series = self.x[row].clone()
        for cell in self.order(method, row)[:count]:
            series[cell] = self.explanations[method].baseline[row][cell]
        return self.answer(series[None])[0]


def write(path: Path, model: Any, explanations: Any, split: tg.Series | None = None, **options: Any) -> Case:
    named = explanations if isinstance(explanations, dict) else {e.method: e for e in explanations}
    names = {key: options[key] for key in ("raw", "units", "classes") if key in options}
    labels = {} if split is None else {"y": split.y, "truth": split.truth}
    named = {label: replace(each, **names, **labels) for label, each in named.items()}
    tg.report(path, model, named, **{key: each for key, each in options.items() if key not in names})
    return Case(path, model, named, split, options)


def network(time: int, channels: int, outputs: int, seed: int = 1) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        layers = (nn.Linear(time * channels, 16), nn.Tanh(), nn.Linear(16, outputs))
        model = nn.Sequential(nn.Flatten(), *layers).eval()
    model.tempograd_task = "classification" if outputs == 1 else None
    return model


def series(count: int, time: int, channels: int, seed: int = 1) -> Tensor:
    return torch.randn(count, time, channels, generator=torch.Generator().manual_seed(seed))


def wrong_now_and_then(predicted: Tensor) -> Tensor:
    """Return labels that contradict every third prediction of each of two classes."""
    label = predicted.clone()
    for kind in (0, 1):
        rows = (predicted == kind).nonzero().flatten()[::3]
        label[rows] = 1 - kind
    return label


class Running(nn.Module):
    """One row of outputs per step: class 1 gains with the mean of channel 1 so far."""

    def forward(self, x: Tensor) -> Tensor:
        mean = x[..., 1].cumsum(1) / torch.arange(1, x.shape[1] + 1)
        return torch.stack([torch.zeros_like(mean), 3 * mean], -1)


class Drift(nn.Module):
    """Two classes for long series: the mean of a squashed first half against that of the second."""

    def forward(self, x: Tensor) -> Tensor:
        half = x.shape[1] // 2
        gap = x[:, :half].tanh().mean((1, 2)) - x[:, half:].tanh().mean((1, 2))
        return torch.stack([gap, -gap], -1) * 20


def classifier(path: Path) -> Case:
    """Three classes, missing cells, truth, two methods, names with HTML in them, values in other units."""
    model, x = network(20, 4, 3), series(9, 20, 4)
    mask = torch.ones_like(x, dtype=torch.bool)
    mask[:, 3:6, 0] = False
    mask[2, :, 1] = False
    truth = torch.zeros_like(mask)
    truth[:, 7, 2] = truth[:, 12:15, 0] = True
    x = x * mask  # what a loader leaves in missing cells
    with torch.no_grad():
        y = model(x).argmax(-1)
    y[::3] = (y[::3] + 1) % 3
    split = tg.Series(x, y, mask=mask, truth=truth, ids=torch.arange(40, 49))
    given = tg.Series(x, mask=mask, ids=split.ids, channels=HOSTILE)
    timing = tg.explain(model, given, "timing", n_samples=20)
    unsigned = tg.explain(model, given, "augmented_occlusion", background=x, n_samples=2)
    named = {"timing": timing, HOSTILE[1]: unsigned}
    raw = x * torch.tensor([2.0, 10.0, 0.5, 100.0]) + torch.tensor([5.0, 0.0, -3.0, 1000.0])
    names = {"units": (LINK, "bpm", "°C", "mmHg"), "classes": CLASSES, "title": f"Three {HOSTILE[0]}"}
    return write(path, model, named, split, raw=raw, **names)


def binary(path: Path) -> Case:
    """Two classes with hits, misses, false alarms and true negatives."""
    model, x = network(16, 3, 2), series(12, 16, 3)
    y = wrong_now_and_then(model(x).argmax(-1))
    ids = torch.tensor([7, 3, 11, 2, 30, 5, 21, 8, 13, 1, 17, 4])
    split = tg.Series(x, y, ids=ids)
    found = [tg.explain(model, tg.Series(x, ids=ids), m) for m in ("timing", "integrated_gradients", "random")]
    return write(path, model, found, split)


def one_column(path: Path) -> Case:
    """A classifier with one logit, series with names, and a method that scores what matters least far below 0."""
    model, x = network(12, 2, 1), series(8, 12, 2)
    y = wrong_now_and_then((model(x)[:, 0] > 0).long())
    x = tg.Series(x, y, ids=(*"7654321", HOSTILE[0]))  # most of them are the number of another series
    found = [tg.explain(tg.Predictor(model, task="binary"), x, method) for method in ("timing", "random")]
    found[1] = replace(found[1], values=found[1].values * torch.tensor([-9.0, 1.0]), method="fit")
    return write(path, model, found, x, classes=("alive", "died"))


def per_step(path: Path) -> Case:
    """One prediction per step, labels per step, truth known."""
    model, x = Running().eval(), series(6, 24, 3)
    truth = torch.zeros_like(x, dtype=torch.bool)
    truth[..., 1] = True
    split = tg.Series(x, (x[..., 1] > 0).long(), truth=truth)
    found = [
        tg.explain(tg.Predictor(model, task="per_step"), x, m, target=1)
        for m in ("timing", "integrated_gradients")
    ]
    return write(path, model, found, split)


def alarms(path: Path) -> Case:
    """One prediction per step, and at each the predicted class is explained."""
    model, x = Running().eval(), series(5, 30, 2, seed=3)
    split = tg.Series(x, (x[..., 1] > 0.3).long())
    return write(path, model, [tg.explain(tg.Predictor(model, task="per_step"), x, "timing")], split)


def regression(path: Path) -> Case:
    """A real-valued output."""
    model, x = network(14, 2, 1), series(5, 14, 2)
    split = tg.Series(x, x.mean((1, 2)))
    found = [tg.explain(model, x, m, output="raw") for m in ("timing", "integrated_gradients")]
    return write(path, model, found, split)


def length_of_stay(path: Path) -> Case:
    """A number with a name and a unit, and true values; the signs of one channel are not certain."""
    model, x = network(14, 2, 1), series(5, 14, 2)
    found = tg.explain(tg.Predictor(model, classes=["length of stay [days]"], task="regression"), x)
    error = torch.tensor([1e-4, 10.0]) * found.values.abs()
    return write(path, model, [replace(found, standard_error=error)], tg.Series(x, x.mean((1, 2))))


def scores(path: Path) -> Case:
    """Three outputs of which nobody told what they are."""
    model, x = network(12, 2, 3), series(6, 12, 2)
    channels = ("accelerometer on the left wrist, x", "accelerometer on the left wrist, y")
    return write(path, model, [tg.explain(model, tg.Series(x, channels=channels), output="raw", target=0)])


class Gauges(nn.Module):
    """Two classes: class 1 gains with the last steps of channel 0 and loses with those of channel 3."""

    def forward(self, x: Tensor) -> Tensor:
        late = torch.linspace(0, 1, x.shape[1]) ** 4
        gain = (x * late[:, None]).sum(1)
        score = 0.9 * gain[:, 0] - 0.5 * gain[:, 3] + 0.1 * gain[:, 1:].tanh().sum(1)
        return torch.stack([-score, score], -1) / 2


def ward_round(path: Path) -> Case:
    """What a ward would send: forty stays of two days, twenty channels, gaps, labels, units and a control."""
    model, x = Gauges().eval(), series(40, 48, 20, seed=5)
    drawn = torch.rand(x.shape, generator=torch.Generator().manual_seed(6))
    mask = drawn > torch.linspace(0.1, 0.8, 20)
    x = x * mask
    y = wrong_now_and_then(model(x).argmax(-1))
    raw = x * torch.linspace(1, 20, 20) + torch.linspace(5, 100, 20)
    stays = tg.Series(
        x,
        y,
        mask=mask,
        raw=raw,
        channels=tuple(f"{'gauge' if d % 2 else 'Level'} {d}" for d in range(20)),
        units=("mmol/L", "", "mmHg", "kg") * 5,
        times=[f"{hour:02d}:00" for hour in range(48)],
        ids=torch.arange(500, 540),
    )
    methods, named = (
        ("timing", "integrated_gradients", "random"),
        tg.Predictor(model, classes=("survived", "died")),
    )
    found = [tg.explain(named, stays, method, target=1) for method in methods]
    return write(path, model, found, stays, title="A ward round")


def single(path: Path) -> Case:
    """One series of one value."""
    model, x = network(1, 1, 2), torch.full((1, 1, 1), 1.5)
    return write(path, model, [tg.explain(model, x, "integrated_gradients")])


def long(path: Path) -> Case:
    """Ten thousand steps of one channel."""
    model, x = Drift().eval(), series(2, 10_000, 1)
    return write(
        path, model, [tg.explain(model, x, "integrated_gradients", n_steps=5)], tg.Series(x, torch.tensor([0, 1]))
    )


def empty(path: Path) -> Case:
    """A channel that was never observed, and one that never moves."""
    model, x = network(15, 3, 2), series(4, 15, 3)
    x[..., 1] = 0.0
    x[..., 2] = 2.0
    mask = torch.ones_like(x, dtype=torch.bool)
    mask[..., 1] = False
    found = [tg.explain(model, tg.Series(x, mask=mask), m) for m in ("timing", "integrated_gradients")]
    return write(path, model, found, tg.Series(x, torch.tensor([0, 1, 0, 1]), mask=mask))


def many_classes(path: Path) -> Case:
    """Twenty classes."""
    model, x = network(10, 2, 20), series(10, 10, 2)
    return write(path, model, [tg.explain(model, x)], tg.Series(x, torch.arange(10)))


def bare(path: Path) -> Case:
    """Neither model nor labels: explanations from elsewhere."""
    model, x = network(16, 3, 2), series(5, 16, 3)
    found = {m: tg.explain(model, x, m) for m in ("timing", "integrated_gradients")}
    return write(path, None, found)


def looked_at(model: Callable[[Tensor], Tensor], x: Tensor, tolerance: float, looks: tuple[int, ...]) -> Any:
    """Explain with more and more points until each series is good enough, by hand."""
    runs = [tg.explain(model, x, n_samples=points) for points in looks]
    error = torch.stack([run.relative_error for run in runs], -1)
    last = (error <= tolerance).int().argmax(-1)
    last[(error > tolerance).all(-1)] = len(looks) - 1
    parts = ("values", "standard_error", "n_draws", "ess")
    rows = torch.arange(len(x))
    found = {name: torch.stack([getattr(run, name) for run in runs], 1)[rows, last] for name in parts}
    with torch.no_grad():
        clean, start = (torch.softmax(model(z), -1).gather(1, runs[0].target[:, None])[:, 0] for z in (x, 0 * x))
    return replace(
        runs[0],
        **found,
        parameters=runs[0].parameters | {"tolerance": tolerance, "max_samples": looks[-1]},
        n_evals=torch.tensor(looks, dtype=torch.int32)[last],
        delta=clean - start,
    )


def stopping(path: Path) -> Case:
    """Series that stopped when they were good enough, some that did not get there, and a method without draws."""
    model, x = network(16, 3, 2), torch.linspace(1, 6, 9)[:, None, None] * series(9, 16, 3)
    exact = tg.explain(model, x, "integrated_gradients")
    found = looked_at(model, x, 0.045, (8, 16, 32, 64, 128, 256))
    return write(path, model, [found, replace(exact, delta=found.delta)])


def stamped(path: Path) -> Case:
    """Values, units, class names and time stamps of each series, all of them kept with the explanation."""
    model, x = named_ward(4, 20)
    return write(path, model.model, [tg.explain(model, x, n_samples=10)])


def large(path: Path) -> Case:
    """The size the page is made for: 500 series of 48 steps and 32 channels, with two methods."""
    model, x = network(48, 32, 2), series(500, 48, 32)
    with torch.no_grad():
        y = model(x).argmax(-1)
    y[::5] = 1 - y[::5]
    found = [tg.explain(model, x, "timing", n_samples=8), tg.explain(model, x, "integrated_gradients", n_steps=8)]
    return write(path, model, found, tg.Series(x, y))


BUILDERS: dict[str, Callable[[Path], Case]] = {
    build.__name__: build
    for build in (
        classifier,
        binary,
        one_column,
        per_step,
        alarms,
        regression,
        length_of_stay,
        scores,
        ward_round,
        single,
        long,
        empty,
        many_classes,
        bare,
        stopping,
        stamped,
        large,
    )
}
