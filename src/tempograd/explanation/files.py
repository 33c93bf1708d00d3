"""Explanations in files: tensors with a JSON header, a schema version and a checksum; nothing in them is trusted.

What a file holds is derived from the fields of an explanation: a tensor is a tensor, plain data stand in the
header's ``tempograd``, and a field's ``codec`` says how anything else becomes both. ``shapes`` are the full shapes
of tensors of which repeated axes are stored once, ``schema`` is the version of this format, and ``checksum`` a CRC
of all the rest; the first files have neither of the last two. Of further targets there is only what differs from
the first: tensors such as ``targets.1.values``, and ``targets`` in the header; ``keys`` are the targets as asked.
"""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, asdict, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints
from zlib import crc32

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from tempograd.core.errors import DataError, InputError, TempogradError, brief, printable
from tempograd.core.estimate import GradientCheck
from tempograd.core.io import EXPLANATION, read_tensors, shrunk, write_atomically
from tempograd.core.question import Question
from tempograd.core.series import Series
from tempograd.core.stamps import is_nested
from tempograd.engine import Call
from tempograd.explanation.fields import NUMBERS, Codec
from tempograd.targets import TargetScore, from_spec, in_words
from tempograd.typing import Output

SCHEMA = (
    5  # since 2, the facts of the method; since 3, today's words; since 4, task, call, targets; since 5, question
)
WHOLE = {
    "values",
    "times",
}  # are stored as they are, so that the sizes of all other parts are bounded by the file's
TargetParts = tuple[dict[str, Tensor], dict[str, Any]]  # tensors and plain data of one target
FieldValues = Mapping[str, Any]  # fields of one explanation, by name
Key = int | str | tuple[int, ...]  # of a target: its number, name or address
TARGETS = "targets"  # before the tensors of further targets, and the name of what the header says of them

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


# What fields are in a file


def file_parts(record: Any, *, series: bool) -> TargetParts:
    """Return the tensors and the plain data that a file holds of an explanation, with its series or without."""
    tensors: dict[str, Tensor] = {}
    plain: dict[str, Any] = {}
    for each in fields(record):
        value, codec = getattr(record, each.name), each.metadata.get("codec")
        if value is None or (not series and each.metadata.get("of_series")):
            continue
        if codec is not None:
            value, more = codec.write(value, record)
            tensors |= {f"{each.name}.{name}": part for name, part in more.items()}
        elif isinstance(value, tuple) and is_nested(value):  # a header has not the room for so many time stamps
            value = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
        if isinstance(value, Tensor):
            tensors[each.name] = value
        elif value is not None:
            plain[each.name] = _encoded(value)
    return tensors, plain


def _encoded(value: Any) -> Any:
    """Return dataclasses as mappings."""
    if isinstance(value, tuple):
        return [_encoded(part) for part in value]
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def content_of(kind: type, tensors: Mapping[str, Tensor], plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an explanation from what a file holds; those that it does not know are as usual."""
    content: dict[str, Any] = {}
    hints = get_type_hints(kind)
    for each in fields(kind):
        name, codec, start = each.name, each.metadata.get("codec"), f"{each.name}."
        if codec is not None:
            own = {key.removeprefix(start): part for key, part in tensors.items() if key.startswith(start)}
            content |= {name: codec.read(plain.get(name), own, content)} if own or name in plain else {}
        elif name in tensors and each.metadata.get("holds") in NUMBERS:
            content[name] = tensors[name]
        elif name in tensors or name in plain or each.default is MISSING:
            value = _unpacked(name, tensors, plain)
            try:
                content[name] = decoded(value, hints[name])
                if type(value) is int and not each.metadata.get("least", -(2**63)) <= value < 2**63:
                    raise InputError("beyond its bounds")
            except (InputError, TypeError) as error:
                lacks = name not in tensors and name not in plain
                what = f"its header lacks {name!r}" if lacks else f"{name} in its header is {brief(value)}"
                raise InputError(what) from error
    return content


def _unpacked(name: str, tensors: Mapping[str, Tensor], plain: Mapping[str, Any]) -> Any:
    """Return plain data of the header, or those that it had no room for."""
    if name not in tensors:
        return plain.get(name)
    if plain.get(name) is not None:
        raise InputError(f"it has {name} twice")
    try:
        return json.loads(tensors[name].numpy().tobytes()) if tensors[name].dtype == torch.uint8 else ()
    except (ValueError, RecursionError) as error:
        raise InputError(f"its {name} are no JSON") from error


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
    elif is_dataclass(kind) and isinstance(value, dict):
        told = {name: decoded(value[name], part) for name, part in get_type_hints(kind).items() if name in value}
        return kind(**told)  # type: ignore[operator]  # a class
    elif isinstance(value, str) and (kind is str or (kind is Literal and value in parts)):
        return printable(value)
    elif type(value) is kind or (kind is Mapping and isinstance(value, dict)):
        return value
    raise InputError(f"got {brief(value)}")


def _check_read(_: Any, tensors: dict[str, Tensor], content: FieldValues) -> GradientCheck | None:
    names = [f.name for f in fields(GradientCheck)]
    return GradientCheck(*(tensors[name] for name in names)) if tensors.keys() >= set(names) else None


def _call_read(plain: Any, tensors: dict[str, Tensor], content: FieldValues) -> Call:
    return Call.from_plain(decoded(plain, dict), tensors, len(content["values"]))


def _question_written(question: Question, record: Any) -> tuple[Any, dict[str, Tensor]]:
    tensors: dict[str, Tensor] = {}
    return {f.name: _asked(getattr(question, f.name), f.name, record, tensors) for f in fields(question)}, tensors


def _asked(value: Any, name: str, record: Any, tensors: dict[str, Tensor]) -> Any:
    """Return an argument as plain data; what is none is in a mapping that says what it is."""
    value = value.filled if isinstance(value, Series) else value.item() if isinstance(value, np.generic) else value
    if isinstance(value, Mapping):
        return {"inputs": {key: _asked(part, f"{name}.{key}", record, tensors) for key, part in value.items()}}
    if isinstance(value, list | tuple):
        parts = [_asked(part, f"{name}.{place}", record, tensors) for place, part in enumerate(value)]
        return parts if isinstance(value, list) else {"parts": parts}
    if isinstance(value, Tensor | np.ndarray):
        tensor, own = torch.as_tensor(value), getattr(record, name, None)
        if isinstance(own, Tensor) and _same(tensor, own):
            return {"own": name}
        tensors[name] = tensor
        return {"tensor": name}
    if callable(value):
        return {"words": in_words(value), "spec": value.spec() if isinstance(value, TargetScore) else None}
    return value


def _question_read(plain: Any, tensors: dict[str, Tensor], content: FieldValues) -> Question:
    for name, hint in {"output": Output | None, "background": str | None}.items():
        decoded(decoded(plain, dict).get(name), hint)
    own = {name: content[name] for name in ("target", "steps", "baseline") if isinstance(content[name], Tensor)}
    names = [f.name for f in fields(Question) if f.name in plain]
    return Question(**{name: _argument(plain[name], tensors, own) for name in names})


def _argument(told: Any, tensors: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> Any:
    """Return what :func:`_asked` wrote; a function that a file cannot hold is what it is in words."""
    match told:
        case {"inputs": dict(parts)}:
            return {printable(name): _argument(part, tensors, own) for name, part in parts.items()}
        case [*parts] | {"parts": [*parts]}:
            arguments = [_argument(part, tensors, own) for part in parts]
            return arguments if isinstance(told, list) else tuple(arguments)
        case {"tensor": str(name)} | {"own": str(name)} if name in (tensors if "tensor" in told else own):
            return tensors[name] if "tensor" in told else own[name]
        case {"words": str(words), "spec": spec}:
            return printable(words) if spec is None else from_spec(decoded(spec, dict))
        case {}:
            raise InputError(f"its question holds {brief(told)}")
    return printable(told)


CHECK = Codec(lambda check, _: (None, dict(vars(check))), _check_read)
CALL = Codec(lambda call, _: (call.plain, dict(call.tensors)), _call_read)
QUESTION = Codec(_question_written, _question_read)


# Several targets: the first, and what is different in each of the others


def _packed(parts: Sequence[TargetParts]) -> TargetParts:
    (tensors, plain), *others = parts
    every, told = dict(tensors), []
    for place, (own, facts) in enumerate(others, 1):
        new = {name: part for name, part in own.items() if name not in tensors or not _same(part, tensors[name])}
        every |= {f"{TARGETS}.{place}.{name}": part for name, part in new.items()}
        differences = {name: facts.get(name) for name in {**plain, **facts} if facts.get(name) != plain.get(name)}
        told.append({"plain": differences, "absent": [name for name in tensors if name not in own]})
    return every, plain | ({TARGETS: told} if told else {})


def _same(one: Tensor, other: Tensor) -> bool:
    if one is other:
        return True
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    return torch.equal(one, other) or bool(((one == other) | (one.isnan() & other.isnan())).all())


def _parted(tensors: Mapping[str, Tensor], plain: dict[str, Any]) -> list[TargetParts]:
    """Return the tensors and the plain data of each target, undoing :func:`_packed`."""
    told = plain.pop(TARGETS, [])
    if not isinstance(told, list):
        raise InputError(f"{TARGETS} in its header is {brief(told)}")
    first = {name: part for name, part in tensors.items() if not _prefix(name)}
    parts = [(first, dict(plain))]
    for place, entry in enumerate(told, 1):
        kinds = {"plain": dict, "absent": list}
        if not isinstance(entry, dict) or not all(isinstance(entry.get(key), kinds[key]) for key in kinds):
            raise InputError(f"its header tells {brief(entry)} of target {place}")
        start = f"{TARGETS}.{place}."
        own = {name.removeprefix(start): part for name, part in tensors.items() if name.startswith(start)}
        kept = {name: part for name, part in (first | own).items() if name not in entry["absent"]}
        if "values" not in kept:
            raise InputError(f"it lacks the values of target {place}")
        parts.append((kept, plain | entry["plain"]))
    return parts


def _prefix(name: str) -> str:
    """Return what stands before the name of a tensor of a further target.

    Examples
    --------
    >>> _prefix("targets.12.values"), _prefix("gradient_check.gap")
    ('targets.12.', '')
    """
    found = re.match(rf"{TARGETS}\.\d+\.", name)
    return found.group() if found else ""


# Writing and reading


def write_explanations(
    path: str | Path, records: Sequence[Any], keys: Sequence[Any] | None, *, series: bool, force: bool
) -> Path:
    """Write explanations of several targets, with their keys, or one; a file that is none only with ``force``."""
    tensors, plain = _packed([file_parts(record, series=series) for record in records])
    plain |= {} if keys is None else {"keys": list(keys)}
    parts, shapes = {}, {}
    for name, tensor in tensors.items():
        if name.removeprefix(_prefix(name)) in WHOLE:
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


def read_explanations(path: str | Path, kind: type) -> tuple[list[dict[str, Any]], tuple[Key, ...] | None]:
    """Read the fields of the explanation of each target, and the targets as asked, of schemas up to this one."""
    header, tensors = read_tensors(path)
    if "tempograd" not in header or "values" not in tensors:
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
    try:
        plain, shapes = (_parsed(header.get(name), name) for name in ("tempograd", "shapes"))
        keys = plain.pop("keys", None)
        if int(schema) < 3:
            tensors, shapes = _renamed(tensors), _renamed(shapes)
        names = {f.name for f in fields(kind)} | {"fixed"}
        known = [name for name in tensors if name.removeprefix(_prefix(name)).partition(".")[0] in names]
        parts = _parted({name: _expanded(name, tensors[name], shapes) for name in known}, plain)
        contents = [content_of(kind, *_upgraded(*part, int(schema))) for part in parts]
        if keys is not None and (
            len(keys := decoded(keys, tuple[Key, ...])) != len(parts) or len({*keys}) < len(keys)
        ):
            raise InputError(f"its keys are {brief(keys)}")
        return contents, keys
    except (TempogradError, RecursionError) as error:
        raise damaged(path, str(error).rstrip(".")) from error


# Files of earlier schemas


def _upgraded(tensors: dict[str, Tensor], plain: dict[str, Any], schema: int) -> TargetParts:
    """Return what a file of an earlier schema holds of one target as one of this schema would."""
    required = ("method", "parameters", *["facts"] * (schema > 1))
    for name, kind in zip(required, (str, dict, dict), strict=False):
        if name not in plain:
            raise InputError(f"its header lacks {name!r}")
        if not isinstance(plain[name], kind):
            raise InputError(f"{name} in its header is {brief(plain[name])}")
    if schema < 3:
        plain = _in_new_words(plain)
    if (plain.get("task"), plain.get("columns")) == ("classification", 1):
        plain = plain | {"task": "binary"}
    if "facts" not in plain:
        from tempograd.explainers.by_name import facts  # noqa: PLC0415  # files of schema 1 know the name alone

        plain = plain | {"facts": asdict(facts(plain["method"], plain["parameters"]))}
    if schema == SCHEMA or "question" in plain:
        return tensors, plain
    if plain.get("own_steps"):
        plain = plain | {"steps": "own"}
    tensors = {re.sub(r"^fixed\.", "call.", name): part for name, part in tensors.items()}
    spec, words = plain.get("picker_spec"), plain.get("target_text")
    told: dict[str, Any] = {name: {"own": name} for name in ("target", "baseline") if name in tensors}
    told["steps"] = {"own": "steps"} if "steps" in tensors else plain.get("steps")
    if "target" not in tensors and (words or spec):
        told["target"] = {"words": words, "spec": spec}
    told |= {"output": plain.get("output"), "background": plain.get("background")}
    return tensors, plain | {"question": told}


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


def _parsed(text: str | None, name: str) -> dict[str, Any]:
    try:
        content = json.loads(text or "")
    except (ValueError, RecursionError) as error:
        raise InputError(f"its header {name!r} is no JSON") from error
    if not isinstance(content, dict):
        raise InputError(f"its header {name!r} is no JSON object")
    return content


def _expanded(name: str, tensor: Tensor, shapes: Mapping[str, Any]) -> Tensor:
    """Repeat the axes that were stored once; a shape that the tensor cannot have is refused."""
    bare = name.removeprefix(_prefix(name))
    if name not in shapes and ("." in bare or bare == "times"):
        return tensor  # parts of the check of the gradient, and time stamps, were stored as they are
    shape = shapes.get(name)
    if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
        raise InputError(f"its header has no shape of {name!r}")
    once: Sequence[bool] = [stored == 1 and bare not in WHOLE for stored in tensor.shape]
    same = len(shape) == tensor.ndim and all(
        size == stored or single for size, stored, single in zip(shape, tensor.shape, once, strict=True)
    )
    if not same:
        raise InputError(f"{brief(name)} is of shape {tuple(tensor.shape)}, its header says {brief(shape)}")
    try:
        return tensor.expand(shape)
    except RuntimeError as error:  # more cells than integers can count
        raise InputError(f"the shape of {name!r} in its header is {brief(shape)}") from error
