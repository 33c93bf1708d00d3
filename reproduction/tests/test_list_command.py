"""``python -m tempograd_paper list``, and what the package adds to tempograd where it is installed."""

import json
import re
import subprocess
import sys
from importlib import import_module

import tempograd as tg
from tempograd.cli import COMMANDS, make_parser
from tempograd_paper.commands import main
from tempograd_paper.labels import DATASET_LABELS
from tempograd_paper.runner.reading import load_plan, packaged_plans


def test_every_plan_has_one_line_and_tells_its_size(capsys):
    assert main(["list", "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)
    plans = {entry["name"]: entry for entry in entries}
    assert sorted(plans) == packaged_plans()
    for name, entry in plans.items():  # as the runner reads them, with every check
        plan = load_plan(name, to_run=False)
        assert (entry["datasets"], entry["cells"]) == (list(plan.datasets), len(plan.cells()))
        assert entry["about"] == plan.title.rstrip(".") + "."
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for entry, line in zip(entries, lines, strict=True):
        assert re.fullmatch(rf"{entry['name']} +{re.escape(entry['about'])}", line)
        assert entry["about"].endswith(".")


def test_its_commands_and_data_sets_are_found():
    """The entry points lead to what is there."""
    assert set(COMMANDS.offers) == {"bench", "table"}
    for words in (["bench", "smoke", "--out", "runs"], ["table", "smoke", "--results", "runs"]):
        module, function = make_parser().parse_args(words).run.split(":")
        assert callable(getattr(import_module(module), function))
    assert set(tg.DATASETS.offers) == set(DATASET_LABELS) - {"state", "switch_feature"}
    for name in tg.DATASETS.offers:
        assert tg.DATASETS[name].variants


def test_the_list_needs_no_torch():
    code = "import sys; from tempograd_paper.commands import main; main(sys.argv[1:]); print(*sys.modules)"
    for words in (["list"], ["list", "--json"]):
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
        assert not {"torch", "numpy", "tempograd.data"} & set(done.stdout.split())
