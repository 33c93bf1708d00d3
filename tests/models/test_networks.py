"""Each network against its formula, written out slowly in plain tensor algebra."""

import math

import pytest
import torch

from tempograd.core.errors import InputError, UnknownNameError
from tempograd.models import MODELS, build

NAMES = sorted(MODELS)


def series(count=4, time=11, channels=3, dtype=torch.float64):
    return torch.randn(count, time, channels, generator=torch.Generator().manual_seed(5), dtype=dtype)


def make(name, per_step=False, channels=3, **options):
    """A model in double precision whose normalisations differ from the identity."""
    model = build(name, channels, 2, per_step=per_step, seed=1, **options).double().eval()
    generator = torch.Generator().manual_seed(2)
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    for key, buffer in model.named_buffers():
        if key.endswith(("running_mean", "running_var")):
            buffer.add_(torch.rand(buffer.shape, generator=generator, dtype=torch.float64))
    return model


def literal_gru(model, x):
    weights = model.recurrence
    states = []
    for item in x:
        h, path = torch.zeros(weights.hidden_size, dtype=x.dtype), []
        for step in item:
            of_input = weights.weight_ih_l0 @ step + weights.bias_ih_l0
            of_state = weights.weight_hh_l0 @ h + weights.bias_hh_l0
            (ri, zi, ni), (rh, zh, nh) = of_input.chunk(3), of_state.chunk(3)
            r, z = 1 / (1 + torch.exp(-ri - rh)), 1 / (1 + torch.exp(-zi - zh))
            h = (1 - z) * torch.tanh(ni + r * nh) + z * h
            path.append(h)
        states.append(torch.stack(path))
    norm, _, _, linear = model.readout
    scaled = (torch.stack(states) - norm.running_mean) / torch.sqrt(norm.running_var + norm.eps)
    logits = (scaled * norm.weight + norm.bias).clamp(min=0) @ linear.weight.T + linear.bias
    return logits if model.per_step else logits[:, -1]


def literal_convolution(x, layer, offset):
    """out[t] = bias + Σ_k W_k x[t + k - offset], values outside the series being zero."""
    time, kernel = x.shape[1], layer.weight.shape[2]
    out = layer.bias.expand(len(x), time, -1).clone()
    for t in range(time):
        for k in range(kernel):
            if 0 <= t + k - offset < time:
                out[:, t] += x[:, t + k - offset] @ layer.weight[:, :, k].T
    return out.clamp(min=0)


def literal_cnn(model, x):
    if not model.per_step:
        short = max(0, 8 - x.shape[1])
        x = torch.cat([x, torch.zeros(len(x), short, x.shape[2], dtype=x.dtype)], dim=1)
    for layer, kernel in zip(model.convolutions, (7, 3, 3), strict=True):
        x = literal_convolution(x, layer, offset=kernel - 1 if model.per_step else kernel // 2)
        if not model.per_step:
            pairs = x.shape[1] // 2
            x = torch.stack([x[:, 2 * pair : 2 * pair + 2].amax(1) for pair in range(pairs)], dim=1)
    vector = x if model.per_step else x.mean(1)
    first, _, second = model.readout
    return (vector @ first.weight.T + first.bias).clamp(min=0) @ second.weight.T + second.bias


def literal_norm(x, layer):
    centred = x - x.mean(-1, keepdim=True)
    return centred / torch.sqrt((centred**2).mean(-1, keepdim=True) + layer.eps) * layer.weight + layer.bias


def literal_transformer(model, x):
    time = x.shape[1]
    code = torch.zeros(time, 16, dtype=x.dtype)
    for t in range(time):
        for j in range(8):
            angle = (t / (time - 1) if time > 1 else 0.0) / time ** (j / 7)
            code[t, j], code[t, 8 + j] = math.sin(angle), math.cos(angle)
    u = torch.cat([x, code.expand(len(x), -1, -1)], dim=-1)
    q, k, v = (u @ model.attention.in_proj_weight.T + model.attention.in_proj_bias).chunk(3, dim=-1)
    score = q @ k.transpose(1, 2) / math.sqrt(u.shape[-1])
    if model.per_step:
        score = score.masked_fill(torch.arange(time) > torch.arange(time)[:, None], -torch.inf)
    weight = torch.exp(score) / torch.exp(score).sum(-1, keepdim=True)
    attended = weight @ v @ model.attention.out_proj.weight.T + model.attention.out_proj.bias
    h = literal_norm(attended, model.attention_norm[1])  # no residual
    inner, outer = model.feedforward[0], model.feedforward[3]
    grown = (h @ inner.weight.T + inner.bias).clamp(min=0) @ outer.weight.T + outer.bias
    o = literal_norm(h + grown, model.output_norm)
    vector = o if model.per_step else o.mean(1)
    first, _, second = model.readout
    return (vector @ first.weight.T + first.bias).clamp(min=0) @ second.weight.T + second.bias


LITERAL = {"gru": literal_gru, "cnn": literal_cnn, "transformer": literal_transformer}


@pytest.mark.parametrize("time", [1, 5, 8, 13, 22])
@pytest.mark.parametrize("per_step", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_agrees_with_the_formula(name, per_step, time):
    model, x = make(name, per_step, **({} if name == "transformer" else {"hidden": 9})), series(time=time)
    torch.testing.assert_close(model(x), LITERAL[name](model, x))


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        # 3 gates of 200 with two biases; normalisation 2·200; linear 200·2+2
        ("gru", 600 * (3 + 200 + 2) + 400 + 402),
        ("cnn", (3 * 7 + 1) * 128 + 2 * (128 * 3 + 1) * 128 + 129 * 128 + 129 * 2),
        # d = 19: projections 4d(d+1), feed-forward to 72 and back, two norms 2·2d, head d(d+1) and 2(d+1)
        ("transformer", 4 * 19 * 20 + 72 * 20 + 19 * 73 + 76 + 19 * 20 + 2 * 20),
    ],
)
def test_has_the_size_of_the_paper(name, weights):
    assert sum(parameter.numel() for parameter in build(name, 3, 2).parameters()) == weights


@pytest.mark.parametrize("name", NAMES)
def test_a_step_does_not_see_later_ones_but_sees_itself_and_earlier_ones(name):
    model, x = make(name, per_step=True), series().requires_grad_()
    t = 6
    (gradient,) = torch.autograd.grad(model(x)[:, t].square().sum(), x)
    reached = gradient.abs().amax((0, 2)) > 0
    assert reached[t]
    assert reached[t - 1]
    assert not reached[t + 1 :].any()


@pytest.mark.parametrize("name", ["gru", "cnn"])
def test_a_prefix_gets_the_outputs_of_the_same_steps(name):
    model, x = make(name, per_step=True), series()
    torch.testing.assert_close(model(x[:, :5]), model(x)[:, :5])


@pytest.mark.parametrize("name", NAMES)
def test_last_is_the_last_step(name):
    model, x = make(name, per_step=True), series()
    torch.testing.assert_close(model.last(x), model(x)[:, -1])


@pytest.mark.parametrize("per_step", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_gradient_agrees_with_differences_for_one_channel(name, per_step):
    model, x = make(name, per_step, channels=1), series(count=2, time=4, channels=1).requires_grad_()
    assert torch.autograd.gradcheck(model, (x,))


@pytest.mark.parametrize("name", NAMES)
def test_a_series_does_not_depend_on_its_company(name):
    model, x = make(name), series()
    torch.testing.assert_close(model(x)[2:3], model(x[2:3]))


@pytest.mark.parametrize("name", NAMES)
def test_weights_depend_on_the_seed_alone(name):
    state = torch.get_rng_state()
    first, again, other = (build(name, 3, 2, seed=seed) for seed in (4, 4, 5))
    assert torch.equal(torch.get_rng_state(), state)
    pairs = list(zip(first.parameters(), again.parameters(), other.parameters(), strict=True))
    assert all(torch.equal(a, b) for a, b, _ in pairs)
    assert not all(torch.equal(a, c) for a, _, c in pairs)


@pytest.mark.parametrize("name", NAMES)
def test_the_configuration_rebuilds_the_model(name):
    model = make(name, per_step=True, **({"feedforward": 5} if name == "transformer" else {"hidden": 5}))
    options = model.config["options"]
    copy = build(**{key: value for key, value in model.config.items() if key != "options"}, **options)
    copy.double().load_state_dict(model.state_dict())
    torch.testing.assert_close(copy.eval()(series()), model(series()), rtol=0, atol=0)


@pytest.mark.parametrize("shape", [(4, 3), (4, 11, 2), (4, 0, 3)])
def test_refuses_series_of_another_shape(shape):
    with pytest.raises(InputError):
        build("gru", 3, 2)(torch.zeros(shape))


def test_refuses_unknown_names():
    with pytest.raises(UnknownNameError):
        build("gruu", 3, 2)
    with pytest.raises(TypeError, match="hiden"):
        build("gru", 3, 2, hiden=8)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("per_step", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_a_gpu_agrees_with_the_cpu(name, per_step):
    model, x = make(name, per_step), series(time=20)
    expected = model(x)
    torch.testing.assert_close(model.cuda()(x.cuda()).cpu(), expected)
