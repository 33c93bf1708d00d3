"""Networks of tsai, which take (batch, channel, time)."""

import torch

from tests.other_libraries.catalogue.cases import PAST, Built, case, lively, walks

CHANNELS_FIRST = """
net, series = tg.Predictor(model, layout="BDT"), tg.Series(x, layout="BDT")
exp = tg.explain(net, series, "integrated_gradients", n_steps=200)
"""


def _predicted(model, x):
    """Return the probability of the class that was predicted for each series."""
    predicted = model(x).argmax(-1, keepdim=True)
    return lambda z: model(z).softmax(-1).gather(1, predicted)[:, 0]


def _tsai(model):
    x = (walks(3) - 10).movedim(1, 2).contiguous()  # as users of tsai have them
    return Built({"model": lively(model, 1.5), "x": x}, x, _predicted(model, x))


@case("tsai", "InceptionTime", CHANNELS_FIRST)
def tsai_inception():
    from tsai.models.InceptionTime import InceptionTime

    torch.manual_seed(0)
    return _tsai(InceptionTime(3, 3, nf=4))


@case("tsai", "FCN", CHANNELS_FIRST)
def tsai_fcn():
    from tsai.models.FCN import FCN

    torch.manual_seed(0)
    return _tsai(FCN(3, 3, layers=[8, 8, 8]))


@case("tsai", "LSTM_FCN", CHANNELS_FIRST)
def tsai_lstm_fcn():
    from tsai.models.RNN_FCN import LSTM_FCN

    torch.manual_seed(0)
    return _tsai(LSTM_FCN(3, 3, seq_len=PAST, hidden_size=8, conv_layers=[8, 8, 8]))


@case(
    "tsai",
    "PatchTST",
    """
net, series = tg.Predictor(model, task="forecast", layout="BDT"), tg.Series(x, layout="BDT")
exp = tg.explain(net, series, "integrated_gradients", target=(1, 3))
""",
    flagged="mean and deviation of its normalisation are detached",
)
def tsai_patchtst():
    from tsai.models.PatchTST import PatchTST

    torch.manual_seed(0)
    sizes = {"d_model": 16, "n_heads": 2, "d_ff": 16, "n_layers": 1, "patch_len": 8, "stride": 8}
    model, x = PatchTST(3, 3, PAST, pred_dim=8, **sizes).eval(), walks(3).movedim(1, 2).contiguous()
    return Built({"model": model, "x": x}, x, lambda z: model(z)[:, 1, 3])


@case(
    "tsai",
    "MiniRocketFeatures and a linear layer",
    """
net = tg.Predictor(lambda series: head(features(series)), layout="BDT")
exp = tg.explain(net, tg.Series(x, layout="BDT"), "occlusion")
""",
)
def tsai_minirocket():
    from tsai.models.MINIROCKET_Pytorch import MiniRocketFeatures

    torch.manual_seed(0)
    x = (walks(3) - 10).movedim(1, 2).contiguous()
    features = MiniRocketFeatures(3, PAST, num_features=168)
    features.fit(x)
    head = torch.nn.Linear(features.num_features, 3)
    return Built(
        {"features": features.eval(), "head": head, "x": x}, x, _predicted(lambda z: head(features(z)), x)
    )
