"""Released variants override what the library lists as hooks, and nothing else."""

import re
from importlib import import_module
from pkgutil import iter_modules

import pytest

from tempograd import Explainer
from tempograd_paper import released

HOOKS = set(re.findall(r"`(\w+)[(`]", Explainer.__doc__.partition("What a subclass may override")[2]))
MODULES = [f"{released.__name__}.{module.name}" for module in iter_modules(released.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_released_classes_override_hooks_alone(name):
    for kind in vars(import_module(name)).values():
        if isinstance(kind, type) and kind.__module__ == name:
            above = [base for base in kind.__mro__ if base.__module__.startswith("tempograd.")]
            overridden = {key for key in vars(kind) for base in above if key in vars(base)} - {"_abc_impl"}
            assert {key for key in overridden if not key.startswith("__")} <= HOOKS, kind
