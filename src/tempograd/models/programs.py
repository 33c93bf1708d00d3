"""Models kept as programs: files of ``torch.export`` and of TorchScript, which run code and need trust."""

import logging
import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tempograd.errors import DataError, ModelError, TempogradError, warn
from tempograd.models.opening import archive, named, require_trust, require_whole

OBJECTS = ("/custom_obj_", "/opaque_obj_")  # parts of an archive that torch reads with pickle
EXPORTED = ("models/model.json", "serialized_exported_program.json")

_environment = threading.Lock()  # held while a variable is changed


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


def load_exported(path: Path, device: torch.device, *, trust: bool) -> nn.Module:
    """Read what ``torch.export.save`` wrote; it answers and is differentiated as the module it was made from.

    To open one runs code: torch evaluates the expressions in it as Python, and loads compiled libraries in it.
    """
    with archive(path, f"{named(path)} is no file of torch.export.save.") as parts:
        names = parts.namelist()
        if not any(name.endswith(EXPORTED) for name in names):
            raise DataError(f"{named(path)} holds no program of torch.export: write one with torch.export.save.")
        if any(mark in name for name in names for mark in OBJECTS):
            raise DataError(
                f"{named(path)} holds pickled Python objects, which are never opened: export a model without them."
            )
        require_trust(
            path, "a program of torch.export", "which can run any code as soon as it is opened", trust=trust
        )
        require_whole(parts, path)
    try:
        with _weights_only(), _silent():
            program = torch.export.load(path)
            _refuse_training(path, program)
            batch = _batch(path, program)
            model: nn.Module = _on_device(program, device).module()
    except TempogradError:
        raise
    except Exception as error:  # torch raises many kinds for a file that it cannot read or that holds objects
        raise DataError(
            f"{named(path)} cannot be read by torch {torch.__version__}: it is damaged, of another version, or "
            "holds more than tensors; export the model again with torch.export.save."
        ) from error
    if batch is None:
        return model
    warn(
        f"{named(path)} was exported for batches of {batch} series, which is slow where more would fit: export it "
        "with dynamic_shapes=({0: torch.export.Dim('batch')},)."
    )
    return FixedBatch(model, batch)


def load_scripted(path: Path, device: torch.device, *, trust: bool) -> nn.Module:
    """Read what ``torch.jit.save`` wrote.

    To open one may run code: the method ``__setstate__`` of its modules, which can write files.
    """
    with archive(path, f"{named(path)} is no TorchScript file.") as parts:
        if not any(name.endswith("/constants.pkl") for name in parts.namelist()):
            raise DataError(
                f"{named(path)} holds no TorchScript module. If it holds weights, name the code they belong to as "
                f"well: load_model('module:callable', weights=…), --model module:callable --weights {named(path)}."
            )
        require_trust(path, "a TorchScript program", "which can write files as soon as it is opened", trust=trust)
        require_whole(parts, path)
    try:
        with _silent():
            model = torch.jit.load(path, map_location=device)  # type: ignore[no-untyped-call]
            return model.eval()  # type: ignore[no-any-return]  # torch.jit has no types
    except Exception as error:  # torch raises many kinds, also where its own message is no text
        raise DataError(f"{named(path)} is damaged, or not a TorchScript file that torch can read.") from error


@contextmanager
def _weights_only() -> Iterator[None]:
    """Let torch unpickle nothing but tensors; ``torch.export.load`` has no option for it."""
    name = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
    with _environment:
        before = os.environ.get(name)
        os.environ[name] = "1"
        try:
            yield
        finally:
            if before is None:
                del os.environ[name]
            else:
                os.environ[name] = before


@contextmanager
def _silent() -> Iterator[None]:
    """Keep what torch logs and warns of in this thread to itself: what goes wrong is said in one sentence."""
    thread = threading.get_ident()
    loggers = [logging.getLogger(name) for name in logging.root.manager.loggerDict if name.startswith("torch")]
    handlers = {handler for logger in (logging.root, *loggers) for handler in logger.handlers}

    def elsewhere(record: logging.LogRecord) -> bool:
        return record.thread != thread or not record.name.startswith("torch")

    for handler in handlers:
        handler.addFilter(elsewhere)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for handler in handlers:
            handler.removeFilter(elsewhere)


def _on_device(program: Any, device: torch.device) -> Any:
    if device.type == "cpu":
        return program
    from torch.export.passes import move_to_device_pass  # noqa: PLC0415  # loads much that a CPU never needs

    return move_to_device_pass(program, device)


def _refuse_training(path: Path, program: Any) -> None:
    """Refuse a program whose dropout or batch normalisation was switched on for good when it was written."""
    for node in program.graph.nodes:
        schema = getattr(node.target, "_schema", None)
        places = {argument.name: place for place, argument in enumerate(schema.arguments)} if schema else {}
        for name in ("train", "training"):
            place = places.get(name)
            if place is not None and place < len(node.args) and node.args[place] is True:
                raise ModelError(
                    f"{named(path)} was exported in training mode, so its dropout or batch normalisation cannot "
                    "be switched off: call model.eval() and export it again."
                )


def _batch(path: Path, program: Any) -> int | None:
    """Return the one size of a batch that a program takes, None if it takes any."""
    inputs = program.graph_signature.user_inputs
    shapes = [node.meta["val"].shape for node in program.graph.nodes if node.name in inputs]
    if len(inputs) != 1 or len(shapes) != 1 or len(shapes[0]) != 3:
        raise ModelError(
            f"{named(path)} takes {len(inputs)} inputs, the first of {len(shapes[0]) if shapes else 0} axes: "
            "tempograd explains models of one input (batch, time, channel)."
        )
    size = shapes[0][0]
    return size if isinstance(size, int) else None
