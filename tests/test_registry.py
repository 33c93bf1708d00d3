"""What other packages bring: found by their entry points, loaded when asked for, never in the way of others."""

import re
import sys
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch

import tempograd as tg
from tempograd.cli import main
from tempograd.cli.commands import describe
from tempograd.core.registry import Registry
from tempograd.data import datasets
from tempograd.metrics.base import KINDS

METHOD = """
from dataclasses import dataclass
import torch
from tempograd import Explainer
from tempograd.explainers.base import Estimate
print("loaded")

@dataclass(frozen=True)
class Flat(Explainer):
    "The same score everywhere."

    height: float = 2.0

    def attribute(self, ask):
        return [Estimate(torch.full_like(ask.x, self.height))]

def add_dance(commands):
    commands.add_parser("dance", help="dance").set_defaults(run=lambda args: print("danced"))
"""


class Installer:
    """Puts packages on the path: a name, the text of the one module, and entry points."""

    def __init__(self, folder):
        self.folder, self.made = folder, []

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def __call__(self, name, code, points, summary="A package."):
        if code is not None:
            self.write(f"{name}.py", code)
        head = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nSummary: {summary}\n\nName: no header"
        self.write(f"{name}-1.0.dist-info/METADATA", head)
        groups = {group: [p for p in points if p[0] == group] for group in {point[0] for point in points}}
        lines = [f"[{g}]\n" + "".join(f"{n} = {target}\n" for _, n, target in ps) for g, ps in groups.items()]
        self.write(f"{name}-1.0.dist-info/entry_points.txt", "\n".join(lines))
        self.made.append(name)


@pytest.fixture
def install(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    installer = Installer(tmp_path)
    yield installer
    for name in installer.made:
        sys.modules.pop(name, None)


def unseen(monkeypatch, registry):
    """Let a registry look for packages again, for one test."""
    monkeypatch.setattr(registry, "_offers", None)
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


@pytest.fixture
def commands(monkeypatch):
    from tempograd.cli import COMMANDS

    return unseen(monkeypatch, COMMANDS)


def test_a_command_of_another_package(install, commands, capsys):
    install("flatland", METHOD, [("tempograd.commands", "dance", "flatland:add_dance")])
    assert main(["dance"]) == 0
    assert capsys.readouterr().out == "loaded\ndanced\n"


def lines_of_help(capsys):
    """Return what ``tempograd --help`` says about each command."""
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    printed = capsys.readouterr()
    assert (stop.value.code, printed.err) == (0, "")
    listed = printed.out.split("  command\n")[1].split("\n\n")[0]
    return {words.split()[0]: " ".join(words.split()[1:]) for words in re.split(r"\n    (?=\w)", listed)}


def test_commands_are_listed_though_nothing_of_their_package_is_imported(install, commands, capsys):
    install("flatland", None, [("tempograd.commands", "dance", "flatland:add")], summary="All about planes.")
    found = lines_of_help(capsys)
    assert found["dance"] == "All about planes."
    assert found["train"] == "train a model on a data set"
    assert "flatland" not in sys.modules


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


def test_programs_say_it_in_one_line_and_go_on(install, commands, monkeypatch, capsys):
    points = [("tempograd.commands", "dance", "broken:add"), ("tempograd.explainers", "flat", "broken:Flat")]
    install("broken", "raise RuntimeError('far\\nfrom home')", points)
    unseen(monkeypatch, tg.EXPLAINERS)
    said = "The {} {!r} of the package broken cannot be loaded: RuntimeError: far\\nfrom home"
    assert main(["list", "explainers"]) == 0
    printed = capsys.readouterr()
    assert printed.err == f"tempograd: warning: {said.format('explainer', 'flat')}\n"
    assert "\ntiming " in printed.out
    assert main(["dance"]) == 5
    assert capsys.readouterr().err == f"tempograd: {said.format('command', 'dance')}\n"


@pytest.mark.parametrize("end", ["sys.exit(3)", "raise KeyError('far')", "1 / 0"])
def test_whatever_a_package_does_when_it_is_imported(end, install, tools):
    install("broken", f"import sys\n{end}", [("tempograd.tools", "saw", "broken:saw")])
    with pytest.raises(tg.TempogradError, match=r"^The tool 'saw' of the package broken cannot be loaded: "):
        tools["saw"]


def test_a_name_that_is_taken_here_is_refused_in_words(install, tools):
    install("other", "mine = 5", [("tempograd.tools", "hammer", "other:mine")])
    assert tools["hammer"] is int
    assert tools._offers is None  # nobody was asked
    with pytest.warns(tg.TempogradWarning) as warned:
        assert dict(tools) == {"hammer": int}
    assert [str(each.message) for each in warned] == [
        "The package other offers a tool called 'hammer', a name that is already taken: it is left out."
    ]


def test_of_two_packages_that_offer_a_name_one_is_left_out(install, tools):
    for name in ("second", "other"):
        install(name, "mine = 5", [("tempograd.tools", "saw", f"{name}:mine")])
    with pytest.warns(tg.TempogradWarning) as warned:
        assert tools["saw"] == 5
    assert [str(each.message) for each in warned] == [
        "The package second offers a tool called 'saw', a name that is already taken: it is left out."
    ]
    assert tools.origin("saw") == "other 1.0"


def test_nobody_may_register_what_another_package_offers(install, tools):
    install("other", "mine = 5", [("tempograd.tools", "saw", "other:mine")])
    assert "saw" in tools
    with pytest.raises(ValueError, match="Two tools called 'saw': other:mine and <class 'int'>"):
        tools.register("saw")(int)
    assert tools["saw"] == 5


@pytest.mark.parametrize(
    ("group", "wanted"),
    [
        ("explainers", "a class under tempograd.Explainer"),
        ("metrics", KINDS),
        ("datasets", "a function under @tempograd.data.dataset, nor a Loader"),
    ],
)
def test_a_thing_of_another_kind_is_refused(group, wanted, install, monkeypatch):
    install("odd", "thing = 5", [(f"tempograd.{group}", "odd", "odd:thing")])
    registry = unseen(monkeypatch, {"explainers": tg.EXPLAINERS, "metrics": tg.METRICS}.get(group, tg.DATASETS))
    with pytest.raises(tg.TempogradError) as error:
        registry["odd"]
    kind = group.removesuffix("s")
    assert str(error.value) == f"The {kind} 'odd' of the package odd cannot be used: 'odd:thing' is not {wanted}."


def test_a_metric_that_cannot_be_measured_is_refused_where_it_is_registered(monkeypatch, said):
    """Whoever may register a metric may evaluate by it: without measure() there is not even an object."""

    @dataclass(frozen=True, kw_only=True)
    class Third(tg.Metric):
        higher_is_better: ClassVar[bool] = True

    registry = unseen(monkeypatch, tg.METRICS)
    said.refused(tg.TempogradError, registry.register("third"), Third)
    assert "third" not in registry
    found = tg.explain(lambda x: x.sum(1), torch.ones(2, 3, 2), "occlusion", output="raw", target=0)
    with pytest.raises(TypeError, match=r"abstract method '?measure"):
        Third()
    registry.register("drop")(dataclass(frozen=True, kw_only=True)(type("Drop", (type(tg.METRICS["cpd"]()),), {})))
    assert set(tg.evaluate(lambda x: x.sum(1), found, metrics=["drop"], of="score")) == {"drop"}


def test_a_metric_of_another_kind_is_one_class(monkeypatch):
    registry, calls = unseen(monkeypatch, tg.METRICS), []

    @registry.register("size")
    @dataclass(frozen=True, kw_only=True)
    class Size(tg.Metric):
        higher_is_better: ClassVar[bool] = True

        @classmethod
        def measure(cls, metrics, evaluation):
            calls.append([metric.name for metric in metrics])
            return {metric.name: evaluation.explanation.importance.sum((1, 2)) for metric in metrics}

    found = tg.explain(lambda x: x.sum(1), torch.ones(2, 3, 2), "occlusion", output="raw", target=0)
    scores = tg.evaluate(None, found, metrics=["size", Size(name="again")])  # which runs no model
    assert calls == [["size", "again"]]
    assert scores["again"].tolist() == [3.0, 3.0]
    mixed = tg.evaluate(lambda x: x.sum(1), found, metrics=["size", "cpd"], k=2, of="score")
    assert {name: score.tolist() for name, score in mixed.items()} == {"size": [3.0, 3.0], "cpd": [2.0, 2.0]}


def test_of_two_versions_on_the_path_the_first_counts(install, tools, tmp_path, monkeypatch):
    install("flatland", "mine = 5", [("tempograd.tools", "saw", "flatland:mine")])
    first = tmp_path / "first" / "Flatland-2.0.dist-info"
    first.mkdir(parents=True)
    (first / "METADATA").write_text("Name: Flatland\nVersion: 2.0\n")
    (first / "entry_points.txt").write_text("[tempograd.tools]\naxe = flatland:mine [fast]\n")
    monkeypatch.syspath_prepend(first.parent)
    assert set(tools) == {"hammer", "axe"}
    assert (tools["axe"], tools.origin("axe"), tools.origin("hammer")) == (5, "Flatland 2.0", "builtins")


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
    monkeypatch.setattr(datasets.DATASETS, "_offers", {})
    names = {name: datasets.DATASETS[name] for name in ("state", "switch_feature")}
    monkeypatch.setattr(datasets.DATASETS, "_entries", names)
    with pytest.raises(tg.TempogradError) as error:
        tg.load_dataset("wafer")
    assert str(error.value) == (
        "No dataset is called 'wafer'. Known names: state, switch_feature. The paper's data sets come with "
        "tempograd-paper: pip install ./reproduction in a clone of tempograd."
    )


def test_where_they_are_installed_a_typo_is_a_typo():
    with pytest.raises(tg.TempogradError, match=r"Did you mean 'wafer'\? Known names: [a-z0-9_, ]*\.$"):
        tg.load_dataset("wafr")
