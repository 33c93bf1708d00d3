"""Models of several inputs: series, covariates of the future, static values, and what goes along with them."""

import captum.attr
import numpy as np
import pytest
import torch
from torch import nn

import tempograd as tg
from tempograd.sampling.segments import complete

SERIES, PAST, AHEAD, VALUES = 8, 12, 4, 5
METHODS = ("timing", "rand_ig", "integrated_gradients", "gradient_shap", "occlusion", "lime")


class Ward(nn.Module):
    """Reads the past up to the length of each series, the plan of what comes, and what is known of the patient."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.gru = nn.GRU(2, 8, batch_first=True)
            self.plan, self.patient, self.head = nn.Linear(3, 8), nn.Linear(VALUES, 8), nn.Linear(8, 2)

    def forward(self, past, future, static, length=None):
        seen, _ = self.gru(past)
        last = seen[:, -1] if length is None else seen[torch.arange(len(seen)), length - 1]
        return self.head(torch.tanh(last + self.plan(future).mean(1) + self.patient(static)))


@pytest.fixture(scope="module")
def ward():
    return Ward().double()


@pytest.fixture(scope="module")
def inputs():
    draw = np.random.default_rng(1).normal
    shapes = {"past": (PAST, 2), "future": (AHEAD, 3), "static": (VALUES,)}
    return {name: torch.from_numpy(draw(size=(SERIES, *shape))) for name, shape in shapes.items()}


LENGTH = torch.tensor([12, 3, 7, 12, 5, 9, 4, 11])
BESIDE = {"fixed": {"length": LENGTH}}


def row(inputs, i):
    return {name: part[i : i + 1] for name, part in inputs.items()}


def explained(model, inputs, method="integrated_gradients", *, series=None, **options):
    return tg.explain(model, tg.Series(inputs, **series or {}), method, **{"target": 1, "output": "raw"} | options)


@pytest.mark.parametrize("by_name", [True, False])
def test_integrated_gradients_equal_captum_on_the_tuple(ward, inputs, by_name):
    oracle = captum.attr.IntegratedGradients(ward).attribute(
        tuple(inputs.values()),
        target=1,
        additional_forward_args=(LENGTH,),
        n_steps=40,
        method="riemann_middle",
    )
    x = inputs if by_name else tuple(inputs.values())
    fixed = {"length": LENGTH} if by_name else (LENGTH,)
    found = explained(ward, x, series={"fixed": fixed}, n_steps=40, rule="midpoint")
    assert found.inputs == ("past", "future", "static")
    for name, expected in zip(inputs, oracle, strict=True):
        part = found[name]
        assert part.values.shape == inputs[name].shape
        torch.testing.assert_close(part.values.double(), expected, atol=1e-6, rtol=0)
        torch.testing.assert_close(part.x, inputs[name], atol=0, rtol=0)


def test_scores_sum_to_the_change_of_the_output(ward, inputs):
    baseline = {"past": 0.3, "static": torch.linspace(-1, 1, VALUES).double()}
    found = explained(ward, inputs, baseline=baseline, series=BESIDE)
    absent = torch.full_like(inputs["past"], 0.3), torch.zeros_like(inputs["future"])
    static = baseline["static"].expand(SERIES, VALUES)
    with torch.no_grad():
        change = ward(**inputs, length=LENGTH)[:, 1] - ward(*absent, static, LENGTH)[:, 1]
    torch.testing.assert_close(found.values.double().sum((1, 2)), change, atol=1e-5, rtol=0)
    torch.testing.assert_close(found.delta.double(), change, atol=1e-5, rtol=0)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.filterwarnings("ignore:gradient_shap has no pool")
def test_series_of_different_lengths_in_one_call_are_those_of_a_loop(ward, inputs, method):
    whole = explained(ward, inputs, method, series=BESIDE)
    order = [5, 2, 7]
    several = {name: part[order] for name, part in inputs.items()}
    beside = {"fixed": {"length": LENGTH[order]}, "ids": order}
    few = explained(ward, several, method, series=beside, batch_size=7)
    torch.testing.assert_close(few.values, whole.values[order], atol=1e-6, rtol=1e-5)
    for i in (0, 1, 6):  # by hand: a function of one series' own, without fixed inputs

        def alone(past, future, static, length=LENGTH[i : i + 1]):
            return ward(past, future, static, length.expand(len(past)))

        one = explained(alone, row(inputs, i), method, series={"ids": [i]})
        torch.testing.assert_close(one.values[0], whole.values[i], atol=1e-6, rtol=1e-5)


def test_occlusion_replaces_each_cell_of_each_input(ward, inputs):
    found = explained(ward, inputs, "occlusion", series=BESIDE)
    with torch.no_grad():
        clean = ward(**inputs, length=LENGTH)[:, 1]
        for name, part in inputs.items():
            expected = torch.zeros_like(part)
            for cell in np.ndindex(*part.shape[1:]):
                without = part.clone()
                without[(slice(None), *cell)] = 0
                expected[(slice(None), *cell)] = clean - ward(**inputs | {name: without}, length=LENGTH)[:, 1]
            torch.testing.assert_close(found[name].values.double(), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("anchored", [None, 0.8])  # in the second case masks have weights, and these multiply
def test_timing_fixes_segments_of_series_and_single_static_values(anchored):
    """In closed form: of f = s · p with one cell each, the other's mean is 1 where fixed, 1/2 where it moves."""
    steps, values, cell = 4, 2, 1
    found = tg.explain(
        lambda past, static: past[:, cell, :1] * static[:, :1],
        {"past": torch.ones(40, steps, 1), "static": torch.ones(40, values)},
        output="raw",
        n_samples=400,
        segments=4,
        max_length=1,
        anchored=anchored,
        gradient_check=False,
    )
    active = complete(steps, 1, 4, None, 1, steps).p_active()[cell]
    single = complete(1, values, None, None, None, 1)
    assert (single.low, single.high) == (1, 1)
    assert 0 < single.p_active()[0] < 1
    expected = {"static": 1 - active / 2, "past": 1 - single.p_active()[0] / 2}
    for name, part in {"static": found["static"], "past": found["past"]}.items():
        here = (slice(None), 0) if name == "static" else (slice(None), cell, 0)
        mean, error = part.values[here].mean(), part.standard_error[here].square().mean().sqrt() / 40**0.5
        assert abs(float(mean) - expected[name]) < 5 * float(error) + 1e-3, name


def test_timing_without_segments_is_integrated_gradients(ward, inputs):
    found = explained(ward, inputs, "timing", segments=0, n_samples=40, series=BESIDE)
    oracle = explained(ward, inputs, n_steps=40, rule="midpoint", series=BESIDE)
    torch.testing.assert_close(found.values, oracle.values, atol=1e-6, rtol=1e-5)


def test_every_cell_of_every_input_moves(ward, inputs):
    found = explained(ward, inputs, "timing", n_samples=6)
    assert bool(found["static"].n_draws.gt(0).all())
    assert bool(found["past"].n_draws.gt(0).all())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.filterwarnings("ignore:gradient_shap has no pool")
def test_fixed_inputs_beside_one_series_change_nothing_but_the_output(method):
    """The draws of a series are those that it has alone: what goes along is looked up, never moved."""
    x = torch.from_numpy(np.random.default_rng(3).normal(size=(5, 7, 2)))
    weight = torch.from_numpy(np.random.default_rng(4).normal(size=(5, 7, 2)))

    def weighed(z, weight):
        return torch.tanh((z * weight).sum((1, 2)))[:, None]

    whole = tg.explain(weighed, tg.Series(x, fixed={"weight": weight}), method, output="raw")
    assert whole.mask is None
    assert whole.values.shape == x.shape
    for i in range(5):
        alone = tg.explain(
            lambda z, i=i: weighed(z, weight[i]), tg.Series(x[i : i + 1], ids=[i]), method, output="raw"
        )
        torch.testing.assert_close(whole.values[i], alone.values[0], atol=1e-6, rtol=1e-5)


def test_companions_may_be_texts_and_constants():
    words = ["a", "bb", "ccc"]

    def long(z, word, scale, flag):
        assert flag
        return z.sum((1, 2))[:, None] * torch.tensor([len(each) for each in word])[:, None] * scale

    x = torch.ones(3, 2, 1)
    found = tg.explain(
        long,
        tg.Series(x, ids=[4, 2, 9], fixed={"word": words, "scale": 2.0, "flag": True}),
        "occlusion",
        output="raw",
    )
    assert found.values[:, 0, 0].tolist() == [2, 4, 6]
    assert found[1].call.fixed["word"] == ["bb"]


def test_unobserved_cells_of_each_input_are_left_alone(ward, inputs):
    gaps = {name: part.clone() for name, part in inputs.items()}
    gaps["past"][2, 3, 1] = torch.nan
    gaps["static"][4, 0] = torch.nan
    gaps["future"][0, 1] = torch.nan
    found = explained(ward, gaps, series={"mask": "nan"})
    filled = {name: part.nan_to_num(0.0) for name, part in gaps.items()}
    seen = {name: ~part.isnan() for name, part in gaps.items()}
    for name in inputs:
        assert torch.equal(found[name].mask, seen[name])
        assert not found[name].values[~seen[name]].any()
    absent = {name: torch.where(seen[name], 0.0, part) for name, part in filled.items()}
    with torch.no_grad():
        change = (ward(**filled) - ward(**absent))[:, 1]
    torch.testing.assert_close(found.values.double().sum((1, 2)), change, atol=1e-5, rtol=0)


def test_channels_first_inputs(ward, inputs):
    swapped = {name: part.transpose(1, 2) if part.ndim == 3 else part for name, part in inputs.items()}
    here, there = explained(ward, inputs, "timing"), explained(ward, swapped, "timing", series={"layout": "BDT"})
    assert torch.equal(here.values, there.values)


def test_a_pool_of_several_inputs(ward, inputs):
    pool = {name: part.flip(0) for name, part in reversed(inputs.items())}  # in another order of names
    found = explained(ward, inputs, "gradient_shap", background=pool, n_samples=4000)
    with torch.no_grad():
        mean = ward(**inputs)[:, 1] - ward(**inputs)[:, 1].mean()
    error = found.standard_error.square().sum((1, 2)).sqrt()
    assert bool(((found.values.sum((1, 2)) - mean).abs() < 5 * error + 1e-3).all())
    means = {name: part.mean(0, keepdim=True).expand_as(part) for name, part in inputs.items()}
    by_mean = explained(ward, inputs, "occlusion", background=inputs)
    torch.testing.assert_close(by_mean.values, explained(ward, inputs, "occlusion", baseline=means).values)


def test_one_input_of_one_series(ward, inputs):
    named = {"channels": {"static": list("abcde"), "past": ["hr", "bp"]}}
    found = explained(ward, inputs, "timing", series=named)
    one = found[3]
    assert torch.equal(one["static"].values, found["static"].values[3:4])
    assert one["past"].channels == ("hr", "bp")
    assert found["future"].channels == ("future 0", "future 1", "future 2")
    assert found.times[:2] + found.times[-2:] == ("0", "1", "15", "static")
    table = found.to_dataframe()
    assert list(table["input"].unique()) == ["past", "future", "static"]
    assert len(table) == SERIES * (PAST * 2 + AHEAD * 3 + VALUES)
    static = table[(table["input"] == "static") & (table["id"] == 3)]
    assert static["attribution"].tolist() == found["static"].values[3].tolist()
    assert static["value"].tolist() == inputs["static"][3].tolist()
    assert static["channel"].tolist() == list("abcde")


REFUSED = {
    "rows of a fixed input": {"series": {"fixed": {"length": LENGTH[:3]}}},
    "fixed that is no mapping": {"series": {"fixed": LENGTH}},
    "an object among the fixed": {"series": {"fixed": {"length": {"a": 1}}}},
    "average of static values": {"baseline": "average"},
    "baseline of nobody": {"baseline": {"futur": 0.0}},
    "one baseline tensor for all": {"baseline": torch.zeros(PAST, 2)},
    "mask of nobody": {"series": {"mask": {"x": torch.ones(SERIES, PAST, 2)}}},
    "a mask of another shape": {"series": {"mask": {"past": torch.ones(SERIES, 3, 2)}}},
    "channels of nobody": {"series": {"channels": {"x": ["a"]}}},
    "too few channels": {"series": {"channels": {"past": ["a"]}}},
    "own steps": {"steps": "own"},
    "a method of one input": {"method": "deep_lift"},
    "a method that learns": {"method": "fit", "background": torch.zeros(4, PAST, 2)},
    "a pool of one input": {"method": "gradient_shap", "background": torch.zeros(4, PAST, 2).double()},
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_in_one_sentence(ward, inputs, said, case):
    said.refused(tg.TempogradError, explained, ward, inputs, **REFUSED[case])


@pytest.mark.parametrize(
    ("case", "x"),
    {
        "no input has time": {"static": torch.zeros(3, 2)},
        "rows that differ": {"past": torch.zeros(3, 4, 1), "static": torch.zeros(2, 2)},
        "whole numbers": {"past": torch.zeros(3, 4, 1), "static": torch.zeros(3, 2, dtype=torch.int64)},
        "four axes": {"past": torch.zeros(3, 4, 1, 1)},
        "nothing": {},
        "NaN": {"past": torch.full((3, 4, 1), torch.nan)},
    }.items(),
)
def test_inputs_that_are_none(said, case, x):
    said.refused(tg.TempogradError, tg.explain, lambda **z: z["past"].sum((1, 2)), x, output="raw")


def test_an_input_that_is_not_there(ward, inputs, said):
    said.refused(tg.TempogradError, explained(ward, inputs).__getitem__, "patient")
    said.refused(tg.TempogradError, explained(lambda z: z[:, 0], torch.ones(1, 2, 2)).__getitem__, "static")


class Picky(nn.Module):
    """Takes a past of three channels, and what it calls age."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 2)

    def forward(self, past, age):
        return self.inner(past).mean(1) + age[:, None]


@pytest.mark.parametrize(
    ("case", "x"),
    [
        ("a name that it does not know", {"past": torch.ones(2, 4, 3), "patient": torch.ones(2)}),
        ("an input too few", {"past": torch.ones(2, 4, 3)}),
        ("series alone", torch.ones(2, 4, 3)),
    ],
)
def test_a_model_that_takes_other_inputs(said, case, x):
    said.refused(tg.TempogradError, tg.explain, Picky(), x)


def test_sizes_that_do_not_fit():
    with pytest.raises(tg.TempogradError, match=r"The model cannot take past \(batch, 4, 2\), age \(batch,\): "):
        tg.explain(Picky(), {"past": torch.ones(2, 4, 2), "age": torch.ones(2)})
    with pytest.raises(tg.TempogradError, match=r"The model cannot take \(batch, 4, 2\), age \(batch,\): "):
        tg.explain(Picky(), tg.Series(torch.ones(2, 4, 2), fixed={"age": torch.ones(2)}))


def test_fixed_inputs_are_passed_as_they_are():
    """Also those that are shaped like the series, which the model's layout turns round."""
    x, mask = torch.randn(3, 5, 2), (torch.arange(30).view(3, 5, 2) % 3 > 0).float()
    between = torch.arange(75.0).view(3, 5, 5)

    def model(z, mask, between):
        assert (z.shape[1:], mask.shape[1:]) == ((2, 5), (5, 2))
        return ((z * mask.mT).sum((1, 2)) + between[:, 0, 1])[:, None]

    found = tg.explain(
        tg.Predictor(model, layout="BDT", task="regression"),
        tg.Series(x, fixed={"mask": mask, "between": between}),
        "occlusion",
    )
    torch.testing.assert_close(found.values, x * mask, atol=1e-5, rtol=0)


def test_series_of_one_channel_without_an_axis_beside_others():
    def model(past_values, past_time_features, static):
        return (past_values * past_time_features[..., 0]).sum(1) + static[:, 0]

    x = {"past_values": torch.ones(2, 6, 1), "past_time_features": torch.full((2, 6, 3), 2.0)}
    found = tg.explain(
        tg.Predictor(model, layout="BT", task="regression"), x | {"static": torch.ones(2, 1)}, "occlusion"
    )
    assert found["past_values"].values.flatten().tolist() == [2.0] * 12
    assert found["static"].values.tolist() == [[1.0], [1.0]]


@pytest.mark.parametrize(
    ("name", "start"),
    {
        "future": 4,
        "future_covariates": 4,
        "decoder_cont": 4,
        "historic_future": 0,
        "past_future": 0,
        "x": 0,
    }.items(),
)
def test_names_tell_where_an_input_lies(name, start):
    found = tg.explain(
        tg.Predictor(lambda past, **rest: past.sum((1, 2)) + rest[name].sum((1, 2)), task="regression"),
        {"past": torch.ones(1, 4, 1), name: torch.ones(1, 3, 1)},
        "integrated_gradients",
    )
    observed = torch.zeros(1, 4 + (3 if start else 0), 2, dtype=torch.bool)
    observed[:, :4, 0] = observed[:, start : start + 3, 1] = True
    assert torch.equal(found.mask, observed)
    assert torch.equal(found.values, observed.float())


def test_time_stamps_of_each_series_of_one_input(ward, inputs):
    stamps = [[f"{10 * i + t} h" for t in range(PAST)] for i in range(SERIES)]
    times = {"past": stamps, "future": ["a", "b", "c", "d"]}
    found = explained(ward, inputs, series={"times": times})
    assert found.times_of(3) == (*stamps[3], "a", "b", "c", "d", "static")
    table = found[2].to_dataframe()
    assert table[table["input"] == "past"]["time"].tolist() == [each for each in stamps[2] for _ in range(2)]


def test_a_name_is_an_input_or_fixed(ward, inputs, said):
    said.refused(tg.TempogradError, explained, ward, inputs, series={"fixed": {"past": inputs["past"]}})


@pytest.mark.parametrize("method", ["integrated_gradients", "occlusion"])
def test_companions_keep_the_precision_that_they_need(method):
    """Time stamps in seconds since 1970 lose minutes in single precision, and positions beyond 256 in bfloat16."""
    x = torch.ones(3, 4, 1)
    stamps = 1.7e9 + 0.25 + torch.tensor([[0.0, 7, 11, 20], [0, 1, 2, 3], [0, 5, 5, 9]], dtype=torch.float64)
    net = nn.Linear(4, 1, bias=False)

    def lasted(z, stamps):
        return net(z[..., 0]) * (stamps[:, -1:] - stamps[:, :1]).to(z)

    found = tg.explain(tg.Predictor(lasted, task="regression"), tg.Series(x, fixed={"stamps": stamps}), method)
    expected = net.weight.detach()[0] * torch.tensor([[20.0], [3.0], [9.0]])
    torch.testing.assert_close(found.values[..., 0], expected, atol=1e-5, rtol=1e-4)

    places = torch.tensor([[257.0], [301.0], [599.0]])

    def placed(z, places):
        return z.sum((1, 2))[:, None] * (places.long() % 2 * 2 - 1).to(z)

    half = tg.explain(
        tg.Predictor(placed, task="regression"), tg.Series(x.bfloat16(), fixed={"places": places}), method
    )
    assert half.values.sum((1, 2)).tolist() == [4.0, 4.0, 4.0]


def test_square_series_with_channels_first_mean_what_they_say():
    x, base, seen = (torch.from_numpy(np.random.default_rng(i).normal(size=(3, 4, 4))) for i in range(3))
    weight = torch.arange(16.0).double().view(4, 4)
    turned = {"layout": "BDT", "task": "regression"}
    model = tg.Predictor(lambda z, seen: ((z * weight + z * z * seen).sum((1, 2)))[:, None], **turned)
    given = tg.Series(x, fixed={"seen": seen}, layout="BDT")
    found = tg.explain(model, given, "integrated_gradients", baseline=base.mT)
    change = ((x - base) * weight + (x * x - base * base) * seen).sum((1, 2))
    torch.testing.assert_close(found.values.double().sum((1, 2)), change, atol=1e-4, rtol=1e-5)
    model = tg.Predictor(lambda z: (z * weight).sum((1, 2))[:, None], **turned)
    alone = tg.explain(model, tg.Series(x, layout="BDT"), "integrated_gradients", baseline=base.mT)
    torch.testing.assert_close(alone.values.double(), ((x - base) * weight).mT, atol=1e-5, rtol=1e-5)
