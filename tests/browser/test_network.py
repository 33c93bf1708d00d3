"""The network in the page says what torch says, whatever it is made of; weights are large, so that errors show."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils._pytree import tree_map_only

import tempograd as tg
from tempograd import html_report
from tempograd.views import network
from tests.helpers.browser import WIDTHS

pytestmark = pytest.mark.browser

SCRIPTS = Path(html_report.__file__).parent / "scripts"
TIME, CHANNELS = 12, 6
ACTIVATIONS = (functional.gelu, functional.elu, functional.leaky_relu, functional.silu, functional.softplus)
ACTIVATIONS += (functional.hardtanh, functional.hardswish, functional.mish, functional.selu, functional.logsigmoid)
ACTIVATIONS += (functional.glu, functional.relu6, functional.softsign, functional.tanhshrink, torch.erf)


class Model(nn.Module):
    """A function of series and of a dictionary of layers."""

    def __init__(self, function, **layers):
        super().__init__()
        self.function, self.layers = function, nn.ModuleDict(layers)

    def forward(self, x):
        return self.function(self.layers, x)


def cell_by_cell(layers, x):
    state, both = torch.zeros(len(x), 4), None
    for t in range(x.shape[1]):
        state, both = layers["gru"](x[:, t], state), layers["lstm"](x[:, t], both)
    return state + both[0]


def written(_, x):
    found = x.clone()
    found[:, 0] = 0
    found[:, 3:5] += 1
    found.relu_()
    middle = found[:, 6]
    middle.mul_(2)  # which is part of what is returned
    found[:, 7:9] = x[:, :2]
    return found + functional.relu(x + 1, inplace=True)


def moved(_, x):
    turned = x.flip(1) + x.roll(1, 1) + x.diff(dim=1, prepend=x[:, :1]) + x[:, torch.tensor([3] * TIME)]
    places = torch.zeros(1, TIME, CHANNELS, dtype=torch.long)
    return torch.where(x > 0.5, x, 0) + turned + x.gather(1, places) + x.tril() + x.repeat(1, 2, 1)[:, 1::2]


def counted(_, x):
    share = (x > x.mean(1, keepdim=True)).float() + x.int() + x.bool() + x // 1 + x % 0.3 + x.clamp(-1, 1)
    return (
        share
        + (~(x < 0) & (x != 1))
        + torch.lerp(x, 2**x, 0.3) / (1 + x**2)
        + torch.einsum("btd,bsd->bts", x, x) @ x
    )


def reduced(_, x):
    found = [x.mean(1), x.sum(1), x.amax(1), x.max(1).values, x.min(1)[0], x.std(1), x.var(1, unbiased=False)]
    found += [x.norm(dim=1), x.logsumexp(1), x.prod(1), x.softmax(1)[:, 0], x.cumsum(1)[:, 5]]
    return torch.stack([*found, (x.max() + x.std()).expand(1, CHANNELS)])


def pooled(_, x):
    one = [functional.max_pool1d(x, 3, 2, 1), functional.max_pool1d(x, 2, 2, 0, 2, ceil_mode=True)]
    one += [functional.avg_pool1d(x, 3, 2, 1), functional.avg_pool1d(x, 4, 3, 1, True, False)]
    one += [functional.adaptive_avg_pool1d(x, 4), functional.adaptive_max_pool1d(x, 4)]
    return torch.cat([part.flatten() for part in (*one, functional.max_pool2d(x, (2, 3)))])


def attending(own, x):
    later = nn.Transformer.generate_square_subsequent_mask(TIME)
    return own["heads"](*[own["encoder"](x, mask=later, is_causal=True)] * 3)[0]


def both_ways(own, x):
    (hidden, cells), last = own["lstm"](x.transpose(0, 1))[1], own["gru"](x)[1]
    return torch.cat(
        [own["lstm"](x.transpose(0, 1))[0].amax(0).flatten(), *map(torch.flatten, (hidden, cells, last))]
    )


def convolved(own, x):
    turned = x.transpose(1, 2)
    flat = [own[name](turned).flatten() for name in ("strided", "around", "back")]
    return torch.cat([*flat, own["two"](x[:, None]).flatten()])


def attention(heads):
    layer = nn.TransformerEncoderLayer(CHANNELS, 2, 16, batch_first=True, activation="gelu")
    return {
        "encoder": nn.TransformerEncoder(layer, 2),
        "heads": nn.MultiheadAttention(CHANNELS, heads, batch_first=True),
    }


KERNELS = {
    "strided": nn.Conv1d(CHANNELS, 4, 3, stride=2, dilation=2, groups=2, padding=1),
    "around": nn.Conv1d(CHANNELS, 2, 3, padding="same", padding_mode="circular"),
    "back": nn.ConvTranspose1d(CHANNELS, 4, 3, stride=2, groups=2, padding=1, output_padding=1),
    "two": nn.Conv2d(1, 3, (3, 2), padding=1),
}
RECURRENT = {
    "lstm": nn.LSTM(CHANNELS, 4, 2, bidirectional=True),
    "gru": nn.GRU(CHANNELS, 4, batch_first=True, bias=False, bidirectional=True),
}
MODELS = {
    **{name: tg.models.build(name, CHANNELS, 2) for name in ("gru", "cnn", "transformer")},
    **{f"{name} per step": tg.models.build(name, CHANNELS, 2, per_step=True) for name in ("gru", "transformer")},
    "recurrent": Model(both_ways, **RECURRENT),
    "plain recurrent": Model(lambda own, x: own["rnn"](x)[0], rnn=nn.RNN(CHANNELS, 4, 2, nonlinearity="relu")),
    "cell by cell": Model(cell_by_cell, gru=nn.GRUCell(CHANNELS, 4), lstm=nn.LSTMCell(CHANNELS, 4)),
    "attention": Model(attending, **attention(3)),
    "convolutions": Model(convolved, **KERNELS),
    "pools": Model(pooled),
    "norms": nn.Sequential(nn.LayerNorm(6), nn.BatchNorm1d(TIME), nn.GroupNorm(3, TIME), nn.InstanceNorm1d(TIME)),
    "activations": Model(lambda own, x: torch.cat([f(x) for f in (*ACTIVATIONS, own["own"])], -1), own=nn.PReLU()),
    "reductions": Model(reduced),
    "moves": Model(moved),
    "arithmetic": Model(counted),
    "in place": Model(written),
}


@pytest.fixture(scope="module")
def said(windows):
    """Return what the page and torch say of one series, for each model."""
    page, plans, expected = windows.take(WIDTHS["laptop"], "light"), {}, {}
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(1)
        for name, model in MODELS.items():
            for weight in model.eval().parameters():
                weight.copy_(torch.randn_like(weight) * 2 / max(1, weight[0].numel()) ** 0.5)
            x = torch.randn(1, TIME, CHANNELS)
            program = network.Program(x)
            plan = tree_map_only(np.ndarray, lambda part: part.tolist(), program.plan([model(program.series)]))
            plans[name], expected[name] = {"plan": plan, "x": x.flatten().tolist()}, model(x)
    for name in ("operations", "layers", "network"):
        page.add_script_tag(content=(SCRIPTS / f"{name}.js").read_text("utf-8"))
    found = page.evaluate(
        """plans => Object.fromEntries(Object.entries(plans).map(([name, {plan, x}]) => {
            const run = network(plan);
            run(x.map(() => 9)); // nothing of another series may stay
            return [name, [...run(x)[0].values]]; }))""",
        plans,
    )
    windows.give_back(page)
    return found, expected


@pytest.mark.parametrize("name", MODELS)
def test_the_network_in_the_page_says_what_torch_says(said, name):
    found, expected = (part[name] for part in said)
    torch.testing.assert_close(torch.tensor(found).view(expected.shape), expected, atol=1e-4, rtol=1e-5)


def now(sheet):
    """Return what the page says now, for each output."""
    return [float(row["now"]) for row in sorted(sheet.rows("#live-table td"), key=len) if "now" in row]


@pytest.mark.parametrize("name", ["classifier", "one_column", "per_step", "length_of_stay"])
def test_a_changed_value_moves_the_prediction_as_it_moves_the_model(visit, name):
    sheet = visit(name)
    sheet.find("#live > summary").click()
    sheet.settle()
    case, row, d, first = sheet.case, sheet.case.row(sheet.value("series")), 1, 3
    series, seen = case.x.clone()[row], case.shown()[..., d]
    value = float(seen.max())  # in the units that people see, of which each channel has its own
    series[first:, d] = case.x[..., d].flatten()[seen.argmax()]
    for control, content in (("live-channel", d), ("live-from", first), ("live-value", value)):
        sheet.set(control, content)
    expected, before = case.answer(series[None])[0], case.answer(case.x[row][None])[0]
    rows = sheet.rows("#live-table tbody tr")
    assert [float(part) for part in now(sheet)] == pytest.approx(
        [float(expected[int(r["output"])]) for r in rows], abs=1e-4
    )
    assert f" from step {first} on" in sheet.text("#live-said")
    sheet.find("#live-reset").click()
    sheet.settle()
    rows = sheet.rows("#live-table tbody tr")
    assert now(sheet) == pytest.approx([float(before[int(r["output"])]) for r in rows], abs=1e-4)
    assert sheet.text("#live-said") == ""


def test_a_line_is_drawn_by_hand(visit):
    sheet = visit("classifier")
    sheet.find("#live > summary").click()
    sheet.settle()
    before, box = now(sheet), sheet.find("#live-chart").bounding_box()
    sheet.page.mouse.move(box["x"] + 60, box["y"] + 20)
    sheet.page.mouse.down()
    sheet.page.mouse.move(box["x"] + box["width"] - 20, box["y"] + 25)
    sheet.page.mouse.up()
    assert "20 values of" in sheet.text("#live-said")  # all between its ends
    assert now(sheet) != pytest.approx(before, abs=1e-3)
    sheet.find("#next").click()
    sheet.settle()
    assert sheet.text("#live-said") == ""  # another series is as it was
