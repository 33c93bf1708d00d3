"""Literal loops of two published procedures that no package offers, WinIT and ContraLSP."""

import numpy as np
import torch
from torch import Tensor, nn


def winit(model: nn.Module, x: Tensor, train: Tensor, window: int = 10, samples: int = 3) -> Tensor:
    """Loop over prediction times, window starts and features, with values drawn from each feature's own."""
    series, time, channels = x.shape
    pools = [train[..., f].flatten().numpy() for f in range(channels)]
    rng = np.random.default_rng(42)
    scores = np.zeros((series, channels, time, window), dtype=float)
    with torch.no_grad():
        for t in range(1, time):
            clean = model(x[:, : t + 1]).softmax(-1)
            reach = min(t, window)
            effect = np.zeros((series, channels, reach))
            for n in range(reach):
                for f in range(channels):
                    z = x[:, : t + 1].repeat(samples, 1, 1)
                    drawn = rng.choice(pools[f], size=(samples * series, n + 1))
                    z[:, t - n :, f] = torch.from_numpy(drawn)
                    answer = model(z).softmax(-1).view(samples, series, -1)
                    effect[:, f, n] = (answer - clean).abs().sum(-1).mean(0).numpy()
            scores[:, :, t, 0] = effect[:, :, 0]
            scores[:, :, t, 1:reach] = np.diff(effect, axis=2)
    result = np.zeros((series, time, channels))
    for u in range(time):
        ends = range(u, min(u + window, time))
        result[:, u] = np.mean([scores[:, :, k, k - u] for k in ends], axis=0)
    return torch.from_numpy(result)


class Replacement(nn.Module):
    """Bidirectional GRU, normalised, and a linear layer."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gru = nn.GRU(channels, channels, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(nn.functional.normalize(self.gru(x)[0], dim=-1))


def contralsp(model: nn.Module, x: Tensor, epochs: int, lam: tuple[float, float] = (0.005, 0.01)) -> Tensor:
    """Train gates, a trend network per channel and the replacement; cluster on the host at every step."""
    _, time, channels = x.shape
    gates = nn.Parameter(torch.full_like(x, 0.5))
    trends = nn.ModuleList(
        nn.Sequential(nn.Linear(time, 32), nn.ReLU(), nn.Linear(32, time)) for _ in range(channels)
    ).to(x.device)
    network = Replacement(channels).to(x.device)
    optimiser = torch.optim.Adam([gates, *trends.parameters(), *network.parameters()], lr=0.1)

    def mask(raw: Tensor) -> Tensor:
        trend = torch.stack([trends[d](x[:, :, d]) for d in range(channels)], -1)
        return (raw + 0.5) * ((raw + 0.5) * trend).sigmoid()

    for _ in range(epochs):
        optimiser.zero_grad()
        soft = mask(gates + 0.5 * torch.randn_like(gates)).clamp(0, 1)
        kept = soft * x + (1 - soft) * network(x)
        dropped = (1 - soft) * x + soft * network(x)
        answer, other, target = model(kept).softmax(-1), model(dropped).softmax(-1), model(x).softmax(-1)
        loss = nn.functional.cross_entropy(answer, target.argmax(-1)) + 0 * other.sum()
        loss = loss + lam[0] * (0.5 + 0.5 * torch.erf(mask(gates) / 0.5 / 2**0.5)).mean()
        loss = loss + lam[1] * (network(x).abs().mean() + _contrast((soft * x).detach().cpu()))
        loss.backward()
        optimiser.step()
    with torch.no_grad():
        return mask(gates).clamp(0, 1)


def _contrast(points: Tensor) -> float:
    from sklearn.cluster import KMeans

    flat = points.flatten(1).numpy()
    labels = KMeans(2, n_init=10, random_state=0).fit_predict(flat)
    total = 0.0
    for i in range(len(flat)):
        distances = np.abs(flat - flat[i]).mean(1)
        same, others = distances[labels == labels[i]], distances[labels != labels[i]]
        near = np.sort(same)[: len(same) // 5 + 1]
        far = np.random.default_rng(i).permutation(others)[: len(others) // 5 + 1]
        total += max(1 + (1 + far.sum()) / max(1, len(far)) - (1 + near.sum()) / len(near) - 1, 0) / 2
    return total
