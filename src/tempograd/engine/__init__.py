"""One engine for all methods: series × path points, or series × perturbations, in pieces that fit."""

from tempograd.engine.ahead import Ahead, Landing
from tempograd.engine.asking import asked
from tempograd.engine.average import Estimate, WeightedMean
from tempograd.engine.change import change
from tempograd.engine.chunks import Chunks, pieces
from tempograd.engine.controlled import ControlledMean
from tempograd.engine.differentiate import (
    accumulate,
    differentiate,
    differentiate_each,
    require_graph,
    require_path,
)
from tempograd.engine.error import relative_error
from tempograd.engine.evidence import Evidence, hidden
from tempograd.engine.fingerprint import fingerprint
from tempograd.engine.gradient_check import Found, GradientCheck, judge
from tempograd.engine.gradients import Gradients, gradients
from tempograd.engine.later import Later
from tempograd.engine.modules import Model, modules_of, owner, place
from tempograd.engine.mutation import mutable_if_needed
from tempograd.engine.precision import computing, resolution
from tempograd.engine.prediction import (
    LAST_STEP,
    WHERE_PER_STEP,
    Target,
    both_logits,
    by_class,
    class_count,
    default_class,
    link,
    one_logit,
    pick,
    predict,
)
from tempograd.engine.prefixes import Prefixes, at_every_step, require_prefixes
from tempograd.engine.question import Block, Question
from tempograd.engine.quiet import quiet, spare
from tempograd.engine.resuming import answered, nested, resumes, spans, wider
from tempograd.engine.wrapping import wrap

__all__ = [
    "LAST_STEP",
    "WHERE_PER_STEP",
    "Ahead",
    "Block",
    "Chunks",
    "ControlledMean",
    "Estimate",
    "Evidence",
    "Found",
    "GradientCheck",
    "Gradients",
    "Landing",
    "Later",
    "Model",
    "Prefixes",
    "Question",
    "Target",
    "WeightedMean",
    "accumulate",
    "answered",
    "asked",
    "at_every_step",
    "both_logits",
    "by_class",
    "change",
    "class_count",
    "computing",
    "default_class",
    "differentiate",
    "differentiate_each",
    "fingerprint",
    "gradients",
    "hidden",
    "judge",
    "link",
    "modules_of",
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
    "resumes",
    "spans",
    "spare",
    "wider",
    "wrap",
]
