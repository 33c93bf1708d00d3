"""What workers elsewhere need, written to the run's folder without pickle: model, explainer, options."""

import copy
import hashlib
import inspect
import json
import pickle
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from tempograd.bulk.folder import RunFolder
from tempograd.core import validation
from tempograd.core.errors import DataError, InputError, ModelError, arg, brief, one_line, short_path
from tempograd.core.io import load, write_atomically
from tempograd.data import Source
from tempograd.engine import Call, fingerprint, frozen, place
from tempograd.engine.model import find_device
from tempograd.engine.predictor import DECLARED, forward
from tempograd.explainers import EXPLAINERS, Explainer
from tempograd.explanation import Explanation
from tempograd.models.files import give_weights, is_code, load_model, make_model, save_model
from tempograd.models.networks import MODELS, Classifier
from tempograd.targets import TargetScore, from_spec
from tempograd.typing import Model

EXAMPLE, OPTIONS, LEARNT = "example.safetensors", "options.safetensors", "explainer.safetensors"
WEIGHTS = "model.safetensors"
CLOSE = 1e-5  # of the largest output: how far outputs of the same weights may lie apart
FACTORY = "pass factory='my_net:make', code that makes such a model"


@dataclass(frozen=True)
class Job:
    """What a worker does with every fragment.

    Attributes
    ----------
    folder : RunFolder
        Where results go.
    key : str
        Of the run, which every file of results holds.
    source : Source
        Which columns or arrays are what.
    explainer : Explainer
        The method.
    example : Explanation
        Of two series, which tells what all share.
    options : dict
        Those of :func:`tempograd.explain`.
    cells : {"all", "top", "none"}
        What is kept of each cell.
    series : bool
        Whether the series are kept, since their source cannot be read again.
    batch : int, optional
        Series per call.
    """

    folder: RunFolder
    key: str
    source: Source
    explainer: Explainer
    example: Explanation
    options: dict[str, Any] = field(default_factory=dict)
    cells: str = "all"
    series: bool = False
    batch: int | None = None


def plain_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as plain data, arrays and functions by what tells them from others."""
    return {name: _plain(value) for name, value in sorted(options.items())}


def _plain(value: Any) -> Any:
    if isinstance(value, TargetScore):
        return {"score": value.spec()}
    if callable(value):
        name = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__name__)}"
        return {"function": name, "source": _source(value)}
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if hasattr(value, "shape"):
        tensor = validation.as_tensor(value, "option").detach().cpu().contiguous()
        mark = hashlib.blake2b(tensor.numpy().tobytes(), digest_size=8).hexdigest()
        return {"tensor": mark, "shape": list(tensor.shape), "type": str(tensor.dtype)}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value


def _source(value: Any) -> str:
    try:
        return hashlib.blake2b(inspect.getsource(value).encode(), digest_size=8).hexdigest()
    except (OSError, TypeError):
        return ""


def write_job(
    job: Job, model: Model | str | Path, live: Model, factory: str | None, *, processes: bool, trust: bool
) -> dict[str, Any]:
    """Write what a worker elsewhere needs, and return how it finds it; what cannot travel is refused.

    ``live`` is what ``model`` means here; ``processes`` are those of this program, which get a module as it is.
    """
    own, explainer = job.folder.own, job.explainer
    if EXPLAINERS.name_of(type(explainer)) is None:
        raise InputError(f"{type(explainer).__name__} is in no registry, so workers elsewhere cannot make it.")
    if explainer.learnt is not None:
        explainer.save(own / LEARNT)
    return {
        "method": EXPLAINERS.name_of(type(explainer)),
        "parameters": explainer.parameters,
        "learnt": explainer.learnt is not None,
        "options": _write_options(job),
        "model": _write_model(job, model, live, factory, processes=processes, trust=trust),
    }


def _write_options(job: Job) -> dict[str, Any]:
    """Write options that are arrays, and return the others, which JSON can hold."""
    tensors: dict[str, Tensor] = {}
    plain: dict[str, Any] = {}
    for name, value in job.options.items():
        if hasattr(value, "shape"):
            tensors[name] = validation.as_tensor(value, name).detach().cpu().contiguous().clone()
        elif isinstance(value, TargetScore):
            plain[name] = {"score": value.spec()}
        elif callable(value):
            raise InputError(f"{name}= is a function, which does not travel: use one of tempograd.targets.")
        else:
            plain[name] = value
    try:
        json.dumps(plain)
    except TypeError as error:
        raise InputError(f"An option does not travel to other processes: {error}.") from error
    if tensors:
        write_atomically(job.folder.own / OPTIONS, lambda path: save_file(tensors, path))
    return plain


def _write_model(
    job: Job, model: Any, live: Any, factory: str | None, *, processes: bool, trust: bool
) -> dict[str, Any] | None:
    """Write how workers make the model, and try it; None where processes of this program get a copy of it."""
    if factory is None and not isinstance(model, (str, Path)):
        if not isinstance(model, nn.Module):
            raise ModelError(f"Other processes cannot get {brief(model)}: pass an nn.Module, or {FACTORY}.")
        if processes:
            return None
    own, source = job.folder.own, _source_of(model, job.folder.own) if factory is None else factory
    if not isinstance(source, (str, Path)):
        raise InputError(f"factory must be 'module:callable' or the name of a file, got {brief(source)}.")
    code = is_code(source)
    file = own / (WEIGHTS if code else f"model{Path(source).suffix.lower()}")
    if code:
        state = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in live.state_dict().items()}
        write_atomically(file, lambda path: save_file(state, path))
    elif Path(source) != file:
        write_atomically(file, lambda path: shutil.copyfile(source, path))
    spec = {"source": str(source) if code else None, "file": file.name, "fingerprint": fingerprint(live)()}
    spec["task"] = task if isinstance(task := getattr(live, DECLARED, None), str) else None
    try:
        made = _made(spec, own, place(live, torch.zeros(1, 1, 1))[0], trust=trust)
        same = _outputs_agree(made, live, job)
    except Exception as error:  # whatever code does that another module was made by
        raise ModelError(f"Workers cannot make the model ({one_line(str(error), 200)}): {FACTORY}.") from error
    if not same:
        raise ModelError(
            f"{short_path(source)} makes a model that answers differently, so something that is no weight decides "
            f"on its outputs: keep it in buffers, or {FACTORY}."
        )
    return spec


def _source_of(model: Any, own: Path) -> str | Path:
    """Return what makes a model again: its file or code, or the class of a module, called without arguments."""
    if not isinstance(model, nn.Module):
        return model  # type: ignore[no-any-return]
    if isinstance(model, Classifier) and type(model) in MODELS.values():
        return save_model(model, own / WEIGHTS)
    kind = type(model)
    if kind.__module__ == "__main__":
        raise ModelError(f"{kind.__name__} is defined in the program that runs, where no worker looks: {FACTORY}.")
    return f"{kind.__module__}:{kind.__qualname__}"


def _made(spec: Mapping[str, Any], own: Path, device: str | torch.device, *, trust: bool = True) -> nn.Module:
    """Return the model that a run's folder describes; refuse code or weights of another one."""
    file, source = own / spec["file"], spec["source"]
    if source is None:
        model = load_model(file, device, trust=trust)
    else:
        with torch.random.fork_rng(devices=[]):
            model = make_model(source)
        give_weights(model, load(file)[1], file, source, assign=True)  # in the precision that the weights have
        model = model.to(find_device(device)).eval()
    if spec["task"] not in {None, getattr(model, DECLARED, None)}:
        setattr(model, DECLARED, spec["task"])
    if (here := fingerprint(model)()) != spec["fingerprint"]:
        raise ModelError(
            f"{short_path(source or file)} makes another model here ({here}) than where the run began "
            f"({spec['fingerprint']}): take the same code and files."
        )
    return model


def _outputs_agree(made: nn.Module, live: nn.Module, job: Job) -> bool:
    """Tell whether two models have the same outputs for the run's first series."""
    call = Call(pick=job.options.get("pick"), model_layout=job.options.get("model_layout", "BTD"))
    x = cast("Tensor", job.example.x)  # it was explained just now
    outputs = []
    for model in (made, live):
        device, dtype = place(model, x)
        with frozen(model), torch.no_grad():
            outputs.append(forward(call.adapt(model), x.to(device, dtype)).double())
    close = CLOSE * outputs[1].abs().nan_to_num(posinf=0.0).max().item()
    return torch.allclose(outputs[0], outputs[1], rtol=0, atol=close, equal_nan=True)


def pickled(model: nn.Module) -> bytes:
    """Return a copy of a module for the processes that this program starts: in memory alone, never in a file."""
    try:
        with frozen(model):
            return pickle.dumps(copy.deepcopy(model).cpu())
    except Exception as error:  # whatever a module holds
        raise not_sent(error) from error


def not_sent(error: Exception) -> ModelError:
    """Return what is said of a module that another process cannot have."""
    return ModelError(f"The model cannot be sent to other processes ({one_line(str(error), 200)}): {FACTORY}.")


def read_job(folder: str | Path, device: str | None = None, sent: bytes | None = None) -> tuple[Job, Model]:
    """Return job and model of a run that was begun, by what its folder holds; ``sent`` is a model as pickled."""
    there = RunFolder(folder)
    run = there.read()
    told = there.load("job.json")
    if told is None:
        raise DataError(f"{folder} was begun for one process alone: begin it with {arg:run.workers} or an engine.")
    kind = EXPLAINERS[told["method"]]
    parameters = {
        name: tuple(part) if isinstance(part, list) else part for name, part in told["parameters"].items()
    }
    explainer: Explainer = Explainer.load(there.own / LEARNT) if told["learnt"] else kind(**parameters)
    options: dict[str, Any] = {
        name: from_spec(value["score"]) if isinstance(value, dict) and "score" in value else value
        for name, value in told["options"].items()
    }
    if (there.own / OPTIONS).exists():
        options |= load(there.own / OPTIONS)[1]
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if sent is None and told["model"] is None:
        raise DataError(
            f"{folder} was begun by a program whose own processes got its model: begin it with an engine."
        )
    if sent is None:
        model = _made(told["model"], there.own, device)
    else:
        model = pickle.loads(sent).to(find_device(device)).eval()  # noqa: S301  # by the program that started this
    job = Job(
        folder=there,
        key=run["key"],
        source=Source.from_plain(run["columns"]),
        explainer=explainer,
        example=Explanation.load(there.own / EXAMPLE),
        options=options,
        **{name: run[name] for name in ("cells", "series", "batch")},
    )
    return job, model
