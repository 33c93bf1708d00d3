"""Explanations in files: tensors with a JSON header, a schema version and a checksum; nothing in them is trusted.

The header's ``tempograd`` holds everything that is no tensor, ``shapes`` the full shapes of tensors of which
repeated axes are stored once, ``schema`` the version of this format, and ``checksum`` a CRC of all the rest.
Files of earlier versions have neither of the last two. Of further targets there is only what differs from the
first: tensors such as ``targets.1.values``, and what ``targets`` in the header tells.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args
from zlib import crc32

import torch
from safetensors.torch import save_file
from torch import Tensor

from tempograd.core.errors import DataError, InputError, brief
from tempograd.core.io import EXPLANATION, read_tensors, shrunk, write_atomically
from tempograd.core.stamps import is_nested
from tempograd.typing import Task

SCHEMA = 4  # since 2, the facts of the method; since 3, today's words; since 4, task, call, targets and names
STAMPS = "times"  # the tensor with those of each series
WHOLE = "values"  # is stored as it is, so that the sizes of all other parts are bounded by the file's
PLAIN: dict[str, tuple[type, ...]] = {  # what a header must hold, and what it may
    "output": (str,),
    "seed": (int,),
    "method": (str,),
    "parameters": (dict,),
    "facts": (dict,),
    "fingerprint": (str,),
    "own_steps": (bool,),
    "signed": (bool,),
    "version": (str,),
    "draws": (int,),
    "varies": (bool,),
    "mixes_series": (bool,),
    "columns": (int, type(None)),
    "channels": (list, type(None)),
    "times": (list, type(None)),
    "names": (list, type(None)),
    "call": (dict,),
    "classes": (list, type(None)),
    "units": (list, type(None)),
    "task": (str, type(None)),
    "output_shape": (list,),
    "target_text": (str,),
    "picker_spec": (dict, type(None)),
    "targets": (list,),
    "background": (str, type(None)),
}
NEEDED = ("output", "seed", "method", "parameters", "fingerprint", "own_steps")

# What schemas before 3 called things.
TENSOR_WORDS = {
    "free_points": "n_draws",
    "effective_points": "ess",
    "passes": "n_evals",
    "change": "delta",
    "curve_points": "curve_samples",
}
_QUADRATURE = {"points": "n_steps"}
_RANDOM = {"points": "n_samples"}
_SAMPLES = {"samples": "n_samples"}
_LEARNT = {**_SAMPLES, "batch_size": "fit_batch_size"}
SETTING_WORDS = {  # by method
    "integrated_gradients": _QUADRATURE,
    "MaskingIG": _QUADRATURE,
    "timing": _RANDOM | {"controls": "control_variates", "max_points": "max_samples", "until": "stop_when"},
    "rand_ig": _RANDOM,
    "gradient_shap": _RANDOM,
    "lime": _SAMPLES,
    "augmented_occlusion": _SAMPLES,
    "fit": _LEARNT,
    "winit": _LEARNT,
    "timex": {"batch": "fit_batch_size"},
    "timexpp": {"batch": "fit_batch_size"},
    "extremal_mask": {"batch": "fit_batch_size"},
}


SIBLING = "targets"  # prefix of the tensors of further targets, and the name of what the header tells of them
TargetParts = tuple[dict[str, Tensor], dict[str, Any]]  # tensors and plain data of one target


def pack_targets(parts: Sequence[TargetParts]) -> TargetParts:
    """Return what a file holds of several targets: the first, and what is different in each of the others."""
    (tensors, plain), *others = parts
    every, told = dict(tensors), []
    for place, (own, facts) in enumerate(others, 1):
        new = {name: part for name, part in own.items() if name not in tensors or not _same(part, tensors[name])}
        every |= {f"{SIBLING}.{place}.{name}": part for name, part in new.items()}
        differences = {name: value for name, value in facts.items() if value != plain[name]}
        told.append({"plain": differences, "absent": [name for name in tensors if name not in own]})
    return every, plain | ({SIBLING: told} if told else {})


def _same(one: Tensor, other: Tensor) -> bool:
    if one is other or (one.dtype == other.dtype and torch.equal(one, other)):
        return True
    if one.dtype != other.dtype or one.shape != other.shape or not one.is_floating_point():
        return False
    return bool(((one == other) | (one.isnan() & other.isnan())).all())


def _parted(
    tensors: Mapping[str, Tensor], plain: dict[str, Any], path: str | Path, names: Sequence[str]
) -> list[TargetParts]:
    """Return the tensors that ``names`` tells and the plain data of each target, undoing :func:`pack_targets`."""
    told = plain.pop(SIBLING, [])
    first = {name: tensors[name] for name in names if name in tensors}
    parts = [(first, dict(plain))]
    for place, entry in enumerate(told, 1):
        kinds = {"plain": dict, "absent": list}
        if not isinstance(entry, dict) or not all(isinstance(entry.get(key), kinds[key]) for key in kinds):
            raise damaged(path, f"its header tells {brief(entry)} of target {place}")
        facts = plain | entry["plain"]
        same_times = {} if "times" in entry["plain"] else {"times": None}  # which were checked with the first
        _check_plain(facts | same_times, path, NEEDED)
        own = {name: tensors.get(f"{SIBLING}.{place}.{name}", first.get(name)) for name in names}
        kept = {name: part for name, part in own.items() if part is not None and name not in entry["absent"]}
        if WHOLE not in kept:
            raise damaged(path, f"it lacks the values of target {place}")
        parts.append((kept, facts))
    return parts


def write_explanation(
    path: str | Path, tensors: Mapping[str, Tensor], plain: Mapping[str, Any], *, force: bool = False
) -> Path:
    """Write the parts of an explanation; a file that is none is only replaced with ``force``."""
    parts, shapes = {}, {}
    if is_nested(plain.get("times")):  # a header has not the room for so many
        parts[STAMPS], plain = _as_bytes(plain["times"]), {**plain, "times": None}
    for name, tensor in tensors.items():
        if _whole(name):
            parts[name], shapes[name] = tensor.cpu().contiguous(), list(tensor.shape)
        else:
            parts[name], shapes[name] = shrunk(tensor)
    try:
        header = {"tempograd": json.dumps(plain), "shapes": json.dumps(shapes), "schema": str(SCHEMA)}
    except (TypeError, ValueError) as error:
        raise InputError(f"The explanation's facts cannot be written as JSON: {brief(error)}.") from error
    header["checksum"] = checksum(parts, header)
    return write_atomically(
        path, lambda temporary: save_file(parts, temporary, header), kind=EXPLANATION, force=force
    )


def read_explanation(path: str | Path, names: Sequence[str]) -> list[TargetParts]:
    """Read the tensors that ``names`` tells, and the header, of each target, of schemas up to this one."""
    header, tensors = read_tensors(path)
    if "tempograd" not in header or WHOLE not in tensors:
        raise DataError(f"{path} holds no explanation: write one with Explanation.save or 'tempograd explain'.")
    schema = header.get("schema", "0")
    if not (schema.isascii() and schema.isdigit() and len(schema) < 10):
        raise damaged(path, "its schema is no number")
    if int(schema) > SCHEMA:
        raise DataError(
            f"{path} was written by a newer tempograd (schema {int(schema)}, this one knows {SCHEMA}): upgrade "
            "tempograd to read it."
        )
    summed = int(schema) > 0 or "checksum" in header  # either name may be what was damaged
    if summed and header.get("checksum") != checksum(tensors, header):
        raise damaged(path, "its content does not fit its checksum")
    plain, shapes = (_parsed(header.get(name), path, name) for name in ("tempograd", "shapes"))
    _check_plain(plain, path, (*NEEDED, *["facts"] * (int(schema) > 1)))
    if int(schema) < 3:
        tensors, shapes, plain = _renamed(tensors), _renamed(shapes), _in_new_words(plain)
    if (plain.get("task"), plain.get("columns")) == ("classification", 1):
        plain["task"] = "binary"
    if STAMPS in tensors:
        if plain.get("times") is not None:
            raise damaged(path, "it has time stamps twice")
        plain["times"] = _stamps(tensors[STAMPS], path)
    names = (*names, *(name for name in tensors if name.startswith("fixed.")))
    known = [name for name in tensors if name.removeprefix(_prefix(name)) in names]
    return _parted({name: _expanded(name, tensors[name], shapes, path) for name in known}, plain, path, names)


def _prefix(name: str) -> str:
    """Return what stands before the name of a tensor of a further target.

    Examples
    --------
    >>> _prefix("targets.12.values"), _prefix("gradient_check.gap")
    ('targets.12.', '')
    """
    found = re.match(rf"{SIBLING}\.\d+\.", name)
    return found.group() if found else ""


def _whole(name: str) -> bool:
    return name.removeprefix(_prefix(name)) == WHOLE


def _as_bytes(stamps: Sequence[Sequence[str]]) -> Tensor:
    """Return the time stamps of every series as JSON, byte by byte."""
    return torch.frombuffer(bytearray(json.dumps(stamps).encode()), dtype=torch.uint8)


def _stamps(content: Tensor, path: str | Path) -> list[list[str]]:
    """Read them, and refuse what is none."""
    try:
        found = json.loads(content.numpy().tobytes()) if content.dtype == torch.uint8 else None
    except (ValueError, RecursionError) as error:
        raise damaged(path, "its time stamps are no JSON") from error
    rows: list[Any] = found if isinstance(found, list) else [None]
    if not all(isinstance(row, list) and all(isinstance(text, str) for text in row) for row in rows):
        raise damaged(path, "its time stamps must be texts")
    return rows


def _renamed(parts: Mapping[str, Any]) -> dict[str, Any]:
    return {TENSOR_WORDS.get(name, name): part for name, part in parts.items()}


def _in_new_words(plain: dict[str, Any]) -> dict[str, Any]:
    """Translate settings and facts; without a tolerance, where it gives up and what it is about said nothing."""
    words = SETTING_WORDS.get(plain["method"], {})
    settings = {words.get(name, name): value for name, value in plain["parameters"].items()}
    if settings.get("tolerance") is None:
        settings |= dict.fromkeys({"max_samples", "stop_when"} & settings.keys())
    facts = plain.get("facts")
    if facts is not None and isinstance(facts.get("unit"), str):  # else nobody wrote it, and Facts refuses it
        plain = plain | {"facts": facts | {"unit": words.get(facts["unit"], facts["unit"])}}
    return plain | {"parameters": settings}


def damaged(path: str | Path, why: str) -> DataError:
    """Return the error of a file whose content cannot be what was written."""
    return DataError(f"{path} is damaged, {why}: write it again, or take it from where it came from.")


def checksum(tensors: Mapping[str, Tensor], header: Mapping[str, str]) -> str:
    """Return a CRC of all tensors, in the order of their names, and of the header; nothing is copied.

    It tells damage, not forgery, and is several times as fast as a cryptographic hash.

    Examples
    --------
    >>> checksum({"values": torch.zeros(2)}, {}) == checksum({"values": torch.zeros(1, 2)}, {"checksum": ""})
    False
    """
    found = 0
    for name, text in sorted(header.items()):
        if name != "checksum":
            found = crc32(f"{len(name)}:{name}{len(text.encode())}:{text}".encode(), found)
    for name, tensor in sorted(tensors.items()):
        found = crc32(f"{len(name)}:{name}{tensor.dtype}{list(tensor.shape)}".encode(), found)
        flat = tensor.reshape(-1)
        if flat.stride() != (1,):  # a single number may have any
            flat = flat.clone(memory_format=torch.contiguous_format)
        found = crc32(flat.view(torch.uint8).numpy().data, found)
    return f"crc32:{found:08x}"


def _parsed(text: str | None, path: str | Path, name: str) -> dict[str, Any]:
    try:
        found = json.loads(text or "")
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"its header {name!r} is no JSON") from error
    if not isinstance(found, dict):
        raise damaged(path, f"its header {name!r} is no JSON object")
    return found


def _check_plain(plain: Mapping[str, Any], path: str | Path, needed: Sequence[str]) -> None:
    """Refuse a header that lacks something or holds something of another kind; what is unknown is left alone."""
    for name in needed:
        if name not in plain:
            raise damaged(path, f"its header lacks {name!r}")
    for name, kinds in PLAIN.items():
        value = plain.get(name)
        if name not in plain or (isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))):
            continue
        raise damaged(path, f"{name} in its header is {brief(value)}")
    for name in ("channels", "times", "names", "classes", "units"):
        if not all(isinstance(part, str) for part in plain.get(name) or ()):
            raise damaged(path, f"{name} in its header must be texts")
    if plain["output"] not in {"probability", "raw"}:
        raise damaged(path, f"output in its header is {brief(plain['output'])}")
    _check_task(plain, path)
    for name, least in (("draws", 1), ("columns", 1), ("seed", -(2**63))):
        value = plain.get(name)
        if value is not None and not least <= value < 2**63:
            raise damaged(path, f"{name} in its header is {brief(value)}")


def _check_task(plain: Mapping[str, Any], path: str | Path) -> None:
    """Refuse a task, or a shape of outputs, that nobody can have written."""
    if plain.get("task") not in {None, *get_args(Task)}:
        raise damaged(path, f"task in its header is {brief(plain['task'])}")
    shape = plain.get("output_shape", [])
    if not all(type(size) is int and 0 < size < 2**31 for size in shape) or len(shape) == 1:
        raise damaged(path, f"output_shape in its header is {brief(shape)}")


def _expanded(name: str, tensor: Tensor, shapes: Mapping[str, Any], path: str | Path) -> Tensor:
    """Repeat the axes that were stored once; a shape that the tensor cannot have is refused."""
    if name not in shapes and not _whole(name) and "." in name:
        return tensor  # parts of the check of the gradient were stored as they are
    shape = shapes.get(name)
    if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
        raise damaged(path, f"its header has no shape of {name!r}")
    once: Sequence[bool] = [stored == 1 and not _whole(name) for stored in tensor.shape]
    fits = len(shape) == tensor.ndim and all(
        size == stored or single for size, stored, single in zip(shape, tensor.shape, once, strict=True)
    )
    if not fits:
        raise damaged(path, f"{brief(name)} is of shape {tuple(tensor.shape)}, its header says {brief(shape)}")
    try:
        return tensor.expand(shape)
    except RuntimeError as error:  # more cells than integers can count
        raise damaged(path, f"the shape of {name!r} in its header is {brief(shape)}") from error
