"""What files cost beside the work itself: runs from Parquet to Parquet against plain calls.

``python perf/bulk.py`` compares CPU seconds of a worker, in this process and on Ray, with a plain loop over the
same batches in memory, and times a query over the results: ``perf/results/bulk.json``, about five minutes on two
quiet cores. ``python perf/bulk.py --whole`` explains a million series of 48 × 32 on a GPU, from files to files,
against a part of them in memory, and tells where the time goes; ``--series`` and ``--part`` make it smaller.
``--quick`` tries everything at toy size and writes nothing.
"""

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor, nn

import tempograd as tg
from paths import Setting
from tempograd.bulk import engines
from tempograd.bulk import worker as bulk_worker
from tempograd.bulk.worker import CPU_BATCH, Worker
from timing import Figures, machine, note, spread

RESULTS = Path(__file__).parent / "results"
GROUP = 512  # rows of a source's row groups
LIMITS = {"none": 1.10, "ray": 1.25}  # CPU seconds of a worker, as multiples of a plain loop
FULL = (Setting("gru", series=2048, channels=8, hidden=16), Setting("gru", series=512))
QUICK = (Setting("gru", series=64, steps=12, channels=3, points=5, hidden=4),)
QUERY = """
    SELECT channel, avg(effect) AS effect, count(*) AS series
    FROM '{folder}/drivers/*.parquet' WHERE certain AND rank = 1 AND day >= {day}
    GROUP BY channel ORDER BY series DESC
"""


def write_series(path: Path, count: int, steps: int, channels: int) -> None:
    """Write series of noise, a group of rows at a time; what they cost does not depend on the values."""
    draw = np.random.default_rng(0)
    schema = pa.schema({"id": pa.int64(), "day": pa.int32(), "x": pa.list_(pa.float32())})
    with pq.ParquetWriter(path, schema, compression="zstd", compression_level=1) as writer:
        for start in range(0, count, GROUP):
            ids = np.arange(start, min(start + GROUP, count))
            cells = draw.standard_normal((len(ids), steps * channels), dtype=np.float32)
            offsets = np.arange(len(ids) + 1, dtype=np.int32) * steps * channels
            x = pa.ListArray.from_arrays(pa.array(offsets), pa.array(cells.ravel()))
            day = pa.array((ids % 28).astype(np.int32))
            writer.write_table(pa.table({"id": ids, "day": day, "x": x}), row_group_size=GROUP)


def read_series(path: Path, count: int, setting: Setting) -> tuple[Tensor, Tensor]:
    """Return the first ids and series, in memory."""
    parts, rows = [], 0
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(GROUP, columns=["x"]):
            parts.append(np.array(batch.column("x").flatten()).reshape(-1, setting.steps, setting.channels))
            rows += len(parts[-1])
            if rows >= count:
                break
    return torch.arange(count), torch.from_numpy(np.concatenate(parts)[:count])


# CPU seconds of a worker against a plain loop


def plain_loop(model: nn.Module, x: Tensor, ids: Tensor, points: int) -> float:
    """Return the CPU seconds of calls on batches of the size that workers take."""
    start = time.process_time()
    for rows in torch.arange(len(x)).split(CPU_BATCH):
        tg.explain(model, tg.Series(x[rows], ids=ids[rows]), n_samples=points)
    return time.process_time() - start


class Clock:
    """CPU seconds that workers spent on fragments: of this process, or of Ray's."""

    def __init__(self) -> None:
        self.seconds = 0.0

    @contextmanager
    def here(self) -> Iterator[None]:
        real = Worker.run

        def run(worker: Worker, fragment: Any) -> Any:
            start = time.process_time()
            try:
                return real(worker, fragment)
            finally:
                self.seconds += time.process_time() - start

        Worker.run = run  # type: ignore[method-assign]
        try:
            yield
        finally:
            Worker.run = real  # type: ignore[method-assign]

    @contextmanager
    def on_ray(self) -> Iterator[None]:
        real = engines._run_on_ray
        with tempfile.TemporaryDirectory() as folder:

            def timed(sent: list[Any], fragment: Any) -> Any:
                start = time.process_time()
                done = real(sent, fragment)
                if fragment is not None:
                    Path(folder, fragment.name).write_text(str(time.process_time() - start))
                return done

            engines._run_on_ray = timed
            try:
                yield
            finally:
                engines._run_on_ray = real
                self.seconds += sum(float(path.read_text()) for path in Path(folder).iterdir())


def files_to_files(setting: Setting, model: nn.Module, source: Path, engine: str) -> float:
    """Return the CPU seconds that a worker spends on fragments, its start excluded."""
    clock = Clock()
    options: dict[str, Any] = {"engine": "ray", "workers": 1} if engine == "ray" else {}
    with tempfile.TemporaryDirectory() as folder, clock.on_ray() if options else clock.here():
        shape = (setting.steps, setting.channels)
        run = tg.explain_dataset(
            model,
            tg.Source(source, shape=shape, keep=("day",)),
            folder,
            fragment=GROUP,
            n_samples=setting.points,
            **options,
        )
        if len(run) != setting.series:
            raise RuntimeError(f"{len(run)} of {setting.series} series were explained.")
    return clock.seconds


def overhead(setting: Setting, folder: Path, rounds: int) -> Figures:
    """Compare all sides in turn, every second round in the opposite order."""
    note(f"overhead: {setting}")
    model, _ = setting.made()
    source = folder / f"{setting.hidden}.parquet"
    write_series(source, setting.series, setting.steps, setting.channels)
    ids, x = read_series(source, setting.series, setting)
    saved = folder / f"{setting.hidden}.safetensors"
    tg.save_model(model, saved)
    sides: dict[str, Callable[[], float]] = {
        "loop": lambda: plain_loop(model, x, ids, setting.points),
        "none": lambda: files_to_files(setting, model, source, "none"),
        "ray": lambda: files_to_files(setting, saved, source, "ray"),  # type: ignore[arg-type]  # a file travels
    }
    tg.explain(model, x[:8], n_samples=setting.points)  # what a first call loads is nobody's time
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(rounds):
        for name in list(sides) if turn % 2 == 0 else reversed(list(sides)):
            taken[name].append(sides[name]())
    ratios = {
        name: spread(one / other for one, other in zip(taken[name], taken["loop"], strict=True))
        | {"limit": LIMITS[name]}
        for name in LIMITS
    }
    return {
        **setting._asdict(),
        "cpu_seconds": {name: spread(t) for name, t in taken.items()},
        "over_loop": ratios,
    }


# One query


def query(series: int, rounds: int) -> Figures:
    """Ask which channels drove most in the last of four weeks, over that many series."""
    import duckdb  # which a machine with a GPU may lack

    note(f"query: {series} series")
    setting = Setting("gru", channels=8)
    model = nn.Sequential(nn.Flatten(), nn.Linear(setting.steps * setting.channels, 2))
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "in.parquet", Path(folder) / "out"
        write_series(source, series, setting.steps, setting.channels)
        shape = (setting.steps, setting.channels)
        run = tg.explain_dataset(model, tg.Source(source, shape=shape, keep=("day",)), out, n_samples=10)
        size = run.summary()["bytes"]
        taken = []
        for _ in range(rounds + 1):
            start = time.perf_counter()
            rows = duckdb.sql(QUERY.format(folder=out, day=21)).fetchall()
            taken.append(time.perf_counter() - start)
    return {
        "series": series,
        "asked": sum(count for *_, count in rows),
        "bytes_a_series": size / series,
        "seconds": spread(taken[1:]),
        "first": taken[0],
    }


# A GPU, from files to files


class Stages:
    """Seconds that reading, explaining and writing take; many threads read and write, one at a time explains."""

    def __init__(self) -> None:
        self.seconds = {"read": 0.0, "explain": 0.0, "write": 0.0}
        self.lock = threading.Lock()

    def add(self, name: str, start: float) -> None:
        with self.lock:
            self.seconds[name] += time.perf_counter() - start

    def timed(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            start = time.perf_counter()
            try:
                found = real(*args, **options)
                if name == "explain" and torch.cuda.is_available():
                    torch.cuda.synchronize()  # or the next stage would wait for it, and seem to take the time
                return found
            finally:
                self.add(name, start)

        return call

    def batches(self, real: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        def read(*args: Any) -> Iterator[Any]:
            found = real(*args)
            while True:
                start = time.perf_counter()
                batch = next(found, None)
                self.add("read", start)
                if batch is None:
                    return
                yield batch

        return read

    @contextmanager
    def measured(self) -> Iterator[None]:
        writing = bulk_worker._Writing
        before = bulk_worker.read_fragment, Worker._call, writing._keep
        bulk_worker.read_fragment = self.batches(before[0])
        Worker._call = self.timed("explain", before[1])  # type: ignore[method-assign]
        writing._keep = self.timed("write", before[2])  # type: ignore[method-assign]
        try:
            yield
        finally:
            bulk_worker.read_fragment, Worker._call, writing._keep = before  # type: ignore[method-assign]


def whole(setting: Setting, part: int, fragment: int, cells: str) -> Figures:
    """Explain series from files to files, and a part of them in memory: series per second, and where time goes."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model, _ = setting._replace(series=1).made()
    model = model.to(device)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "in.parquet"
        note(f"writing {setting.series:,} series")
        write_series(source, setting.series, setting.steps, setting.channels)
        ids, x = read_series(source, min(part, setting.series), setting)
        tg.explain(model, x[:64], n_samples=setting.points)
        note(f"explaining {len(x):,} in memory, then {setting.series:,} from files")
        start = time.perf_counter()
        tg.explain(model, tg.Series(x, ids=ids), n_samples=setting.points)
        in_memory = len(x) / (time.perf_counter() - start)
        stages, start = Stages(), time.perf_counter()
        with stages.measured():
            run = tg.explain_dataset(
                model,
                tg.Source(source, shape=(setting.steps, setting.channels)),
                Path(folder) / "out",
                fragment=fragment,
                cells=cells,  # type: ignore[arg-type]
                n_samples=setting.points,
                progress=lambda done: note(f"{done.done:,} series, {done.per_second:,.0f} a second"),
            )
        seconds = time.perf_counter() - start
        size = run.summary()["bytes"]
    return {
        **setting._asdict(),
        "device": torch.cuda.get_device_name() if device == "cuda" else "CPU",
        "cells": cells,
        "fragment": fragment,
        "part": len(x),
        "in_memory_per_second": in_memory,
        "files_per_second": setting.series / seconds,
        "share_of_memory_speed": setting.series / seconds / in_memory,
        "seconds": {**stages.seconds, "all": seconds, "waiting": seconds - stages.seconds["explain"]},
        "bytes_a_series": size / setting.series,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="toy sizes, to see that everything runs")
    parser.add_argument("--whole", action="store_true", help="from files to files, for a GPU")
    parser.add_argument("--series", type=int, default=1_000_000)
    parser.add_argument("--part", type=int, default=100_000, help="series that are explained in memory")
    parser.add_argument("--fragment", type=int, default=8_192)
    parser.add_argument("--cells", default="all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    found: Figures = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "machine": machine()}
    if args.whole:
        size = QUICK[0] if args.quick else Setting("gru")
        series = min(args.series, size.series) if args.quick else args.series
        found["whole"] = whole(size._replace(series=series), args.part, args.fragment, args.cells)
    else:
        torch.set_num_threads(1)
        found["machine"] = machine()
        with tempfile.TemporaryDirectory() as folder:
            settings = QUICK if args.quick else FULL
            rounds = 1 if args.quick else args.rounds
            found["overhead"] = [overhead(setting, Path(folder), rounds) for setting in settings]
        found["query"] = query(200 if args.quick else 20_000, args.rounds)
    print(json.dumps(found, indent=1))
    name = "bulk_gpu.json" if args.whole else "bulk.json"
    if out := args.out or (None if args.quick or args.series != 1_000_000 else RESULTS / name):
        out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
