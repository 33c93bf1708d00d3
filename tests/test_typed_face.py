"""What type checkers and editors see at the public doors is what is there.

``mypy`` checks ``typing/right_uses.py`` and ``typing/wrong_uses.py`` in ``make lint``; here they run.
"""

import ast
import inspect
import re
import typing
from dataclasses import fields
from pathlib import Path

import pytest
import torch

import tempograd as tg
import tempograd.typing as words
from tempograd.bulk.telling import Engine, KeptCells, LogKind, Removed
from tempograd.cli import make_parser
from tempograd.core.question import Asked, Effort, Question
from tests.typing import right_uses, wrong_uses

FIELDS = {f.name: (Asked.__annotations__[f.name], f.default) for kind in (Question, Effort) for f in fields(kind)}
FUNCTIONS = {name: getattr(tg, name) for name in tg.__all__ if inspect.isfunction(getattr(tg, name))}


def uses(module):
    """Return the functions of a file of uses, without the models that they use."""
    found = inspect.getmembers(module, inspect.isfunction)
    return [use for _, use in found if use.__module__ == module.__name__ and named(use).keys() <= {"folder"}]


def named(function):
    """Return the parameters that have names, all but ``*`` and ``**``."""
    parameters = inspect.signature(function).parameters
    return {name: p for name, p in parameters.items() if p.kind not in {p.VAR_POSITIONAL, p.VAR_KEYWORD}}


def run(use, folder):
    use(*[folder] * len(named(use)))


@pytest.mark.slow  # mypy checks them in every change
@pytest.mark.filterwarnings("ignore::tempograd.TempogradWarning")  # few samples, functions for models
@pytest.mark.parametrize("use", uses(right_uses), ids=lambda use: use.__name__)
def test_right_uses_run(use, tmp_path):
    run(use, tmp_path)


@pytest.mark.filterwarnings("ignore::tempograd.TempogradWarning")
@pytest.mark.parametrize("use", uses(wrong_uses), ids=lambda use: use.__name__)
def test_wrong_uses_are_refused_in_one_line(use, tmp_path):
    with pytest.raises((tg.TempogradError, TypeError, AttributeError)) as refusal:
        run(use, tmp_path)
    assert refusal.type.__module__.startswith("tempograd") or re.search(
        r"unexpected keyword argument|has no attribute", str(refusal.value)
    )
    assert len(str(refusal.value).splitlines()) == 1


def test_each_wrong_use_is_one_error():
    text = Path(wrong_uses.__file__).read_text(encoding="utf-8")
    marks = [number for number, line in enumerate(text.splitlines(), 1) if "# type: ignore[" in line]
    assert marks == [node.body[-1].lineno for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]


def keywords(function):
    """Return type and default of each argument that is passed by name."""
    return {name: (p.annotation, p.default) for name, p in named(function).items() if p.kind is p.KEYWORD_ONLY}


def test_question_and_effort_are_spelt_alike():
    assert list(FIELDS) == [*typing.get_type_hints(Asked)]
    for kind in (Question, Effort):  # each field has its lines in the docstring
        heads = re.findall(r"^    (\w+) :", kind.__doc__, re.MULTILINE)
        assert heads == [f.name for f in fields(kind)]
    tasks = re.search(r"task : \{([^}]*)\}", tg.Predictor.__doc__).group(1)
    assert [task.strip('"') for task in tasks.split(", ")] == [*typing.get_args(words.Task)]
    asked = typing.get_type_hints(Asked)
    kept = {"background": asked["background"] | str}  # where an explanation has no more than a hash of it
    assert typing.get_type_hints(Question) | typing.get_type_hints(Effort) == asked | kept
    for function in (tg.explain, tg.Explainer.__call__):
        assert list(keywords(function).items()) == list(FIELDS.items())


@pytest.mark.parametrize("name", ["tune", "rank", "compare_baselines"])
def test_doors_that_take_a_question_show_it(name):
    refused = {"targets"} | ({"baseline"} if name == "compare_baselines" else set())
    shown = keywords(FUNCTIONS[name])
    assert {key: shown[key] for key in FIELDS if key in shown} == {
        key: value for key, value in FIELDS.items() if key not in refused
    }


def test_the_documentation_names_the_parameters_that_there_are():
    section = re.compile(r"^Parameters\n-+\n((?:(?!\S.*\n-+$).*\n?)*)", re.MULTILINE)
    documented = FUNCTIONS | {"Explainer.__call__": tg.Explainer.__call__, "read_series": tg.Source}
    for name, function in documented.items():
        text = section.search(inspect.getdoc(function))
        heads = [line.partition(" : ")[0] for line in text[1].splitlines() if line[:1].strip()] if text else []
        told = {word for head in heads for word in head.split(", ")}
        linked = FIELDS.keys() if told & {"**question", "**options"} else set()
        there = named(function).keys() - {"self"} - linked
        assert not text or {word for word in told if not word.startswith("*")} == there, name


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
        "align": typing.Literal["time", "order"],
        "baseline": typing.get_args(words.Baseline)[0],
        "cells": KeptCells,
        "engine": Engine,
        "fill": typing.Literal["forward", "zero"],
        "format": typing.Literal["long", "wide"],
        "log": LogKind,
        "missing": typing.Literal["error", "mask"],
        "model_layout": words.ModelLayout,
        "output": words.Output,
        "precision": words.Precision,
        "removed": Removed,
        "of": words.Measured,
        "task": words.Task,
    }
    assert choices == {(name, typing.get_args(hint)) for name, hint in there.items()}


@pytest.mark.parametrize("door", [tg.explain, tg.Explainer.__call__], ids=["explain", "explainer"])
def test_every_argument_is_part_of_the_question(door, monkeypatch):
    monkeypatch.setattr(tg.Explainer, "_explain", lambda self, model, x, *asked: asked)
    asked = {name: object() for name in FIELDS} | {"background": None}
    model, x = torch.nn.Identity(), torch.zeros(1, 2, 1)
    question, effort = door(tg.Timing(), model, x, **asked) if door is not tg.explain else door(model, x, **asked)
    assert vars(question) | vars(effort) == asked
