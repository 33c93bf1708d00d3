"""Models that take (batch, channel, time): told apart by what their layers receive."""

import pytest
import torch
from torch import nn

import tempograd as tg
from tests.helpers.models import series

TIME, CHANNELS = 12, 3
LAST = series(5, TIME, CHANNELS)  # (batch, time, channel)
FIRST = LAST.transpose(1, 2).contiguous()  # as users of channels-first libraries have it
SWAPPED = "takes the 3 steps of x as its channels and runs along the 12 channels as if they were steps"


class Conv(nn.Module):
    """The usual channels-first classifier."""

    def __init__(self, channels=CHANNELS):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(channels, 4, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten()
        )
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.net(x))


class Normed(Conv):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(CHANNELS)

    def forward(self, x):
        return super().forward(self.norm(x))


class Lstm(nn.Module):
    """Channels first, and transposed inside for a recurrent layer."""

    def __init__(self, *, batch_first=True):
        super().__init__()
        self.rnn, self.head = nn.LSTM(CHANNELS, 4, batch_first=batch_first), nn.Linear(4, 2)

    def forward(self, x):
        x = x.transpose(1, 2)
        return self.head(self.rnn(x)[0][:, -1] if self.rnn.batch_first else self.rnn(x.transpose(0, 1))[0][-1])


class Inception(nn.Module):
    """A block that begins with a bottleneck, beside pooling."""

    def __init__(self):
        super().__init__()
        self.neck = nn.Conv1d(CHANNELS, 4, 1, bias=False)
        self.convs = nn.ModuleList(nn.Conv1d(4, 4, size, padding=size // 2, bias=False) for size in (5, 3))
        self.pooled = nn.Sequential(nn.MaxPool1d(3, 1, 1), nn.Conv1d(CHANNELS, 4, 1, bias=False))
        self.norm, self.head = nn.BatchNorm1d(12), nn.Linear(12, 2)

    def forward(self, x):
        parts = [conv(self.neck(x)) for conv in self.convs] + [self.pooled(x)]
        return self.head(self.norm(torch.cat(parts, 1)).relu().mean(-1))


FIRST_MODELS = {
    "convolution": Conv(),
    "normalisation, then convolution": Normed(),
    "recurrent": Lstm(),
    "recurrent, time first": Lstm(batch_first=False),
    "inception": Inception(),
}


@pytest.mark.parametrize("name", FIRST_MODELS)
@pytest.mark.parametrize("wrapped", [False, True])
def test_channels_first_data_under_the_default_layout_are_warned_of(name, wrapped):
    model = FIRST_MODELS[name].eval()
    with pytest.warns(tg.TempogradWarning, match=SWAPPED) as caught:
        tg.explain((lambda z: 1.0 * model(z)) if wrapped else model, FIRST, "occlusion")
    (warning,) = caught
    assert "pass layout='BDT' and model_layout='BDT'" in str(warning.message)
    right = tg.explain(model, FIRST, "occlusion", layout="BDT", model_layout="BDT")
    by_hand = tg.explain(lambda z: model(z.mT), LAST, "occlusion")
    assert torch.equal(right.values, by_hand.values)


@pytest.mark.parametrize("name", FIRST_MODELS)
def test_the_error_of_the_right_layout_tells_the_same(name):
    model = FIRST_MODELS[name].eval()
    with pytest.raises(tg.TempogradError, match=r"\(batch, channel, time\): pass model_layout='BDT', and keep"):
        tg.explain(model, FIRST, layout="BDT")
    with pytest.raises(tg.TempogradError, match=r"it takes \(batch, channel, time\): pass model_layout='BDT'\.$"):
        tg.explain(model, LAST)


class ConvInside(Conv):
    def forward(self, x):
        return super().forward(x.transpose(1, 2))


class LstmInside(Lstm):
    def forward(self, x):
        return super().forward(x.transpose(1, 2))


class OverTime(nn.Module):
    """Mixes steps on purpose: a linear layer over time, written as a convolution over single places, too."""

    def __init__(self, *, convolution):
        super().__init__()
        self.mix = nn.Conv1d(TIME, 5, 1) if convolution else nn.Linear(TIME, 5)
        self.head = nn.Linear(5 * CHANNELS, 2)

    def forward(self, x):
        return self.head(self.mix(x if isinstance(self.mix, nn.Conv1d) else x.mT).flatten(1))


class PerChannel(Conv):
    """Each channel by itself."""

    def __init__(self):
        super().__init__(1)

    def forward(self, x):
        rows = x.transpose(1, 2).reshape(-1, 1, x.shape[1])
        return super().forward(rows).reshape(len(x), -1, 2).mean(1)


LAST_MODELS = {
    "convolution": ConvInside(),
    "recurrent": LstmInside(),
    "linear over time": OverTime(convolution=False),
    "single places over time": OverTime(convolution=True),
    "each channel by itself": PerChannel(),
    "bundled": tg.models.build("cnn", channels=CHANNELS, classes=2, per_step=False),
}


@pytest.mark.parametrize("name", LAST_MODELS)
def test_models_that_take_time_first_are_not_suspected(name):
    tg.explain(LAST_MODELS[name], LAST, "occlusion")
    tg.explain(lambda z: 1.0 * LAST_MODELS[name](z), FIRST, "occlusion", layout="BDT")


@pytest.mark.parametrize("scaled", [False, True])
def test_as_many_steps_as_channels(scaled):
    """Only what arrives as it is tells the axes apart; else nothing is said."""
    square = series(4, 6, 6)
    first, last = Conv(6), ConvInside(6)
    tg.explain(last, square, "occlusion")
    if scaled:
        tg.explain(lambda z: first(2 * z), square, "occlusion")
        return
    with pytest.warns(tg.TempogradWarning, match="takes the 6 steps of x as its channels"):
        tg.explain(first, square, "occlusion")
    tg.explain(lambda z: first(z.transpose(1, 2)), square, "occlusion", layout="BDT")


def test_a_misfit_without_layers_that_tell_names_both_ways():
    head = nn.Linear(CHANNELS, 2)
    with pytest.raises(
        tg.TempogradError, match=r"swapped: pass layout='BDT' if x is so, else pass model_layout='BDT'\.$"
    ):
        tg.explain(lambda z: head(z).mean(1), FIRST)
    with pytest.raises(tg.TempogradError, match=r"shapes cannot be multiplied \([^;]*\)\.$"):
        tg.explain(lambda z: nn.Linear(7, 2)(z).mean(1), FIRST)
