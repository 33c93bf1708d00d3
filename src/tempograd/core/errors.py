r"""Every error, warning and finding: a code and its data in each reader's words, and values as messages show them.

A sentence marks the arguments that it names with their noun, in an f-string or in a row of :data:`SAYS` alike,
``f"pass {arg:series.mask=nan}"``: Python reads ``tg.Series(x, mask='nan')``, the command line ``--missing mask``.
"""

import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from os import PathLike, fspath
from reprlib import Repr
from types import MappingProxyType
from typing import Any, ClassVar, Literal, TypeVar

T = TypeVar("T")
_Facts = Mapping[str, Any]
NOTHING: _Facts = MappingProxyType({})
WIDTH = 60  # characters of a message that a value may take
LONGEST = 300  # characters of a message, which people read in a terminal
FIGURES = re.compile(r"\d+(?:[.,]\d+)*")
Severity = Literal["refusal", "warning", "assumption"]
Dialect = Literal["python", "shell", "reader"]
PARTS = re.compile(r"(?<=[:.;?]) ")  # where parts of a sentence begin

MARKED = re.compile(r"\{arg:(\w+)\.(\w+)(?:=([^}]*))?\}")  # an argument, until it is known who reads it
NOUNS = {"series": "tg.Series(x, {})", "predictor": "tg.Predictor(model, {})"}
SETTINGS = ("n_samples", "n_steps", "tolerance")  # of methods, that have options of their own
OPTIONS = {"predictor.layout": "--model-layout", "effort.gradient_check": "--no-gradient-check"}
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
    "series.fixed": ("fixed=", "fixed= of tg.Series, in Python"),
    "series.layout": ("tg.Series(layout=)", "(series, time, channel)"),
    "series.layout=BDT": ("tg.Series(x, layout='BDT')", "a file written as (series, time, channel)"),
    "series.truth": ("truth=", "explanations of data with an array truth"),
    "source.and": (", ", " "),
    "tune.grid": (", or pass grid= with settings of your own", ""),
    "series.lengths=padded": ("series.padded()", "--lengths padded"),
    "series.mask=nan": ("tg.Series(x, mask='nan')", "--missing mask"),
}
LITERAL = re.compile(r"-?[\d.]+(e-?\d+)?|None|True|False|[\[({\"'].*|.*[(….].*|\w+\.\w.*")

# What is said of each code: what is the matter, and what to do.
SAYS = {
    "warning": "{text}",
    # assumptions
    "task.classes": "The model's {columns} outputs were read as scores of classes: pass "
    "{arg:predictor.task=classification} if they are, {arg:predictor.task=multilabel} for one logit per label, or "
    "{arg:predictor.task=forecast} or {arg:predictor.task=regression} for numbers as they are.",
    "target.predicted": "The predicted class of each series was explained: pass {arg:question.target} to choose.",
    "target.label": "The most probable label of each series was explained: pass {arg:question.target} to choose.",
    "target.one": "The probability of class 1 was explained: pass {arg:question.target=0} for its complement.",
    "target.score": "No target was given, so {score} was explained ({outputs} outputs with shape {shape}): "
    "pass {arg:question.target={example}} for one of them, or {arg:question.target=tg.targets.{name}()} for all.",
    "baseline.zero": "Values were compared with 0, as the model reads them: pass {arg:question.baseline=average} "
    "or one of your own.",
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
    "fit.model": "{method} learnt from another model ({there}) than the one explained here ({here}): "
    "fit it to this one.",
    "model.fresh": "{name} seems untrained (created without weights): pass {arg:load.weights=FILE} if it is not.",
    "model.accuracy": "The model is right on {right} of the labels, guessing on {chance}: was it trained on "
    "scaled values? If so, pass {arg:source.scale=FILE}; else check {arg:load.weights}, and the order of "
    "{arg:predictor.classes} and {arg:series.channels}.",
    "gradient.wrong": "{problem}.",
    "baseline.far": "0 is far from every value of {count} of {of} channels (channel {channel}: {low:.3g} to "
    "{high:.3g}), and scores compare with 0: pass {arg:question.baseline=average} for a model of natural units, "
    "{arg:source.scale=FILE} for one that was trained on scaled values.",
    # what makes no difference, or too little
    "draws.unused": "{arg:question.draws={draws}} makes no difference: the model draws no random numbers.",
    "target.unused": "{method} explains the model's whole output: {arg:question.target} makes no difference.",
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
}


class _Argument:
    """Marks an argument in a text: ``f"{arg:noun.name=value}"``, or without a value."""

    def __format__(self, spec: str) -> str:
        return f"{{arg:{spec}}}"


arg = _Argument()


def said(text: str, dialect: Dialect = "python") -> str:
    r"""Return a text with its marked arguments as a user writes them; a noun is written out once.

    For a reader, who types nothing, parts of sentences with arguments are left out.

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
    if dialect == "reader":
        text = " ".join(part for part in PARTS.split(text) if not MARKED.search(part)).rstrip(".:;")

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
        The sentence of a refusal, its arguments marked, or of a code that has no row in :data:`SAYS`.
    """

    code: str
    severity: Severity
    data: Mapping[str, Any]
    text: str

    def __init__(self, code: str, severity: Severity, data: _Facts = NOTHING, text: str = "") -> None:
        self.code, self.severity, self.data, self.text = code, severity, dict(data), text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Finding) and (self.code, self.data) == (other.code, other.data)

    def __hash__(self) -> int:
        return hash(self.code)

    def __repr__(self) -> str:
        return f"Finding({self.code!r}, {self.severity!r}, {self.data!r}, {self.text!r})"

    @property
    def marked(self) -> str:
        """The sentence, its arguments marked."""
        return self.text or SAYS.get(self.code, "").format(arg=arg, **self.data)

    def say(self, dialect: Dialect = "python") -> str:
        """Return the sentence in the words of a reader."""
        return said(self.marked, dialect)

    def __str__(self) -> str:
        return self.say()


class TempogradError(Exception):
    r"""Base class, so that callers can catch everything raised on purpose; its message is always one line.

    Attributes
    ----------
    finding : Finding
        What was refused: its code, by default that of the class, and the sentence with its arguments marked.

    Examples
    --------
    >>> print(TempogradError("There is no channel a\nb."))
    There is no channel a\nb.
    >>> InputError("x is empty.", code="series.empty").code
    'series.empty'
    """

    default_code: ClassVar[str] = "error"

    def __init_subclass__(cls, code: str = "") -> None:
        if code:
            cls.default_code = code

    def __init__(self, message: object = "", *, code: str | None = None, **data: object) -> None:
        self.finding = Finding(code or self.default_code, "refusal", data, one_line(str(message), None))
        super().__init__(self.finding.say())

    @property
    def code(self) -> str:
        """Return the code of the finding."""
        return self.finding.code

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep what was said, for other processes: subclasses make their message from other arguments."""
        return type(self).__new__, (type(self),), {**vars(self), "args": self.args}


class InputError(TempogradError, ValueError, code="input"):
    """An argument has the wrong shape, type or value."""


class SettingError(TempogradError, ValueError, code="setting"):
    """The hyper-parameters of a method do not fit each other or the series."""


class ModelError(TempogradError, ValueError, code="model"):
    """The model returned something that cannot be explained."""


class DataError(TempogradError, ValueError, code="data"):
    """A file is missing, damaged or in a format that cannot be read."""


class OutputError(TempogradError, OSError, code="output"):
    """A file cannot be written, or must not be."""


class MissingExtraError(TempogradError, ImportError, code="extra"):
    """An optional package is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"This needs {package}: pip install 'tempograd[{extra}]'.")


class UnknownNameError(TempogradError, KeyError, code="name"):
    """A name is in no registry; ``short`` holds what people call known names, ``more`` what else to do."""

    def __init__(
        self, kind: str, name: object, known: Iterable[str], short: _Facts = NOTHING, more: str = ""
    ) -> None:
        known = sorted(known)
        plain = name[:LONGEST].lower().replace("-", "_").replace(" ", "_") if isinstance(name, str) else ""
        lowered = {entry.lower(): entry for entry in known}
        meant = short[plain] if short.get(plain) in known else lowered.get(closest(plain, list(lowered)) or "")
        hint = "" if meant is None else f" Did you mean {quote(meant)}?"
        start = f"No {kind} is called {quote(name) if isinstance(name, str) else brief(name)}.{hint}"
        names = f"Known names: {listed(known, LONGEST - len(start) - 30)}." if known else "There is none."
        super().__init__(f"{start} {names} {more}".rstrip())

    def __str__(self) -> str:  # KeyError would print the repr of the message
        return str(self.args[0])


class TempogradWarning(UserWarning):
    """Something works, but not as well as it could; the text says how to improve it.

    Attributes
    ----------
    finding : Finding
        What it is about, which says itself in the words of Python and of the command line.
    """

    def __init__(self, finding: Finding | str = "") -> None:
        if isinstance(finding, str):
            finding = Finding("warning", "warning", {"text": one_line(finding, None)})
        self.finding = finding
        super().__init__(self.finding.say())


class WarningCounts(dict[str, int]):
    r"""Warnings that were counted instead of said: what the first of each kind said, and how many there were.

    Two warnings are of one kind where they differ in figures alone, such as the number of series. Arguments in
    them stay marked until it is known who reads them.

    Examples
    --------
    >>> counts = WarningCounts({"12 cells are rarely free.": 3})
    >>> counts.add("7 cells are rarely free.")
    >>> counts.add("The model draws.", 2)
    >>> counts
    {'12 cells are rarely free.': 4, 'The model draws.': 2}
    """

    def add(self, message: str, times: int = 1) -> None:
        """Count a warning, so many times."""
        kind = FIGURES.sub("#", message)
        first = next((text for text in self if FIGURES.sub("#", text) == kind), message)
        self[first] = self.get(first, 0) + times

    def say(self) -> None:
        """Warn of each once."""
        for text, times in self.items():
            warn(text if times == 1 else f"{text} ({times:,} times)")


@contextmanager
def held(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Let a variable have a value inside the block."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


warning_counts: ContextVar[WarningCounts | None] = ContextVar("tempograd_warnings", default=None)
"""Where warnings of this thread are counted, to be said later."""


@contextmanager
def counted_warnings() -> Iterator[WarningCounts]:
    """Count the warnings of this library in this thread, none of which is said meanwhile.

    Warnings of others come as ever, and nothing is said at the end: :meth:`WarningCounts.say` does that.

    Examples
    --------
    >>> with counted_warnings() as counts:
    ...     for cells in (3, 5):
    ...         warn(f"{cells} cells are rarely free.")
    >>> counts
    {'3 cells are rarely free.': 2}
    """
    counts = WarningCounts()
    with held(warning_counts, counts):
        yield counts


collecting: ContextVar[list[Finding] | None] = ContextVar("tempograd_findings", default=None)
"""The list that what is noted in this thread goes to."""


def warn(message: str | Finding, **data: object) -> None:
    """Warn at the line that called the library, however deep inside it this is; the explanation keeps it too.

    ``message`` is a finding, the code of a row of :data:`SAYS` with its ``data``, or a
    sentence.
    """
    if isinstance(message, str) and message in SAYS:
        message = Finding(message, "warning", data)
    warning = TempogradWarning(message)
    findings = collecting.get()
    if findings is not None and warning.finding not in findings:
        findings.append(warning.finding)
    counts = warning_counts.get()
    if counts is not None:
        counts.add(one_line(warning.finding.marked, None))
        return
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith("tempograd."):
        level, frame = level + 1, frame.f_back
    warnings.warn(warning, stacklevel=level)


def closest(word: str, known: Sequence[str]) -> str | None:
    """Return the known word that was probably meant; two neighbours that changed places are the likeliest slip.

    Examples
    --------
    >>> closest("cdp", ["cpp", "cpd"]), closest("eval", ["explain", "evaluate"]), closest("dance", ["demo"])
    ('cpd', 'evaluate', None)
    """
    from difflib import get_close_matches  # noqa: PLC0415  # a third of what this module takes to import

    word = word[:LONGEST]
    swapped = {word[:place] + word[place : place + 2][::-1] + word[place + 2 :] for place in range(len(word) - 1)}
    return next(iter([*(name for name in known if name in swapped), *get_close_matches(word, known, n=1)]), None)


def one_line(text: str, most: int | None = 30) -> str:
    r"""Write a text of anybody's in a message: in one line, cut where it is long, nothing that steers a terminal.

    None cuts nothing.

    Examples
    --------
    >>> one_line("bed 7"), one_line("a\x1b[31m\n"), one_line("x" * 1000, most=6)
    ('bed 7', 'a\\x1b[31m\\n', 'xxxxx…')
    """
    short = text if most is None else text[: most + 1]
    if not short.isprintable():
        short = "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in short)
    return short if most is None or len(short) <= most else f"{short[: most - 1]}…"


def printable(value: Any) -> Any:
    r"""Return names as they may be shown: a space in the place of whatever steers a terminal.

    Lists, tuples and mappings of texts are gone through; where there is nothing to change, they stay themselves.

    Examples
    --------
    >>> printable("heart\trate"), printable(("bed 7", "\x1b[31mbed 8"))
    ('heart rate', ('bed 7', ' [31mbed 8'))
    """
    if isinstance(value, str):
        return value if value.isprintable() else "".join(sign if sign.isprintable() else " " for sign in value)
    if isinstance(value, dict):
        return {printable(name): printable(part) for name, part in value.items()}
    if not isinstance(value, (list, tuple)):
        return value
    with suppress(TypeError):  # more than texts
        if "".join(value).isprintable():  # at once, since there may be very many
            return value
    parts = [printable(part) for part in value]
    return value if all(new is old for new, old in zip(parts, value, strict=True)) else type(value)(parts)


def quote(text: object, most: int = 30) -> str:
    """Quote a text of anybody's, or write another value as Python does.

    Examples
    --------
    >>> print(quote("bed 7"), quote("x" * 1000, most=6), quote(None))
    'bed 7' 'xxxxx…' None
    """
    return f"'{one_line(text, most)}'" if isinstance(text, str) else one_line(repr(text), most)


def short_path(path: "str | PathLike[str]", most: int = 80) -> str:
    """Write a path in a message, the end of it where it is long.

    Examples
    --------
    >>> short_path("data/ward.csv"), short_path("/home/somebody/measurements/2026/ward.csv", most=18)
    ('data/ward.csv', '…nts/2026/ward.csv')
    """
    text = str(fspath(path))
    return one_line(text if len(text) <= most else f"…{text[len(text) - most + 1 :]}", most)


def listed(names: Iterable[object], most: int = 90) -> str:
    """List names in a message, the first of them where there are many.

    Examples
    --------
    >>> listed(["a", "b"]), listed((f"t{step}" for step in range(5000)), most=14)
    ('a, b', 't0, t1, t2, t3, … (5000)')
    """
    texts = [one_line(str(name), 30) for name in names]
    shown, size = 0, 0
    while shown < len(texts) and (size := size + len(texts[shown]) + 2) <= most + 2:
        shown += 1
    return ", ".join([*texts[:shown], *([f"… ({len(texts)})"] if shown < len(texts) else [])])


class _Short(Repr):
    """Python's own way to shorten values, with arrays in lists as shapes."""

    def repr1(self, x: Any, level: int) -> str:
        return _array(x) or super().repr1(x, level)


_SHORT = _Short()
_SHORT.maxlevel = 2
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxset = _SHORT.maxfrozenset = _SHORT.maxdict = _SHORT.maxdeque = 4
_SHORT.maxstring = _SHORT.maxlong = _SHORT.maxother = WIDTH


def brief(value: Any) -> str:
    """Describe a value on one line, in at most about 60 characters.

    Examples
    --------
    >>> import numpy as np
    >>> print(brief(0.5), brief("rule"), brief(np.float64(0.5)), brief(None), sep=", ")
    0.5, 'rule', 0.5, None
    >>> print(brief(list(range(1000))), brief(np.zeros((2, 3))), sep=", ")
    [0, 1, 2, 3, ...], an ndarray of shape (2, 3) and float64
    >>> print(brief([np.zeros(2)]))
    [an ndarray of shape (2,) and float64]
    """
    try:
        text = _array(value) or _SHORT.repr(value.item() if type(value).__module__ == "numpy" else value)
    except Exception:  # whatever a foreign object does when it is asked to show itself
        text = " at 0x"
    if not isinstance(value, str) and " at 0x" in text:  # an address tells nobody anything
        text = f"an object of class {type(value).__name__}"
    text = " ".join(text.split())
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 1]}…"


def _array(value: Any) -> str:
    """Describe what has a shape and axes; nothing for anything else."""
    shape = getattr(value, "shape", None)
    number = shape == () and not hasattr(value, "requires_grad")  # which only a tensor has
    if isinstance(value, type) or not isinstance(shape, tuple) or number:
        return ""
    kind, dtype = type(value).__name__, str(getattr(value, "dtype", "")).removeprefix("torch.")
    article = "an" if kind[:1].lower() in "aeiou" or kind == "ndarray" else "a"
    return f"{article} {kind} of shape {tuple(map(int, shape))}{f' and {dtype}' if dtype else ''}"
