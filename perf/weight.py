"""How heavy the library is, and which of its files import each other in circles.

    python perf/weight.py [--tree DIR]

Lines of code are counted after ``ruff format`` with one line length for every tree, without comments, docstrings
and blank lines, also those inside strings. Statements are those of the syntax tree, docstrings among them; the
last column leaves docstrings out. A room is a folder or a file directly below ``src/tempograd``. A circle is a set
of files that reach each other by imports; late imports stand in functions or are for type checkers, and methods by
which results are drawn and described import what does so (``DOORS``). Modules named
by strings are not followed, nor is the ``__init__.py`` of a package on the way to one of its files.
"""

import argparse
import ast
import re
import shutil
import subprocess
import sys
import tempfile
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

FORMAT = "ruff format --isolated --quiet --line-length 115 --target-version py311"
CORE = {"core", "engine", "sampling", "explainers", "explanation", "targets.py", "captum.py", "adapters.py"}
CORE |= {"typing.py", "_utils", "errors.py", "data/datasets.py"}  # the last three: core before it was a room
DOORS = (
    "of",
    "plot",
    "show",
    "blocks",
    "describe",
    "_repr_html_",
    "read",
    "fragments",
)  # methods that make, draw and describe results, or bring what they need
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
COLUMNS = ("files", "code", "statements", "not docstrings")
Weight = tuple[int, int, int, int]


def weigh(text: str) -> Weight:
    """Return the columns of one file, from its formatted text."""
    rows, nodes, lines = [f"{row}\n" for row in text.split("\n")], [*ast.walk(ast.parse(text))], set[int]()
    for token in tokenize.generate_tokens(iter(rows).__next__):
        if token.string.strip() and token.type != tokenize.COMMENT:
            lines |= {row for row in range(token.start[0], token.end[0] + 1) if rows[row - 1].strip()}
    documented = [node for node in nodes if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None]
    for node in documented:
        lines -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    statements = sum(isinstance(node, ast.stmt) for node in nodes)
    return 1, len(lines), statements, statements - len(documented)


def weights(folder: Path) -> dict[Path, Weight]:
    """Return the weight of every Python file below a folder, by its path from there."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = shutil.copytree(folder, Path(scratch) / "copy", ignore=shutil.ignore_patterns("__pycache__"))
        subprocess.run([sys.executable, "-m", *FORMAT.split(), str(copy)], check=True)
        return {path.relative_to(copy): weigh(path.read_text("utf-8")) for path in sorted(copy.rglob("*.py"))}


def javascript(folder: Path) -> int:
    """Return how many lines of scripts are neither blank nor comments; minified ones are other people's."""
    paths = (path for path in folder.rglob("*.js") if not path.match("*.min.js"))
    texts = (re.sub(r"^\s*/\*.*?\*/", "", path.read_text("utf-8"), flags=re.M | re.S) for path in paths)
    return sum(bool(re.match(r"\s*(?!//)\S", line)) for text in texts for line in text.splitlines())


def imports(path: Path, tree: ast.Module, late: str) -> Iterator[str]:
    """Yield the dotted names that a file imports: ``late`` "none", "all", or all "but" those of :data:`DOORS`."""
    skipped = set[ast.AST]()
    for node in ast.walk(tree):
        function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        typed = isinstance(node, ast.If) and ast.unparse(node.test).removeprefix("typing.") == "TYPE_CHECKING"
        if ((function or typed) and late == "none") or (function and late == "but" and node.name in DOORS):
            skipped.update(inner for part in node.body for inner in ast.walk(part))
        if isinstance(node, ast.Import) and node not in skipped:
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node not in skipped:
            home = [*(path.parts[: -node.level] if node.level else ()), *filter(None, [node.module])]
            yield from (".".join([*home, alias.name]) for alias in node.names)


def circles(library: Path, late: str) -> list[list[str]]:
    """Return the sets of files that reach each other by :func:`imports`."""
    paths = {path.relative_to(library.parent): path for path in library.rglob("*.py")}
    modules = {".".join(path.with_suffix("").parts).removesuffix(".__init__"): path for path in paths}
    reached: dict[Path, set[Path]] = {path: set() for path in paths}
    for path, file in paths.items():
        for name in imports(path, ast.parse(file.read_text("utf-8")), late):
            if end := modules.get(name) or modules.get(name.rpartition(".")[0]):
                reached[path].add(end)
    for middle in paths:
        for ends in (ends for ends in reached.values() if middle in ends):
            ends.update(reached[middle])
    sets = {frozenset(end for end in ends if path in reached[end]) for path, ends in reached.items()}
    return sorted(sorted(end.relative_to(library.name).as_posix() for end in ends) for ends in sets if ends)


def show(name: str, parts: Iterable[Weight]) -> None:
    print(f"{name:30}" + "".join(f"{sum(column):>16,}" for column in zip(*parts, strict=True)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tree", type=Path, default=Path(__file__).parents[1], help="the root of another tree")
    tree = parser.parse_args().tree
    library = tree / "src" / "tempograd"
    files = weights(library)
    print(f"{'src/tempograd':30}" + "".join(f"{name:>16}" for name in COLUMNS))
    for room in sorted({path.parts[0] for path in files}, key=lambda name: (name.endswith(".py"), name)):
        show(room, (weight for path, weight in files.items() if path.parts[0] == room))
    show("all rooms", files.values())
    show("the core set", (weight for path, weight in files.items() if {path.parts[0], path.as_posix()} & CORE))
    for beside in ("reproduction/tempograd_paper", "tests/helpers"):
        show(beside, weights(tree / beside).values())
    print(f"JavaScript: {javascript(library / 'html_report') + javascript(library / 'report'):,} lines")
    but = f"with late imports but in {', '.join(DOORS)}"
    for kind, late in (("at module level", "none"), (but, "but"), ("with all late imports", "all")):
        sets = circles(library, late)
        print(f"circles of imports {kind}: {len(sets)}", *map(", ".join, sets), sep="\n    ")


if __name__ == "__main__":
    main()
