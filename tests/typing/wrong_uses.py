"""Wrong uses of the public face: mypy reports every marked line, with this code, and the call is refused.

Each has one fault; ``right_uses.py`` has the calls without. ``mypy --strict`` reports a mark that hides nothing.
"""

from pathlib import Path

import numpy as np

import tempograd as tg
from tests.typing.right_uses import MODEL, TIMING, X


def an_unknown_output() -> None:
    tg.explain(MODEL, X, output="logit")  # type: ignore[call-overload]


def a_misspelt_argument() -> None:
    tg.explain(MODEL, X, targt=1)  # type: ignore[call-overload]


def a_misspelt_argument_beside_a_name() -> None:
    tg.explain(MODEL, X, "timing", targt=1)  # type: ignore[call-overload]


def a_misspelt_argument_beside_another_name() -> None:
    tg.explain(MODEL, X, "integrated_gradients", n_step=4)  # type: ignore[call-overload]


def a_text_for_a_number() -> None:
    tg.explain(MODEL, X, tolerance="a")  # type: ignore[call-overload]


def a_text_for_a_number_beside_a_name() -> None:
    tg.explain(MODEL, X, "timing", tolerance="a")  # type: ignore[call-overload]


def a_word_for_a_count() -> None:
    tg.explain(MODEL, X, n_samples="many")  # type: ignore[call-overload]


def an_unknown_layout() -> None:
    tg.explain(MODEL, X, layout="TBD")  # type: ignore[call-overload]


def an_unknown_layout_of_the_model() -> None:
    tg.explain(MODEL, X, model_layout="TDB")  # type: ignore[call-overload]


def what_is_no_model() -> None:
    tg.explain(3, X)  # type: ignore[call-overload]


def unknown_steps() -> None:
    tg.explain(MODEL, X, steps="all")  # type: ignore[arg-type]


def an_unknown_treatment_of_gaps() -> None:
    tg.explain(MODEL, X, missing="drop")  # type: ignore[call-overload]


def an_unknown_precision() -> None:
    tg.explain(MODEL, X, precision="fp8")  # type: ignore[call-overload]


def an_unknown_baseline() -> None:
    tg.explain(MODEL, X, baseline="mean")  # type: ignore[arg-type]


def no_model() -> None:
    tg.explain("model.pt", X)  # type: ignore[call-overload]


def no_series() -> None:
    tg.explain(MODEL, "series.csv")  # type: ignore[arg-type]


def a_class_for_an_explainer() -> None:
    tg.explain(MODEL, X, tg.Timing)  # type: ignore[call-overload]


def a_setting_beside_an_explainer() -> None:
    tg.explain(MODEL, X, TIMING, n_samples=5)  # type: ignore[call-overload]


def a_misspelt_argument_beside_an_explainer() -> None:
    tg.explain(MODEL, X, TIMING, targt=1)  # type: ignore[call-overload]


def a_misspelt_argument_of_an_explainer() -> None:
    TIMING(MODEL, X, targt=1)  # type: ignore[call-arg]


def an_unknown_reason_to_stop() -> None:
    tg.Timing(tolerance=0.1, stop_when="never")  # type: ignore[arg-type]


def an_unknown_rule() -> None:
    tg.IntegratedGradients(rule="simpson")  # type: ignore[arg-type]


def an_unknown_marginal() -> None:
    tg.AugmentedOcclusion(marginal="per_channel")  # type: ignore[arg-type]


def another_methods_distance() -> None:
    tg.Lime(distance="kl")  # type: ignore[arg-type]


def an_unknown_setting() -> None:
    tg.Timing(points=50)  # type: ignore[call-arg]


def an_unknown_rank() -> None:
    tg.removal_curve(MODEL, TIMING(MODEL, X), rank="largest")  # type: ignore[arg-type]


def a_rank_of_a_metric() -> None:
    tg.METRICS["cpd"](rank="largest")  # type: ignore[arg-type]


def a_rank_for_all_metrics() -> None:
    tg.evaluate(MODEL, TIMING(MODEL, X), rank="signed")  # type: ignore[call-arg]


def a_metric_that_is_no_name() -> None:
    tg.evaluate(MODEL, TIMING(MODEL, X), metrics=[1])  # type: ignore[list-item]


def scores_for_an_explanation() -> None:
    tg.evaluate(MODEL, TIMING(MODEL, X).values)  # type: ignore[arg-type]


def a_level_that_is_no_number() -> None:
    TIMING(MODEL, X).interval("a")  # type: ignore[arg-type]


def half_a_row() -> None:
    TIMING(MODEL, X)[0.5]  # type: ignore[call-overload]


def one_name_for_all_channels() -> None:
    TIMING(MODEL, X).with_names(channels=3)  # type: ignore[arg-type]


def an_unknown_option_of_a_picture() -> None:
    TIMING(MODEL, X).plot(0, colour="red")  # type: ignore[call-arg]


def an_unknown_order_of_a_picture() -> None:
    tg.plots.heatmap(TIMING(MODEL, X), order="size")  # type: ignore[arg-type]


def an_unknown_unit_of_a_picture() -> None:
    tg.plots.channel_importance(TIMING(MODEL, X), per="step")  # type: ignore[arg-type]


def an_unknown_setting_of_a_training() -> None:
    tg.train("gru", tg.load_dataset("state"), epoch=1)  # type: ignore[call-arg]


def a_text_in_a_training() -> None:
    tg.train("gru", tg.load_dataset("state"), epochs="one")  # type: ignore[arg-type]


def an_unknown_format_of_a_file(folder: Path) -> None:
    np.save(folder / "x.npy", X.numpy())
    tg.read_series(folder / "x.npy", format="tall")  # type: ignore[arg-type]


def a_module_that_is_none() -> None:
    tg.wrap(lambda z: z, lambda z: z)  # type: ignore[type-var]


def a_name_that_is_not_there() -> None:
    tg.explian(MODEL, X)  # type: ignore[attr-defined]
