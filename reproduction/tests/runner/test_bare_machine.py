"""A machine that only runs cells has torch and pyarrow, and nothing else that the reproduction installs."""

import subprocess
import sys

BARE = """
import sys

ABSENT = ("captum", "duckdb", "matplotlib", "pandas", "scipy", "sklearn")


class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Absent())
from tempograd_paper.commands import main

plan, out, archive = sys.argv[1:]
run = ["run", plan, "--methods", "integrated_gradients,random", "--device", "cpu"]
print(main([*run, "--out", out]))
print(main(["table", plan, "--results", out, "--archive", archive, "--out", out + ".md"]))
print(main([*run, "--out", out + "-again", "--kept", archive]))
"""
PLAN = """
datasets = ["switch_feature"]
models = ["gru"]
folds = [0]
series = 3
protocol = "fair"
explainers = ["integrated_gradients", "deep_lift"]
metrics = [{ metric = "cpd", k = 0.1 }]
training = { epochs = 1, learning_rate = 0.01 }
sizes = { hidden = 4 }
"""


def test_cells_run_and_are_kept_without_the_other_packages(tmp_path):
    (tmp_path / "plan.toml").write_text(PLAN)
    words = [str(tmp_path / name) for name in ("plan.toml", "out", "kept")]
    done = subprocess.run([sys.executable, "-c", BARE, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if line.isdigit()] == ["0", "0", "0"]
    assert "2 cells: 0 there before, 2 done, 0 failed." in done.stdout
    assert "0 cells: 0 there before, 0 done, 0 failed." in done.stdout  # the archive has the fold whole
    assert (tmp_path / "kept" / "records.parquet").exists()
