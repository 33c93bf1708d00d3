"""Computes every kind of score once, on tiny models and series, and writes all numbers into one file.

``compare.py`` runs it for two trees of the source code. What the trees call differently is looked up in the first
part of this file and nowhere else, so that the cases below it are the same for both.

Run as ``python tests/lock/probe.py OUT.npz --tree DIR [--only SUBSTRING]`` with the tree's folders in PYTHONPATH.
"""

import argparse
import hashlib
import inspect
import os
import sys
import time
import warnings
from contextlib import contextmanager
from dataclasses import fields, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import nn

import tempograd as tg

# What the two trees may call differently -----------------------------------------------------------------------

# what is kept of an explanation, and the names that it has had: the first that is there counts
KEPT = {
    "values": ("values",),
    "standard_error": ("standard_error",),
    "free_points": ("free_points", "n_draws"),
    "effective_points": ("effective_points", "ess"),
    "passes": ("passes", "n_evals"),
    "change": ("change", "delta"),
    "residual": ("residual", "convergence_delta"),
    "relative_error": ("relative_error",),
    "curve_points": ("curve_points", "curve_samples"),
    "curve_error": ("curve_error",),
    "target": ("target",),
    "steps": ("steps",),
    "baseline": ("baseline",),
    "mask": ("mask",),
    "signed": ("signed",),
    "varies": ("varies",),
}
# likewise for the hyper-parameters that this file sets; one that is not listed has the name it always had
HYPER_PARAMETERS = {name: (name,) for name in ("epochs", "window", "min_length", "max_length", "hidden")}
HYPER_PARAMETERS |= {
    "points": ("points", "n_samples", "n_steps"),
    "max_points": ("max_points", "max_samples"),
    "samples": ("samples", "n_samples"),
    "batch": ("batch", "fit_batch_size"),
    "batch_size": ("batch_size", "fit_batch_size"),
    "controls": ("controls", "control_variates"),
    "until": ("until", "stop_when"),
}
SAMPLING = ("augmented_occlusion", "fit", "lime", "winit")  # whose n_samples were samples, and no points
PREFIXES = ("fit", "winit")  # whose fit_batch_size was a batch_size, and no batch
# likewise for arguments of calls, for functions of the random numbers and for parts of a removal curve
ARGUMENTS = {"chunk": "batch_size", "substitute": "baseline", "train": "background"}
NUMBERS = {"words": "bits", "below": "randint", "per_point": "fold_in", "scale": "scale"}
CURVE = {"delta": "change"}
# metrics that the released code computes in a way of its own, and the settings that once asked for it
RELEASED_METRICS = {name: {"scale": "published"} for name in ("cpd", "cpp")}
RELEASED_METRICS |= {name: {"pooled": True} for name in ("aup", "aur", "auroc", "auprc")}
DRAWS = ("tempograd.draws", "tempograd._utils.rng")
TREE = Path(__file__).resolve().parents[2]  # main puts the tree here that is asked for


def paper():
    """Return the package of the released experiments, None for a tree that has none.

    One that is installed beside the tree, in the environment, belongs to another tree.
    """
    spec = find_spec("tempograd_paper")
    inside = spec is not None and spec.origin is not None and Path(spec.origin).resolve().is_relative_to(TREE)
    return import_module("tempograd_paper.released") if inside else None


def released(method, dataset):
    """Return a method as the released code runs it on a data set, None where the paper has no such row."""
    try:
        return paper().released(method, dataset) if paper() else tg.EXPLAINERS[method].published(dataset)
    except (tg.TempogradError, LookupError):
        return None


def released_metric(name, **settings):
    """Return a metric as the released code computes it, for one of RELEASED_METRICS."""
    if hasattr(paper(), "released_metric"):
        return paper().released_metric(name, **settings)
    return tg.METRICS[name](**RELEASED_METRICS[name], **settings)


def train_as_released(model, data, **options):
    if hasattr(paper(), "train_as_released"):
        return paper().train_as_released(model, data, **options)
    return tg.train(model, data, recipe="published", **options)


def load(name, variant, fold):
    """Load a data set; the released experiments may have variants of their own."""
    if variant == "published" and hasattr(paper(), "load_dataset"):
        return paper().load_dataset(name, variant=variant, fold=fold)
    return tg.load_dataset(name, variant=variant, fold=fold)


def build(name, *sizes, **options):
    return import_module("tempograd.models").build(name, *sizes, **options)


def draws():
    """Return the module of the random numbers."""
    for name in DRAWS:
        parent = name.rpartition(".")[0]
        if find_spec(parent) is not None and find_spec(name) is not None:
            return import_module(name)
    raise ImportError(f"The random numbers are in none of {DRAWS}: name their module in DRAWS.")


def called(owner, names):
    """Return the first of these names that an object or a set of names has."""
    has = (lambda name: name in owner) if isinstance(owner, set) else (lambda name: hasattr(owner, name))
    return next((name for name in names if has(name)), None)


def arguments(function, **given):
    """Return arguments by the names that they have in this tree."""
    mine = {name for name in inspect.signature(function).parameters if name != "settings"}
    return {name if name in mine or name not in ARGUMENTS else ARGUMENTS[name]: v for name, v in given.items()}


def kept(explanation):
    """Return what is compared of an explanation."""
    found = {name: called(explanation, names) for name, names in KEPT.items()}
    lost = [name for name, here in found.items() if here is None]
    if lost:
        raise AttributeError(f"An explanation has no {', '.join(lost)}: add the new names to KEPT.")
    return {name: getattr(explanation, here) for name, here in found.items()}


def reset(method, **settings):
    """Return a method with other hyper-parameters, by the names that they have in this tree.

    What only the released code ever set is by now a hyper-parameter of the released class alone.
    """
    kinds = [tg.EXPLAINERS[method]] + ([paper().kind_of(method)] if hasattr(paper(), "kind_of") else [])
    for kind in kinds:
        mine = {field.name for field in fields(kind)}
        here = {called(mine, HYPER_PARAMETERS.get(name, (name,))): value for name, value in settings.items()}
        if None not in here:
            return kind(**here)
    raise AttributeError(f"{method} has not all of {', '.join(settings)}: add the new names to HYPER_PARAMETERS.")


# What is explained ---------------------------------------------------------------------------------------------

SERIES, STEPS, CHANNELS, CLASSES, HIDDEN = 4, 12, 3, 3, 4
IDS = [5, 9, 2, 40]
DATASETS = (
    *("mimic3", "pam", "boiler", "epilepsy", "wafer", "freezer"),
    *("switch_feature", "state", "physionet2012"),
)
# at most so many: enough for every branch, and no more
MOST = {"points": 10, "max_points": 40, "epochs": 3, "samples": 6, "batch": 3, "window": 4, "hidden": 4}
MOST |= {"min_length": STEPS, "max_length": STEPS, "batch_size": 8}
OPTIONAL_FIT = ("gradient_shap", "occlusion")  # which also explain without one
# options that neither the defaults nor the released settings show
OTHERS = {
    "augmented_occlusion": {"pooled": {"marginal": "pooled"}, "all": {"over": "all"}},
    "contralsp": {"triplet": {"contrastive": "triplet"}},
    "dynamask": {
        "window": {"perturbation": "window", "deletion": True},
        "reference": {"perturbation": "reference", "areas": (0.2,)},
    },
    "extremal_mask": {"deletion": {"deletion": True, "batch": 2}},
    "fit": {"plain": {"recipe": "plain"}},
    "gradient_shap": {"noise": {"noise": 0.1}},
    "integrated_gradients": {"midpoint": {"rule": "midpoint"}},
    "lime": {"series": {"distance": "series", "samples": 20}, "alpha": {"relative": False, "alpha": 0.001}},
    "occlusion": {"absolute": {"absolute": True}},
    "rand_ig": {"p": {"p": 0.2}},
    "timex": {"means": {"label": "means"}, "unscaled": {"scaled": False}},
    "timing": {
        "cells": {"segments": 2, "min_length": 2, "max_length": 5, "anchored": 0.5},
        "plain": {"controls": False},
        "tolerance": {"tolerance": 0.05},
        "top": {"tolerance": 0.2, "until": "top"},
    },
    "winit": {
        "kl": {"distance": "kl", "aggregation": "max"},
        "js": {"distance": "js", "aggregation": "absmax"},
        "marginal": {"sampler": "marginal"},
    },
}


def series(count=SERIES, seed=0, steps=STEPS):
    return torch.randn(count, steps, CHANNELS, generator=torch.Generator().manual_seed(seed))


def sharp(model):
    """Enlarge the weights, so that the answers of an untrained model differ."""
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(2.0)
    return model.eval()


class Recurrent(nn.Module):
    """An LSTM as users write it."""

    def __init__(self, classes):
        super().__init__()
        self.lstm = nn.LSTM(CHANNELS, HIDDEN, batch_first=True)
        self.head = nn.Linear(HIDDEN, classes)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


class Noisy(nn.Module):
    """A model that draws whenever it is asked."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x + 0.1 * torch.randn_like(x))


def own(kind, *arguments):
    torch.manual_seed(11)
    return sharp(kind(*arguments))


def function(x):
    """Return three columns that the cells enter with products, a kink and both signs."""
    total, first = x.sum((1, 2)), x[:, 0, 0]
    return torch.stack([total.sin() + first * x[:, -1, 1], x.relu().mean((1, 2)), (x[:, :, 2] ** 2).mean(1)], 1)


def models():
    """Return each model with its series, its training series and the arguments of the call."""
    x, train = series(), series(16, seed=1)
    holes = torch.rand(x.shape, generator=torch.Generator().manual_seed(2)) > 0.25
    lengths = torch.tensor([12, 9, 5, 11])
    padding = (torch.arange(STEPS) < lengths[:, None])[..., None].expand(x.shape)
    gru = sharp(build("gru", CHANNELS, CLASSES, seed=1, hidden=HIDDEN))
    per_step = sharp(build("gru", CHANNELS, CLASSES, per_step=True, seed=2, hidden=HIDDEN))
    cnn = sharp(build("cnn", CHANNELS, CLASSES, seed=3, hidden=HIDDEN))
    transformer = sharp(build("transformer", CHANNELS, CLASSES, seed=4, positions=4, feedforward=6)).double()
    return {
        "gru": (gru, x, train, {}),
        "lstm_holes": (own(Recurrent, CLASSES), x * holes, train, {"mask": holes}),
        "cnn_padded": (cnn, x * padding, train, {"mask": padding}),
        "transformer_double": (transformer, x.double(), train.double(), {}),
        "function": (function, x, train, {}),
        "per_step": (per_step, x, train, {}),
        "per_step_own": (per_step, x, train, {"steps": "own"}),
        "one_logit": (own(Recurrent, 1), x, train, {}),
    }


# What is computed ----------------------------------------------------------------------------------------------


class Results:
    """Numbers and texts by name; a case is what one call gave."""

    def __init__(self, only):
        self.only, self.arrays, self.cases = only, {}, set()

    def wants(self, case):
        return self.only in case

    def add(self, case, **parts):
        self.cases.add(case)
        for name, part in parts.items():
            self.arrays[f"{case}/{name}"] = as_array(part)


def as_array(part):
    """Return a part of a result as an array; what is no number becomes a text."""
    if isinstance(part, torch.Tensor):
        return part.detach().cpu().numpy().copy()
    if isinstance(part, (bool, int, float, np.ndarray)):
        return np.asarray(part)
    return np.array(str(part))


def or_refusal(compute):
    """Return the parts of a result, or the name of the error that the library gives in its place."""
    torch.manual_seed(0)  # for models that draw
    try:
        return compute()
    except tg.TempogradError as error:
        return {"refused": type(error).__name__}


def is_one_of(methods, explainer):
    return any(tg.EXPLAINERS[name] in type(explainer).__mro__ for name in methods)


def reduced(explainer):
    """Make a method quick: no number of it above what MOST says."""
    mine = {field.name for field in fields(explainer)}
    changes = {}
    others = {"points" if is_one_of(SAMPLING, explainer) else "samples"}
    others.add("batch" if is_one_of(PREFIXES, explainer) else "batch_size")
    for name, most in MOST.items():
        if name in others:
            continue
        here = called(mine, HYPER_PARAMETERS[name])
        value = None if here is None else getattr(explainer, here)
        if here == "max_samples" and explainer.tolerance is not None:
            value = value or 3200
        if isinstance(value, int) and value > most:
            changes[here] = most
    return replace(explainer, **changes)


def settings_of(method):
    """Return every setting of a method that is tried, by name; None where there is none."""
    plain = tg.EXPLAINERS[method]()
    found = {"default": plain} | {dataset: released(method, dataset) for dataset in DATASETS}
    found |= {f"with_{name}": reset(method, **changes) for name, changes in OTHERS.get(method, {}).items()}
    return {name: None if explainer is None else reduced(explainer) for name, explainer in found.items()}


def explained(explainer, model, x, train, call, fit=True):
    def compute():
        ready = explainer.fit(model, train, seed=2) if fit else explainer
        return kept(ready(model, x, seed=3, ids=IDS[: len(x)], **arguments(type(ready).__call__, **call)))

    return or_refusal(compute)


def explainers(results):
    """Explain every model with every method in every setting."""
    for method in sorted(tg.EXPLAINERS):
        settings = settings_of(method)
        for model_name, subject in models().items():
            known = {}  # one setting often serves several data sets
            for setting, explainer in settings.items():
                for fit in (True, False) if method in OPTIONAL_FIT else (True,):
                    case = f"explain/{method}/{setting}/{model_name}{'' if fit else '/unfitted'}"
                    if not results.wants(case):
                        continue
                    key = (type(explainer), repr(explainer), fit)
                    if explainer is None:
                        known[key] = {"refused": "no such setting"}
                    elif key not in known:
                        known[key] = explained(explainer, *subject, fit=fit)
                    results.add(case, **known[key])


def calls(results):
    """Explain with every argument of the call that changes what is asked."""
    subjects = models()
    model, x, train, _ = subjects["gru"]
    gaps = x.masked_fill(torch.rand(x.shape, generator=torch.Generator().manual_seed(4)) < 0.2, torch.nan)
    variants = {
        "raw": (x, {"output": "raw"}),
        "average": (x, {"baseline": "average"}),
        "tensor": (x, {"baseline": series(1, seed=8)}),
        "target": (x, {"target": torch.tensor([0, 1, 2, 1])}),
        "picked": (x, {"target": lambda output: output[:, 0] * output[:, 1]}),
        "layout": (x.transpose(1, 2), {"layout": "BDT"}),
        "missing": (gaps, {"missing": "mask"}),
        "chunk": (x, {"chunk": 3}),
        "unchecked": (x, {"gradient_check": False}),
        "bf16": (x, {"precision": "bf16"}),
    }
    for method in ("timing", "integrated_gradients", "gradient_shap", "occlusion", "lime", "dynamask"):
        explainer = reduced(tg.EXPLAINERS[method]())
        for name, (given, call) in variants.items():
            if results.wants(case := f"call/{method}/{name}"):
                results.add(case, **explained(explainer, model, given, train, call))
        for steps in (3, [0, 5]):
            if results.wants(case := f"call/{method}/steps {steps}"):
                results.add(case, **explained(explainer, *subjects["per_step"][:3], {"steps": steps}))
        if results.wants(case := f"call/{method}/draws"):
            results.add(case, **explained(explainer, Noisy(model), x, train, {"draws": 3}))
    moving = torch.arange(STEPS)[:, None] % 2
    for rule in ("midpoint", "gauss-legendre"):
        if results.wants(case := f"call/masking_ig/{rule}"):
            results.add(case, **explained(tg.MaskingIG(moving, 8, rule), model, x, train, {}))
    if results.wants("call/explain"):
        fitted = reset("gradient_shap", points=8).fit(model, train, seed=1)
        named = kept(tg.explain(model, x, fitted, seed=1))
        results.add("call/explain", **named)


def metrics(results):
    """Score two explanations of some models by every metric."""
    for model_name in ("gru", "lstm_holes", "per_step", "one_logit", "function"):
        model, x, _, call = models()[model_name]
        truth = torch.rand(x.shape, generator=torch.Generator().manual_seed(6)) < 0.3
        truth[-1] = False  # a series that has nothing to find
        for method in ("timing", "random"):
            explanation = reduced(tg.EXPLAINERS[method]())(model, x, seed=3, ids=IDS, **call)
            case = f"{model_name}/{method}"
            scores = _scores(results, f"metric/{case}", model, explanation, truth)
            _curves(results, f"curve/{case}", model, explanation)
            _summaries(results, f"metric/{case}", scores)


def _chosen():
    """Return every metric with each way to rank and some amounts, released ones included."""
    found = []
    for name, kind in sorted(tg.METRICS.items()):
        takes_k = "k" in {field.name for field in fields(kind)}
        for rank in ("absolute", "signed"):
            for k in (None, 1, 5, 0.5, STEPS * CHANNELS) if takes_k else (None,):
                settings = {"rank": rank} | ({} if k is None else {"k": k})
                label = f"{name} {rank}" + ("" if k is None else f" {k}")
                found.append(kind(name=label, **settings))
                if name in RELEASED_METRICS:
                    found.append(replace(released_metric(name, **settings), name=f"{label} released"))
    found.append(tg.METRICS["accuracy"](name="accuracy at half", threshold=0.5))
    return found


def _scores(results, case, model, explanation, truth):
    for substitute in ("zero", "average"):
        name = f"{case}/{substitute}"
        options = arguments(tg.evaluate, substitute=substitute, k=0.1, truth=truth)
        scores = or_refusal(lambda options=options: tg.evaluate(model, explanation, metrics=_chosen(), **options))
        if results.wants(name):
            results.add(name, **scores)
    return scores


def _curves(results, case, model, explanation):
    for rank in ("absolute", "signed"):
        for descending in (True, False):
            if not results.wants(name := f"{case}/{rank} {descending}"):
                continue
            curve = tg.removal_curve(model, explanation, k=0.6, rank=rank, descending=descending)
            results.add(name, **{CURVE.get(part, part): value for part, value in curve._asdict().items()})


def _summaries(results, case, scores):
    if not results.wants(name := f"{case}/summary"):
        return
    rows = {metric: score for metric, score in scores.items() if torch.is_tensor(score) and score.ndim == 1}
    for metric, score in rows.items():
        found, gain = tg.summarise(score), tg.compare(score, rows[next(iter(rows))], level=0.9)
        results.add(name, **{f"{metric} {part}": value for part, value in vars(found).items()})
        results.add(name, **{f"{metric} gain {part}": value for part, value in vars(gain).items()})


def _number(rng, name):
    return getattr(rng, name if hasattr(rng, name) else NUMBERS[name])


def random_numbers(results):
    """Draw some numbers of every kind."""
    rng, ids, counters = draws(), torch.tensor([0, 7, 2**40 + 1, -3]), torch.arange(6)
    for seed in (0, 1, 2**33 + 5):
        for purpose in (0, 3, 10):
            if not results.wants(case := f"draws/{seed} {purpose}"):
                continue
            stream = rng.keys(seed, ids, purpose)
            word, below, per_point, scale = (
                _number(rng, name) for name in ("words", "below", "per_point", "scale")
            )
            points = per_point(stream, 5)
            results.add(case, keys=stream, split=rng.split(stream, 9), points=points)
            results.add(case, words=word(stream[..., None], counters), uniform=rng.uniform(points, 2))
            results.add(case, below=below(points, 1, 1000), normal=rng.normal(points, 3))
            results.add(case, scale=scale(word(points, 4), 17))


def built(results):
    """Ask each model that the library builds, before and after training, and compare weights by their order."""
    sizes = {"gru": {"hidden": 4}, "cnn": {"hidden": 4}, "transformer": {"positions": 4, "feedforward": 6}}
    x = series(seed=7)
    for name, options in sizes.items():
        for per_step in (False, True):
            for seed in (0, 5):
                case = f"model/{name}/{'per step' if per_step else 'per series'}/{seed}"
                if results.wants(case):
                    model = build(name, CHANNELS, 2, per_step=per_step, seed=seed, **options)
                    results.add(case, **_weights(model), forward=model.eval()(x))
            data = _toy("state" if per_step else "switch_feature", per_step)
            for recipe, trainer in (("default", tg.train), ("released", train_as_released)):
                case = f"trained/{name}/{data.name}/{recipe}"
                if results.wants(case):
                    model = trainer(name, data, seed=1, options=options, epochs=2, device="cpu")
                    results.add(case, **_weights(model), forward=model(data.test.x))
                    results.add(case, accuracy=tg.accuracy(model, data.test))
    if results.wants("trained/own/default"):
        model = tg.train(own(Recurrent, 2), _toy("switch_feature", False), seed=1, epochs=2, device="cpu")
        results.add("trained/own/default", **_weights(model))


def _weights(model):
    return {f"weight {i}": weight for i, weight in enumerate(model.state_dict().values())}


def _toy(name, per_step):
    """Cut a synthetic data set down, to one label per series where none per step are wanted."""
    data = tg.load_dataset(name)

    def cut(split, count):
        y = split.y[:count, :STEPS] if per_step else (split.x[:count, :STEPS, 0].mean(1) > 0).long()
        return tg.Split(split.x[:count, :STEPS].contiguous(), y)

    train, test = cut(data.train, 50), cut(data.test, 10)
    return tg.Dataset(name, train, None, test, classes=2, channels=data.channels)


def data(results):
    """Digest the arrays of each data set that is made, or that is there and quickly read."""
    there = bool(os.environ.get("TEMPOGRAD_DATA"))
    wanted = {"switch_feature": ("released", "paper"), "state": (None, "paper")}
    if there:
        wanted |= {"wafer": (None,), "freezer": (None,), "epilepsy": (None, "random", "published")}
        wanted |= {"boiler": (None, "windows_random", "published"), "physionet2012": (None,)}
    for name, variants in wanted.items():
        for variant in variants:
            for fold in (None,) if name == "physionet2012" else (None, 0):
                if results.wants(case := f"data/{name}/{variant}/{fold}"):
                    results.add(
                        case, **or_refusal(lambda name=name, v=variant, f=fold: _digests(load(name, v, f)))
                    )


def _digests(found):
    parts = {}
    for part in ("train", "validation", "test"):
        split = getattr(found, part)
        for name in ("x", "y", "mask", "truth", "ids") if split is not None else ():
            tensor = getattr(split, name)
            if tensor is not None:
                array = tensor.contiguous().numpy()
                parts[f"{part} {name}"] = f"{array.dtype} {array.shape} {hashlib.sha256(array).hexdigest()}"
    return parts | {"classes": found.classes, "channels": found.channels}


KINDS = (random_numbers, built, data, metrics, calls, explainers)


@contextmanager
def timed(name):
    start = time.perf_counter()
    yield
    sys.stderr.write(f"{name}: {time.perf_counter() - start:.1f} s\n")


def main():
    global TREE  # noqa: PLW0603  # which tree this is holds for the whole process
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--tree", type=Path, default=TREE)
    parser.add_argument("--only", default="", help="cases whose name holds this text")
    args = parser.parse_args()
    TREE = args.tree.resolve()
    # an installed copy would answer for both trees, and all would be equal
    assert Path(tg.__file__).resolve().is_relative_to(TREE), f"{tg.__file__} is not in {TREE}"
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    results = Results(args.only)
    for compute in KINDS:
        with timed(compute.__name__):
            compute(results)
    np.savez_compressed(args.out, cases=np.array(len(results.cases)), **results.arrays)


if __name__ == "__main__":
    main()
