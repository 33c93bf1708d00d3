"""What must hold on a GPU; skipped where there is none."""

import importlib
import threading
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import tempograd as tg
from tempograd.core.rng import bits, keys, split
from tempograd.engine import Batching
from tempograd.engine.batching import SLACK
from tempograd.explainers import EXPLAINERS, TimeX, TimeXPP, Timing
from tempograd.explainers.timing import draw_whole
from tempograd.models import load_model
from tempograd.sampling.segments import SegmentSampler, complete, cover_all_cells, draw_masks
from tests.helpers.methods import explained, fitted, quick
from tests.helpers.models import Recurrent, linear, series

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


def test_words_are_bit_equal():
    ids = torch.tensor([0, 1, -5, 2**40])
    host = split(keys(123456789012345, ids, 7), 3)
    device = split(keys(123456789012345, ids.cuda(), 7), 3)
    assert torch.equal(bits(host, 99), bits(device, 99).cpu())


@pytest.mark.parametrize(
    ("setting", "held"),
    [
        ((48, 32, 50, 10, 48), None),
        ((152, 1, 5, 10, 152), None),
        ((60, 3, None, None, None), None),
        ((60, 3, None, 4, 9), 0.85),
    ],
)
def test_masks_and_anchors_are_bit_equal(setting, held):
    time, channels, *lengths = setting
    segments = replace(complete(time, channels, *lengths, time, held), anchored=40)
    drawn = []
    for device in ("cpu", "cuda"):
        x = torch.zeros(40, time, channels, device=device)
        sampler = SegmentSampler.table({time: segments}, x, x.device, x.dtype).of(
            torch.full((40,), time, device=device)
        )
        observed = torch.rand(x.shape, generator=torch.Generator().manual_seed(0)).to(device) < 0.8
        masks = draw_masks(keys(1, torch.arange(40, device=device), 0), sampler, observed, 50)
        drawn.append(cover_all_cells(masks, sampler, observed))
    assert torch.equal(drawn[0].masks, drawn[1].masks.cpu())
    assert torch.equal(drawn[0].anchors, drawn[1].anchors.cpu())
    torch.testing.assert_close(drawn[0].weights, drawn[1].weights.cpu())


@pytest.mark.parametrize("held", [0.3, 0.5, 0.9])
@pytest.mark.parametrize("anchored", [None, 0.0])
def test_single_cells_are_bit_equal(held, anchored):
    method = Timing(120, held=held, max_length=1, anchored=anchored)
    setting = method.segment_settings(30, 4, 30)
    for stage in range(len(method.schedule.stages)):
        here, there = (
            draw_whole(method, setting, torch.arange(9, device=device), 5, torch.float32, stage).masks.cpu()
            for device in ("cpu", "cuda")
        )
        assert torch.equal(here, there)


@pytest.mark.parametrize("name", sorted(EXPLAINERS))
def test_values_agree_with_the_cpu_in_double_precision(name):
    if name == "deep_lift":
        pytest.importorskip("captum")
    model, x = Recurrent().double(), series(7, 12, 3, dtype=torch.float64)
    explainer = fitted(quick(name), model, x)
    here = explained(explainer, model, x, seed=3)
    there = explained(explainer, model.cuda(), x, seed=3)
    assert there.values.device == x.device
    torch.testing.assert_close(there.values, here.values, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("baseline", ["zero", "background"])
@pytest.mark.parametrize(
    "settings",
    [
        {"held": 0.0},
        {"held": 0.02},
        {"held": 0.9, "max_length": 1},
        {"held": 0.97},
        {"held": 0.6, "max_length": 2},
    ],
)
def test_every_member_of_the_family_is_that_of_the_cpu(settings, baseline):
    model, x = Recurrent().double(), series(70, 12, 3, dtype=torch.float64)
    others = {"background": series(9, 12, 3, seed=4, dtype=torch.float64)} if baseline == "background" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tg.TempogradWarning)  # few draws of some cells
        here = tg.explain(model, x, "timing", n_samples=60, baseline=baseline, seed=3, **settings, **others)
        there = tg.explain(
            model.cuda(), x, "timing", n_samples=60, baseline=baseline, seed=3, **settings, **others
        )
    torch.testing.assert_close(there.values, here.values, rtol=1e-4, atol=1e-7)
    assert torch.equal(there.n_draws, here.n_draws)
    assert torch.equal(there.standard_error.isnan(), here.standard_error.isnan())


def test_recurrent_models_are_differentiated_with_cudnn_and_left_as_they_were():
    model, x = Recurrent().cuda().eval(), series(20, 12, 3).cuda()
    rng, flag = torch.cuda.get_rng_state(), torch.backends.cudnn.enabled
    with torch.backends.cudnn.flags(enabled=False):
        slow = Timing()(model, x)
    fast = Timing()(model, x)
    torch.testing.assert_close(fast.values, slow.values, rtol=2e-2, atol=2e-4)  # cuDNN uses TF32 by default
    assert not model.gru.training
    assert model.gru.dropout == 0.4
    assert torch.equal(rng, torch.cuda.get_rng_state())
    assert torch.backends.cudnn.enabled == flag


def test_recurrent_programs_are_differentiated_without_cudnn(tmp_path):
    """An exported or scripted layer cannot be switched to training mode, which cuDNN would ask for."""
    model, x = Recurrent().double().eval(), series(6, 12, 3, dtype=torch.float64)
    expected = Timing()(model, x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, about recurrent layers and torch.jit
        program = torch.export.export(model, (x[:4],), dynamic_shapes=({0: torch.export.Dim.AUTO},))
        torch.export.save(program, tmp_path / "m.pt2")
        torch.jit.save(torch.jit.script(model), tmp_path / "m.pt")
    for name in ("m.pt2", "m.pt"):
        there = Timing()(load_model(tmp_path / name, "cuda", trust=True), x)
        torch.testing.assert_close(there.values, expected.values, rtol=1e-6, atol=1e-9)
    assert torch.backends.cudnn.enabled


def test_answers_on_another_device_travel_back():
    """A function that brings the output of its module home, as people do before they turn it into an array."""
    model, x = linear(6, 2).cuda(), series(4, 6, 2)
    for method in ("timing", "occlusion"):
        expected = tg.explain(model, x, method)
        found = tg.explain(lambda z: model(z).cpu(), x, method)
        torch.testing.assert_close(found.values, expected.values)
        assert expected.values.abs().max() > 0
        scores = tg.evaluate(lambda z: model(z).cpu(), found)
        torch.testing.assert_close(scores["cpd"], tg.evaluate(model, expected)["cpd"])


def test_a_gpu_that_is_not_there():
    with pytest.raises(tg.TempogradError, match="There is no device 'cuda:99' here: use cpu, or cuda:0"):
        load_model("torch.nn:Flatten", "cuda:99")


def test_device_memory_does_not_grow_with_the_number_of_series(tmp_path):
    """Blocks of both are alike: as many series as there is room for."""
    model, peaks = Recurrent(8).cuda(), []
    most = int(Batching(torch.device("cuda"), 24 * 8).size // 50 * SLACK)
    for count in (10 * most, 30 * most):
        array = np.lib.format.open_memmap(tmp_path / f"{count}.npy", "w+", np.float32, (count, 24, 8))
        array[:] = np.random.default_rng(0).normal(size=array.shape)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        Timing(50)(model, np.load(tmp_path / f"{count}.npy", mmap_mode="r"))
        peaks.append(torch.cuda.max_memory_allocated())
    assert peaks[1] <= 1.02 * peaks[0]


def test_backs_off_on_a_full_device():
    class Greedy(nn.Module):
        """Needs 64 MB per sequence."""

        def __init__(self) -> None:
            super().__init__()
            self.net = linear(6, 2)

        def forward(self, x):
            return self.net(x) + 0 * x.sum((1, 2))[:, None] * torch.ones(len(x), 2**24, device=x.device)[:, :1]

    x = series(300, 6, 2).cuda()
    expected = Timing()(linear(6, 2).cuda(), x, output="raw")
    torch.testing.assert_close(Timing()(Greedy().cuda(), x, output="raw").values, expected.values)


@pytest.mark.parametrize("kind", [TimeX, TimeXPP])
def test_networks_fitted_on_the_device_explain_on_both(kind):
    model, x = Recurrent().cuda().eval(), series(24, 12, 3)
    rng = torch.cuda.get_rng_state()
    fitted_there = kind(epochs=2, fit_batch_size=8).fit(model, x)
    assert fitted_there.network.code.device.type == "cuda"
    assert torch.equal(rng, torch.cuda.get_rng_state())
    assert not model.gru.training
    there = fitted_there(model, x[:5]).values
    here = fitted_there(model.cpu(), x[:5]).values
    torch.testing.assert_close(here, there, rtol=1e-3, atol=1e-4)
    assert fitted_there.network.code.device.type == "cuda"


@pytest.mark.parametrize("name", ["random", "timing", "integrated_gradients", "occlusion"])
def test_a_mask_may_stay_on_the_cpu(name):
    model, x = Recurrent().cuda(), series(4, 10, 3).cuda()
    mask = torch.rand(x.shape, generator=torch.Generator().manual_seed(0)) < 0.5
    here = EXPLAINERS[name]()(model, tg.Series(x, mask=mask))
    torch.testing.assert_close(here.values, EXPLAINERS[name]()(model, tg.Series(x, mask=mask.cuda())).values)
    assert here.mask is not None
    assert here.mask.device == x.device


class Scaled(Recurrent):
    """A model with an argument that is not explained."""

    def forward(self, x, by):
        return super().forward(x) * by[:, None]


def test_captum_users_need_no_flag_for_recurrent_models():
    pytest.importorskip("captum")
    captum = importlib.import_module("tempograd.captum")
    model, x = Scaled().double().eval(), series(5, 12, 3, dtype=torch.float64)
    scale, target = torch.tensor([1.0, -2.0, 0.5, 3.0, 1.0]).double(), [0, 2, 1, 1, 0]
    here = captum.Timing(model).attribute(x, 0.5, target, scale)
    there = captum.Timing(model.cuda()).attribute(x.cuda(), 0.5, target, scale.cuda())
    assert there.device.type == "cuda"
    assert not model.gru.training
    torch.testing.assert_close(there.cpu(), here, rtol=1e-6, atol=1e-9)


class Lstm(nn.Module):
    """Channels first, so that a function has to stand around it, in training mode with much that disturbs."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.lstm, self.drop = nn.LSTM(3, 8, 2, dropout=0.5, batch_first=True), nn.Dropout(0.5)
        self.norm, self.head = nn.BatchNorm1d(8), nn.Linear(8, 2)

    def forward(self, x):
        return self.head(self.drop(self.norm(self.lstm(x.transpose(1, 2))[0][:, -1])))


@pytest.mark.parametrize("kind", ["lambda", "hidden", "wrapped"])
def test_a_function_around_a_recurrent_model_needs_no_flag(kind):
    net, x = Lstm().double(), series(5, 12, 3, dtype=torch.float64)

    class Hidden:
        __slots__ = ()

        def __call__(self, z):
            return globals()["_net"](z.transpose(1, 2))

    globals()["_net"] = net
    models = {
        "lambda": lambda z: net(z.transpose(1, 2)),
        "hidden": Hidden(),
        "wrapped": tg.Predictor(lambda z: net(z.transpose(1, 2)), modules=[net]),
    }
    here = Timing()(models[kind], x)
    net.cuda()
    buffers = {name: value.clone() for name, value in net.state_dict().items()}
    series_there = x.cuda() if kind == "hidden" else x  # where its module is cannot be seen from outside
    there = Timing()(models[kind], series_there)
    torch.testing.assert_close(there.values.cpu(), here.values, rtol=1e-5, atol=1e-8)
    assert all(part.training for part in net.modules())
    assert net.lstm.dropout == 0.5
    assert all(torch.equal(buffers[name], value) for name, value in net.state_dict().items())


def test_a_hidden_module_on_another_device_gets_a_sentence():
    class Hidden:
        __slots__ = ()

        def __call__(self, z):
            return globals()["_net"](z.transpose(1, 2))

    globals()["_net"] = Lstm().cuda()
    with pytest.raises(tg.TempogradError, match=r"tg\.Predictor\(model, modules="):
        Timing()(Hidden(), series(5, 12, 3))


def test_threads_that_run_one_graph_do_not_mix_it_up():
    model, several = Recurrent().double().cuda(), [series(2, 12, 3, seed=s, dtype=torch.float64) for s in range(4)]
    expected = [Timing(20)(model, x).values for x in several]
    found = [None] * len(several)

    def explain(place):
        for _ in range(5):
            found[place] = Timing(20)(model, several[place]).values

    threads = [threading.Thread(target=explain, args=(place,)) for place in range(len(several))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for values, right in zip(found, expected, strict=True):
        torch.testing.assert_close(values, right, rtol=1e-6, atol=1e-9)
    assert all(weight.requires_grad for weight in model.parameters())
    assert not model.gru.training or model.gru.dropout == 0.4


def test_a_forward_that_changes_its_weights_is_told_and_undone():
    class Learning(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = linear(6, 2)

        def forward(self, x):
            self.head[1].weight.data.mul_(0.9)
            return self.head(x)

    model, x = Learning().cuda(), series(3, 6, 2)
    before = model.head[1].weight.detach().clone()
    for _ in range(3):  # the third could be played from a recording
        with pytest.raises(tg.TempogradError, match="weights of Learning changed"):
            Timing(20)(model, x)
    assert torch.equal(before, model.head[1].weight.detach())
