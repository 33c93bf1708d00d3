"""DeepLIFT: slopes between the baseline and the series, carried back layer by layer."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn

from tempograd.core.errors import MissingExtraError, ModelError, warn
from tempograd.core.estimate import Estimate
from tempograd.engine import Ask, Block, Model, select_target
from tempograd.engine.gradients import require_path
from tempograd.engine.predictor import forward
from tempograd.explainers.base import EXPLAINERS, Explainer, one_by_one
from tempograd.explainers.path import nodes
from tempograd.explainers.timex import module_of
from tempograd.typing import Picker

NODES = 50  # of the slope of softmax between two outputs, which costs no pass of the model
TOO_FAR = 0.05  # share of the change of the prediction that may be left over without a word
MIXING = (nn.Softmax, nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)  # captum's rules mix the series of a batch


@EXPLAINERS.register("deep_lift")
@dataclass(frozen=True)
class DeepLift(Explainer):
    r"""DeepLIFT with the rescale rule, as in captum.

    The slope of an activation :math:`\sigma` is replaced by the one between the baseline :math:`x'` and :math:`x`,

    .. math:: m = \frac{\sigma(u) - \sigma(u')}{u - u'}, \qquad A_{t,d} = (x - x')_{t,d} \, m_{t,d},

    where :math:`m_{t,d}` is carried back from the output by the chain rule. Softmax, which has several inputs,
    gets its mean gradient on the straight line between both outputs.

    Notes
    -----
    If all that is not linear is an activation module used once (``nn.ReLU``, ``nn.Tanh``, …), the scores sum to
    :math:`F_{\hat y}(x) - F_{\hat y}(x')`. Elsewhere the slope at :math:`x` is taken, above all for the gates
    inside ``nn.GRU`` and ``nn.LSTM``, which captum cannot reach, and for functions such as ``torch.relu``.
    Then the scores do not sum to the change; a call that leaves more than 5 % of it over says so. Whether the
    gradient is that of the prediction is not checked here: integrated gradients tell.

    The model must be an ``nn.Module``, or a method of one. Needs captum: ``pip install 'tempograd[captum]'``.

    References
    ----------
    .. [1] A. Shrikumar, P. Greenside and A. Kundaje, "Learning important features through propagating activation
       differences", ICML 2017. https://arxiv.org/abs/1704.02685
    .. [2] M. Ancona et al., "Towards better understanding of gradient-based attribution methods for deep neural
       networks", ICLR 2018. https://arxiv.org/abs/1711.06104

    Examples
    --------
    >>> model = nn.Sequential(nn.Flatten(), nn.ReLU(), nn.Linear(2, 1, bias=False))
    >>> _ = nn.init.constant_(model[2].weight, 2.0)
    >>> DeepLift()(model, torch.tensor([[[3.0], [-1.0]]]), baseline=-1.0, output="raw").values.flatten()
    tensor([6., 0.])
    """

    zero_if_ignored: ClassVar[bool] = True
    deterministic: ClassVar[bool] = True
    needs_module: ClassVar[bool] = True
    caveat: ClassVar[str] = "The scores of deep_lift leave"

    @one_by_one
    def attribute(self, ask: Ask) -> Estimate:
        try:
            from captum.attr import DeepLift as Method  # type: ignore[import-untyped]  # noqa: PLC0415
        except ImportError:
            raise MissingExtraError("captum", "captum") from None
        part = module_of(ask.model)
        values = torch.zeros(ask.x.shape, device=ask.x.device)
        sums: list[Tensor] = []

        def work(rows: slice, _: int) -> None:
            block = ask.block(rows)
            found, delta = self._attribute(ask, part, block, Method)
            values[rows] = found.where(block.observed, 0).to(values)
            if delta is not None:
                sums.append(torch.stack([(found.flatten(1).sum(1) - delta).abs().sum(), delta.abs().sum()]))

        batching = ask.batching
        if any(type(layer) in MIXING for layer in part.modules()):
            batching.size = 1
        batching.run(len(values), 2, work, f"explain with {self.name}")
        left, delta = torch.stack(sums).sum(0).tolist() if sums and self._examined else (0, 0)
        if left > TOO_FAR * delta > 0:
            reason = "steps that are no activation modules, such as the gates inside recurrent layers"
            warn("deep_lift.residual", caveat=self.caveat, share=f"{left / delta:.0%}", reason=reason)
        return Estimate(values)

    def _attribute(
        self, ask: Ask, part: nn.Module, block: Block, method: Callable[[nn.Module], Any]
    ) -> tuple[Tensor, Tensor | None]:
        """Return the scores of a block and the change they should sum to, None for own steps."""
        with torch.no_grad():
            raw, start = ask.raw_outputs(torch.stack([block.x, block.baseline], 1), block).unbind(1)
        block = ask.read(block, raw)
        slopes, delta = self._slopes(ask, block, raw, start)
        explained = _Explained(ask.model, part)
        if not isinstance(block.steps, str):
            explained.slopes = slopes
            return _captum(method(explained), block), delta
        own = torch.zeros_like(block.x)
        for step in range(block.x.shape[1]):
            explained.slopes = torch.zeros_like(slopes)
            explained.slopes[:, step] = slopes[:, step]
            own[:, step] = _captum(method(explained), block)[:, step]
        return own, None

    def _nodes(self) -> tuple[Tensor, Tensor]:
        """Return where between both outputs the slope of softmax is taken, 1 at x, with weights that sum to 1."""
        return nodes(NODES, "gauss-legendre")

    def _slopes(self, ask: Ask, block: Block, raw: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        """Return the slope of the score with respect to the model's output, and the score's change.

        The mean gradient on the straight line is the one slope that sums to the change for any smooth score.
        """

        def score(output: Tensor) -> Tensor:
            target = cast("Tensor | Picker", block.target)  # known, since the block was read
            picked = select_target(ask.apply_link(output), target)
            picked = picked * block.steps if isinstance(block.steps, Tensor) else picked
            return picked.flatten(1).sum(1) if picked.ndim > 1 else picked

        slopes = torch.zeros_like(raw, dtype=torch.float64)  # so that weights sum to 1
        position, weight = self._nodes()
        with torch.enable_grad():
            for alpha, share in zip(position.tolist(), weight.tolist(), strict=True):
                point = torch.lerp(start, raw, alpha).requires_grad_()
                slope = torch.autograd.grad(score(point).sum(), point, allow_unused=True)[0]
                slopes += 0 if slope is None else share * slope.double()
        with torch.no_grad():
            return slopes.to(raw), score(raw) - score(start)


class _Explained(nn.Module):
    """The score as a weighted sum of the model's output, so that captum sees one number per series."""

    slopes: Tensor

    def __init__(self, model: Model, part: nn.Module) -> None:
        super().__init__()
        self.part, self.model = part, [model]  # the list keeps a module from being registered twice

    def forward(self, z: Tensor) -> Tensor:
        raw = forward(self.model[0], z)
        require_path(raw, z)
        weighted = raw * torch.cat([self.slopes, self.slopes]).view(raw.shape)  # one number per step has no axis
        return weighted.flatten(1).sum(1) + 0 * z.flatten(1).sum(1)  # a model may ignore its input


def _captum(method: Any, block: Block) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Setting forward, backward hooks")
        try:
            found: Tensor = method.attribute(block.x.clone().requires_grad_(), baselines=block.baseline)
        except (AssertionError, RuntimeError) as error:
            if "used more than once" not in str(error):
                raise
            twice = "The model uses an activation module more than once"
            raise ModelError(f"{twice}: give each place its own module, or use integrated_gradients.") from error
    return found.detach()
