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
from tempograd.plots import SeriesRecord
from tempograd.testing import check_explainer, check_metric
from tempograd.typing import (
    Array,
    Baseline,
    Channels,
    Layout,
    Missing,
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
        answer: Tensor = self.layer(z.tanh().mean(1))
        return answer


def by_function(z: Tensor) -> Tensor:
    """Answer like a model; no module is needed."""
    return z.tanh().mean((1, 2))[:, None] * torch.tensor([1.0, -1.0])


def per_step(z: Tensor) -> Tensor:
    return torch.stack([z.sum(2), -z.sum(2)], -1)


class Mean:
    """An estimator."""

    def predict(self, rows: Any) -> Any:
        return rows.mean((1, 2))


def in_parts(z: Tensor) -> dict[str, Tensor]:
    return {"logits": by_function(z), "hidden": z}


MODEL, X = Net().eval(), torch.linspace(-1, 1, 4 * 6 * 3).view(4, 6, 3)
TIMING = tg.Timing(n_samples=4)


def a_model_with_conventions_of_its_own() -> None:
    exp = tg.explain(in_parts, X, pick="logits", n_samples=4)
    assert_type(exp, tg.Explanation)
    tg.explain(lambda z: by_function(z.mT), X, model_layout="BDT", n_samples=4)


def an_estimator() -> None:
    exp = tg.explain(Mean(), X, "occlusion")
    assert_type(tg.evaluate(Mean(), exp, metrics="cpd"), dict[str, Tensor])
    tg.explain(tg.adapters.estimator(Mean(), method="predict"), X, "occlusion")
    tg.explain(tg.adapters.from_numpy(lambda x: x.mean((1, 2))), X, "occlusion", output="raw")


def the_shortest_call() -> None:
    exp = tg.explain(MODEL, X)
    assert_type(exp, tg.Explanation)
    assert_type(exp.values, Tensor)
    assert_type(exp.interval(0.9), tuple[Tensor, Tensor])
    assert_type(exp.standard_error, Tensor | None)


def the_first_block_of_the_readme(folder: Path) -> None:
    exp = tg.explain(MODEL, X)
    assert_type(exp.plot(0), Figure)
    exp.plot(0).savefig(folder / "first.png")
    assert_type(exp.save(folder / "explanation.safetensors"), Path)
    assert_type(tg.Explanation.load(folder / "explanation.safetensors"), tg.Explanation)


def the_second_block_of_the_readme(folder: Path) -> None:
    data = tg.load_dataset("state")
    data = replace(data, train=data.train.take(range(40)))
    model = tg.train("gru", data, seed=0, epochs=1, options={"hidden": 4})
    assert_type(model, nn.Module)
    test = data.test.take(slice(2))
    assert_type(test, tg.Split)
    timing = tg.explain(model, test.x, "timing", ids=test.ids, channels=data.channels, n_samples=4)
    ig = tg.explain(model, test.x, "integrated_gradients", ids=test.ids, channels=data.channels, n_steps=2)
    scores = tg.evaluate(model, timing, metrics=["cpd", "cpp", "auroc"], truth=test.truth)
    assert_type(scores, dict[str, Tensor])
    other = tg.evaluate(model, ig, metrics=["cpd"])
    assert_type(tg.summarise(scores["cpd"]).mean, float)
    assert_type(tg.compare(scores["cpd"], other["cpd"]).low, float)
    assert_type(tg.report(folder / "report.html", model, [timing, ig], split=test), Path)


def series_of_any_library() -> None:
    array = X.numpy()
    series: list[Array] = [X, array, array.astype(np.float64)]
    for x in series:
        tg.explain(MODEL, x, n_samples=4)
    frame = pd.DataFrame(array[0])
    tg.explain(MODEL, frame.to_numpy()[None], n_samples=4)
    tg.explain(MODEL, list(array), n_samples=4)
    tg.explain(MODEL, [[[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]]], n_samples=4)
    assert_type(tg.read_series(frame.reset_index(names="time")), tg.data.Series)
    tg.Split(array, [0, 1, 1, 0], ids=np.arange(4))
    tg.explain(MODEL, X, mask=np.ones((4, 6, 3), bool), ids=[7, 8, 9, 10], baseline=[0.1, 0.2, 0.3], n_samples=4)


def models_of_any_kind() -> None:
    models: list[Model] = [MODEL, by_function, lambda z: z.sum(1), nn.Sequential(nn.Flatten(), nn.Linear(18, 2))]
    for model in models:
        tg.explain(model, X, n_samples=4, output="raw")
    assert_type(tg.wrap(MODEL, by_function), nn.Module)
    assert_type(tg.wrap(MODEL, lambda net, z: net(z)), nn.Module)

    def call(net: Net, z: Tensor) -> Tensor:
        return net.forward(z[:, -1:])

    tg.explain(tg.wrap(MODEL, call), X, n_samples=4)


def targets_steps_and_baselines() -> None:
    targets: list[Target | None] = [None, 1, torch.tensor([0, 1, 0, 1]), [0, 1, 1, 0], lambda answer: answer[:, 0]]
    for target in targets:
        tg.explain(MODEL, X, target=target, n_samples=4)
    steps: list[Steps | None] = [None, 3, [1, 2], torch.tensor([0]), "own"]
    for chosen in steps:
        tg.explain(per_step, X, steps=chosen, n_samples=4)
    baselines: list[Baseline | None] = [None, "zero", "average", 0.5, X.mean(0), X.numpy()[:1]]
    for baseline in baselines:
        tg.evaluate(MODEL, tg.explain(MODEL, X, baseline=baseline, n_samples=4), baseline=baseline)


def every_word_of_the_call() -> None:
    outputs: tuple[Output, ...] = ("probability", "raw")
    for output in outputs:
        tg.explain(MODEL, X, output=output, n_samples=4)
    layouts: tuple[Layout, ...] = ("BTD", "BDT")
    for layout in layouts:
        tg.explain(MODEL, X if layout == "BTD" else X.mT, layout=layout, n_samples=4)
    gaps: tuple[Missing, ...] = ("error", "mask")
    for missing in gaps:
        tg.explain(MODEL, X, missing=missing, n_samples=4)
    precisions: tuple[Precision, ...] = ("full", "tf32", "bf16")
    for precision in precisions:
        tg.explain(MODEL, X, precision=precision, n_samples=4)
    ranks: tuple[Rank, ...] = ("absolute", "signed")
    for rank in ranks:
        tg.removal_curve(MODEL, tg.explain(MODEL, X, n_samples=4), k=3, rank=rank)


def every_argument_of_the_call() -> None:
    tg.explain(
        MODEL,
        X,
        "timing",
        background=X,
        target=0,
        baseline="zero",
        mask=None,
        steps=None,
        output="probability",
        seed=1,
        ids=None,
        channels=["a", "b", "c"],
        times=range(6),
        names=[1, 2, 3, "four"],
        layout="BTD",
        missing="error",
        draws=1,
        batch_size=64,
        precision="full",
        gradient_check=False,
        n_samples=20,
        segments=2,
        min_length=1,
        max_length=3,
        tolerance=0.5,
        max_samples=40,
        stop_when="top",
        control_variates=True,
        anchored=None,
    )


def loops_over_names() -> None:
    for name in tg.EXPLAINERS:
        if not tg.EXPLAINERS[name].needs_fit and "mask" not in name:
            assert_type(tg.explain(MODEL, X[:2], name, background=X), tg.Explanation)
    methods = ["timing", "rand_ig", "gradient_shap"]
    for method in methods:
        tg.explain(MODEL, X, method, n_samples=3)
    assert_type(tg.EXPLAINERS["timing"](n_samples=5), tg.Explainer)
    for metric in tg.METRICS:
        assert_type(tg.METRICS[metric].higher_is_better, bool)
    assert_type(sorted(tg.DATASETS) + sorted(tg.MODELS), list[str])


def settings_of_other_methods() -> None:
    tg.explain(MODEL, X, "integrated_gradients", n_steps=4, rule="midpoint")
    tg.explain(MODEL, X, "lime", n_samples=None, distance="series")
    tg.explain(MODEL, X, "occlusion", absolute=True, target=1)
    tg.explain(MODEL, X, "augmented_occlusion", background=X, marginal="pooled", over="all", n_samples=2)
    read_from_a_file: dict[str, Any] = {"n_samples": 4, "p": 0.3}
    tg.explain(MODEL, X, "rand_ig", seed=1, **read_from_a_file)


def explainers() -> None:
    assert_type(TIMING(MODEL, X, target=1), tg.Explanation)
    assert_type(tg.explain(MODEL, X, TIMING, target=1, background=X), tg.Explanation)
    shap = tg.GradientShap(n_samples=4).fit(MODEL, X)
    assert_type(shap, tg.GradientShap)
    tg.MaskingIG(torch.ones(6, 3), rule="gauss-legendre")(MODEL, X)
    tg.Timing(tolerance=0.2, stop_when="top")
    tg.WinIT(distance="js", aggregation="absmax", sampler="marginal")
    tg.Dynamask(perturbation="blur", areas=(0.1, 0.2))
    tg.ContraLSP(contrastive="triplet")
    every: Sequence[tg.Explainer] = [tg.Random(), tg.RandIG(p=0.3), tg.IntegratedGradients(n_steps=4)]
    for explainer in every:
        assert_type(explainer(MODEL, X), tg.Explanation)
        assert_type(explainer.signed, bool)
    tg.Timing(**TIMING.parameters)


def explanations() -> None:
    exp = TIMING(MODEL, X)
    for part in (exp[0], exp[1:], exp[[0, 2]], exp[torch.tensor([True, False, True, True])], exp[np.array([1])]):
        assert_type(part, tg.Explanation)
    named = exp.with_names(channels=["a", "b", "c"], times=[0.5, 1, 2, 3, 4, 5], names=("one", 2, 3, 4))
    assert_type(named.label(0), int | str)
    assert_type(exp.top(3).values, Tensor)
    assert_type(exp.verdict(0), str)
    assert_type(exp.to_dataframe(), pd.DataFrame)
    assert_type(
        exp.plot("one" if exp.names else 0, channels=["channel 0", 2], classes=["no", "yes"], model=MODEL), Figure
    )
    n_samples = exp.parameters["n_samples"]
    assert n_samples == 4


def evaluation() -> None:
    exp = TIMING(MODEL, X)
    tg.evaluate(MODEL, exp, X.numpy(), "cpd", "average", 3)
    tg.evaluate(MODEL, exp, metrics=("cpd", "cpp"), k=0.5, batch_size=8)
    tg.evaluate(MODEL, exp, metrics=["cpp", tg.METRICS["cpd"](k=10, rank="signed", name="cpd10")])
    assert_type(tg.removal_curve(MODEL, exp, k=2, descending=False).delta, Tensor)
    assert_type(tg.summarise([0.1, 0.2, 0.4]).standard_error, float)
    assert_type(tg.compare(np.array([1.0, 2.0]), [0.5, 2.5], level=0.9).count, int)


def pictures() -> None:
    exp, ig = (
        tg.Timing(n_samples=16, tolerance=0.01, max_samples=64)(MODEL, X),
        tg.IntegratedGradients(n_steps=4)(MODEL, X),
    )
    assert_type(tg.plots.series_record(exp, 0, x=X.numpy(), y=[0, 1, 0, 1]), SeriesRecord)
    several: Mapping[str, tg.Explanation] = {"TIMING": exp, "IG": ig}
    wanted: list[Channels] = [2, ["channel 0", 1], [0, 2], np.array([1]), torch.tensor([0, 1])]
    figures: list[Figure] = [tg.plots.series(exp, 1, channels=channels, title="a") for channels in wanted]
    figures += [
        tg.plots.heatmap(exp, [0, 1], order="given"),
        tg.plots.compare(several, model=MODEL),
        tg.plots.channel_importance(exp, rows=[0, 1, 2], per="value", by="signed"),
        tg.plots.removal(MODEL, several, k=3, baseline="average"),
        tg.plots.convergence([exp]),
    ]
    assert len(figures) == 10


def data_and_models(folder: Path) -> None:
    split = tg.Split(X, torch.tensor([0, 1, 0, 1]))
    data = tg.Dataset("toy", split, None, split, classes=2, channels=("a", "b", "c"))
    model = tg.train("gru", data, recipe=Recipe(epochs=2, patience=None), learning_rate=1e-2, epochs=1, patience=1)
    assert_type(tg.accuracy(model, split), float)
    facts = {"seed": 7, "accuracies": [0.5, 0.75], "note": None, "sizes": {"hidden": 4}}
    assert_type(tg.save_model(model, folder / "model.safetensors", facts=facts), Path)
    assert_type(tg.load_model(folder / "model.safetensors"), nn.Module)
    np.save(folder / "x.npy", X.numpy())
    series = tg.read_series(folder / "x.npy", missing="mask", align=None)
    assert_type(series, tg.Series)
    tg.explain(MODEL, series.x, **series.options, target=1, n_samples=4)
    tg.explain(MODEL, series.x, "lime", **series.options)
    tg.explain(MODEL, **series.unpadded, target=1, n_samples=4)
    sizes: dict[str, Setting] = {"hidden": 4}
    tg.train("cnn", data, options=sizes, epochs=1)


def choices(folder: Path) -> None:
    grid: list[dict[str, Setting]] = [{"segments": 0}, {"min_length": 1, "max_length": 2}]
    found = tg.tune(MODEL, X, metric="cpd", budget=30, grid=grid, n_samples=4, k=2, baseline="average", seed=1)
    assert_type(found, tg.Tuning)
    assert_type(found.table[0].score, float)
    assert_type(found.verdict(), str)
    assert_type(tg.load_settings(found.save(folder / "settings.json")), tg.Explainer)
    tg.tune(MODEL, X, "rand_ig", metric=tg.METRICS["cpp"](k=2), n_samples=4, of="score")
    ranking = tg.rank(MODEL, X, [found.explainer, "occlusion"], k=2)
    assert_type(ranking.best, tuple[str, ...])
    named: Mapping[str, tg.Explainer | str] = {"tuned": found.explainer, "IG": "integrated_gradients"}
    assert_type(tg.rank(MODEL, X, named, metric="cpp", k=2), tg.Ranking)
    assert len(found.plot().axes) == len(ranking.plot().axes)


def contracts() -> None:
    check_explainer(tg.Random, rules=["seed"])
    check_metric(tg.METRICS["cpd"], rules=["numbers"])
