"""Run the code of a page, block by block, as a reader would: for the pages themselves and for the tests."""

import ast
import io
import os
import re
import shlex
import sys
import warnings
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

CODE = Path(__file__).parents[1] / "_code"  # what several pages begin with
FENCE = re.compile(
    r"^(?P<marks>`{3,})\{run\} *(?P<language>\w*)\n(?P<body>.*?)^(?P=marks)$", re.MULTILINE | re.DOTALL
)
OPTIONS = re.compile(r"\A(?::[\w-]+:.*\n)+\n?")
FILE = re.compile(r"^:file: (\S+)$", re.MULTILINE)


class Block(NamedTuple):
    """Code of a page, and the file it is also kept in, for pages that import what they showed."""

    language: str
    code: str
    file: str | None = None


@dataclass
class Outcome:
    """What a block printed, the value of its last line, and the pictures that this is."""

    text: str
    value: Any = None
    pictures: list[Any] = field(default_factory=list)  # matplotlib figures


def blocks(page: str) -> Iterator[Block]:
    """Return every block of a page that runs, in order."""
    for found in FENCE.finditer(page):
        options = OPTIONS.match(found["body"])
        file = FILE.search(options[0]) if options else None
        language = found["language"] or "python"
        yield as_shown(language, OPTIONS.sub("", found["body"]), file[1] if file else None)


def as_shown(language: str, code: str, file: str | None) -> Block:
    """Return what a page shows; a block that names a file and shows nothing is that file of ``_code``."""
    if file and not code.strip():
        code = (CODE / file).read_text(encoding="utf-8")
    return Block(language, code, file)


def run(block: Block, namespace: dict[str, Any], folder: Path) -> Outcome:
    """Run one block in ``folder`` with the names of the blocks before it; a warning is an error.

    As in a notebook, the value of a last line that is an expression is shown.
    """
    if block.file is not None:
        (folder / block.file).write_text(block.code, encoding="utf-8")
    with chdir(folder), warnings.catch_warnings():
        warnings.simplefilter("error")
        return _shell(block.code) if block.language == "sh" else _python(block.code, namespace)


def _python(code: str, namespace: dict[str, Any]) -> Outcome:
    tree = ast.parse(code)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with redirect_stdout(printed):
        exec(compile(tree, "<page>", "exec"), namespace)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<page>", "eval"), namespace)  # noqa: S307  # ours
    if hasattr(value, "savefig"):
        return Outcome(printed.getvalue(), value, [value])
    return Outcome(printed.getvalue() + ("" if value is None else f"{value!r}\n"), value)


@contextmanager
def _as_a_process() -> Iterator[None]:
    """Forget the modules of this folder afterwards: other pages have their own of the same names."""
    path = list(sys.path)
    yield
    sys.path[:] = path
    for name, module in list(sys.modules.items()):
        if Path(getattr(module, "__file__", None) or os.devnull).parent == Path.cwd():
            del sys.modules[name]


def _shell(code: str) -> Outcome:
    """Run the lines that call ``tempograd``; what they print comes after each, as in a terminal."""
    from tempograd.cli import main  # noqa: PLC0415  # the command line is needed for few pages

    said = io.StringIO()
    os.environ["COLUMNS"] = "88"
    for line in code.replace("\\\n", " ").splitlines():
        command, *arguments = shlex.split(line)
        if command != "tempograd":
            raise ValueError(f"A page can run only tempograd, not {command!r}.")
        with redirect_stdout(said), redirect_stderr(said), _as_a_process():
            code_of_exit = main(arguments)
        if code_of_exit:
            raise RuntimeError(f"{line!r} ended with {code_of_exit}: {said.getvalue()}")
    return Outcome(said.getvalue())
