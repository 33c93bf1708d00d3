"""The model that a command explains or evaluates, in any of the forms it comes in."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tempograd.cli.arguments import add_device

if TYPE_CHECKING:
    from torch import nn

FORMS = """Models are
  model.safetensors  by 'tempograd train' or tempograd.save_model
  module:callable    your own code: an nn.Module, or what returns one when called without arguments; it is
                     imported from the current folder and run, --weights FILE loads its state_dict
  model.pt2          by torch.export.save, best exported with a dynamic batch dimension; needs --trust
  model.pt           TorchScript, by torch.jit.save; needs --trust
The last two can run code as soon as they are opened: pass --trust for files of people you trust.

"""


def add_model(parser: argparse.ArgumentParser, *, needed: bool = True) -> None:
    """Add the model, its weights, whether it may run code, and where it computes."""
    group = parser.add_argument_group("model")
    group.add_argument("--model", required=needed, metavar="MODEL", help="a file, or module:callable (see below)")
    group.add_argument("--weights", type=Path, metavar="FILE", help=".safetensors or .pt, for module:callable")
    group.add_argument("--trust", action="store_true", help="open a .pt2 or TorchScript file, which can run code")
    add_device(group)


def read_model(args: argparse.Namespace) -> "nn.Module":
    """Load the model; code of one's own is looked for in the current folder as well."""
    from tempograd.cli.arguments import device
    from tempograd.models import load_model
    from tempograd.models.files import is_code

    here = str(Path.cwd())
    if is_code(args.model) and here not in sys.path:  # else a file beside the data could pass for a library
        sys.path.insert(0, here)
    return load_model(args.model, device(args.device), weights=args.weights, trust=args.trust)
