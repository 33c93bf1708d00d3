"""How often TIMING's 95 % intervals hold the converged value, on a model with steep spots.

An LSTM with a mean over time learns which of two channels carries a bump, if any. Its three classes differ in how
abruptly the prediction changes along the path: where it does, rare path points carry the effect. Run on one
thread, this takes about ten minutes:

    OMP_NUM_THREADS=1 python perf/interval_coverage.py
"""

import torch
from torch import Tensor, nn

from tempograd import IntegratedGradients, Timing

STEPS, SERIES = 60, 3  # time steps, series per class
CONVERGED = 20_000  # points of each of three runs: the grid of the path must be finer than its steepest spots


class Net(nn.Module):
    """Mean-pooled LSTM with three classes."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(2, 32, batch_first=True)
        self.head = nn.Linear(32, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.lstm(x)[0].mean(1))


def series(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Noise, with a bump of ten steps in channel y - 1 for the classes 1 and 2."""
    y = torch.randint(3, (count,), generator=generator)
    x = 0.5 * torch.randn(count, STEPS, 2, generator=generator)
    for row, kind in enumerate(y.tolist()):
        if kind:
            start = int(torch.randint(5, STEPS - 15, (1,), generator=generator))
            x[row, start : start + 10, kind - 1] += 2
    return x, y


def trained(generator: torch.Generator) -> Net:
    """Forty epochs of Adam, long after every series is classified right."""
    torch.manual_seed(0)
    x, y = series(600, generator)
    model = Net()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(40):
        for batch in torch.randperm(len(x), generator=generator).split(32):
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
            optimiser.step()
    return model.eval()


def gap(model: Net, x: Tensor, y: Tensor, output: str, points: int) -> float:
    """Largest difference of the sum of integrated gradients to F(x) - F(baseline)."""
    with torch.no_grad():
        ends = [model(z) if output == "raw" else model(z).softmax(-1) for z in (x, torch.zeros_like(x))]
    delta = (ends[0] - ends[1]).gather(1, y[:, None])[:, 0]
    total = IntegratedGradients(points)(model, x, output=output, target=y).values.sum((1, 2))
    return float((total - delta).abs().max())


def coverage(model: Net, x: Tensor, y: Tensor, output: str, points: int, runs: int, converged: Tensor) -> Tensor:
    """Share of the runs whose interval holds the converged value, (series, time, channel)."""
    held = torch.zeros_like(converged)
    for seed in range(runs):
        low, high = Timing(points)(model, x, output=output, target=y, seed=seed).interval(0.95)
        held += (low <= converged) & (converged <= high)
    return held / runs


def main() -> None:
    generator = torch.Generator().manual_seed(1)
    model = trained(generator)
    x, y = series(200, generator)
    print(f"accuracy {float((model(x).argmax(1) == y).float().mean()):.3f}")
    rows = torch.cat([(y == kind).nonzero()[:SERIES, 0] for kind in range(3)])
    x, y = x[rows], y[rows]
    for output in ("probability", "raw"):
        for points in (50, 200, 1000):
            print(f"IG, {output}, {points} points: completeness gap {gap(model, x, y, output, points):.3g}")
        runs = [Timing(CONVERGED)(model, x, output=output, target=y, seed=1000 + s).values for s in range(3)]
        converged = torch.stack(runs).double().mean(0)
        for points, count in ((50, 200), (200, 60), (1000, 30)):
            held = coverage(model, x, y, output, points, count, converged)
            classes = ", ".join(f"{float(part.mean()):.2f}" for part in held.split(SERIES))
            print(f"TIMING, {output}, {points} points: {float(held.mean()):.2f} covered; by class {classes}")


if __name__ == "__main__":
    main()
