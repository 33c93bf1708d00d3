"""The series that a call compares with, where other series are its baseline."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from tempograd.core.checks import run_checks
from tempograd.core.errors import InputError
from tempograd.core.findings import arg
from tempograd.core.rng import Stream
from tempograd.core.series import Series
from tempograd.engine import Ask, Background, is_several
from tempograd.engine.background import in_time_order
from tempograd.explainers.checks import BACKGROUND
from tempograd.typing import InputBaselines, Inputs

if TYPE_CHECKING:
    from tempograd.explainers.base import Explainer


def drawn_from(
    explainer: "Explainer",
    x: Series,
    baseline: InputBaselines | None,
    background: Inputs | Series | None,
) -> tuple[Inputs | None, InputBaselines | None]:
    """Check the series that baselines are drawn from; return them, and the baseline on average."""
    check_background(explainer, baseline, background)
    if background is None:
        return None, baseline
    pool = in_time_order(Series.of(background).filled)
    require_like(pool, x)
    return pool, mean_of(pool)


def check_background(explainer: "Explainer", baseline: Any, background: Any) -> None:
    """Refuse other series where they make no difference, or are missing, or the method cannot draw them."""
    facts = {"method": explainer.name, "facts": explainer, "baseline": baseline, "background": background}
    run_checks(BACKGROUND, facts)


def require_like(pool: Inputs, x: Series) -> None:
    """Refuse a pool of other inputs or of another shape than the series."""
    if is_several(pool) != is_several(x.x):
        one, other = ("several inputs", "one") if is_several(pool) else ("one input", "several")
        raise InputError(f"The background series are of {one}, x is of {other}: pass series like x.")
    if isinstance(pool, Mapping) and isinstance(x.x, Mapping) and set(pool) != set(x.x):
        raise InputError(f"The background series must be of the same inputs as x: {', '.join(map(str, x.x))}.")
    if isinstance(pool, Tensor) and tuple(pool.shape[1:]) != x.shape[1:]:
        raise InputError(
            f"The background series have shape {tuple(pool.shape[1:])}, x has {x.shape[1:]}: pass series of the "
            f"same length and channels as {arg:question.background}."
        )


def mean_of(pool: Inputs) -> InputBaselines:
    """Return the mean of a pool at each cell."""
    if isinstance(pool, Mapping):
        return {name: _mean(each) for name, each in pool.items()}
    if isinstance(pool, tuple):
        return cast("InputBaselines", tuple(map(_mean, pool)))
    return _mean(pool)


def _mean(pool: Any) -> Tensor:
    mean: Tensor = pool.mean(0, keepdim=True, dtype=torch.float64)
    if not bool(mean.isfinite().all()):
        raise InputError(
            "background must not hold NaN or infinity: put a number there, or leave those series out."
        )
    return mean


def laid_ready(ask: Ask, pool: Inputs) -> Background:
    """Lay a pool ready for the series of an ask."""
    where = ask.device, ask.dtype
    return Background.of(pool, ask.x, ask.call, ask.seed, where, Stream.BACKGROUND)
