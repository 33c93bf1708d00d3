"""One engine for all methods: series × path points, or series × perturbations, in batches that fit.

Experimental: authors of methods may build on it, and its names may still change with each minor release.
"""

from tempograd.engine.ask import Ask, Block
from tempograd.engine.batching import Batching, slices
from tempograd.engine.gradients import compute_gradients
from tempograd.engine.model import Model, fingerprint, frozen, owner, place
from tempograd.engine.outputs import apply_link, both_logits, default_class, one_logit, select_target
from tempograd.engine.predictor import Call, Predictor
from tempograd.engine.prefixes import Prefixes, at_every_step

__all__ = ["Ask", "Batching", "Block", "Call", "Model", "Predictor", "Prefixes"]
__all__ += ["apply_link", "at_every_step", "both_logits", "compute_gradients", "default_class", "fingerprint"]
__all__ += ["frozen", "one_logit", "owner", "place", "select_target", "slices"]
