"""Plans of a few quick cells on a toy data set, and what tests of the runner ask about its folder."""

import json
from pathlib import Path

import safetensors
import torch

from tempograd.data import Dataset, Series
from tempograd.data.datasets import DATASETS, Loader, dataset
from tempograd_paper.runner import Measure, Plan, Row

MEASURES = (
    Measure("cpd_zero", "cpd", 0.1, "zero"),
    Measure("cpd_average", "cpd", 5, "average"),
    Measure("accuracy", "accuracy", 0.2),
    Measure("aup", "aup"),
)

PLAN = """title = "A plan"
datasets = ["toy"]
models = ["gru"]
folds = [0, 1]
series = 3
protocol = "fair"
explainers = ["integrated_gradients", "occlusion"]
metrics = [{ metric = "cpd", k = 0.1 }]

[training]
epochs = 1
learning_rate = 0.01

[sizes]
hidden = 4
"""

if "toy" not in DATASETS:

    @dataset("toy", ("only",))
    def load_toy(*, root=None, variant=None, fold=None):
        """Forty series of twelve steps, whose labels are the sign of the first channel."""
        x = torch.randn(40, 12, 2, generator=torch.Generator().manual_seed(0))
        truth = torch.zeros_like(x, dtype=torch.bool)
        truth[..., 0] = True
        whole = Series(x, (x[..., 0] > 0).long(), truth=truth)
        parts = whole.take(slice(20)), whole.take(slice(20, None))
        return Dataset("toy", parts[0], None, parts[1], 2, ("a", "b")).fold(fold)


def load_ward(*, root=None, variant=None, fold=None):
    """Forty series of fifteen steps with gaps, whose one label is the sign of the sum of what was observed."""
    random = torch.Generator().manual_seed(1)
    x = torch.randn(40, 15, 2, generator=random)
    mask = torch.rand(x.shape, generator=random) < 0.7
    whole = Series(x, ((x * mask).sum((1, 2)) > 0).long(), mask=mask)
    parts = whole.take(slice(30)), whole.take(slice(30, None))
    return Dataset("ward", parts[0], None, parts[1], 2, ("a", "b")).fold(fold)


WARD = Loader(load_ward, ("only",))  # cells hold numbers where nothing was observed, so that masks matter


def plan(protocol="fair", methods=("integrated_gradients", "occlusion", "random"), **changes):
    """Three methods on one fold of the toy with a tiny model, unless said otherwise."""
    settings = {
        "datasets": ("toy",),
        "models": ("gru",),
        "folds": (0,),
        "series": 3,
        "training": (("epochs", 1), ("learning_rate", 0.01)),
        "sizes": (("hidden", 4),),
    }
    rows = tuple(Row(method, method) for method in methods)
    return Plan("small", "small", rows=rows, measures=MEASURES, protocol=protocol, **(settings | changes))


def many_cells():
    """Return twenty cells of some length each, which leave 70 files."""
    methods = ("timing", "integrated_gradients", "lime", "random")
    return plan(methods=methods, folds=(0, 1, 2, 3, 4), series=20).cells()


def content(path: Path) -> tuple[dict, bytes]:
    """Return a record's header without the wall times, and the bytes of its tensors."""
    with safetensors.safe_open(path, "np") as file:
        header = json.loads(file.metadata()["tempograd"])
        body = b"".join(name.encode() + file.get_tensor(name).tobytes() for name in sorted(file.keys()))
    del header["facts"]["seconds"]
    return header, body


def contents(folder: Path) -> dict[str, tuple[dict, bytes]]:
    return {path.name: content(path) for path in sorted((folder / "records").glob("*.safetensors"))}
