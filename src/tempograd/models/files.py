"""Keeping a trained model in one safetensors file, and opening files of models with care."""

import json
import stat
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from tempograd._utils.io import MODEL, load, write_atomically
from tempograd.engine.model import find_device
from tempograd.errors import DataError, InputError, TempogradError, short_path
from tempograd.models.networks import MODELS, Classifier

# Before a model's file is opened: whether it is one, whether it is whole, and whether it is trusted.

ARCHIVE = b"PK\x03\x04"  # how a zip archive begins, by which torch knows one
PIECE = 1 << 20  # bytes read at a time
LONG = 120  # characters of a path that a sentence can carry


def named(path: str | Path) -> str:
    """Return a path, or what may be one, as it can stand in a sentence of one line."""
    return short_path(path, LONG)


def exists(path: Path) -> bool:
    """Tell whether there is something at a path; a name that no file can have is none."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def begin(path: Path) -> bytes:
    """Return how a file begins; refuse what is none or cannot be read: a folder, or a pipe that may never end."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISREG(mode):
            with path.open("rb") as file:
                return file.read(len(ARCHIVE))
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"{named(path)} does not exist.") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no file can have this name"
        raise DataError(f"{named(path)} cannot be opened: {reason}.") from error
    kind = "a folder" if stat.S_ISDIR(mode) else "a device or a pipe"
    raise DataError(f"{named(path)} is {kind}: name the file of a model.")


def require_trust(path: Path, kind: str, why: str, *, trust: bool) -> None:
    """Refuse a file that can run code, unless the caller says that it may."""
    if not trust:
        raise DataError(
            f"{named(path)} is {kind}, {why}, so it was not loaded: pass trust=True if you trust whoever made it."
        )


@contextmanager
def archive(path: Path, otherwise: str) -> Iterator[zipfile.ZipFile]:
    """Open a zip archive to look at its parts; ``otherwise`` is said of what is none."""
    if begin(path) != ARCHIVE:
        raise DataError(otherwise)
    try:
        with zipfile.ZipFile(path) as found:
            yield found
    except TempogradError:
        raise
    except Exception as error:  # zipfile raises many kinds for damaged headers
        raise DataError(otherwise) from error


def require_whole(parts: zipfile.ZipFile, path: Path) -> None:
    """Compare the parts of an archive with their checksums, which torch does not do."""
    for part in parts.infolist():
        if part.CRC == 0:  # not kept: torch.serialization.set_crc32_options(False)
            continue
        try:
            with parts.open(part) as file:
                while file.read(PIECE):
                    pass
        except Exception as error:  # zipfile and zlib raise many kinds
            raise DataError(
                f"{named(path)} is damaged: a part of it does not match its checksum; fetch or write it again."
            ) from error


# Keeping a trained model: one safetensors file with its weights, its configuration and its history.

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
