"""Methods as their definitions read: slow loops over cells, steps and draws, and captum's own."""

import math
import warnings

import captum.attr
import torch
from captum._utils.models.linear_model import SkLearnLasso
from torch import nn
from torch.nn.functional import normalize

import tempograd as tg
from tempograd.core.rng import Stream, fold_in, keys, normal, split
from tempograd.explainers.masks import Replacement, Trend, two_means
from tempograd.explainers.prefix import Generator
from tempograd.sampling.segments import SegmentSettings

DOUBLE = torch.float64


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
            stream = split(keys(seed, torch.tensor([name]), Stream.GATES), epoch)
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


class Known(Generator):
    """A generator whose guess is given: one mean and factor for every step, or the last value as mean."""

    def __init__(self, mean, factor, noise=1e-4, *, last=False):
        super().__init__(len(mean), 2, noise)
        self.latents, self.last = 1, last
        self.register_buffer("m", torch.as_tensor(mean, dtype=DOUBLE))
        self.register_buffer("a", torch.as_tensor(factor, dtype=DOUBLE))

    def past(self, x):
        return torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], 1)

    def moments(self, past, noise):
        mean = past if self.last else self.m.expand(len(past), -1)
        return mean, self.a.expand(len(past), -1, -1)


def literal_fit(explainer, model, x, seed, ids):
    """The definition, one step, channel and draw at a time, with the generator run on every prefix."""
    generator, (count, time, channels) = explainer.generator, x.shape
    generator = generator.double()
    scores = torch.zeros(x.shape)
    eye = torch.eye(channels, dtype=DOUBLE)
    for n in range(count):
        streams = [
            fold_in(keys(seed, torch.tensor([ids[n]]), purpose), explainer.n_samples)[:, 0]
            for purpose in (Stream.LATENTS, Stream.REPLACEMENTS)
        ]
        for t in range(1, time):
            p = [model(x[n : n + 1, : s + 1]).softmax(-1)[0] for s in (t - 1, t)]
            state = generator.gru(x[n : n + 1, :t])[0][:, -1]
            for i in range(channels):
                left = 0.0
                for s in range(explainer.n_samples):
                    latent = normal(streams[0][:, s], t * 100 + torch.arange(100))
                    u, v = normal(streams[1][:, s], t * 2 * channels + torch.arange(2 * channels)).chunk(2)
                    centre, spread = generator.latent(state).chunk(2, -1)
                    z = centre + spread * latent
                    mean, factor = generator.mean(z)[0], generator.factor(z).view(channels, channels)
                    covariance = factor @ factor.T + generator.noise * eye
                    joint = mean + factor @ u + math.sqrt(generator.noise) * v
                    drawn = joint + covariance[:, i] / covariance[i, i] * (x[n, t, i] - joint[i])
                    changed = torch.cat([x[n, :t], drawn[None]])[None]
                    left += kl(p[1], model(changed).softmax(-1)[0]) / explainer.n_samples
                scores[n, t, i] = squash(kl(p[1], p[0]) - left)
    return scores


def seen_by(explainer, model, x, task=None, **call):
    """The scores, and the series the model saw, clean ones left out; in calls of one sequence at a time."""
    seen = []

    def watched(z):
        seen.append(z.clone())
        return model(z)

    found = explainer(tg.Predictor(watched, task=task), x, **call)
    return found, torch.cat(seen[:-3])  # the last three are the second look at the model


def captum_lime(forward, x, target, masks, alpha):
    """captum's Lime for one series, given its masks."""
    rows = iter(masks.flatten(1).long())
    learner = SkLearnLasso(alpha=alpha, tol=1e-10, max_iter=100_000)
    method = captum.attr.Lime(forward, learner, perturb_func=lambda *_, **__: next(rows)[None])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return method.attribute(x, target=target, n_samples=len(masks))


def captum_deep_lift(model, x, baseline, score):
    """What a captum user would write."""

    class Wrapper(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, z):
            return score(self.model(z))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = captum.attr.DeepLift(Wrapper()).attribute(x.clone(), baselines=baseline)
    return found.detach().float()


def with_value(x, t, d, value):
    z = x.clone()
    z[:, t, d] = value
    return z


def deviation(masks: torch.Tensor, segments: SegmentSettings) -> float:
    """Largest distance from the closed form at the first, middle and last step, in standard errors."""
    steps = [0, segments.time // 2, segments.time - 1]
    expected = torch.from_numpy(segments.p_active()[steps])
    found = masks[:, steps, 0].double().mean(0)
    return float(((found - expected) / (expected * (1 - expected) / len(masks)).sqrt()).abs().max())


def kl(p, q):
    return float((p * (p / q).log()).sum())


def squash(delta):
    return 2 / (1 + math.exp(-5 * delta)) - 1
