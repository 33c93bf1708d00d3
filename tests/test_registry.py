"""What other packages bring: found by their entry points, loaded when asked for, never in the way of others."""

import sys

import pytest
import torch

import tempograd as tg
from tempograd._utils.registry import Registry
from tempograd.cli import main
from tempograd.cli.commands import describe
from tempograd.data import loading

METHOD = """
from dataclasses import dataclass
import torch
from tempograd import Explainer
from tempograd.explainers.base import Attribution
print("loaded")

@dataclass(frozen=True)
class Flat(Explainer):
    "The same score everywhere."

    height: float = 2.0

    def attribute(self, question):
        return Attribution(torch.full_like(question.x, self.height))

def add_dance(commands):
    commands.add_parser("dance", help="dance").set_defaults(run=lambda args: print("danced"))
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Return what installs a package: its name, the text of its one module, and its entry points."""
    monkeypatch.syspath_prepend(tmp_path)
    made = []

    def put(name, code, points):
        (tmp_path / f"{name}.py").write_text(code)
        folder = tmp_path / f"{name}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        groups = {group: [p for p in points if p[0] == group] for group in {point[0] for point in points}}
        lines = [f"[{g}]\n" + "".join(f"{n} = {target}\n" for _, n, target in ps) for g, ps in groups.items()]
        (folder / "entry_points.txt").write_text("\n".join(lines))
        made.append(name)

    yield put
    for name in made:
        sys.modules.pop(name, None)


def unseen(monkeypatch, registry):
    """Let a registry look for packages again, for one test."""
    monkeypatch.setattr(registry, "_points", None)
    monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    return registry


@pytest.fixture
def tools():
    registry = Registry("tool", "tempograd.tools")
    registry.register("hammer")(int)
    return registry


def test_a_method_of_another_package_is_a_name_away(install, monkeypatch, capsys):
    install("flatland", METHOD, [("tempograd.explainers", "flat", "flatland:Flat")])
    registry = unseen(monkeypatch, tg.EXPLAINERS)
    assert "flat" in registry
    assert "flatland" not in sys.modules
    ours = tg.explain(lambda x: x.sum(1), torch.ones(2, 3, 2), "random", output="raw", target=0)
    assert (ours.method, "flatland" in sys.modules) == ("random", False)  # nobody asked for it
    found = tg.explain(lambda x: x.sum(1), torch.ones(2, 3, 2), "flat", output="raw", target=0, height=3.0)
    assert capsys.readouterr().out == "loaded\n"
    assert (found.method, found.values.unique().tolist()) == ("flat", [3.0])
    assert [entry["about"] for entry in describe("explainers") if entry["name"] == "flat"] == [
        "The same score everywhere."
    ]


def test_a_class_knows_its_name_though_nobody_asked_the_registry(install, monkeypatch):
    install("flatland", METHOD, [("tempograd.explainers", "flat", "flatland:Flat")])
    unseen(monkeypatch, tg.EXPLAINERS)
    from flatland import Flat

    assert Flat().name == "flat"
    assert type("Own", (Flat,), {})().name == "flat"


def test_a_command_of_another_package(install, monkeypatch, capsys):
    from tempograd.cli import COMMANDS

    install("flatland", METHOD, [("tempograd.commands", "dance", "flatland:add_dance")])
    unseen(monkeypatch, COMMANDS)
    assert main(["dance"]) == 0
    assert capsys.readouterr().out == "loaded\ndanced\n"


def test_a_broken_package_is_one_sentence_and_harms_no_other(install, tools):
    points = [("tempograd.tools", "saw", "broken:saw"), ("tempograd.tools", "axe", "whole:axe")]
    install("broken", "import not_there_at_all", points[:1])
    install("whole", "axe = 5", points[1:])
    assert set(tools) == {"hammer", "saw", "axe"}
    assert (tools["hammer"], tools["axe"], len(tools)) == (int, 5, 3)
    sentence = (
        "The tool 'saw' of the package broken cannot be loaded: ModuleNotFoundError: No module named "
        "'not_there_at_all'"
    )
    with pytest.raises(tg.TempogradError) as error:
        tools["saw"]
    assert str(error.value) == sentence
    with pytest.warns(tg.TempogradWarning) as warned:
        assert tools.working() == {"hammer": int, "axe": 5}
    assert [str(each.message) for each in warned] == [sentence]


def test_a_name_that_a_package_does_not_have(install, tools):
    install("hollow", "", [("tempograd.tools", "saw", "hollow:saw")])
    with pytest.raises(
        tg.TempogradError, match="The tool 'saw' of the package hollow cannot be loaded: Attribute"
    ):
        tools["saw"]


def test_programs_say_it_in_one_line_and_go_on(install, monkeypatch, capsys):
    from tempograd.cli import COMMANDS

    points = [("tempograd.commands", "dance", "broken:add"), ("tempograd.explainers", "flat", "broken:Flat")]
    install("broken", "raise RuntimeError('far\\nfrom home')", points)
    unseen(monkeypatch, COMMANDS)
    unseen(monkeypatch, tg.EXPLAINERS)
    assert main(["list", "explainers"]) == 0
    printed = capsys.readouterr()
    said = "tempograd: warning: The {} {!r} of the package broken cannot be loaded: RuntimeError: far\\nfrom home"
    assert printed.err.splitlines() == [said.format("command", "dance"), said.format("explainer", "flat")]
    assert "\ntiming " in printed.out


def test_a_name_that_is_taken_is_refused_in_words(install, tools):
    for name in ("other", "second"):
        install(name, "mine = 5", [("tempograd.tools", tool, f"{name}:mine") for tool in ("hammer", "saw")])
    with pytest.warns(tg.TempogradWarning) as warned:
        assert tools["hammer"] is int
    said = sorted(str(each.message) for each in warned)
    first = next(iter(tools.points.values())).dist.name
    (last,) = {"other", "second"} - {first}
    words = "The package {} offers a tool called {!r}, a name that is already taken: it is left out."
    assert said == sorted([words.format(*pair) for pair in ((first, "hammer"), (last, "hammer"), (last, "saw"))])
    assert tools["saw"] == 5


def test_a_package_may_register_its_own_in_both_ways(install, monkeypatch):
    """Its module is imported before anybody looks for entry points, and nothing is said twice."""
    code = METHOD.replace(
        "@dataclass", "from tempograd import EXPLAINERS\n\n@EXPLAINERS.register('flat')\n@dataclass"
    )
    install("flatland", code, [("tempograd.explainers", "flat", "flatland:Flat")])
    registry = unseen(monkeypatch, tg.EXPLAINERS)
    from flatland import Flat

    assert registry["flat"] is Flat


def test_the_paper_is_named_where_its_data_sets_are_missing(monkeypatch):
    monkeypatch.setattr(loading.DATASETS, "_points", {})
    names = {name: loading.DATASETS[name] for name in ("state", "switch_feature")}
    monkeypatch.setattr(loading.DATASETS, "_entries", names)
    with pytest.raises(tg.TempogradError) as error:
        tg.load_dataset("wafer")
    assert str(error.value) == (
        "No dataset is called 'wafer'. Known names: state, switch_feature. The paper's data sets come with "
        "tempograd-paper: pip install ./reproduction in a clone of tempograd."
    )


def test_where_they_are_installed_a_typo_is_a_typo():
    with pytest.raises(tg.TempogradError, match=r"Did you mean 'wafer'\? Known names: [a-z0-9_, ]*\.$"):
        tg.load_dataset("wafr")
