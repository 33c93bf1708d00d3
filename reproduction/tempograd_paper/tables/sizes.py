"""Table 7: how large the data sets are, as the loaders give them and as the paper says."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tempograd.core.errors import DataError, MissingExtraError
from tempograd.data import DATASETS, load_dataset
from tempograd_paper.labels import DATASET_LABELS
from tempograd_paper.runner.plan import variant_of
from tempograd_paper.tables.captions import ABSENT
from tempograd_paper.tables.published_numbers import published_size
from tempograd_paper.tables.sheets import Sheet, Text

PAPER = ("switch_feature", "state", "mimic3", "pam", "epilepsy", "boiler", "wafer", "freezer")
ASPECTS = ("series", "length", "channels", "classes")


@dataclass(frozen=True)
class Size:
    """Series, length, channels and classes of a data set.

    Parameters
    ----------
    dataset : str
    found : tuple of int, optional
        From the loader; None where the files are not here.
    published : tuple of int, optional
        From Table 7 of the paper; None for data sets that it does not have.
    problem : str
        Why nothing was found.
    """

    dataset: str
    found: tuple[int, ...] | None
    published: tuple[int, ...] | None
    problem: str = ""


def sizes_table(root: str | Path | None = None, datasets: Sequence[str] = (*PAPER, "physionet2012")) -> list[Size]:
    """Load data sets as the paper ran on them, and look how large they are.

    Parameters
    ----------
    root : path, optional
        The folder with the data sets' files, by default the environment variable ``TEMPOGRAD_DATA``.
    datasets : sequence of str
        Those of the paper and PhysioNet 2012 by default.
    """
    return [_size(name, root) for name in datasets]


def size_sheet(sizes: Sequence[Size]) -> Sheet:
    """Lay the sizes out, ours beside the published."""
    head = ["data set", *(text for aspect in ASPECTS for text in (aspect, "published"))]
    body = [
        (
            Text(DATASET_LABELS[size.dataset]),
            *(
                Text(ABSENT if numbers is None else str(numbers[index]))
                for index in range(len(ASPECTS))
                for numbers in (size.found, size.published)
            ),
        )
        for size in sizes
    ]
    return Sheet("Table 7", (), tuple(head), tuple(body))


def size_notes(sizes: Sequence[Size]) -> list[str]:
    """Say what is not here, and why."""
    return [f"{DATASET_LABELS[size.dataset]} is not here: {size.problem}" for size in sizes if size.problem]


def size_fields(sizes: Sequence[Size]) -> tuple[tuple[str, ...], list[dict[str, Any]]]:
    """Return names and lines of a table for programs."""
    fields = ("dataset", *ASPECTS, *(f"published_{aspect}" for aspect in ASPECTS), "problem")
    nothing = ("",) * len(ASPECTS)
    return fields, [
        dict(
            zip(
                fields,
                (size.dataset, *(size.found or nothing), *(size.published or nothing), size.problem),
                strict=True,
            )
        )
        for size in sizes
    ]


def _size(name: str, root: str | Path | None) -> Size:
    published = published_size(DATASET_LABELS[name])
    if name not in DATASETS:
        return Size(name, None, published, "no loader reads it.")
    try:
        data = load_dataset(name, root=root, variant=variant_of(name, "published"))
    except (DataError, MissingExtraError) as error:
        return Size(name, None, published, str(error))
    series = sum(len(split) for split in (data.train, data.validation, data.test) if split is not None)
    return Size(name, (series, *data.test.x.shape[1:], data.classes), published)
