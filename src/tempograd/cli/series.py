"""Series from a data set or from a file, and the arguments that say what its columns are."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tempograd.cli.arguments import add_source, names

if TYPE_CHECKING:
    from tempograd.data import Dataset, Series

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
    from tempograd.errors import DataError, quote, short_path
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
