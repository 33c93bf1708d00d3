"""The light door: names load on first use, and help needs neither torch nor numpy."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import tempograd as tg
from tempograd.cli import OWN

SOURCE = Path(tg.__file__).parent
HEAVY = {"torch", "numpy", "safetensors", "matplotlib", "pandas"}


def loaded(code: str, *words: str) -> set[str]:
    """Return the modules that a program has loaded in the end, on whatever way it ends."""
    code = f"import sys\ntry:\n    {code}\nfinally:\n    print('|', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    assert done.returncode in {0, 2}, done.stderr
    return set(done.stdout.rpartition("|")[2].split())


def seen_by_type_checkers() -> dict[str, str]:
    """Return the module from which type checkers believe that each name comes."""
    tree = ast.parse(Path(tg.__file__).read_text())
    conditions = [node for node in tree.body if isinstance(node, ast.If)]
    (block,) = (node for node in conditions if ast.unparse(node.test) == "TYPE_CHECKING")
    return {alias.name: part.module for part in block.body for alias in part.names}


def test_every_name_has_one_home_and_type_checkers_know_it():
    seen = seen_by_type_checkers()
    modules = {"adapters", "plots", "targets"}
    assert {seen.pop(name) for name in modules} == {"tempograd"}
    assert {home.removeprefix("tempograd.") for home in seen.values()} == set(tg._HOMES)
    assert {*seen, *modules, "__version__"} == set(tg.__all__)
    for name, home in seen.items():
        assert getattr(tg, name) is getattr(import_module(home), name)


def test_a_name_loads_its_home_and_no_other():
    found = loaded("import tempograd; tempograd.load_dataset")
    assert "tempograd.data" in found
    assert not {"tempograd.explainers", "tempograd.models", "tempograd.html_report"} & found


def test_a_module_of_the_package_is_a_name_too_and_others_are_an_error():
    assert tg.captum.__name__ == "tempograd.captum"
    with pytest.raises(AttributeError, match=r"^module 'tempograd' has no attribute 'explian'$"):
        _ = tg.explian
    with pytest.raises(AttributeError, match=r"^module 'tempograd' has no attribute '_nothing'$"):
        _ = tg._nothing


def test_a_module_that_lacks_a_package_says_so(tmp_path):
    """And does not pass for a name that is not there."""
    (tmp_path / "odd.py").write_text("import not_there_at_all")
    code = "import sys, tempograd; tempograd.__path__.append(sys.argv[1]); tempograd.odd"
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'not_there_at_all'"


MAIN = "from tempograd.__main__ import run_from_shell; run_from_shell()"
HELP = [["--help"], ["--version"], [], ["expain"], *([name, "--help"] for name in (*OWN, "bench", "table"))]


@pytest.mark.parametrize("words", HELP, ids=" ".join)
def test_help_needs_no_torch(words):
    """Nor for a wrong word; commands of other packages are listed without their code."""
    found = loaded(MAIN, *words)
    assert not HEAVY & found
    plugins = {name for name in found if name.startswith("tempograd_paper.")}
    assert bool(plugins) == (words[:1] in (["bench"], ["table"]))


def test_help_and_version_load_little():
    """What takes long to import stands on no line that everybody pays for."""
    slow = {"importlib.metadata", "inspect", "dataclasses", "pathlib", "json", "difflib", "traceback"}
    assert not slow & loaded(MAIN, "--version")
    for word in ("--help", "--version"):
        found = loaded(MAIN, word)
        ours = {name for name in found if name.startswith("tempograd")}
        assert ours == {
            "tempograd",
            "tempograd.__main__",
            "tempograd.core",
            "tempograd.core.progress",
            "tempograd.core.registry",
            "tempograd.cli",
            "tempograd.core.errors",
            "tempograd.version",
        }


@pytest.mark.parametrize("words", [["--version"], ["explain", "--help"]], ids=" ".join)
def test_the_version_and_our_own_commands_ask_no_other_package(words):
    assert "importlib.metadata" not in loaded(MAIN, *words)


def test_commands_import_in_one_place():
    """A module of the command line either parses and is light, or works and says at its top what it needs."""
    late = [
        (path.name, ast.unparse(inner))
        for path in sorted((SOURCE / "cli").glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
        for inner in ast.walk(node)
        if isinstance(inner, (ast.Import, ast.ImportFrom))
    ]
    assert late == []
