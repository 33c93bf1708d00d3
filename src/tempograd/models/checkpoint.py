"""Keeping a trained model: one safetensors file with its weights, its configuration and its history."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from tempograd.errors import DataError, InputError
from tempograd.files import write_atomically
from tempograd.kinds import MODEL
from tempograd.models.base import MODELS, Classifier
from tempograd.models.devices import find_device
from tempograd.models.opening import begin, named
from tempograd.tensor_files import load

FORMAT = "tempograd-model-1"
PICKLES = {".ckpt", ".pkl", ".pickle"}


def save_model(
    model: nn.Module, path: str | Path, *, facts: Mapping[str, Any] | None = None, force: bool = False
) -> Path:
    """Write a model made by :func:`~tempograd.models.build` or :func:`~tempograd.models.train` to one file.

    Parameters
    ----------
    model : Classifier
        Modules of other kinds have no configuration to rebuild them from; keep their ``state_dict`` instead.
    path : path
        The file appears whole or not at all. A model that was saved there before is replaced, another file only
        with ``force=True``.
    facts : mapping, optional
        Plain JSON values to keep beside those in ``model.facts``, for instance the accuracies.
    force : bool, optional
        Overwrite a file that is no model.

    Examples
    --------
    >>> import tempfile
    >>> from tempograd.models import build
    >>> path = Path(tempfile.mkdtemp()) / "model.safetensors"
    >>> load_classifier(save_model(build("cnn", 2, 3, hidden=4), path, facts={"seed": 7})).facts
    {'seed': 7}
    """
    if not isinstance(model, Classifier):
        raise InputError(
            f"Only models made by name can be saved, not {type(model).__name__}; keep its state_dict instead."
        )
    try:
        history = json.dumps({**model.facts, **(facts or {})})
    except (TypeError, ValueError) as error:
        raise InputError(f"facts must be plain JSON values: {error}.") from error
    header = {"format": FORMAT, "config": json.dumps(model.config), "facts": history}
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    return write_atomically(
        path, lambda temporary: save_file(weights, temporary, metadata=header), kind=MODEL, force=force
    )


def load_classifier(path: str | Path, device: str | torch.device = "cpu") -> Classifier:
    """Read a model written by :func:`save_model`, in evaluation mode, its weights equal to the last bit."""
    place, path = find_device(device), Path(path)
    weights, header = _read(path)
    if header.get("format") != FORMAT:
        raise DataError(f"{named(path)} is not a model saved by tempograd ({FORMAT}).")
    try:
        model = _rebuild(json.loads(header["config"]), weights)
        model.facts = dict(json.loads(header["facts"]))
    except Exception as error:  # a damaged configuration can make a model, torch or json raise anything
        raise DataError(f"{named(path)} is damaged: its weights do not fit its configuration.") from error
    return model.to(place).eval()


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    begin(path)
    if path.suffix.lower() in PICKLES:
        raise DataError(
            f"{named(path)} may run code when it is opened, so it is not read: give the model as code, "
            "module:callable, and its state_dict as weights."
        )
    try:
        header, weights = load(path)
        return weights, header
    except Exception as error:  # safetensors and torch raise many kinds for damaged headers
        raise DataError(
            f"{named(path)} is not a readable safetensors file: it is damaged or of another kind."
        ) from error


def _rebuild(config: dict[str, Any], weights: dict[str, Tensor]) -> Classifier:
    with torch.device("meta"):  # no memory and no random numbers for weights that are replaced at once
        model = MODELS[config["name"]](
            config["channels"], config["classes"], per_step=config["per_step"], **config["options"]
        )
    model.load_state_dict(weights, assign=True)
    return model
