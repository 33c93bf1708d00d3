"""What two trees of the source code may call differently, so that the probe's cases are the same for both.

Cases are written in the words of the face with ``Series`` (what is true of the data) and ``Predictor`` (what is
true of the model). In the face before it, both were arguments of every call.
"""

from importlib import import_module
from importlib.util import find_spec

import tempograd as tg

NEW = hasattr(tg, "Predictor")
OF_SERIES = ("mask", "truth", "ids", "channels", "times", "units", "raw", "fixed", "layout")
OF_MODEL = ("task", "classes", "pick", "model_layout", "modules")  # model_layout: layout of the Predictor

# what is kept of an explanation, and of its gradient check
KEPT = ("values", "standard_error", "n_draws", "ess", "n_evals", "delta", "convergence_delta", "relative_error")
KEPT += ("prediction", "target", "baseline")
OF_CELLS = ("values", "standard_error", "n_draws", "ess", "baseline")  # which each of several inputs has
CHECKED = ("found", "gap", "nearby", "missing", "jump", "seen")
WHILE_THERE = ("signed", "varies", "curve_samples", "curve_error")  # compared as long as both trees have them
RANDOM_NUMBERS = ("tempograd._utils.rng", "tempograd.core.rng")  # the first of these modules that is there


def in_this_face(model, x, call):
    """Return model, series and the other arguments of a call as this tree takes them."""
    series = {name: call[name] for name in OF_SERIES if name in call}
    about = {name: call[name] for name in OF_MODEL if name in call}
    rest = {name: value for name, value in call.items() if name not in (*OF_SERIES, *OF_MODEL)}
    if NEW:
        if "model_layout" in about:
            about["layout"] = about.pop("model_layout")
        return tg.Predictor(model, **about) if about else model, tg.Series(x, **series) if series else x, rest
    if isinstance(series.get("mask"), str):  # "nan"
        series["missing"] = "mask"
        del series["mask"]
    if about.get("task") == "binary":  # was a classification with one column
        about["task"] = "classification"
    if series.get("layout") == "BDT" and rest.get("background") is not None:  # had the layout of x
        rest["background"] = rest["background"].transpose(1, 2)
    for module in about.pop("modules", ()):
        model = tg.wrap(module, model)
    return model, x, series | about | rest


def asked(function, model, x, *arguments, **call):
    """Call a function of the library, or an explainer, with model and series."""
    model, x, call = in_this_face(model, x, call)
    return function(model, x, *arguments, **call)


def fitted(explainer, model, train, seed, call):
    """Return an explainer that has learnt from training series; before, a bare model was all that it took."""
    about = {name: call[name] for name in OF_MODEL if name in call and NEW}
    model, train, _ = in_this_face(model, train, about)
    return explainer.fit(model, train, seed=seed)


def run_over(model, path, columns, out, **call):
    """Explain a file to a folder; before a Source told its columns, they were arguments too."""
    source, columns = (tg.Source(path, **columns), {}) if hasattr(tg, "Source") else (path, columns)
    model, source, call = in_this_face(model, source, call)
    return tg.explain_dataset(model, source, out, **columns, **call)


def every(explanation):
    """Return the explanation of each target."""
    if hasattr(tg, "Explanations") and isinstance(explanation, tg.Explanations):
        return [explanation.at(place) for place in range(len(explanation))]
    return [explanation, *getattr(explanation, "siblings", ())]


def kept(explanation):
    """Return what is compared of the explanation of one target."""
    parts = {name: getattr(explanation, name) for name in KEPT}
    parts |= {name: getattr(explanation, name) for name in WHILE_THERE if hasattr(explanation, name)}
    check = explanation.gradient_check
    return parts | {f"check {name}": None if check is None else getattr(check, name) for name in CHECKED}


def kept_of_inputs(explanation, inputs):
    """Return the same of an explanation of several inputs, whose cells are apart."""
    parts = {name: part for name, part in kept(explanation).items() if name not in OF_CELLS}
    cells = [(each, name) for each in inputs for name in OF_CELLS]
    return parts | {f"{each} {name}": getattr(explanation[each], name) for each, name in cells}


def labelled(x, y):
    """Return series with labels, as a data set holds them."""
    return (tg.Series if NEW else tg.Split)(x, y)


def ids_of(series):
    """Return the ids of series; where nobody gave them, they are numbers."""
    return range(len(series)) if series.ids is None else series.ids


def build(name, *sizes, **options):
    return import_module("tempograd.models").build(name, *sizes, **options)


def random_number_module():
    for name in RANDOM_NUMBERS:
        if find_spec(name.rpartition(".")[0]) is not None and find_spec(name) is not None:
            return import_module(name)
    raise ImportError(f"The random numbers are in none of {RANDOM_NUMBERS}: add their module.")


def paper():
    """Return the package of what the released code does."""
    return import_module("tempograd_paper.released")


def released(method, dataset):
    """Return a method as the released code runs it on a data set, None where the paper has no such row."""
    try:
        return paper().released(method, dataset)
    except tg.TempogradError:
        return None


def agreements(comparison):
    """Return what the maps against two baselines share, then those of two seeds."""
    found = comparison.agreement
    pairs = [*found, *comparison.redrawn.values()] if isinstance(found, tuple) else [*found.values()]
    return [getattr(pair, "shared", pair) for pair in pairs]
