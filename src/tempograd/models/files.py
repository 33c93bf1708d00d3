"""Files of models: trained ones, and those of one's own, from code and from exported programs that need trust."""

import importlib
import inspect
import json
import logging
import os
import re
import stat
import threading
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from tempograd.core.errors import DataError, InputError, ModelError, arg, one_line, warn
from tempograd.core.errors import short_path as named
from tempograd.core.io import MODEL, load, write_atomically
from tempograd.engine.model import find_device, fingerprint
from tempograd.models.networks import MODELS, Classifier

# Before a model's file is opened: whether it is one, whether it is whole, and whether it is trusted.

ARCHIVE = b"PK\x03\x04"  # how a zip archive begins, by which torch knows one


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
            f"{named(path)} is {kind}, {why}, so it was not loaded: pass {arg:source.trust=True} if you trust "
            "whoever made it."
        )


@contextmanager
def refusing(message: str) -> Iterator[None]:
    """Say one sentence of a file that cannot be read: torch, zipfile and safetensors raise many kinds."""
    try:
        yield
    except (DataError, ModelError):  # says already what is wrong
        raise
    except Exception as error:
        raise DataError(message) from error


@contextmanager
def archive(path: Path, otherwise: str) -> Iterator[zipfile.ZipFile]:
    """Open a zip archive to look at its parts; ``otherwise`` is said of what is none."""
    if begin(path) != ARCHIVE:
        raise DataError(otherwise)
    with refusing(otherwise), zipfile.ZipFile(path) as found:
        yield found


def require_whole(parts: zipfile.ZipFile, path: Path) -> None:
    """Compare the parts of an archive with their checksums, which torch does not do."""
    said = f"{named(path)} is damaged: a part of it does not match its checksum; fetch or write it again."
    with refusing(said):
        for part in parts.infolist():
            if part.CRC:  # 0 is none: torch.serialization.set_crc32_options(False)
                with parts.open(part) as file:
                    while file.read(1 << 20):  # bounded memory: a small file may unpack to a huge one
                        pass


# Keeping a trained model: one safetensors file with its weights, its configuration and its history.

FORMAT = "tempograd-model-1"
PICKLES = {".ckpt", ".pkl", ".pickle"}


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
    begin(path)
    if path.suffix.lower() in PICKLES:
        raise DataError(
            f"{named(path)} may run code when it is opened, so it is not read: give the model as code, "
            "module:callable, and its state_dict as weights."
        )
    with refusing(f"{named(path)} is not a readable safetensors file: it is damaged or of another kind."):
        header, weights = load(path)
    if header.get("format") != FORMAT:
        raise DataError(f"{named(path)} is not a model saved by tempograd ({FORMAT}).")
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
EXPORTED = ("models/model.json", "serialized_exported_program.json")

_environment = threading.Lock()  # held while a variable is changed


class FixedBatch(nn.Module):
    """A model that takes exactly ``size`` series at a time, made to take any number of them.

    The last batch is filled up with copies of its last series, whose outputs are left out.
    """

    def __init__(self, model: nn.Module, size: int) -> None:
        super().__init__()
        self.model, self.size = model, size

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs for the series ``x`` (N, T, D)."""
        filled = torch.cat([x, x[-1:].expand(-len(x) % self.size, -1, -1)])
        return torch.cat([self.model(batch) for batch in torch.split(filled, self.size)])[: len(x)]


def load_exported(path: Path, device: torch.device, *, trust: bool) -> nn.Module:
    """Read what ``torch.export.save`` wrote; it runs and is differentiated as the module it was made from.

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
    unreadable = (
        f"{named(path)} cannot be read by torch {torch.__version__}: it is damaged, of another version, or "
        "holds more than tensors; export the model again with torch.export.save."
    )
    with refusing(unreadable), _weights_only(), _silent():
        program = torch.export.load(path)
        _refuse_training(path, program)
        batch = _batch(path, program)
        model: nn.Module = _on_device(program, device).module()
    if batch is None:
        return model
    warn(
        f"{named(path)} was exported for batches of {batch} series, which is slow where more would fit: export it "
        "with dynamic_shapes=({0: torch.export.Dim.AUTO},)."
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
                f"well: {arg:load.weights={path.name}}."
            )
        require_trust(path, "a TorchScript program", "which can write files as soon as it is opened", trust=trust)
        require_whole(parts, path)
    with refusing(f"{named(path)} is damaged, or not a TorchScript file that torch can read."), _silent():
        model = torch.jit.load(path, map_location=device)  # type: ignore[no-untyped-call]
        return model.eval()  # type: ignore[no-any-return]  # torch.jit has no types


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
            os.environ.pop(name)
            os.environ |= {} if before is None else {name: before}


@contextmanager
def _silent() -> Iterator[None]:
    """Keep what is logged and warned of to itself: what goes wrong is said in one sentence."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


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


# Models of one's own: from code, from exported programs, from files of this library.

SCRIPTED = {".pt", ".pth", ".torchscript", ".jit"}
FILES = {".safetensors", ".pt2", *SCRIPTED}  # so that a path with a drive letter is no import
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
    if not isinstance(source, (str, Path)):
        raise InputError(f"A model is loaded from a file or from 'module:callable', got {type(source).__name__}.")
    if not isinstance(trust, bool):
        raise InputError(f"trust must be True or False, got {type(trust).__name__}.")
    path, place = Path(source), find_device(device)
    if is_code(source):
        return _from_code(str(source), weights).to(place).eval()
    if weights is not None:
        raise InputError(f"{named(path)} has weights of its own: weights are for models given as module:callable.")
    ending = path.suffix.lower()
    if ending != ".pt2" and ending not in SCRIPTED:
        return load_classifier(path, place)
    model = (load_exported if ending == ".pt2" else load_scripted)(path, place, trust=trust)
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
    path = Path(source)
    return ":" in str(source) and not (exists(path) or path.suffix.lower() in FILES)


def _from_code(source: str, weights: str | Path | None) -> nn.Module:
    model = make_model(source)
    if weights is not None:
        give_weights(model, _read_weights(weights), weights, source)
    elif source.endswith(f":{type(model).__qualname__}") and any(True for _ in model.parameters()):
        vars(model)["tempograd_created"] = fingerprint(model)()  # by a class: explanations warn of such weights
    return model


def give_weights(
    model: nn.Module, state: Mapping[str, Tensor], weights: str | Path, source: str, *, assign: bool = False
) -> None:
    """Give a module made by ``source`` its weights; one sentence if they are those of another."""
    try:
        missing, unexpected = model.load_state_dict(state, strict=False, assign=assign)
    except RuntimeError as error:  # sizes differ
        said = str(error).splitlines()[-1].strip().rstrip(".")[:SAID]
        raise DataError(f"{named(weights)} does not fit {named(source)}: {said}.") from error
    if missing or unexpected:
        parts = [f"it has no {name[:SAID]}" for name in missing[:2]]
        parts += [f"it has {name[:SAID]}" for name in unexpected[:1]]
        raise DataError(
            f"{named(weights)} does not fit {named(source)}: {', '.join(parts)}; all names must be the module's."
        )


def make_model(source: str) -> nn.Module:
    """Import what ``module:callable`` names, and call it if it is no module yet."""
    module, _, attribute = source.partition(":")
    if module.endswith(".py"):
        raise InputError(f"Write the module's name as in an import: {Path(module).stem}:{attribute}.")
    if not IMPORT.fullmatch(source):
        raise InputError(
            f"{named(source)} is no file, and no model in code: write module:callable, as my_net:Net."
        )
    try:
        found = _imported(module, source)
        for name in attribute.split("."):
            if not hasattr(found, name):
                raise InputError(
                    f"{named(module)} has no {named(attribute)}: name an nn.Module, or what returns one if called."
                )
            found = getattr(found, name)
        made = found if isinstance(found, nn.Module) else _called(found, source)
    except SystemExit as error:
        raise ModelError(f"{source} ended the program (SystemExit) instead of giving an nn.Module.") from error
    if not isinstance(made, nn.Module):
        raise ModelError(
            f"{source} must be or return an nn.Module, got {type(made).__name__}: other functions and estimators "
            "are explained in Python, by tg.explain."
        )
    return made


def _imported(module: str, source: str) -> Any:
    importlib.invalidate_caches()  # so that a file written a moment ago is found
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):
            raise  # something that the user's own code imports
        raise InputError(
            f"There is no module {named(str(error.name))!r} for {named(source)}: run where it is, or install it."
        ) from error


def _called(found: Any, source: str) -> Any:
    try:
        inspect.signature(found).bind()
    except (TypeError, ValueError) as error:  # the latter by what is built in and has no signature
        raise InputError(
            f"{named(source)} is called without arguments to get a model, but {one_line(str(error), SAID)}: write "
            "a function that needs none and returns an nn.Module."
        ) from error
    return found()


def _read_weights(source: str | Path) -> dict[str, Tensor]:
    """Read a state_dict, by itself or among the other things of a checkpoint."""
    if not isinstance(source, (str, Path)):
        raise InputError(f"weights must be the path of a file, got {type(source).__name__}.")
    path = Path(source)
    none = (
        f"{named(path)} holds no weights that can be read without running code: write them with "
        "torch.save(model.state_dict(), …) or safetensors."
    )
    if begin(path) == ARCHIVE:
        with archive(path, none) as parts:
            require_whole(parts, path)
    with refusing(none):
        found = _state(path)
    if not all(isinstance(name, str) and isinstance(value, Tensor) for name, value in found.items()):
        raise DataError(none)
    return found


def _state(path: Path) -> dict[Any, Any]:
    if path.suffix.lower() == ".safetensors":
        return load(path)[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, about files that are refused here
        found = dict(torch.load(path, map_location="cpu", weights_only=True))
    for name in NESTED:
        if isinstance(found.get(name), Mapping):
            found = dict(found[name])
    return found
