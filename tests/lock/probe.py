"""Computes every kind of score once, on tiny models and series, and writes all numbers into one file.

``compare.py`` runs it for two trees of the source code. What the trees call differently is looked up in
``faces.py`` and nowhere else, so that the cases below are the same for both.

Run as ``python -m tests.lock.probe OUT.npz --tree DIR [--device cuda] [--only TEXT]`` with the folders of the
tree's packages and the one that holds ``tests`` in PYTHONPATH.
"""

import argparse
import hashlib
import os
import sys
import tempfile
import time
import traceback
import warnings
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from importlib import import_module
from pathlib import Path

import numpy as np
import torch

import tempograd as tg
from tests.lock import subjects
from tests.lock.faces import (
    agreements,
    asked,
    build,
    every,
    fitted,
    ids_of,
    kept,
    kept_of_inputs,
    labelled,
    paper,
    random_number_module,
    released,
    run_over,
)
from tests.lock.subjects import (
    CHANNELS,
    CLASSES,
    IDS,
    LENGTHS,
    SERIES,
    STATIC,
    STEPS,
    Accompanied,
    Around,
    Estimator,
    Forecaster,
    Recurrent,
    gru,
    made,
    models,
    normal,
    per_step_gru,
    series,
    uniform,
)

DATASETS = (
    *("mimic3", "pam", "boiler", "epilepsy", "wafer", "freezer"),
    *("switch_feature", "state", "physionet2012"),
)
# at most so many: enough for every branch, and no more
MOST = {"n_samples": 10, "n_steps": 10, "max_samples": 40, "epochs": 3, "batch": 3, "fit_batch_size": 4}
MOST |= {"window": 4, "hidden": 4, "min_length": STEPS, "max_length": STEPS}
RELEASED_METRICS = ("cpd", "cpp", "sufficiency", "aup", "aur", "auroc", "auprc")  # measured in a way of their own
SAMPLED = ("timing", "rand_ig", "gradient_shap")  # which take many samples unless told
OPTIONAL_FIT = ("gradient_shap", "occlusion")  # which also explain without one
TAKE_INPUTS = ("timing", "rand_ig", "integrated_gradients", "gradient_shap", "occlusion", "lime", "random")
TAKE_BACKGROUND = TAKE_INPUTS[:-1]
SHARE_PASSES = (*TAKE_BACKGROUND, "augmented_occlusion", "deep_lift")  # and two that explain target by target
CALLED = ("timing", "integrated_gradients", "gradient_shap", "occlusion", "lime", "dynamask")
# options that neither the defaults nor the released settings show
OTHERS = {
    "augmented_occlusion": {"pooled": {"marginal": "pooled"}, "all": {"over": "all"}},
    "contralsp": {"triplet": {"contrastive": "triplet"}},
    "dynamask": {
        "window": {"perturbation": "window", "deletion": True},
        "reference": {"perturbation": "reference", "areas": (0.2,)},
    },
    "extremal_mask": {"deletion": {"deletion": True, "fit_batch_size": 2}},
    "fit": {"plain": {"recipe": "plain"}},
    "gradient_shap": {"noise": {"noise": 0.1}},
    "integrated_gradients": {"midpoint": {"rule": "midpoint"}},
    "lime": {"series": {"distance": "series", "n_samples": 20}, "alpha": {"relative": False, "alpha": 0.001}},
    "occlusion": {"absolute": {"absolute": True}},
    "rand_ig": {"p": {"p": 0.2}},
    "timex": {"means": {"label": "means"}},
    "timing": {
        "cells": {"segments": 2, "min_length": 2, "max_length": 5, "anchored": 0.5},
        "held": {"held": 0.75},
        "plain": {"control_variates": False},
        "tolerance": {"tolerance": 0.05},
        "top": {"tolerance": 0.2, "stop_when": "top"},
    },
    "winit": {
        "kl": {"distance": "kl", "aggregation": "max"},
        "js": {"distance": "js", "aggregation": "absmax"},
        "marginal": {"sampler": "marginal"},
    },
}


class Results:
    """Numbers and texts by name; a case is what one call gave."""

    def __init__(self, only):
        self.only, self.arrays, self.cases = only, {}, set()

    def wants(self, case):
        return self.only in case

    def add(self, case, parts):
        self.cases.add(case)
        for name, part in parts.items():
            self.arrays[f"{case}/{name}"] = as_array(part)

    def run(self, case, compute, *arguments, **options):
        """Add what a function returns for these arguments, unless other cases are asked for."""
        if self.wants(case):
            self.add(case, outcome(compute, *arguments, **options))


def as_array(part):
    """Return a part of a result as an array; what is no number becomes a text."""
    if isinstance(part, torch.Tensor):
        return part.detach().cpu().numpy().copy()
    array = np.asarray(part) if isinstance(part, (bool, int, float, np.ndarray)) else np.array(str(part))
    return np.array(str(array.tolist())) if array.dtype == object else array


def outcome(compute, *arguments, **options):
    """Return the parts that a function returns, or that it is refused, for want of a package too, or fails."""
    torch.manual_seed(0)  # for models that draw
    try:
        return compute(*arguments, **options)
    except (tg.TempogradError, ImportError):
        return {"refused": True}
    except Exception as error:  # what else there is to compute is of interest all the same
        traceback.print_exc()
        return {"failed": repr(error)}


def explain(explainer, model, x, train=None, **call):
    """Explain in this tree's face, fitted to training series if there are some."""
    ready = explainer if train is None else fitted(explainer, model, train, 2, call)
    return asked(ready, model, x, **({"ids": IDS, "seed": 3} | call))


def explained(explainer, model, x, train=None, **call):
    """Return the parts of an explanation, of several targets those of each."""
    explanations = every(explain(explainer, model, x, train, **call))
    if len(explanations) == 1:
        return kept(explanations[0])
    parts = enumerate(map(kept, explanations))
    return {f"{place} {name}": part for place, each in parts for name, part in each.items()}


def explained_inputs(explainer, model, x, train=None, **call):
    return kept_of_inputs(explain(explainer, model, x, train, **call), ("series", "static"))


def with_settings(method, **settings):
    """Return a method with other settings; what only the released code ever set is one of the released class."""
    for kind in (tg.EXPLAINERS[method], paper().kind_of(method)):
        if set(settings) <= {field.name for field in fields(kind)}:
            return kind(**settings)
    raise AttributeError(f"{method} has not all of {', '.join(settings)}.")


def reduced(explainer):
    """Make a method quick: no number of it above what MOST says, also where it has a rule for that number."""
    ruled = {"n_samples": explainer.name in SAMPLED}
    ruled["max_samples"] = getattr(explainer, "tolerance", None) is not None
    values = {name: getattr(explainer, name, 0) for name in MOST}
    above = [name for name, value in values.items() if (ruled.get(name) if value is None else value > MOST[name])]
    return replace(explainer, **{name: MOST[name] for name in above})


def quick(method):
    return reduced(tg.EXPLAINERS[method]())


def settings_of(method):
    """Return every setting of a method that is tried, by name; None where there is none."""
    settings = {"default": tg.EXPLAINERS[method]()}
    settings |= {dataset: released(method, dataset) for dataset in DATASETS}
    settings |= {f"with_{name}": with_settings(method, **each) for name, each in OTHERS.get(method, {}).items()}
    return {name: None if explainer is None else reduced(explainer) for name, explainer in settings.items()}


def explainers(results):
    """Explain every model with every method in every setting."""
    for method in sorted(tg.EXPLAINERS):
        settings = settings_of(method)
        for model_name, (model, x, train, call) in models().items():
            known = {None: {"refused": "no such setting"}}  # one setting often serves several data sets
            for setting, explainer in settings.items():
                for fit in (True, False) if method in OPTIONAL_FIT else (True,):
                    case = f"explain/{method}/{setting}/{model_name}{'' if fit else '/unfitted'}"
                    if not results.wants(case):
                        continue
                    key = None if explainer is None else (type(explainer), repr(explainer), fit)
                    if key not in known:
                        call_of = _askable(explainer, call)
                        known[key] = outcome(explained, explainer, model, x, train if fit else None, **call_of)
                    results.add(case, known[key])


def _askable(explainer, call):
    """Leave the target out where the released code reads a single logit as it is (A6)."""
    raw = "A6" in getattr(explainer, "quirks", ())
    return {name: value for name, value in call.items() if not (raw and name == "target")}


def tasks(results):
    """Explain every kind of output with every method."""
    x, train = series(), series(16, seed=1)
    lstm, one, forecaster = made(Recurrent, CLASSES), made(Recurrent, 1), made(Forecaster)
    steps = made(Recurrent, 1, True)
    variants = {
        "classification": (lstm, {"task": "classification"}),
        "class by name": (lstm, {"classes": ["low", "middle", "high"], "target": "high"}),
        "difference": (lstm, {"task": "classification", "target": tg.targets.difference(2, 0)}),
        "binary complement": (one, {"task": "binary", "target": 0}),
        "multilabel": (lstm, {"task": "multilabel", "target": 2}),
        "regression": (one, {"task": "regression"}),
        "several regressions": (lstm, {"task": "regression", "target": torch.tensor([0, 2, 1, 1])}),
        "forecast": (forecaster, {"task": "forecast", "target": (2, 1)}),
        "forecast mean": (forecaster, {"task": "forecast", "target": tg.targets.mean(slice(1, 3), variable=0)}),
        "per step binary": (steps, {"task": "per_step", "target": 1}),
        "per step target": (per_step_gru(), {"task": "per_step", "target": 2, "steps": [3, 11]}),
    }
    for method in sorted(tg.EXPLAINERS):
        for name, (model, call) in variants.items():
            results.run(f"task/{method}/{name}", explained, quick(method), model, x, train, **call)


def calls(results):
    """Explain with every argument of the call that changes what is asked."""
    model, x, train = gru(), series(), series(16, seed=1)
    gaps = x.masked_fill(uniform(*x.shape, seed=4) < 0.2, torch.nan)
    seen = uniform(*x.shape, seed=2) > 0.25
    noisy = Around(model, lambda inner, z: inner(z + 0.1 * torch.randn_like(z)))
    shown = {"channels": ["a", "b", "c"], "units": ["s", "m", ""], "times": list(range(STEPS)), "raw": 2 * x}
    variants = {
        "raw": {"output": "raw"},
        "probability": {"output": "probability"},
        "average": {"baseline": "average"},
        "number": {"baseline": 0.3},
        "tensor": {"baseline": normal(1, STEPS, CHANNELS, seed=8)},
        "target": {"target": torch.tensor([0, 1, 2, 1])},
        "picked": {"target": lambda output: output[:, 0] * output[:, 1]},
        "names": shown,
        "batch size": {"batch_size": 3},
        "unchecked": {"gradient_check": False},
        "bf16": {"precision": "bf16"},
    }
    for method in CALLED:
        explainer, case = quick(method), f"call/{method}"
        for name, call in variants.items():
            results.run(f"{case}/{name}", explained, explainer, model, x, train, **call)
        results.run(f"{case}/missing", explained, explainer, model, gaps, train, mask="nan")
        results.run(f"{case}/host", explained, explainer, model, x.cpu(), train.cpu())
        turned = {"layout": "BDT", "mask": seen.transpose(1, 2)}
        results.run(f"{case}/BDT", explained, explainer, model, (x * seen).transpose(1, 2), train, **turned)
        for steps in (3, [0, 5]):
            call = {"task": "per_step", "steps": steps}
            results.run(f"{case}/steps {steps}", explained, explainer, per_step_gru(), x, train, **call)
        results.run(f"{case}/draws", explained, explainer, noisy, x, train, draws=3)
        for name, (other, call) in conventions(model).items():
            given = x[..., :1] if call.get("model_layout") == "BT" else x
            results.run(f"{case}/{name}", explained, explainer, other, given, **call)
    moving = torch.arange(STEPS, device=subjects.DEVICE)[:, None] % 2
    for rule in ("midpoint", "gauss-legendre"):
        results.run(f"call/masking_ig/{rule}", explained, tg.MaskingIG(moving, 8, rule), model, x)
    for method in ("occlusion", "lime", "random"):
        for name, other in array_models().items():
            results.run(f"call/{method}/{name}", explained, quick(method), other, x.cpu())


def conventions(model):
    """Return models that take the series in another order of axes or return more than one thing."""
    single = made(Recurrent, CLASSES, False, 1)
    nested = Around(model, lambda inner, z: {"states": [z.mean(1), inner(z)]})
    return {
        "model BDT": (Around(model, lambda inner, z: inner(z.transpose(1, 2))), {"model_layout": "BDT"}),
        "model TBD": (Around(model, lambda inner, z: inner(z.transpose(0, 1))), {"model_layout": "TBD"}),
        "model BT": (Around(single, lambda inner, z: inner(z[..., None])), {"model_layout": "BT"}),
        "pick name": (Around(model, lambda inner, z: {"hidden": z, "logits": inner(z)}), {"pick": "logits"}),
        "pick place": (Around(model, lambda inner, z: (z.mean(1), inner(z))), {"pick": 1}),
        "pick path": (nested, {"pick": "states.1"}),
        "modules": (lambda z: model(z) * 1.5, {"modules": [model]}),
    }


def array_models():
    def of_arrays(x):
        return np.stack([x.std((1, 2)), x.mean((1, 2)), x[:, 0, 0] * x[:, -1, 1]], 1)

    return {"numpy": tg.adapters.from_numpy(of_arrays), "estimator": tg.adapters.estimator(Estimator())}


def names(results):
    """Explain by the name of each method, with series to learn from, and without anything said."""
    model, x, train = gru(), series(), series(16, seed=1)
    results.run("name/nothing said", lambda: kept(tg.explain(model, x)))
    for method in sorted(tg.EXPLAINERS):
        default, small = tg.EXPLAINERS[method](), quick(method)
        values = {field.name: getattr(small, field.name) for field in fields(small)}
        settings = {name: value for name, value in values.items() if value != getattr(default, name)}
        call = {"background": train, "seed": 1} | settings
        results.run(f"name/{method}", lambda m=method, call=call: kept(tg.explain(model, x, m, **call)))
    learnt = with_settings("gradient_shap", n_samples=8).fit(model, train, seed=1)
    results.run("name/fitted", lambda: kept(tg.explain(model, x, learnt, seed=1)))


def targets(results):
    """Explain several targets in one call."""
    x, train = series(), series(16, seed=1)
    model, forecaster = gru(), made(Forecaster)
    forecast, per_step = {"task": "forecast"}, {"task": "per_step"}
    own = [1, lambda output: output[:, 0] * output[:, 1], torch.tensor([0, 1, 2, 1])]
    variants = {
        "two": (model, {"targets": [0, 2]}),
        "all": (model, {"targets": "all"}),
        "own": (model, {"targets": own}),
        "binary": (made(Recurrent, 1), {"targets": [0, 1], "task": "binary"}),
        "multilabel": (made(Recurrent, CLASSES), {"targets": "all", "task": "multilabel"}),
        "addresses": (forecaster, {"targets": [(3, 1), (0, 0)]} | forecast),
        "all addresses": (forecaster, {"targets": "all"} | forecast),
        "steps": (per_step_gru(), {"targets": [2, 1], "steps": [0, 5]} | per_step),
        "own steps": (per_step_gru(), {"targets": [2, 1], "steps": "own"} | per_step),
        "background": (model, {"targets": [0, 2], "baseline": "background", "background": train}),
    }
    for method in SHARE_PASSES:
        for name, (subject, call) in variants.items():
            fit = None if name == "background" else train
            results.run(f"targets/{method}/{name}", explained, quick(method), subject, x, fit, **call)
    adaptive = reduced(tg.Timing(tolerance=0.05))
    results.run("targets/timing/tolerance", explained, adaptive, model, x, targets=[0, 2])


def backgrounds(results):
    """Explain against values of other series, drawn for each sample."""
    for name, (model, x, train, call) in models().items():
        for method in TAKE_BACKGROUND:
            drawn = call | {"baseline": "background", "background": train}
            results.run(f"background/{method}/{name}", explained, quick(method), model, x, **drawn)
    model, x, train = gru(), series(), series(16, seed=1)
    drawn = {"baseline": "background", "background": train}
    for name, explainer in {
        "timing/tolerance": reduced(tg.Timing(tolerance=0.05)),
        "timing/plain": tg.Timing(n_samples=10, control_variates=False),
        "gradient_shap/noise": tg.GradientShap(n_samples=10, noise=0.1),
        "occlusion/samples": tg.Occlusion(n_samples=5),
        "lime/samples": tg.Lime(n_samples=20),
    }.items():
        results.run(f"background/{name}", explained, explainer, model, x, **drawn)
    turned = drawn | {"layout": "BDT"}
    results.run("background/timing/BDT", explained, quick("timing"), model, x.transpose(1, 2), **turned)


def inputs(results):
    """Explain models of several inputs, of fixed ones beside the series, and of series of unequal length."""
    model, x, train = made(Accompanied), series(), series(16, seed=1)
    static, shift = normal(SERIES, STATIC, seed=5), normal(SERIES, seed=6)
    both = {"series": x, "static": static}
    pool = {"series": train, "static": normal(16, STATIC, seed=7)}
    seen = {"series": uniform(*x.shape, seed=2) > 0.25, "static": torch.ones_like(static, dtype=torch.bool)}
    several = {
        "mapping": (both, {}),
        "tuple": ((x, static), {}),
        "baselines": (both, {"baseline": {"series": "average", "static": 0.5}}),
        "mask": (both, {"mask": seen}),
        "fixed": (both, {"fixed": {"shift": shift, "scale": 0.5}}),
        "background": (both, {"baseline": "background", "background": pool}),
        "raw target": (both, {"output": "raw", "target": 1}),
    }
    beside = {
        "fixed names": {"fixed": {"static": static, "scale": 2.0}},
        "fixed places": {"fixed": (static, shift, 0.5)},
        "fixed targets": {"fixed": {"static": static, "shift": None}, "targets": [0, 2]},
        "fixed mask": {"fixed": {"static": static}, "mask": seen["series"], "baseline": "average"},
    }
    unequal = [one[:length] for one, length in zip(x, LENGTHS, strict=True)]
    observed = [one[:length] for one, length in zip(seen["series"], LENGTHS, strict=True)]
    lists = {
        "unequal": (gru(), {}),
        "unequal mask": (gru(), {"mask": observed}),
        "unequal average": (gru(), {"baseline": "average", "output": "raw"}),
        "unequal targets": (gru(), {"targets": "all"}),
        "unequal per step": (per_step_gru(), {"task": "per_step"}),
        "unequal some steps": (per_step_gru(), {"task": "per_step", "steps": [0, 3]}),
    }
    for method in TAKE_INPUTS:
        explainer, case = quick(method), f"inputs/{method}"
        for name, (given, call) in several.items():
            results.run(f"{case}/{name}", explained_inputs, explainer, model, given, **call)
        for name, call in beside.items():
            results.run(f"{case}/{name}", explained, explainer, model, x, **call)
        for name, (other, call) in lists.items():
            results.run(f"{case}/{name}", explained, explainer, other, unequal, **call)
    for method in OPTIONAL_FIT:
        results.run(f"inputs/{method}/fitted", explained_inputs, quick(method), model, both, pool)
    adaptive = reduced(tg.Timing(tolerance=0.05))
    results.run("inputs/timing/tolerance", explained_inputs, adaptive, model, both)
    results.run("inputs/timing/fixed tolerance", explained, adaptive, model, x, fixed={"static": static})


def captum(results):
    """Attribute through captum's face."""
    x, static, shift = series(), normal(SERIES, STATIC, seed=5), normal(SERIES, seed=6)
    model, several = gru(), made(Accompanied)
    rows = torch.tensor([0, 2, 1, 1], device=subjects.DEVICE)
    two = {"target": 1, "additional_forward_args": (shift, 0.5), "n_steps": 12}
    variants = {
        "default": (model, {}, x, {"target": 1}),
        "one column": (Around(made(Recurrent, 1), lambda inner, z: inner(z)[:, 0]), {}, x, {}),
        "address": (per_step_gru(), {}, x, {"target": (3, 1)}),
        "rows": (model, {"seed": 4}, x, {"target": rows, "baselines": 0.3, "internal_batch_size": 7}),
        "no segments": (model, {"segments": 0}, x, {"target": 1, "n_steps": 9}),
        "cells": (model, {"held": 0.75, "max_length": 1}, x, {"target": 1, "n_steps": 20}),
        "anchored": (model, {"segments": 2, "min_length": 2, "max_length": 5, "anchored": 0.5}, x, {"target": 0}),
        "several": (several, {}, (x, static), two),
        "several baselines": (several, {}, (x, static), two | {"baselines": (x.mean(1, keepdim=True), 0.5)}),
    }
    for name, (forward, settings, given, call) in variants.items():
        results.run(f"captum/{name}", _attributed, forward, settings, given, call)


def _attributed(forward, settings, given, call):
    method = import_module("tempograd.captum").Timing(forward, **settings)
    values, delta = method.attribute(given, **call, return_convergence_delta=True)
    values = values if isinstance(values, tuple) else (values,)
    return {f"values {place}": part for place, part in enumerate(values)} | {"convergence_delta": delta}


def metrics(results):
    """Score two explanations of some models by every metric."""
    for model_name in ("gru", "lstm_holes", "per_step", "one_logit", "function"):
        model, x, _, call = models()[model_name]
        truth = uniform(*x.shape, seed=6) < 0.3
        truth[-1] = False  # a series that has nothing to find
        for method in ("timing", "random"):
            case, explanation = f"{model_name}/{method}", explain(quick(method), model, x, **call)
            for of, baseline in (("output", "zero"), ("output", "average"), ("score", None)):
                options = {"metrics": _every_metric(), "k": 0.1, "truth": truth, "of": of, "baseline": baseline}
                results.run(f"metric/{case}/{of} {baseline}", tg.evaluate, model, explanation, **options)
            results.run(f"metric/{case}/summary", _summaries, model, explanation, truth)
            _curves(results, f"curve/{case}", model, explanation)


def _every_metric():
    """Return every metric with each way to rank and some amounts, released ones included."""
    chosen = [tg.METRICS["accuracy"](name="accuracy at half", threshold=0.5)]
    for name, kind in sorted(tg.METRICS.items()):
        takes_k = "k" in {field.name for field in fields(kind)}
        for rank in ("absolute", "signed"):
            for k in (None, 1, 5, 0.5, STEPS * CHANNELS) if takes_k else (None,):
                settings = {"rank": rank} | ({} if k is None else {"k": k})
                label = f"{name} {rank}" + ("" if k is None else f" {k}")
                chosen.append(kind(name=label, **settings))
                if name in RELEASED_METRICS:
                    chosen.append(paper().released_metric(name, **settings, name=f"{label} released"))
    return chosen


def _curves(results, case, model, explanation):
    for rank in ("absolute", "signed"):
        for descending in (True, False):
            call = {"k": 0.6, "rank": rank, "descending": descending, "of": "output"}
            name = f"{case}/{rank} {descending}"
            results.run(name, lambda call=call: tg.removal_curve(model, explanation, **call)._asdict())


def _summaries(model, explanation, truth):
    scores = tg.evaluate(model, explanation, metrics=[*tg.METRICS], k=5, truth=truth, of="output")
    first, parts = next(iter(scores.values())), {}
    for metric, score in scores.items():
        parts |= {f"{metric} {part}": value for part, value in vars(tg.summarise(score)).items()}
        gain = vars(tg.compare(score, first, level=0.9))
        parts |= {f"{metric} gain {part}": value for part, value in gain.items()}
    return parts


def evaluations(results):
    """Score explanations that need something again: other series, a function, an input, a file."""
    x, train, model, both = series(), series(16, seed=1), gru(), made(Accompanied)
    static = normal(SERIES, STATIC, seed=5)
    scored = {"metrics": ["cpd", "cpp", "prediction_difference", "sufficiency"], "k": 5, "of": "score"}
    drawn = {"baseline": "background", "background": train}

    def product(output):
        return output[:, 0] * output[:, 1]

    forecast = {"task": "forecast", "target": (2, 1)}
    turned = Around(model, lambda inner, z: {"hidden": z, "logits": inner(z.transpose(1, 2))})
    unequal = [one[:length] for one, length in zip(x, LENGTHS, strict=True)]
    variants = {
        "background": (model, x, drawn, {"background": train}),
        "removed to background": (model, x, {}, drawn),
        "function": (model, x, {"target": product}, {}),
        "forecast": (made(Forecaster), x, forecast, {}),
        "multilabel": (made(Recurrent, CLASSES), x, {"task": "multilabel", "target": 2}, {"of": "output"}),
        "regression": (made(Recurrent, 1), x, {"task": "regression"}, {}),
        "several inputs": (both, {"series": x, "static": static}, {}, {}),
        "fixed": (both, x, {"fixed": {"static": static, "scale": 2.0}}, {}),
        "unequal": (model, unequal, {}, {}),
        "convention": (turned, x, {"model_layout": "BDT", "pick": "logits"}, {}),
    }
    for name, (subject, given, call, more) in variants.items():

        def compute(subject=subject, given=given, call=call, more=more):
            explanation = explain(quick("timing"), subject, given, **call)
            return tg.evaluate(subject, explanation, **(scored | more))

        results.run(f"evaluate/{name}", compute)
        results.run(f"evaluate/{name} from a file", _from_file, subject, given, call, scored | more)


def _from_file(model, x, call, scored):
    """Explain, write, read, score; a function is no part of a file."""
    explanation = explain(quick("timing"), model, x, **call)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "explanation.safetensors"
        explanation.save(path)
        read = tg.Explanation.load(path)
    lost = {"target": call["target"]} if callable(call.get("target")) else {}
    return kept(read) | tg.evaluate(model, read, **(scored | lost))


def choices(results):
    """Tune, rank, compare baselines and groups."""
    x, train, model = series(12, seed=9), series(16, seed=1), gru()
    metric = tg.METRICS["prediction_difference"](k=5)
    truth = uniform(*x.shape, seed=6) < 0.3
    seen = uniform(*x.shape, seed=2) > 0.25
    ids = list(range(100, 112))
    drawn = {"baseline": "background", "background": train}
    common = {"metric": metric, "ids": ids, "seed": 1}
    for name, (method, call) in {
        "timing": ("timing", {"budget": 30, "n_samples": 8}),
        "rand_ig": ("rand_ig", {"budget": 12, "n_samples": 8, "mask": seen, "baseline": "average"}),
        "background": ("timing", {"budget": 20, "n_samples": 8} | drawn),
        "augmented_occlusion": ("augmented_occlusion", {"budget": 12, "n_samples": 4, "background": train}),
        "dynamask": ("dynamask", {"budget": 8, "epochs": 2}),
        "binary": ("timing", {"budget": 20, "n_samples": 8, "task": "binary", "target": 1}),
    }.items():
        subject = made(Recurrent, 1) if name == "binary" else model
        results.run(f"tune/{name}", _tuned, subject, x, method, common | call)
    methods = {name: quick(name) for name in ("timing", "occlusion", "gradient_shap", "lime")}
    for name, call in {
        "removal": {},
        "learnt": {"background": train},
        "background": drawn,
        "mask": {"mask": seen, "baseline": "average", "target": 2},
        "truth": {"metric": "auprc", "truth": truth},
    }.items():
        results.run(f"rank/{name}", _ranked, model, x, methods, common | call)
    for method in ("timing", "integrated_gradients", "occlusion"):
        for name, call in {"two": {}, "three": {"background": train}, "mask": {"mask": seen}}.items():
            results.run(
                f"baselines/{method}/{name}", _compared, model, x, quick(method), {"ids": ids, "seed": 1} | call
            )
    results.run("groups", _groups, model, x, ids, seen)


def _tuned(model, x, method, call):
    tuning = asked(tg.tune, model, x, method, **call)
    rows = {f"trial {place}": row for place, row in enumerate(tuning.table)}
    return _flat(rows) | {
        "settings": sorted(tuning.settings.items()),
        "passes": tuning.passes,
        "unit": tuning.unit,
    }


def _ranked(model, x, methods, call):
    return _flat({row.method: row for row in asked(tg.rank, model, x, methods, **call).table})


def _compared(model, x, explainer, call):
    comparison = asked(tg.compare_baselines, model, x, explainer, **call)
    parts = {
        f"{name} {part}": value
        for name, explanation in comparison.explanations.items()
        for part, value in kept(explanation).items()
    }
    return parts | {f"shared {place}": shared for place, shared in enumerate(agreements(comparison))}


def _groups(model, x, ids, seen):
    explanation = explain(quick("timing"), model, x, ids=ids, mask=seen, target=1)
    groups = tg.compare_groups(explanation, range(5), range(5, 12))
    blocks = explanation.blocks(steps=5)
    parts = {name: getattr(groups, name) for name in ("first", "second", "difference", "error", "low", "high")}
    return parts | {f"block {name}": getattr(blocks, name) for name in ("mean", "error", "low", "high", "size")}


def _flat(rows):
    """Return the fields of dataclasses by the names of their rows."""
    return {f"{name} {part}": value for name, row in rows.items() for part, value in asdict(row).items()}


def runs(results):
    """Explain files to a folder, and read rows back."""
    x, ids, train = series(20, seed=3), np.arange(20) * 7 - 30, series(16, seed=1)
    drawn = {"baseline": "background", "background": train}
    some_steps = {"task": "per_step", "steps": [3, 11]}
    for name, (model, method, write, columns, call) in {
        "npy": (gru(), "timing", _npy, {}, {}),
        "parquet": (gru(), "timing", _parquet, {"keep": ["ward"]}, {"baseline": "average"}),
        "csv": (gru(), "occlusion", _csv, {"time": "time"}, {}),
        "binary": (made(Recurrent, 1), "integrated_gradients", _npy, {}, {"task": "binary", "target": 1}),
        "per step": (per_step_gru(), "timing", _npy, {}, some_steps),
        "learnt": (gru(), "gradient_shap", _npy, {}, {"background": train}),
        "drawn": (gru(), "rand_ig", _npy, {}, drawn),
    }.items():
        results.run(f"run/{name}", _run, model, quick(method), write, x, ids, columns, call)
    adaptive = reduced(tg.Timing(tolerance=0.05))
    results.run("run/adaptive", _run, gru(), adaptive, _npy, x, ids, {}, {})


def _run(model, explainer, write, x, ids, columns, call):
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        path = write(folder, x.cpu(), ids)
        run_over(model, str(path), columns, folder / "out", method=explainer, seed=3, **call)
        numbered = range(len(x)) if path.suffix == ".npy" else ids.tolist()
        parts = kept(tg.open_run(folder / "out").take(list(numbered[3:9])))
        rows = import_module("pyarrow.parquet").read_table(folder / "out" / "data").sort_by("key").flatten()
    return parts | {f"row {name}": np.asarray(rows[name].to_pylist()) for name in rows.column_names}


def _npy(folder, x, ids):
    np.save(folder / "x.npy", x.numpy())
    return folder / "x.npy"


def _parquet(folder, x, ids):
    columns = {"id": ids, "x": x.tolist(), "ward": ids % 3}
    table = import_module("pyarrow").table(columns)
    import_module("pyarrow.parquet").write_table(table, folder / "x.parquet")
    return folder / "x.parquet"


def _csv(folder, x, ids):
    rows = [f"{i},{t},{','.join(map(repr, x[n, t].tolist()))}" for n, i in enumerate(ids) for t in range(STEPS)]
    (folder / "x.csv").write_text("\n".join(["id,time,a,b,c", *rows]) + "\n", "utf-8")
    return folder / "x.csv"


def random_numbers(results):
    """Draw some numbers of every kind."""
    rng = random_number_module()
    ids = torch.tensor([0, 7, 2**40 + 1, -3], device=subjects.DEVICE)
    for seed in (0, 1, 2**33 + 5):
        for purpose in (0, 3, 10):
            results.run(f"draws/{seed} {purpose}", _numbers, rng, rng.keys(seed, ids, purpose))


def _numbers(rng, stream):
    counters, points = torch.arange(6, device=subjects.DEVICE), rng.fold_in(stream, 5)
    return {
        "keys": stream,
        "split": rng.split(stream, 9),
        "points": points,
        "bits": rng.bits(stream[..., None], counters),
        "uniform": rng.uniform(points, 2),
        "randint": rng.randint(points, 1, 1000),
        "normal": rng.normal(points, 3),
        "scale": rng.scale(rng.bits(points, 4), 17),
    }


def built(results):
    """Run each model that the library builds, before and after training, and compare weights by their order."""
    sizes = {"gru": {"hidden": 4}, "cnn": {"hidden": 4}, "transformer": {"positions": 4, "feedforward": 6}}
    for name, options in sizes.items():
        for per_step in (False, True):
            for seed in (0, 5):
                case = f"model/{name}/{'per step' if per_step else 'per series'}/{seed}"
                results.run(case, _untrained, name, options | {"per_step": per_step, "seed": seed})
            data = _toy("state" if per_step else "switch_feature", per_step)
            for recipe, train in (("default", tg.train), ("released", paper().train_as_released)):
                case = f"trained/{name}/{data.name}/{recipe}"
                results.run(case, _trained, train, name, data, options=options)
    results.run("trained/own", _trained, tg.train, made(Recurrent, 2), _toy("switch_feature", False))


def _untrained(name, options):
    model = build(name, CHANNELS, 2, **options).eval().to(subjects.DEVICE)
    return _weights(model) | {"forward": model(series(seed=7))}


def _trained(train, model, data, **options):
    model = train(model, data, seed=1, epochs=2, device=str(subjects.DEVICE), **options)
    parts = {"forward": model(data.test.x.to(subjects.DEVICE)), "accuracy": tg.accuracy(model, data.test)}
    return _weights(model) | parts


def _weights(model):
    return {f"weight {i}": weight for i, weight in enumerate(model.state_dict().values())}


def _toy(name, per_step):
    """Cut a synthetic data set down, to one label per series where none per step are wanted."""
    data = tg.load_dataset(name)

    def cut(part, count):
        y = part.y[:count, :STEPS] if per_step else (part.x[:count, :STEPS, 0].mean(1) > 0).long()
        return labelled(part.x[:count, :STEPS].contiguous(), y)

    train, test = cut(data.train, 50), cut(data.test, 10)
    return tg.Dataset(name, train, None, test, classes=2, channels=data.channels)


def data(results):
    """Digest the arrays of each data set that is made, or that is there and quickly read."""
    wanted = {"switch_feature": ("released", "paper"), "state": (None, "released")}
    if os.environ.get("TEMPOGRAD_DATA"):
        wanted |= {"wafer": (None,), "freezer": (None,), "epilepsy": (None, "random", "published")}
        wanted |= {"boiler": (None, "windows_random", "published"), "physionet2012": (None,)}
    for name, variants in wanted.items():
        for variant in variants:
            for fold in (None,) if name == "physionet2012" else (None, 0):
                results.run(f"data/{name}/{variant}/{fold}", _digests, name, variant, fold)


def _digests(name, variant, fold):
    data, parts = tg.load_dataset(name, variant=variant, fold=fold), {}
    for part in ("train", "validation", "test"):
        loaded = getattr(data, part)
        arrays = {} if loaded is None else {each: getattr(loaded, each) for each in ("x", "y", "mask", "truth")}
        arrays |= {} if loaded is None else {"ids": ids_of(loaded)}
        for each, tensor in arrays.items():
            if tensor is not None:
                array = torch.as_tensor(tensor).contiguous().numpy()
                parts[f"{part} {each}"] = f"{array.dtype} {array.shape} {hashlib.sha256(array).hexdigest()}"
    return parts | {"classes": data.classes, "channels": data.channels}


KINDS = (random_numbers, built, data, metrics, evaluations, calls, names, tasks, targets, backgrounds, inputs)
KINDS += (captum, choices, runs, explainers)


@contextmanager
def timed(name):
    start = time.perf_counter()
    yield
    sys.stderr.write(f"{name}: {time.perf_counter() - start:.1f} s\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--tree", type=Path, default=Path(__file__).resolve().parents[2])
    parser.add_argument("--device", type=torch.device, default=subjects.DEVICE)
    parser.add_argument("--only", default="", help="cases with this text in their name")
    args = parser.parse_args()
    subjects.DEVICE = args.device
    for package in (tg, paper()):  # an installed copy would answer for both trees, and all would be equal
        assert Path(package.__file__).resolve().is_relative_to(args.tree.resolve()), package.__file__
    torch.set_num_threads(1)
    torch.backends.cudnn.allow_tf32 = False  # or recurrent layers would round to 10 bits on a GPU
    warnings.simplefilter("ignore")
    results = Results(args.only)
    for compute in KINDS:
        with timed(compute.__name__):
            compute(results)
    np.savez_compressed(args.out, cases=np.array(len(results.cases)), **results.arrays)


if __name__ == "__main__":
    main()
