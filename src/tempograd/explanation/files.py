"""Explanations in files: tensors with a JSON header, a schema version and a checksum; nothing in them is trusted.

What a file holds is derived from the fields of an explanation: a tensor is a tensor, plain data stand in the
header's ``tempograd``, and what is neither becomes both. ``shapes`` are the full shapes
of tensors of which repeated axes are stored once, ``schema`` is the version of this format, and ``checksum`` a CRC
of all the rest. Of further targets there is only what differs from
the first: tensors such as ``targets.1.values``, and ``targets`` in the header; ``keys`` are the targets as asked.
"""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, asdict, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints
from zlib import crc32

import numpy as np
import torch
from torch import Tensor

from tempograd.core.errors import DataError, Finding, InputError, TempogradError, brief, printable
from tempograd.core.estimate import GradientCheck
from tempograd.core.io import EXPLANATION, read_tensors, write_tensors
from tempograd.core.question import Question
from tempograd.core.series import is_nested
from tempograd.core.validation import check_flag, unexpanded
from tempograd.engine import Call
from tempograd.engine.outputs import in_full
from tempograd.explanation.record import NUMBERS
from tempograd.targets import TargetScore, from_spec, in_words
from tempograd.typing import Output

E = TypeVar("E")  # the class of explanations
SCHEMA = 5  # 2 brought the facts of the method, 3 today's words, 4 task, call and targets, 5 the question
# What lies may raise
BROKEN = (TempogradError, AttributeError, KeyError, TypeError, ValueError, RuntimeError, OverflowError)
WHOLE = {"values", "times"}  # stored as they are, so that the sizes of all other parts are bounded by the file's
TargetParts = tuple[dict[str, Tensor], dict[str, Any]]  # tensors and plain data of one target
FieldValues = Mapping[str, Any]  # fields of one explanation, by name
Key = int | str | tuple[int, ...]  # of a target: its number, name or address
TARGETS = "targets"  # before the tensors of further targets, and the name of what the header says of them

# What schemas before 3 called things
TENSOR_WORDS = {"free_points": "n_draws", "effective_points": "ess", "passes": "n_evals", "change": "delta"}
TIMING_WORDS = {"controls": "control_variates", "max_points": "max_samples", "until": "stop_when"}
SETTING_WORDS = {  # by method
    **{method: {"points": "n_steps"} for method in ("integrated_gradients", "MaskingIG")},
    **{method: {"points": "n_samples"} for method in ("rand_ig", "gradient_shap")},
    "timing": TIMING_WORDS | {"points": "n_samples"},
    **{method: {"samples": "n_samples"} for method in ("lime", "augmented_occlusion")},
    **{method: {"samples": "n_samples", "batch_size": "fit_batch_size"} for method in ("fit", "winit")},
    **{method: {"batch": "fit_batch_size"} for method in ("timex", "timexpp", "extremal_mask")},
}


# What fields are in a file


def file_parts(record: Any, *, series: bool) -> TargetParts:
    """Return the tensors and the plain data that a file holds of an explanation, with its series or without."""
    tensors: dict[str, Tensor] = {}
    plain: dict[str, Any] = {}
    for each in fields(record):
        name, value, parts = each.name, getattr(record, each.name), {}
        if not series and each.metadata.get("of_series"):
            continue
        if isinstance(value, GradientCheck):
            value, parts = None, vars(value)
        elif isinstance(value, Call):
            parts, value = value.tensors, value.plain
        elif isinstance(value, Question):
            value = {key: _asked(part, key) for key, part in vars(value).items()}
        elif name == "findings":  # in words too, for readers that do not know a code
            value = [vars(finding) | {"text": finding.marked} for finding in value]
        elif isinstance(value, tuple) and is_nested(value):  # a header has not the room for so many time stamps
            value = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
        tensors |= {f"{name}.{key}": part for key, part in parts.items()}
        if value is not None:
            (tensors if isinstance(value, Tensor) else plain)[name] = value
    return tensors, plain


def content_of(kind: type, tensors: Mapping[str, Tensor], plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an explanation from what a file holds; those that it does not know are as usual."""
    content: dict[str, Any] = {}
    hints = get_type_hints(kind)
    for each in fields(kind):
        name, value = each.name, plain.get(each.name)
        parts = {key[len(name) + 1 :]: part for key, part in tensors.items() if key.startswith(f"{name}.")}
        if name in READ:
            content |= {name: READ[name](value, parts, content)} if parts or name in plain else {}
        elif name in tensors and each.metadata.get("holds") in NUMBERS:
            content[name] = tensors[name]
        elif name in tensors or name in plain or each.default is MISSING:
            try:
                value = json.loads(tensors[name].numpy().tobytes()) if name in tensors else value
                content[name] = decoded(value, hints[name])
                if type(value) is int and not each.metadata.get("least", -(2**63)) <= value < 2**63:
                    raise InputError("beyond its bounds")
            except BROKEN as error:
                raise InputError(f"{name} in its header is {brief(value)}") from error
    return content


def decoded(value: Any, hint: Any) -> Any:
    """Return plain data as what a type says: tuples and dataclasses are lists and mappings in JSON.

    Examples
    --------
    >>> decoded([["a"], ["b"]], tuple[tuple[str, ...], ...] | None), decoded(3, int | None)
    ((('a',), ('b',)), 3)
    """
    kind, parts = get_origin(hint) or hint, get_args(hint)
    if kind in (Union, UnionType):
        for part in parts:
            with suppress(InputError):
                return decoded(value, part)
    elif kind is tuple and isinstance(value, list):
        return tuple(decoded(part, parts[0]) for part in value)
    elif (is_dataclass(kind) or kind is Finding) and isinstance(value, dict):
        known = {name: decoded(value[name], part) for name, part in get_type_hints(kind).items() if name in value}
        return kind(**known)  # type: ignore[operator]  # a class
    elif type(value) is kind or (type(value), kind) == (dict, Mapping) or (kind is Literal and value in parts):
        return printable(value)
    raise InputError(f"got {brief(value)}")


def _asked(value: Any, name: str) -> Any:
    """Return an argument of the question as plain data; numbers for each series are a field, which is named."""
    value = value.item() if isinstance(value, np.generic) else value
    if callable(value):
        return {"words": in_words(value), "spec": value.spec() if isinstance(value, TargetScore) else None}
    if isinstance(value, list | tuple) and all(isinstance(part, str | int | float) for part in value):
        return value if isinstance(value, list) else {"parts": value}
    return value if value is None or isinstance(value, str | int | float) else {"own": name}


def _argument(plain: Any, content: FieldValues) -> Any:
    """Return what :func:`_asked` wrote; a function that a file cannot hold is what it is in words."""
    match plain:
        case {"parts": [*parts]}:
            return tuple(parts)
        case {"own": "target" | "steps" | "baseline" as name} if isinstance(content[name], Tensor):
            call = content.get("call", Call()) if name == "baseline" else Call()
            return call.unpacked(content[name])
        case {"words": str(words), "spec": spec}:
            return printable(words) if spec is None else from_spec(decoded(spec, dict))
        case {}:
            raise InputError(f"its question holds {brief(plain)}")
    return printable(plain)


def _read_question(plain: Any, _: Mapping[str, Tensor], content: FieldValues) -> Question:
    for name, hint in {"output": Output | None, "background": str | None}.items():
        decoded(plain.get(name), hint)
    return Question(**{name: _argument(part, content) for name, part in plain.items()})


def _read_check(_: Any, tensors: Mapping[str, Tensor], __: FieldValues) -> GradientCheck | None:
    names = [f.name for f in fields(GradientCheck)]
    return GradientCheck(*(tensors[name] for name in names)) if tensors.keys() >= set(names) else None


READ = {
    "question": _read_question,
    "call": lambda plain, parts, content: Call.from_plain(decoded(plain, dict), parts, len(content["values"])),
    "gradient_check": _read_check,
}


# Several targets: the first, and what is different in each of the others


def _packed(parts: Sequence[TargetParts]) -> TargetParts:
    (tensors, plain), *others = parts
    every, differences = dict(tensors), []
    for place, (more, facts) in enumerate(others, 1):
        new = {name: part for name, part in more.items() if name not in tensors or not _same(part, tensors[name])}
        every |= {f"{TARGETS}.{place}.{name}": part for name, part in new.items()}
        changed = {name: facts.get(name) for name in plain | facts if facts.get(name) != plain.get(name)}
        differences.append({"plain": changed, "absent": [name for name in tensors if name not in more]})
    return every, plain | ({TARGETS: differences} if differences else {})


def _same(one: Tensor, other: Tensor) -> bool:
    return one is other or (one.dtype == other.dtype and torch.equal(one, other))


def _parted(tensors: Mapping[str, Tensor], plain: dict[str, Any]) -> list[TargetParts]:
    """Return the tensors and the plain data of each target, undoing :func:`_packed`."""
    differences = plain.pop(TARGETS, [])
    first = {name: part for name, part in tensors.items() if name == _bare(name)}
    parts = [(first, plain)]
    for place, entry in enumerate(differences, 1):
        start = f"{TARGETS}.{place}."
        new = {_bare(name): part for name, part in tensors.items() if name.startswith(start)}
        kept = {name: part for name, part in (first | new).items() if name not in [*entry["absent"]]}
        parts.append((kept, plain | entry["plain"]))
    return parts


def _bare(name: str) -> str:
    """Return the name of a tensor without what stands before those of further targets.

    Examples
    --------
    >>> _bare("targets.12.values"), _bare("gradient_check.gap")
    ('values', 'gradient_check.gap')
    """
    return re.sub(rf"^{TARGETS}\.\d+\.", "", name)


# Writing and reading


def write_explanations(
    path: str | Path, records: Sequence[Any], keys: Sequence[Any] | None, *, series: bool, force: bool
) -> Path:
    """Write explanations of several targets, with their keys, or one; a file that is none only with ``force``."""
    series, force = check_flag(series, "series"), check_flag(force, "force")
    tensors, plain = _packed([file_parts(record, series=series) for record in records])
    plain |= {} if keys is None else {"keys": list(keys)}
    shapes = {name: list(tensor.shape) for name, tensor in tensors.items()}
    parts = {
        name: (tensor if _bare(name) in WHOLE else unexpanded(tensor).clone()).cpu().contiguous()
        for name, tensor in tensors.items()
    }
    header = {"tempograd": json.dumps(plain, default=asdict), "shapes": json.dumps(shapes), "schema": str(SCHEMA)}
    header["checksum"] = checksum(parts, header)
    return write_tensors(path, parts, header, EXPLANATION, force=force)


def read_explanations(path: str | Path, kind: type[E]) -> tuple[list[E], Sequence[Key] | None]:
    """Read the explanation of each target, and the targets as asked where known, of schemas up to this one."""
    header, tensors = read_tensors(path)
    if "tempograd" not in header or "values" not in tensors:
        raise DataError(f"{path} holds no explanation: write one with Explanation.save or 'tempograd explain'.")
    schema = header.get("schema", "")
    if schema not in map(str, range(1, SCHEMA + 1)):
        raise DataError(f"{path} is damaged, or of a schema beyond {SCHEMA}: upgrade tempograd to read it.")
    if header.get("checksum") != checksum(tensors, header):
        raise damaged(path, "its content does not fit its checksum")
    try:
        plain, shapes = (json.loads(header[name]) for name in ("tempograd", "shapes"))
        keys = plain.pop("keys", None)
        words = TENSOR_WORDS if int(schema) < 3 else {}
        tensors, shapes = ({words.get(name, name): p for name, p in part.items()} for part in (tensors, shapes))
        names = {f.name for f in fields(kind)} | {"fixed"}  # type: ignore[arg-type]  # a dataclass
        known = [name for name in tensors if _bare(name).partition(".")[0] in names]
        parts = _parted({name: _expanded(name, tensors[name], shapes) for name in known}, plain)
        explanations = [kind(**content_of(kind, *_upgraded(*part, int(schema)))) for part in parts]
        for explanation in explanations:
            explanation.verify()  # type: ignore[attr-defined]  # an explanation
        keys = None if keys is None else decoded(keys, tuple[Key, ...])
        if keys is not None and not len(keys) == len({*keys}) == len(parts):
            raise InputError(f"its keys are {brief(keys)}")
        return explanations, keys
    except BROKEN as error:
        said = isinstance(error, TempogradError)
        raise damaged(path, str(error).rstrip(".") if said else "its header is not as it was written") from error


# Files of earlier schemas


def _upgraded(tensors: dict[str, Tensor], plain: dict[str, Any], schema: int) -> TargetParts:
    """Return what a file of an earlier schema holds of one target as one of this schema would."""
    plain = _in_new_words(plain) if schema < 3 else plain
    plain = plain | {"task": in_full(plain.get("task"), plain.get("columns"))}
    if schema == SCHEMA or "question" in plain:
        return tensors, plain
    tensors = {re.sub(r"^fixed\.", "call.", name): part for name, part in tensors.items()}
    steps = "own" if plain.get("own_steps") else plain.get("steps")
    asked = {"steps": steps, "output": plain.get("output"), "background": plain.get("background")}
    if plain.get("target_text") or plain.get("picker_spec"):
        asked["target"] = {"words": plain.get("target_text"), "spec": plain.get("picker_spec")}
    asked |= {name: {"own": name} for name in ("target", "steps", "baseline") if name in tensors}
    return tensors, plain | {"steps": steps, "question": asked}


def _in_new_words(plain: dict[str, Any]) -> dict[str, Any]:
    """Translate settings and facts; without a tolerance, where it gives up and what it is about said nothing."""
    words = SETTING_WORDS.get(plain["method"], {})
    settings = {words.get(name, name): value for name, value in plain["parameters"].items()}
    if settings.get("tolerance") is None:
        settings |= dict.fromkeys({"max_samples", "stop_when"} & settings.keys())
    facts = dict(plain.get("facts", {}))
    facts |= {"unit": words[facts["unit"]]} if facts.get("unit") in words else {}
    return plain | {"parameters": settings, "facts": facts}


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
    code = 0
    for name, text in sorted(header.items()):
        if name != "checksum":
            code = crc32(f"{len(name)}:{name}{len(text.encode())}:{text}".encode(), code)
    for name, tensor in sorted(tensors.items()):
        code = crc32(f"{len(name)}:{name}{tensor.dtype}{list(tensor.shape)}".encode(), code)
        flat = tensor.reshape(-1)
        if flat.stride() != (1,):  # a single number may have any
            flat = flat.clone(memory_format=torch.contiguous_format)
        code = crc32(flat.view(torch.uint8).numpy().data, code)
    return f"crc32:{code:08x}"


def _expanded(name: str, tensor: Tensor, shapes: Mapping[str, Any]) -> Tensor:
    """Repeat the axes that were stored once; a shape that the tensor cannot have is refused."""
    bare, stored = _bare(name), list(tensor.shape)
    # parts of the check of the gradient, and time stamps, were stored as they are
    shape = shapes.get(name, stored if "." in bare or bare == "times" else None)
    sized = isinstance(shape, list) and all(type(size) is int and size >= 0 for size in shape)
    with suppress(RuntimeError, OverflowError, TypeError):
        if sized and len(shape) == tensor.ndim and (shape == stored or bare not in WHOLE):
            return tensor.expand(shape)
    raise InputError(f"{brief(name)} is of shape {stored}, its header says {brief(shape)}")
