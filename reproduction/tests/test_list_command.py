"""``python -m tempograd_paper list``, and what the package adds to tempograd where it is installed."""

import json
import re

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
    assert plans["smoke"]["datasets"] == ["state"]
    assert plans["smoke"]["cells"] == len(load_plan("smoke").cells())
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for entry, line in zip(entries, lines, strict=True):
        assert re.fullmatch(rf"{entry['name']} +{re.escape(entry['about'])}", line)
        assert entry["about"].endswith(".")


def test_its_commands_and_data_sets_are_found():
    """The entry points lead to what is there."""
    assert set(COMMANDS.points) == {"bench", "table"}
    for words in (["bench", "smoke", "--out", "runs"], ["table", "smoke", "--results", "runs"]):
        assert make_parser().parse_args(words).run.__module__ == "tempograd_paper.commands"
    assert set(tg.DATASETS.points) == set(DATASET_LABELS) - {"state", "switch_feature"}
    for name in tg.DATASETS.points:
        assert tg.DATASETS[name].variants
