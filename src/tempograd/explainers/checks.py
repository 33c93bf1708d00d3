"""What is refused of a question before anything runs, and of a question put to a method: rows, in their order.

``method`` is the name of a method, ``facts`` the explainer itself, whose class facts rows read.
"""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from tempograd.core.errors import Check
from tempograd.engine.background import is_background
from tempograd.engine.outputs import STEPS

ALL = "all"
PLAIN = SimpleNamespace(needs_fit=False, learnt=None, targeted=True, uses_baseline=True, takes_background=True)


def _like(**facts: Any) -> SimpleNamespace:
    """Return the facts of a method that differ from those of most."""
    return SimpleNamespace(**(vars(PLAIN) | facts))


def _are_targets(targets: Any) -> bool:
    if targets is None or isinstance(targets, str):
        return targets in (None, ALL)
    return isinstance(targets, Sequence) and len(targets) > 0 and all(target is not None for target in targets)


METHOD = (
    Check(
        "background.unused",
        ("baseline", "background"),
        lambda baseline, background: background is None or is_background(baseline),
        "{arg:question.background} of a call is for {arg:question.baseline=background}",
        "pass that too, or series to learn from to explainer.fit(model, series)",
        {"baseline": None, "background": [1.0]},
    ),
    Check(
        "background.missing",
        ("baseline", "background"),
        lambda baseline, background: background is not None or not is_background(baseline),
        "{arg:question.baseline=background} compares with other series",
        "pass them as {arg:question.background}, such as training series",
        {"baseline": "background", "background": None},
    ),
    Check(
        "background.method",
        ("method", "facts", "baseline"),
        lambda _, facts, baseline: (
            facts.takes_background or not facts.uses_baseline or not is_background(baseline)
        ),
        "{method} compares with one baseline and draws none",
        "use a method that draws them, such as timing, or pass the mean of the series as {arg:question.baseline}",
        {"method": "lift", "facts": _like(takes_background=False), "baseline": "background", "background": [1]},
    ),
    Check(
        "targets.both",
        ("target", "targets"),
        lambda target, targets: target is None or targets is None,
        "{arg:question.target} and {arg:question.targets} exclude each other",
        "put all targets into {arg:question.targets}",
        {"target": 0, "targets": [1]},
    ),
    Check(
        "targets.kind",
        ("targets",),
        _are_targets,
        "{arg:question.targets} is {targets}",
        "list the targets, such as [0, 5], or pass 'all'",
        {"targets": [0, None]},
    ),
    Check(
        "targets.whole",
        ("method", "facts", "targets"),
        lambda _, facts, targets: targets is None or facts.targeted,
        "{method} explains the whole output of the model",
        "leave {arg:question.targets} out",
        {"method": "dynamask", "facts": _like(targeted=False), "targets": [0]},
    ),
    Check(
        "method.fit",
        ("method", "facts"),
        lambda _, facts: not facts.needs_fit or facts.learnt is not None,
        "{method} learns from training series",
        "{arg:explain.fit}",
        {"method": "fit", "facts": _like(needs_fit=True)},
    ),
)

QUESTION = (*METHOD, *STEPS)
