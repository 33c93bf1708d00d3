"""Models kept as programs: files of ``torch.export`` and of TorchScript."""

import os
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tempograd.errors import DataError, ModelError, warn

OBJECTS = ("/custom_obj_", "/opaque_obj_")  # parts of an archive that torch reads with pickle, which may run code


class FixedBatch(nn.Module):
    """A model that takes exactly ``size`` series at a time, made to take any number of them.

    The last batch is filled up with copies of its last series, whose answers are left out.
    """

    def __init__(self, model: nn.Module, size: int) -> None:
        super().__init__()
        self.model, self.size = model, size

    def forward(self, x: Tensor) -> Tensor:
        """Return the answers to the series ``x`` (N, T, D)."""
        filled = torch.cat([x, x[-1:].expand(-len(x) % self.size, -1, -1)])
        return torch.cat([self.model(batch) for batch in torch.split(filled, self.size)])[: len(x)]


def load_exported(path: Path, device: str | torch.device) -> nn.Module:
    """Read what ``torch.export.save`` wrote; it answers and is differentiated as the module it was made from."""
    names = _names(path, f"{path} is no file of torch.export.save.")
    if not any(name.endswith(("models/model.json", "serialized_exported_program.json")) for name in names):
        raise DataError(f"{path} holds no program of torch.export: write one with torch.export.save.")
    if any(mark in name for name in names for mark in OBJECTS):
        raise DataError(
            f"{path} holds Python objects, which may run code when they are opened, so it is not read."
        )
    try:
        with _weights_only(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The given buffer is not writable")  # torch's own, before 2.12
            program = torch.export.load(path)
    except Exception as error:  # torch raises many kinds for a file that it cannot read or that holds objects
        raise DataError(
            f"{path} cannot be read by torch {torch.__version__} without running code from it: export the model "
            "again with torch.export.save."
        ) from error
    _refuse_training(path, program)
    batch = _batch(path, program)
    if torch.device(device).type != "cpu":
        from torch.export.passes import move_to_device_pass  # noqa: PLC0415  # loads much that a CPU never needs

        program = move_to_device_pass(program, torch.device(device))
    model = program.module()
    if batch is None:
        return model
    warn(
        f"{path} was exported for batches of {batch} series, which is slow where more would fit: export it with "
        "dynamic_shapes=({0: torch.export.Dim('batch')},)."
    )
    return FixedBatch(model, batch)


def load_scripted(path: Path, device: str | torch.device) -> nn.Module:
    """Read what ``torch.jit.save`` wrote."""
    names = _names(path, f"{path} is no TorchScript file.")
    if not any(name.endswith("/constants.pkl") for name in names):
        raise DataError(
            f"{path} holds no TorchScript module. If it holds weights, name the code they belong to as well: "
            f"load_model('module:callable', weights='{path}'), --model module:callable --weights {path}."
        )
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*torch.jit.load.* is deprecated", DeprecationWarning)
            model = torch.jit.load(path, map_location=torch.device(device))  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        raise DataError(f"{path} is damaged, or not a TorchScript file that torch can read.") from error
    return model.eval()  # type: ignore[no-any-return]  # torch.jit has no types


def _names(path: Path, otherwise: str) -> list[str]:
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except FileNotFoundError:
        raise DataError(f"{path} does not exist.") from None
    except (zipfile.BadZipFile, OSError) as error:
        raise DataError(otherwise) from error


@contextmanager
def _weights_only() -> Iterator[None]:
    """Let torch unpickle nothing but tensors; ``torch.export.load`` has no option for it."""
    name = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _refuse_training(path: Path, program: Any) -> None:
    """Refuse a program whose dropout or batch normalisation was switched on for good when it was written."""
    for node in program.graph.nodes:
        schema = getattr(node.target, "_schema", None)
        places = {argument.name: place for place, argument in enumerate(schema.arguments)} if schema else {}
        for name in ("train", "training"):
            place = places.get(name)
            if place is not None and place < len(node.args) and node.args[place] is True:
                raise ModelError(
                    f"{path} was exported in training mode, so its dropout or batch normalisation cannot be "
                    "switched off: call model.eval() and export it again."
                )


def _batch(path: Path, program: Any) -> int | None:
    """Return the one size of a batch that a program takes, None if it takes any."""
    inputs = program.graph_signature.user_inputs
    shapes = [node.meta["val"].shape for node in program.graph.nodes if node.name in inputs]
    if len(inputs) != 1 or len(shapes) != 1 or len(shapes[0]) != 3:
        raise ModelError(
            f"{path} takes {len(inputs)} inputs, the first of {len(shapes[0]) if shapes else 0} axes: tempograd "
            "explains models of one input (batch, time, channel)."
        )
    size = shapes[0][0]
    return size if isinstance(size, int) else None
