"""``python -m tempograd`` is the command line."""

import sys

from tempograd._utils.progress import leave_at_once


def run_from_shell() -> int:
    """Start the command line; an interruption is one line from the first moment on."""
    leave_at_once()
    from tempograd.cli import main as run  # noqa: PLC0415  # not before an interruption is taken care of

    return run()


if __name__ == "__main__":
    sys.exit(run_from_shell())
