"""One engine for all methods: series × path points, or series × perturbations, in batches that fit.

Experimental: authors of methods may build on it, and its names may still change with each minor release.
"""

from tempograd.engine.ask import Ask, Block, all_scores, score_delta, with_targets
from tempograd.engine.background import Background, pooled
from tempograd.engine.batching import Batching, even, slices
from tempograd.engine.calls import Call, FixedInputs, require_torch, told_by
from tempograd.engine.conventions import as_model
from tempograd.engine.cuda import HostCopy, Prefetcher
from tempograd.engine.fingerprints import fingerprint
from tempograd.engine.gradients import (
    Gradients,
    accumulate,
    compute_gradients,
    differentiate,
    require_path,
)
from tempograd.engine.inputs import InputPart, Packed, Packing, Region, is_several, pack_inputs
from tempograd.engine.model import (
    Model,
    computing,
    frozen,
    mutable_if_needed,
    owner,
    place,
    resolution,
    spare,
)
from tempograd.engine.outputs import (
    apply_link,
    both_logits,
    by_class,
    class_count,
    default_class,
    forward,
    nested,
    one_logit,
    predict,
    resumed,
    select_target,
    spans,
    wider,
)
from tempograd.engine.predictor import Predictor
from tempograd.engine.prefixes import Prefixes, at_every_step, require_prefixes

__all__ = [
    "Ask",
    "Background",
    "Batching",
    "Block",
    "Call",
    "FixedInputs",
    "Gradients",
    "HostCopy",
    "InputPart",
    "Model",
    "Packed",
    "Packing",
    "Predictor",
    "Prefetcher",
    "Prefixes",
    "Region",
    "accumulate",
    "all_scores",
    "apply_link",
    "as_model",
    "at_every_step",
    "both_logits",
    "by_class",
    "class_count",
    "compute_gradients",
    "computing",
    "default_class",
    "differentiate",
    "even",
    "fingerprint",
    "forward",
    "frozen",
    "is_several",
    "mutable_if_needed",
    "nested",
    "one_logit",
    "owner",
    "pack_inputs",
    "place",
    "pooled",
    "predict",
    "require_path",
    "require_prefixes",
    "require_torch",
    "resolution",
    "resumed",
    "score_delta",
    "select_target",
    "slices",
    "spans",
    "spare",
    "told_by",
    "wider",
    "with_targets",
]
