"""Wrong uses of the public face: mypy reports every marked line, with this code, and the call is refused.

Each has one fault; ``right_uses.py`` has the calls without. ``mypy --strict`` reports a mark that hides nothing.
"""

import tempograd as tg
from tests.typing.right_uses import MODEL, TIMING, X


def output() -> None:
    tg.explain(MODEL, X, output="logit")  # type: ignore[arg-type]


def steps() -> None:
    tg.explain(MODEL, X, steps="all")  # type: ignore[arg-type]


def precision() -> None:
    tg.explain(MODEL, X, precision="fp8")  # type: ignore[arg-type]


def baseline() -> None:
    tg.explain(MODEL, X, baseline="mean")  # type: ignore[arg-type]


def model() -> None:
    tg.explain(3, X)  # type: ignore[arg-type]


def file_of_a_model() -> None:
    tg.explain("model.pt", X)  # type: ignore[arg-type]


def file_of_series() -> None:
    tg.explain(MODEL, "series.csv")  # type: ignore[arg-type]


def class_of_an_explainer() -> None:
    tg.explain(MODEL, X, tg.Timing)  # type: ignore[arg-type]


def layout_of_series() -> None:
    tg.Series(X, layout="TBD")  # type: ignore[arg-type]


def argument_of_series() -> None:
    tg.Series(X, names=["a", "b", "c", "d"])  # type: ignore[call-arg]


def layout_of_a_model() -> None:
    tg.Predictor(MODEL, layout="TDB")  # type: ignore[arg-type]


def task_of_a_model() -> None:
    tg.Predictor(MODEL, task="clustering")  # type: ignore[arg-type]


def modules_of_a_function() -> None:
    tg.Predictor(MODEL, modules=[lambda z: z])  # type: ignore[list-item]


def choice_of_a_setting() -> None:
    tg.Timing(tolerance=0.1, stop_when="never")  # type: ignore[arg-type]


def distance_of_another_method() -> None:
    tg.Lime(distance="kl")  # type: ignore[arg-type]


def unknown_setting() -> None:
    tg.Timing(points=50)  # type: ignore[call-arg]


def argument_of_rank() -> None:
    tg.rank(MODEL, X, ["occlusion"], targt=1)  # type: ignore[call-arg]


def rank_of_cells() -> None:
    tg.removal_curve(MODEL, TIMING(MODEL, X), rank="largest")  # type: ignore[arg-type]


def rank_of_a_metric() -> None:
    tg.METRICS["cpd"](rank="largest")  # type: ignore[arg-type]


def rank_for_all_metrics() -> None:
    tg.evaluate(MODEL, TIMING(MODEL, X), rank="signed")  # type: ignore[call-arg]


def metric() -> None:
    tg.evaluate(MODEL, TIMING(MODEL, X), metrics=[1])  # type: ignore[list-item]


def scores_for_an_explanation() -> None:
    tg.evaluate(MODEL, TIMING(MODEL, X).values)  # type: ignore[arg-type]


def level() -> None:
    TIMING(MODEL, X).interval("a")  # type: ignore[arg-type]


def half_a_row() -> None:
    TIMING(MODEL, X)[0.5]  # type: ignore[call-overload]


def unknown_name() -> None:
    tg.explian(MODEL, X)  # type: ignore[attr-defined]
