"""An id in two files of a run: refused with their names, as soon as it is known."""

import pytest
from torch import nn

import tempograd as tg
from tests.bulk.conftest import explain_files

pytestmark = pytest.mark.usefixtures("alone")


class Sum(nn.Module):
    def forward(self, x):
        return x.sum((1, 2))[:, None]


def write(folder, **files):
    """Write one file for each list of ids."""
    folder.mkdir(exist_ok=True)
    for name, ids in files.items():
        rows = [f"{each},{time},{time + 1}" for each in ids for time in range(2)]
        (folder / f"{name}.csv").write_text("\n".join(["id,time,a", *rows]))


def explain(folder, **options):
    return explain_files(
        tg.Predictor(Sum(), task="regression"),
        folder / "in",
        folder / "out",
        method="integrated_gradients",
        n_steps=2,
        **options,
    )


def refusal(folder, **options):
    with pytest.raises(tg.TempogradError) as raised:
        explain(folder, **options)
    return str(raised.value)


def test_files_that_count_alike_are_refused_at_the_second(tmp_path, said):
    write(tmp_path / "in", a=["1", "2"], b=["2", "3"], c=["4"])
    said(refusal(tmp_path))
    assert len(tg.open_run(tmp_path / "out").files()) == 2  # the third was not begun


def test_later_files_are_compared_at_the_end(tmp_path):
    write(tmp_path / "in", a=["p1"], b=["p2", "p3", "p4"], c=["p5", "p4"], d=["p6"])
    assert refusal(tmp_path).startswith("The id 'p4' occurs more than once (b.csv, c.csv)")
    assert refusal(tmp_path).startswith("The id 'p4'")  # all is done, and still not sound
    write(tmp_path / "in", c=["p5", "p7"])
    run = explain(tmp_path)
    assert sorted(run.sample(9)) == ["p1", "p2", "p3", "p4", "p5", "p6", "p7"]


def test_ids_of_two_kinds_are_refused_at_the_second_file(tmp_path, said):
    write(tmp_path / "in", a=["1", "2"], b=["007", "5"], c=["8"])
    said(refusal(tmp_path))
    run = tg.open_run(tmp_path / "out")
    assert len(run.files()) == 2  # the third was not begun
    for call in (lambda: run.sample(1), lambda: run.take([1])):
        with pytest.raises(tg.TempogradError, match=r"The ids of a.csv are whole numbers, those of b.csv texts"):
            call()


def test_ids_of_two_kinds_that_later_files_have(tmp_path):
    """Those of a run that goes on are compared at its end, with what was there before."""
    write(tmp_path / "in", a=["1"])
    explain(tmp_path)
    write(tmp_path / "in", b=["x"])
    assert refusal(tmp_path).startswith("The ids of a.csv are whole numbers, those of b.csv texts: write all as")


def test_what_can_be_read_of_such_a_run(tmp_path):
    write(tmp_path / "in", a=["p1", "p2"], b=["p2"], c=["p3"])
    refusal(tmp_path)
    run = tg.open_run(tmp_path / "out")
    with pytest.raises(tg.TempogradError, match=r"The id 'p2' occurs more than once \(a.csv, b.csv\)"):
        run.take(["p2"])
