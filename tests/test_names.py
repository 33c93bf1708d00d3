"""One name, one thing: read from the syntax trees, so that nothing has to be imported."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = {
    name: ROOT / folder / name for name, folder in {"tempograd": "src", "tempograd_paper": "reproduction"}.items()
}
# what the contract of the public face calls alike, or asks of a module
TWICE = {
    "Timing": "captum's users find TIMING under its name",
    "compare": "tg.compare pairs scores, tg.plots.compare draws maps",
}


def trees(package):
    return {path: ast.parse(path.read_text()) for path in sorted(PACKAGES[package].rglob("*.py"))}


def defined(tree):
    """Yield the public names that a module defines; overloads of a function are one, constants may be alike."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = (part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name))
            yield from (name for name in names if not name.isupper())


def bound(path, tree):
    """Yield the names that a package binds to something that is no module of it."""
    module = ".".join(path.parent.relative_to(ROOT).parts[1:])
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            names = {alias.asname or alias.name for alias in node.names}
            yield from names if node.module != module else ()
    yield from defined(tree)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_public_name_is_there_twice(package):
    where = defaultdict(set)
    for path, tree in trees(package).items():
        for name in defined(tree):
            where[name].add(str(path.relative_to(ROOT)))
    twice = {name: sorted(found) for name, found in where.items() if len(found) > 1 and not name.startswith("_")}
    assert twice.keys() - TWICE.keys() == set(), twice
    if package == "tempograd":
        assert twice.keys() >= TWICE.keys()  # an exception that is none any more goes


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_is_hidden_by_a_name(package):
    hidden = set()
    for path, tree in trees(package).items():
        if path.name == "__init__.py":
            inside = {each.stem for each in path.parent.glob("*.py")} | {
                each.parent.name for each in path.parent.glob("*/__init__.py")
            }
            place = ".".join(path.parent.relative_to(PACKAGES[package].parent).parts)
            hidden |= {f"{place}.{name}" for name in set(bound(path, tree)) & inside}
        elif path.stem in set(defined(tree)):
            hidden.add(f"{path.relative_to(ROOT)} defines {path.stem}")
    assert hidden == set()
