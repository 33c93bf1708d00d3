"""Right uses of the public face: mypy finds nothing here, and each function runs (``test_typed_face.py``)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, assert_type

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

import tempograd as tg
from tempograd.models import Recipe
from tempograd.testing import check_explainer, check_metric
from tempograd.typing import (
    Array,
    Baseline,
    Channels,
    Layout,
    Model,
    Output,
    Precision,
    Rank,
    Setting,
    Steps,
    Target,
)


class Net(nn.Module):
    """(batch, time, channel) to (batch, class)."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, z: Tensor) -> Tensor:
        scores: Tensor = self.layer(z.tanh().mean(1))
        return scores


def by_function(z: Tensor) -> Tensor:
    return z.tanh().mean((1, 2))[:, None] * torch.tensor([1.0, -1.0])


def per_step(z: Tensor) -> Tensor:
    return torch.stack([z.sum(2), -z.sum(2)], -1)


class Mean:
    """An estimator."""

    def predict(self, rows: Any) -> Any:
        return rows.mean((1, 2))


MODEL, X = Net().eval(), torch.linspace(-1, 1, 4 * 6 * 3).view(4, 6, 3)
TIMING = tg.Timing(n_samples=4)


def readme(folder: Path) -> None:
    exp = tg.explain(MODEL, X)
    assert_type(exp, tg.Explanation)
    assert_type(exp.values, Tensor)
    assert_type(exp.interval(0.9), tuple[Tensor, Tensor])
    assert_type(exp.plot(0), Figure)
    assert_type(exp.save(folder / "explanation.safetensors"), Path)
    assert_type(tg.Explanation.load(folder / "explanation.safetensors"), tg.Explanation)


def data_and_models(folder: Path) -> None:
    state = tg.load_dataset("state")
    data = replace(state, train=state.train.take(range(8)), test=state.test.take(slice(2)))
    assert_type(data.test, tg.Series)
    model = tg.train("gru", data, recipe=Recipe(patience=None), epochs=1, options={"hidden": 4})
    assert_type(tg.accuracy(model, data.test), float)
    assert_type(tg.save_model(model, folder / "model.safetensors", facts={"seed": 7}), Path)
    assert_type(tg.load_model(folder / "model.safetensors"), nn.Module)
    np.save(folder / "x.npy", X.numpy())
    series = tg.read_series(folder / "x.npy", align=None)
    assert_type(series, tg.Series)
    exp = tg.explain(MODEL, series, target=1, n_samples=4)
    assert_type(tg.report(folder / "report.html", MODEL, [exp]), Path)


def series_of_any_library() -> None:
    arrays: list[Array] = [X, X.numpy(), X.numpy().astype(np.float64)]
    for x in arrays:
        tg.explain(MODEL, x, n_samples=4)
    tg.explain(MODEL, [[[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]]], n_samples=4)
    tg.Series(X.numpy(), [0, 1, 1, 0], ids=np.arange(4), mask="nan")
    series = tg.Series(
        X, mask=np.ones((4, 6, 3), bool), ids=["1", "2", "3", "four"], channels=list("abc"), times=range(6)
    )
    assert_type(series.take([0, 2]), tg.Series)
    tg.explain(MODEL, series, background=series, baseline=[0.1, 0.2, 0.3], n_samples=4)
    layouts: tuple[Layout, ...] = ("BTD", "BDT")
    for layout in layouts:
        tg.Series(X, layout=layout)


def models_of_any_kind() -> None:
    models: list[Model] = [MODEL, by_function, lambda z: z.sum(1), nn.Sequential(nn.Flatten(), nn.Linear(18, 2))]
    for model in models:
        tg.explain(model, X, n_samples=4, output="raw")
    tg.explain(tg.Predictor(lambda z: MODEL(z[:, -1:]), modules=[MODEL], classes=["no", "yes"]), X, n_samples=4)
    tg.explain(tg.Predictor(lambda z: {"logits": by_function(z.mT)}, pick="logits", layout="BDT"), X, n_samples=4)
    estimator = tg.Predictor(tg.adapters.estimator(Mean(), method="predict"), task="regression")
    assert_type(tg.evaluate(estimator, tg.explain(estimator, X, "occlusion"), metrics="cpd"), dict[str, Tensor])


def questions() -> None:
    targets: list[Target | None] = [None, 1, torch.tensor([0, 1, 0, 1]), [0, 1, 1, 0], lambda scores: scores[:, 0]]
    for target in targets:
        tg.explain(MODEL, X, target=target, n_samples=4)
    steps: list[Steps | None] = [None, 3, [1, 2], torch.tensor([0]), "own"]
    for chosen in steps:
        tg.explain(tg.Predictor(per_step, task="per_step"), X, steps=chosen, n_samples=4)
    baselines: list[Baseline | None] = [None, "zero", "average", 0.5, X.mean(0), X.numpy()[:1]]
    for baseline in baselines:
        tg.evaluate(MODEL, tg.explain(MODEL, X, baseline=baseline, n_samples=4), baseline=baseline)
    outputs: tuple[Output | None, ...] = (None, "probability", "raw")
    for output in outputs:
        tg.explain(MODEL, X, output=output, n_samples=4)
    precisions: tuple[Precision, ...] = ("full", "tf32", "bf16")
    for precision in precisions:
        TIMING(MODEL, X, precision=precision, seed=1, draws=1, batch_size=64, gradient_check=False)
    series = tg.Series(X)
    assert_type(tg.Question(target=[0, 1, 1, 0]).take([1, 2], series), tg.Question)


def explainers() -> None:
    for name in tg.EXPLAINERS:
        assert_type(tg.EXPLAINERS[name].needs_fit, bool)
    assert_type(tg.EXPLAINERS["timing"](n_samples=5), tg.Explainer)
    assert_type(tg.explain(MODEL, X, TIMING, target=1, background=X), tg.Explanation)
    settings: dict[str, Any] = {"n_samples": 4, "p": 0.3}
    tg.explain(MODEL, X, "rand_ig", seed=1, **settings)
    assert_type(tg.GradientShap(n_samples=4).fit(MODEL, tg.Series(X)), tg.GradientShap)
    tg.MaskingIG(torch.ones(6, 3), rule="gauss-legendre")(MODEL, X)
    tg.Timing(tolerance=0.2, stop_when="top")
    tg.WinIT(distance="js", aggregation="absmax", sampler="marginal")
    tg.Dynamask(perturbation="blur", areas=(0.1, 0.2))
    every: Sequence[tg.Explainer] = [tg.Random(), tg.RandIG(p=0.3), tg.IntegratedGradients(n_steps=4)]
    for explainer in every:
        assert_type(explainer(MODEL, X), tg.Explanation)
    tg.Timing(**TIMING.parameters)


def explanations() -> None:
    exp = TIMING(MODEL, X)
    for part in (exp[0], exp[1:], exp[[0, 2]], exp[torch.tensor([True, False, True, True])], exp[np.array([1])]):
        assert_type(part, tg.Explanation)
    assert_type(exp.top(3).values, Tensor)
    assert_type(exp.verdict(0), str)
    assert_type(exp.to_dataframe(), pd.DataFrame)
    assert_type(exp.plot(0, channels=["channel 0", 2]), Figure)


def evaluation() -> None:
    exp = TIMING(MODEL, X)
    tg.evaluate(MODEL, exp, "cpd", "average", 3)
    scores = tg.evaluate(MODEL, exp, metrics=["cpp", tg.METRICS["cpd"](k=10, rank="signed", name="cpd10")])
    assert_type(scores, dict[str, Tensor])
    ranks: tuple[Rank, ...] = ("absolute", "signed")
    for rank in ranks:
        assert_type(tg.removal_curve(MODEL, exp, k=2, rank=rank, descending=False).delta, Tensor)
    assert_type(tg.summarise([0.1, 0.2, 0.4]).standard_error, float)
    assert_type(tg.compare(np.array([1.0, 2.0]), [0.5, 2.5], level=0.9).count, int)


def pictures() -> None:
    exp = tg.Timing(n_samples=16, tolerance=0.01, max_samples=64)(MODEL, X)
    several: Mapping[str, tg.Explanation] = {"TIMING": exp, "IG": tg.IntegratedGradients(n_steps=4)(MODEL, X)}
    wanted: list[Channels] = [2, ["channel 0", 1], [0, 2], np.array([1]), torch.tensor([0, 1])]
    figures: list[Figure] = [tg.plots.series(exp, 1, channels=channels, title="a") for channels in wanted]
    figures += [
        tg.plots.compare(several),
        tg.plots.channel_importance(exp, rows=[0, 1, 2]),
        tg.plots.removal(MODEL, several, k=3, baseline="average"),
    ]


def choices(folder: Path) -> None:
    grid: list[dict[str, Setting]] = [{"segments": 0}, {"min_length": 1, "max_length": 2}]
    found = tg.tune(MODEL, tg.Series(X), budget=30, grid=grid, n_samples=4, k=2, baseline="average", seed=1)
    assert_type(found, tg.Tuning)
    assert_type(tg.Explainer.load(found.explainer.save(folder / "tuned.safetensors")), tg.Explainer)
    named: Mapping[str, tg.Explainer | str] = {"tuned": found.explainer, "IG": "integrated_gradients"}
    assert_type(tg.rank(tg.Predictor(MODEL), X, named, metric="cpp", k=2, target=1), tg.Ranking)
    assert_type(tg.compare_baselines(MODEL, X, "occlusion", target=1), tg.BaselineComparison)


def contracts() -> None:
    check_explainer(tg.Random, rules=["seed"])
    check_metric(tg.METRICS["cpd"], rules=["numbers"])
