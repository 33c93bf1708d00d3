"""A recurrent classifier: what the series has shown so far, kept in one vector."""

from torch import Tensor, nn

from tempograd.models.base import MODELS, Classifier, check_sizes


@MODELS.register("gru")
class GRUClassifier(Classifier):
    r"""Gated recurrent unit, read out at the last step or at every step.

    With :math:`\odot` the product cell by cell and :math:`\sigma` the sigmoid, the state :math:`h_t` obeys

    .. math::

        r_t &= \sigma(W_r x_t + b_r + U_r h_{t-1} + c_r), \\
        z_t &= \sigma(W_z x_t + b_z + U_z h_{t-1} + c_z), \\
        n_t &= \tanh\!\big(W_n x_t + b_n + r_t \odot (U_n h_{t-1} + c_n)\big), \qquad
        h_t = (1 - z_t) \odot n_t + z_t \odot h_{t-1}, \quad h_0 = 0.

    The head is batch normalisation, ReLU, dropout and a linear map.

    Parameters
    ----------
    channels, classes, per_step
        See :class:`~tempograd.models.base.Classifier`.
    hidden : int, default=200
        Size of the state.
    dropout : float, default=0.5
        Share of the head's inputs dropped in training.

    References
    ----------
    .. [1] K. Cho et al., "Learning phrase representations using RNN encoder-decoder for statistical machine
       translation", EMNLP 2014. https://arxiv.org/abs/1406.1078
    """

    name = "gru"

    def __init__(
        self, channels: int, classes: int, *, per_step: bool = False, hidden: int = 200, dropout: float = 0.5
    ) -> None:
        super().__init__(channels, classes, per_step, {"hidden": hidden, "dropout": dropout})
        check_sizes(hidden=hidden)
        self.recurrence = nn.GRU(channels, hidden, batch_first=True)
        self.readout = nn.Sequential(
            nn.BatchNorm1d(hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, classes)
        )

    def features(self, x: Tensor) -> Tensor:
        states: Tensor = self.recurrence(x)[0]
        return states

    @property
    def resumable(self) -> bool:
        """Whether the recurrence is still the plain one that :meth:`resume` goes on with."""
        layer = self.recurrence
        return type(layer) is nn.GRU and layer.batch_first and layer.num_layers == 1 and not layer.bidirectional

    def resume(self, x: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the logits of more steps of series, and the states (N, hidden) after them.

        ``forward`` is this from no state, which is all that the model remembers of earlier steps.
        """
        features, after = self.recurrence(self._checked(x), None if state is None else state[None])
        return self._read(features), after[0]

    def pool(self, features: Tensor) -> Tensor:
        return features[:, -1]

    def head(self, features: Tensor) -> Tensor:
        logits: Tensor = self.readout(features)
        return logits
