"""What every released method shares: faults of the released code by their keys in the protocol, in words."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tempograd.errors import SettingError, UnknownNameError, brief
from tempograd.explainers import Explainer


@dataclass(frozen=True)
class Released(Explainer):
    """A method with the faults of the released code, each of which can be switched on by its key.

    Stands before the method among the bases: ``class ReleasedTiming(Released, Timing)``.

    Parameters
    ----------
    quirks : set of str
        Keys of :attr:`faults`. Without any the method is the library's.
    """

    faults: ClassVar[Mapping[str, str]] = {}
    """What the released code does differently, in words, by its key in the protocol."""

    quirks: frozenset[str] = field(default=frozenset(), kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.quirks, (frozenset, set, list, tuple)):
            raise SettingError(f"quirks must be a set of keys, got {brief(self.quirks)}.")
        for key in self.quirks:
            if not isinstance(key, str) or key not in self.faults:
                raise UnknownNameError(f"quirk of {type(self).__name__}", key, self.faults)
        object.__setattr__(self, "quirks", frozenset(self.quirks))
        super().__post_init__()

    @property
    def parameters(self) -> dict[str, Any]:
        """Return the hyper-parameters as plain data, the faults among them."""
        return super().parameters | {"quirks": sorted(self.quirks)}
