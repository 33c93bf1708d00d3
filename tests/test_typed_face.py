"""What type checkers and editors see at the public doors is what is there.

``mypy`` checks ``typing/right_uses.py`` and ``typing/wrong_uses.py`` in ``make lint``; here they run.
"""

import ast
import inspect
import re
import typing
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import UnionType

import matplotlib.figure
import numpy as np
import pandas as pd
import pytest

import tempograd as tg
import tempograd.typing as words
from tempograd import captum, plots, testing
from tempograd.bulk.checks import KeptCells
from tempograd.bulk.driver import Engine
from tempograd.cli import make_parser
from tempograd.models import Recipe
from tempograd.plots.picture import Picture
from tests.typing import right_uses, wrong_uses

DOORS = {tg: tg.__all__, plots: plots.__all__, captum: captum.__all__, testing: testing.__all__}
LATE = {"pd": pd, "Figure": matplotlib.figure.Figure, "Picture": Picture}  # extras, which are imported when needed
SPECIAL = {"__init__", "__call__", "__getitem__", "__len__", "__iter__", "__contains__"}
UNTYPED = {  # honest exceptions
    "parameters": "settings of many kinds, passed on to the class that had them: Timing(**explanation.parameters)"
}


def uses(module):
    """Return the functions of a file of uses that can be called."""
    own = [each for each in vars(module).values() if getattr(each, "__module__", None) == module.__name__]
    functions = [each for each in own if inspect.isfunction(each)]
    return [each for each in functions if set(inspect.signature(each).parameters) <= {"folder"}]


def run(use, folder):
    use(*[folder] * len(inspect.signature(use).parameters))


RARE = pytest.mark.filterwarnings("ignore::tempograd.TempogradWarning")  # few samples, functions for models


@RARE
@pytest.mark.parametrize("use", uses(right_uses), ids=lambda use: use.__name__)
def test_right_uses_run(use, tmp_path):
    run(use, tmp_path)


@RARE
@pytest.mark.parametrize("use", uses(wrong_uses), ids=lambda use: use.__name__)
def test_wrong_uses_are_refused_in_one_line(use, tmp_path):
    with pytest.raises((tg.TempogradError, TypeError, AttributeError)) as refusal:
        run(use, tmp_path)
    assert refusal.type.__module__.startswith("tempograd") or re.search(
        r"unexpected keyword argument|has no attribute", str(refusal.value)
    )
    assert len(str(refusal.value).splitlines()) == 1


def test_each_wrong_use_is_one_error_of_one_kind():
    text = Path(wrong_uses.__file__).read_text(encoding="utf-8")
    marks = [number for number, line in enumerate(text.splitlines(), 1) if "# type: ignore[" in line]
    last = [node.body[-1].lineno for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    assert marks == last
    assert len(last) == len(uses(wrong_uses))


# No Any where a type exists.


def has_any(hint):
    """Tell whether a type says nothing, or a part of it; arrays may hold anything that numpy knows."""
    if hint is typing.Any:
        return True
    if typing.get_origin(hint) in {np.ndarray, np.dtype, typing.Literal}:
        return False
    parts = hint if isinstance(hint, list) else typing.get_args(hint)
    return any(has_any(part) for part in parts)


def functions(found):
    """Yield what can be called of a public name: itself, or its methods with those it inherits from us."""
    if not isinstance(found, type):
        yield found.__name__, inspect.unwrap(found)
        return
    for kind in [each for each in found.__mro__ if each.__module__.startswith("tempograd")]:
        for name, part in vars(kind).items():
            inner = next(
                (getattr(part, each) for each in ("fget", "__func__", "func") if hasattr(part, each)), part
            )
            if inspect.isfunction(inner) and (name in SPECIAL or not name.startswith("_")):
                yield f"{kind.__name__}.{name}", inspect.unwrap(inner)


def doors():
    for module, names in DOORS.items():
        for name in names:
            found = getattr(module, name)
            if isinstance(found, type) or inspect.isfunction(found):
                yield f"{module.__name__}.{name}", found


FACE = dict(doors())


@pytest.mark.parametrize("name", FACE)
def test_no_door_takes_or_gives_just_anything(name):
    kinds = FACE[name].__mro__ if isinstance(FACE[name], type) else ()
    open_ = {
        f"{kind.__name__}.{field}"
        for kind in kinds
        if kind.__module__.startswith("tempograd")
        for field, hint in typing.get_type_hints(kind).items()
        if has_any(hint) and not field.startswith("_")
    }
    for label, function in functions(FACE[name]):
        hints = typing.get_type_hints(function, localns=LATE)
        made = function.__name__ == "__init__" and is_dataclass(FACE[name])  # by dataclass, from the fields above
        missing = set() if made else set(inspect.signature(function).parameters) - hints.keys() - {"self", "cls"}
        missing |= set() if made or "return" in hints else {"return"}
        said = {label if part == "return" else f"{label}({part})" for part, hint in hints.items() if has_any(hint)}
        open_ |= {f"{label}({part}) is untyped" for part in missing} | (set() if made else said)
    assert {each for each in open_ if each.rpartition(".")[2] not in UNTYPED} == set()


def test_exceptions_are_needed():
    assert has_any(typing.get_type_hints(tg.Explanation)["parameters"])
    assert has_any(typing.get_type_hints(tg.Explainer.parameters.fget)["return"])
    assert has_any(typing.get_type_hints(tg.Metric.parameters.fget)["return"])


@pytest.mark.parametrize("name", [name for name in vars(words) if name[0].isupper() and name != "Any"])
def test_types_of_the_face_say_something(name):
    hint = getattr(words, name)
    parts = typing.get_type_hints(hint).values() if isinstance(hint, type) else [hint]
    assert not any(has_any(part) for part in parts)


# One call, in one order, said in several places.


def spelt(function):
    """Write a signature without its types."""
    found = inspect.signature(function)
    plain = [each.replace(annotation=each.empty) for each in found.parameters.values()]
    return str(found.replace(parameters=plain, return_annotation=found.empty))


CALL = (
    "target=None, baseline=None, mask=None, steps=None, output='probability', seed=0, ids=None, channels=None, "
    "times=None, names=None, layout='BTD', missing='error', draws=1, batch_size=None, precision='full', "
    "gradient_check=True, targets=None, task=None, fixed=None, pick=None, model_layout='BTD', classes=None, "
    "units=None, raw=None"
)


def test_the_call_is_that_of_the_design():
    assert spelt(tg.explain) == f"(model, x, method='timing', *, background=None, {CALL}, **settings)"
    assert inspect.signature(tg.explain).return_annotation is tg.Explanation


def test_explainers_take_the_same_call():
    assert spelt(tg.Explainer.__call__) == f"(self, model, x, *, background=None, {CALL})"
    ours, theirs = (typing.get_type_hints(each) for each in (tg.explain, tg.Explainer.__call__))
    assert theirs.items() <= ours.items()


def keyword_only(function):
    hints = typing.get_type_hints(function, localns=LATE)
    return {
        name: hints[name]
        for name, each in inspect.signature(function).parameters.items()
        if each.kind is each.KEYWORD_ONLY
    }


def settable(kind):
    return {each.name: each.type for each in fields(kind) if not each.metadata.get("fitted")}


def test_options_that_are_passed_on_are_those_of_the_call():
    call, explain = typing.get_type_hints(words.CallOptions), typing.get_type_hints(words.ExplainOptions)
    assert call == keyword_only(tg.Explainer.__call__)
    assert explain == keyword_only(tg.explain)
    assert typing.get_type_hints(words.TimingOptions) == explain | settable(tg.Timing)
    assert typing.get_type_hints(words.RecipeOptions) == settable(Recipe)
    assert typing.get_type_hints(words.SeriesPlotOptions) == keyword_only(plots.series_record)
    series = tg.Series(right_uses.X, right_uses.X[:, 0, 0].long())
    assert series.options.keys() == typing.get_type_hints(words.SeriesOptions).keys()


def members(hint):
    """Return the types of a union, and the words of a choice."""
    if typing.get_origin(hint) in {UnionType, typing.Union}:
        return {inner for part in typing.get_args(hint) for inner in members(part)}
    return set(typing.get_args(hint)) if typing.get_origin(hint) is typing.Literal else {hint}


def test_settings_by_the_name_of_a_method_are_those_of_the_methods():
    """Each with the types that it has in one of them, and no others."""
    known = {}
    for name in tg.EXPLAINERS:
        if tg.EXPLAINERS[name].__module__.startswith("tempograd."):
            for setting, hint in settable(tg.EXPLAINERS[name]).items():
                known.setdefault(setting, set()).update(members(hint))
    offered = typing.get_type_hints(words.MethodOptions)
    assert known == {name: members(offered[name]) for name in offered.keys() - keyword_only(tg.explain).keys()}


def test_the_command_line_has_the_same_words():
    """Said once more there, since help loads no torch."""
    commands = make_parser()._subparsers._group_actions[0].choices
    choices = {
        (action.dest, tuple(action.choices))
        for name in ("explain", "evaluate")
        for action in commands[name]._actions
        if action.choices and action.dest not in {"split", "lengths"}  # of which Python has none
    }
    there = {
        "align": words.Align,
        "baseline": typing.get_args(words.Baseline)[0],
        "cells": KeptCells,
        "engine": Engine,
        "format": words.TableFormat,
        "missing": words.Missing,
        "model_layout": words.ModelLayout,
        "output": words.Output,
        "of": words.Measured,
        "task": words.Task,
    }
    assert choices == {(name, typing.get_args(hint)) for name, hint in there.items()}


def test_a_picture_and_its_numbers_take_the_same_call():
    for name in (name for name in plots.__all__ if name.endswith("_record")):
        picture, record = (
            inspect.signature(getattr(plots, each)) for each in (name.removesuffix("_record"), name)
        )
        assert picture.parameters == record.parameters
        assert picture.return_annotation == "Picture"


# Documentation and signature name the same parameters, with the same defaults and words.

ENTRY = re.compile(r"(\*{0,2}\w+(?:, \*{0,2}\w+)*)(?: : (.*))?")


def documented(found):
    """Return what is said of each parameter: its place in its line, and its kind, None for a link."""
    text = re.search(r"^Parameters\n-+\n((?:(?!\S.*\n-+$).*\n?)*)", inspect.getdoc(found) or "", re.MULTILINE)
    lines = [line for line in (text[1] if text else "").splitlines() if line[:1].strip()]
    entries = [ENTRY.fullmatch(line) for line in lines]
    assert all(entries), lines
    return {
        name.strip("*"): (place, entry[2]) for entry in entries for place, name in enumerate(entry[1].split(", "))
    }


def passed(found):
    """Return the parameters that users pass: no self, nothing that fit writes or a base class has told.

    Those of a dataclass in the order of its fields, of which a signature puts what is passed by name alone last.
    """
    parts = fields(found) if is_dataclass(found) else ()
    left_out = {part.name for part in parts if part.metadata.get("fitted") and part.default is None}
    inherited = [name for base in found.__mro__[1:] for name in documented(base)] if parts else []
    left_out |= set(inherited) - documented(found).keys()
    there = inspect.signature(found).parameters
    order = [part.name for part in parts if part.name in there] or list(there)
    assert sorted(order) == sorted(there)
    return {name: there[name] for name in order if name not in left_out | {"self"}}


METHODS = {
    f"{kind.__name__}.{name}": part
    for kind in (tg.Explainer, tg.Explanation, captum.Timing)
    for name, part in vars(kind).items()
    if inspect.isfunction(part) and name != "__init__"
}
DOCUMENTED = {name: found for name, found in (FACE | METHODS).items() if documented(found)}


@pytest.mark.parametrize("name", DOCUMENTED)
def test_the_documentation_names_the_parameters_that_there_are(name):
    """All of them, and in their order but for those that it only links to."""
    told, there = documented(DOCUMENTED[name]), list(passed(DOCUMENTED[name]))
    assert sorted(told) == sorted(there)
    links = {parameter for parameter, (_, kind) in told.items() if kind is None}
    assert [each for each in told if each not in links] == [each for each in there if each not in links]


@pytest.mark.parametrize("name", DOCUMENTED)
def test_defaults_and_words_in_the_documentation_are_those_of_the_code(name):
    parameters = passed(DOCUMENTED[name])
    for parameter, (place, kind) in documented(DOCUMENTED[name]).items():
        if kind is None:
            continue
        default, choice = kind.partition("default=")[2], re.match(r"\{.*?\}", kind)
        if default:
            told = ast.literal_eval(re.split(", | and ", default)[place])
            assert told == parameters[parameter].default, parameter
        there = {word for word in members(parameters[parameter].annotation) if isinstance(word, str)}
        told = set(ast.literal_eval(choice[0])) if choice else set(re.findall(r'"(\w+)"', kind))
        assert told == there, parameter


def test_there_is_much_to_compare():
    assert len(DOCUMENTED) > 40
    assert sum(len(documented(found)) for found in DOCUMENTED.values()) > 300
