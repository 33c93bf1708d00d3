"""What workers elsewhere need, written to the run's folder without pickle: model, explainer, options."""

import hashlib
import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from tempograd.bulk.folder import RunFolder
from tempograd.bulk.sources import Columns
from tempograd.core import validation
from tempograd.core.errors import DataError, InputError, arg
from tempograd.core.io import load, write_atomically
from tempograd.engine import Call
from tempograd.explainers import EXPLAINERS, Explainer
from tempograd.explanation import Explanation
from tempograd.models.specs import ModelSpec, spec_of
from tempograd.targets import TargetScore, from_spec
from tempograd.typing import Model

EXAMPLE, OPTIONS, LEARNT = "example.safetensors", "options.safetensors", "explainer.safetensors"


@dataclass(frozen=True)
class Job:
    """What a worker does with every fragment.

    Attributes
    ----------
    folder : RunFolder
        Where results go.
    key : str
        Of the run, which every file of results holds.
    columns : Columns
        Where series, ids and masks are found.
    explainer : Explainer
        The method.
    example : Explanation
        Of two series, which tells what all share.
    options : dict
        Those of :func:`tempograd.explain`.
    cells : {"all", "top", "none"}
        What is kept of each cell.
    ess : bool
        Whether the effective sample sizes are kept.
    series : bool
        Whether the series are kept, since their source cannot be read again.
    batch : int, optional
        Series per call.
    """

    folder: RunFolder
    key: str
    columns: Columns
    explainer: Explainer
    example: Explanation
    options: dict[str, Any] = field(default_factory=dict)
    cells: str = "all"
    ess: bool = False
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
    job: Job, model: Model | str | Path, weights: str | Path | None, factory: str | None, *, trust: bool
) -> dict[str, Any]:
    """Write what a worker elsewhere needs, and return how it finds it; what cannot travel is refused."""
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
        "model": _write_model(job, model, weights, factory, trust=trust).plain(),
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
    job: Job, model: Any, weights: str | Path | None, factory: str | None, *, trust: bool
) -> ModelSpec:
    """Write how workers make the model, which a new process tries: a worker that cannot start says less."""
    options, x = job.options, job.example.x
    assert x is not None  # noqa: S101  # it was explained just now
    x = x if len(x) > 1 else torch.cat([x, x])
    call = Call(pick=options.get("pick"), model_layout=options.get("model_layout", "BTD"))
    more: dict[str, Any] = {"weights": weights, "factory": factory, "trust": trust, "call": call}
    return spec_of(model, job.folder.own, x, elsewhere=True, **more)


def read_job(folder: str | Path, device: str | None = None) -> tuple[Job, Model]:
    """Return job and model of a run that was begun, by what its folder holds."""
    place = RunFolder(folder)
    run = place.read()
    told = place.load("job.json")
    if told is None:
        raise DataError(f"{folder} was begun for one process alone: begin it with {arg:run.workers} or an engine.")
    kind = EXPLAINERS[told["method"]]
    parameters = {
        name: tuple(part) if isinstance(part, list) else part for name, part in told["parameters"].items()
    }
    explainer: Explainer = Explainer.load(place.own / LEARNT) if told["learnt"] else kind(**parameters)
    options: dict[str, Any] = {
        name: from_spec(value["score"]) if isinstance(value, dict) and "score" in value else value
        for name, value in told["options"].items()
    }
    if (place.own / OPTIONS).exists():
        options |= load(place.own / OPTIONS)[1]
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    model = ModelSpec.of(told["model"]).build(place.own, device)
    job = Job(
        folder=place,
        key=run["key"],
        columns=Columns.from_plain(run["columns"]),
        explainer=explainer,
        example=Explanation.load(place.own / EXAMPLE),
        options=options,
        **{name: run[name] for name in ("cells", "ess", "series", "batch")},
    )
    return job, model
