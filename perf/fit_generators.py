"""Whether FIT's figures on State come from how its generator was learnt, or from how it is used.

    make .venv/peers && .venv/bin/python perf/fit_generators.py --run RUN

The generator as the paper has it is learnt by us and by time_interpret, from the same test series, with several
seeds; its weights go from one to the other, and both score with both. Series and models are those of
``table4-released`` under the published protocol, which RUN holds or is given. Rows go to
``perf/results/fit_generators.json`` one by one, and those that are there are not measured again.
About eight minutes a seed on one core, half of that with ``--scored-by tempograd``.
"""

import argparse
import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import peers
import tempograd as tg
from tempograd.data import Series
from tempograd.explainers.prefix import Generator
from tempograd.metrics.evaluation import measure
from tempograd_paper.cell import Cell, Measure
from tempograd_paper.protocols.series import evenly
from tempograd_paper.released import released
from tempograd_paper.released.fit import ReleasedFit
from tempograd_paper.runner.execute import metric, train_cell
from tempograd_paper.runner.store import Store
from timing import machine

OURS, THEIRS = "tempograd", "time_interpret"
MEASURES = (Measure("cpd", "cpd", 0.1), Measure("aup", "aup"), Measure("aur", "aur"))
PARTS = {"rnn": "gru", "dist_predictor": "latent", "mean_generator": "mean", "cov_generator": "factor"}
LAYERS = {"0": "0.0", "2": "0.2", "3": "1"}  # ours keep what lies before the last layer together
KEY = "fold", "seed", "learnt_by", "scored_by"
FIRST = 4  # the first step that the released generator learns
Row = dict[str, Any]


class Subject(NamedTuple):
    """A model of one fold, and the test series."""

    cell: Cell
    model: nn.Module
    test: Series


class Learnt(NamedTuple):
    """One generator in two forms with the same weights: ours, and that of time_interpret's FIT."""

    generator: Generator
    theirs: Any


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's global numbers, which time_interpret draws from, and put them back."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def our_name(theirs: str) -> str:
    """Return what a weight of time_interpret's generator is called in ours.

    >>> our_name("rnn.weight_ih_l0"), our_name("cov_generator.3.bias")
    ('gru.weight_ih_l0', 'factor.1.bias')
    """
    part, _, rest = theirs.partition(".")
    if part == "rnn":
        return f"{PARTS[part]}.{rest}"
    layer, _, weight = rest.partition(".")
    return f"{PARTS[part]}.{LAYERS[layer]}.{weight}"


def learn_ours(subject: Subject, seed: int) -> Generator:
    fitted = settings().fit(subject.model, subject.test.x, seed=seed).generator
    if fitted is None:
        raise RuntimeError("A fitted FIT has a generator.")
    return fitted


def learn_theirs(subject: Subject, seed: int) -> Any:
    """Return time_interpret's FIT, whose generator learnt by its own code with the released settings."""
    from pytorch_lightning import Trainer
    from tint.attr import Fit
    from tint.attr.models import JointFeatureGeneratorNet

    ours = settings()
    with peers.silent(), seeded(seed):
        return Fit(
            stepping(subject),
            generator=JointFeatureGeneratorNet(rnn_hidden_size=ours.hidden),
            features=subject.test.x,
            trainer=peers.trainer(Trainer, ours.epochs),
            batch_size=ours.fit_batch_size,
        )


def settings() -> ReleasedFit:
    found = released("fit", "state")
    if not isinstance(found, ReleasedFit):
        raise TypeError("The released FIT is of another kind.")
    return found


def both_forms(by: str, ours: Generator, theirs: Any) -> Learnt:
    """Give the generator that ``by`` has learnt to ours and to time_interpret's."""
    ours, theirs = deepcopy(ours), deepcopy(theirs)
    names = list(theirs.generator.state_dict())
    if by == OURS:
        weights = ours.state_dict()
        theirs.generator.load_state_dict({name: weights[our_name(name)] for name in names})
    else:
        weights = theirs.generator.state_dict()
        ours.load_state_dict({our_name(name): weights[name] for name in names})
    return Learnt(ours, theirs)


@torch.no_grad()
def disagreement(learnt: Learnt, x: Tensor) -> float:
    """Return the largest difference between both forms' means and covariances, from the same latents."""
    generator, worst = learnt.generator, 0.0
    for step in (1, x.shape[1] // 2, x.shape[1] - 1):
        with seeded(0):
            mean, covariance = learnt.theirs.generator.likelihood_distribution(x[:, :step])
        with seeded(0):
            our_mean, factor = generator.moments(
                generator.past(x)[:, step], torch.randn(len(x), generator.latents)
            )
        own = factor @ factor.mT + generator.noise * torch.eye(x.shape[2])
        worst = max(worst, float((mean - our_mean).abs().max()), float((covariance - own).abs().max()))
    return worst


@torch.no_grad()
def loss(generator: Generator, x: Tensor) -> float:
    """Return the mean negative log-density of the steps that were learnt from, with one draw of the latents."""
    values, past = x[:, FIRST:].flatten(0, 1), generator.past(x)[:, FIRST:].flatten(0, 1)
    with seeded(0):
        return float(generator.surprise(values, past, torch.randn(len(values), generator.latents)))


def one_gaussian(x: Tensor) -> float:
    """Return the same of one Gaussian for all steps, which knows nothing of the past."""
    values = x[:, FIRST:].flatten(0, 1).double()
    fitted = torch.distributions.MultivariateNormal(values.mean(0), values.T.cov())
    return -float(fitted.log_prob(values).mean())


def stepping(subject: Subject) -> Callable[[Tensor], Tensor]:
    """Return the model's logits at the last step, from states that are known where a prefix is that of the series.

    time_interpret runs the model on every prefix from its start; the last step alone gives the same logits.
    """
    model, x = subject.model, subject.test.x
    recurrence, readout = model.get_submodule("recurrence"), model.get_submodule("readout")
    with torch.no_grad():
        states = recurrence(x)[0]

    def logits(z: Tensor) -> Tensor:
        known = z.shape[1] - 1
        if known and torch.equal(z[:, :known], x[:, :known]):
            state = recurrence(z[:, known:], states[None, :, known - 1].contiguous())[1]
        else:
            state = recurrence(z)[1]
        found: Tensor = readout(state[0])
        return found

    return logits


def explain(subject: Subject, learnt: Learnt, scored_by: str, seed: int) -> tg.Explanation:
    """Explain by our FIT, or put time_interpret's scores into such an explanation."""
    ours, x, ids = replace(settings(), generator=learnt.generator), subject.test.x, subject.test.ids
    if scored_by == OURS:
        return ours(subject.model, tg.Series(x, ids=ids), seed=seed)
    learnt.theirs.forward_func = stepping(subject)
    with peers.silent(), seeded(seed), torch.no_grad():
        values = learnt.theirs.attribute(x, n_samples=ours.n_samples)
    return replace(replace(ours, n_samples=1)(subject.model, x, seed=seed, ids=ids), values=values)


def judge(subject: Subject, explanation: tg.Explanation) -> dict[str, float]:
    """Return CPD, AUP and AUR as the published table has them."""
    chosen = [metric(each, subject.cell) for each in MEASURES]
    test = subject.test
    scores = measure(subject.model, explanation, test.x, chosen, "zero", truth=test.truth)
    return {name: float(values.double().mean()) for name, values in scores.items()}


def load(run: Path, fold: int, series: int | None) -> Subject:
    """Read a fold's model and the test series; make what RUN does not hold."""
    cell, store = Cell("state", "released", fold, "gru", "fit", MEASURES, "published"), Store(run)
    store.prepare(cell, None)
    if not store.has_model(cell):
        train_cell(cell, store, "cpu")
    return Subject(cell, store.model(cell, "cpu"), evenly(store.data(cell).test, series))


def rows_of(seed: int, subjects: list[Subject], todo: list[tuple[Any, ...]]) -> Iterator[Row]:
    """Learn with one seed, once for all folds, whose test series are the same; then measure what is to do."""
    x = subjects[0].test.x
    ours, theirs = learn_ours(subjects[0], seed), learn_theirs(subjects[0], seed)
    for by in (OURS, THEIRS):
        learnt = both_forms(by, ours, theirs)
        facts = {"loss": loss(learnt.generator, x), "forms_apart": disagreement(learnt, x)}
        for subject, scorer in itertools.product(subjects, (OURS, THEIRS)):
            key = subject.cell.fold, seed, by, scorer
            if key in todo:
                found = judge(subject, explain(subject, learnt, scorer, seed))
                yield dict(zip(KEY, key, strict=True)) | found | facts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=True, help="folder of a run of table4-released")
    parser.add_argument("--folds", type=int, nargs="+", default=[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[42, 43])
    parser.add_argument("--scored-by", nargs="+", choices=[OURS, THEIRS], default=[OURS, THEIRS])
    parser.add_argument("--series", type=int, help="so many test series, evenly spaced; by default all 200")
    parser.add_argument("--out", type=Path, default=Path("perf/results/fit_generators.json"))
    args = parser.parse_args()
    rows: list[Row] = json.loads(args.out.read_text())["rows"] if args.out.exists() else []
    subjects = [load(args.run, fold, args.series) for fold in args.folds]
    x = subjects[0].test.x
    about = {"data": "state, released series", "protocol": "published", "test_series": len(x)}
    about |= {"loss_of_one_gaussian": one_gaussian(x), "date": f"{datetime.now(UTC):%Y-%m-%d}"} | machine()
    for seed in args.seeds:
        have = {tuple(row[name] for name in KEY) for row in rows}
        wanted = itertools.product(args.folds, [seed], (OURS, THEIRS), args.scored_by)
        todo = [key for key in wanted if key not in have]
        for row in rows_of(seed, subjects, todo) if todo else ():
            rows.append(row)
            print(" ".join(f"{key}={value}" for key, value in row.items()), flush=True)
            args.out.write_text(json.dumps(about | {"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
