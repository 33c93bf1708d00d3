"""Input checks at the door, one function each: what came, what was expected, what to do.

:func:`as_tensor` is the one door for arrays, and :func:`check_numbers` the same for numbers and lists too: all
that has cells passes through one of them, and what comes out is an ordinary tensor of real numbers. A setting, a
field of an explainer or a metric, is declared with its bounds, ``n_samples: int = integer(50, least=1)``, and
:func:`check_settings` is the door for all of them.
"""

import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import field, fields
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from tempograd.core.errors import InputError, SettingError, TempogradError, arg, brief

MARKING = f"{arg:series.mask=nan}"
ROWS = 4096  # series looked at at once, so that a memory-mapped array is never read whole
UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)
LARGEST = 10_000_000  # of counts: beyond, memory ends long before the work does
LONGEST = 100  # characters of a text, which messages repeat
PREDICTS = ("predict_proba", "decision_function", "predict")  # methods of estimators, the most telling first


def as_tensor(value: Any, name: str) -> Tensor:
    """Return an array as an ordinary tensor of real numbers, without copying it where that can be.

    numpy arrays in the other byte order or with steps backwards are copied; so are 8-bit floats, which become
    float32, and long doubles, which become float64. A read-only memory map is fine, since nothing writes to it.
    Anything with ``to_numpy`` or ``__array__``, as frames and arrays of other libraries have, is an array.

    Examples
    --------
    >>> as_tensor(np.arange(3.0, dtype=">f8")[::-1], "x")
    tensor([2., 1., 0.], dtype=torch.float64)
    >>> as_tensor(np.array(["a"]), "x")
    Traceback (most recent call last):
    ...
    tempograd.core.errors.InputError: x must hold real numbers, got <U1.
    """
    tensor = value if isinstance(value, Tensor) else _from_array(value, name)
    dense = tensor.layout == torch.strided and not (tensor.is_nested or tensor.is_quantized or tensor.is_meta)
    if not dense or type(tensor).__torch_dispatch__ is not Tensor.__torch_dispatch__:
        raise InputError(f"{name} is no ordinary, dense tensor with numbers, got {brief(value)}: pass one.")
    if tensor.is_complex():
        raise InputError(f"{name} must hold real numbers, got {tensor.dtype}: pass its real part, or its size.")
    tensor = tensor.as_subclass(Tensor).detach()
    if tensor.is_floating_point() and tensor.dtype.itemsize == 1:
        return tensor.float()
    if tensor.dtype in UNSIGNED:
        tensor = tensor.to(torch.int64)
        if bool((tensor < 0).any()):
            raise InputError(f"{name} holds integers beyond {2**63 - 1}, where int64 ends.")
    return tensor


def _from_array(value: Any, name: str) -> Tensor:
    """Return the numbers of a numpy array, or of what can be turned into one, without copying them if possible."""
    if not isinstance(value, (np.ndarray, np.generic)):
        convert = getattr(value, "to_numpy", None) or getattr(value, "__array__", None)
        if isinstance(value, type) or not callable(convert):
            raise InputError(f"{name} must be a tensor or a numpy array, got {brief(value)}.")
        try:
            value = convert()
        except Exception as error:  # foreign code
            raise InputError(f"{name} cannot be turned into a numpy array: {brief(error)}.") from error
    if isinstance(value, np.ma.MaskedArray):
        marked = ", and mask=~np.ma.getmaskarray(x)" if name == "x" else ""
        advice = f"pass {name}.filled(0){marked}"
        raise InputError(f"{name} is a numpy masked array, whose mask would be lost: {advice}.")
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise InputError(f"{name} must hold real numbers, got {str(array.dtype)[:40]}.")
    if array.dtype.type is np.longdouble:
        array = array.astype(np.float64)
    if not array.dtype.isnative or array.dtype.char == "Q":  # which torch does not know, and numpy takes for 2^63
        array = array.astype(f"={array.dtype.str[1:]}")
    if any(step < 0 or step % array.itemsize for step in array.strides):
        array = array.copy()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writ")
        return torch.from_numpy(array)


def check_numbers(value: Any, name: str) -> Tensor:
    """Return real numbers as a tensor: an array, a list, or a single one.

    Examples
    --------
    >>> check_numbers([1, 2], "ids"), check_numbers(0.5, "baseline")
    (tensor([1, 2]), tensor(0.5000, dtype=torch.float64))
    """
    if isinstance(value, Tensor) or hasattr(value, "__array__") or hasattr(value, "to_numpy"):
        return as_tensor(value, name)
    try:
        array = np.asarray(_listed(value, name))
    except InputError:
        raise
    except Exception:  # rows of unequal length, a list that holds itself, foreign objects
        array = None
    if array is None or array.dtype.kind not in "biufc":
        raise InputError(f"{name} must hold numbers, got {brief(value)}.")
    return as_tensor(array, name)


def _listed(value: Any, name: str) -> Any:
    """Return a list whose arrays and tensors are lists too; a single part as it is."""
    if isinstance(value, (list, tuple)):
        return [_listed(part, name) for part in value]
    if isinstance(value, (Tensor, np.ndarray)) or hasattr(value, "to_numpy"):
        return as_tensor(value, name).cpu().tolist()
    return value


def check_series(x: Any, name: str = "x", *, gaps: bool = False, marking: str = MARKING) -> Tensor:
    """Return ``x`` as a finite float tensor (batch, time, channel), without copying it.

    With ``gaps``, which ``marking`` would allow, it may hold NaN.
    """
    tensor = as_tensor(x, name)
    check_form(tensor, name)
    if tensor.numel() == 0:
        shape = tuple(tensor.shape)
        raise InputError(f"{name} is empty, its shape is {shape}: pass at least one of each.", code="series.shape")
    for start in range(0, len(tensor), ROWS):
        rows = tensor[start : start + ROWS]
        # a sum is much faster to compute, and only one that is not finite needs a second look
        if math.isfinite(rows.sum()) or bool(rows.isfinite().all()):
            continue
        if name[:2] not in ("x", "x[") and not gaps:
            raise InputError(f"{name} must not hold NaN or infinity: put a number there, or leave them out.")
        if bool(rows.isinf().any()):
            raise InputError(f"{name} holds infinity: put a number there, and 0 into the mask if it is missing.")
        if not gaps:
            advice = f"pass {marking} if NaN marks what is missing, or put a number there and 0 into the mask"
            raise InputError(f"{name} holds NaN: {advice}.", code="series.nan")
    return tensor


def check_form(tensor: Tensor, name: str, *, several: bool = False) -> None:
    """Refuse what is not floating-point (batch, time, channel); ``several`` inputs may lack axes."""
    if tensor.ndim != 3 and not (several and tensor.ndim in (1, 2)):
        few = f"{name}[None] for one series, {name}[..., None] for one channel"
        advice = few if tensor.ndim < 3 else f"{name}.flatten(2) if all further axes are channels"
        raise InputError(
            f"{name} must have shape (batch, time, channel), got {tuple(tensor.shape)}: write {advice}.",
            code="series.shape",
        )
    if not tensor.is_floating_point():
        kept = f", or pass it as {arg:series.fixed} if it holds categories, lengths or the like" if several else ""
        wanted = f"{name} must hold floating-point numbers, got {tensor.dtype}"
        raise InputError(f"{wanted}: convert it to float32{kept}.")


def without_gaps(
    x: Tensor, mask: Tensor | None, value: Any, name: str, empty: float | None = 0
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Put ``empty`` where ``x`` holds NaN and leave such cells out of the mask; None leaves NaN there.

    Return ``x``, the same one where there was no NaN, the mask, and what :func:`fill` returns; an average is one
    over the cells that are left.

    Examples
    --------
    >>> x = torch.tensor([[[1.0], [torch.nan], [3.0]]])
    >>> [part.flatten().tolist() for part in without_gaps(x, None, "average", "baseline")]
    [[1.0, 0.0, 3.0], [True, False, True], [2.0, 2.0, 2.0]]
    """
    gaps = x.isnan()
    if not bool(gaps.any()):
        return x, mask, fill(value, x, mask, name)
    if mask is not None and bool((gaps & mask).any()):
        fix = f"pass {arg:series.mask=nan}, or a mask that is 0 there"
        raise InputError(f"x holds NaN where the mask says that a value was observed: {fix}.", code="series.nan")
    mask = ~gaps if mask is None else mask
    filled = x.masked_fill(gaps, 0 if empty is None else empty)
    return x if empty is None else filled, mask, fill(value, x.masked_fill(gaps, 0), mask, name)


def text_key(text: str) -> int:
    """Return the number, of 63 bits, that draws of a series with this id depend on."""
    return int.from_bytes(blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest(), "little") >> 1


def check_distinct(rows: Tensor, name: str = "rows") -> Tensor:
    """Return positions of series that are named once, as their ids are."""
    if len(set(rows.tolist())) < len(rows):
        raise InputError(f"{name} must be distinct, as ids are: each series can be taken once.")
    return rows


def check_ids(ids: Any, count: int) -> Tensor | tuple[str, ...]:
    """Return distinct whole numbers, one per series, as a tensor, and distinct texts as a tuple."""
    texts = ids if isinstance(ids, Tensor) or not hasattr(ids, "tolist") else ids.tolist()  # of numpy and pandas
    if isinstance(texts, (list, tuple)) and any(isinstance(text, str) for text in texts):
        numbers, values = None, tuple(map(str, texts))
    else:
        numbers = check_numbers(ids, "ids").cpu()
        if numbers.is_floating_point() or numbers.dtype == torch.bool or numbers.ndim != 1:
            raise InputError(f"ids must be integers, one per series, got {brief(numbers)}.")
        values = tuple(numbers.tolist())
    if len(values) != count:
        raise InputError(f"ids must have one entry per series: expected {count}, got {len(values)}.")
    if len(set(values)) < count:
        [(twice, _)] = Counter(values).most_common(1)
        raise InputError(f"ids must be distinct, but {brief(twice)} occurs more than once.")
    if numbers is None and len({*map(text_key, values)}) < count:
        raise InputError("Two of the ids have the same hash, on which draws depend: change one of them.")
    return values if numbers is None else numbers.to(torch.int64)


def check_like(cells: Any, x: Tensor, name: str, of: str = "x") -> Tensor:
    """Return cells of the shape of ``x``, which is called ``of``, as a tensor."""
    tensor = as_tensor(cells, name)
    if tensor.shape != x.shape:
        raise InputError(f"{name} must have the shape of {of}, {tuple(x.shape)}, got {tuple(tensor.shape)}.")
    return tensor


def check_mask(mask: Any, x: Tensor, name: str = "mask", of: str = "x") -> Tensor:
    """Boolean tensor like ``x``, which is called ``of``, and beside it, True where a value was measured."""
    tensor = check_like(mask, x, name, of)
    if tensor.dtype != torch.bool and bool(((tensor != 0) & (tensor != 1)).any()):
        meaning = ("", "") if name.startswith("truth") else (" (observed)", " (missing)")
        raise InputError(f"{name} must hold 1{meaning[0]} and 0{meaning[1]} only.")
    return tensor.bool().to(x.device)


def check_raw(raw: Any, x: Tensor, mask: Tensor | None) -> Tensor:
    """Return the values as people know them like ``x``, and beside it; NaN only where nothing was observed."""
    tensor = check_like(raw, x, "raw")
    tensor = (tensor if tensor.is_floating_point() else tensor.double()).to(x.device)
    finite = tensor.isfinite()
    if not bool((finite if mask is None else finite | ~mask).all()):
        raise InputError("raw holds NaN or infinity where a value was observed: put what x was made of there.")
    return tensor


def fill(value: Any, x: Tensor, mask: Tensor | None, name: str) -> Tensor:
    """Return what "absent" means, like ``x``, as a view where it can be."""
    if value is None or (isinstance(value, str) and value == "zero"):
        return x.new_zeros(1).expand_as(x)
    if isinstance(value, str):
        if value == "average":
            return average(x, mask).expand_as(x)
        drawn = f", 'background' (drawn from {arg:question.background})" if name == "baseline" else ""
        raise InputError(f"{name} must be 'zero', 'average'{drawn} or a tensor, got {brief(value)}.")
    tensor = check_numbers(value, name)
    if tensor.dtype == torch.bool:
        raise InputError(f"{name} must hold numbers, got {tensor.dtype}.")
    tensor = tensor.to(x)
    if not bool(tensor.isfinite().all()):
        raise InputError(f"{name} holds NaN or infinity.")
    try:
        return tensor.expand_as(x)
    except RuntimeError:
        raise InputError(f"{name} must broadcast to x, {tuple(x.shape)}, got {tuple(tensor.shape)}.") from None


def is_background(baseline: Any) -> bool:
    """Tell whether other series are the baseline."""
    return isinstance(baseline, str) and baseline == "background"


def unexpanded(tensor: Tensor) -> Tensor:
    """Cut the repeated axes of an expanded view to one, so that a constant costs nothing where it goes.

    Examples
    --------
    >>> unexpanded(torch.zeros(1).expand(4, 10, 3)).shape
    torch.Size([1, 1, 1])
    """
    for axis, stride in enumerate(tensor.stride()):
        if stride == 0 and tensor.shape[axis]:
            tensor = tensor.narrow(axis, 0, 1)
    return tensor


def average(x: Tensor, mask: Tensor | None) -> Tensor:
    """Mean over time of each channel's observed values, (batch, 1, channel); 0 where there is none."""
    if mask is None:
        return x.mean(1, keepdim=True)
    return (x * mask).sum(1, keepdim=True) / mask.sum(1, keepdim=True).clamp(min=1)


def lengths(mask: Tensor | None, x: Tensor) -> Tensor:
    """Return the steps before the padding, (batch,): trailing steps with no observed channel do not count."""
    batch, time, _ = x.shape
    if mask is None:
        return torch.full((batch,), time)
    clock = torch.arange(1, time + 1, device=mask.device)
    return (mask.any(-1) * clock).amax(1).cpu()


def check_float(value: Any, name: str) -> float:
    """Return a real number."""
    if isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
        with suppress(OverflowError):  # an integer of hundreds of digits
            return float(value)
    raise InputError(f"{name} must be a number, got {brief(value)}.")


def check_share(value: Any, name: str) -> float:
    """Return a number between 0 and 1, without these."""
    share = check_float(value, name)
    if not 0 < share < 1:
        raise InputError(f"{name} must lie between 0 and 1, got {brief(value)}.")
    return share


def check_int(value: Any, name: str, least: int = -(2**63), most: int = 2**63 - 1) -> int:
    """Return an integer of at least ``least`` and at most ``most``; by default any of 64 bits, as seeds are."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise InputError(f"{name} must be an integer, got {brief(value)}.")
    if not least <= value <= most:
        bound = f"at least {least}" if value < least else f"at most {most}"
        raise InputError(f"{name} must be {bound}, got {brief(value)}.")
    return int(value)


def check_flag(value: Any, name: str, error: type[TempogradError] = InputError) -> bool:
    """Return True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise error(f"{name} must be True or False, got {brief(value)}.")
    return bool(value)


def check_choice(value: Any, name: str, known: Sequence[str], error: type[TempogradError] = InputError) -> str:
    """Return one of a few words, and refuse anything else."""
    if isinstance(value, str) and value in known:
        return str(value)
    words = ", ".join(map(repr, known[:-1]))
    raise error(f"{name} must be {words}{' or ' if words else ''}{known[-1]!r}, got {brief(value)}.")


def check_model(value: Any, name: str = "The model") -> None:
    """Refuse what cannot be called with series, or not here; an estimator can, by one of its methods."""
    if isinstance(value, type):
        raise InputError(f"{name} is the class {value.__name__}: pass an object of it, {value.__name__}(…).")
    if not callable(value) and not any(callable(getattr(value, method, None)) for method in PREDICTS):
        kind = "None" if value is None else f"of type {type(value).__name__}"
        advice = f": read a file with {arg:load.model}" if isinstance(value, (str, Path)) else ""
        raise InputError(
            f"{name} must be an nn.Module, a function of series (batch, time, channel) or an estimator, but it is "
            f"{kind}{advice}."
        )
    if torch._C._are_functorch_transforms_active():
        raise InputError("A model cannot be explained inside a transform of torch.func: call tempograd outside.")


def check_positions(value: Any, name: str, count: int) -> Tensor:
    """Return places among ``count`` as a tensor, given as integers or as one truth value for each.

    Examples
    --------
    >>> check_positions([0, -1], "rows", 3), check_positions([True, False, True], "rows", 3)
    (tensor([0, 2]), tensor([0, 2]))
    """
    tensor = check_numbers(value, name).cpu()
    if tensor.numel() == 0 or not (tensor.is_floating_point() or tensor.dtype == torch.bool):
        tensor = tensor.long()
    with suppress(IndexError):
        if tensor.ndim == 1:
            return torch.arange(count)[tensor]
    places = f"positions in 0 … {count - 1}, or one True or False for each"
    raise InputError(f"{name} must be {places}, got {brief(value)}.")


def check_names(labels: Iterable[Any] | None, count: int | None, what: str) -> tuple[str, ...] | None:
    """Return one text per channel or step, ``count`` of them where that is known."""
    if labels is None:
        return None
    if isinstance(labels, Tensor):
        labels = as_tensor(labels, what).tolist()
    flat = getattr(labels, "ndim", 1) == 1
    if not flat or isinstance(labels, (str, bytes, dict, set, frozenset)) or not isinstance(labels, Iterable):
        many = "" if count is None else f"{count} "
        raise InputError(f"{what} must be a list of {many}names, got {brief(labels)}.")
    names = []
    for label in labels:
        names.append(label.decode(errors="replace") if isinstance(label, bytes) else str(label))
    if count is not None and len(names) != count:
        raise InputError(f"{what} must have {count} entries, got {len(names)}.")
    return tuple(names)


def check_classes(classes: Any, outputs: int | None) -> tuple[str, ...] | None:
    """Return one text per output of the model; where nobody knows how many it has, as many as were given."""
    names = check_names(classes, None, "classes")
    if names is not None and outputs is not None and len(names) != outputs:
        raise InputError(f"classes must hold one name per output of the model, {outputs}, got {len(names)}.")
    return names


def check_settings(owner: Any) -> None:
    """Check all declared settings of an object, and put plain Python data in their places.

    So that numbers of numpy are saved, compared and printed like those of Python.
    """
    for part in fields(owner):
        value = getattr(owner, part.name)
        if "check" in part.metadata and not (value is None and part.metadata["optional"]):
            vars(owner)[part.name] = part.metadata["check"](value, part.name)


def setting(default: Any, check: Callable[..., Any], *, optional: bool = False) -> Any:
    """Declare a setting; ``check`` is called with a value and the name, and returns plain data.

    It may be None where that is the default, or where it is ``optional``.
    """
    metadata = {"check": check, "optional": optional or default is None}
    return field(default=default, metadata=metadata)


def integer(default: int | None, *, least: int = 1, most: int = LARGEST, optional: bool = False) -> Any:
    """Declare a setting that is an integer."""
    return setting(default, partial(check_int, least=least, most=most), optional=optional)


def real(
    default: Any, *, high: float = math.inf, closed: Sequence[bool] = (True, True), optional: bool = False
) -> Any:
    """Declare a setting that is a finite number from 0 to ``high``, both allowed where ``closed``."""
    edges = [edge for edge, allowed in zip((0, high), closed, strict=True) if allowed]
    least, most = "at least" if closed[0] else "above", "at most" if closed[1] else "below"
    bounds = f"lie between 0 and {high:g}" if all(closed) else f"be {least} 0 and {most} {high:g}"
    if math.isinf(high):
        bounds = "be finite and not negative" if closed[0] else "be a finite number above 0"

    def within(value: Any, name: str) -> Any:
        number = check_float(value, name)
        if not (math.isfinite(number) and (0 < number < high or number in edges)):
            raise SettingError(f"{name} must {bounds}, got {brief(value)}.")
        return value.item() if isinstance(value, np.generic) else value

    return setting(default, within, optional=optional)


def positive(default: float | None, *, optional: bool = False) -> Any:
    """Declare a setting that is a finite number above 0."""
    return real(default, closed=(False, True), optional=optional)


def boolean(default: bool) -> Any:
    """Declare a setting that is True or False."""
    return setting(default, partial(check_flag, error=SettingError))


def choice(default: str | None, words: object) -> Any:
    """Declare a setting that is one of a few words: those of a ``Literal``, which is the type of the field."""
    return setting(default, partial(check_choice, known=get_args(words), error=SettingError))


def learnt(*, by_name: bool = False) -> Any:
    """Declare a field that holds what a method learnt: no setting, and None before."""
    return field(default=None, metadata={"fitted": True}, repr=False, compare=False, kw_only=by_name)


def check_text(value: Any, name: str) -> str:
    """Return a text that fits into a line."""
    if not isinstance(value, str) or len(value) > LONGEST or not value.isprintable():
        raise SettingError(f"{name} must be a text of one line, at most {LONGEST} characters, got {brief(value)}.")
    return str(value)


def check_shares(value: Any, name: str) -> tuple[float, ...]:
    """Return increasing shares as a tuple."""
    parts = value.tolist() if isinstance(value, np.ndarray) else value
    parts = parts if isinstance(parts, (tuple, list)) else []
    shares = tuple(check_float(part, f"each of {name}") for part in parts)
    rising = all(a < b for a, b in zip((0.0, *shares), shares, strict=False))  # which NaN is not
    if not shares or not rising or shares[-1] > 1:
        raise SettingError(f"{name} must be increasing shares above 0 and at most 1, got {brief(value)}.")
    return shares


def check_amount(value: Any, name: str) -> int | float:
    """Return how many cells, as a Python number: integers are counts, others shares of the observed ones."""
    plain = value.item() if isinstance(value, (np.integer, np.floating)) else value
    if isinstance(plain, int) and not isinstance(plain, bool) and plain >= 1:
        return plain
    if isinstance(plain, float) and 0 < plain <= 1:
        return plain
    raise InputError(f"{name} must be a count of at least 1 or a share in (0, 1], got {brief(value)}.")
