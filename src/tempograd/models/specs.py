"""Models that travel: what another process needs to make a model again, without pickle, tried beforehand."""

import copy
import hashlib
import inspect
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Self

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from tempograd.core.errors import DataError, InputError, ModelError, arg, brief, one_line, quote, warn
from tempograd.core.io import as_path, write_atomically
from tempograd.engine import Call, fingerprint, frozen, place
from tempograd.engine.model import find_device
from tempograd.engine.predictor import DECLARED, forward
from tempograd.models.files import (
    SAID,
    give_weights,
    is_code,
    load_model,
    make_model,
    named,
    save_model,
)
from tempograd.models.networks import MODELS, Classifier

CLOSE = 1e-5  # of the largest output: how far the outputs of the same weights may lie apart in another process
PLAIN = (bool, int, float, str, type(None))
FACTORY = "pass factory='my_net:make', code that makes such a model"


@dataclass(frozen=True)
class ModelSpec:
    """How another process makes a model, as plain data beside files in a folder; see :func:`spec_of`.

    To build one runs the code that it names, so that it must come from whoever may run code there.

    Attributes
    ----------
    source : str
        ``"module:callable"``, or the name of a file in the folder.
    arguments : dict
        What the callable gets, by name.
    weights : str, optional
        The name of the file in the folder with the weights.
    task : str, optional
        The task that the model says it has.
    checksum : str
        SHA-256 of the file in the folder.
    fingerprint : str
        That of the model which is made.
    """

    source: str
    fingerprint: str
    checksum: str
    weights: str | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    task: str | None = None

    def plain(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return asdict(self)

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Self:
        """Read what :meth:`plain` returned."""
        unknown = plain.keys() ^ {part.name for part in fields(cls)}
        if unknown:
            raise DataError(
                f"A model's specification must have its own names, and differs in {quote(min(unknown))}."
            )
        return cls(**plain)

    def build(self, folder: str | Path, device: str | torch.device = "cpu") -> nn.Module:
        """Make the model from the files in a folder, in evaluation mode; refuse files or code of another model."""
        folder = as_path(folder, "folder")
        model = self._made(folder, device)
        here = fingerprint(model)()
        if self.fingerprint and here != self.fingerprint:
            raise ModelError(
                f"{named(self.source)} makes another model here ({here}) than where the run began "
                f"({self.fingerprint}): take the same code and files."
            )
        return model

    def _made(self, folder: Path, device: str | torch.device) -> nn.Module:
        file = folder / (self.weights or self.source)
        if _checksum(file) != self.checksum:
            raise DataError(f"{named(file)} is not the file that was written for this model: write it again.")
        if self.weights is None:
            return load_model(file, device, trust=True)  # it is the one that was trusted when the spec was made
        with torch.random.fork_rng(devices=[]):
            model = make_model(self.source, self.arguments)
        state = load_file(file)
        give_weights(model, state, file, self.source, assign=True)  # in the precision that the weights have
        precisions = {tensor.dtype for tensor in state.values() if tensor.is_floating_point()}
        if len(precisions) == 1:  # also of buffers that are not saved
            model.to(precisions.pop())
        if self.task is not None and getattr(model, DECLARED, None) != self.task:
            setattr(model, DECLARED, self.task)
        return model.to(find_device(device)).eval()


def spec_of(
    model: nn.Module | str | Path,
    folder: str | Path,
    x: Tensor,
    *,
    weights: str | Path | None = None,
    factory: str | None = None,
    trust: bool = False,
    call: Call | None = None,
    elsewhere: bool = False,
) -> ModelSpec:
    """Write what another process needs to make a model, and try it: the outputs for ``x`` must be the same.

    Parameters
    ----------
    model : nn.Module, str or path
        A module is made again by its class, if that can be imported and keeps its arguments as attributes of the
        same names; else it is exported with ``torch.export``, with a warning. A text or path is what
        :func:`load_model` takes.
    folder : path
        Gets one file, ``model.safetensors``, ``model.pt2`` or ``model.pt``. It must exist.
    x : Tensor of shape (batch, time, channel)
        Two series or more.
    weights, trust
        As for :func:`load_model`.
    factory : str, optional
        ``"module:callable"``, what is called without arguments to get a module like ``model``; or the file that it
        was loaded from.
    call : Call, optional
        How the model is called with ``x``.
    elsewhere : bool
        Whether a new Python process tries it as well, which takes some seconds.
    """
    folder, call = as_path(folder, "folder"), call or Call()
    if isinstance(model, (str, Path)):
        spec, module = _of_named(model, folder, weights, factory, trust=trust)
    else:
        _require_module(model)
        if weights is not None:
            raise InputError(
                f"{arg:source.weights} are those of a model given as module:callable: this one has its own."
            )
        spec, module = _of_module(model, folder, x, call, factory, trust=trust), model
    expected = outputs_of(module, x, call)
    device, _ = place(module, x)
    built = ModelSpec.of(json.loads(json.dumps(spec.plain()))).build(folder, device)
    _require_same(outputs_of(built, x, call), expected, spec, "")
    if elsewhere:
        _require_same(_outputs_elsewhere(spec, folder, x, call), expected, spec, "in a new process ")
    return spec


def outputs_of(model: nn.Module, x: Tensor, call: Call) -> Tensor:
    """Return the outputs of a model for some series, as every explanation sees them."""
    device, dtype = place(model, x)
    with frozen(model), torch.no_grad():
        return forward(call.adapt(model), x.to(device, dtype)).cpu()


def _require_same(found: Tensor, expected: Tensor, spec: ModelSpec, where: str) -> None:
    size = expected.abs().max().item()
    alike = found.shape == expected.shape and torch.allclose(
        found.double(), expected.double(), rtol=0, atol=CLOSE * size if math.isfinite(size) else 0, equal_nan=True
    )
    if not alike:
        raise ModelError(
            f"{named(spec.source)} makes a model {where}that answers differently, so something that is no weight "
            f"decides on its outputs: keep it in buffers, or {FACTORY}."
        )


# From a name or a file


def _of_named(
    source: str | Path, folder: Path, weights: str | Path | None, factory: str | None, *, trust: bool
) -> tuple[ModelSpec, nn.Module]:
    if factory is not None:
        raise InputError(f"{arg:run.factory} is for a module, and this model is named already: leave it out.")
    model = load_model(source, weights=weights, trust=trust)
    if is_code(source):
        return _with_weights(model, folder, str(source), {}), model
    ending = Path(source).suffix.lower()
    file = folder / f"model{ending}"
    write_atomically(file, lambda temporary: shutil.copyfile(source, temporary))
    return ModelSpec(file.name, fingerprint(model)(), _checksum(file)), model


def _with_weights(model: nn.Module, folder: Path, source: str, arguments: dict[str, Any]) -> ModelSpec:
    """Write the weights of a module that code makes."""
    file = folder / "model.safetensors"
    state = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in model.state_dict().items()}
    write_atomically(file, lambda temporary: save_file(state, temporary))
    declared = getattr(model, DECLARED, None)
    task = declared if isinstance(declared, str) else None
    return ModelSpec(source, fingerprint(model)(), _checksum(file), file.name, arguments, task)


def _checksum(file: Path) -> str:
    try:
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{named(file)} cannot be read: {error.strerror}.") from error


# From a module


def _require_module(model: Any) -> None:
    if isinstance(model, nn.Module):
        return
    name, path = getattr(model, "__name__", ""), getattr(model, "__qualname__", "")
    what = brief(model) if not inspect.isroutine(model) else f"the function {one_line(name, SAID)}"
    if name == "<lambda>":
        what = "a lambda"
    elif inspect.isroutine(model) and "<locals>" in path:
        what = f"the function {one_line(name, SAID)} inside another one"
    raise ModelError(
        f"The model is {what}, which cannot be sent to other processes: pass an nn.Module, or name code that "
        "makes one, as 'my_net:make'."
    )


def _of_module(
    model: nn.Module, folder: Path, x: Tensor, call: Call, factory: str | None, *, trust: bool
) -> ModelSpec:
    if factory is not None:
        if not isinstance(factory, str):
            raise InputError(f"factory must be 'module:callable' or the name of a file, got {brief(factory)}.")
        if is_code(factory):
            return _with_weights(model, folder, factory, {})
        return _of_named(factory, folder, None, None, trust=trust)[0]
    if isinstance(model, Classifier) and type(model) in MODELS.values():
        file = save_model(model, folder / "model.safetensors")
        return ModelSpec(file.name, fingerprint(model)(), _checksum(file))
    why = _why_not_rebuilt(model, folder, x, call)
    if why is None:
        return _with_weights(model, folder, _import_path(model), _arguments(model))
    return _exported(model, folder, x, call, why)


def _why_not_rebuilt(model: nn.Module, folder: Path, x: Tensor, call: Call) -> str | None:
    """Say why the class of a module does not make it again; None if it does."""
    kind = type(model)
    if "<locals>" in kind.__qualname__:
        return f"its class {one_line(kind.__name__, SAID)} is defined inside a function"
    if kind.__module__ == "__main__":
        return f"its class {one_line(kind.__name__, SAID)} is defined in the program that runs"
    try:
        with tempfile.TemporaryDirectory() as there:
            spec = _with_weights(model, Path(there), _import_path(model), _arguments(model))
            built = ModelSpec.of(json.loads(json.dumps(spec.plain()))).build(there, place(model, x)[0])
            _require_same(outputs_of(built, x, call), outputs_of(model, x, call), spec, "")
    except Exception as error:  # whatever a class does that gets other arguments than it had
        return f"its class {one_line(kind.__name__, SAID)} does not make it again ({_said(error)})"
    return None


def _said(error: Exception) -> str:
    lines = str(error).splitlines() or [type(error).__name__]
    return one_line(lines[-1].strip().rstrip("."), SAID)


def _import_path(model: nn.Module) -> str:
    return f"{type(model).__module__}:{type(model).__qualname__}"


def _arguments(model: nn.Module) -> dict[str, Any]:
    """Return the arguments of a module's class as far as the module keeps them, by their names, as plain data."""
    found = {}
    for name, parameter in inspect.signature(type(model)).parameters.items():
        value = getattr(model, name, parameter.empty)
        if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
            continue
        if isinstance(value, PLAIN) or (
            isinstance(value, (list, tuple)) and all(isinstance(v, PLAIN) for v in value)
        ):
            found[name] = value
        elif parameter.default is parameter.empty:
            raise ModelError(f"it does not keep its argument {name}.")
    return found


def _exported(model: nn.Module, folder: Path, x: Tensor, call: Call, why: str) -> ModelSpec:
    """Export a module with torch.export for any number of series."""
    cannot = (
        f"The model cannot be made again in another process: {why}, and torch.export cannot write it: {FACTORY}."
    )
    if call.model_layout not in {"BTD", "BDT"}:  # its batches lie elsewhere
        raise ModelError(cannot)
    file = folder / "model.pt2"
    try:
        with frozen(model):
            twin = copy.deepcopy(model).cpu().eval()
        example = x.cpu().to(place(twin, x)[1])
        example = example.transpose(1, 2).contiguous() if call.model_layout == "BDT" else example
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's own, about attributes of recurrent layers
            shapes = ({0: torch.export.Dim.AUTO},)
            program = torch.export.export(twin, (example,), dynamic_shapes=shapes)
            write_atomically(file, lambda temporary: _save_program(program, temporary))
        built = load_model(file, trust=True)
        _require_same(outputs_of(built, x, call), outputs_of(model, x, call), ModelSpec(file.name, "", ""), "")
    except Exception as error:  # torch raises many kinds
        raise ModelError(cannot) from error
    warn(
        f"The model travels as a program of torch.export, since {why}: its outputs can differ in the last bits, "
        f"and recurrent layers are slow on a GPU; {FACTORY}, to avoid that."
    )
    return ModelSpec(file.name, fingerprint(built)(), _checksum(file))


def _save_program(program: Any, temporary: Path) -> None:
    with temporary.open("wb") as file:  # whose name has not the ending that torch wants
        torch.export.save(program, file)


# In a new process

CHILD = "import sys; from tempograd.models.specs import answer; answer(sys.argv[1])"


def _outputs_elsewhere(spec: ModelSpec, folder: Path, x: Tensor, call: Call) -> Tensor:
    """Make the model in a new Python process and return its outputs."""
    convention = {"pick": call.pick, "model_layout": call.model_layout}
    job = {"spec": spec.plain(), "folder": str(folder.resolve()), "call": convention}
    with tempfile.TemporaryDirectory() as there:
        (Path(there) / "job.json").write_text(json.dumps(job), encoding="utf-8")
        save_file({"x": x.cpu().contiguous().clone()}, Path(there) / "x.safetensors")
        paths = os.pathsep.join(path for path in sys.path if path) + os.pathsep + str(Path.cwd())
        done = subprocess.run(
            [sys.executable, "-P", "-c", CHILD, there],  # not the current folder before all others
            env=os.environ | {"PYTHONPATH": paths},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            said = _said(RuntimeError(re.sub(r"(?m)^tempograd\.core\.errors\.\w+: ", "", done.stderr.strip())))
            raise ModelError(f"{named(spec.source)} makes no model in a new process ({said}): {FACTORY}.")
        return load_file(Path(there) / "outputs.safetensors")["outputs"]


def answer(folder: str) -> None:
    """Make the model that a job in a folder asks for, and write its outputs there."""
    job = json.loads((Path(folder) / "job.json").read_text(encoding="utf-8"))
    model = ModelSpec.of(job["spec"]).build(job["folder"])
    outputs = outputs_of(model, load_file(Path(folder) / "x.safetensors")["x"], Call(**job["call"]))
    save_file({"outputs": outputs.contiguous()}, Path(folder) / "outputs.safetensors")
