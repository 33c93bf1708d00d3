"""What clean outputs and layers tell about a model: whether output and axes are what they were taken for."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook

from tempograd._utils import stats
from tempograd.engine.conventions import layout_of
from tempograd.engine.cuda import HostCopy
from tempograd.engine.model import Model
from tempograd.engine.outputs import forward
from tempograd.errors import InputError, ModelError
from tempograd.typing import Output

FLAT = 17.0  # beyond, a sigmoid is 1 in single precision
SATURATED = 30.0  # by which the largest output leads: beyond what classifiers are trained to
LEVEL = 2.5  # row means in units of the spread within rows; drifting classifiers reach 1.7
RARE = 1e-4  # of chance
NEIGHBOURS = 3.9  # standard deviations that the resemblance of neighbours is above chance
ALIKE = 0.2  # squared error of a reconstruction, as a share of the variance
SURE = 3.0  # logits beyond which a label is there, or is not
MOST = 0.9  # share of the rows that must agree
ENOUGH = 8  # rows that tell a pattern
LONG_ENOUGH = 8  # steps: few models have as many classes
KEPT = 2**14  # numbers of the first outputs that are kept for a second look


class Guess(str):
    """The default of an argument: not what somebody chose."""

    __slots__ = ()


PROBABILITY = cast("Output", Guess("probability"))


def written(output: str, columns: int | None) -> str:
    """Say what made probabilities of the model's columns, where their number is known.

    Examples
    --------
    >>> written("probability", 1), written("raw", 3)
    ("'probability' (sigmoid of 1 output)", "'raw'")
    """
    if output == "raw" or columns is None:
        return repr("raw" if output == "raw" else "probability")
    if output == "sigmoid":
        return f"'probability' (sigmoid of each of {columns} outputs)"
    return f"{output!r} ({'sigmoid of 1 output' if columns == 1 else f'softmax over {columns} outputs'})"


def objection(outputs: Tensor, x: Tensor, *, sigmoid: bool = False) -> str | None:
    r"""Say in one sentence what speaks against probabilities, and what to pass; None if nothing does.

    Class logits have no common level: softmax does not see the mean of a row, so training leaves it where the
    random first weights put it. With :math:`K` exchangeable columns, row means :math:`m` and variances within rows
    :math:`s^2`, :math:`\sqrt{K \overline{m^2} / \overline{s^2}}` is at worst distributed as the size of Student's
    :math:`t` with :math:`K - 1` degrees of freedom (all series alike), and the same holds for what is left after
    the columns' means were taken off. Forecasts over a horizon and the logits of several labels rise and fall
    together. Neither do neighbouring classes resemble each other more than others do, as the steps of a horizon
    do.

    ``outputs`` are the raw ones, (series, …, output), of the clean series ``x``; ``sigmoid`` says that the model
    is known to end with one.

    Examples
    --------
    >>> objection(torch.tensor([[150.0], [148.0]]), torch.zeros(2, 4, 1))[:63]
    "The model's one output is 148 to 150, where its sigmoid is flat"
    >>> objection(torch.tensor([[1.0, -2.0, 0.5], [0.1, 0.3, -0.2]]), torch.zeros(2, 4, 1)) is None
    True
    """
    size = outputs.shape[-1]
    rows = outputs.detach().double().cpu().reshape(-1, size)
    if not bool(rows.isfinite().all()):
        return None
    if _reconstructs(outputs, x):
        return _sentence(
            f"The model's outputs, {size} per step, are close to the series themselves, as an autoencoder's are",
            size,
            "target=tempograd.targets.reconstruction() for their error, task='forecast'",
        )
    if _within(rows, sigmoid=sigmoid):
        return _sentence(
            "The model's outputs lie between 0 and 1 and do not sum to 1, as those of a sigmoid do"
            if size > 1
            else "The model's one output lies between 0 and 1, as that of a sigmoid does",
            size,
            "task='multilabel' with output='raw'",
        )
    if size == 1:
        return _flat(rows)
    for evidence, what in _EVIDENCE:
        if evidence(rows):
            return _sentence(f"The model's {size} outputs {what}", size)
    return None


def _sentence(what: str, size: int, advised: str = "task='forecast' or 'multilabel'") -> str:
    if size == 1:
        return f"{what}, but a sigmoid of it was explained: {_ONE}."
    return (
        f"{what}, but softmax over all {size} of them was explained and the largest taken for the predicted class:"
        f" pass {advised}, output='raw' for them as they are, or task='classification' if they are logits of "
        "classes."
    )


def _flat(rows: Tensor) -> str | None:
    if float((rows.abs() > FLAT).double().mean()) < MOST:
        return None
    low, high = float(rows.min()), float(rows.max())
    between = f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"
    return f"The model's one output is {between}, where its sigmoid is flat and scores vanish: {_ONE}."


_ONE = "pass task='regression' or output='raw' for it as it is, or task='classification' if it is a logit"


def assumption(shape: Sequence[int], time: int, *, picked: bool, chosen: bool) -> str | None:
    """Say what an output of this shape, for one series, was taken for where its values cannot tell; else None.

    ``picked`` says that a function picks the score, ``chosen`` that steps were, which only outputs per step have.

    Examples
    --------
    >>> assumption((1,), 48, picked=False, chosen=False)[:62]
    "The model's one output was taken for a logit of class 1, and i"
    >>> assumption((3,), 48, picked=False, chosen=False) is None
    True
    """
    if tuple(shape) == (1,):
        return f"The model's one output was taken for a logit of class 1, and its sigmoid was explained: {_ONE}."
    if len(shape) == 1 and shape[0] == time >= LONG_ENOUGH:
        return (
            f"The model's {time} outputs are as many as the steps of the series, and softmax over them was "
            "explained: pass task='forecast', or 'per_step' if each is that of a step, or task='classification' "
            "if they are logits of classes."
        )
    if len(shape) == 1 or chosen:
        return None
    made = "a sigmoid" if shape[-1] == 1 else f"softmax over {shape[-1]} classes"
    if len(shape) == 2 and shape[0] == time:
        return (
            f"The model's output, {shape[-1]} per step of the series, was taken for logits of classes at each of "
            f"the {time} steps, and {made} was explained: pass task='per_step' if it is that, or task='forecast' "
            "or output='raw' for it as it is."
        )
    if not picked:
        return None
    return (
        f"The model's output for a series has shape {tuple(shape)}, and {made}, its last axis, was applied before "
        "target(output): pass task='forecast' or output='raw' for it as it is, or output='probability' if that "
        "was meant."
    )


ALREADY = (
    "The model ends with a sigmoid, and another function was applied to what it returns: pass output='raw', or "
    "output='probability' if that was meant."
)


def averaged(shape: Sequence[int]) -> str:
    """Say that the mean of outputs of this shape was explained, since nobody chose one.

    Examples
    --------
    >>> averaged((24, 7))[:62]
    "No target was given, so the mean of the forecast's 168 outputs"
    """
    example = tuple(min(size - 1, 3 - place) if place < 3 else 0 for place, size in enumerate(shape))
    one = str(example[0]) if len(example) == 1 else str(example)
    return (
        f"No target was given, so the mean of the forecast's {math.prod(shape)} outputs, of shape {tuple(shape)} "
        f"for a series, was explained: pass target={one} for one of them, or target=tempograd.targets.mean() for "
        "the mean, with task='forecast'."
    )


def _within(rows: Tensor, *, sigmoid: bool) -> bool:
    """Tell whether sigmoids gave these numbers: logits reach both ends of [0, 1] only by leaving it."""
    low, high = float(rows.min()), float(rows.max())
    if low < 0 or high > 1:
        return False
    return sigmoid or (rows.numel() >= ENOUGH and low < 0.05 and high > 0.95)


def _reconstructs(outputs: Tensor, x: Tensor) -> bool:
    """Tell whether the outputs are the series again."""
    if outputs.shape != x.shape:
        return False
    found, series = outputs.detach().double().cpu(), x.detach().double().cpu()
    varied = float((series - series.mean((0, 1))).square().mean())
    return varied > 0 and float((found - series).square().mean()) < ALIKE * varied


def _saturated(rows: Tensor) -> bool:
    first, second = rows.topk(2).values.unbind(-1)
    return float((first - second > SATURATED).double().mean()) >= MOST


def _far(rows: Tensor) -> bool:
    return float((rows.abs().amin(-1) > SATURATED).double().mean()) >= MOST


def _level(rows: Tensor) -> bool:
    """Tell whether all outputs of a row lie on one side of 0, further from it than from each other."""
    if not _spread(rows) or bool((rows.logsumexp(-1).abs() < 1e-3).all()):  # logarithms of probabilities
        return False
    one_side = (rows.amin(-1) > 0) | (rows.amax(-1) < 0)
    return float(one_side.double().mean()) >= MOST and _common(rows, LEVEL)


def _together(rows: Tensor) -> bool:
    """Tell whether outputs rise and fall together from series to series."""
    moved = rows - rows.mean(0)
    return len(rows) >= ENOUGH and _spread(moved) and _common(moved, 1.0)


def _common(rows: Tensor, least: float) -> bool:
    size = rows.shape[-1]
    share = math.sqrt(float(rows.mean(-1).square().mean()) / float(rows.var(-1).mean()))
    chance = float(stats.t_quantile(1 - RARE, torch.tensor([size - 1.0], dtype=torch.float64)))
    return share > least and share * math.sqrt(size) > chance


def _spread(rows: Tensor) -> bool:
    return float(rows.var(-1).mean()) > 0


def _smooth(rows: Tensor) -> bool:
    """Tell whether neighbouring outputs resemble each other, by their correlation within rows."""
    inner = rows - rows.mean(-1, keepdim=True)
    if not _spread(rows):
        return False
    alike = float((inner[:, 1:] * inner[:, :-1]).sum() / inner.square().sum())
    size = rows.shape[-1]
    return (alike + 1 / size) * math.sqrt(size) > NEIGHBOURS


def _several(rows: Tensor) -> bool:
    """Tell whether several labels are sure in some rows and none is in others, which softmax makes of no training.

    The gradient of the cross-entropy sums to 0 over the classes, so that logits which all fall in a row are not
    learnt. None of 216 trained classifiers was suspected, and 43 of 108 networks trained on several labels were.
    """
    sure, none = (rows > SURE).sum(-1) > 1, (rows < -SURE).all(-1)
    return len(rows) >= ENOUGH and bool(sure.any()) and bool(none.any())


def _shifted(rows: Tensor) -> bool:
    """Tell whether all outputs move by the same amount from series to series, which softmax does not see."""
    moved = rows - rows[:1]
    size = float(moved.abs().max())
    return len(rows) > 1 and size > 0 and float((moved.amax(-1) - moved.amin(-1)).max()) <= 1e-5 * size


_EVIDENCE: tuple[tuple[Callable[[Tensor], bool], str], ...] = (
    (_far, "are far from 0, on the scale of data and not of logits"),
    (_saturated, "lie so far apart that one has all the probability, on the scale of data and not of logits"),
    (_level, "lie on one side of 0 together, as those of a forecast or of several labels do"),
    (_shifted, "rise and fall by the same amount, as those of quantiles do"),
    (_together, "rise and fall together, as those of a forecast or of several labels do"),
    (_several, "are large together in some series and all small in others, as those of several labels are"),
    (_smooth, "change little from one to the next, as the steps of a forecast do"),
)


class Findings:
    """Collects what the outputs of the clean series show, and refuses them in one sentence.

    They are looked at on the device and judged on the host, as late as possible.
    """

    def __init__(self) -> None:
        self._found: list[Tensor] = []
        self._first: HostCopy | None = None  # until somebody looked at it
        self._kept: dict[int, tuple[int, HostCopy]] = {}  # by the first series: how many, and the outputs
        self._picked: list[Tensor] = []  # sums of what a function of the user's picked from the outputs

    def add(self, raw: Tensor, first: int, found: Tensor | None = None) -> None:
        """Look at the outputs of one block, which begins with series ``first``; ``found`` if somebody has."""
        self._found.append(findings(raw) if found is None else found)
        if len(self._found) == 1:
            self._first = HostCopy(self._found[0])
        most = max(1, KEPT // max(1, raw[0].numel()))
        count = min(len(raw), most - first)
        if count > self._kept.get(first, (0, None))[0]:
            self._kept[first] = count, HostCopy(raw[:count].clone())

    def add_picked(self, score: Tensor) -> None:
        """Look at the scores that a function picked from the outputs of one block."""
        self._picked.append(score.detach().sum(dtype=torch.float64))

    def kept(self) -> Tensor | None:
        """Return the outputs of the first series, on the host, (series, …); None if nothing was read."""
        parts: list[Tensor] = []
        place = 0
        while place in self._kept:
            count, outputs = self._kept[place]
            parts.append(outputs.cpu())
            place += count
        return torch.cat(parts) if parts else None

    def verify_once(self, output: str, shape: Sequence[int]) -> None:
        """Judge the first block, if nobody has, without waiting for later work."""
        if self._first is not None:
            _refuse([self._first.tolist()], output, shape)
            self._first = None

    def verify(self, output: str, shape: Sequence[int]) -> None:
        """Judge all blocks; this waits for the device."""
        if self._found:
            found = torch.stack(self._found)
            self._found.clear()
            self._first = None
            _refuse(found.tolist(), output, shape)
        if self._picked and not math.isfinite(torch.stack(self._picked).sum()):
            raise InputError("target(output) is NaN or infinite for some series: pick a score that is a number.")


def is_probability(raw: Tensor) -> bool:
    """Tell whether all rows are non-negative and sum to 1, of more than one number each."""
    return judge_outputs([findings(raw).tolist()])[1]


def findings(raw: Tensor) -> Tensor:
    """Look at clean outputs: their sum, the smallest of them, how far a row's sum is from 1, and the row's size.

    Few operations, since a single series has to wait for each; :func:`judge_outputs` reads the result on the host.
    """
    total = raw.sum(-1, dtype=torch.float64)
    return torch.stack(
        [total.sum(), raw.amin().double(), (total - 1).abs_().amax(), total.new_full((), raw.shape[-1])]
    )


def judge_outputs(found: Sequence[Sequence[float]]) -> tuple[bool, bool]:
    """Tell whether all outputs are finite, and whether all rows are probabilities, of more than one number each.

    Examples
    --------
    >>> judge_outputs([findings(torch.tensor([[0.2, 0.8], [1.0, 0.0]])).tolist()])
    (True, True)
    """
    finite = all(math.isfinite(total) for total, *_ in found)
    return finite, all(least >= 0 and far < 1e-4 and size > 1 for _, least, far, size in found)


def _refuse(found: Sequence[Sequence[float]], output: str, shape: Sequence[int]) -> None:
    finite, normalised = judge_outputs(found)
    if not finite:
        raise ModelError(
            f"The model returned NaN or infinity for series of shape {tuple(shape)}: "
            "check its weights and the scale of x."
        )
    if normalised and output == "probability":
        raise ModelError(
            "The model already returns probabilities (non-negative rows that sum to 1): "
            "pass output='raw', otherwise softmax would be applied twice."
        )


class Touch(NamedTuple):
    """A layer that runs along an axis, and what came to it."""

    kind: str
    width: int  # channels that it takes
    along: int  # length of the axis it runs along
    wide: bool  # whether it looks at more than one place at once
    series: Tensor | None  # what came, (batch, width, along), if it has as many cells as the series


@contextmanager
def watching(cells: int) -> Iterator[list[Touch]]:
    """Note what comes to convolutions and recurrent layers, wherever they are; those in programs stay unseen."""
    found: list[Touch] = []

    def note(layer: nn.Module, inputs: tuple[Any, ...]) -> None:
        z = inputs[0] if inputs else None
        if not isinstance(z, Tensor) or z.ndim != 3:
            return
        kept = z.detach() if z.numel() == cells else None
        if isinstance(layer, nn.Conv1d):
            found.append(Touch("Conv1d", layer.in_channels, z.shape[2], layer.kernel_size[0] > 1, kept))
        elif isinstance(layer, nn.RNNBase):
            kept = None if kept is None else kept.transpose(1, 2) if layer.batch_first else kept.permute(1, 2, 0)
            found.append(
                Touch(type(layer).__name__, layer.input_size, z.shape[1 if layer.batch_first else 0], True, kept)
            )

    hook = register_module_forward_pre_hook(note)
    try:
        yield found
    finally:
        hook.remove()


def across(found: list[Touch], z: Tensor) -> Touch | None:
    """Return the layer that runs along the channels of ``z``, (batch, time, channel), taking steps for channels.

    Where there are as many steps as channels, only what arrived unchanged tells them apart. A layer that looks at
    one place at a time mixes steps on purpose, if no other follows that looks at several.
    """
    time, channels = z.shape[1:]
    for place, touch in enumerate(found):
        if touch.series is None:
            continue
        if touch.width != time or touch.along != channels:
            return None
        if time == channels and (time == 1 or touch.series.shape != z.shape or not torch.equal(touch.series, z)):
            return None
        wide = next((each for each in found[place:] if each.wide), None)
        return touch if wide is not None and wide.along == channels else None
    return None


def along_batch(found: list[Touch], z: Tensor) -> Touch | None:
    """Return the recurrent layer that got ``z``, (batch, time, channel), as (time, batch, channel)."""
    if z.shape[0] == z.shape[1] == 1:
        return None
    turned = z.permute(1, 2, 0)
    met = (touch for touch in found if touch.series is not None and touch.series.shape == turned.shape)
    return next((touch for touch in met if torch.equal(cast("Tensor", touch.series), turned)), None)


def caution(model: Model, found: list[Touch], z: Tensor) -> str | None:
    """Say that axes have changed places, as far as layers tell, and what to pass; None if nothing tells so."""
    batch, layout = along_batch(found, z), layout_of(model)
    if batch is not None:
        return (
            f"The model's {batch.kind} takes (time, batch, channel) and runs along the batch, so that series "
            "explained together mix: pass model_layout='TBD'."
        )
    touch, (time, channels) = across(found, z), z.shape[1:]
    if touch is None:
        return None
    said = (
        "if the model takes (batch, channel, time) and x is that, pass layout='BDT' and model_layout='BDT'"
        if layout == "BTD"
        else f"if the model takes (batch, time, channel), leave model_layout={layout!r} out"
    )
    return (
        f"The model's {touch.kind} takes the {time} steps of x as its channels and runs along the {channels} "
        f"channels as if they were steps: {said}."
    )


def advice(model: Model, z: Tensor, layout: str) -> str:
    """Say what to pass instead of series that do not fit a model, by trying them with axes in another order."""
    few, own = torch.cat([z, z]).detach()[:2], layout_of(model)
    if len(z) == 1 and _taken(model, few) is not None:  # the axes are right
        return "; it takes two series at a time, but not one: write a function that repeats a single one for it"
    if own == "BTD" and few.shape[2] == 1 and _taken(model, few.squeeze(2)) is not None:
        return "; it takes (batch, time): pass model_layout='BT'"
    swapped = few.transpose(1, 2).contiguous()
    found = _taken(model, swapped)
    if found is None:
        return ""
    turned = "pass model_layout='BDT'" if own == "BTD" else f"leave model_layout={own!r} out"
    other = "layout='BTD'" if layout == "BDT" else "layout='BDT'"
    if own == "BTD" and across(found, swapped) is not None:
        kept = ", and keep layout='BDT'" if layout == "BDT" else ""
        return f"; it takes (batch, channel, time): {turned}{kept}"
    if own == "BTD" and any(touch.series is not None for touch in found):
        return f"; if time and channel are swapped, pass {other}"
    return f"; it takes x with time and channel swapped: pass {other} if x is so, else {turned}"


def _taken(model: Model, z: Tensor) -> list[Touch] | None:
    """Return what came to the layers of a model that takes ``z``; None if it does not."""
    try:
        with torch.no_grad(), watching(z.numel()) as found:
            forward(model, z)
    except Exception:  # whatever goes wrong
        return None
    return found
