"""``python -m tempograd`` is the command line."""

import sys

from tempograd.cli import main

if __name__ == "__main__":
    sys.exit(main())
