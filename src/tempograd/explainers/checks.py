"""What is refused of a question before anything runs, and of a question put to a method: rows, in their order.

``method`` is the name of a method; rows read some of its class facts, and whether it is ``fitted``.
"""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from tempograd.core import validation
from tempograd.core.errors import Check, InputError
from tempograd.engine import Ask
from tempograd.engine.outputs import is_probability


def _are_targets(targets: Any) -> bool:
    if targets is None or isinstance(targets, str):
        return targets in (None, "all")
    return isinstance(targets, Sequence) and len(targets) > 0 and all(target is not None for target in targets)


METHOD = (
    Check(
        "background.alone",
        ("baseline", "background"),
        lambda baseline, background: background is not None or not validation.is_background(baseline),
        "{arg:question.baseline=background} draws from {arg:question.background}",
        "pass both",
        {"baseline": "background", "background": None},
    ),
    Check(
        "background.method",
        ("method", "takes_background", "uses_baseline", "baseline"),
        lambda _, takes, uses, baseline: takes or not uses or not validation.is_background(baseline),
        "{method} compares with one baseline and draws none",
        "use a method that draws them, such as timing, or pass the mean of the series as {arg:question.baseline}",
        {"method": "lift", "takes_background": False, "baseline": "background", "background": [1]},
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
        ("method", "targeted", "targets"),
        lambda _, targeted, targets: targets is None or targeted,
        "{method} explains the whole output of the model",
        "leave {arg:question.targets} out",
        {"method": "dynamask", "targeted": False, "targets": [0]},
    ),
    Check(
        "method.fit",
        ("method", "fitted"),
        lambda _, fitted: fitted,
        "{method} learns from training series",
        "{arg:explain.fit}",
        {"method": "fit", "fitted": False},
    ),
)


def require_probabilities(method: str, ask: Ask, outputs: Callable[[], Tensor]) -> None:
    """Refuse raw outputs that are no probabilities, and those of several labels, which sum to anything."""
    if ask.output != "probability" and not (ask.output == "raw" and is_probability(outputs())):
        none = f"{method} compares probabilities of classes, one of which holds, and the model's outputs are none"
        raise InputError(f"{none}: leave output out if softmax belongs there, or use occlusion for other outputs.")
