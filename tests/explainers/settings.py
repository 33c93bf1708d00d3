"""Settings that many tests share."""

from conftest import series
from tempograd.explainers import EXPLAINERS, Explainer

# few epochs or draws, where a method's defaults would make the contract tests slow
QUICK: dict[str, dict[str, object]] = {
    "augmented_occlusion": {"samples": 4},
    "contralsp": {"epochs": 10, "lr": 0.1},
    "dynamask": {"epochs": 20, "lr": 0.1, "areas": (0.2, 0.4)},
    "extremal_mask": {"epochs": 9, "lr": 0.05},
}


def quick(name: str, **changes) -> Explainer:
    return EXPLAINERS[name](**(QUICK.get(name, {}) | changes))


def run(explainer: Explainer, model, x, **call):
    """Explain, after a fit to other series where the method needs one."""
    if explainer.needs_fit:
        _, time, channels = x.transpose(1, 2).shape if call.get("layout") == "BDT" else x.shape
        train = series(16, 64, channels, seed=99)[:, :time]  # a longer series begins like a shorter one
        explainer = explainer.fit(model, train)
    return explainer(model, x, **call)


# the six settings of the paper: time, channels, segments, min_length, max_length

PAPER = {
    "mimic3": (48, 32, 50, 10, 48),
    "pam": (600, 17, 10, 10, 600),
    "boiler": (36, 20, 50, 1, 36),
    "epilepsy": (178, 1, 10, 10, 10),
    "wafer": (152, 1, 5, 10, 152),
    "freezer": (301, 1, 5, 10, 100),
}
