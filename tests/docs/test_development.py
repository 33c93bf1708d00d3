"""What the pages for developers say about the repository is true: paths, names, versions, what is experimental."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import tempograd as tg
from tempograd.explanation.files import SCHEMA

ROOT = Path(__file__).parents[2]
LIBRARY, PAPER = ROOT / "src/tempograd", ROOT / "reproduction"
PAGES = sorted([ROOT / "CONTRIBUTING.md", *(ROOT / "docs/development").rglob("*.md")])
HOMES = (ROOT, LIBRARY, PAPER, ROOT / "tests", ROOT / "docs")  # as the pages say
IDS = [str(path.relative_to(ROOT)) for path in PAGES]
VERSIONS = (ROOT / "docs/development/versions.md").read_text(encoding="utf-8")
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
MADE = {".venv", "docs/_build/html"}  # what make makes
FILE = re.compile(r"[\w./-]+\.(?:py|md|js|css|html|toml|yml|csv|txt|cff|svg)")
LINE = re.compile(r"^make (\S+)", re.MULTILINE)
REGISTERS = re.compile(r"^@[A-Z]+\.register\(", re.MULTILINE)
FENCE = re.MULTILINE | re.DOTALL
FOLDER = re.compile(r"[\w.-]+(?:/[\w.-]+)+|(?:[\w.-]+/)+")


def named(page: str) -> list[str]:
    """Return what a page names in code as a file or a folder, but for what stands for any, as ``<name>.py``."""
    outside = re.sub(r"^```.*?^```", "", page, flags=FENCE)
    codes = re.findall(r"(?<!`)`([^`\n]+)`(?!`)", outside)
    return [code for code in codes if FILE.fullmatch(code) or FOLDER.fullmatch(code)]


def exists(path: str, page: Path) -> bool:
    return path in MADE or any((home / path).exists() for home in (*HOMES, page.parent))


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_path_that_a_page_names_exists(page):
    text = page.read_text(encoding="utf-8")
    assert [path for path in named(text) if not exists(path, page)] == []
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_paths_are_found_in_pages():
    page = (
        "`a/b.py` and `c.md`, `tests/lock`, `d/`, `n_samples`, `make test`, `<name>.py`\n```\n`not/this.py`\n```\n"
    )
    assert named(page) == ["a/b.py", "c.md", "tests/lock", "d/"]


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_make_target_that_a_page_names_exists(page):
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    text = page.read_text(encoding="utf-8")
    typed = re.findall(r"`make ([a-z][^`]*)`", text)
    typed += [line for block in re.findall(r"^```\n(.*?)^```", text, FENCE) for line in LINE.findall(block)]
    assert {word for line in typed for word in line.split() if "=" not in word} <= targets


def test_files_in_the_picture_exist():
    drawn = (ROOT / "docs/development/architecture.svg").read_text(encoding="utf-8")
    shown = set(re.findall(r"[a-z_]+\.py|[a-z_]+/", re.sub(r"<(?:title|desc|/)?[^>]*>", " ", drawn)))
    there = {path.name for path in LIBRARY.rglob("*.py")}
    folders = {
        f"{path.name}/" for home in (LIBRARY, ROOT / "reproduction") for path in home.rglob("*") if path.is_dir()
    }
    assert shown - there - folders - {"reproduction/", "src/", "tempograd/"} == set()
    assert {"by_name.py", "ask.py", "core.py", "released/"} <= shown


def test_packages_of_the_library_are_all_in_the_picture_and_in_the_table():
    drawn = (ROOT / "docs/development/architecture.svg").read_text(encoding="utf-8")
    page = (ROOT / "docs/development/architecture.md").read_text(encoding="utf-8")
    packages = {path.name for path in LIBRARY.iterdir() if path.is_dir() and (path / "__init__.py").exists()}
    assert packages == set(re.findall(r"^\| `(\w+)/` \|", page, re.MULTILINE))
    assert {name for name in packages if f">{name}<" not in drawn} == set()


def test_every_file_of_the_library_is_in_the_map_once():
    page = (ROOT / "docs/development/architecture.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\| `([^`]+)` \| (.+) \|$", page.partition("\n## Every file\n")[2], re.MULTILINE)
    files = [path for path in LIBRARY.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert sorted(path for path, _ in lines) == sorted(path.relative_to(LIBRARY).as_posix() for path in files)


def test_what_registers_itself_is_imported_with_its_room():
    """Or a method or metric in a file of its own is one that nobody finds by its name."""
    rooms = ("explainers", "metrics", "models")
    code = f"import sys; from tempograd import {', '.join(rooms)}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    files = [path for room in rooms for path in (LIBRARY / room).glob("*.py")]
    registers = [path for path in files if REGISTERS.search(path.read_text(encoding="utf-8"))]
    missing = {f"tempograd.{path.parent.name}.{path.stem}" for path in registers} - set(run.stdout.split())
    assert missing == set()
    assert len(registers) > 9


def test_the_steps_of_the_way_are_numbered_alike_in_the_picture():
    drawn = (ROOT / "docs/development/architecture.svg").read_text(encoding="utf-8")
    page = (ROOT / "docs/development/architecture.md").read_text(encoding="utf-8")
    way = page.partition("\n## The way of one call\n")[2].partition("\n## ")[0]
    steps = dict(re.findall(r"^(\d+)\. ((?:.|\n(?!\d|\n))+)", way, re.MULTILINE))
    marked = re.findall(r">(\d+)</text>\n<text[^>]*>([a-z_]+\.py)", drawn)
    assert {number for number, _ in marked} == steps.keys() == {str(n) for n in range(1, len(steps) + 1)}
    assert [file for number, file in marked if not re.search(rf"`(\w+/)*{file}`", steps[number])] == []


@pytest.mark.parametrize("page", ["glossary.md", "architecture.md", "changes.md"])
def test_names_of_code_in_a_page_occur_in_the_code(page):
    """So that a page does not keep a name that was changed."""
    text = (ROOT / "docs/development" / page).read_text(encoding="utf-8")
    names = {name for code in re.findall(r"`([\w.]+=?)`", text) for name in re.findall(r"[A-Za-z_]\w*", code)}
    code = " ".join(path.read_text(encoding="utf-8") for path in [*LIBRARY.rglob("*.py"), *PAPER.rglob("*.py")])
    files = {part for path in names_of_files() for part in re.split(r"[./]", path)}
    tests = {name for path in (ROOT / "tests").rglob("test_*.py") for name in names_of_tests(path)}
    assert {name for name in names - files - tests if not re.search(rf"\b{name}\b", code)} == set()


def names_of_tests(path: Path) -> list[str]:
    return re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)


def names_of_files() -> set[str]:
    homes = (ROOT / "docs", LIBRARY, PAPER, ROOT / "tests", ROOT / "perf", ROOT / ".github")
    return {str(path.relative_to(ROOT)) for home in homes for path in home.rglob("*")} | {
        path.name for path in ROOT.iterdir()
    }


def experimental() -> set[str]:
    """Return the modules, classes and functions whose docstring has a line that begins with ``Experimental:``."""
    found = set()
    for path in LIBRARY.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        module = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
        for node in ast.walk(tree):
            if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                continue
            if re.search(r"^ *Experimental: ", ast.get_docstring(node) or "", re.MULTILINE):
                name = getattr(node, "name", "")
                found.add(f"tempograd.{name}" if name in tg.__all__ else ".".join(filter(None, (module, name))))
    return found


def test_what_is_experimental_is_listed_and_marked():
    table = VERSIONS.partition("## Experimental")[2].partition("\n## ")[0]
    listed = re.findall(
        r"`(tempograd\.[\w.]+)`", "".join(row.split("|")[1] for row in re.findall(r"^\|.*", table, re.MULTILINE))
    )
    assert set(listed) == experimental()


def test_supported_versions_are_those_of_the_package():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    declared = re.findall(r"Python :: (3\.\d+)", project)
    assert f"| Python | {', '.join(declared)};" in VERSIONS
    assert f"schema {SCHEMA}, in its header" in VERSIONS


def test_one_version_everywhere():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert str(citation["version"]) == tg.__version__
    assert re.findall(r"^## \[(.+?)\]", CHANGELOG, re.MULTILINE)[:2] in (
        ["Unreleased", tg.__version__],
        [tg.__version__],
    )


def test_files_left_out_on_windows_exist():
    """And no others: a test that moved would silently run, or not run, there."""
    tree = ast.parse((ROOT / "conftest.py").read_text(encoding="utf-8"))
    (ignored,) = (
        ast.literal_eval(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "collect_ignore"
    )
    assert [path for path in ignored if not (ROOT / path).exists()] == []


@pytest.mark.skipif(os.name == "nt", reason="releases are made on Linux")
def test_a_tag_that_is_not_the_version_is_refused():
    def tagged(version):
        return subprocess.run([str(ROOT / ".ci/tag"), version], capture_output=True, text=True, check=False)

    other = tagged("v99.0.0")
    assert (other.returncode, other.stdout) == (1, "src/tempograd/version.py is not 99.0.0\n")
    dated = re.search(rf"^## \[{tg.__version__}\] - \d{{4}}-\d\d-\d\d$", CHANGELOG, re.MULTILINE)
    found = tagged(f"v{tg.__version__}")
    wanted = (0, "") if dated else (1, f"CHANGELOG.md has no dated section [{tg.__version__}]\n")
    assert (found.returncode, found.stdout) == wanted
