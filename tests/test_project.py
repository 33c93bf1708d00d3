"""What the project promises about itself."""

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import tempograd as tg
from tempograd.html_report.build import SCRIPTS

ROOT = Path(__file__).parent.parent
LIBRARY, PAPER = ROOT / "src/tempograd", ROOT / "reproduction/tempograd_paper"
SOURCES = sorted([*LIBRARY.rglob("*.py"), *PAPER.rglob("*.py")])


TREES = cache(lambda path: ast.parse(path.read_text(encoding="utf-8")))  # each file is parsed once
# what the contract of the public face calls alike
TWICE = {
    "Timing": "captum's users find TIMING under its name",
    "table": "tg.table sets methods beside metrics, core writes rows as text",
    "compare": "tg.compare pairs scores, tg.plots.compare draws maps",
}


def too_long(path: Path) -> list[str]:
    """Return the functions of a file that have 50 lines or more, and the file where it has more than 800."""
    found = [path.name] if len(path.read_text(encoding="utf-8").splitlines()) > 800 else []
    for node in ast.walk(TREES(path)):
        if isinstance(node, ast.FunctionDef):
            start = node.body[1 if ast.get_docstring(node) and len(node.body) > 1 else 0].lineno
            found += [f"{path.name}: {node.name}"] if node.end_lineno - start >= 50 else []
    return found


def test_files_and_functions_stay_short():
    assert [line for path in SOURCES for line in too_long(path)] == []


def test_scripts_stay_short_and_are_part_of_the_page():
    for path in sorted(ROOT.glob("src/**/scripts/*.js")):
        lines = path.read_text(encoding="utf-8").splitlines()
        assert path.stem in SCRIPTS
        assert (len(lines) <= 300, max(map(len, lines)) <= 140) == (True, True), path.name


def defined(path: Path) -> set[str]:
    """Return the public names that a module defines; constants may be alike."""
    names = set()
    for node in TREES(path).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}
    return {name for name in names if not name.startswith("_") and not name.isupper()}


@pytest.mark.parametrize("package", [LIBRARY, PAPER], ids=lambda path: path.name)
def test_no_public_name_is_there_twice_and_none_hides_its_module(package):
    where = defaultdict(set)
    for path in package.rglob("*.py"):
        assert path.stem not in defined(path), path
        for name in defined(path):
            where[name].add(path.relative_to(package).as_posix())
    twice = {name for name, places in where.items() if len(places) > 1}
    assert twice == (TWICE.keys() if package is LIBRARY else set()), {name: where[name] for name in twice}


def test_every_test_that_needs_a_gpu_is_run_where_there_is_one():
    (named,) = re.findall(r"^GPU := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    others = [path for path in ROOT.glob("tests/**/test_*.py") if path.parent.name != "gpu"]
    marked = [path for path in others if re.search(r"^@pytest\.mark\.gpu$", path.read_text(), re.MULTILINE)]
    assert ["tests/gpu", *sorted(path.relative_to(ROOT).as_posix() for path in marked)] == named.split()


def test_all_names_what_is_public():
    assert dir(tg) == sorted(tg.__all__)
    loaded = {name: getattr(tg, name) for name in tg.__all__}  # on first use
    assert {name for name, found in loaded.items() if isinstance(found, type(sys))} == {
        "adapters",
        "plots",
        "targets",
    }
    own = {name for name in vars(tg) if not name.startswith("_")} - set(tg.__all__)
    helpers = {"TYPE_CHECKING", "find_spec", "import_module"}
    assert {name for name in own - helpers if not isinstance(getattr(tg, name), type(sys))} == set()


def test_importing_registers_every_room_and_needs_torch_numpy_and_safetensors_only():
    """No extra is imported before it is used, and what is in a file of its own is found by its name."""
    rooms = ("explainers", "metrics", "models")
    code = f"import sys; from tempograd import *; from tempograd import testing, {', '.join(rooms)}"
    code += "; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not {"pandas", "duckdb", "captum", "sklearn", "scipy", "matplotlib", "pytest"} & loaded
    registers = re.compile(r"^@[A-Z]+\.register\(", re.MULTILINE)
    files = [
        path for room in rooms for path in (LIBRARY / room).glob("*.py") if registers.search(path.read_text())
    ]
    assert len(files) > 9
    assert {f"tempograd.{path.parent.name}.{path.stem}" for path in files} - loaded == set()


def lowest(requirements: list[str]) -> dict[str, Version]:
    """Return the lowest version of each package that is required with one."""
    found = [Requirement(line) for line in requirements]
    return {each.name: Version(str(each.specifier).removeprefix(">=")) for each in found if each.specifier}


def test_the_lowest_versions_are_those_that_are_declared():
    """What ``make test-lowest`` installs, what the paper's package asks for, and what users are told."""
    files = (ROOT / "pyproject.toml", ROOT / "reproduction/pyproject.toml")
    library, paper = (tomllib.loads(path.read_text()) for path in files)
    extras = sum(library["project"]["optional-dependencies"].values(), library["project"]["dependencies"])
    users = lowest(extras)
    needed = users | lowest(library["dependency-groups"]["test"])
    lines = (ROOT / "constraints-lowest.txt").read_text().splitlines()
    pinned = dict(line.split("==") for line in lines if "==" in line)
    assert pinned == {name: str(version) for name, version in needed.items()}
    builds = library["build-system"]["requires"], paper["build-system"]["requires"]
    for others in (extras, *builds, paper["project"]["dependencies"]):
        assert lowest(others).items() <= needed.items()
    page = " ".join((ROOT / "docs/start.md").read_text().lower().split())
    assert [name for name, version in users.items() if f"{name} {version}" not in page] == []


def test_the_wheel_holds_the_library_and_nothing_of_the_paper(tmp_path):
    pytest.importorskip("hatchling")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    (wheel,) = tmp_path.iterdir()
    names = [Path(name) for name in zipfile.ZipFile(wheel).namelist()]
    held = {path for path in names if path.parts[0] == "tempograd"}
    assert {path.parts[0] for path in names if path not in held} == {f"tempograd-{tg.__version__}.dist-info"}
    assert {Path("tempograd") / path.relative_to(LIBRARY) for path in LIBRARY.rglob("*.py")} <= held
    endings = {".py", ".js", ".css", ".html", ".typed", ".txt"}  # no plans, no SQL, no published numbers
    assert {path.suffix for path in held} == endings
    assert Path("tempograd/html_report/vendor/uPlot.LICENSE.txt") in held
    words = "bench|paper|plans|protocol|released|runner|tables"
    assert [str(path) for path in held if re.search(words, path.stem) and path.suffix == ".py"] == []


def test_the_library_does_not_know_the_paper():
    for path in LIBRARY.rglob("*.py"):
        assert "tempograd_paper" not in path.read_text(), path


def test_nothing_unpickles_or_evaluates():
    restricted = PAPER / "datasets/restricted_pickle.py"  # the one unpickler of files, which refuses every name
    memory = LIBRARY / "bulk/engines.py"  # a module is handed from a process to those that it starts
    for path in SOURCES:
        nodes = list(ast.walk(TREES(path)))
        names = {node.id for node in nodes if isinstance(node, ast.Name)}
        modules = {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
        modules |= {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        assert not names & ({"eval", "exec"} if path == memory else {"pickle", "eval", "exec"}), path
        assert path in {restricted, memory} or not modules & {"pickle", "marshal", "shelve", "dill"}, path
        assert "allow_pickle=True" not in path.read_text(), path
        for node in nodes:
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.load":
                assert "weights_only=True" in ast.unparse(node), path


def test_code_comes_in_at_three_doors_only():
    """Programs are opened where trust is asked for, and modules imported by name where users name their own."""
    doors = {
        "torch.export.load": "models/files.py",
        "torch.jit.load": "models/files.py",
        "importlib.import_module": "models/files.py",
        "__import__": None,
        "compile": None,
        "os.system": None,
        "subprocess.run": None,
        "torch.ops.load_library": None,
        "torch.hub.load": None,
    }
    found = {
        (ast.unparse(node.func), str(path.relative_to(home)))
        for home in (LIBRARY, PAPER)
        for path in home.rglob("*.py")
        for node in ast.walk(TREES(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in doors
    }
    assert found == {(name, place) for name, place in doors.items() if place is not None}
