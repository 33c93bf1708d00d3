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

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from tempograd import explainers
from tempograd.core import validation
from tempograd.core.errors import InputError, MissingExtraError, ModelError, brief
from tempograd.engine import (
    Batching,
    as_model,
    differentiate_each,
    frozen,
    mutable_if_needed,
    predict,
    require_graph,
    require_torch,
    slices,
)
from tempograd.explainers.timing import draw_whole
from tempograd.sampling.estimators import ControlVariateMean, WeightedMean
from tempograd.sampling.segments import SegmentSettings, warn_of_rare_cells
from tempograd.typing import ArrayLike

try:
    from captum.attr import GradientAttribution  # type: ignore[import-untyped]
    from captum.log import log_usage  # type: ignore[import-untyped]
except ImportError as error:
    raise MissingExtraError("captum", "captum") from error

__all__ = ["Timing"]

Forward = Callable[..., Tensor]
Attributions = Tensor | tuple[Tensor, ...]
Baselines = float | Tensor | tuple[float | Tensor, ...] | None
Method = TypeVar("Method", bound=Callable[..., object])


def _as_captum(method: Method) -> Method:
    """Do what captum does to its methods, and keep their types: NoiseTunnel calls what this wraps."""
    wrapped: Method = log_usage()(method)
    return wrapped


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
        forward_func: Forward,
        *,
        held: float | None = None,
        segments: int | None = None,
        min_length: int | None = None,
        max_length: int | None = None,
        anchored: float | None = None,
        seed: int = 0,
    ) -> None:
        validation.check_model(forward_func, "forward_func")
        require_torch(as_model(forward_func))
        super().__init__(forward_func)
        self.method = explainers.Timing(
            held=held, segments=segments, min_length=min_length, max_length=max_length, anchored=anchored
        )
        self.seed = validation.check_seed(seed)

    @property
    def multiplies_by_inputs(self) -> bool:
        """Whether scores are gradients times the change of the input: always."""
        return True

    def has_convergence_delta(self) -> bool:
        """Tell that ``return_convergence_delta`` is supported."""
        return True

    @_as_captum
    def attribute(
        self,
        inputs: Tensor | tuple[Tensor, ...],
        baselines: Baselines = None,
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
        single = isinstance(inputs, Tensor)
        validation.check_flag(return_convergence_delta, "return_convergence_delta")
        tensors = _inputs_of(inputs)
        job = _Job(
            forward=self.forward_func,
            method=replace(self.method, n_samples=validation.check_int(n_steps, "n_steps", 1)),
            seed=self.seed,
            inputs=tensors,
            baselines=_baselines_of(baselines, tensors),
            target=_target_of(target, len(tensors[0])),
            extra=_extra_of(additional_forward_args),
            size=None
            if internal_batch_size is None
            else validation.check_int(internal_batch_size, "internal_batch_size", 1),
        )
        with frozen(self.forward_func):
            scores = mutable_if_needed(job.run)
            found: Attributions = scores[0] if single else scores
            if not return_convergence_delta:
                return found
            start, end = (each[0] if single else each for each in (job.baselines, tensors))
            return found, self.compute_convergence_delta(found, start, end, target, additional_forward_args)


class _Group(NamedTuple):
    """Inputs with the same number of steps, which share their masks."""

    members: list[int]  # positions among the inputs
    setting: SegmentSettings
    seed: int


@dataclass(frozen=True)
class _Job:
    """One call, checked and completed."""

    forward: Forward
    method: explainers.Timing
    seed: int
    inputs: tuple[Tensor, ...]
    baselines: tuple[Tensor, ...]
    target: Tensor | None  # (batch or 1, axes of the output)
    extra: tuple[Any, ...]
    size: int | None

    def run(self) -> tuple[Tensor, ...]:
        """Return the scores of all inputs; the model must be frozen."""
        groups = self._groups()
        warn_of_rare_cells([group.setting for group in groups], self.method.schedule.points)
        scores = tuple(torch.zeros_like(x) for x in self.inputs)
        cells = sum(x[0].numel() for x in self.inputs)
        batching = Batching(self.inputs[0].device, cells, self.size)

        def work(rows: slice, size: int) -> None:
            self._explain(rows, size if self.size is None else min(size, self.size), groups, scores)

        # at least two per series, so that the few series that the schedule may add stay below ``size``
        batching.run(len(scores[0]), max(2, self.method.schedule.together), work, "explain with timing")
        if not all(bool(part.isfinite().all()) for part in scores):
            raise ModelError(
                "The model's gradient is NaN or infinite on the path from the baselines to the inputs."
            )
        return scores

    def _groups(self) -> list[_Group]:
        by_length: dict[int, list[int]] = {}
        for position, x in enumerate(self.inputs):
            if x.ndim == 3:
                by_length.setdefault(x.shape[1], []).append(position)
        groups = []
        for number, (time, members) in enumerate(by_length.items()):
            channels = sum(self.inputs[position].shape[2] for position in members)
            # another seed, or the masks of two groups would follow each other
            groups.append(_Group(members, self.method.segment_settings(time, channels, time), self.seed + number))
        return groups

    def _explain(self, rows: slice, size: int, groups: list[_Group], scores: tuple[Tensor, ...]) -> None:
        """Explain some rows, at most ``size`` sequences at a time; the cells of all inputs are as one row."""
        x = [whole[rows] for whole in self.inputs]
        delta = [each - base[rows] for each, base in zip(x, self.baselines, strict=True)]
        displacement = _joined(delta, 1)
        mean = ControlVariateMean(displacement) if self.method.controlled else WeightedMean(errors=False)
        with torch.no_grad():
            clean = self._score([part[:, None] for part in x], rows) if self.method.controlled else None
        for stage, points in enumerate(self.method.schedule.stages):
            masks, weights = self._draw(rows, groups, stage)
            for chosen in slices(points, max(1, size // len(x[0]))):
                position = (torch.arange(chosen.start, chosen.stop, device=displacement.device) + 0.5) / points
                active = [None if mask is None else mask[:, chosen] for mask in masks]
                z = [_moved(*parts, position) for parts in zip(x, delta, active, strict=True)]
                score = self._score(z, rows)
                gradient = _joined(differentiate_each(score.sum(), z), 2)
                every = [
                    torch.ones_like(part) if each is None else each for part, each in zip(z, active, strict=True)
                ]
                weight = None if weights is None else weights[:, chosen]
                if isinstance(mean, WeightedMean):
                    mean.add(gradient, weight, _joined(every, 2).to(gradient))
                    continue
                gap = None if clean is None else (clean - score.detach()).to(gradient)
                mean.add(gradient, weight, _joined(every, 2).to(gradient), position, gap)
        found = mean.result().mean * (1 if self.method.controlled else displacement)
        cells = [part[0].numel() for part in x]
        for score, part in zip(scores, torch.split(found[..., 0], cells, 1), strict=True):
            score[rows] = part.reshape(score[rows].shape).to(score)

    def _draw(self, rows: slice, groups: list[_Group], stage: int) -> tuple[list[Tensor | None], Tensor | None]:
        """Masks of each input, (rows, points, time, channel), None if it always moves, and weights of the points.

        Masks of different groups are independent, so that their densities multiply, and so do their weights.
        """
        device = self.inputs[0].device
        masks: list[Tensor | None] = [None] * len(self.inputs)
        weights: Tensor | None = None
        for members, setting, seed in groups:
            dtype = self.inputs[members[0]].dtype
            ids = torch.arange(rows.start, rows.stop, device=device)
            drawn = draw_whole(self.method, setting, ids, seed, dtype, stage)
            depths = [self.inputs[position].shape[2] for position in members]
            for position, mask in zip(members, torch.split(drawn.masks, depths, dim=3), strict=True):
                masks[position] = mask
            if drawn.weights is not None:
                weights = drawn.weights if weights is None else weights * drawn.weights
        return masks, weights

    def _score(self, z: Sequence[Tensor], rows: slice) -> Tensor:
        """Return the selected output at ``z``, (rows, points, …) each: (rows, points)."""
        points, batch = z[0].shape[1], len(self.inputs[0])
        flat = [part.flatten(0, 1) for part in z]
        extra = [
            part[rows].repeat_interleave(points, 0)
            if isinstance(part, Tensor) and part.ndim > 0 and len(part) == batch
            else part
            for part in self.extra
        ]
        others = [part.clone() for part in flat[1:]]  # which the model may work on in place
        outputs = predict(lambda first: self.forward(first, *others, *extra), flat[0], "raw")
        target = self.target
        if target is not None and len(target) == batch:
            target = target[rows].repeat_interleave(points, 0)
        score = _select(outputs, target)
        if torch.is_grad_enabled():
            require_graph(score)
        return score.view(-1, points)


def _moved(x: Tensor, delta: Tensor, active: Tensor | None, position: Tensor) -> Tensor:
    """Points on the paths, (rows, points, …): back towards the baseline where a cell moves."""
    back = (position.to(x.dtype) - 1).view(-1, *[1] * (x.ndim - 1))
    z = torch.addcmul(x[:, None], back if active is None else back * active.to(x.dtype), delta[:, None])
    return z.requires_grad_()


def _joined(parts: Sequence[Tensor], start: int) -> Tensor:
    """Put the cells of all inputs behind each other, as steps of one channel, in single precision at least."""
    joined = torch.cat([part.flatten(start) if part.ndim > start else part[..., None] for part in parts], start)
    return joined.to(torch.promote_types(joined.dtype, torch.float32))[..., None]


def _inputs_of(inputs: Any) -> tuple[Tensor, ...]:
    """Return the inputs as a tuple of finite tensors with the same rows, a series among them."""
    given = inputs if isinstance(inputs, tuple) else (inputs,)
    tensors = [validation.as_tensor(x, "inputs") if isinstance(x, Tensor) else x for x in given]
    for number, x in enumerate(tensors):
        if not isinstance(x, Tensor) or not x.is_floating_point():
            kind = x.dtype if isinstance(x, Tensor) else type(x).__name__
            raise InputError(
                f"inputs must be a floating-point tensor or a tuple of them, input {number} is {kind}: what is "
                "not to be explained goes into additional_forward_args."
            )
        if x.ndim == 0 or x.numel() == 0 or len(x) != len(tensors[0]) or not bool(x.isfinite().all()):
            raise InputError(
                f"Each input must hold finite numbers for the same rows: input {number}, {tuple(x.shape)}, has "
                f"other rows than the first, {tuple(tensors[0].shape)}, is empty or holds NaN or infinity."
            )
    if not any(x.ndim == 3 for x in tensors):
        shapes = ", ".join(str(tuple(x.shape)) for x in tensors)
        raise InputError(f"TIMING needs an input of shape (batch, time, channel), got {shapes or 'no input'}.")
    return tuple(tensors)


def _baselines_of(baselines: Any, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return a baseline like each input, zero by default."""
    given = baselines if isinstance(baselines, tuple) else (baselines,)
    if baselines is None:
        given = (None,) * len(inputs)
    if len(given) != len(inputs) or any(isinstance(each, str) for each in given):
        raise InputError(
            f"baselines must be None or one number or tensor for each input, {len(inputs)} in all (several in a "
            f"tuple), got {', '.join(type(each).__name__ for each in given)}."
        )
    return tuple(validation.fill(each, x, None, "baselines") for each, x in zip(given, inputs, strict=True))


def _target_of(target: Any, batch: int) -> Tensor | None:
    """Return indices (batch or 1, axes of the output) on the CPU."""
    if target is None:
        return None
    found = validation.check_numbers(target, "target").cpu()
    if isinstance(target, tuple) or found.numel() == 1:
        found = found.reshape(1, -1)
    elif found.ndim == 1:
        found = found[:, None]
    if found.is_floating_point() or found.dtype == torch.bool or found.ndim != 2 or len(found) not in {1, batch}:
        raise InputError(
            f"target must be an integer, a tuple of them, or one of these for each of the {batch} rows, got "
            f"{brief(target)}."
        )
    return found.long()


def _extra_of(arguments: Any) -> tuple[Any, ...]:
    """Return what the model gets after its inputs."""
    if arguments is None:
        return ()
    return arguments if isinstance(arguments, tuple) else (arguments,)


def _select(outputs: Tensor, target: Tensor | None) -> Tensor:
    """Return the selected output of each row, (rows,)."""
    shape = tuple(outputs.shape[1:])
    if target is None:
        if outputs[0].numel() != 1:
            raise InputError(f"The model returns {shape} numbers for each row: pass target= to select one.")
        return outputs.flatten()
    if target.shape[1] != len(shape):
        raise InputError(
            f"The model returns {shape} numbers for each row, but target has {target.shape[1]} indices: pass "
            f"{len(shape)}."
        )
    sizes = torch.tensor(shape)
    outside = (target < -sizes) | (target >= sizes)
    if bool(outside.any()):
        first = target[outside.any(1)][0].tolist()
        raise InputError(f"target {first} is out of range: the model returns {shape} numbers for each row.")
    rows = torch.arange(len(outputs), device=outputs.device)
    return outputs[(rows, *target.to(outputs.device).unbind(1))]
