"""Every step of every writer fails once: files are whole, the old or the new one, and one sentence tells."""

from functools import cache

import pytest
import torch

import tempograd as tg
from tempograd import plots
from tempograd.models import build, load_model
from tests.helpers.write_faults import fails_at_every_step, stops_halfway

SLOW = {"report", "picture"}  # which see one of the errors at each step, and few of very many steps


@cache
def explanation(seed):
    return tg.explain(lambda x: x.sum(1), torch.ones(2, 3, 2), "random", output="raw", target=0, seed=seed)


@cache
def model(seed):
    found = build("cnn", 2, 2, hidden=2)
    with torch.no_grad():
        for weights in found.parameters():
            weights.fill_(seed)
    return found


@cache
def picture(seed):
    return plots.series(explanation(seed), 0)


# name: what is written with some seed, and what a reader finds of it
WRITERS = {
    "explanation": (
        lambda path, seed: explanation(seed).save(path),
        lambda path: tg.Explanation.load(path).values.tolist(),
    ),
    "model": (
        lambda path, seed: tg.save_model(model(seed), path),
        lambda path: [weights.tolist() for weights in load_model(path).state_dict().values()],
    ),
    "report": (
        lambda path, seed: tg.report(path, None, [explanation(0)], title=f"title {seed}"),
        lambda path: (path.read_text().count(f"title {0}"), path.read_text().endswith("</html>\n")),
    ),
    "picture": (
        lambda path, seed: picture(seed).savefig(path, format="svg"),
        lambda path: (path.read_text().endswith("</svg>\n"), len(path.read_text()) > 1000),
    ),
}


@pytest.mark.parametrize(
    ("name", "there"),
    [
        *((name, True) for name in WRITERS if name != "picture"),
        pytest.param("picture", True, marks=pytest.mark.slow),
        ("explanation", False),
        ("model", False),
    ],  # what is there is replaced
)
def test_a_fault_at_any_step_of_a_writer(tmp_path, monkeypatch, name, there):
    write, read = WRITERS[name]
    options = {"there": there, "quick": name in SLOW, "same": name == "picture"}
    fails_at_every_step(write, read, tmp_path / "here", monkeypatch, **options)


@pytest.mark.parametrize("name", ["explanation", "model"])
def test_a_real_limit_halfway_through_a_file(tmp_path, name):
    write, read = WRITERS[name]
    stops_halfway(write, read, tmp_path)
