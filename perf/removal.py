"""CPD, CPP and all metrics that remove values, against plain loops of forwards over batches of 30."""

import torch
from torch import Tensor, nn

import released
import tempograd as tg
from timing import Figures, Work, in_turn

BATCH = 30
METRICS = {  # what a user asks for, and what is shown
    "cpd": ("cpd",),
    "cpp": ("cpp",),
    "all": (
        "cpd",
        "cpp",
        "prediction_difference",
        "accuracy",
        "cross_entropy",
        "log_odds",
        "comprehensiveness",
        "sufficiency",
    ),
}


def compare(model: nn.Module, x: Tensor, k: int, rounds: int) -> Figures:
    """Return how many times faster the shared pass is than one loop per metric."""
    explanation = tg.explain(model, x, "random")
    found = {}
    for name, metrics in METRICS.items():
        ours, theirs = sides(model, explanation, metrics, k)
        turns = in_turn({"ours": ours, "theirs": theirs}, rounds)
        found[name] = {"k": k, "series": len(x), "metrics": len(metrics), "faster": turns.ratio("theirs", "ours")}
    return found


def sides(model: nn.Module, explanation: tg.Explanation, metrics: tuple[str, ...], k: int) -> tuple[Work, Work]:
    def theirs() -> dict[str, Tensor]:
        parts = list(zip(explanation.x.split(BATCH), explanation.values.split(BATCH), strict=True))
        return {
            name: torch.cat([loop(model, rows, values, name, k) for rows, values in parts]) for name in metrics
        }

    return lambda: tg.evaluate(model, explanation, metrics=list(metrics), k=k), theirs


@torch.no_grad()
def loop(model: nn.Module, x: Tensor, attribution: Tensor, metric: str, k: int) -> Tensor:
    """Score one batch by one metric, as a script does that has no removal pass to share."""
    if metric in {"cpd", "cpp"}:
        return released.cpd(model, x, attribution if metric == "cpd" else -attribution, k)
    gone = attribution.flatten(1).topk(k).indices
    kept = torch.ones_like(attribution).flatten(1).scatter_(1, gone, 0.0)
    if metric == "sufficiency":
        kept = 1 - kept
    before, after = (model(z).softmax(-1) for z in (x, x * kept.view_as(x)))
    target = before.argmax(-1, keepdim=True)
    first, last = (answer.gather(1, target)[:, 0] for answer in (before, after))
    if metric == "prediction_difference":
        return (first - last).abs()
    if metric == "accuracy":
        return (after.argmax(-1) == target[:, 0]).float()
    if metric == "cross_entropy":
        return -last.log()
    return last.log() - first.log() if metric == "log_odds" else first - last
