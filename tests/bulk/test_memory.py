"""Memory does not grow with the number of series: measured in processes of their own, from files to files."""

import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

TIME, CHANNELS, SLACK = 48, 8, 30  # megabytes that the peaks may differ by

SCRIPT = """
import resource, sys, warnings
import torch
import tempograd as tg
torch.set_num_threads(1)
warnings.simplefilter("ignore")
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48 * 8, 2))
settings = {"method": "integrated_gradients", "n_steps": 2} if sys.argv[1] == "slow" else {"method": "random"}
for source in sys.argv[2:]:
    run = tg.explain_dataset(model, tg.Source(source, shape=(48, 8)), source + ".out", **settings)
    print(len(run), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def write(folder, count):
    """Write one file of so many series."""
    rows = np.random.RandomState(0).rand(1000, TIME * CHANNELS).astype(np.float32)
    column = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), TIME * CHANNELS).cast(
        pa.list_(pa.float32())
    )
    with pq.ParquetWriter(folder / f"{count}.parquet", pa.schema({"id": pa.int64(), "x": column.type})) as writer:
        for start in range(0, count, 1000):
            writer.write_table(pa.table({"id": np.arange(start, start + 1000), "x": column}), row_group_size=1000)
    return str(folder / f"{count}.parquet")


def peaks(folder, counts, pace):
    """Return the largest memory so far, in megabytes, of a process that explains one file after the other."""
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    words = [sys.executable, "-c", SCRIPT, pace, *(write(folder, count) for count in counts)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    told = [list(map(int, line.split())) for line in done.stdout.splitlines()]
    assert [explained for explained, _ in told] == list(counts)
    return [peak for _, peak in told]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems count in other units")
@pytest.mark.slow  # half a minute
def test_memory_does_not_grow_with_the_number_of_series(tmp_path):
    few, many = peaks(tmp_path, (30_000, 60_000), "quick")  # several fragments, each of which may fill it
    assert many - few <= SLACK, (few, many)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems count in other units")
def test_memory_does_not_grow_up_to_300_000_series(tmp_path, capsys):
    found = {count: peaks(tmp_path, [count], "slow")[0] for count in (30_000, 300_000)}
    with capsys.disabled():
        print(f"\npeaks in megabytes: {found}")  # noqa: T201  # for the record
    assert max(found.values()) - min(found.values()) <= SLACK, found
