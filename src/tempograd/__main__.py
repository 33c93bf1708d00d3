"""``python -m tempograd`` is the command line."""

import os
import sys

if __name__ == "__main__" and sys.path[0] == os.getcwd():  # noqa: PTH109  # Python puts it before all libraries
    sys.path.append(sys.path.pop(0))

from tempograd.core.progress import leave_at_once


def run_from_shell() -> int:
    """Start the command line; an interruption is one line from the first moment on."""
    leave_at_once()
    os.environ["PYTHONSAFEPATH"] = "1"  # for workers, which would load files of the current folder as libraries
    from tempograd.cli import main as run  # noqa: PLC0415  # not before an interruption is taken care of

    return run()


if __name__ == "__main__":
    sys.exit(run_from_shell())
