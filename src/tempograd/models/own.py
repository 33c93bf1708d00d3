"""Models of one's own: from code, from exported programs, from files of this library."""

import importlib
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from tempograd.errors import DataError, InputError, ModelError
from tempograd.models.checkpoint import load_classifier
from tempograd.models.programs import load_exported, load_scripted

FILES = {".safetensors", ".pt2", ".pt", ".pth", ".torchscript"}  # so that a path with a drive letter is none
SCRIPTED = {".pt", ".pth", ".torchscript", ".jit"}
NESTED = ("state_dict", "model_state_dict")  # where training programs keep the weights among other things


def load_model(
    source: str | Path, device: str | torch.device = "cpu", *, weights: str | Path | None = None
) -> nn.Module:
    """Return a model in evaluation mode.

    Parameters
    ----------
    source : str or path
        One of

        - a ``.safetensors`` file by :func:`save_model` or ``tempograd train``;
        - ``"module:callable"``, code of your own: a module to import, and in it an ``nn.Module``, or a class or
          function that is called without arguments and returns one;
        - a ``.pt2`` file by ``torch.export.save``, best exported with a dynamic batch dimension;
        - a ``.pt`` file by ``torch.jit.save`` (TorchScript).

        Code is run, and the programs of the last two are too: open only files you trust. Nothing is unpickled.
    device : str or device
        Where the model computes.
    weights : path, optional
        For ``"module:callable"``: a ``.safetensors`` or ``.pt`` file with the module's ``state_dict``.

    Examples
    --------
    >>> load_model("torch.nn:Flatten")
    Flatten(start_dim=1, end_dim=-1)
    """
    path = Path(source)
    if ":" in str(source) and not (path.exists() or path.suffix in FILES):
        return _from_code(str(source), weights).to(device).eval()
    if weights is not None:
        raise InputError(f"{path} has weights of its own: weights are for models given as module:callable.")
    if path.suffix == ".pt2":
        return load_exported(path, device)
    if path.suffix in SCRIPTED:
        return load_scripted(path, device)
    return load_classifier(path, device)


def _from_code(source: str, weights: str | Path | None) -> nn.Module:
    model = _made(source)
    if weights is None:
        return model
    state = _read_weights(Path(weights))
    try:
        missing, unexpected = model.load_state_dict(state, strict=False)
    except RuntimeError as error:  # sizes differ
        raise DataError(
            f"{weights} does not fit {source}: {str(error).splitlines()[-1].strip().rstrip('.')}."
        ) from error
    if missing or unexpected:
        parts = [f"it has no {name}" for name in missing[:3]] + [f"it has {name}" for name in unexpected[:3]]
        raise DataError(f"{weights} does not fit {source}: {', '.join(parts)}; all names must be the module's.")
    return model


def _made(source: str) -> nn.Module:
    """Import what ``module:callable`` names, and call it if it is no module yet."""
    module, _, attribute = source.partition(":")
    if module.endswith(".py"):
        raise InputError(f"Write the module's name as in an import: {Path(module).stem}:{attribute}.")
    importlib.invalidate_caches()  # so that a file written a moment ago is found
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):
            raise  # something that the user's own code imports
        raise InputError(
            f"There is no module {error.name!r} to import for {source}: run where it is, or install it."
        ) from error
    for name in attribute.split("."):
        if not hasattr(found, name):
            raise InputError(f"{module} has no {attribute}: name an nn.Module, or what returns one when called.")
        found = getattr(found, name)
    if isinstance(found, nn.Module):
        return found
    try:
        inspect.signature(found).bind()
    except TypeError as error:
        raise InputError(
            f"{source} is called without arguments to get a model, but {error}: write a function that needs none."
        ) from error
    made = found()
    if not isinstance(made, nn.Module):
        raise ModelError(f"{source} must be or return an nn.Module, got {type(made).__name__}.")
    return made


def _read_weights(path: Path) -> dict[str, Tensor]:
    """Read a state_dict, by itself or among the other things of a checkpoint."""
    try:
        if path.suffix == ".safetensors":
            return safetensors.torch.load_file(path)
        found = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise DataError(f"{path} does not exist.") from None
    except Exception as error:  # torch raises many kinds for a file that it cannot read or that holds objects
        raise _no_weights(path) from error
    for name in NESTED:
        if isinstance(found, Mapping) and isinstance(found.get(name), Mapping):
            found = found[name]
    if not isinstance(found, Mapping) or not all(isinstance(value, Tensor) for value in found.values()):
        raise _no_weights(path)
    return dict(found)


def _no_weights(path: Path) -> DataError:
    return DataError(
        f"{path} holds no weights that can be read without running code: write them with "
        "torch.save(model.state_dict(), …) or safetensors."
    )
