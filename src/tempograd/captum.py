r"""TIMING for those who use captum: the same call, and accepted wherever a captum method is.

>>> import torch
>>> from captum.attr import NoiseTunnel
>>> from tempograd.captum import Timing
>>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(6, 2, bias=False))
>>> x = torch.arange(6.0).view(1, 3, 2)
>>> found = Timing(model).attribute(x, target=1)
>>> bool(torch.allclose(found, model[1].weight[1].view(3, 2) * x, atol=1e-6))
True
>>> NoiseTunnel(Timing(model)).attribute(x, target=1, stdevs=0.1).shape
torch.Size([1, 3, 2])
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor

from tempograd import explainers
from tempograd.core import validation
from tempograd.core.errors import InputError, MissingExtraError, brief
from tempograd.core.question import Function, Question
from tempograd.engine import Ask, Block, Call, frozen
from tempograd.engine.ask import AskProgress
from tempograd.engine.model import mutable_if_needed
from tempograd.engine.predictor import Adapted, as_model, numbers_of
from tempograd.explainers.timing import draw_whole
from tempograd.sampling.integration import GradientPath, Integral
from tempograd.sampling.segments import warn_of_rare_cells
from tempograd.typing import ArrayLike

try:
    from captum.attr import GradientAttribution  # type: ignore[import-untyped]
    from captum.log import log_usage  # type: ignore[import-untyped]
except ImportError as error:
    raise MissingExtraError("captum", "captum") from error

__all__ = ["Timing"]

Attributions = Tensor | tuple[Tensor, ...]
Paths = Callable[[Block, int], GradientPath]


class Timing(GradientAttribution):  # type: ignore[misc]  # captum has no types
    r"""TIMING [1]_ as a captum attribution method.

    Every series input moves from its baseline :math:`x'` to :math:`x` while random segments of it, drawn anew for
    each of the path points :math:`\alpha`, stay at their true values; a cell's score averages over the
    masks :math:`M` that let it move (:class:`tempograd.Timing` has the formula and its own settings).

    **Several inputs.** An input of shape (batch, time, channel) is a series. Series with the same number of steps
    share their masks, as if they were laid side by side as the channels of one; those with another number of
    steps have masks of their own. Any other input, such as (batch, feature), has no time in which a segment could
    lie: it always moves, as in integrated gradients. At least one input must be a series.

    **What is explained** is the output that ``target`` selects, without softmax, as everywhere in captum.

    Parameters
    ----------
    forward_func : nn.Module or callable
        Called with the inputs and the additional arguments. A module in training mode is run in evaluation mode
        and put back, also inside a function; recurrent layers on a GPU need no flag.
    held : float, optional
        Share of the values that a mask holds on average, by default about one half. ``held=0`` holds none:
        captum's ``IntegratedGradients`` with ``method="riemann_middle"``.
    segments : int, optional
        Segments fixed per mask, for those who want the count instead of ``held``.
    min_length, max_length : int, optional
        Bounds of the length of a segment, by default a tenth and a third of the series. ``max_length=1`` holds
        single values.
    anchored : float, optional
        Share of the masks that are drawn around a chosen cell, by default chosen as in :class:`tempograd.Timing`.
    seed : int, default=0
        Row ``i`` of a batch gets the same masks in every call with the same seed, and other rows get others. Pass
        ``max_examples_per_batch=len(inputs)`` to ``sensitivity_max``, and each perturbed row has the masks of its
        original: what is measured is the perturbation alone.

    Notes
    -----
    Scores have Monte-Carlo errors, which captum has no place for: :func:`tempograd.explain` returns them.

    References
    ----------
    .. [1] H. Jang, C. Kim and E. Yang, "TIMING: Temporality-Aware Integrated Gradients for Time Series
       Explanation", ICML 2025. https://arxiv.org/abs/2506.05035
    """

    def __init__(
        self,
        forward_func: Callable[..., Tensor],
        *,
        held: float | None = None,
        segments: int | None = None,
        min_length: int | None = None,
        max_length: int | None = None,
        anchored: float | None = None,
        seed: int = 0,
    ) -> None:
        validation.check_model(forward_func, "forward_func")
        super().__init__(as_model(forward_func))
        self.method = explainers.Timing(
            held=held, segments=segments, min_length=min_length, max_length=max_length, anchored=anchored
        )
        self.seed = validation.check_int(seed, "seed")

    multiplies_by_inputs = True
    """Whether scores are gradients times the change of the input: always."""

    def has_convergence_delta(self) -> bool:
        """Tell that ``return_convergence_delta`` is supported."""
        return True

    @cast("Callable[[Function], Function]", log_usage())  # as captum's own: NoiseTunnel calls what this wraps
    def attribute(
        self,
        inputs: Tensor | tuple[Tensor, ...],
        baselines: float | Tensor | tuple[float | Tensor, ...] | None = None,
        target: int | tuple[int, ...] | ArrayLike | None = None,
        additional_forward_args: object = None,
        n_steps: int = 50,
        internal_batch_size: int | None = None,
        return_convergence_delta: bool = False,
    ) -> Attributions | tuple[Attributions, Tensor]:
        r"""Score every value of the inputs by its part in the selected output.

        Parameters
        ----------
        inputs : Tensor or tuple of Tensor
            Floating point, the batch first in each; at least one is (batch, time, channel).
        baselines : number, Tensor or tuple of these, optional
            What "absent" means, by default 0; tensors broadcast to their input.
        target : int, tuple, Tensor or list, optional
            Which output: an index or, for outputs with more axes, a tuple of them, for all rows; or one for each
            row, as a tensor (batch,) or (batch, axes) or as a list. None if there is one output per row.
        additional_forward_args : any or tuple of any, optional
            Passed on after the inputs and not explained. A tensor with as many rows as the inputs is repeated with
            the path points; everything else is passed as it is.
        n_steps : int, default=50
            Path points, each with masks of its own.
        internal_batch_size : int, optional
            Most rows that go through the model at once; by default found automatically, halved when memory runs
            out.
        return_convergence_delta : bool, default=False
            Return also, for each row,

            .. math:: \delta = \sum A - \big(F(x) - F(x')\big).

            It tends to 0 with ``n_steps`` for ``segments=0`` only. With segments TIMING is not complete, so that
            :math:`\delta` is no measure of the error.

        Returns
        -------
        Tensor or tuple of Tensor
            Scores like ``inputs``; with ``return_convergence_delta`` a pair of them and the Tensor
            (batch,) of :math:`\delta`.
        """
        tensors = _inputs_of(inputs)
        if internal_batch_size is not None:
            validation.check_int(internal_batch_size, "internal_batch_size", 1)
        starts = _baselines_of(baselines, tensors)
        method = replace(self.method, n_samples=validation.check_int(n_steps, "n_steps", 1))
        scored = _Scored(tensors, _target_of(target, len(tensors[0])), additional_forward_args)
        with frozen(self.forward_func):
            x = _joined(tensors)
            ask = Ask.create(
                Adapted(self.forward_func, scored),
                x,
                Question(target=0, output="raw", baseline=_joined(starts)),
                seed=self.seed,
                batch_size=internal_batch_size,
                call=Call(fixed=()),  # which says that rows matter
                progress=AskProgress(fits=True),  # the model fails with its own words
                where=(x.device, x.dtype),  # the inputs go to the model as they are
            )
            scores = _cut(mutable_if_needed(lambda: _values(ask, method, _paths(ask, method, tensors))), tensors)
            attributions = scores[0] if isinstance(inputs, Tensor) else scores
            if not return_convergence_delta:
                return attributions
            delta = self.compute_convergence_delta(scores, starts, tensors, target, additional_forward_args)
            return attributions, delta


@dataclass(frozen=True, eq=False)
class _Scored:
    """Calls a function of several inputs with the cells of all of them, and returns the selected output."""

    inputs: tuple[Tensor, ...]
    target: Tensor | None  # (batch, axes of the output)
    extra: Any  # what the function gets after its inputs, several in a tuple

    def run(self, model: Any, z: Tensor, rows: Tensor | None = None) -> Tensor:
        parts = [part.clone() for part in _cut(z, self.inputs)]  # which the model may work on in place
        rows = torch.arange(len(z)) if rows is None else rows
        batch, more = len(self.inputs[0]), self.extra if isinstance(self.extra, tuple) else (self.extra,)
        extra = [
            part[rows.to(part.device)] if isinstance(part, Tensor) and part.ndim and len(part) == batch else part
            for part in (() if self.extra is None else more)
        ]
        outputs = numbers_of(model(*parts, *extra), parts[0])
        outputs, target = outputs[:, None] if outputs.ndim == 1 else outputs, self.target
        if target is None and outputs[0].numel() == 1:
            return outputs.flatten()
        sizes = torch.tensor(outputs.shape[1:])
        if target is None or target.shape[1] != len(sizes) or ((target < -sizes) | (target >= sizes)).any():
            returned = f"The model returns {tuple(sizes.tolist())} numbers for each row"
            raise InputError(f"{returned}: pass target= with one index per axis.")
        places = torch.arange(len(outputs), device=outputs.device)
        return outputs[(places, *target.to(outputs.device)[rows].unbind(1))]


def _paths(ask: Ask, method: explainers.Timing, inputs: tuple[Tensor, ...]) -> Paths:
    """Return what draws masks for all series of one length together, and makes the paths that they leave.

    Masks of different lengths are independent, so that their densities multiply, and so do their weights.
    """
    by_length: dict[int, list[int]] = {}
    for place, x in enumerate(inputs):
        if x.ndim == 3:
            by_length.setdefault(x.shape[1], []).append(place)
    depths = {time: [inputs[place].shape[2] for place in places] for time, places in by_length.items()}
    settings = {time: method.segment_settings(time, sum(depth), time) for time, depth in depths.items()}
    warn_of_rare_cells(list(settings.values()), sum(method.schedule.stages))

    def path(block: Block, stage: int) -> GradientPath:
        shape = len(block.x), method.schedule.stages[stage]
        masks = [block.x.new_ones(*shape, x[0].numel(), dtype=torch.bool) for x in inputs]
        weights: Tensor | None = None
        for number, (time, places) in enumerate(by_length.items()):
            # another seed, or the masks of two lengths would follow each other
            drawn = draw_whole(method, settings[time], block.ids, ask.seed + number, block.x.dtype, stage)
            for place, mask in zip(places, torch.split(drawn.masks, depths[time], 3), strict=True):
                masks[place] = mask.flatten(2)
            if drawn.weights is not None:
                weights = drawn.weights if weights is None else weights * drawn.weights
        whole = drawn._replace(masks=torch.cat(masks, 2)[..., None], weights=weights)
        return method.masked_path(block, whole)._replace(start=None)  # whose score nobody asks for

    return path


def _values(ask: Ask, method: explainers.Timing, path: Paths) -> Tensor:
    """Integrate, and read the series in a pass of their own: none has more rows than asked for."""
    integral = Integral([ask], method.schedule, path, ask.batching, ask.precision)

    def work(rows: slice, size: int) -> None:
        integral.run(rows, min(size, ask.batch_size or size), ask.with_target(ask.block(rows)))

    # at least two per series, so that the few series that the schedule may add stay below the size
    integral.batching.run(len(ask.x), max(2, integral.together), work, f"explain with {method.name}")
    values = integral.estimates()[0].values
    ask.verify(values)
    return values


def _joined(parts: tuple[Tensor, ...]) -> Tensor:
    """Put the cells of all inputs behind each other, as steps of one channel."""
    return torch.cat([part.detach().reshape(len(part), -1) for part in parts], 1)[..., None]


def _cut(cells: Tensor, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return what was joined, like the inputs."""
    parts = torch.split(cells[..., 0], [x[0].numel() for x in inputs], 1)
    return tuple(part.reshape(-1, *x.shape[1:]).to(x.dtype) for part, x in zip(parts, inputs, strict=True))


def _inputs_of(inputs: Any) -> tuple[Tensor, ...]:
    """Return the inputs as a tuple of finite tensors with the same rows, a series among them."""
    given = inputs if isinstance(inputs, tuple) else (inputs,)
    tensors = tuple(validation.as_tensor(x, "inputs") for x in given if isinstance(x, Tensor))
    real = [x for x in tensors if x.is_floating_point() and x.ndim and x.numel() and bool(x.isfinite().all())]
    if len(real) < len(given) or len(set(map(len, real))) != 1 or not any(x.ndim == 3 for x in real):
        kinds = ", ".join(brief(x) if isinstance(x, Tensor) else type(x).__name__ for x in given)
        raise InputError(
            "inputs must be a finite floating-point tensor or a tuple of them with the same rows, at least one of "
            f"them (batch, time, channel), got {kinds}: other arguments go into additional_forward_args."
        )
    return tensors


def _baselines_of(baselines: Any, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return a baseline like each input, zero by default."""
    given = baselines if isinstance(baselines, tuple) else (baselines,) * (len(inputs) if baselines is None else 1)
    if len(given) != len(inputs) or any(isinstance(each, str) for each in given):
        wanted = f"None or one number or tensor for each input, {len(inputs)} in all (several in a tuple)"
        raise InputError(f"baselines must be {wanted}, got {', '.join(type(each).__name__ for each in given)}.")
    return tuple(validation.fill(each, x, None, "baselines") for each, x in zip(given, inputs, strict=True))


def _target_of(target: Any, batch: int) -> Tensor | None:
    """Return indices (batch, axes of the output) on the CPU."""
    if target is None:
        return None
    found = validation.check_numbers(target, "target").cpu()
    found = found.reshape(1 if isinstance(target, tuple) or found.numel() == 1 else len(found), -1)
    if found.is_floating_point() or found.dtype == torch.bool or len(found) not in {1, batch}:
        wanted = f"an integer, a tuple of them, or one of these for each of the {batch} rows"
        raise InputError(f"target must be {wanted}, got {brief(target)}.")
    return found.long().expand(batch, -1)
