"""What the pages for developers say about the repository is true: paths, names, versions, what is experimental."""

import ast
import inspect
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import yaml

import tempograd as tg

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


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_make_target_that_a_page_names_exists(page):
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    text = page.read_text(encoding="utf-8")
    typed = re.findall(r"`make ([a-z][^`]*)`", text)
    typed += [line for block in re.findall(r"^```\n(.*?)^```", text, FENCE) for line in LINE.findall(block)]
    assert {word for line in typed for word in line.split() if "=" not in word} <= targets


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


def test_every_method_of_the_library_is_registered():
    assert set(tg.EXPLAINERS)  # which imports all of them
    modules = [module for name, module in [*sys.modules.items()] if name.startswith("tempograd.explainers.")]
    things = {thing for module in modules for thing in vars(module).values() if inspect.isclass(thing)}
    methods = {thing for thing in things if issubclass(thing, tg.Explainer) and not inspect.isabstract(thing)}
    assert {method.__name__ for method in methods - {*tg.EXPLAINERS.values()}} == {"MaskingIG", "OwnScores"}


@pytest.mark.parametrize("page", ["glossary.md", "architecture.md", "changes.md"])
def test_names_of_code_in_a_page_occur_in_the_code(page):
    """So that a page does not keep a name that was changed."""
    text = (ROOT / "docs/development" / page).read_text(encoding="utf-8")
    names = {name for code in re.findall(r"`([\w.]+=?)`", text) for name in re.findall(r"[A-Za-z_]\w*", code)}
    files = {part for path in names_of_files() for part in re.split(r"[./]", path)}
    tests = {name for path in (ROOT / "tests").rglob("test_*.py") for name in names_of_tests(path)}
    assert names - files - tests - words_of_the_code() == set()


@cache
def words_of_the_code() -> set[str]:
    paths = [*LIBRARY.rglob("*.py"), *PAPER.rglob("*.py")]
    return {word for path in paths for word in re.findall(r"\w+", path.read_text(encoding="utf-8"))}


def names_of_tests(path: Path) -> list[str]:
    return re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)


def names_of_files() -> set[str]:
    homes = (ROOT / "docs", LIBRARY, PAPER, ROOT / "tests", ROOT / "perf", ROOT / ".github")
    return {str(path.relative_to(ROOT)) for home in homes for path in home.rglob("*")} | {
        path.name for path in ROOT.iterdir()
    }


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
