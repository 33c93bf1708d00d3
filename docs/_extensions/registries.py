"""Write the reference pages from the registries and the command line, so that no table can miss a name."""

import argparse
import inspect
import os
from collections.abc import Iterator
from inspect import isclass, isfunction
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import tempograd
from tempograd import cli
from tempograd.cli.commands import describe, first_sentence
from tempograd.core.registry import Registry
from tempograd.data import DATASETS

if TYPE_CHECKING:  # the tests read the pages without Sphinx
    from docutils import nodes
    from sphinx.addnodes import pending_xref
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment
    from sphinx.util.typing import ExtensionMetadata

REGISTRIES: dict[str, Registry[Any]] = {
    "explainers": tempograd.EXPLAINERS,
    "metrics": tempograd.METRICS,
    "datasets": tempograd.DATASETS,
    "models": tempograd.MODELS,
}
TITLES = {"explainers": "Explainers", "metrics": "Metrics", "datasets": "Data sets", "models": "Models"}
FACTS = {  # column: class fact
    "sign": "signed",
    "one class": "targeted",
    "gradients": "needs_gradient",
    "training series": "needs_fit",
    "fixed": "deterministic",
    "sums up": "complete",
}
LEADS = {
    "explainers": (
        'Every method is one name away: ``tg.explain(model, x, "lime")``.\n\n'
        "- **sign**: a score tells the direction\n"
        "- **one class**: scores are about one class or output, not about the whole prediction\n"
        "- **gradients**: the model must be differentiable; without this mark any function will do\n"
        "- **training series**: pass ``background=``\n"
        "- **fixed**: there is no random draw, so the seed makes no difference\n"
        "- **sums up**: the scores add up to the change of the prediction"
    ),
    "metrics": '``tg.evaluate(model, explanation, metrics=["cpd", "aup"])`` gives one score per series.',
    "datasets": (
        '``tg.load_dataset("state")`` gives training and test series. :doc:`/data` says where to get the files of '
        "those that need some, and what the variants are."
    ),
    "models": '``tg.train("gru", data)`` gives a trained model. Any ``nn.Module`` of yours will do as well.',
}
MEMBERS = {"explainers": "fit", "metrics": "", "models": ""}
COLUMNS = 88  # of the terminal whose help is shown


def pages() -> dict[str, str]:
    """Return the text of every generated page by its path below ``reference/generated``."""
    found = {"commands.rst": _commands(), "plots.rst": _plots()}
    found |= {f"plots/{name}.rst": _plot(name) for name in tempograd.plots.__all__}
    for kind in REGISTRIES:
        found[f"{kind}.rst"] = _table(kind)
        found |= {f"{kind}/{entry['name']}.rst": _entry(kind, entry["name"]) for entry in describe(kind)}
    return found


def _table(kind: str) -> str:
    """Return a page with one row per name of a registry, and the names' own pages below it."""
    entries = describe(kind)
    rows = [["name", "what it is", *_columns(kind)]]
    rows += [[f":doc:`{e['name']} <{kind}/{e['name']}>`", e["about"], *_cells(kind, e)] for e in entries]
    return _listing(TITLES[kind], LEADS[kind], rows, [f"{kind}/{entry['name']}" for entry in entries])


def _listing(title: str, lead: str, rows: list[list[str]], links: list[str]) -> str:
    table = ".. list-table::\n   :header-rows: 1\n   :class: registry\n\n" + "".join(_row(row) for row in rows)
    tree = "".join(f"   {link}\n" for link in links)
    return f"{_title(title)}{lead}\n\n{table}\n.. toctree::\n   :hidden:\n\n{tree}"


def _row(cells: list[str]) -> str:
    return "".join(f"   {'* -' if index == 0 else '  -'} {cell}\n" for index, cell in enumerate(cells))


def _columns(kind: str) -> list[str]:
    return {"explainers": list(FACTS), "metrics": ["better"], "datasets": ["variants", "files"]}.get(kind, [])


def _cells(kind: str, entry: dict[str, Any]) -> list[str]:
    if kind == "explainers":
        thing = tempograd.EXPLAINERS[entry["name"]]
        return ["✓" if getattr(thing, fact) else "" for fact in FACTS.values()]
    if kind == "metrics":
        return ["higher" if entry["higher_is_better"] else "lower"]
    if kind == "datasets":
        loader = DATASETS[entry["name"]]
        return [
            ", ".join(f"``{variant}``" for variant in loader.variants),
            "yours" if loader.needs_files else "none",
        ]
    return []


def _entry(kind: str, name: str) -> str:
    """Return the page of one name, from its docstring."""
    thing = REGISTRIES[kind][name]
    if kind == "datasets":
        thing = thing.read
    if isfunction(thing):
        return f"{_title(name)}.. autofunction:: {_path(thing)}\n"
    members = f"   :members: {MEMBERS[kind]}\n" if MEMBERS.get(kind) else ""
    return f"{_title(name)}.. autoclass:: {_path(thing)}\n{members}"


def _path(thing: Any) -> str:
    """Return the shortest name by which users can import a class or function."""
    for package in (tempograd, tempograd.data, tempograd.metrics, tempograd.models):
        if getattr(package, thing.__name__, None) is thing:
            return f"{package.__name__}.{thing.__name__}"
    assert isclass(thing) or isfunction(thing)
    return f"{thing.__module__}.{thing.__qualname__}"


def _plots() -> str:
    """Return a page with one row per picture."""
    found = {
        name: first_sentence(inspect.getdoc(getattr(tempograd.plots, name)) or "")
        for name in tempograd.plots.__all__
    }
    rows = [
        ["name", "what it draws"],
        *([f":doc:`{name} <plots/{name}>`", about] for name, about in found.items()),
    ]
    lead = (
        "Each picture is a matplotlib figure. All take ``title=``, ``width=`` (inches, ``column`` or ``text``) "
        "and ``ax=``, a place in a figure of yours. Fonts and sizes of letters are those of "
        "``matplotlib.rcParams`` where you changed them, and a PDF embeds them as outlines (Type 42). They need "
        "``pip install 'tempograd[plots]'``."
    )
    return _listing("Plots", lead, rows, [f"plots/{name}" for name in found])


def _plot(name: str) -> str:
    return f"{_title(name)}.. autofunction:: tempograd.plots.{name}\n\n"


def _commands() -> str:
    """Return a page with the help of every command."""
    parts = [_title("Commands"), "The same texts as ``tempograd COMMAND --help``.\n\n"]
    with mock.patch.dict(os.environ, {"COLUMNS": str(COLUMNS)}):
        for name, parser in _parsers():
            text = parser.format_help().replace("\n", "\n   ")
            parts.append(f"{_title(name, '-')}.. code-block:: text\n\n   {text.rstrip()}\n\n")
    return "".join(parts)


def _parsers() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    parser = cli.make_parser()
    yield parser.prog, parser
    for action in parser._actions:  # argparse keeps its sub-commands nowhere else
        if isinstance(action, argparse._SubParsersAction):
            yield from ((f"tempograd {name}", found) for name, found in action.choices.items())


def _title(text: str, line: str = "=") -> str:
    return f"{text}\n{line * len(text)}\n\n"


def write(app: "Sphinx") -> None:
    """Write the pages; one that has not changed stays as it is, so that it is not read again."""
    folder = Path(app.srcdir) / "reference" / "generated"
    texts = pages()
    for old in folder.rglob("*.rst"):
        if old.relative_to(folder).as_posix() not in texts and old.parent.name != "api":
            old.unlink()
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def by_public_name(
    app: "Sphinx", env: "BuildEnvironment", node: "pending_xref", content: "nodes.TextElement"
) -> "nodes.reference | None":
    """Resolve ``tempograd.models.train``, as docstrings write it, to ``tempograd.train``, as users do."""
    name = node["reftarget"].rpartition(".")[2]
    if not node["reftarget"].startswith("tempograd.") or name not in tempograd.__all__:
        return None
    domain = env.domains.python_domain
    return domain.resolve_xref(  # type: ignore[return-value]  # a reference, since the role is not "any"
        env, node["refdoc"], app.builder, node["reftype"], f"tempograd.{name}", node, content
    )


def setup(app: "Sphinx") -> "ExtensionMetadata":
    """Write the pages before Sphinx looks for sources."""
    app.connect("builder-inited", write, priority=100)  # before autosummary, which reads them
    app.connect("missing-reference", by_public_name)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
