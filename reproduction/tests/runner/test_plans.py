"""Plans: what a file says is what runs, and every mistake is named with its line."""

import dataclasses
import hashlib
import json
import re
from collections import Counter
from pathlib import Path

import pytest
import torch

import tempograd as tg
from tempograd.core.errors import DataError, UnknownNameError, short_path
from tempograd.data import DATASETS, Loader
from tempograd_paper.cell import cell_from
from tempograd_paper.labels import DATASET_LABELS, METHOD_LABELS, MODEL_LABELS
from tempograd_paper.protocols.settings import configured
from tempograd_paper.released import released
from tempograd_paper.runner import Measure, Row, load_plan, packaged_plans
from tempograd_paper.runner.entry import Entry
from tempograd_paper.runner.reading import plan_line, where

GOOD = """\
title = "Mine"
protocol = "published"
datasets = ["state", { name = "switch_feature", variant = "paper" }]
models = ["gru"]
folds = [0, 3]
series = 7
seed = 5
explainers = [
  "timing",
  { method = "integrated_gradients", label = "signed", rank = "signed" },
  { method = "integrated_gradients", label = "coarse", settings = { rule = "midpoint", n_steps = 9 } },
]
table = "4"

[[metrics]]
metric = "cpd"
k = 0.1
baseline = "average"

[[metrics]]
metric = "cpd"
k = 50
protocol = "published"

[[metrics]]
metric = "aup"

[training]
epochs = 2
learning_rate = 1

[sizes]
hidden = 8
"""
CLINIC = """\
datasets = ["physionet2012"]
models = ["gru"]
folds = [0]
explainers = ["timing"]
metrics = [{ metric = "cpd", k = 50 }]
"""


@pytest.fixture(autouse=True)
def every_dataset(monkeypatch):
    """Let the names of all data sets be known, also of those whose loader is not there."""
    for name in DATASET_LABELS:
        if name not in DATASETS:
            monkeypatch.setitem(DATASETS._entries, name, Loader(lambda **_: None, ("right", "published")))


@pytest.fixture
def plan(tmp_path):
    """Return a function that writes a plan and loads it."""

    def load(text, **options):
        path = tmp_path / "mine.toml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_plan(path, **options)

    return load


def complaint(plan, tmp_path, text, **options):
    """Load a plan that must be refused; return "line …: …"."""
    with pytest.raises(DataError, match=re.escape(short_path(tmp_path / "mine.toml"))) as caught:
        plan(text, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message.removeprefix(f"{short_path(tmp_path / 'mine.toml')}, ")


def test_a_plan_says_what_runs(plan):
    loaded = plan(GOOD)
    assert (Path(loaded.name).name, loaded.title, loaded.protocol, loaded.table) == (
        "mine.toml",
        "Mine",
        "published",
        "4",
    )
    assert loaded.datasets == ("state", "switch_feature")
    assert loaded.variants == {"switch_feature": "paper"}
    assert (loaded.models, loaded.folds, loaded.series, loaded.seed) == (("gru",), (0, 3), 7, 5)
    assert loaded.rows == (
        Row("timing", "TIMING"),
        Row("integrated_gradients", "signed", (), "signed"),
        Row("integrated_gradients", "coarse", (("n_steps", 9), ("rule", "midpoint"))),
        Row("random", "random"),
    )
    assert loaded.measures == (
        Measure("cpd10%_average", "cpd", 0.1, "average"),
        Measure("cpd50_zero", "cpd", 50, "zero"),
        Measure("aup", "aup"),
    )
    assert loaded.training == (("epochs", 2), ("learning_rate", 1.0))
    assert isinstance(loaded.training[1][1], float)
    assert loaded.sizes == (("hidden", 8),)
    assert loaded.stands_for is None
    cells = loaded.cells()
    assert len(cells) == 2 * 2 * 4
    assert {cell.variant for cell in cells if cell.dataset == "state"} == {"redrawn"}
    assert {cell.variant for cell in cells if cell.dataset == "switch_feature"} == {"paper"}
    assert all(dict(cell.training) == {"epochs": 2, "learning_rate": 1.0} for cell in cells)


def test_the_shortest_plan_has_the_published_protocol_and_seed(plan):
    loaded = plan(CLINIC.replace("physionet2012", "state"))
    assert (loaded.protocol, loaded.seed, loaded.series, loaded.title) == ("published", 42, None, "mine")
    assert (loaded.training, loaded.sizes, loaded.table, loaded.kind) == ((), (), None, "scores")


def test_the_protocol_can_be_chosen_from_outside(plan):
    loaded = plan(GOOD, protocol="fair")
    assert loaded.protocol == "fair"
    assert [measure.name for measure in loaded.measures] == ["cpd10%_average", "aup"]
    with pytest.raises(UnknownNameError, match=r"No protocol is called 'fare'\. Did you mean 'fair'\?"):
        plan(GOOD, protocol="fare")


def test_series_may_depend_on_the_protocol(plan):
    text = GOOD.replace("series = 7", "series = { published = 1 }")
    assert plan(text).series == 1
    assert plan(text, protocol="fair").series is None


@pytest.mark.parametrize(
    ("k", "name"), [("1", "cpd1"), ("1.0", "cpd100%"), ("0.125", "cpd12.5%"), ("0.29", "cpd29%")]
)
def test_names_of_metrics_tell_counts_from_shares(plan, k, name):
    assert plan(GOOD.replace("k = 50", f"k = {k}")).measures[1].name == f"{name}_zero"


def test_random_stays_where_it_is_written(plan):
    rows = plan(GOOD.replace('"timing",', '{ method = "random", label = "floor" }, "timing",')).rows
    assert [row.label for row in rows] == ["floor", "TIMING", "signed", "coarse"]


def test_lists_among_settings_are_frozen_and_survive_json(plan):
    new = '{ method = "dynamask", settings = { areas = [0.1, 1], quirks = ["B5", "A6", "B5"] } },'
    loaded = plan(GOOD.replace('"timing",', new))
    assert loaded.rows[0].settings == (("areas", (0.1, 1.0)), ("quirks", ("A6", "B5")))
    cell = loaded.cells()[0]
    assert cell_from(json.loads(json.dumps(dataclasses.asdict(cell)))) == cell
    assert hash(cell) == hash(loaded.cells()[0])


def test_checking_sizes_leaves_the_global_random_state_alone(plan):
    before = torch.get_rng_state()
    plan(GOOD.replace("hidden = 8", "hidden = 100_000"))  # and takes no memory: this would be 120 GB
    assert torch.equal(torch.get_rng_state(), before)


MISTAKES = [
    # old, new, line
    ("models =", "model =", 4),
    ('title = "Mine"', "title = 3", 1),
    ('title = "Mine"', 'title = " "', 1),
    ('"published"\nd', '"publish"\nd', 2),
    ("protocol", "kind = 'tables'\nprotocol", 2),
    ('table = "4"', "table = 4", 13),
    ('table = "4"', 'table = "9"', 13),
    ('table = "4"', 'stands_for = "mimic3"', 13),
    ('table = "4"', 'stands_for = "PhysioNet 2012"', 13),
    ('"timing",', '{ method = "gradient_shap", settings = { pool = 3 } },', 9),
    ('table = "4"', 'based_on = "table9"', 13),
    ('["state", {', '["stat", {', 3),
    ('"switch_feature"', '"swich_feature"', 3),
    ('"paper"', '"papers"', 3),
    ("variant =", "varient =", 3),
    ("name = ", "variant = 'paper' } ] #", 3),
    ('"state", {', '"switch_feature", {', 3),
    ('["state", {', "[3, {", 3),
    ('["gru"]', '["grue"]', 4),
    ('["gru"]', '"gru"', 4),
    ('["gru"]', "[]", 4),
    ('["gru"]', '["gru", "cnn",\n"gru"]', 5),
    ("[0, 3]", "[0, 5]", 5),
    ("[0, 3]", "[0, -1]", 5),
    ("[0, 3]", "[0, true]", 5),
    ("[0, 3]", "[0, 0]", 5),
    ("series = 7", "series = 0", 6),
    ("series = 7", "series = { fare = 1 }", 6),
    ("series = 7", "series = { fair = 1.5 }", 6),
    ("seed = 5", "seed = -1", 7),
    ("seed = 5", "seed = 4294967296", 7),
    ("seed = 5", "seed = 1979-05-27", 7),
    ('"timing",', '"timming",', 9),
    ('"timing",', "7,", 9),
    ('"timing",', '{ label = "x" },', 9),
    ('"timing",', '{ method = "timing", lable = "x" },', 9),
    ('"timing",', '{ method = "timing", label = 3 },', 9),
    ('rank = "signed"', 'rank = "sign"', 10),
    ('label = "coarse"', 'label = "signed"', 11),
    ('"timing",', '"timing", { method = "timing", label = "x" },', 9),
    ("n_steps = 9", "n_step = 9", 11),
    ("n_steps = 9", "n_steps = '9'", 11),
    ("n_steps = 9", "n_steps = true", 11),
    ("n_steps = 9", "n_steps = 0", 11),
    ('rule = "midpoint"', 'rule = "middle"', 11),
    ('{ rule = "midpoint", n_steps = 9 }', "4", 11),
    ('"timing",', '"winit",', 9),
    ("baseline = ", "baselines = ", 18),
    ('"average"', '"mean"', 18),
    ('"cpd"\nk = 50', '"cpdd"\nk = 50', 21),
    ("k = 50", "", 20),
    ("k = 50", "k = 0", 22),
    ("k = 50", "k = 1.5", 22),
    ("k = 50", "k = 0.0", 22),
    ("k = 50", "k = true", 22),
    ("k = 50", "k = '50'", 22),
    ("k = 50", "k = nan", 22),
    ('protocol = "published"\n\n', 'protocol = "x"\n\n', 23),
    ("k = 50", "k = 0.1\nbaseline = 'average'", 20),
    ("k = 50", "k = 50\nbaseline = 'background'", 24),
    ("k = 50", "k = 50\nname = ''", 23),
    ('"aup"', '"aup"\nk = 5', 27),
    ('"aup"', '"aup"\nbaseline = "zero"', 27),
    ("epochs = 2", "epoch = 2", 29),
    ("epochs = 2", "epochs = 2.5", 29),
    ("epochs = 2", "epochs = 0", 29),
    ("epochs = 2", "shuffle = 1", 29),
    ("learning_rate = 1", "learning_rate = -1", 30),
    ("learning_rate = 1", "learning_rate = inf", 30),
    ("learning_rate = 1", "learning_rate = true", 30),
    ("learning_rate = 1", "learning_rate = '1'", 30),
    ("hidden = 8", "hiden = 8", 33),
    ("hidden = 8", "channels = 8", 33),
    ('["gru"]', '["gru", "transformer"]', 33),
    ("hidden = 8", "hidden = 9223372036854775808", 33),
    ("hidden = 8", f"hidden = 0x{'f' * 6000}", 33),
    ("learning_rate = 1", f"learning_rate = 1{'0' * 400}", 30),
    ("k = 50", f"k = 0x{'f' * 6000}", 22),
    ('title = "Mine"', f"title = [{'0,' * 9000}]", 1),
    ('title = "Mine"', "title = 1979-05-27T07:32:00Z", 1),
    ('title = "Mine"', f"{'t' * 900} = 3", 1),
    ('title = "Mine"', '"\\u001b[31m" = 3', 1),
    ('"published"\nd', f'"{"p" * 900}"\nd', 2),
]
FOREIGN = [  # the rest of the sentence is Python's or torch's own
    ('title = "Mine"', 'title = "Mine', 1, "this is no TOML: Illegal character"),
    ("folds = [0, 3]", "folds = [0, 3]\nfolds = [1]", 6, "this is no TOML: Cannot overwrite a value."),
    ("hidden = 8\n", "hidden = [8\n", 33, "this is no TOML: Unclosed array."),
    ("hidden = 8", "dropout = 7", 33, "dropout probability has to be between 0 and 1, but got 7"),
    ("hidden = 8", "hidden = -8", 32, "hidden_size must be greater than zero"),
    ("hidden = 8", "hidden = 99999999999", 32, "No gru can be that large"),
]


def mistaken(plan, tmp_path, old, new, line):
    assert GOOD.count(old) >= 1
    message = complaint(plan, tmp_path, GOOD.replace(old, new, 1))
    assert message.startswith(f"line {line}: ")
    assert len(message) <= 300 - len("mine.toml, ")
    assert message.isprintable()
    return message


@pytest.mark.parametrize(("old", "new", "line"), MISTAKES, ids=[m[1][:60] for m in MISTAKES])
def test_a_mistake_is_named_with_its_line(plan, tmp_path, old, new, line, said):
    said(mistaken(plan, tmp_path, old, new, line))


@pytest.mark.parametrize(("old", "new", "line", "sentence"), FOREIGN)
def test_a_mistake_that_others_find_is_named_with_its_line(plan, tmp_path, old, new, line, sentence):
    assert mistaken(plan, tmp_path, old, new, line).startswith(f"line {line}: {sentence}")


@pytest.mark.parametrize("key", ["datasets", "models", "folds", "explainers", "metrics"])
def test_what_must_be_there_is_missed(plan, tmp_path, key):
    text = "".join(line for line in CLINIC.splitlines(keepends=True) if not line.startswith(key))
    assert complaint(plan, tmp_path, text) == f"line 1: {key} is missing: write it here."


def test_an_unknown_quirk_is_named_with_its_line(plan, tmp_path):
    new = '{ method = "timing", settings = { quirks = [\n  "A3",\n  "B1" ] } },'
    message = complaint(plan, tmp_path, GOOD.replace('"timing",', new))
    assert message.startswith("line 11: No quirk of timing is called 'B1'. Known names: 1.4, A3, A4,")


def test_settings_refused_together_are_named_at_one_of_them(plan, tmp_path):
    new = (
        '[[explainers]]\nmethod = "timing"\n[explainers.settings]\nsegments = 3\nmin_length = 9\nmax_length = 4\n'
    )
    text = CLINIC.replace('explainers = ["timing"]\n', "") + new
    message = complaint(plan, tmp_path, text, protocol="fair")
    assert message == "line 9: min_length=9 is above max_length=4: swap them."


def test_a_refusal_that_names_no_setting_is_put_at_the_table():
    lines = {("a",): 1, ("a", "b"): 2, ("a", "bc"): 3}
    table = Entry({"b": 1, "bc": 2}, Path("mine.toml"), ("a",), lines)
    inner = table.table("key", ("b", "bc"))
    for message, line in (("bc is too high", 3), ("too high: b", 2), ("abc is too high", 1)):
        assert str(table.blamed(inner, ValueError(message))) == f"mine.toml, line {line}: {message}"


def test_metrics_need_one_of_the_protocol(plan, tmp_path):
    text = CLINIC.replace("k = 50", 'k = 50, protocol = "published"')
    message = complaint(plan, tmp_path, text, protocol="fair")
    assert message == "line 5: None of the metrics is for the protocol 'fair'."


def test_metrics_of_the_other_protocol_are_checked_too(plan, tmp_path):
    text = CLINIC.replace("k = 50 }", 'k = 50 }, { metric = "cpd", k = 0, protocol = "fair" }')
    assert complaint(plan, tmp_path, text).startswith("line 5: k must be a count of at least 1")


@pytest.mark.parametrize("metric", ["aup", "aur", "auroc", "auprc", "information", "entropy"])
def test_the_truth_must_be_known(plan, tmp_path, metric):
    text = CLINIC.replace("k = 50 }", f'k = 50 }},\n "{metric}"')
    assert complaint(plan, tmp_path, text) == (
        f"line 6: {metric} needs to know which cells decided the label, and nobody knows that for physionet2012: "
        "take it out, or keep to state and switch_feature."
    )
    assert plan(text.replace("physionet2012", "state")).measures[1] == Measure(metric, metric)


def test_an_optional_package_is_asked_for_before_anything_runs(plan, tmp_path, monkeypatch):
    text = CLINIC.replace('"timing"', '"timing",\n "deep_lift"')
    assert plan(text).rows[1].label == "DeepLIFT"
    monkeypatch.setattr("tempograd_paper.runner.reading.find_spec", lambda name: None)
    assert complaint(plan, tmp_path, text) == (
        "line 5: deep_lift needs captum: pip install 'tempograd[captum]', or take it out."
    )
    assert plan(text, to_run=["timing"]).rows[1].label == "DeepLIFT"  # the methods that --methods names
    assert plan(text, to_run=False).rows[1].label == "DeepLIFT"


SEGMENTS = '{ method = "timing", label = "alone", settings = { grid = "segments" }, protocol = "tuned" }'


def test_a_row_may_belong_to_one_protocol(plan, tmp_path):
    text = CLINIC.replace('"timing"', f'"timing",\n {SEGMENTS}')
    assert [row.label for row in plan(text).rows] == ["TIMING", "random"]
    rows = plan(text, protocol="tuned").rows
    assert [row.label for row in rows] == ["TIMING family", "alone", "random"]
    assert rows[1].settings == (("grid", "segments"),)
    wrong = text.replace('"segments"', '"segmants"')
    assert complaint(plan, tmp_path, wrong).startswith(
        "line 5: No part of the grid of timing is called 'segmants'."
    )
    other = text.replace('"tuned"', '"fair"')
    assert complaint(plan, tmp_path, other).startswith("line 5: No setting of timing is called 'grid'.")


def test_files_that_are_no_plans(plan, tmp_path):
    assert complaint(plan, tmp_path, b"seed = 1\n# \xff\n") == "line 2: this is no UTF-8 text."
    with pytest.raises(DataError, match=r"mine\.toml is nested too deeply to be a plan\."):
        plan("a = " + "[" * 10_000)
    with pytest.raises(DataError, match=r"mine\.toml is nested too deeply to be a plan\."):
        plan(f"{'a.' * 5000}a = 1")
    with pytest.raises(
        DataError, match=r"mine\.toml holds a number or a date beyond all bounds: Exceeds the limit"
    ):
        plan(f"seed = {'9' * 5000}")
    with pytest.raises(DataError, match=r"mine\.toml has 200000 bytes, too many for a plan\.$"):
        plan("#" * 200_000)
    with pytest.raises(DataError, match=r"gone\.toml does not exist\.$"):
        load_plan(str(tmp_path / "gone.toml"))
    with pytest.raises(DataError, match=r" is a folder\.$"):
        load_plan(tmp_path)
    assert plan(b"\xef\xbb\xbf" + CLINIC.encode()).folds == (0,)  # as some editors write it


def test_an_unknown_name_says_what_there_is():
    with pytest.raises(
        DataError, match=r"No plan, or file that ends in \.toml, is called 'tabel3'\. Did you mean 'table3'\?"
    ):
        load_plan("tabel3")


def test_a_base_lends_what_is_not_replaced(plan):
    loaded = plan('based_on = "table3"\ndatasets = ["wafer"]\nfolds = [2]\n[training]\nepochs = 3\n')
    base = load_plan("table3")
    assert (Path(loaded.name).name, loaded.title, loaded.table) == ("mine.toml", base.title, "3")
    assert (loaded.rows, loaded.measures, loaded.models) == (base.rows, base.measures, base.models)
    assert (loaded.datasets, loaded.folds, loaded.training) == (("wafer",), (2,), (("epochs", 3),))


def test_a_mistake_that_lies_in_the_base_is_named_there(plan, tmp_path):
    with pytest.raises(DataError, match=r"table4\.toml, line 24: aup needs to know .* for wafer"):
        plan('based_on = "table4"\ndatasets = ["wafer"]\nexplainers = ["timing"]\n')
    with pytest.raises(DataError, match=r"table4\.toml, line 8: The paper has no setting of occlusion for wafer"):
        plan('based_on = "table4"\ndatasets = ["wafer"]\nmetrics = [{ metric = "cpd", k = 5 }]')
    message = complaint(plan, tmp_path, 'based_on = "table4"\nmetric = []\n')
    assert message.startswith("line 2: No key of a plan is called 'metric'. Did you mean 'metrics'?")


def test_lines_can_be_asked_for(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('based_on = "table3"\ndatasets = [\n  "wafer",\n  "freezer",\n]\n')
    assert plan_line(path, ("datasets", 1)) == 4
    assert plan_line(path, ("datasets", 1, "variant")) == 4  # what is missing is missed there
    assert plan_line(path, ("folds", 0)) == 1
    assert where(path, "datasets", 0) == f"{short_path(path)}, line 3"
    assert re.search(r"table3\.toml, line 6$", where(path, "folds", 2))
    assert where(path, "seed") == f"{short_path(path)}, line 1"


# Packaged plans


PAPER = {  # rows as the paper prints them
    "table1": ["Extrmask", "ContraLSP", "TimeX++", "IG (Unsigned)", "IG (Signed)", "TIMING"],
    "table2": [
        *["FO", "AFO", "GradSHAP", "DeepLIFT", "LIME", "FIT", "WinIT", "Dynamask", "Extrmask", "ContraLSP"],
        *["TimeX", "TimeX++", "IG", "TIMING"],
    ],
    "table3": ["AFO", "GradSHAP", "Extrmask", "ContraLSP", "TimeX++", "IG", "TIMING"],
    "table4": [
        *["FO", "AFO", "GradSHAP", "DeepLIFT", "LIME", "FIT", "Dynamask", "Extrmask", "ContraLSP", "IG"],
        "TIMING",
    ],
    "table5": ["IG", "RandIG (p=0.3)", "RandIG (p=0.5)", "RandIG (p=0.7)", "TIMING"],
    "table6": [
        *["TIMING (10, 1, 10)", "TIMING (10, 1, 48)", "TIMING (10, 10, 10)", "TIMING (10, 10, 48)"],
        *["TIMING (50, 1, 10)", "TIMING (50, 1, 48)", "TIMING (50, 10, 10)", "TIMING (50, 10, 48)"],
        *["TIMING (100, 1, 10)", "TIMING (100, 1, 48)", "TIMING (100, 10, 10)", "TIMING (100, 10, 48)"],
    ],
    "table8": ["AFO", "GradSHAP", "Extrmask", "ContraLSP", "TimeX", "TimeX++", "IG", "TIMING"],
}
MEASURES = {
    "table1": ["accuracy10%_zero", "cpd50_zero"],
    "table2": [
        *["cpd50_zero", "cpd100_zero", "cpd50_average", "cpd100_average"],
        *["accuracy20%_zero", "cross_entropy20%_zero", "sufficiency20%_zero", "comprehensiveness20%_zero"],
    ],
    "table3": ["cpd10%_average", "cpd10%_zero"],
    "table4": ["cpd10%_zero", "cpd10%_average", "aup", "aur"],
    "table5": ["cpd50_average", "cpd50_zero"],
    "table6": ["cpd50_average", "cpd50_zero"],
    "table7": [],
    "table8": ["cpd50_zero", "cpd100_zero", "accuracy20%_zero"],
    "cpp": ["cpp10%_zero", "cpp20%_zero", "cpp40%_zero"],
    "efficiency": ["cpd50_zero"],
    "smoke": ["cpd10%_zero", "aup", "aur"],
}
CELLS = {  # data sets · models · folds · (rows and random)
    "table1": 5 * 7,
    "table2": 5 * 15,
    "table3": 6 * 5 * 8,
    "table4": 2 * 5 * 12,
    "table5": 5 * 6,
    "table6": 5 * 13,
    "table7": 0,
    "table8": 2 * 5 * 9,
    "cpp": 5 * 12,
    "efficiency": 5 * 8,
    "smoke": 4,
    "table3-open": 5 * 5 * 8,
    "table4-released": 5 * 12,
}


@pytest.mark.parametrize("name", packaged_plans())
@pytest.mark.parametrize("protocol", ["published", "fair"])
def test_packaged_plans_are_sound(name, protocol):
    loaded = load_plan(name, protocol=protocol)
    base = name.split("-")[0]
    assert (loaded.name, loaded.protocol) == (name, protocol)
    assert [measure.name for measure in loaded.measures] == MEASURES[base]
    cells = loaded.cells()
    assert len(cells) == CELLS.get(name, CELLS[base])
    assert len({cell.key for cell in cells}) == len(cells)
    assert loaded.table == {"cpp": None, "efficiency": "Fig.efficiency", "smoke": None}.get(base, base[-1])
    if "-" in name:
        assert "mimic3" not in loaded.datasets
        assert "pam" not in loaded.datasets
        assert loaded.stands_for == (None if base in {"table4", "table7"} else "MIMIC-III")
        assert loaded.title != load_plan(base).title


@pytest.mark.parametrize("name", PAPER)
def test_rows_are_the_paper_s(name):
    labels = [row.label for row in load_plan(name).rows]
    assert labels == [*PAPER[name], "random"]


def test_there_is_a_plan_for_everything():
    closed = {"table1", "table2", "table5", "table6", "table8", "cpp", "efficiency"}
    tables = {f"table{number}" for number in range(1, 9)}
    opened = {f"{name}-physionet2012" for name in closed} | {"table3-open", "table4-released", "table7-open"}
    assert set(packaged_plans()) == tables | opened | {"cpp", "efficiency", "smoke"}


def test_table_4_has_a_plan_on_the_released_series():
    found = {(cell.dataset, cell.variant) for cell in load_plan("table4-released").cells()}
    assert found == {("state", "released")}
    assert {cell.variant for cell in load_plan("table4").cells() if cell.dataset == "state"} == {"redrawn"}


def test_the_labels_of_table_6_say_their_settings():
    for row in load_plan("table6").rows[:-1]:
        settings = dict(row.settings)
        shown = f"({settings['segments']}, {settings['min_length']}, {settings['max_length']})"
        assert row.label == f"TIMING {shown}"


def test_the_labels_of_table_5_say_their_settings():
    for row in load_plan("table5").rows[1:4]:
        assert row.label == f"RandIG (p={dict(row.settings)['p']})"
        assert configured("rand_ig", "mimic3", "published", row.settings).moves == 1 - dict(row.settings)["p"]


def test_only_one_row_of_table_1_is_ranked_by_sign():
    assert [row.label for row in load_plan("table1").rows if row.rank == "signed"] == ["IG (Signed)"]


def test_the_published_cpp_removes_the_missing_cells_first():
    """Protocol 3.4: 61.08 % of the 48 · 32 cells are missing, and 10, 20, 40 % of the others go after them."""
    cells, missing = 48 * 32, 0.6108
    counts = [int(measure.k * cells) for measure in load_plan("cpp").measures]
    assert counts == [round(cells * (missing + share * (1 - missing))) for share in (0.1, 0.2, 0.4)]
    cells, missing = 48 * 37, 0.79766  # counted in the test set of PhysioNet 2012
    counts = [int(measure.k * cells) for measure in load_plan("cpp-physionet2012").measures]
    for count, share in zip(counts, (0.1, 0.2, 0.4), strict=True):
        assert abs(count - cells * (missing + share * (1 - missing))) < 1.5
    for name in ("cpp", "cpp-physionet2012"):
        assert [measure.k for measure in load_plan(name, protocol="fair").measures] == [0.1, 0.2, 0.4]


def test_the_published_times_are_those_of_one_series():
    assert load_plan("efficiency").series == load_plan("efficiency-physionet2012").series == 1
    assert load_plan("efficiency", protocol="fair").series is None


def test_a_table_of_sizes_runs_nothing(plan, tmp_path):
    loaded = load_plan("table7")
    assert (loaded.kind, loaded.cells(), len(loaded.datasets)) == ("sizes", [], 8)
    message = complaint(plan, tmp_path, 'based_on = "table7"\nmodels = ["gru"]')
    assert message == "line 2: A plan of sizes runs nothing: take models out."


def test_every_method_data_set_and_model_has_a_label_of_its_own():
    for known, labels in (
        (tg.EXPLAINERS, METHOD_LABELS),
        (set(DATASETS) - {"toy", "pump"}, DATASET_LABELS),
        (tg.MODELS, MODEL_LABELS),
    ):
        assert set(known) == set(labels)
        assert max(Counter(labels.values()).values()) == 1


# Keys


def test_protocols_fix_the_number_of_samples():
    """As the paper does: by default the library gives each series what it needs."""
    for protocol in ("published", "fair", "tuned"):
        assert configured("timing", "wafer", protocol).n_samples == 50


def test_keys_do_not_depend_on_the_order_of_settings(plan):
    turned = GOOD.replace('rule = "midpoint", n_steps = 9', 'n_steps = 9, rule = "midpoint"')
    turned = turned.replace("epochs = 2\nlearning_rate = 1", "learning_rate = 1.0\nepochs = 2")
    assert turned.count("learning_rate = 1.0\nepochs") == 1
    assert [cell.key for cell in plan(turned).cells()] == [cell.key for cell in plan(GOOD).cells()]


CHANGES = [
    ('"state", {', '{ name = "state", variant = "released" }, {'),
    ('["gru"]', '["cnn"]'),
    ("[0, 3]", "[1, 4]"),
    ("series = 7", "series = 8"),
    ("seed = 5", "seed = 6"),
    ("k = 0.1", "k = 0.2"),
    ("k = 0.1", "k = 1"),
    ('"average"', '"zero"'),
    ("epochs = 2", "epochs = 3"),
    ("hidden = 8", "hidden = 9"),
]


@pytest.mark.parametrize(("old", "new"), CHANGES, ids=[new for _, new in CHANGES])
def test_any_change_changes_the_key(plan, old, new):
    before, after = ([cell.key for cell in plan(text).cells()] for text in (GOOD, GOOD.replace(old, new, 1)))
    assert before[0] != after[0]


def test_settings_change_the_key_of_their_row_only(plan):
    before, after = (plan(text).cells()[:4] for text in (GOOD, GOOD.replace("n_steps = 9", "n_steps = 10")))
    assert [a.key == b.key for a, b in zip(before, after, strict=True)] == [True, True, False, True]
    signs = plan(GOOD).cells()[1], plan(GOOD.replace(', rank = "signed"', "")).cells()[1]
    assert signs[0].key != signs[1].key
    assert signs[0].explanation_key == signs[1].explanation_key


def test_labels_and_titles_change_no_key(plan):
    text = GOOD.replace('"Mine"', '"Yours"').replace('"coarse"', '"rough"').replace('table = "4"', "")
    assert [cell.key for cell in plan(text).cells()] == [cell.key for cell in plan(GOOD).cells()]


def test_keys_stay_what_they_are():
    """Records of old runs are found by these; a change of the format must be meant."""
    cell = load_plan("smoke").cells()[2]
    assert str(cell) == "timing, n_samples=20 on state/redrawn, gru, fold 0"
    assert cell.key == "9620b25a5e3afe34c57a"
    assert cell.explanation_key == "c4c486ceb46b38d2e427"
    assert cell.model_key == "46b9956b9e809260e5ee"
    text = (
        '[1, {"dataset": "state", "fold": 0, "model": "gru", "protocol": "fair", "seed": 42, '
        '"sizes": [["hidden", 8]], "training": [["epochs", 2]], "variant": "released"}]'
    )
    assert hashlib.sha256(text.encode()).hexdigest()[:20] == cell.model_key


# Explainers as the protocols run them


def test_explainers_of_both_protocols():
    paper = released("timing", "mimic3")
    assert configured("timing", "physionet2012", "published") == paper
    changed = configured("timing", "mimic3", "published", (("n_samples", 7), ("quirks", ("A3",))))
    assert changed == dataclasses.replace(paper, n_samples=7, quirks=frozenset({"A3"}))
    assert configured("timing", "mimic3", "fair", (("n_samples", 7),)) == tg.Timing(n_samples=7)
    assert configured("random", "mimic3", "published") == tg.EXPLAINERS["random"]()
    with pytest.raises(UnknownNameError, match=r"^The paper has no run of winit on 'wafer', only on mimic3\.$"):
        configured("winit", "wafer", "published")


def test_published_settings_can_run_without_their_faults(plan):
    row = plan(CLINIC.replace('"timing"', '{ method = "timing", settings = { quirks = [] } }')).rows[0]
    found = configured(row.method, "physionet2012", "published", row.settings)
    assert found == dataclasses.replace(released("timing", "mimic3"), quirks=frozenset())


def test_a_fair_row_may_show_a_fault():
    assert type(configured("timing", "wafer", "fair", (("n_samples", 7),))) is tg.Timing
    found = configured("timing", "wafer", "fair", (("n_samples", 7), ("quirks", ("A3",))))
    assert (found.name, found.n_samples, found.quirks, found.anchored) == ("timing", 7, {"A3"}, None)
    assert configured("gradient_shap", "wafer", "fair", (("batch", 5),)).batch == 5
