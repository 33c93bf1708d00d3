"""One engine for all methods: series × path points, or series × perturbations, in pieces that fit.

Experimental: authors of methods may build on it, and its names may still change with each minor release.
"""

from tempograd.engine.batching import Chunks, pieces
from tempograd.engine.cuda import Ahead, Later
from tempograd.engine.estimators import ControlledMean, Estimate, WeightedMean, relative_error
from tempograd.engine.gradient_check import Evidence, Found, GradientCheck, hidden, judge
from tempograd.engine.gradients import (
    accumulate,
    differentiate,
    differentiate_each,
    gradients,
    require_graph,
    require_path,
)
from tempograd.engine.model import (
    Model,
    computing,
    fingerprint,
    mutable_if_needed,
    owner,
    place,
    quiet,
    resolution,
    spare,
    wrap,
)
from tempograd.engine.outputs import (
    both_logits,
    by_class,
    class_count,
    default_class,
    link,
    nested,
    one_logit,
    pick,
    predict,
    spans,
    wider,
)
from tempograd.engine.prefixes import Prefixes, at_every_step, require_prefixes
from tempograd.engine.request import Block, Question, asked, delta

__all__ = [
    "Ahead",
    "Block",
    "Chunks",
    "ControlledMean",
    "Estimate",
    "Evidence",
    "Found",
    "GradientCheck",
    "Later",
    "Model",
    "Prefixes",
    "Question",
    "WeightedMean",
    "accumulate",
    "asked",
    "at_every_step",
    "both_logits",
    "by_class",
    "class_count",
    "computing",
    "default_class",
    "delta",
    "differentiate",
    "differentiate_each",
    "fingerprint",
    "gradients",
    "hidden",
    "judge",
    "link",
    "mutable_if_needed",
    "nested",
    "one_logit",
    "owner",
    "pick",
    "pieces",
    "place",
    "predict",
    "quiet",
    "relative_error",
    "require_graph",
    "require_path",
    "require_prefixes",
    "resolution",
    "spans",
    "spare",
    "wider",
    "wrap",
]
