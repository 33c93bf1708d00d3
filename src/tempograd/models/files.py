"""Files of models: trained ones, and those of one's own, from code and from exported programs that need trust."""

import importlib
import json
import logging
import os
import re
import threading
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from tempograd.core import validation
from tempograd.core.errors import DataError, InputError, ModelError, arg, one_line
from tempograd.core.errors import short_path as named
from tempograd.core.io import MODEL, as_path, load, read_tensors, write_tensors
from tempograd.engine.model import find_device, fingerprint
from tempograd.models.networks import MODELS, Classifier

# Before a model's file is opened: whether it is one, and whether it is whole.

exists, is_file = os.path.exists, os.path.isfile  # those of a path fail for names that no file can have
ARCHIVE = b"PK\x03\x04"  # how a zip archive begins, by which torch knows one


def begin(path: Path) -> bytes:
    """Return how a file begins; refuse what is none, such as a folder, or a pipe that may never end."""
    if not is_file(path):
        raise DataError(f"{named(path)} does not exist or is no file: name the file of a model.")
    with refusing(f"{named(path)} cannot be opened."), path.open("rb") as file:
        return file.read(len(ARCHIVE))


@contextmanager
def refusing(message: str) -> Iterator[None]:
    """Say one sentence of a file that cannot be read: torch, zipfile and safetensors raise many kinds."""
    try:
        yield
    except DataError:  # says already what is wrong
        raise
    except Exception as error:
        raise DataError(message) from error


def archived(path: Path, otherwise: str) -> list[str]:
    """Return the names of an archive's parts, which match their checksums: torch does not compare them.

    ``otherwise`` is said of what is no archive.
    """
    if begin(path) != ARCHIVE:
        raise DataError(otherwise)
    with refusing(otherwise), zipfile.ZipFile(path) as parts:
        names = parts.namelist()
        parts.filelist = [part for part in parts.filelist if part.CRC]  # 0 where torch was told to leave them out
        damaged = f"{named(path)} is damaged: a part of it does not match its checksum; fetch or write it again."
        with refusing(damaged):
            if parts.testzip() is not None:
                raise DataError(damaged)
        return names


# Keeping a trained model: one safetensors file with its weights, its configuration and its history.

FORMAT = "tempograd-model-1"


def save_model(
    model: nn.Module, path: str | Path, *, facts: Mapping[str, object] | None = None, force: bool = False
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
        raise InputError(f"Only models made by name are saved, not {type(model).__name__}: keep its state_dict.")
    history = json.dumps({**model.facts, **(facts or {})})
    header = {"format": FORMAT, "config": json.dumps(model.config), "facts": history}
    return write_tensors(path, model.state_dict(), header, MODEL, force=force)


def load_classifier(path: str | Path, device: str | torch.device = "cpu") -> Classifier:
    """Read a model written by :func:`save_model`, in evaluation mode, its weights equal to the last bit."""
    place, path = find_device(device), Path(path)
    begin(path)
    header, weights = read_tensors(path)
    if header.get("format") != FORMAT:
        raise DataError(
            f"{named(path)} is not a model saved by tempograd ({FORMAT}): give another model as code, "
            "module:callable, and its state_dict as weights."
        )
    with refusing(f"{named(path)} is damaged: its weights do not fit its configuration."):
        config = json.loads(header["config"])
        sizes = config["channels"], config["classes"]
        with torch.device("meta"):  # no memory and no random numbers for weights that are replaced at once
            model = MODELS[config["name"]](*sizes, per_step=config["per_step"], **config["options"])
        model.load_state_dict(weights, assign=True)
        model.facts = dict(json.loads(header["facts"]))
    return model.to(place).eval()


# Models kept as programs: files of ``torch.export`` and of TorchScript, which run code and need trust.

OBJECTS = ("/custom_obj_", "/opaque_obj_")  # parts of an archive that torch reads with pickle
EXPORT = ("torch.export.save", "models/model.json", "serialized_exported_program.json")  # and the ends of parts
SCRIPT = ("torch.jit.save", "/constants.pkl")
WEIGHTS_ONLY = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"

_opening = threading.Lock()  # held while what belongs to the whole process is changed


class FixedBatch(nn.Module):
    """A model that takes exactly ``size`` series at a time, made to take any number of them.

    The last batch is filled up with copies of its last series, whose outputs are left out.
    """

    def __init__(self, model: nn.Module, size: int) -> None:
        super().__init__()
        self.model, self.size = model, size

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs for the series ``x``."""
        filled = torch.cat([x, x[-1:].expand(-len(x) % self.size, *x.shape[1:])])
        return torch.cat([self.model(batch) for batch in torch.split(filled, self.size)])[: len(x)]


def load_program(path: Path, device: torch.device, *, trust: bool) -> nn.Module:
    """Read what ``torch.export.save`` or ``torch.jit.save`` wrote; it is differentiated as what it was made from.

    To open one runs code: torch evaluates expressions in the former as Python and loads compiled libraries in it,
    and modules of the latter have a method ``__setstate__``, which can write files.
    """
    exported = path.suffix.lower() == ".pt2"
    writer, *ends = EXPORT if exported else SCRIPT
    parts = archived(path, f"{named(path)} is no file of {writer}.")
    if not any(part.endswith(tuple(ends)) for part in parts):
        of_code = f"name the code they belong to as well: {arg:load.weights={path.name}}"
        raise DataError(f"{named(path)} holds no program of {writer}. If it holds weights, {of_code}.")
    if any(mark in part for part in parts for mark in OBJECTS):
        raise DataError(f"{named(path)} holds pickled Python objects, which are never opened: export it without.")
    if not trust:
        runs = f"is a program of {writer}, which can run code as soon as it is opened, so it was not loaded"
        raise DataError(f"{named(path)} {runs}: pass {arg:source.trust=True} if you trust whoever made it.")
    unreadable = (
        f"{named(path)} cannot be read by torch {torch.__version__}: it is damaged, of another version, or holds "
        f"more than tensors; write the model again with {writer}."
    )
    with refusing(unreadable), _quiet_and_safe():
        return _exported(path, device) if exported else torch.jit.load(path, device).eval()  # type: ignore[no-untyped-call]


@contextmanager
def _quiet_and_safe() -> Iterator[None]:
    """Let torch unpickle nothing but tensors, for which ``torch.export.load`` has no option, and say nothing."""
    with _opening, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        variable, level = os.environ.get(WEIGHTS_ONLY), logging.root.manager.disable
        os.environ[WEIGHTS_ONLY] = "1"
        logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(level)
            os.environ.pop(WEIGHTS_ONLY)
            os.environ |= {} if variable is None else {WEIGHTS_ONLY: variable}


def _exported(path: Path, device: torch.device) -> nn.Module:
    """Open a program of ``torch.export`` on a device, made to take any number of series."""
    program: Any = torch.export.load(path)
    inputs = program.graph_signature.user_inputs
    shapes = [node.meta["val"].shape for node in program.graph.nodes if node.name in inputs]
    size = shapes[0][0] if len(shapes) == 1 else None  # a number if it takes batches of that size alone
    if device.type != "cpu":
        from torch.export.passes import move_to_device_pass  # noqa: PLC0415  # loads much that a CPU never needs

        program = move_to_device_pass(program, device)
    module: nn.Module = program.module()
    return FixedBatch(module, size) if isinstance(size, int) else module


# Models of one's own: from code, from exported programs, from files of this library.

PROGRAMS = {".pt2", ".pt", ".pth", ".torchscript", ".jit"}
FILES = {".safetensors", *PROGRAMS}  # so that a path with a drive letter is no import
NESTED = ("state_dict", "model_state_dict")  # where training programs keep the weights among other things
IMPORT = re.compile(r"[\w-]+(\.[\w-]+)*:\w+(\.\w+)*")
SAID = 100  # characters of what torch says that a sentence can carry


def load_model(
    source: str | Path,
    device: str | torch.device = "cpu",
    *,
    weights: str | Path | None = None,
    trust: bool = False,
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
    device : str or device
        Where the model computes.
    weights : path, optional
        For ``"module:callable"``: a ``.safetensors`` or ``.pt`` file with the module's ``state_dict``.
    trust : bool, default=False
        Whether a file may run code. The files of ``torch.export`` and of TorchScript can do so as soon as they are
        opened, and are refused otherwise. No other kind of file runs code, pickled models are never opened, and
        ``"module:callable"`` is your own code.

    Examples
    --------
    >>> load_model("torch.nn:Flatten")
    Flatten(start_dim=1, end_dim=-1)
    """
    trust, place = validation.check_flag(trust, "trust"), find_device(device)
    path = as_path(source, "source")
    if is_code(source):
        return _from_code(str(source), weights).to(place).eval()
    if weights is not None:
        raise InputError(f"{named(path)} has weights of its own: weights are for models given as module:callable.")
    if path.suffix.lower() not in PROGRAMS:
        return load_classifier(path, place)
    model = load_program(path, place, trust=trust)
    _programs[model] = path.absolute()
    return model


_programs: "WeakKeyDictionary[nn.Module, Path]" = WeakKeyDictionary()


def program_of(model: object) -> Path | None:
    """Return the file that a program was loaded from, which no pickle holds; None for other models."""
    return _programs.get(model) if isinstance(model, nn.Module) else None


def is_code(source: str | Path) -> bool:
    """Tell whether a model is named by an import path rather than a file.

    Examples
    --------
    >>> is_code("my_net:Net"), is_code("model.pt2")
    (True, False)
    """
    return ":" in str(source) and not (exists(source) or Path(source).suffix.lower() in FILES)


def _from_code(source: str, weights: str | Path | None) -> nn.Module:
    try:
        model = _made(source)
    except (SystemExit, TypeError) as error:
        why = f"{type(error).__name__}: {one_line(str(error), SAID)}"
        raise ModelError(f"{named(source)} gives no nn.Module if called without arguments: {why}.") from error
    if weights is not None:
        try:
            model.load_state_dict(_read_weights(weights))
        except RuntimeError as error:  # its first line names the class alone
            odd = " ".join(str(error).partition("\n")[2].split())[:SAID].rstrip(".")
            raise DataError(f"{named(weights)} does not fit {named(source)}: {odd}.") from error
    elif source.endswith(f":{type(model).__qualname__}") and any(True for _ in model.parameters()):
        vars(model)["tempograd_created"] = fingerprint(model)()  # by a class: explanations warn of such weights
    return model


def _made(source: str) -> nn.Module:
    """Import what ``module:callable`` names, and call it if it is no module yet."""
    module, _, attribute = source.partition(":")
    if module.endswith(".py") or not IMPORT.fullmatch(source):
        raise InputError(f"{named(source)} is no file: write module:callable as in an import, such as my_net:Net.")
    importlib.invalidate_caches()  # so that a file written a moment ago is found
    try:
        imported = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):
            raise  # something that the user's own code imports
        missing = f"There is no module {named(str(error.name))!r} for {named(source)}"
        raise InputError(f"{missing}: run where it is, or install it.") from error
    try:
        found = attrgetter(attribute)(imported)
    except AttributeError as error:
        raise InputError(f"{named(module)} has no {named(attribute)}: name an nn.Module or its maker.") from error
    made = found() if callable(found) and not isinstance(found, nn.Module) else found
    if not isinstance(made, nn.Module):
        raise ModelError(
            f"{source} must be or return an nn.Module, got {type(made).__name__}: other functions and estimators "
            "are explained in Python, by tg.explain."
        )
    return made


def _read_weights(source: str | Path) -> dict[str, Tensor]:
    """Read a state_dict, by itself or among the other things of a checkpoint."""
    path = as_path(source, "weights")
    none = (
        f"{named(path)} holds no weights that can be read without running code: write them with "
        "torch.save(model.state_dict(), …) or safetensors."
    )
    if begin(path) == ARCHIVE:
        archived(path, none)
    with refusing(none), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, about files that are refused here
        if path.suffix.lower() == ".safetensors":
            return load(path)[1]
        found = torch.load(path, map_location="cpu", weights_only=True)
        for name in NESTED:
            found = found[name] if isinstance(found.get(name), Mapping) else found
        if all(isinstance(name, str) and isinstance(value, Tensor) for name, value in found.items()):
            return dict(found)
    raise DataError(none)
