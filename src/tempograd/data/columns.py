"""Which columns of a table, or arrays of a file, are what; and series as the arrays that a reader returns."""

from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args, get_origin

import numpy as np
from numpy.typing import NDArray

from tempograd.core.errors import InputError, brief, listed
from tempograd.core.validation import check_choice, check_names


def _option(help: str, default: Any = None) -> Any:  # noqa: A002  # argparse's word
    """Return a field that is an option of the shell as well."""
    return field(default=default, metadata={"help": help})


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Which columns of a table, or arrays of a file, are what: the fields of :class:`tempograd.Source`."""

    x: str | None = _option("column with a whole series in each row (Parquet)")
    id: str | None = _option("column with the series' names; with folders of a lake, as day,machine")
    time: str | None = _option("column with the time of a row, numbers or ISO dates")
    label: str | None = _option("column with the labels")
    mask: str | None = _option("column with what was observed, beside one with a whole series in each row")
    channels: tuple[str, ...] | None = _option("which channels, in which order; their names where files have none")
    units: tuple[str, ...] | None = _option("what the channels are measured in")
    keep: tuple[str, ...] = _option("columns that go along to the results of a run", ())
    format: Literal["long", "wide"] | None = _option("what a row of a table is: a step, or a whole series")
    classes: tuple[str, ...] | None = _option("names of class 0, 1, …")
    align: Literal["time", "order"] | None = _option("what gaps in time mean: missing steps, or none")
    missing: Literal["error", "mask"] | None = _option("what NaN in arrays is")
    shape: tuple[int, int] | None = _option("steps and channels, where series are flat lists")
    scale: str | None = _option("table with the mean and std of each channel, by which values are standardised")
    fill: Literal["forward", "zero"] | None = _option("what the model reads in missing cells")
    labels: bool = True

    def __post_init__(self) -> None:
        vars(self).update({name: tuple(value) for name, value in vars(self).items() if isinstance(value, list)})
        for name in ("channels", "units", "keep", "classes"):
            names = check_names(getattr(self, name), None, name)
            if names is not None and len(set(names)) < len(names) and name != "units":
                raise InputError(f"{name} must be distinct names, got {listed(names)}.")
            vars(self)[name] = names
        for each in fields(Columns):
            for kind in get_args(each.type):
                if get_origin(kind) is Literal and getattr(self, each.name) is not None:
                    check_choice(getattr(self, each.name), each.name, get_args(kind))
        shape = self.shape
        if shape is not None and not (isinstance(shape, tuple) and len(shape) == 2 and min(shape) > 0):
            raise InputError(f"shape must be (time, channel), got {brief(self.shape)}.")

    @property
    def plain(self) -> dict[str, Any]:
        """Return these fields as plain data, for a file."""
        return {each.name: getattr(self, each.name) for each in fields(Columns)}


@dataclass(frozen=True)
class Part:
    """Some series as arrays, before they are checked: what a reader returns.

    Attributes
    ----------
    ids : array, list of str, or pyarrow.Array in a run, optional
        What the series are called.
    x, mask : arrays of shape (series, time, channel)
        ``mask`` is None where all cells were observed.
    kept : dict of str to pyarrow.Array
        Columns that go along.
    faults : dict of int to str
        Rows that hold no series, and why.
    steps : array of shape (series,), optional
        How many steps each series has, where they differ.
    more : dict of str to object
        What else :class:`tempograd.Series` takes: labels, times and classes, truth, units.
    keys : array of int64
        What draws depend on, in a run.
    """

    ids: Any
    x: Any
    mask: NDArray[np.bool_] | None = None
    kept: dict[str, Any] = field(default_factory=dict)
    faults: dict[int, str] = field(default_factory=dict)
    channels: tuple[str, ...] | None = None
    steps: NDArray[np.int64] | None = None
    more: dict[str, Any] = field(default_factory=dict)
    keys: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))

    def __len__(self) -> int:
        return len(self.x)
