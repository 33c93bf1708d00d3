"""Where series are and which columns are what; and the arrays that a reader returns."""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tempograd.core.errors import InputError, brief, listed, quote
from tempograd.core.series import Series

if TYPE_CHECKING:
    from tempograd.data.fragments import Fragment

FORMATS, ALIGNS, MISSING = ("long", "melted", "wide"), ("time", "order"), ("error", "mask")
FILLS = ("forward", "mean", "zero")
STANDARD = "standard"
NAMES = {"channels", "units", "keep", "classes", "inputs", "fixed"}  # fields that are lists of names


def _option(help: str, default: Any = None, choices: tuple[str, ...] = ()) -> Any:  # noqa: A002  # argparse's word
    """Return a field that is an option of the shell as well."""
    return field(default=default, metadata={"help": help, "choices": choices})


@dataclass(frozen=True)
class Source:
    """Where series are, and which columns or arrays are what.

    Whatever is true of one file may be said of many: a file, a pattern, a folder and a lake of folders such as
    ``day=2026-01-31/`` are read alike, with the same fields and to the same series.

    Parameters
    ----------
    path : path, address, pattern, folder, list of these, or data frame
        ``.csv`` and ``.tsv`` (also gzipped), ``.parquet``, ``.ts``, ``.npz``, ``.npy``; any address that pyarrow
        or fsspec opens, such as ``s3://…``; frames of pandas, polars and pyarrow. Tables of many files become one
        batch of series, each file with its own.
    x : str, optional
        The column of a Parquet file that holds a whole series in each row, as a list of T lists of D numbers, or
        flat with ``shape``. By default ``"x"``, or the only column of lists.
    id, time, label : str, optional
        Columns with the series' names, the time (numbers or ISO dates) and the label. By default the ones with an
        obvious name, such as ``id``, ``time`` or ``label``. A long table without an ``id`` holds one series.
    mask : str, optional
        A column like ``x``, or a ``.npy`` file beside arrays, that tells what was observed.
    channels : tuple of str, optional
        Which channels, in which order. By default all: those of a long table as they come, those of a melted one
        sorted. Where a file does not name its channels, these are their names.
    units : tuple of str, optional
        What the channels are measured in.
    keep : tuple of str
        Columns that go along to the results of a run; folders such as ``day=…/`` make columns too.
    variable, value : str, optional
        Columns of a melted table with the channels' names and the values.
    format : {"long", "melted", "wide"}, optional
        ``"long"``: one row per series and step, one column per channel. ``"melted"``: one row per series, step and
        channel, with its value. ``"wide"``: one row per series, one column per step, one channel. By default what
        the names of the columns say.
    classes : tuple of str, optional
        Labels of class 0, 1, …, or names for them where labels are these numbers. By default whole numbers from 0
        up are classes, text and negative numbers are classes in sorted order, and other numbers are values of a
        regression.
    align : {"time", "order"}, optional
        Needed where series have gaps or times of their own. ``"time"``: one step per distinct time of the file,
        missing ones are masked. ``"order"``: the k-th row of a series is its step k.
    missing : {"error", "mask"}, optional
        What NaN in arrays is: by default a mistake; ``"mask"`` takes it for a missing value, as an empty cell of a
        table is.
    shape : tuple of int, optional
        Steps and channels, where series are flat lists.
    inputs, fixed : tuple of str, optional
        For a model that takes several: the names of the arrays of a ``.npz`` file that are its inputs, and of
        those that go along with them.
    scale : str, optional
        A file with the ``mean`` and ``std`` of each channel (``.csv`` or ``.npz``), by which values are
        standardised for the model; ``"standard"`` takes those of these series. The file's values stay ``raw``.
    fill : {"forward", "mean", "zero"}, optional
        What the model reads in missing cells, which stay masked: the last value before, the channel's mean, or 0,
        the default. ``"forward"`` takes the next value where there is none before.
    labels : bool
        Whether labels and truth are read.

    Examples
    --------
    >>> import tempograd as tg
    >>> tg.Source("machines.csv", id="machine_id", label="status")
    Source('machines.csv', id='machine_id', label='status')
    """

    path: Any
    x: str | None = _option("column with a whole series in each row (Parquet)")
    id: str | None = _option("column with the series' names")
    time: str | None = _option("column with the time of a row, numbers or ISO dates")
    label: str | None = _option("column with the labels")
    mask: str | None = _option("column, or .npy file beside arrays, that tells what was observed")
    channels: tuple[str, ...] | None = _option("which channels, in which order; their names where files have none")
    units: tuple[str, ...] | None = _option("what the channels are measured in")
    keep: tuple[str, ...] = _option("columns that go along to the results of a run", ())
    variable: str | None = _option("column of a melted table with the channels' names")
    value: str | None = _option("column of a melted table with the values")
    format: str | None = _option("what a row of a table is", None, FORMATS)
    classes: tuple[str, ...] | None = _option("names of class 0, 1, …")
    align: str | None = _option("what gaps in time mean: missing steps, or none", None, ALIGNS)
    missing: str | None = _option("what NaN in arrays is", None, MISSING)
    shape: tuple[int, int] | None = _option("steps and channels, where series are flat lists")
    inputs: tuple[str, ...] | None = _option("arrays of a .npz file that are the model's inputs")
    fixed: tuple[str, ...] | None = _option("arrays of a .npz file that go along with them")
    scale: str | None = _option(f"file with the mean and std of each channel, or {STANDARD!r}: standardise values")
    fill: str | None = _option("what the model reads in missing cells", None, FILLS)
    labels: bool = True

    def __post_init__(self) -> None:
        for each in fields(self):
            name, value = each.name, getattr(self, each.name)
            if isinstance(value, list):
                object.__setattr__(self, name, value := tuple(value))
            choices = each.metadata.get("choices")
            if choices and value not in (None, *choices):
                raise InputError(f"{name} must be {listed(choices)} or None, got {brief(value)}.")
            if name not in {"path", "shape", "labels"} and not isinstance(value, str | tuple | None):
                raise InputError(f"{name} must be a text, got {brief(value)}.")
            if name not in NAMES or value is None:
                continue
            if not isinstance(value, tuple) or not all(isinstance(part, str) for part in value):
                raise InputError(f"{name} must be a list of names, got {quote(value)}.")
            if len(set(value)) < len(value) and name != "units":
                raise InputError(f"{name} must be distinct names, got {listed(value)}.")
        if self.shape is not None and (len(self.shape) != 2 or min(self.shape) < 1):
            raise InputError(f"shape must be (time, channel), got {brief(self.shape)}.")

    def __repr__(self) -> str:
        parts = [repr(self.path) if isinstance(self.path, str) else brief(self.path)]
        usual = {each.name: each.default for each in fields(self)}
        parts += [f"{name}={value!r}" for name, value in self.plain.items() if value != usual[name]]
        return f"Source({', '.join(parts)})"

    @property
    def plain(self) -> dict[str, Any]:
        """Return all fields but the path as plain data, for a file."""
        return {each.name: getattr(self, each.name) for each in fields(self)[1:]}

    def read(self) -> Series:
        """Read all series."""
        from tempograd.data.reading import read_all  # noqa: PLC0415  # which needs this class

        return read_all(replace(self, keep=()))  # nothing goes along with them

    def fragments(self, size: int = 8_192) -> "Iterator[Fragment]":
        """List the parts that runs read one by one, of about ``size`` series, without reading these."""
        from tempograd.data.fragments import list_fragments  # noqa: PLC0415  # which needs this class

        return list_fragments(self, size)


@dataclass(frozen=True)
class Part:
    """Some series as arrays, before they are checked: what a reader returns.

    Attributes
    ----------
    ids : array, or list of str, optional
        What the series are called.
    x, mask : arrays of shape (series, time, channel)
        ``mask`` is None where all cells were observed; ``x`` is a dict of arrays for several inputs.
    kept : dict of str to pyarrow.Array
        Columns that go along.
    faults : dict of int to str
        Rows that hold no series, and why.
    steps : array of shape (series,), optional
        How many steps each series has, where they differ.
    more : dict of str to object
        What else :class:`tempograd.Series` takes: labels, times and classes, truth, units.
    """

    ids: Any
    x: Any
    mask: NDArray[np.bool_] | None = None
    kept: dict[str, Any] = field(default_factory=dict)
    faults: dict[int, str] = field(default_factory=dict)
    channels: tuple[str, ...] | None = None
    steps: NDArray[np.int64] | None = None
    more: dict[str, Any] = field(default_factory=dict)

    def rows(self, start: int, stop: int) -> "Part":
        """Return the series from ``start`` to ``stop``, as a run explains them: without what ``more`` holds."""
        taken = slice(start, stop)
        return Part(
            None if self.ids is None else self.ids[taken],
            self.x[taken],
            None if self.mask is None else self.mask[taken],
            {name: column[taken] for name, column in self.kept.items()},
            {row - start: why for row, why in self.faults.items() if start <= row < stop},
            self.channels,
        )


def read_series(path: Any, **fields: Any) -> Series:
    r"""Read series from files of one's own, or from a data frame: ``Source(path, …).read()``.

    Arrays (``.npz``, ``.npy``) are taken as they are. Tables (``.csv``, ``.tsv``, ``.parquet``, frames) hold one
    row per series and step, one per series, step and channel, or a whole series in each row; ``.ts`` is the text
    format of the UEA and UCR archives. Missing cells hold 0 in ``x``, which the model reads, and False in
    ``mask``. Series of unequal length stay a list, each of them shown to the model at its own length;
    :meth:`Series.padded` brings them to one.

    Parameters
    ----------
    path : path, address, pattern, folder, list of these, or data frame
    **fields
        Those of ``Source``: which column is what.

    Returns
    -------
    Series
        With the names of series, channels, times and classes. Whole numbers of 64 bits that name the series are
        their ``ids``. Where one of them is anything else, larger numbers included, all ids are texts.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "ward.csv"
    >>> rows = "bed,time,pulse,sodium,label", "A,0,80,140,well", "A,1,82,,well", "B,0,95,133,ill"
    >>> _ = path.write_text("\n".join(rows))
    >>> ward = read_series(path, id="bed")
    >>> ward
    Series(2 series × 2 steps × 2 channels, 2 classes)
    >>> ward.ids, ward.channels, ward.classes, ward.y
    (('A', 'B'), ('pulse', 'sodium'), ('ill', 'well'), tensor([1, 0]))
    >>> ward.mask[0]
    tensor([[ True,  True],
            [ True, False]])
    """
    return Source(path, **fields).read()


_shown = [part for part in signature(Source).parameters.values() if part.name != "keep"]  # which is for runs
read_series.__signature__ = signature(read_series).replace(parameters=_shown)  # type: ignore[attr-defined]
