"""TimeX and TimeX++: networks that score series after one fit."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import nn

import tempograd as tg
from tempograd.core.errors import InputError, ModelError, SettingError, TempogradWarning
from tempograd.explainers.timex import (
    MaskGenerator,
    Training,
    copied,
    find_embedding,
    gate,
    small_network,
    step_code,
)
from tests.helpers.models import Recurrent, check_left_as_found, linear, series, smooth

TRAIN = series(24, 9, 3, seed=50)
X = series(7, 9, 3)
BOTH = pytest.mark.parametrize("kind", [tg.TimeX, tg.TimeXPP])


def quick(kind, **changes):
    return kind(**({"epochs": 1, "fit_batch_size": 8} | changes))


def generator(time: int = 9, channels: int = 3, seed: int = 0) -> MaskGenerator:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return MaskGenerator(time, channels).double().eval()


def weights(explainer) -> torch.Tensor:
    return torch.cat([part.flatten() for part in explainer.network.state_dict().values()])


def test_the_time_code_against_its_formula():
    expected = [
        [math.sin(t / 11 / 12 ** (k / 7)) for k in range(8)] + [math.cos(t / 11 / 12 ** (k / 7)) for k in range(8)]
        for t in range(12)
    ]
    torch.testing.assert_close(step_code(12), torch.tensor(expected, dtype=torch.float64))
    assert step_code(1)[0].tolist() == [0.0] * 8 + [1.0] * 8


def test_gates_are_hard_and_open_as_often_as_they_should():
    p = torch.tensor([0.0, 0.05, 0.5, 0.9, 1.0], dtype=torch.float64)
    uniform = torch.rand(20000, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    b = gate(p, uniform)
    assert ((b == 0) | (b == 1)).all()
    torch.testing.assert_close(b.mean(0), p, rtol=0, atol=0.012)  # over three standard errors


def test_gates_have_the_gradient_of_the_soft_draw():
    """A softmax over two Gumbel numbers, whose difference is what the gate draws at once."""
    p = torch.tensor([0.1, 0.5, 0.8], dtype=torch.float64, requires_grad=True)
    uniform = torch.tensor([0.7, 0.2, 0.4], dtype=torch.float64)
    found = torch.autograd.grad(gate(p, uniform).sum(), p)[0]
    noise = torch.stack([torch.zeros(3, dtype=torch.float64), uniform.logit()])  # only the difference counts
    soft = (torch.stack([1 - p, p]).log() + noise).softmax(0)[1]
    torch.testing.assert_close(found, torch.autograd.grad(soft.sum(), p)[0], rtol=1e-6, atol=0)


@pytest.mark.parametrize("channels", [1, 3])
def test_masks_are_probabilities_that_know_the_order_of_the_steps(channels):
    net, x = generator(channels=channels), series(4, 9, channels, dtype=torch.float64)
    p = net(x)
    assert p.shape == x.shape
    assert ((p > 0) & (p < 1)).all()
    turned = net(x.flip(1)).flip(1)
    assert (turned - p).abs().max() > 1e-3
    net.code.zero_()  # without its code, a step does not know its place
    torch.testing.assert_close(net(x.flip(1)).flip(1), net(x))


def test_attention_runs_over_time_and_never_over_the_series():
    net, x = generator(), X.double()
    changed = x.clone()
    changed[0, 2] += 1
    moved = (net(changed) != net(x)).any(-1)
    assert moved[0].all()
    assert not moved[1:].any()


def test_padding_is_not_looked_at():
    net, x = generator(), X.double()
    padding = torch.arange(9) >= torch.tensor([6, 9, 1, 3, 9, 9, 8])[:, None]
    other = torch.where(padding[..., None], torch.tensor(100.0, dtype=torch.float64), x)
    torch.testing.assert_close(net(other, padding)[~padding], net(x, padding)[~padding])


def test_the_conditioner_can_copy_what_is_kept_and_fill_in_the_rest():
    """With nothing but the reference to follow: the value where the gate is open, 0.7 where it is not."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = small_network(2, nn.ELU(), 1)
    x, gates = series(64, 6, 3), (series(64, 6, 3, seed=1) > 0).float()
    reference = gates * x + (1 - gates) * 0.7
    optimiser = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(400):
        loss = (net(torch.stack([x, gates], -1)).squeeze(-1) - reference).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert float(loss.detach()) < 0.003


@BOTH
def test_a_fit_is_decided_by_its_seed(kind):
    model = smooth(9, 3)
    first, again, other = (quick(kind).fit(model, TRAIN, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(weights(first), weights(again))
    assert not torch.equal(weights(first), weights(other))
    assert torch.equal(first(model, X).values, again(model, X).values)


@BOTH
def test_fitting_changes_the_generator_and_nothing_of_the_explainer(kind):
    explainer = quick(kind)
    fitted = explainer.fit(smooth(9, 3), TRAIN)
    assert explainer.learnt is None
    assert fitted == explainer
    assert fitted.parameters == explainer.parameters
    longer = quick(kind, epochs=2).fit(smooth(9, 3), TRAIN)
    assert len(longer.network.facts["losses"]) == 2
    assert longer.network.facts["losses"][0] == fitted.network.facts["losses"][0]


@BOTH
def test_a_fit_tells_when_another_model_is_explained_than_it_learnt_from(kind, tmp_path):
    model, other = smooth(9, 3), smooth(9, 3, seed=1)
    fitted = quick(kind).fit(model, TRAIN)
    for explainer in (fitted, tg.Explainer.load(fitted.save(tmp_path / "e.safetensors"))):
        for same in (model, tg.Predictor(model, reset=lambda: None)):
            assert "fit.model" not in {finding.code for finding in explainer(same, X).findings}
        with pytest.warns(tg.TempogradWarning, match="learnt from another model"):
            found = explainer(other, X)
        assert "fit.model" in {finding.code for finding in found.findings}


@BOTH
@pytest.mark.parametrize("fails", [False, True])
def test_the_model_is_left_as_it_was(kind, fails):
    check_left_as_found(lambda model: quick(kind, epochs=2).fit(model, TRAIN), fails)


def test_a_model_inside_a_function_gets_no_gradients():
    inner = linear(9, 3)
    quick(tg.TimeXPP).fit(lambda x: 2 * inner(x), TRAIN)
    assert all(p.grad is None for p in inner.parameters())


@BOTH
def test_the_best_epoch_is_kept(kind, monkeypatch):
    """Every epoch's generator is caught as it is judged; the one with the lowest loss must come out."""
    seen = []
    judge = Training._judge

    def catch(self, last):
        seen.append(torch.cat([part.flatten().clone() for part in self.objective.generator.state_dict().values()]))
        return judge(self, last)

    monkeypatch.setattr(Training, "_judge", catch)
    fitted = quick(kind, epochs=5, learning_rate=0.05).fit(smooth(9, 3), TRAIN)
    losses = fitted.network.facts["losses"]
    assert losses.index(min(losses)) == fitted.network.facts["epoch"]
    assert fitted.network.facts["epoch"] < 4 or losses[3] > losses[4]
    assert torch.equal(weights(fitted).double(), seen[fitted.network.facts["epoch"]].double())


def test_the_loss_is_the_sum_of_its_terms():
    """Every weight enters the loss of TimeX++ linearly; the rate is so low that all runs judge the same nets."""
    terms = {"label_weight": 1.0, "gaussian_weight": 0.1, "reference_weight": 2.0, "sparsity": 3.0}
    terms["connection"] = 4.0

    def first(*names: str) -> float:
        chosen = {name: weight if name in names else 0.0 for name, weight in terms.items()}
        explainer = quick(tg.TimeXPP, learning_rate=1e-12, weight_decay=0.0, **chosen)
        return explainer.fit(smooth(9, 3), TRAIN).network.facts["losses"][0]

    assert first() == 0
    alone = [first(name) for name in terms]
    assert all(loss > 0 for loss in alone)
    assert first(*terms) == pytest.approx(sum(alone), rel=1e-6)


@BOTH
def test_a_series_scores_the_same_alone_and_in_any_company(kind):
    model = smooth(9, 3)
    explainer = quick(kind).fit(model, TRAIN)
    together = explainer(model, X).values
    for i in range(len(X)):
        torch.testing.assert_close(explainer(model, X[i : i + 1]).values, together[i : i + 1])
    torch.testing.assert_close(explainer(model, X[[3, 0, 5]], batch_size=2).values, together[[3, 0, 5]])


def test_the_default_embedding_is_what_the_last_linear_layer_reads():
    model = Recurrent().eval()
    answer, embedding = find_embedding(model, X[:1])(X)
    with torch.no_grad():
        expected = model.norm(model.gru(X)[0][:, -1])
    torch.testing.assert_close(embedding, expected)
    torch.testing.assert_close(answer, model(X))


def test_one_vector_per_step_where_there_is_one_output_per_step():
    class Joined(Recurrent):
        """The steps join the batch before the head."""

        def forward(self, x):
            return self.head(self.gru(x)[0].flatten(0, 1)).view(*x.shape[:2], -1)

    for model in (Joined().eval(), Recurrent(per_step=True).eval()):
        embedding = find_embedding(model, X[:1])(X)[1]
        states = model.gru(X)[0]
        normed = states if isinstance(model, Joined) else model.norm(states.transpose(1, 2)).transpose(1, 2)
        torch.testing.assert_close(embedding, normed)
        scores = quick(tg.TimeX).fit(model, TRAIN)(tg.Predictor(model, task="per_step"), X).values
        assert ((scores > 0) & (scores < 1)).all()


def test_a_method_of_a_module_is_copied_with_it():
    class Predicts(Recurrent):
        def predict(self, x):
            return self(x).softmax(-1)

    model = Predicts().eval()
    twin = copied(model.predict)
    torch.testing.assert_close(twin(X), model.predict(X))
    twin.__self__.head.weight.data.zero_()
    assert not torch.allclose(twin(X), model.predict(X))
    scores = quick(tg.TimeX).fit(model.predict, TRAIN)(model.predict, X, output="raw").values
    assert ((scores > 0) & (scores < 1)).all()


def test_probabilities_are_taken_at_their_word():
    """A model that ends in softmax is learnt from as the same model without it."""
    inner = smooth(9, 3)
    plain = quick(tg.TimeXPP).fit(inner, TRAIN)
    ready = quick(tg.TimeXPP).fit(nn.Sequential(inner, nn.Softmax(-1)), TRAIN)
    torch.testing.assert_close(weights(ready), weights(plain))


def test_one_column_is_a_yes_and_a_no():
    """The logit s of a yes is the pair (0, s) of logits."""
    inner = smooth(9, 3, classes=1)
    one = quick(tg.TimeXPP).fit(inner, TRAIN)
    two = quick(tg.TimeXPP).fit(lambda x: torch.cat([0 * inner(x.double()), inner(x.double())], 1), TRAIN.double())
    torch.testing.assert_close(weights(one), weights(two))


@pytest.mark.slow
def test_what_timexpp_minimises_falls_on_series_that_it_does_not_learn_from():
    """More cannot be said: which way its network reads the mask, and so what is high in it, is up to the draw."""
    settings = tg.TimeXPP(epochs=6, fit_batch_size=16, learning_rate=0.005, label_weight=20.0, sparsity=4.0)
    before = after = 0.0
    for seed in range(2):
        inner, x = smooth(4, 1, seed=3 + seed), series(128, 4, 3, seed=1 + seed, dtype=torch.float64)
        losses = settings.fit(lambda z, inner=inner: 3 * inner(z[..., :1]), x, seed=seed).learnt.facts["losses"]
        before, after = before + losses[0], after + min(losses)
    assert after < 0.95 * before


@pytest.mark.slow  # learns for two seconds
@pytest.mark.parametrize("matters", [2])
def test_timex_finds_the_channel_a_model_looks_at(matters):
    """In the default embedding of a model with a hidden layer, which reads one of three channels."""

    class OneChannel(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = smooth(4, 1, seed=3)

        def forward(self, x):
            return 3 * self.inner(x[..., matters : matters + 1])

    model, truth = OneChannel(), torch.zeros(20, 4, 3)
    truth[..., matters] = 1
    explainer = tg.TimeX(epochs=6, fit_batch_size=8, learning_rate=0.003).fit(model, series(128, 4, 3, seed=1))
    scores = explainer(model, series(20, 4, 3, seed=2)).values
    assert roc_auc_score(truth.flatten(), scores.flatten()) > 0.9


CASES = {
    "unfitted": (lambda kind: kind()(linear(9, 3), X), InputError, "returns a new one"),
    "other length": (
        lambda kind: quick(kind).fit(smooth(9, 3), TRAIN)(smooth(6, 3), X[:, :6]),
        InputError,
        r"training series have shape \(9, 3\), x has \(6, 3\)",
    ),
    "other channels": (
        lambda kind: quick(kind).fit(smooth(9, 3), TRAIN)(smooth(9, 2), X[..., :2]),
        InputError,
        r"x has \(9, 2\)",
    ),
    "too few": (lambda kind: kind().fit(linear(9, 3), TRAIN[:3]), InputError, "got 3, pass at least 4"),
    "seed": (lambda kind: kind().fit(linear(9, 3), TRAIN, seed=0.5), InputError, "seed must be an integer"),
    "NaN": (lambda kind: quick(kind).fit(_Broken(), TRAIN), ModelError, "NaN in the model's outputs"),
    "no gradient": (lambda kind: quick(kind).fit(_Shy(), TRAIN), ModelError, "needs no gradient"),
    "epochs": (lambda kind: kind(epochs=0), InputError, "epochs must be at least 1"),
    "fit_batch_size": (lambda kind: kind(fit_batch_size=1), InputError, "fit_batch_size must be at least 2"),
    "rate": (lambda kind: kind(learning_rate=0), SettingError, "learning_rate must be a finite number above 0"),
    "prior": (lambda kind: kind(prior=1), SettingError, "above 0 and below 1"),
    "sparsity": (lambda kind: kind(sparsity=-1), SettingError, "sparsity must be finite and not negative"),
    "label weight": (
        lambda kind: kind(label_weight=-1),
        SettingError,
        "label_weight must be finite and not negative",
    ),
}
OF_TIMEX = {
    "a function": (lambda: tg.TimeX().fit(lambda x: x[:, 0], TRAIN), InputError, r"pass the nn\.Module itself"),
    "no linear layer": (lambda: tg.TimeX().fit(nn.Flatten(), TRAIN), InputError, "use timexpp"),
    "other rows": (lambda: tg.TimeX().fit(_Rows(), TRAIN), ModelError, "one row per series"),
    "gaussian": (lambda: tg.TimeXPP(gaussian_weight=-1), SettingError, "gaussian_weight must be finite"),
    "reference": (lambda: tg.TimeXPP(reference_weight=-1), SettingError, "reference_weight must be finite"),
}  # fmt: skip


class _Broken(nn.Linear):
    def __init__(self) -> None:
        super().__init__(3, 2)

    def forward(self, x):
        return super().forward(x).mean(1) * torch.nan


class _Shy(nn.Linear):
    def __init__(self) -> None:
        super().__init__(3, 2)

    def forward(self, x):
        return super().forward(x.detach()).mean(1)


class _Rows(nn.Sequential):
    """Its last layer sees twice as many rows."""

    def __init__(self) -> None:
        super().__init__(nn.Flatten(), nn.Linear(27, 2))

    def forward(self, x):
        return self[1](self[0](x).repeat(2, 1))[: len(x)]


@BOTH
@pytest.mark.parametrize("case", CASES)
def test_one_sentence_that_says_what_to_do(kind, case):
    call, error, text = CASES[case]
    with pytest.raises(error, match=text) as caught:
        call(kind)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize("case", OF_TIMEX)
def test_one_sentence_about_what_one_of_them_needs(case):
    call, error, text = OF_TIMEX[case]
    with pytest.raises(error, match=text) as caught:
        call()
    assert str(caught.value).endswith(".")


def test_a_loss_that_explodes_is_named():
    with pytest.raises(ModelError, match="lower learning_rate"):
        quick(tg.TimeXPP, learning_rate=1e30, epochs=3).fit(smooth(9, 3), TRAIN)


@BOTH
def test_a_target_makes_no_difference_and_that_is_said(kind):
    model = smooth(9, 3)
    explainer = quick(kind).fit(model, TRAIN)
    with pytest.warns(TempogradWarning, match="makes no difference"):
        asked = explainer(model, X, target=1)
    assert torch.equal(asked.values, explainer(model, X).values)


@BOTH
def test_a_series_without_any_observation_scores_zero(kind):
    model, mask = smooth(9, 3), torch.ones(7, 9, 3)
    mask[2] = 0
    found = quick(kind).fit(model, TRAIN)(model, tg.Series(X, mask=mask)).values
    assert (found[2] == 0).all()
    assert ((found > 0) == (mask > 0)).all()


@BOTH
def test_training_series_may_be_an_array(kind):
    model = smooth(9, 3)
    one = tg.explain(model, X, quick(kind), background=TRAIN.numpy()).values
    assert torch.equal(one, quick(kind).fit(model, TRAIN)(model, X).values)
    assert np.isfinite(one.numpy()).all()


def test_a_model_in_half_precision_is_learnt_from_in_single():
    model = nn.Sequential(nn.Flatten(), nn.Linear(27, 8), nn.Tanh(), nn.Linear(8, 2)).bfloat16()
    for kind in (tg.TimeX, tg.TimeXPP):
        fitted = quick(kind).fit(model, TRAIN)
        assert weights(fitted).dtype == torch.float32
        assert fitted(model, X).values.isfinite().all()
        assert replace(fitted, epochs=2).network is fitted.network


@pytest.mark.parametrize("kind", [tg.TimeX, tg.TimeXPP])
def test_requests_about_other_outputs_are_refused(kind):
    model, x = linear(6, 2), series(8, 6, 2)
    explainer = kind(epochs=1, fit_batch_size=4).fit(model, x)
    with pytest.raises(InputError, match="explains all steps together, got steps=3"):
        explainer(lambda z: model(z) * 1, x, steps=3)
    with pytest.raises(InputError, match="compares probabilities of classes"):
        explainer(model, x, output="raw")
    same = explainer(lambda z: model(z).softmax(-1), x, output="raw").values
    torch.testing.assert_close(same, explainer(model, x).values)


def test_a_fit_knows_its_model_also_behind_a_function_and_another_order_of_axes():
    net = smooth(9, 3)
    predictor = tg.Predictor(lambda z: {"a": net(z.transpose(1, 2))}, modules=[net], pick="a", layout="BDT")
    fitted = quick(tg.TimeXPP).fit(predictor, TRAIN)
    assert "fit.model" not in {finding.code for finding in fitted(predictor, X).findings}
