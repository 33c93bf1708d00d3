"""Every error and warning this library raises on purpose: what came, what was expected, what to do."""

import sys
import warnings
from collections.abc import Iterable
from difflib import get_close_matches

SHORT = {  # what people call things, for hints only
    "ig": "integrated_gradients",
    "intgrad": "integrated_gradients",
    "gs": "gradient_shap",
    "shap": "gradient_shap",
    "gradshap": "gradient_shap",
    "fo": "occlusion",
    "afo": "augmented_occlusion",
    "timex++": "timexpp",
    "acc": "accuracy",
    "ce": "cross_entropy",
    "comp": "comprehensiveness",
    "suff": "sufficiency",
}


class TempogradError(Exception):
    """Base class, so that callers can catch everything raised on purpose."""


class InputError(TempogradError, ValueError):
    """An argument has the wrong shape, type or value."""


class SettingError(TempogradError, ValueError):
    """The hyper-parameters of a method do not fit each other or the series."""


class ModelError(TempogradError, ValueError):
    """The model returned something that cannot be explained."""


class DataError(TempogradError, ValueError):
    """A file is missing, damaged or in a format that cannot be read."""


class OutputError(TempogradError, OSError):
    """A file cannot be written, or must not be."""


class MissingExtraError(TempogradError, ImportError):
    """An optional package is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"This needs {package}: pip install 'tempograd[{extra}]'.")


class UnknownNameError(TempogradError, KeyError):
    """A name is in no registry."""

    def __init__(self, kind: str, name: object, known: Iterable[str]) -> None:
        known = sorted(known)
        meant = _meant(str(name), known)
        hint = "" if meant is None else f" Did you mean {meant!r}?"
        names = f"Known names: {', '.join(known)}." if known else "There is none."
        super().__init__(f"No {kind} is called {name!r}.{hint} {names}")

    def __str__(self) -> str:  # KeyError would print the repr of the message
        return str(self.args[0])


def _meant(name: str, known: list[str]) -> str | None:
    """Return the known name that is closest, whatever its case, or that people call so for short."""
    plain = name.lower().replace("-", "_").replace(" ", "_")
    if SHORT.get(plain) in known:
        return SHORT[plain]
    lowered = {entry.lower(): entry for entry in known}
    close = get_close_matches(plain, lowered, n=1)
    return lowered[close[0]] if close else None


class TempogradWarning(UserWarning):
    """Something works, but not as well as it could; the text says how to improve it."""


def warn(message: str) -> None:
    """Warn at the line that called the library, however deep inside it this is."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith("tempograd."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, TempogradWarning, stacklevel=level)
