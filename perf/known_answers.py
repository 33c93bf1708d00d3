"""When are samples enough? Rules of stopping on networks whose evidence was planted, and on alarms of two causes.

    python perf/known_answers.py [--quick] [--only TEXT] [--data DIR] [--out FILE]

Series of 60 steps × 3 channels of noise; the class is decided by planted stretches of eight steps (``TASKS``). A
GRU, a CNN and a Transformer learn each task; rightly classified series are explained with 50, 100, … samples. The
stages of TIMING are nested, so the map that a rule would have stopped at is one of these. ``alarm`` is the LSTM
of a plant: six named sensors, an alarm is a spike of vibration that heat follows, and either alone is none.
Nobody knows the causes in the data sets of ``samplers.py`` (``--data``, in the files that it reads): there the
strongest driver with 6,400 samples counts as planted.
For each rule: the cost, AUPRC against the planted cells, the share of series whose first driver is certain and
planted, and the share whose first driver is certain and not.
"""

import argparse
import json
import warnings
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import tempograd as tg
from samplers import load
from tempograd.sampling.stretches import Stretches, stretches_of
from timing import machine, note

TIME, CHANNELS, LONG = 60, 3, 8
COUNTS = (50, 100, 200, 400, 800, 1600)
MANY = 6400  # samples that say what the strongest driver is where nobody knows
GOOD = 0.85  # accuracy below which a network knows no answer
RESULTS = Path(__file__).parent / "results" / "known_answers.json"


def places(draw: torch.Generator, count: int, many: int) -> Tensor:
    """Return where stretches begin that do not overlap, in order, (series, stretch)."""
    room = TIME - many * LONG
    free = torch.rand(count, many, generator=draw).mul(room + 1).long().sort(1).values
    return free + LONG * torch.arange(many)


def planted(kind: str, count: int, seed: int) -> tg.Series:
    """Draw series of a task, with their classes and the cells that decide them."""
    draw = torch.Generator().manual_seed(seed)
    x = 0.5 * torch.randn(count, TIME, CHANNELS, generator=draw)
    truth = torch.zeros_like(x, dtype=torch.bool)
    ramp, wave = torch.linspace(-2, 2, LONG), 2 * torch.sin(torch.linspace(0, 2 * torch.pi, LONG))
    y = torch.arange(count) % (4 if kind == "order" else 2)
    first, second = places(draw, count, 2).unbind(1)
    for i, label in enumerate(y.tolist()):
        one, other = (slice(int(at[i]), int(at[i]) + LONG) for at in (first, second))
        if kind == "order":  # two trends, in one of four orders
            x[i, one, 0], x[i, other, 0] = ramp * (1 - 2 * (label // 2)), ramp * (1 - 2 * (label % 2))
            truth[i, one, 0] = truth[i, other, 0] = True
        elif kind == "wave":  # a period of a sine, and its sign
            x[i, one, 1] = wave * (1 - 2 * label)
            truth[i, one, 1] = True
        elif kind == "calm":  # a level of low variance, up or down
            x[i, one, 2] = (1 - 2 * label) + 0.05 * torch.randn(LONG, generator=draw)
            truth[i, one, 2] = True
        elif kind == "level":  # a level against none
            x[i, one, 0] += 2.0 * label
            truth[i, one, 0] = bool(label)
        else:  # a spike that a ramp in another channel must follow; the other order is none
            early, late = (one, other) if label else (other, one)
            x[i, early.start, 1] += 4
            x[i, late, 2] += ramp
            truth[i, early.start, 1] = truth[i, late, 2] = True
    return tg.Series(x, y, truth=truth)


TASKS = ("order", "wave", "calm", "level", "follow")


class Alarm(nn.Module):
    """An ordinary LSTM: 32 units, the maximum over time."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(6, 32, batch_first=True), nn.Linear(32, 2)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.head(self.lstm(x)[0].amax(1))
        return found


def plant(count: int, seed: int) -> tg.Series:
    """Draw machines of six sensors: an alarm is a spike of vibration, and heat 12 to 20 of 120 steps later."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 120, 6, generator=draw) * 0.5
    x += torch.randn(count, 1, 6, generator=draw) * 0.3
    truth, y = torch.zeros_like(x, dtype=torch.bool), torch.zeros(count, dtype=torch.long)
    for i in range(count):
        kind = i % 4  # both, the spike alone, heat alone, the wrong order
        at = int(torch.randint(20, 60, (), generator=draw))
        later = at + int(torch.randint(12, 21, (), generator=draw))
        spike, heat = (at, later) if kind != 3 else (later + 20, at)
        if kind != 2:
            x[i, spike : spike + 4, 0] += 4.0
        if kind != 1:
            x[i, heat : heat + 30, 1] += torch.linspace(0.5, 3.0, 30)
        if kind == 0:
            y[i], truth[i, spike : spike + 4, 0], truth[i, heat : heat + 30, 1] = 1, True, True
    names = ["vibration", "bearing temp", "oil pressure", "motor current", "flow", "speed"]
    return tg.Series(x, y, truth=truth, channels=names)


def trained(
    make: Callable[[], nn.Module], series: tg.Series, epochs: int, rate: float, seed: int, device: str
) -> nn.Module:
    """Train by Adam with a schedule of one cycle."""
    torch.manual_seed(seed)
    model = make().to(device).train()
    x, y = series.x.to(device), series.y.to(device)
    adam = torch.optim.Adam(model.parameters(), rate)
    steps = epochs * -(-len(series) // 64)
    cycle = torch.optim.lr_scheduler.OneCycleLR(adam, rate, total_steps=steps)
    for _ in range(epochs):
        for rows in torch.randperm(len(series)).to(device).split(64):
            loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
            adam.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            adam.step()
            cycle.step()
    return model.eval()


def explained(model: nn.Module, series: tg.Series, counts: tuple[int, ...]) -> dict[int, dict[str, Tensor]]:
    """Return for each number of samples what a rule may look at, and how good the map is, (series,) each."""
    found = {}
    for count in counts:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tg.TempogradWarning)
            exp = tg.explain(model, series, n_samples=count)
            auprc = tg.evaluate(model, exp, metrics=["auprc"], truth=series.truth)["auprc"].cpu()
        place = strongest(exp, 4)
        first, named = place.rank == 0, torch.zeros(len(exp), dtype=torch.bool)
        top = torch.zeros(len(exp), dtype=torch.float64)
        top[place.row[first]] = place.total[first].abs()
        uncertain = (place.total.abs() >= 0.1 * top[place.row]) & ~place.certain
        named[place.row[uncertain]] = True
        rows = torch.stack([place.row, place.channel, place.start, place.stop], 1)[first].tolist()
        hit = torch.tensor([bool(series.truth[i, a:b, d].any()) for i, d, a, b in rows])
        main = torch.zeros(len(exp), dtype=torch.bool)
        main[place.row[first]] = place.certain[first]
        right = torch.zeros(len(exp), dtype=torch.bool)
        right[place.row[first]] = hit
        error = exp.relative_error.double().cpu()
        found[count] = {
            "error": error,
            "main": main,
            "all": ~named & main,
            "right": right,
            "auprc": auprc.double(),
        }
    return found


RULES: dict[str, Callable[[dict[str, Tensor]], Tensor]] = {
    "error": lambda at: at["error"] <= 0.1,
    "error or main driver": lambda at: (at["error"] <= 0.1) | at["main"],
    "error or all named drivers": lambda at: (at["error"] <= 0.1) | at["all"],
    "error, of 20 % with all named drivers": lambda at: (at["error"] <= 0.1) | (at["all"] & (at["error"] <= 0.2)),
    "error, of 30 % with all named drivers": lambda at: (at["error"] <= 0.1) | (at["all"] & (at["error"] <= 0.3)),
}


def judged(found: dict[int, dict[str, Tensor]]) -> list[dict[str, Any]]:
    """Return cost and quality of each fixed number and of each rule with each cap."""
    rows = []
    for count, at in found.items():
        rows.append(quality(f"{count}", torch.full_like(at["error"], count), [at] * len(at["error"])))
    for name, enough in RULES.items():
        for cap in (200, 400, 800, 1600):
            counts = [count for count in found if count <= cap]
            if counts[-1] != cap:
                continue
            stop = torch.full((len(found[cap]["error"]),), cap)
            for count in reversed(counts):
                stop[enough(found[count])] = count
            rows.append(quality(f"{name}, at most {cap}", stop.double(), [found[int(n)] for n in stop]))
    return rows


def quality(rule: str, cost: Tensor, at: list[dict[str, Tensor]]) -> dict[str, Any]:
    pick = {name: torch.stack([each[name][i] for i, each in enumerate(at)]) for name in at[0]}
    return {
        "rule": rule,
        "cost": float(cost.mean()),
        "auprc": float(pick["auprc"].nanmean()),
        "certain_right": float((pick["main"] & pick["right"]).double().mean()),
        "certain_wrong": float((pick["main"] & ~pick["right"]).double().mean()),
        "within_10_percent": float((pick["error"] <= 0.1).double().mean()),
    }


def with_driver(model: nn.Module, series: tg.Series) -> tg.Series:
    """Return series with the cells of the driver that many samples find the strongest."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tg.TempogradWarning)
        exp = tg.explain(model, series, n_samples=MANY, seed=1)
    place, truth = strongest(exp), torch.zeros_like(series.x, dtype=torch.bool)
    for i, d, start, stop in torch.stack([place.row, place.channel, place.start, place.stop], 1).tolist():
        truth[i, start:stop, d] = True
    return replace(series, truth=truth)


def strongest(exp: tg.Explanation, most: int = 1) -> Stretches:
    return Stretches(*(part.cpu() for part in stretches_of(exp, exp.mask, most)))


def of_data(folder: Path, device: str) -> Any:
    """Yield each network of a data set with its name and the series to explain."""
    for path in sorted(folder.glob("*.npz")):
        for kind in ("gru", "cnn", "transformer"):
            data, test = load(path, 60)
            yield (
                f"data {path.stem} {kind}",
                lambda kind=kind, data=data: tg.train(kind, data, seed=0, device=device, epochs=40),
                test,
            )


def planted_networks(quick: bool, device: str) -> Any:
    """Yield each network with its name and the series to explain."""
    size, epochs = (400, 2) if quick else (3000, 30)
    for task in TASKS:
        for kind in ("gru", "cnn", "transformer"):

            def make(kind: str = kind, classes: int = 4 if task == "order" else 2) -> nn.Module:
                return tg.models.build(kind, CHANNELS, classes)

            rate, turns = (5e-4, 4 * epochs) if kind == "transformer" else (3e-3, epochs)
            learn = partial(trained, make, planted(task, size, 0), turns, rate, len(TASKS), device)
            yield f"{task} {kind}", learn, planted(task, 200, 1)
    for seed in range(3):
        learn = partial(trained, Alarm, plant(size, 10 + seed), epochs, 1e-2, seed, device)
        yield f"alarm lstm {seed}", learn, plant(240, 20 + seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="toy sizes, to see that everything runs")
    parser.add_argument("--only", default="")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--share", default="0/1", help="which of how many parts: 1/4 is the second")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    rows: dict[str, Any] = {}
    cases = planted_networks(args.quick, args.device) if args.data is None else of_data(args.data, args.device)
    for place, (name, learn, test) in enumerate(cases):
        turn, of = map(int, args.share.split("/"))
        if args.only not in name or place % of != turn:
            continue
        model = learn()
        score = tg.accuracy(model, test)
        known = model(test.x.to(args.device)).argmax(-1).cpu() == test.y
        known &= (test.y == 1) if name.startswith(("alarm", "level", "follow")) else True  # evidence is in these
        if score < GOOD and not args.quick and args.data is None:
            note(f"{name}: accuracy {score:.2f}, left out")
            continue
        chosen = test.take(known.nonzero()[:, 0][: 12 if args.quick else 60])
        chosen = chosen if args.data is None else with_driver(model, chosen)
        rows[name] = {"accuracy": score, "series": len(chosen)}
        rows[name]["rules"] = judged(explained(model, chosen, COUNTS[:3] if args.quick else COUNTS))
        note(f"{name}: accuracy {score:.2f}; {json.dumps(rows[name]['rules'][0])}")
    found = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "machine": machine(), "networks": rows}
    text = json.dumps(found, indent=1)
    if out := args.out or (None if args.quick or args.only or args.share != "0/1" else RESULTS):
        out.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
