"""Other series that a command learns from or compares with: ``--background``."""

import argparse
from collections.abc import Mapping, Sequence

from torch import Tensor

from tempograd.cli.inputs import read_data
from tempograd.core.errors import InputError, warn
from tempograd.core.formatting import percent
from tempograd.data import DATASETS, Series
from tempograd.explainers import EXPLAINERS
from tempograd.explanation import Explanation

Names = Sequence[str] | None
Pool = Tensor | dict[str, Tensor]


def pool_of(args: argparse.Namespace, methods: Sequence[str], channels: Names = None) -> Pool | None:
    """Return other series, to learn from or to compare with: those given, or those of the data set if needed.

    ``channels`` are those of the explained series, in whose order the others come.
    """
    source, must = args.background, [name for name in methods if EXPLAINERS[name].needs_fit]
    if source is None and not must and args.baseline != "background":
        return None
    if source is None and args.data not in DATASETS:
        what = f"{must[0]} learns from training series" if must else "--baseline background needs other series"
        raise InputError(f"{what}: pass them with --background.")
    return _read(source or args.data, args, channels)


def others_of(args: argparse.Namespace, named: Mapping[str, Explanation]) -> Pool | None:
    """Return the series whose values take the place of removed ones, and refuse to go without where some must."""
    drawn = [label for label, found in named.items() if found.background is not None and args.baseline is None]
    if args.background is None:
        if drawn or args.baseline == "background":
            what = f"{drawn[0]} compares with" if drawn else "--baseline background needs"
            raise InputError(f"{what} other series: pass them with --background.")
        return None
    return _read(args.background, args, next(iter(named.values())).channels)


def _read(source: str, args: argparse.Namespace, channels: Names) -> Pool:
    found = read_data(source, args, "train", labels=False)
    found = found.padded()
    x: Pool = found.x
    if not isinstance(x, Tensor):
        return x
    if source not in DATASETS:
        _warn_of_gaps(found)
    return x if None in (channels, found.channels) else _in_order(found, list(channels or ()))


def _in_order(found: Series, channels: list[str]) -> Tensor:
    """Return series with their channels in the order of those that are explained, by name.

    Names that have nothing in common were given by two people, and say nothing of the order.
    """
    own = list(found.channels or ())
    x: Tensor = found.x
    if own == channels or not set(own) & set(channels):
        return x
    if sorted(own) != sorted(channels) or len(set(own)) < len(own):
        raise InputError(
            f"--background has the channels {', '.join(own)}, --data {', '.join(channels)}: name those that both "
            "have with --channels."
        )
    return x[..., [own.index(name) for name in channels]]


def _warn_of_gaps(found: Series) -> None:
    """Say that cells which are missing are 0 in what series are compared with."""
    if found.mask is not None and not found.mask.all() and not found.x[~found.mask].any():
        share = percent(float((~found.mask).double().mean()))
        warn(
            f"{share} of the cells of --background are missing, and count as 0 where it is learnt from or "
            "compared with: fill them as in training, or leave such series out."
        )
