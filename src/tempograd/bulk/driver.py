"""From a source to a folder of results: two series first, then all fragments, with a limit on faults."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import torch

from tempograd.bulk.checks import (
    KeptCells,
    check_amounts,
    check_options,
    columns_of,
    is_files,
    live_model,
    predictor_parts,
)
from tempograd.bulk.driving import Attempts, Driving, Progress
from tempograd.bulk.engines import Attempt, Processes, Threads, in_this_process, through, while_it_lives
from tempograd.bulk.folder import RunFolder
from tempograd.bulk.run_plan import RunPlan
from tempograd.bulk.runs import Run
from tempograd.bulk.sources import Fragment, arrow, is_streamed
from tempograd.bulk.travel import Job, write_job
from tempograd.bulk.worker import Outcome, Worker
from tempograd.core.errors import InputError, brief
from tempograd.data import Series
from tempograd.engine.predictor import Predictor
from tempograd.explainers import Explainer
from tempograd.explainers.by_name import explainer_of, require_alone
from tempograd.typing import (
    Align,
    Array,
    ArrayLike,
    InputBaselines,
    Inputs,
    Layout,
    Missing,
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
    source: str | Path | Sequence[str] | Array | Series | Iterable[object],
    out: str | Path,
    *,
    method: str | Explainer = "timing",
    x: str | Sequence[str] = "x",
    id: str | ArrayLike | Sequence[str] | None = "id",  # noqa: A002  # as in read_series
    mask: str | Array | None = None,
    time: str | None = None,
    label: str | None = None,
    align: Align | None = None,
    shape: tuple[int, int] | None = None,
    keep: Sequence[str] = (),
    cells: KeptCells = "all",
    ess: bool = True,
    engine: Engine | CustomEngine | None = None,
    workers: int | None = None,
    device: str | torch.device | None = None,
    batch: int | None = None,
    fragment: int = 8_192,
    max_faults: float = 0.01,
    weights: str | Path | None = None,
    factory: str | None = None,
    trust: bool = False,
    progress: Callable[[Progress], object] | None = None,
    background: Inputs | None = None,
    target: Target | None = None,
    baseline: InputBaselines | None = None,
    steps: Steps | None = None,
    output: Output | None = None,
    seed: int = 0,
    channels: Sequence[str] | None = None,
    times: Sequence[object] | None = None,
    layout: Layout = "BTD",
    missing: Missing = "error",
    draws: int = 1,
    batch_size: int | None = None,
    precision: Precision = "full",
    gradient_check: bool = True,
    units: Sequence[str] | None = None,
    **settings: Setting,
) -> Run:
    """Explain any number of series, from files to a folder of files; started again, it goes on.

    Memory does not grow with the number of series, and every score is the one that a single call of
    :func:`tempograd.explain` gives. What is finished is never lost or computed twice, however a run ends.

    Parameters
    ----------
    model : nn.Module, callable, Predictor, or what load_model takes
        Several workers each make it again, which is tried before they start: a module by its class, or a model
        that is named, ``"module:callable"`` with ``weights=`` or a file. Functions do not travel.
    source : path, pattern, list of paths, array, or iterable
        Parquet files, local or at an address such as ``s3://…``; ``.npy`` and ``.npz`` files, memory maps, arrays;
        ``.csv`` and ``.ts`` files, each read whole; batches of ``(ids, x)`` or ``(ids, x, mask)``. Columns of CSV
        files are matched by name; those of the first file are the channels, unless ``channels`` chooses.
    out : path
        A folder: a new one, an empty one, or that of the same run, which goes on.
    method : str or Explainer
        As in :func:`tempograd.explain`.
    x : str or sequence of str
        The column with the series, one per row, as a list of T lists of D numbers, or flat with ``shape=``.
        Several columns are the channels of long rows, one row per step; the rows of a series stand together.
    id : str or array, optional
        The column of the ids, whole numbers or texts, each of them once in a run; ``.npy`` file or array of them,
        beside arrays. None: series are numbered, in several files by file and row.
    mask : str or array, optional
        The column, ``.npy`` file or array that tells what was observed.
    time : str, optional
        The column with the time of long rows, by which those of each series are sorted.
    label : str, optional
        The column of the labels of CSV files, which is then no channel.
    align : {"time", "order"}, optional
        Needed where series of one file have gaps in ``time``, or times of their own. ``"time"``: one step per
        distinct time of a file, missing ones are masked. ``"order"``: the k-th row of a series is its step k.
    shape : tuple of int, optional
        Steps and channels, where series are flat lists or of unequal length; shorter ones are padded.
    keep : sequence of str
        Columns that go along to the results, and are called otherwise than those.
    cells : {"all", "top", "none"}
        What is kept of each cell: everything, the 20 strongest, or sums by channel and step alone.
    ess : bool
        Whether the effective sample sizes are kept too, which intervals and verdicts on single series need.
    engine : {"ray"} or callable, optional
        Who runs the workers: this process or several of them, a Ray cluster, or a function of your own.
    workers : int, optional
        How many; by default one in this process, and with Ray one per GPU or core.
    device : str or device, optional
        Where models compute; by default where the model is, or on a GPU if there is one.
    batch : int, optional
        Series per call; found automatically by default.
    fragment : int
        About how many series go into one file of results.
    max_faults : float
        Share of the series that may have no explanation before the run stops.
    weights, trust
        As in :func:`tempograd.load_model`, for a model given by name.
    factory : str, optional
        ``"module:callable"``, what workers call without arguments to get a module like ``model``, where its class
        does not tell; it then gets the weights of ``model``. Or the file that ``model`` was loaded from.
    progress : callable, optional
        Called with a :class:`~tempograd.bulk.Progress` after each fragment, instead of the line on a terminal.
    channels : sequence of str, optional
        Which columns of CSV files, in which order; the names of channels where files do not name them.
    background, target, baseline, steps, output, seed, times, layout, missing, draws, batch_size
        As in :func:`tempograd.explain`, the same for all series.
    precision, gradient_check, units
        The same.
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
    options = {
        "target": target,
        "baseline": baseline,
        "steps": steps,
        "output": output,
        "seed": seed,
        "layout": layout,
        "missing": missing,
        "draws": draws,
        "batch_size": batch_size,
        "precision": precision,
        "gradient_check": gradient_check,
        "background": background,
        "channels": channels,
        "times": times,
        "units": units,
        **said,
    }
    check_options(options)
    check_amounts(cells, fragment, batch, workers, max_faults)
    if engine is not None and engine != "ray" and not callable(engine):
        raise InputError(f"engine must be None, 'ray' or a function of your own, got {brief(engine)}.")
    explainer = explainer_of(method, settings, explain_dataset)
    require_alone(explainer)
    folder = RunFolder(out)
    elsewhere = engine is not None or (workers or 1) > 1
    source, columns = columns_of(source, x, id, mask, time, shape, keep, label, channels, align)
    if elsewhere and (is_streamed(source) or not is_files(source)):
        raise InputError("Only files can be explained by several workers: write the series to .npy or Parquet.")
    live = live_model(plain, device, weights, trust=trust)
    with folder.preparing():
        plan = RunPlan(folder, live, explainer, options, columns, source, fragment)
        plan.look()
        job = plan.begin(cells=cells, ess=ess, batch=batch)
        if elsewhere:
            folder.write("job.json", write_job(job, plain, weights, factory, trust=trust))
    attempts = _engine(engine, job, live, workers, None if device is None else str(device))
    return Driving(plan, max_faults, progress).drive(attempts)


def _engine(engine: Any, job: Job, model: Model, workers: int | None, device: str | None) -> Attempts:
    folder = str(job.folder.root.resolve())
    if engine is None and (workers or 1) == 1:
        worker = Worker(job, model)
        if worker.device == "cuda":
            return lambda fragments, _: through(Threads(folder, worker), fragments)
        return lambda fragments, tell: in_this_process(worker, fragments, tell)
    if engine is None:
        return lambda fragments, _: through(Processes(folder, workers or 1, device), fragments)
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
