"""From a source to a folder of results: two series first, then all fragments, with a limit on faults."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import torch

from tempograd.bulk.checks import (
    KeptCells,
    check_amounts,
    check_options,
    check_source,
    live_model,
    predictor_parts,
)
from tempograd.bulk.driving import Attempts, Driving, Progress
from tempograd.bulk.engines import Attempt, Processes, Threads, in_this_process, through, while_it_lives
from tempograd.bulk.folder import RunFolder
from tempograd.bulk.run_plan import RunPlan
from tempograd.bulk.runs import Run
from tempograd.bulk.sources import as_source, columns_of
from tempograd.bulk.travel import Job, pickled, write_job
from tempograd.bulk.worker import Outcome, Worker
from tempograd.core.errors import InputError, brief
from tempograd.data import Series, Source
from tempograd.data.files import arrow
from tempograd.data.fragments import Fragment
from tempograd.engine.predictor import Predictor
from tempograd.explainers import Explainer
from tempograd.explainers.by_name import explainer_of, require_alone
from tempograd.typing import (
    Array,
    InputBaselines,
    Inputs,
    Model,
    Output,
    Precision,
    Setting,
    Steps,
    Target,
)

Engine = Literal["ray"]
CustomEngine = Callable[[str, list[dict[str, object]]], Iterable[object]]
"""A function of a run's folder and its fragments that runs a worker on each of them, anywhere, and yields what
the workers returned."""


def explain_dataset(
    model: Model | Predictor | str | Path,
    source: Source | str | Path | Sequence[str] | Array | Series | Iterable[object],
    out: str | Path,
    *,
    method: str | Explainer = "timing",
    cells: KeptCells = "all",
    engine: Engine | CustomEngine | None = None,
    workers: int | None = None,
    device: str | torch.device | None = None,
    fragment: int = 8_192,
    max_faults: float = 0.01,
    factory: str | None = None,
    trust: bool = False,
    progress: Callable[[Progress], object] | None = None,
    target: Target | None = None,
    output: Output | None = None,
    steps: Steps | None = None,
    baseline: InputBaselines | None = None,
    background: Inputs | Series | None = None,
    seed: int = 0,
    draws: int = 1,
    batch_size: int | None = None,
    precision: Precision = "full",
    gradient_check: bool = True,
    **settings: Setting,
) -> Run:
    """Explain any number of series, from files to a folder of files; started again, it goes on.

    Memory does not grow with the number of files, and every score is the one that a single call of
    :func:`tempograd.explain` gives. What is finished is never lost or computed twice, however a run ends.

    Parameters
    ----------
    model : nn.Module, callable, Predictor, or what load_model takes
        Several processes get a copy of a module. Workers of an engine make it again, which is tried before they
        start: by its class without arguments, or by name, ``"module:callable"`` or a file. Functions are for this
        process alone.
    source : Source, path, pattern, folder, address, list of paths, Series, array, or iterable
        What ``Source`` takes: ``tg.Source("lake/", id="machine", keep=["day"])``. Parquet files
        with a whole series in each row and ``.npy`` files are read in parts, others whole. Or batches of
        ``(ids, x)`` or ``(ids, x, mask)``.
    out : path
        A folder: a new one, an empty one, or that of the same run, which goes on.
    method : str or Explainer
        As in :func:`tempograd.explain`.
    cells : {"all", "top", "none"}
        What is kept of each cell: everything, the 20 strongest, or sums by channel and step alone.
    engine : {"ray"} or callable, optional
        Who runs the workers: this process or several of them, a Ray cluster, or a function of your own.
    workers : int, optional
        How many; by default one in this process, and with Ray one per GPU or core.
    device : str or device, optional
        Where models compute; by default where the model is, or on a GPU if there is one.
    fragment : int
        About how many series go into one file of results.
    max_faults : float
        Share of the series that may have no explanation before the run stops.
    factory : str, optional
        ``"module:callable"``, what workers call without arguments to get a module like ``model``, where its class
        does not tell; it then gets the weights of ``model``. Or the file that ``model`` was loaded from.
    trust : bool
        As in :func:`tempograd.load_model`, for a model given by name.
    progress : callable, optional
        Called with a :class:`~tempograd.bulk.Progress` after each fragment, instead of the line on a terminal.
    target, output, steps, baseline, background, seed, draws, precision, gradient_check
        As in :func:`tempograd.explain`, the same for all series.
    batch_size : int, optional
        Series per call; found automatically by default.
    **settings
        Hyper-parameters of a method given by name.

    Returns
    -------
    Run
        The folder, with its verdict, sums and single explanations.

    See Also
    --------
    open_run : the same for a folder that is there.
    """
    arrow()
    plain, said = predictor_parts(model)
    source = as_source(source)
    columns = columns_of(source)
    check_source(columns)
    names = source if isinstance(source, Series) else columns
    options = {
        "target": target,
        "baseline": baseline,
        "steps": steps,
        "output": output,
        "seed": seed,
        "missing": columns.missing or "error",
        "draws": draws,
        "precision": precision,
        "gradient_check": gradient_check,
        "background": background,
        "channels": names.channels,
        "times": getattr(source, "times", None),
        "units": names.units,
        **said,
    }
    check_options(options)
    check_amounts(cells, fragment, batch_size, workers, max_faults)
    if engine is not None and engine != "ray" and not callable(engine):
        raise InputError(f"engine must be None, 'ray' or a function of your own, got {brief(engine)}.")
    explainer = explainer_of(method, settings, explain_dataset)
    require_alone(explainer)
    folder = RunFolder(out)
    elsewhere = engine is not None or (workers or 1) > 1
    if elsewhere and not isinstance(source, Source):
        raise InputError("Only files can be explained by several workers: write the series to .npy or Parquet.")
    live, sent = live_model(plain, device, trust=trust), None
    with folder.preparing():
        plan = RunPlan(folder, live, explainer, options, source, fragment)
        plan.look(batch_size)
        job = plan.begin(cells=cells, batch=batch_size)
        if elsewhere:
            told = write_job(job, plain, live, factory, processes=engine is None, trust=trust)
            folder.write("job.json", told)
            sent = None if told["model"] is not None else pickled(plain)
    attempts = _engine(engine, job, live, sent, workers, None if device is None else str(device))
    return Driving(plan, max_faults, progress).drive(attempts)


def _engine(engine: Any, job: Job, model: Model, sent: Any, workers: int | None, device: str | None) -> Attempts:
    folder = str(job.folder.root.resolve())
    if engine is None and (workers or 1) == 1:
        worker = Worker(job, model)
        if worker.device == "cuda":
            return lambda fragments, _: through(Threads(folder, worker), fragments)
        return lambda fragments, tell: in_this_process(worker, fragments, tell)
    if engine is None:
        return lambda fragments, _: through(Processes(folder, workers or 1, device, sent), fragments)
    if engine == "ray":
        from tempograd.bulk.on_ray import RayActors  # noqa: PLC0415  # an extra

        return lambda fragments, _: through(RayActors(folder, workers, device), fragments)
    return lambda fragments, _: _custom(engine, folder, list(fragments))


def _custom(engine: CustomEngine, folder: str, fragments: list[Fragment]) -> Iterator[Attempt]:
    named = {fragment.name: fragment for fragment in fragments}
    for outcome in while_it_lives(engine, folder, fragments):
        if not isinstance(outcome, Outcome):
            raise InputError(f"An engine must yield what Worker.run returned, got {brief(outcome)}.")
        yield Attempt(named[outcome.name], outcome)
