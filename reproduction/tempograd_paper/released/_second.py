"""The released methods that learn: masks, prefixes, TimeX."""

from tempograd_paper.released.base import Released
from tempograd_paper.released.contralsp import ReleasedContraLSP
from tempograd_paper.released.dynamask import ReleasedDynamask
from tempograd_paper.released.extremal_mask import ReleasedExtremalMask
from tempograd_paper.released.fit import ReleasedFit
from tempograd_paper.released.timex import ReleasedTimeX
from tempograd_paper.released.timexpp import ReleasedTimeXPP
from tempograd_paper.released.winit import ReleasedWinIT

SECOND: dict[str, type[Released]] = {
    "contralsp": ReleasedContraLSP,
    "dynamask": ReleasedDynamask,
    "extremal_mask": ReleasedExtremalMask,
    "fit": ReleasedFit,
    "timex": ReleasedTimeX,
    "timexpp": ReleasedTimeXPP,
    "winit": ReleasedWinIT,
}

for _kind in SECOND.values():  # as long as the library's base class looks there
    _kind.known_quirks = frozenset(_kind.faults)
