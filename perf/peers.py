"""captum's and time_interpret's methods as their own documents call them, for the comparison only."""

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


def probabilities(model: nn.Module) -> Callable[[Tensor], Tensor]:
    return lambda z: model(z).softmax(-1)


@contextmanager
def silent() -> Iterator[None]:
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    # on a GPU their users switch cuDNN off, since it does not differentiate recurrent layers in evaluation mode
    with warnings.catch_warnings(), torch.backends.cudnn.flags(enabled=False):
        warnings.simplefilter("ignore")
        yield


def integrated_gradients(model: nn.Module, x: Tensor, points: int, internal: int | None = None) -> Tensor:
    """captum's, for the class that the model predicts."""
    from captum.attr import IntegratedGradients

    with silent():
        with torch.no_grad():
            target = model(x).argmax(-1)
        explainer = IntegratedGradients(probabilities(model))
        return explainer.attribute(x, target=target, n_steps=points, internal_batch_size=internal)


def occlusion(model: nn.Module, x: Tensor, train: Tensor) -> Tensor:
    from tint.attr import TemporalOcclusion, TimeForwardTunnel

    mean = train.mean(0, keepdim=True).expand_as(x)
    tunnel = TimeForwardTunnel(TemporalOcclusion(probabilities(model)))
    with silent(), torch.no_grad():
        return tunnel.attribute(x, sliding_window_shapes=(1,), baselines=mean, attributions_fn=abs, task="binary")


def augmented_occlusion(model: nn.Module, x: Tensor, train: Tensor) -> Tensor:
    from tint.attr import TemporalAugmentedOcclusion, TimeForwardTunnel

    inner = TemporalAugmentedOcclusion(probabilities(model), data=train, n_sampling=10, is_temporal=True)
    with silent(), torch.no_grad():
        return TimeForwardTunnel(inner).attribute(
            x, sliding_window_shapes=(1,), attributions_fn=abs, task="binary"
        )


def lime(model: nn.Module, x: Tensor) -> Tensor:
    from captum.attr import Lime
    from tint.attr import TimeForwardTunnel

    with silent(), torch.no_grad():
        return TimeForwardTunnel(Lime(probabilities(model))).attribute(x, task="binary")


def fit(model: nn.Module, x: Tensor, train: Tensor) -> Callable[[], Tensor]:
    """Return the explaining part alone; the generator is trained for one epoch beforehand."""
    from pytorch_lightning import Trainer
    from tint.attr import Fit
    from tint.attr.models import JointFeatureGeneratorNet

    with silent():
        explainer = Fit(
            probabilities(model),
            generator=JointFeatureGeneratorNet(rnn_hidden_size=3 * x.shape[-1]),
            features=train,
            trainer=trainer(Trainer, 1),
        )

    def explain() -> Tensor:
        with silent(), torch.no_grad():
            return explainer.attribute(x, n_samples=10)

    return explain


def dynamask(model: nn.Module, x: Tensor, epochs: int, batch: int, areas: list[float]) -> Tensor:
    from pytorch_lightning import Trainer
    from tint.attr import DynaMask
    from tint.attr.models import MaskNet

    net = MaskNet(
        probabilities(model),
        perturbation="fade_moving_average",
        keep_ratio=areas,
        deletion_mode=True,
        size_reg_factor_init=0.1,
        size_reg_factor_dilation=10000,
        time_reg_factor=0.0,
        loss="cross_entropy",
    )
    with silent():
        return DynaMask(probabilities(model)).attribute(
            x, trainer=trainer(Trainer, epochs, x), mask_net=net, batch_size=batch
        )


def extremal_mask(model: nn.Module, x: Tensor, epochs: int, batch: int) -> Tensor:
    from pytorch_lightning import Trainer
    from tint.attr import ExtremalMask
    from tint.attr.models import ExtremalMaskNet
    from tint.models import MLP, RNN

    channels = x.shape[-1]
    network = nn.Sequential(
        RNN(input_size=channels, rnn="gru", hidden_size=channels, bidirectional=True),
        MLP([2 * channels, channels]),
    )
    net = ExtremalMaskNet(
        probabilities(model),
        model=network,
        lambda_1=0.01,
        lambda_2=10.0,
        loss="cross_entropy",
        optim="adam",
        lr=0.01,
    )
    with silent():
        return ExtremalMask(probabilities(model)).attribute(
            x, trainer=trainer(Trainer, epochs, x), mask_net=net, batch_size=batch
        )


def trainer(kind: type, epochs: int, x: Tensor | None = None) -> object:
    return kind(
        max_epochs=epochs,
        accelerator="gpu" if x is not None and x.is_cuda else "cpu",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        log_every_n_steps=2,
    )
