"""Parts of the slow loops that mask methods are compared with."""

import torch
from torch import nn
from torch.nn.functional import normalize

from tempograd._utils.rng import Purpose, keys, normal, split
from tempograd.explainers.masks.replacements import Replacement, Trend, two_means


def blind(z):
    return z.sum((1, 2))[:, None] * 0


def first_network(question_seed: int, channels: int) -> tuple[nn.GRU, nn.Linear]:
    """The weights that torch gives a GRU and a linear layer made one after the other."""
    with torch.random.fork_rng():
        torch.manual_seed(question_seed)
        return (
            nn.GRU(channels, channels, batch_first=True, bidirectional=True).double(),
            nn.Linear(2 * channels, channels).double(),
        )


def literal_extremal_mask(model, x, settings, batches, *, dense, mean=False, start=None, empty=False):
    """The definition with torch's Adam, masks and network trained together.

    ``dense`` moves all masks at every step, ``mean`` takes the mean loss of a batch rather than the sum.
    """
    gru, head = first_network(5, x.shape[2])
    mask = torch.full_like(x, 0.5, requires_grad=True)
    rows = [mask] if dense else [mask[batch].detach().clone().requires_grad_() for batch in batches]
    optimiser = torch.optim.Adam([*rows, *gru.parameters(), *head.parameters()], lr=settings.lr)
    start = torch.zeros_like(x) if start is None else start
    clean = model(start if empty else x).softmax(-1).detach()
    for _ in range(settings.epochs):
        for index, batch in enumerate(batches):
            own, series_ = mask[batch] if dense else rows[index], x[batch]
            moved = head(normalize(gru(series_ - start[batch])[0], dim=-1))
            kept = own.clamp(0, 1)
            kept = 1 - kept if empty else kept
            z = kept * series_ + (1 - kept) * (start[batch] + moved)
            wrong = -(clean[batch] * model(z).log_softmax(-1)).sum(-1).mean()
            size = (settings.mask_weight * own.abs() + settings.replacement_weight * moved.abs()).mean()
            optimiser.zero_grad(set_to_none=not dense)
            total = 1 if mean else len(series_)  # Adam's guard sees the difference
            ((wrong + size) * total).backward()
            optimiser.step()
    return (mask if dense else torch.cat(rows)).detach().clamp(0, 1).float()


def literal_contralsp(model, x, settings, seed, *, mean=False):
    """The definition, with a loop over channels and torch's Adam; ``mean`` as above."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        replacement, trend = Replacement(x.shape[2]), Trend(x.shape[1], x.shape[2])
    gru, head = replacement.gru.double(), replacement.head.double()
    parts = [
        p.detach().double().requires_grad_()
        for p in (trend.first, trend.first_bias, trend.second, trend.second_bias)
    ]
    first, first_bias, second, second_bias = parts
    mu = torch.full_like(x, 0.5, requires_grad=True)
    optimiser = torch.optim.Adam([mu, *replacement.parameters(), *parts], lr=settings.lr)
    clean = model(x).softmax(-1).detach()

    def mask(gate):
        tau = []
        for d in range(x.shape[2]):
            hidden = (x[:, :, d] @ first[d] + first_bias[d]).relu()
            tau.append(hidden @ second[d] + second_bias[:, d])
        return gate * torch.sigmoid(gate * torch.stack(tau, -1))

    for epoch in range(settings.epochs):
        noise = []
        for name in range(len(x)):
            stream = split(keys(seed, torch.tensor([name]), Purpose.GATES), epoch)
            noise.append(normal(stream, torch.arange(x[0].numel())).view(x[0].shape))
        kept = mask(mu + 0.5 + settings.sigma * torch.stack(noise)).clamp(0, 1)
        moved = head(normalize(gru(x)[0], dim=-1))
        wrong = -(clean * model(kept * x + (1 - kept) * moved).log_softmax(-1)).sum(-1).mean()
        chance = torch.special.ndtr(mask(mu + 0.5) / settings.sigma).mean()
        loss = wrong + settings.mask_weight * chance + settings.replacement_weight * moved.abs().mean()
        if settings.contrastive == "triplet":
            loss = loss + settings.replacement_weight * literal_contrast(moved.flatten(1))
        optimiser.zero_grad()
        (loss if mean else loss * len(x)).backward()  # Adam's guard sees the difference
        optimiser.step()
    return mask(mu + 0.5).clamp(0, 1).detach().float()


def literal_contrast(points):
    first, _ = two_means(points.detach())
    total = 0.0
    for group in (first, ~first):
        members, others = group.nonzero()[:, 0].tolist(), (~group).nonzero()[:, 0].tolist()
        if len(members) < 2 or not others:
            continue
        centre = points[members].mean(0).detach()
        anchor = min(members, key=lambda i: float((points[i].detach() - centre).square().sum()))
        near = sum((points[i] - points[anchor]).abs().mean() for i in members if i != anchor) / (len(members) - 1)
        far = sum((points[i] - points[anchor]).abs().mean() for i in others) / len(others)
        total = total + max(near - far + 1, torch.zeros(())) / 2
    return total
