"""What commands read: a model in any of its forms, series of a data set or a file, explanations."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tempograd.cli.arguments import add_device, add_source, device, names
from tempograd.errors import DataError, quote, short_path

if TYPE_CHECKING:
    from torch import nn

    from tempograd.data import Dataset, Series
    from tempograd.explanation import Explanation


# The model that a command explains or evaluates, in any of the forms it comes in.

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
    from tempograd.models import load_model
    from tempograd.models.files import is_code

    here = str(Path.cwd())
    if is_code(args.model) and here not in sys.path:  # else a file beside the data could pass for a library
        sys.path.insert(0, here)
    return load_model(args.model, device(args.device), weights=args.weights, trust=args.trust)


# Series from a data set or from a file, and the arguments that say what its columns are.

COLUMNS = ("format", "id", "time", "label", "variable", "value", "channels", "classes", "align", "missing")
FILES = """Files of series end in
  .csv .tsv .parquet  tables: one row per series and step (long), per series, step and channel (melted), or per
                      series (wide); empty cells are missing values; columns with obvious names need no option
  .ts                 the text format of the UEA and UCR archives
  .npy                the series x alone
  .npz                arrays by name, of which only x is needed:
    x         the series (series, time, channel), floating point, a number in every cell or --missing mask
    mask      like x: 1 where a value was observed, 0 where it is missing
    y         labels (series,) or (series, time): classes (integers or text) or real values
    truth     like x: 1 where a value truly decided the label
    ids       distinct integers or names, one per series
    channels  one name per channel
    times     one name per time step
"""


def add_files(parser: argparse.ArgumentParser) -> None:
    """Add where data sets lie and what the columns of a table are."""
    group = parser.add_argument_group("data sets")
    group.add_argument("--split", default="test", choices=("train", "validation", "test"), help="(default: test)")
    add_source(group)
    group = parser.add_argument_group("tables (.csv, .tsv, .parquet)")
    group.add_argument("--format", choices=("long", "melted", "wide"), help="(default: what the columns say)")
    group.add_argument("--id", metavar="COLUMN", help="the series' names")
    group.add_argument("--time", metavar="COLUMN", help="the time: numbers or ISO dates")
    group.add_argument("--label", metavar="COLUMN", help="the label, which is no channel")
    group.add_argument("--variable", metavar="COLUMN", help="of a melted table: the channels' names")
    group.add_argument("--value", metavar="COLUMN", help="of a melted table: the values")
    group.add_argument(
        "--channels", type=names, metavar="A,B,…", help="which channels in which order, or their names"
    )
    group.add_argument("--classes", type=names, metavar="A,B,…", help="labels of class 0, 1, … (default: sorted)")
    group.add_argument(
        "--align",
        choices=("time", "order"),
        help="where series have gaps: one step per distinct time, or per row of a series",
    )
    group = parser.add_argument_group("arrays (.npy, .npz)")
    group.add_argument(
        "--missing",
        choices=("error", "mask"),
        help="NaN is a mistake, or a missing value as an empty cell of a table is, masked and 0 (default: error)",
    )


def read(source: str, args: argparse.Namespace, part: str | None = None, *, labels: bool = True) -> "Series":
    """Read a data set by name, or a file by its ending; ``labels=False`` leaves labels and truth alone."""
    return find(source, args, part, labels=labels)[0]


def find(
    source: str, args: argparse.Namespace, part: str | None = None, *, labels: bool = True
) -> "tuple[Series, Dataset | None]":
    """Read the same, and return the data set as well where it is one."""
    from tempograd.data import DATASETS, Series, load_dataset, read_series
    from tempograd.data.readers import ENDINGS
    from tempograd.models.files import exists

    path = Path(source)
    if source in DATASETS or not (path.suffix or exists(path)):
        part = part or args.split
        fold = 0 if part == "validation" else None
        data = load_dataset(source, root=args.root, variant=args.variant, fold=fold)
        split = getattr(data, part)
        return Series(split.x, split.y, split.mask, split.truth, split.ids, channels=data.channels), data
    if not path.name.removesuffix(".gz").lower().endswith(ENDINGS):
        raise DataError(
            f"{short_path(path)} cannot be read: files of series end in {', '.join(ENDINGS)}, and {quote(source)} "
            f"is no data set ({', '.join(sorted(DATASETS))})."
        )
    return read_series(path, **{name: getattr(args, name) for name in COLUMNS}, labels=labels), None


# Explanations that were written to files.


def load(paths: Sequence[Path]) -> "dict[str, Explanation]":
    """Read explanations of the same series, named by their methods, or by their files where methods repeat."""
    from tempograd.explanation import Explanation
    from tempograd.views.labels import labelled

    found = [Explanation.load(path) for path in paths]
    methods = [explanation.method for explanation in found]
    stems = [path.stem for path in paths]
    labels = [method if methods.count(method) == 1 else stem for method, stem in zip(methods, stems, strict=True)]
    if len(set(labels)) < len(labels):  # files of one name in several folders, or one file twice
        return labelled(found)
    return labelled(dict(zip(labels, found, strict=True)))
