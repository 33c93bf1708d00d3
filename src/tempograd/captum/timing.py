"""TIMING with the face of a captum method."""

from dataclasses import replace
from typing import Any

from torch import Tensor

from tempograd import checks, explainers
from tempograd.captum import _arguments as arguments
from tempograd.captum._paths import Forward, Job
from tempograd.engine import mutable_if_needed, quiet
from tempograd.errors import MissingExtraError

try:
    from captum.attr import GradientAttribution  # type: ignore[import-untyped]
    from captum.log import log_usage  # type: ignore[import-untyped]
except ImportError as error:
    raise MissingExtraError("captum", "captum") from error

Attributions = Tensor | tuple[Tensor, ...]


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
    segments, min_length, max_length : int, optional
        Segments held per mask and the bounds of their length, by default chosen so that about half of the cells
        are free. ``segments=0`` holds nothing: captum's ``IntegratedGradients`` with ``method="riemann_middle"``.
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
        segments: int | None = None,
        min_length: int | None = None,
        max_length: int | None = None,
        anchored: float | None = None,
        seed: int = 0,
    ) -> None:
        checks.model(forward_func, "forward_func")
        super().__init__(forward_func)
        self.method = explainers.Timing(
            segments=segments, min_length=min_length, max_length=max_length, anchored=anchored
        )
        self.seed = checks.seed(seed)

    @property
    def multiplies_by_inputs(self) -> bool:
        """Whether scores are gradients times the change of the input: always."""
        return True

    def has_convergence_delta(self) -> bool:
        """Tell that ``return_convergence_delta`` is supported."""
        return True

    @log_usage()  # type: ignore[untyped-decorator]  # NoiseTunnel calls what this decorator wraps
    def attribute(
        self,
        inputs: Tensor | tuple[Tensor, ...],
        baselines: Any = None,
        target: Any = None,
        additional_forward_args: Any = None,
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
        checks.flag(return_convergence_delta, "return_convergence_delta")
        tensors = arguments.inputs_of(inputs)
        job = Job(
            forward=self.forward_func,
            method=replace(self.method, points=checks.whole(n_steps, "n_steps", 1)),
            seed=self.seed,
            inputs=tensors,
            baselines=arguments.baselines_of(baselines, tensors),
            target=arguments.target_of(target, len(tensors[0])),
            extra=arguments.extra_of(additional_forward_args),
            size=None
            if internal_batch_size is None
            else checks.whole(internal_batch_size, "internal_batch_size", 1),
        )
        with quiet(self.forward_func):
            scores = mutable_if_needed(job.run)
            found: Attributions = scores[0] if single else scores
            if not return_convergence_delta:
                return found
            start, end = (each[0] if single else each for each in (job.baselines, tensors))
            return found, self.compute_convergence_delta(found, start, end, target, additional_forward_args)
