"""A convolutional classifier: local shapes, wherever they occur."""

from torch import Tensor, nn
from torch.nn import functional

from tempograd.models.base import MODELS, Classifier, check_sizes

KERNELS = (7, 3, 3)
SHORTEST = 2 ** len(KERNELS)  # every layer halves the series, and one step must remain


@MODELS.register("cnn")
class CNNClassifier(Classifier):
    r"""Three convolutions over time with kernels of 7, 3 and 3 steps.

    One output per series: each convolution is centred (zero padding on both sides) and followed by ReLU and a
    maximum over pairs of steps; what remains is averaged over time. Series shorter than 8 steps are padded
    with zeros at their end. One output per step: the same kernels look back only (all padding on the left),
    and nothing is pooled. The head is a linear map, ReLU and another linear map.

    Parameters
    ----------
    channels, classes, per_step
        See :class:`~tempograd.models.base.Classifier`.
    hidden : int, default=128
        Channels of every convolution and of the head.
    """

    name = "cnn"

    def __init__(self, channels: int, classes: int, *, per_step: bool = False, hidden: int = 128) -> None:
        super().__init__(channels, classes, per_step, {"hidden": hidden})
        check_sizes(hidden=hidden)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(hidden if layer else channels, hidden, kernel) for layer, kernel in enumerate(KERNELS)
        )
        self.activations = nn.ModuleList(nn.ReLU() for _ in KERNELS)
        self.readout = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, classes))

    def features(self, x: Tensor) -> Tensor:
        series = x.transpose(1, 2)  # (N, D, T)
        if not self.per_step:
            series = functional.pad(series, (0, max(0, SHORTEST - series.shape[-1])))
        for kernel, convolve, activate in zip(KERNELS, self.convolutions, self.activations, strict=True):
            left = kernel - 1 if self.per_step else kernel // 2
            series = activate(convolve(functional.pad(series, (left, kernel - 1 - left))))
            if not self.per_step:
                series = functional.max_pool1d(series, 2)
        return series.transpose(1, 2)

    def pool(self, features: Tensor) -> Tensor:
        return features.mean(dim=1)

    def head(self, features: Tensor) -> Tensor:
        logits: Tensor = self.readout(features)
        return logits
