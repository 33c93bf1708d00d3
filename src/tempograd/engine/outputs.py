"""What the outputs of a model are: one table of tasks, links, the explained score, and what clean outputs tell."""

import math
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor

from tempograd.core import validation
from tempograd.core.errors import InputError, ModelError, UnknownNameError, arg, brief
from tempograd.core.question import Question
from tempograd.engine.cuda import host_copy
from tempograd.engine.predictor import numbers_of
from tempograd.targets import TargetScore, mean
from tempograd.typing import Output, Picker

LAST = itemgetter(-1)
KEPT = 2**14  # numbers of the first outputs that are kept for a second look
OUTPUTS: tuple[Output, ...] = get_args(Output)


class Link(NamedTuple):
    """What is applied to raw outputs, (…, column), and its words for one column and for several."""

    apply: Callable[[Tensor], Tensor]
    of_one: str
    of_several: str
    probable: bool = True  # whether it makes probabilities


LINKS = {
    "probability": Link(
        lambda raw: raw.sigmoid() if raw.shape[-1] == 1 else raw.softmax(-1),
        "a sigmoid of the one output",
        "softmax over {} outputs",
    ),
    "sigmoid": Link(torch.sigmoid, "a sigmoid of the one output", "a sigmoid of each of {} outputs"),
    "raw": Link(
        lambda raw: raw,
        "the model's one output as it is",
        "one of the model's {} outputs as it is",
        probable=False,
    ),
}


class Outputs(NamedTuple):
    """What the outputs of a task are: all that the library knows of a task stands in its row of ``TASKS``.

    Attributes
    ----------
    kind : {"classes", "labels", "numbers"}
        Classes of which one holds, labels that hold each by itself, or numbers that say nothing of each other.
    link : str
        What is applied to them: a row of ``LINKS``.
    target : {"predicted", "one", "none"} or TargetScore
        What is explained by default: the predicted class or most probable label, class 1, nothing if there are
        several outputs, or a score of all of them.
    shape : str
        What the model returns.
    fits : callable
        Whether one series' output of this shape, for series of so many steps, can be that.
    columns : callable
        How many outputs there are to choose from, given the shape of one series' output.
    per_step : bool
        Whether there is one output for each step of the series.
    place : str
        What an output is called by its place along the first axis, where that has a name of its own.
    """

    kind: Literal["classes", "labels", "numbers"]
    link: str = "probability"
    target: Literal["predicted", "one", "none"] | TargetScore = "predicted"
    shape: str = "(batch, …)"
    fits: Callable[[tuple[int, ...], int], bool] = lambda *_: True
    columns: Callable[[tuple[int, ...]], int] = math.prod
    per_step: bool = False
    place: str = ""


TASKS = {
    "classification": Outputs(
        "classes", shape="(batch, classes)", fits=lambda shape, _: len(shape) == 1, columns=LAST
    ),
    "binary": Outputs(
        "classes", target="one", shape="(batch, 1)", fits=lambda shape, _: shape == (1,), columns=LAST
    ),
    "multilabel": Outputs("labels", "sigmoid"),
    "regression": Outputs("numbers", "raw", "none"),
    "forecast": Outputs("numbers", "raw", mean(), place="step {} of the forecast"),
    "per_step": Outputs(
        "classes",
        shape="(batch, time, classes)",
        fits=lambda shape, time: len(shape) < 3 and shape[0] == time,
        columns=LAST,
        per_step=True,
    ),
}
UNKNOWN = Outputs("classes", columns=LAST)  # what outputs are taken for where nobody said the task


def outputs_of(task: str | None) -> Outputs:
    """Return what is known of the outputs of a task."""
    return UNKNOWN if task is None else TASKS[task]


def output_of(task: str | None) -> str:
    """Return what a task makes of raw outputs, as explanations call it: "probability", or its link."""
    link = outputs_of(task).link
    return "probability" if LINKS[link].probable else link


def link_for(output: str | None, task: str | None) -> str:
    """Return what is applied to the model's raw outputs: a row of ``LINKS``.

    Examples
    --------
    >>> link_for(None, "forecast"), link_for("probability", "multilabel"), link_for("raw", None)
    ('raw', 'sigmoid', 'raw')
    """
    link = outputs_of(task).link
    if output == "probability" and not LINKS[link].probable:
        raise InputError(
            f"{arg:question.output=probability} contradicts the task {task!r}, whose outputs are no "
            f"probabilities: leave {arg:question.output} out, or pass {arg:predictor.task=classification} or "
            f"{arg:predictor.task=multilabel} if they are logits."
        )
    return "raw" if output == "raw" else link


def found_task(task: str | None, question: Question, shape: tuple[int, ...], time: int) -> str | None:
    """Return the task of a model whose output for one series has this shape, where the shape leaves no doubt.

    ``task`` is what was said of it. A function may pick the score from any shape. None for several raw outputs,
    which may be classes or not.

    Examples
    --------
    >>> found_task(None, Question(), (3,), 48)
    'classification'
    >>> found_task(None, Question(steps=2), (48, 3), 48)
    'per_step'
    """
    output, picked = question.output, callable(question.target)
    if task is not None:
        if not picked and not TASKS[task].fits(shape, time):
            raise _unclear(shape, time, task)
        return in_full(task, math.prod(shape))
    by_step = len(shape) == 2 and shape[0] == time  # or a forecast of as many steps
    if question.steps is not None and by_step:
        return "per_step"
    if len(shape) == 1 and shape[0] > 1:
        return None if output == "raw" else "classification"
    if output == "raw" and (picked or not by_step):
        return "regression" if shape == (1,) else "forecast"
    if output is not None and shape == (1,):
        return "binary"
    if output is not None and picked:
        return "per_step" if by_step else None
    raise _unclear(shape, time)


def in_full(task: str | None, columns: int | None) -> str | None:
    """Return the task that is meant: classification with one column is binary."""
    return "binary" if task == "classification" and columns == 1 else task


def _unclear(shape: tuple[int, ...], time: int, task: str | None = None) -> ModelError:
    """Return the refusal of an output whose shape contradicts the task, or does not tell it."""
    one = {"binary": "if it is a logit, whose sigmoid is explained", "regression": "for the number as it is"}
    several = {
        "classification": "for scores of classes",
        "per_step": "for scores of classes at each step",
        "forecast": "for numbers as they are",
        "multilabel": "for one logit per label",
    }
    shape = shape[:-1] if task == "per_step" and shape[1:] == (1,) else shape  # without the axis it was given
    words = one if shape == (1,) else several
    ways = [f"{arg:predictor.task={name}} {words[name]}" for name in words if TASKS[name].fits(shape, time)]
    told = "" if task is None else f", and the task {task!r} means {TASKS[task].shape}"
    return ModelError(
        f"The model's output for one series has shape {shape}{told}: pass {', '.join(ways[:-1])}, or {ways[-1]}.",
        code="model.task",
    )


# Links: probabilities, or numbers as they are


def link_words(link: str, columns: int | None) -> str:
    """Say what a link makes of so many columns.

    Examples
    --------
    >>> link_words("probability", 1), link_words("probability", 3)
    ('a sigmoid of the one output', 'softmax over 3 outputs')
    """
    return LINKS[link].of_one if columns == 1 else LINKS[link].of_several.format(columns)


def apply_link(raw: Tensor, output: str) -> Tensor:
    """Turn a raw output into probabilities, or what else its row of ``LINKS`` says."""
    return LINKS[output].apply(raw)


def by_class(raw: Tensor, output: str) -> Tensor:
    """Turn a raw output into one number per class; a single probability p means 1 - p and p.

    Examples
    --------
    >>> by_class(torch.tensor([[0.0], [-1.0986123]]), "probability")
    tensor([[0.5000, 0.5000],
            [0.7500, 0.2500]])
    >>> by_class(torch.tensor([[3.0]]), "raw")
    tensor([[3.]])
    """
    linked = LINKS[output].apply(raw)
    return torch.cat([1 - linked, linked], -1) if one_logit(raw.shape[-1], output) else linked


def both_logits(raw: Tensor, output: str) -> Tensor:
    """Return a raw output with one logit per class: a single one, l, is worth the two (0, l)."""
    return torch.cat([torch.zeros_like(raw), raw], -1) if one_logit(raw.shape[-1], output) else raw


def one_logit(columns: int, output: str) -> bool:
    """Tell whether the model returns a single column that stands for two classes."""
    return columns == 1 and output == "probability"


def class_count(columns: int, output: str) -> int:
    """Return how many classes, or raw outputs, a model with so many columns has."""
    return 2 if one_logit(columns, output) else columns


def default_class(raw: Tensor, output: str) -> Tensor:
    """Return the class that is explained by default: the predicted one, and class 1 of a single logit."""
    chosen = raw.argmax(-1)
    return torch.ones_like(chosen) if one_logit(raw.shape[-1], output) else chosen


# The explained score: target and steps


def named_target(target: Any, classes: Sequence[str] | None) -> Any:
    """Return the number of the output that a name means; any other target as it is."""
    if isinstance(target, TargetScore):
        return target.named(classes)
    if not isinstance(target, str):
        return target
    if classes is None:
        raise InputError(
            f"The target {brief(target)} is a name, and the outputs have none: pass {arg:predictor.classes} with "
            "their names, or the number of one."
        )
    names = list(classes)
    if names.count(target) > 1:
        raise InputError(f"The target {brief(target)} is the name of several outputs: pass the number of one.")
    if target not in names:
        raise UnknownNameError("output", target, names)
    return names.index(target)


def select_target(
    outputs: Tensor, target: Tensor | Picker, z: Tensor | None = None, observed: Tensor | None = None
) -> Tensor:
    """Return the explained score of each series, (batch,), or of each of its steps, (batch, time).

    A function whose attribute ``takes_input`` is true also gets the series ``z`` that the outputs are of, and
    which of their cells were observed, (batch, time, channel) each.
    """
    if isinstance(target, Tensor):
        return outputs.gather(-1, target[..., None]).squeeze(-1)
    if getattr(target, "takes_input", False):
        if z is None or observed is None:
            raise InputError(
                "This method cannot explain a score that also depends on the series themselves: use timing, "
                "integrated_gradients, occlusion or lime."
            )
        score = target(outputs, z, observed)  # type: ignore[call-arg]  # as its attribute says
    else:
        score = target(outputs)
    if not isinstance(score, Tensor) or score.is_nested or score.shape != outputs.shape[:1]:
        raise InputError(
            f"target(output) must return one score per series, ({len(outputs)},), got {brief(score)}."
        )
    return numbers_of(score, outputs, "target(output)")


def resolve_target(
    target: Any, shape: tuple[int, ...], columns: int, output: str, axes: tuple[int, ...] = ()
) -> Tensor:
    """Complete a target, which is no function, to ``shape``, (series,) or (series, time).

    ``axes`` is the shape of one output where it has several axes, whose cells are then the columns.
    """
    classes = class_count(columns, output)
    if axes or (len(shape) == 1 and isinstance(target, tuple)):
        target = _flat_column(target, axes or (classes,))
    tensor = validation.check_numbers(target, "target").cpu()
    if tensor.is_floating_point() or tensor.dtype == torch.bool:
        raise InputError(f"target must hold integers, got {tensor.dtype}.")
    if tensor.ndim == 1 and len(shape) == 2:
        tensor = tensor[:, None]
    if tensor.ndim and tensor.shape not in (shape, shape[:1] + (1,) * (len(shape) - 1)):
        raise InputError(f"target must be an integer or have shape {shape}, got {tuple(tensor.shape)}.")
    if bool(((tensor < 0) | (tensor >= classes)).any()):
        worst = int(tensor.max()) if int(tensor.max()) >= classes else int(tensor.min())
        raise InputError(f"target {worst} is out of range: the outputs to choose from are 0 to {classes - 1}.")
    return tensor.to(torch.int64).expand(shape)


def _flat_column(address: Any, axes: tuple[int, ...]) -> Any:
    """Return the column of an address, which is a tuple, into an output with these axes; a tensor as it is.

    Examples
    --------
    >>> _flat_column((3, 1), (24, 7))
    22
    """
    if not isinstance(address, (tuple, int, np.integer)):
        return address
    wide = [place for place, size in enumerate(axes) if size > 1] or [0]
    if not isinstance(address, tuple) and len(wide) == 1:  # all other axes have one place
        address = tuple(address if place == wide[0] else 0 for place in range(len(axes)))
    places = address if isinstance(address, tuple) and not {bool, np.bool_} & set(map(type, address)) else ()
    try:
        return int(np.ravel_multi_index(places, axes))
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"target {brief(address)} is out of range, or no address of an output of shape {axes}: pass one index "
            f"for each axis, at most {tuple(size - 1 for size in axes)}, or a list with one target per series."
        ) from None


def resolve_steps(
    steps: Any, lengths: Tensor, raw: Tensor, shown: Sequence[int] | None = None
) -> Tensor | Literal["own"] | None:
    """Which steps are explained: a boolean (batch, time), ``"own"``, or None for one output per series.

    ``shown`` are the lengths that the model is shown series at, after which it has no output.
    """
    if raw.ndim != 3:
        return None
    if isinstance(steps, str) and steps == "own":
        return "own"
    count, time = len(lengths), raw.shape[1]
    if steps is None:
        return torch.arange(time) < lengths[:, None]
    chosen = torch.empty(0) if isinstance(steps, str) else validation.check_numbers(steps, "steps").cpu()
    if chosen.dtype != torch.bool or chosen.shape not in {(time,), (count, time)}:
        whole = not chosen.is_floating_point() and chosen.dtype != torch.bool and chosen.ndim < 2
        if not whole or chosen.numel() == 0 or bool(((chosen < 0) | (chosen >= time)).any()):
            raise InputError(f"steps must be 'own' or integers in 0 … {time - 1}, got {brief(steps)}.")
        chosen = torch.zeros(time, dtype=torch.bool).index_fill(0, chosen.long().reshape(-1), True)
    chosen = chosen.expand(count, time)
    for row, length in enumerate(shown or ()):
        if bool(chosen[row, length:].any()):
            step = length + int(chosen[row, length:].nonzero()[0])
            raise InputError(
                f"{arg:question.steps} chooses step {step} of x[{row}], which has {length} steps: choose steps "
                "that all series have, or pass a boolean array (series, time) with those of each."
            )
    return chosen


# What clean outputs tell: NaN, and scores that are probabilities already


class Findings:
    """Collects what the outputs of the clean series show, and refuses them in one sentence.

    They are looked at on the device and judged on the host, as late as possible.
    """

    def __init__(self) -> None:
        self.picked: list[Tensor] = []  # sums of what a function of the user's picked from the outputs
        self._found: list[Tensor] = []
        self._first: Callable[[], Tensor] | None = None  # until somebody looked at it
        self._kept: dict[int, tuple[int, Callable[[], Tensor]]] = {}  # by the first series, with their number

    def add(self, raw: Tensor, first: int, found: Tensor | None = None) -> None:
        """Look at the outputs of one block, which begins with series ``first``; ``found`` if somebody has."""
        self._found.append(findings(raw) if found is None else found)
        if len(self._found) == 1:
            self._first = host_copy(self._found[0])
        count = min(len(raw), max(1, KEPT // max(1, raw[0].numel())) - first)
        if count > self._kept.get(first, (0, None))[0]:
            self._kept[first] = count, host_copy(raw[:count].clone())

    def kept(self) -> Tensor | None:
        """Return the outputs of the first series, on the host, (series, …); None if nothing was read."""
        parts: list[Tensor] = []
        while (place := sum(map(len, parts))) in self._kept:
            parts.append(self._kept[place][1]())
        return torch.cat(parts) if parts else None

    def verify(self, output: str, shape: Sequence[int], *, first: bool = False) -> None:
        """Judge all blocks, which waits for the device; or the first, if nobody has, without later work."""
        if first:
            judged = [] if self._first is None else [self._first().tolist()]
        else:
            judged = torch.stack(self._found).tolist() if self._found else []
            self._found.clear()
        self._first = None
        if not all(math.isfinite(row[0]) for row in judged):
            raise ModelError(
                f"The model returned NaN or infinity for series of shape {tuple(shape)}: check its weights and "
                "the scale of x."
            )
        if judged and output == "probability" and all(row[1] for row in judged):
            raise ModelError(
                "The model already returns probabilities (non-negative rows that sum to 1): pass "
                f"{arg:question.output=raw}, otherwise softmax would be applied twice."
            )
        if not first and self.picked and not math.isfinite(torch.stack(self.picked).sum()):
            raise InputError("target(output) is NaN or infinite for some series: pick a score that is a number.")


def findings(raw: Tensor) -> Tensor:
    """Look at clean outputs: their sum, and whether each row is of probabilities, of more than one.

    Few operations, since a single series has to wait for each; the host judges the result.
    """
    total = raw.sum(-1, dtype=torch.float64)
    normal = (raw.amin() >= 0) & ((total - 1).abs_().amax() < 1e-4)
    return torch.stack([total.sum(), normal.double() * (raw.shape[-1] > 1)])


def is_probability(raw: Tensor) -> bool:
    """Tell whether all rows are non-negative and sum to 1, of more than one number each.

    Examples
    --------
    >>> is_probability(torch.tensor([[0.2, 0.8], [1.0, 0.0]])), is_probability(torch.ones(2, 1))
    (True, False)
    """
    return bool(findings(raw)[1])
