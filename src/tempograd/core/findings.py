r"""Every refusal, warning, assumption and verdict is a finding: a code and its data, said in each reader's words.

A sentence marks the arguments that it names with their noun, in an f-string or in a row of :data:`SAYS` alike,
``f"pass {arg:series.mask=nan}"``: Python reads ``tg.Series(x, mask='nan')``, the command line ``--missing mask``.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Severity = Literal["refusal", "warning", "assumption"]
Dialect = Literal["python", "shell"]

MARKED = re.compile(r"\{arg:(\w+)\.(\w+)(?:=([^}]*))?\}")  # an argument, until it is known who reads it
NOUNS = {"series": "tg.Series(x, {})", "predictor": "tg.Predictor(model, {})"}
SETTINGS = ("n_samples", "n_steps", "tolerance")  # of methods, that have options of their own
OPTIONS = {"predictor.layout": "--model-layout", "question.batch_size": "--batch"}
OPTION_VALUES = {"tg.targets.mean()": "mean", "None": "none"}
# Arguments whose two spellings have nothing in common: Python's, the command line's.
SPELLINGS = {
    "explain.fit": (
        "call explainer.fit(model, series), which returns a new one, or pass background= to tg.explain",
        "pass --background",
    ),
    "load.model": ("tg.load_model", "--model"),
    "load.weights=…": ("tg.load_model('module:callable', weights='…')", "--model module:callable --weights …"),
    "run.faults": ("open_run(…).faults()", "'tempograd runs FOLDER'"),
    "run.failures": ("open_run(…).failures()", "'tempograd runs FOLDER'"),
    "predictor.layout": ("tg.Predictor(layout=)", "--model-layout"),
    "series.layout": ("tg.Series(layout=)", "(series, time, channel)"),
    "series.layout=BDT": ("tg.Series(x, layout='BDT')", "a file written as (series, time, channel)"),
    "series.truth": ("truth=", "--data with an array truth"),
    "series.truth=…": ("tg.Series(x, truth=…)", "--data with an array truth"),
    "series.x": ("x=", "--data"),
    "tune.grid": (", or pass grid= with settings of your own", ""),
    "series.lengths=padded": ("series.padded()", "--lengths padded"),
    "series.mask=nan": ("tg.Series(x, mask='nan')", "--missing mask"),
}
LITERAL = re.compile(r"-?[\d.]+(e-?\d+)?|None|True|False|[\[({\"'].*|.*[(….].*|\w+\.\w.*")

# What is said of each code: what is the matter, and what to do.
SAYS = {
    # assumptions
    "task.classes": "The model's {columns} outputs were read as scores of classes: pass "
    "{arg:predictor.task=classification} if they are, {arg:predictor.task=multilabel} for one logit per label, or "
    "{arg:predictor.task=forecast} or {arg:predictor.task=regression} for numbers as they are.",
    "target.predicted": "The predicted class of each series was explained: pass {arg:question.target} for "
    "another.",
    "target.label": "The most probable label of each series was explained: pass {arg:question.target} for "
    "another.",
    "target.one": "The probability of class 1 was explained: pass {arg:question.target=0} for its complement.",
    "target.mean": "No target was given, so the mean of the forecast's {outputs} outputs, of shape {shape} for a "
    "series, was explained: pass {arg:question.target={example}} for one of them, or "
    "{arg:question.target=tg.targets.mean()} to confirm the mean.",
    "baseline.zero": "Values were compared with 0: pass {arg:question.baseline=average} for each channel's mean, "
    "or a baseline of your own.",
    "series.lengths": "The series have {count} different lengths, {least} to {most} steps: the model was called "
    "with each length by itself, and steps after the end of a series were masked. If it was trained on padded "
    "series, pass {arg:series.lengths=padded}.",
    # what the model does
    "model.sigmoid": "The model ends with a sigmoid, and another function was applied to what it returns: pass "
    "{arg:question.output=raw}, or {arg:question.output=probability} if that was meant.",
    "model.stochastic": "The model is stochastic: repeated calls on the same series differ, so the scores contain "
    "that noise. Pass {arg:question.draws=32} to average over its random numbers, with an error.",
    "model.mixes": "The model's answer to a series depends on the other series of its batch or on its place "
    "among them, and so do the scores: pass a function that calls it with one series at a time.",
    "model.alone": "The model's answer to a series depends on the other series of its batch or on its place "
    "among them, so each was run by itself, which takes longer: look for statistics over the batch or a "
    "positional encoding along it. With {arg:question.batch_size} batches are run all the same.",
    "gradient.wrong": "{problem}.",
    # what makes no difference, or too little
    "draws.unused": "{arg:question.draws={draws}} makes no difference: the model's outputs for the same series do "
    "not vary.",
    "target.unused": "{method} explains the whole output of the model: {arg:question.target} makes no difference "
    "to its scores.",
    "cells.rare": "With {setting} {cell} is active in only {active} of {samples} samples on average: expect large "
    "errors there; use {arg:method.n_samples={enough}} or {instead}.",
    "pool.missing": "{caveat}, so its scores are those of integrated_gradients: pass {arg:question.background} "
    "with other series, such as training series.",
    "pool.unused": "{caveat}, so its scores are those of integrated_gradients: leave {arg:question.baseline} out, "
    "and it draws from the background.",
    "deep_lift.residual": "{caveat} {share} of the change of the prediction over: captum cannot rescale {reason}, "
    "or the gradient is not that of the prediction. Use integrated_gradients, whose scores sum to it, or whose "
    "verdict tells that they cannot.",
    "lime.stopped": "A Lasso problem of LIME did not converge in {iterations} iterations: use more samples or a "
    "larger alpha.",
    "inputs.static": "{name} is taken for {count} static values, and {other} has as many steps: if {name} is a "
    "series of one channel, write [..., None] behind it, and {arg:predictor.layout=BT} if the model takes it "
    "without that axis.",
    "series.frame": "The data frame was read as {count} series of {steps} steps with the channels {channels}: "
    "tg.read_series(frame, id=…, time=…, channels=…) reads it otherwise.",
}


class _Argument:
    """Marks an argument in a text: ``f"{arg:noun.name=value}"``, or without a value."""

    def __format__(self, spec: str) -> str:
        return f"{{arg:{spec}}}"


arg = _Argument()


def said(text: str, dialect: Dialect = "python") -> str:
    r"""Return a text with its marked arguments as a reader writes them; a noun is written out once.

    Examples
    --------
    >>> text = f"pass {arg:method.n_samples=170} or {arg:series.mask=nan}; {arg:question.target} chooses"
    >>> print(said(text), said(text, "shell"), sep="\n")
    pass n_samples=170 or tg.Series(x, mask='nan'); target= chooses
    pass --n-samples 170 or --missing mask; --target chooses
    >>> said(f"pass {arg:predictor.task=binary} or {arg:predictor.task=regression}, {arg:method.rule=left}")
    "pass tg.Predictor(model, task='binary') or task='regression', rule='left'"
    """
    written_out: set[str] = set()

    def written(marked: "re.Match[str]") -> str:
        noun, name, value = marked.groups()
        for spec in (marked[0][5:-1], f"{noun}.{name}=…"):
            if spec in SPELLINGS:
                return SPELLINGS[spec][dialect == "shell"].replace("…", value or "…")
        if dialect == "shell":
            return _option(noun, name, value)
        if value is None:
            return f"{name}="
        argument = f"{name}={value if LITERAL.fullmatch(value) else repr(value)}"
        if noun in written_out:
            return argument
        written_out.add(noun)
        return NOUNS.get(noun, "{}").format(argument)

    return MARKED.sub(written, text)


def _option(noun: str, name: str, value: str | None) -> str:
    """Return an argument as the command line has it."""
    if noun == "method" and name not in SETTINGS:
        return name if value is None else f"--set {name}={value}"
    option = OPTIONS.get(f"{noun}.{name}", f"--{name.replace('_', '-')}")
    if value is None or value == "True":
        return option
    return f"{option} {OPTION_VALUES.get(value, value).strip('()').replace(', ', ',')}"


@dataclass(frozen=True)
class Finding:
    """Something that a call found out, or refused.

    Attributes
    ----------
    code : str
        What it is, ``"noun.matter"``.
    severity : {"refusal", "warning", "assumption"}
        How it comes: as an error, as a warning, or in a list.
    data : mapping
        The numbers and names in it.
    text : str
        The sentence, its arguments marked; by default that of the row of :data:`SAYS`.
    """

    code: str
    severity: Severity
    data: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""

    def __post_init__(self) -> None:
        """Take the sentence of the row, so that files have it and readers of them need not know the code."""
        if not self.text and self.severity != "refusal":  # which is written where it is raised
            object.__setattr__(self, "text", SAYS[self.code].format(arg=arg, **self.data))

    def say(self, dialect: Dialect = "python") -> str:
        """Return the sentence in the words of a reader."""
        return said(self.text, dialect)

    def __str__(self) -> str:
        return self.say()
