"""TimeX++: a mask generator whose masked series stay in distribution and keep the model's prediction."""

from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional

from tempograd._utils import settings
from tempograd.engine import Model, predict
from tempograd.explainers.base import EXPLAINERS
from tempograd.explainers.timex.base import MaskNetwork
from tempograd.explainers.timex.networks import Conditioner, Gaussian, MaskGenerator
from tempograd.explainers.timex.training import Batch, Objective, Read, TrainingSet, gaussian_kl, jensen_shannon


@EXPLAINERS.register("timexpp")
@dataclass(frozen=True)
class TimeXPP(MaskNetwork):
    r"""TimeX++: a mask generator learnt so that masked series stay in distribution and keep their prediction.

    A transformer g gives each cell the probability :math:`p = g(x)` of being kept, and gates b are drawn from
    it. With r drawn from the training series' distribution at each cell,

    .. math:: x_{ref} = b x + (1 - b) r, \qquad \tilde x = c(x, b),

    where c is a small network applied cell by cell. Two further networks give every cell of a series a
    Gaussian, :math:`q(x)` and :math:`\tilde q(\tilde x)`. With F the frozen model, all of them minimise

    .. math:: \lambda_l \mathrm{JS}(F(\tilde x), F(x)) + \lambda_g \mathrm{KL}(\tilde q \Vert q)
        + \lambda_r \lVert \tilde x - x_{ref} \rVert^2
        + \lambda_s \mathrm{GSAT}(p) + \lambda_c \mathrm{Connect}(p),

    each term a mean; :math:`q` has the batch's mean parameters. The scores are p: between 0 and 1, the same
    for every target. One fit serves any number of explanations, each of which costs one small pass.

    Parameters
    ----------
    epochs, batch : int, default=50, 32
        Passes over the training series, and how many go through the model at a time.
    learning_rate, weight_decay : float, default=5e-4, 1e-3
        Of AdamW. The rate falls tenfold on a plateau, from epoch 21 on.
    prior : float, default=0.5
        Share of cells that are kept where nothing speaks for or against them, r of GSAT.
    sparsity, connection : float, default=2, 4
        Weights of GSAT and Connect; the paper's 2 · 1 and 2 · 2.
    label_weight, gaussian_weight, reference_weight : float, default=1, 0.1, 1
        Weights of the prediction, of the Gaussians and of the reference.

    Notes
    -----
    The answers are read as class probabilities: softmax, sigmoid for one column, or as they are if they
    already sum to 1. The divergence of the Gaussians is a weak tie, since both sides learn freely. So does c,
    which may learn to pass on what the mask drops: on small models the cells that matter scored highest with one
    seed and lowest with the next. Fit with several seeds, and check the maps with ``evaluate``.

    References
    ----------
    .. [1] Z. Liu et al., "TimeX++: Learning Time-Series Explanations with Information Bottleneck", ICML 2024.
       https://arxiv.org/abs/2405.09308

    Examples
    --------
    >>> import torch
    >>> x = torch.randn(40, 6, 2, generator=torch.Generator().manual_seed(0))
    >>> model = nn.Sequential(nn.Flatten(), nn.Linear(12, 2))
    >>> scores = TimeXPP(epochs=1).fit(model, x)(model, x[:3]).values
    >>> bool(((scores > 0) & (scores < 1)).all())
    True
    """

    learning_rate: float = settings.positive(5e-4)
    label_weight: float = settings.number(1.0)
    gaussian_weight: float = settings.number(0.1)
    reference_weight: float = settings.number(1.0)

    def _reader(self, model: Model, x: Tensor) -> Read:
        return lambda z: (predict(model, z, "raw"), None)

    def _objective(self, generator: MaskGenerator, data: TrainingSet) -> Objective:
        conditioner = Conditioner().to(generator.code)
        original, conditioned = (Gaussian(data.mean.numel()).to(generator.code) for _ in range(2))

        def fidelity(batch: Batch, gates: Tensor, masked: Tensor) -> Tensor:
            value = conditioner(batch.x, gates)
            label = self._divergence(batch.prediction, data.predict(value)).mean()
            mean, log_var = original(batch.x)
            mean_value, log_var_value = conditioned(value)
            tie = gaussian_kl(mean_value, log_var_value, mean.mean(0), log_var.mean(0))
            reference = functional.mse_loss(value, masked)
            return self.label_weight * label + self.gaussian_weight * tie + self.reference_weight * reference

        return Objective(generator, nn.ModuleList([generator, conditioner, original, conditioned]), fidelity)

    def _divergence(self, p: Tensor, q: Tensor) -> Tensor:
        """Return how far two predictions are from each other, JS."""
        return jensen_shannon(p, q)
