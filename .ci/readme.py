"""Run the blocks of the README where nothing is installed but the wheel and what it requires.

``python readme.py README.md [--short]``. Python blocks run statement by statement in an empty folder, and a
warning is an error. A statement whose line says ``needs matplotlib`` must say in one sentence what to install,
where that package is not there. Blocks of ``tempograd`` commands run as they stand, on a small model and table
made here; blocks of ``make`` commands need a clone and are left out. ``--short`` trains a smaller model for one
epoch, on fewer series.
"""

import ast
import csv
import math
import os
import re
import shlex
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import chdir
from importlib.util import find_spec
from pathlib import Path
from typing import Any

EXTRAS = ("captum", "duckdb", "matplotlib", "pandas")  # what no requirement of the wheel may bring along
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HEAD = re.compile(r"`(id,time,[\w,]+)`")  # the first line of the table that the README's commands read
NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.head = torch.nn.GRU({channels}, 8, batch_first=True), torch.nn.Linear(8, 2)

    def forward(self, x):
        return self.head(self.gru(x)[0][:, -1])
"""


def require_bare(home: Path) -> None:
    """Refuse an environment that has more than the wheel and its requirements, or the wheel from elsewhere."""
    there = [name for name in EXTRAS if find_spec(name)]
    if there:
        raise SystemExit(f"This environment is not bare: it has {', '.join(there)}.")
    found = find_spec("tempograd")
    if found is None or home not in Path(str(found.origin)).resolve().parents:
        raise SystemExit(f"tempograd is not installed in {home}: {found and found.origin}.")


def blocks(page: str) -> Iterator[tuple[str, str]]:
    """Yield the blocks that can run here, with their kind: ``python`` or ``sh``."""
    for language, code in BLOCK.findall(page):
        if language == "python":
            yield language, code
        elif code.startswith("tempograd "):
            yield "sh", code


def run_python(code: str, names: dict[str, Any]) -> int:
    """Run a block and return how many of its statements said what they need and lack."""
    lines, lacking = code.splitlines(), 0
    for statement in ast.parse(code).body:
        text = "\n".join(lines[statement.lineno - 1 : statement.end_lineno])
        needs = re.search(r"#.*\bneeds (\w+)", text)
        program = compile(ast.Module([statement], []), "README.md", "exec")
        if needs is None or find_spec(needs[1]):
            exec(program, names)
            continue
        lacking += 1
        try:
            exec(program, names)
        except ImportError as error:
            if not re.search(rf"needs {needs[1]}: pip install 'tempograd\[\w+\]'", str(error)):
                raise
        else:
            raise SystemExit(f"This ran without {needs[1]}, which it says it needs: {text}")
    return lacking


def run_commands(code: str) -> int:
    """Run each line with the command beside this Python, and return how many there were."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    for line in code.splitlines():
        subprocess.run(shlex.split(line), env=os.environ | {"PATH": path}, check=True)
    return len(code.splitlines())


def prepare(head: str) -> None:
    """Write what the commands read: ``mymodel.py``, ``net.safetensors``, ``sensors.csv``."""
    import torch  # noqa: PLC0415  # after the environment was looked at
    from safetensors.torch import save_file  # noqa: PLC0415

    columns = head.split(",")
    code, names = NET.format(channels=len(columns) - 3), {}
    Path("mymodel.py").write_text(code, encoding="utf-8")
    exec(code, names)
    torch.manual_seed(0)
    save_file(names["Net"]().state_dict(), "net.safetensors")
    with Path("sensors.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(columns)
        for series in range(8):
            for time in range(20):
                values = (20 + math.sin(time + 2 * series + 3 * channel) for channel in range(len(columns) - 3))
                table.writerow([series, time, *values, series % 2])


def shortened(code: str) -> str:
    """Return a block that takes seconds; what it calls stays the same."""
    code = code.replace("seed=0)", 'seed=0, epochs=1, options={"hidden": 8})')
    return code.replace("slice(50)", "slice(5)")


def main(page: str, *, short: bool) -> None:
    """Run every block in a folder of its own and say what was run."""
    for number, (kind, whole) in enumerate(blocks(page)):
        code = shortened(whole) if short else whole
        with tempfile.TemporaryDirectory() as folder, chdir(folder):
            if kind == "python":
                lacking = run_python(code, {})
                print(f"block {number}: ran, {lacking} statement(s) said what to install")
            else:
                head = HEAD.search(page)
                assert head, "The README shows commands, and no first line of their table."
                prepare(head[1])
                print(f"block {number}: {run_commands(code)} commands ran")
            print(f"block {number} left: {', '.join(sorted(map(str, Path().iterdir())))}", flush=True)


if __name__ == "__main__":
    require_bare(Path(sys.prefix).resolve())
    import torch  # noqa: F401  # what torch warns of while it is loaded is not ours

    warnings.simplefilter("error")
    main(Path(sys.argv[1]).read_text(encoding="utf-8"), short="--short" in sys.argv[2:])
