"""Models of one's own, in every form they come in, explain and score as the module they were made from."""

import io
import sys
import warnings
import zipfile

import pytest
import safetensors.torch
import torch
from torch import nn

import tempograd as tg
from tempograd.engine.model import _recurs
from tests.helpers.models import Recurrent, series
from tests.helpers.payloads import SAMPLE_INPUTS

BATCH = ({0: torch.export.Dim.AUTO},)
CODE = """
from torch import nn

class Net(nn.Module):
    def __init__(self, hidden=5):
        super().__init__()
        self.lstm = nn.LSTM(3, hidden, batch_first=True)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(hidden, 2)

    def forward(self, x):
        return self.head(self.drop(self.lstm(x)[0][:, -1]))

class Tools:
    @staticmethod
    def small():
        return Net(hidden=2)

ready = Net().double()
number = 5

def sized(hidden):
    return Net(hidden)

def wrong():
    return "a model"

def broken():
    import no_such_library
"""


@pytest.fixture
def code(tmp_path, monkeypatch):
    (tmp_path / "own_net.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "own_net"
    sys.modules.pop("own_net", None)


def exported(model, path, shapes=BATCH, length=10):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, about attributes of recurrent layers
        torch.export.save(torch.export.export(model, (torch.zeros(4, length, 3),), dynamic_shapes=shapes), path)
    return path


def scripted(model, path, *, trace=False):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is deprecated
        torch.jit.save(torch.jit.trace(model, torch.zeros(2, 10, 3)) if trace else torch.jit.script(model), path)
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """One recurrent model as four kinds of program; exporting takes seconds.

    It is made anew for each, because torch 2.6 leaves one that it exported without weights that can be saved.
    """
    folder = tmp_path_factory.mktemp("programs")
    return {
        "any batch": exported(Recurrent().eval(), folder / "any.pt2"),
        "batches of four": exported(Recurrent().eval(), folder / "four.pt2", shapes=None),
        "script": scripted(Recurrent().eval(), folder / "script.pt"),
        "trace": scripted(Recurrent().eval(), folder / "trace.torchscript", trace=True),
    }


@pytest.fixture(scope="module")
def forms(files):
    return {name: tg.load_model(path, trust=True) for name, path in files.items()}


@pytest.mark.parametrize("method", ["timing", "dynamask"])
def test_programs_explain_as_the_module_they_were_made_from(method, recurrent, forms):
    x, options = series(6, 10, 3), {"epochs": 3} if method == "dynamask" else {}
    expected = tg.explain(recurrent, x, method, seed=3, **options)
    scores = tg.evaluate(recurrent, expected, metrics=["cpd", "accuracy"])
    assert expected.values.abs().max() > 1e-3
    for form in forms.values():
        found = tg.explain(form, x, method, seed=3, **options)
        torch.testing.assert_close(found.values, expected.values, rtol=1e-3, atol=1e-5)
        assert torch.equal(found.target, expected.target)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tg.TempogradWarning)  # that the class of the model is another
            again = tg.evaluate(form, expected, metrics=["cpd", "accuracy"])
        torch.testing.assert_close(again["cpd"], scores["cpd"], rtol=1e-3, atol=1e-5)
        assert torch.equal(again["accuracy"], scores["accuracy"])


def test_programs_have_an_accuracy(recurrent, forms):
    split = tg.Series(series(7, 10, 3), torch.tensor([0, 1, 2, 0, 1, 2, 0]))
    for form in forms.values():
        assert tg.accuracy(form, split) == tg.accuracy(recurrent, split)


def test_a_fixed_batch_takes_any_number_of_series(recurrent, files):
    model = tg.load_model(files["batches of four"], trust=True)
    for count in (1, 3, 4, 5, 9):
        x = series(count, 10, 3)
        torch.testing.assert_close(model(x), recurrent(x))


def test_other_lengths_than_the_exported_one_are_refused_in_one_sentence(forms):
    model = forms["any batch"]
    with pytest.raises(tg.core.errors.ModelError):
        tg.explain(model, series(2, 12, 3))
    with pytest.raises(tg.core.errors.ModelError):
        tg.explain(model, series(2, 10, 3), "winit", background=series(4, 10, 3), epochs=1)


def test_a_program_exported_in_training_mode_is_told_by_its_outputs(tmp_path):
    model = nn.Sequential(nn.Flatten(), nn.Linear(30, 2), nn.Dropout(0.5))
    program = tg.load_model(exported(model, tmp_path / "drops.pt2"), trust=True)
    with pytest.warns(tg.TempogradWarning, match="stochastic"):
        tg.explain(program, series(4, 10, 3))


def test_recurrent_layers_are_found_in_programs(recurrent, forms, tmp_path):
    """On a GPU these run without cuDNN, which could not differentiate them."""
    assert [name for name, form in forms.items() if not _recurs(form)] == []
    plain = nn.Sequential(nn.Linear(3, 2), nn.ReLU()).eval()
    assert not _recurs(tg.load_model(exported(plain, tmp_path / "plain.pt2"), trust=True))
    assert not _recurs(tg.load_model(scripted(plain, tmp_path / "plain.pt"), trust=True))
    assert not _recurs(recurrent)


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("a file ran code",))


def swapped(source, path, part, content):
    """Copy an archive with one part replaced, given the ends that its name can have."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            new.writestr(name, content if name.endswith(part) else old.read(name))
    return path


def test_no_program_unpickles_objects(files, tmp_path):
    whole = tmp_path / "m.pt2"
    whole.write_bytes(files["any batch"].read_bytes())
    bomb = io.BytesIO()
    torch.save((Bomb(),), bomb)
    bad = swapped(whole, tmp_path / "bad.pt2", SAMPLE_INPUTS, bomb.getvalue())
    with pytest.raises(tg.TempogradError):
        tg.load_model(bad, trust=True)
    with zipfile.ZipFile(whole, "a") as archive:
        archive.writestr("m/data/constants/opaque_obj_0", b"")
    with pytest.raises(tg.TempogradError):
        tg.load_model(whole, trust=True)


def test_code_of_ones_own(code):
    x = series(2, 10, 3)
    assert tg.load_model(f"{code}:Net").training is False
    assert tg.load_model(f"{code}:Tools.small").head.in_features == 2
    ready = tg.load_model(f"{code}:ready")
    assert ready is sys.modules[code].ready
    assert torch.equal(ready(x.double()), tg.load_model(f"{code}:ready")(x.double()))


@pytest.mark.parametrize("kind", ["safetensors", "pt", "checkpoint"])
def test_weights_for_code_of_ones_own(kind, code, tmp_path):
    trained = tg.load_model(f"{code}:Net")
    state, path = trained.state_dict(), tmp_path / ("w.safetensors" if kind == "safetensors" else "w.pt")
    if kind == "safetensors":
        safetensors.torch.save_file(state, path)
    else:
        torch.save({"epoch": 3, "state_dict": state} if kind == "checkpoint" else state, path)
    loaded = tg.load_model(f"{code}:Net", weights=path)
    for name, tensor in state.items():
        assert torch.equal(loaded.state_dict()[name], tensor)


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("no_such_net:Net", "no_such_net"),
        ("own_net:Nett", "Nett"),
        ("own_net.py:Net", "own_net.py:Net .* as in an import"),
        ("own_net:sized", "hidden"),
        ("own_net:wrong", "str"),
        ("gone.pt2", "gone.pt2"),
    ],
)
@pytest.mark.usefixtures("code")
def test_what_cannot_be_loaded_is_named_in_one_sentence(source, named):
    with pytest.raises(tg.TempogradError, match=named) as raised:
        tg.load_model(source)
    assert "\n" not in str(raised.value)


def test_faults_of_the_users_own_code_keep_their_traceback(code, tmp_path):
    (tmp_path / "needy_net.py").write_text("import needy")
    with pytest.raises(ModuleNotFoundError, match="No module named 'needy'"):
        tg.load_model("needy_net:Net")
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        tg.load_model(f"{code}:broken")
    with pytest.raises(tg.TempogradError):
        tg.load_model(f"{code}:number")


def test_weights_that_do_not_fit(code, tmp_path):
    path = tmp_path / "w.pt"
    torch.save(nn.Linear(2, 2).state_dict(), path)
    with pytest.raises(tg.core.errors.DataError, match="weight_ih_l0"):
        tg.load_model(f"{code}:Net", weights=path)
    torch.save(tg.load_model(f"{code}:Tools.small").state_dict(), path)
    with pytest.raises(tg.TempogradError, match=r"lstm\.weight_ih_l0"):
        tg.load_model(f"{code}:Net", weights=path)
    torch.save(Bomb(), path)
    with pytest.raises(tg.TempogradError):
        tg.load_model(f"{code}:Net", weights=path)
    with pytest.raises(tg.TempogradError, match="weights="):
        tg.load_model(path)
    with pytest.raises(tg.TempogradError):
        tg.load_model(path, weights=path)


@pytest.mark.parametrize("name", ["m.pt2", "m.pt"])
def test_what_is_no_program_is_refused(name, tmp_path):
    (tmp_path / name).write_bytes(b"not what it says")
    with pytest.raises(tg.core.errors.DataError):
        tg.load_model(tmp_path / name)
