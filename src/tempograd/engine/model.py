"""A model as it is found and left: frozen while it is explained; its device, precision, fingerprint and code."""

import ast
import hashlib
import inspect
import random
import re
import sys
import threading
import types
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.util import resolve_name
from itertools import chain, groupby, islice
from operator import attrgetter, is_
from pathlib import Path
from textwrap import dedent
from typing import Any, Literal, TypeVar, get_args
from weakref import ProxyTypes, WeakKeyDictionary, WeakValueDictionary, ref

import numpy as np
import torch
from torch import Tensor, nn
from torch._utils import _flatten_dense_tensors as flatten
from torch.nn.modules import module as nn_module

from tempograd.core import validation
from tempograd.core.errors import InputError, ModelError
from tempograd.typing import Model as Model  # noqa: PLC0414  # also for those who look for it here
from tempograd.typing import Precision

MANY = 100  # parts of a list that are looked at, so that a function that holds a data set costs nothing
NO_GRAPH = (
    "The model's output does not depend on its input in a way autograd can see: it may run under no_grad, detach "
    "its input, turn it into tokens or leave PyTorch; use a method that needs no gradient, such as occlusion."
)
REFUSED = {  # what torch says of a model that it cannot differentiate, and what to do
    "RNN backward can only be called in training mode": (
        "cuDNN cannot differentiate a recurrent layer that a function hides: pass the nn.Module itself."
    ),
    "on a tensor that doesn't require gradient": NO_GRAPH,  # by captum's hooks on layers
}
OPAQUE = (Tensor, str, bytes, int, float, complex, type, type(None))  # nothing to look for inside
RECURRENT = re.compile(r"aten(\.|::)(gru|lstm|rnn_tanh|rnn_relu)\b")
LARGE = 2**26  # weights; of larger modules no copy is kept
GROUP = 2**24  # words that are compared or summed at once
WIDTHS = {1: torch.uint8, 2: torch.int16}  # all others are whole numbers of 32-bit words
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
AnyGenerator = torch.Generator | np.random.Generator | np.random.RandomState | random.Random
KINDS = (bool, int, float, complex, str, bytes, torch.dtype, torch.device, type(None), type)
FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType)
CONTAINERS = (dict, OrderedDict, tuple, list, set, frozenset)
PLAIN = {*KINDS, *CONTAINERS}  # types of values that are neither tensors nor generators: nearly all of a module's
MOST = 10**5  # plain parts of a module that are compared
USUAL = set(nn.Module().__dict__) - {"training", "_parameters", "_buffers"}  # hooks and the like
COMPILED = {"_torchdynamo_orig_callable", "_compiled_call_impl"}  # which would compile a hook too, each time anew
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
KEPT = 32  # callers, sizes and states per module that need no second look
T = TypeVar("T")

_backends: Any = torch.backends
NEW = hasattr(_backends.cudnn, "rnn")  # torch 2.9, where reading the older names may fail
SETTING = "fp32_precision" if NEW else "allow_tf32"
ROUNDED = (_backends.cuda.matmul, *((_backends.cudnn.rnn, _backends.cudnn.conv) if NEW else (_backends.cudnn,)))
PRODUCTS = (_backends.cuda.matmul, *((_backends.mkldnn.matmul,) if NEW else ()))
SHARED = (*((backend, SETTING) for backend in ROUNDED + PRODUCTS), (_backends.cudnn, "enabled"))
SETTINGS = {"tf32": (ROUNDED, "tf32" if NEW else True), "exact": (PRODUCTS, "ieee" if NEW else False)}

_trained: "WeakValueDictionary[int, nn.Module]" = WeakValueDictionary()  # copies of a model that a method trains
_lock = threading.RLock()
_calls: list[ExitStack] = []  # for each that runs, what puts back the settings of all: the same for all of them
_functions = threading.RLock()  # of all models in which no module can be found
_turns: "WeakKeyDictionary[nn.Module, threading.RLock]" = WeakKeyDictionary()
_trusted: "WeakKeyDictionary[nn.Module, list[Hashable]]" = WeakKeyDictionary()


@contextmanager
def frozen(model: Model) -> Iterator[Callable[[], None]]:
    """Run the block on a model that nothing disturbs, and leave it as it was found, errors included.

    The modules of a model are found where they can be, and any other one that runs when the model does, inside a
    function say, is frozen at its first touch (see ``this_thread``). All modules are in evaluation mode but
    for recurrent layers: cuDNN refuses to differentiate those, so they are in training mode with their dropout at
    0, which leaves their output as it is. Inside a program of ``torch.export`` or TorchScript there are no layers
    left to switch, so one with recurrent layers runs without cuDNN. Random numbers drawn by the model do not
    reach the caller's generators. Threads take turns on a model: what one method hooks into its layers would
    change what another reads from them. Settings and generators of all threads are noted by the first of the
    calls that run and put back by the last: if each put back what it had found, one that overlaps with another
    would leave what that had changed. The block gets a function that puts the buffers back before the rest.
    """
    modules = modules_of(model)
    parts = [part for module in modules for part in module.modules()]
    loose = [*reached(model)] if owner(model) is None else []
    outside = torch.inference_mode(mode=False) if torch.is_inference_mode_enabled() else nullcontext()
    with ExitStack() as undo:
        for turn in _turns_of(parts) or [_functions]:
            undo.enter_context(turn)
        for context in (outside, torch.enable_grad(), no_denormals()):
            undo.enter_context(context)
        call = _Call(undo)
        with _lock:
            shared = _calls[0] if _calls else ExitStack()
            if not _calls:
                for _, put_back, state in generators():
                    shared.callback(put_back, state)
                for backend, name in SHARED:
                    shared.callback(setattr, backend, name, getattr(backend, name))
            _calls.append(shared)
            undo.push(call.leave)
        for _, put_back, state in generators((*unusual(parts), *loose)):
            undo.callback(put_back, state)
        for module in modules:
            call.freeze(module)
        held = [getattr(thing, "__dict__", {}) for thing in (*loose, *parts)]  # of the class Module it is None
        if all(each.get(name) is None for each in held if not COMPILED.isdisjoint(each) for name in COMPILED):
            undo.callback(nn_module.register_module_forward_pre_hook(call.touch).remove)
        yield call.restore_buffers


def _turns_of(modules: Iterable[nn.Module]) -> list[threading.RLock]:
    """Return the locks of some modules, in one order, so that nobody waits for each other."""
    with _lock:
        return sorted((_turns.setdefault(module, threading.RLock()) for module in set(modules)), key=id)


class _ThisThread(threading.local):
    """Whether it runs the model: what runs then is frozen by the :func:`frozen` around it."""

    runs_model = False


this_thread = _ThisThread()


def spare(module: nn.Module) -> None:
    """Leave a module as it is when it runs: a copy that a method trains."""
    _trained.update((id(part), part) for part in module.modules())


def undisturbed_by_others() -> bool:
    """Tell whether all hooks on every module's forward are those of this library."""
    hooks = nn_module._global_forward_pre_hooks.values()
    return all(getattr(hook, "__func__", None) is _Call.touch for hook in hooks)


@dataclass(eq=False)
class _Call:
    """What one call has frozen; ``undo`` puts it back."""

    undo: ExitStack
    thread: int = field(default_factory=threading.get_ident)
    touched: set[int] = field(default_factory=set)
    copies: list[tuple[Tensor, int, Tensor]] = field(default_factory=list)  # of other tensors, with their versions
    attributes: list[tuple[dict[str, Any], dict[str, Any]]] = field(default_factory=list)  # now and before
    weights: list[tuple[nn.Module, list[nn.Parameter], list[Tensor], list[Tensor], list[int]]] = field(
        default_factory=list
    )

    def touch(self, module: nn.Module, _: object) -> None:
        """Freeze a module before its first forward in a run of the model, unless another thread has."""
        known = id(module) in self.touched or id(module) in _trained
        if known or self.thread != threading.get_ident() or not this_thread.runs_model:
            return
        with ExitStack() as turns:
            for turn in _turns_of(module.modules()):
                if not turn.acquire(blocking=False):
                    return
                turns.callback(turn.release)
            self.undo.push(turns.pop_all())
        self.freeze(module)

    def freeze(self, module: nn.Module) -> None:
        """Freeze a module, with everything in it."""
        modules, weights, buffers = parts_of(module)
        self.touched.update(map(id, modules))
        plain = [weight.detach() for weight in weights]  # where they lie, whatever a forward makes of them
        copies = [one.clone() for one in plain] if sum(one.numel() for one in plain) <= LARGE else []
        self.weights.append((module, weights, plain, copies, [weight._version for weight in weights]))
        held = [value for value in unusual(modules) if isinstance(value, Tensor)]
        self.copies += [(tensor, tensor._version, tensor.clone()) for tensor in (*buffers, *held)]
        kept = [table for part in modules for table in (vars(part), part._buffers) if isinstance(table, dict)]
        self.attributes += [(table, table.copy()) for table in kept]
        for part in modules:
            recurrent = isinstance(part, nn.RNNBase)
            self.undo.callback(setattr, part, "training", part.training)
            if part.training != recurrent:  # to set an attribute of a module takes long
                part.training = recurrent
            if isinstance(part, nn.RNNBase):
                self.undo.callback(setattr, part, "dropout", part.dropout)
                part.dropout = 0.0
        for weight in weights:
            if weight.requires_grad:
                self.undo.callback(weight.requires_grad_, True)
                weight.requires_grad_(False)
        if any(weight.is_cuda for weight in weights) and _recurs(module):
            torch.backends.cudnn.enabled = False  # until no call runs

    def restore_buffers(self) -> None:
        """Put tensors back that a forward has changed or replaced, since it counts or keeps state in them."""
        for tensor, version, copy in self.copies:
            if tensor._version != version:
                tensor.detach().copy_(copy)
        for now, before in self.attributes:
            if len(now) == len(before) and all(map(is_, chain(now, now.values()), chain(before, before.values()))):
                continue
            changed = [name for name, value in (before | now).items() if before.get(name) is not value]
            for name in [*changed, *(before.keys() - now.keys())]:  # few: types are asked of these alone
                held = isinstance(before.get(name), Tensor) or isinstance(now.get(name), Tensor)
                if held and name in before:
                    now[name] = before[name]
                elif held:
                    del now[name]

    def leave(self, _: object, error: BaseException | None, __: object) -> None:
        """Put all back; refuse a model whose own forward changed weights, or that torch cannot differentiate."""
        with _lock:
            shared = _calls.pop()
            if not _calls:
                shared.close()
        self.restore_buffers()
        names, lost = [], False
        for module, weights, plain, copies, versions in self.weights:
            same = [(one.dtype, one.device) for one in plain] == [(now.dtype, now.device) for now in weights]
            if same and copies:
                same = all(map(torch.equal, bits_of(weights), bits_of(copies)))
            elif same:
                same = versions == [weight._version for weight in weights]
            if not same:
                lost |= not copies
                names.append(type(module).__name__)
                for weight, one, copy in zip(weights, plain, copies or plain, strict=True):
                    weight.data = one.copy_(copy)
        if names and error is None:
            end = "they cannot all be put back, so load the model again" if lost else "they were put back"
            raise ModelError(
                f"The weights of {', '.join(names)} changed while the model ran, so that every pass explained "
                f"another one ({end}): take the update out of its forward."
            )
        for words, message in REFUSED.items():
            if isinstance(error, RuntimeError) and words in str(error):
                raise ModelError(message) from error


def bits_of(tensors: Iterable[Tensor]) -> Iterator[Tensor]:
    """Yield copies of the bits of tensors, those of one width on one device behind each other."""
    groups: dict[tuple[int, torch.dtype, torch.device], list[Tensor]] = {}
    number = count = 0  # of the group, and of the words in it
    for tensor in tensors:
        size = tensor.element_size()
        groups.setdefault((number, WIDTHS.get(size, torch.int32), tensor.device), []).append(tensor)
        count += tensor.numel() * max(1, size // 4)
        if count > GROUP:
            number, count = number + 1, 0
    for (_, width, _), group in groups.items():
        words: list[Tensor] = []
        with torch.no_grad():
            for _, alike in groupby(group, attrgetter("dtype")):
                flat = flatten([*alike])  # type: ignore[no-untyped-call]  # one operation: each call does this
                words.append((torch.view_as_real(flat).view(-1) if flat.is_complex() else flat).view(width))
            bits = torch.cat(words)
        yield bits


class WithModules(nn.Module):
    """Runs a function, and holds the modules that it runs."""

    def __init__(self, function: Any, modules: Sequence[nn.Module], reset: Callable[[], object] | None) -> None:
        super().__init__()
        itself = [function] if isinstance(function, nn.Module) else []
        self.held = nn.ModuleList(dict.fromkeys([*modules, *itself]))
        self.training = any(module.training for module in self.held)
        self._function, self._reset = (function.__call__ if itself else function), reset

    def forward(self, *inputs: Tensor, **named: Any) -> Any:
        if self._reset is not None:
            self._reset()
        return self._function(*inputs, **named)


def fingerprint(model: Model) -> Callable[[], str]:
    """Name the weights by a hash of their names, shapes and two checksums of their bits.

    The checksums are sent to the device at once; calling the result waits for them. A function around one module
    has the name of that module; around several it has theirs behind its own, and around none its own alone.

    Examples
    --------
    >>> fingerprint(torch.nn.ReLU())()
    'ReLU:e3b0c44298fc1c14'
    """
    marks, found, function = [], modules_of(model), model
    if isinstance(model, WithModules):
        found, function = [*model.held], model._function
    for module in found:
        parts_of(module)  # refuses weights without numbers
        state = sorted(item for item in module.state_dict(keep_vars=True).items() if isinstance(item[1], Tensor))
        heads = "".join(f"{key} {tensor.dtype} {tuple(tensor.shape)}\n" for key, tensor in state)
        sums = []  # of the bits, plainly and weighted by position, so that a swap is seen too
        for words in bits_of(tensor for _, tensor in state):
            bits = words.long()
            plain, position = bits.sum(), torch.arange(1, len(bits) + 1, device=bits.device)
            sums.append(torch.stack([plain, bits.mul_(position).sum()]))
        marks.append((type(module).__name__, heads, sums))
    own = [] if len(marks) == 1 else [str(getattr(function, "__qualname__", type(function).__name__))]

    def name() -> str:
        texts = [(kind, heads + "".join([str(pair.tolist()) for pair in sums])) for kind, heads, sums in marks]
        return "+".join(
            [*own, *(f"{kind}:{hashlib.sha256(text.encode()).hexdigest()[:16]}" for kind, text in texts)]
        )

    return name


def generators(held: Iterable[Any] | None = None) -> list[tuple[AnyGenerator, Callable[..., Any], Any]]:
    """Return the generators among what a model holds (:func:`held_by`); without it those that all share.

    Each comes with what puts a state of it back, and with its state now.
    """
    if held is None:
        gpus = torch.cuda.default_generators if torch.cuda.is_initialized() else ()  # type: ignore[no-untyped-call]
        held = torch.default_generator, np.random.mtrand._rand, random._inst, *gpus
    states: dict[int, tuple[AnyGenerator, Callable[..., Any], Any]] = {}
    for thing in (thing for thing in held if isinstance(thing, AnyGenerator)):
        if isinstance(thing, np.random.Generator):
            bits = thing.bit_generator
            states[id(thing)] = thing, partial(setattr, bits, "state"), bits.state
        elif isinstance(thing, random.Random):
            states[id(thing)] = thing, thing.setstate, thing.getstate()
        else:
            states[id(thing)] = thing, thing.set_state, thing.get_state()
    return list(states.values())


def unusual(modules: Iterable[nn.Module]) -> list[Any]:
    """Return the values among the attributes of some modules that are not of the types that most have."""
    return [value for module in modules for value in vars(module).values() if type(value) not in PLAIN]


def held_by(model: Model) -> list[Any]:
    """Return what may be a generator among the attributes of a model's modules, and what a function reaches."""
    parts = (part for module in modules_of(model) for part in module.modules())
    return [*unusual(parts), *(reached(model) if owner(model) is None else ())]


def _recurs(module: nn.Module) -> bool:
    """Tell whether a module holds a program with recurrent layers.

    Examples
    --------
    >>> _recurs(nn.GRU(1, 1))
    False
    """
    parts = list(module.modules())
    graphs = [str(part.graph) for part in parts if isinstance(part, torch.fx.GraphModule)]
    graphs += [str(part.inlined_graph) for part in parts[:1] if isinstance(part, torch.jit.ScriptModule)]
    return any(RECURRENT.search(graph) for graph in graphs)


@contextmanager
def no_denormals() -> Iterator[None]:
    """Take numbers below 1e-38 for 0.

    Gradients that vanish over a long series are full of them, and a CPU needs ten times as long for each.
    """
    before = bool(torch.tensor(1e-40, dtype=torch.float32) * 1 == 0)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def mutable_if_needed(work: Callable[[], T]) -> T:
    """Return what ``work`` does; where autograd finds its tensors modified in place, do it again on copies.

    For models that contain such a thing as ``x -= x.mean(1)``. Copies cost time, so they are the second try.
    """
    try:
        return work()
    except RuntimeError as error:
        if "modified by an inplace operation" not in str(error):
            raise
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        return work()


def by_lists() -> bool | None:
    """Return what optimisers and clipping take as ``foreach``: None, which leaves it to torch.

    But copies of what a model overwrites (:func:`mutable_if_needed`) know lists of tensors only since torch 2.7.
    """
    old: Any = torch.autograd.graph if torch.__version__ < "2.7" else None
    return False if old is not None and old._allow_mutation_on_saved_tensors_enabled else None


def owner(model: Model) -> nn.Module | None:
    """Return the module behind a model: itself, or the object a method such as ``net.predict`` belongs to."""
    module: Any = getattr(model, "__self__", model)
    itself: nn.Module | None = getattr(module.__init__, "__self__", None)  # and no weakref.proxy of it
    return itself if isinstance(itself, nn.Module) else None


def modules_of(model: Model) -> list[nn.Module]:
    """Return the modules that can be found behind a model, those that its code names first.

    A function is searched (:func:`reached`); others say ``Predictor(function, modules=[net])``. One inside another
    is not listed.

    Examples
    --------
    >>> net = nn.Linear(2, 1)
    >>> modules_of(lambda z: net(z.mean(1))) == [net]
    True
    """
    validation.check_model(model)  # every use of a model begins with its modules
    module = owner(model)
    if module is not None:
        return [module]
    found = list(dict.fromkeys(part for part in reached(model) if isinstance(part, nn.Module)))
    inside = {id(part) for module in found for part in module.modules() if part is not module}
    return [module for module in found if id(module) not in inside]


def place(model: Model, x: Tensor) -> tuple[torch.device, torch.dtype]:
    """Where the model computes and in which precision; a model without weights follows ``x``."""
    loose = reached(model) if owner(model) is None else ()
    weights = (part for part in loose if isinstance(part, nn.Parameter))
    held = (part for module in modules_of(model) for part in (module.parameters(), module.buffers()))
    tensors = chain(chain.from_iterable(held), weights)
    tensor = next((tensor for tensor in tensors if tensor.is_floating_point()), x)
    return tensor.device, tensor.dtype


def parts_of(module: nn.Module) -> tuple[list[nn.Module], list[nn.Parameter], list[Tensor]]:
    """Return modules, parameters and buffers, each once, in torch's order; refuse weights that were never loaded.

    Examples
    --------
    >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.BatchNorm1d(3))
    >>> [len(part) for part in parts_of(net)]
    [4, 4, 3]
    """
    modules = list(module.modules())  # one walk, where torch's own lists take one each
    weights = [weight for part in modules for weight in part._parameters.values() if weight is not None]
    buffers = [buffer for part in modules for buffer in part._buffers.values() if buffer is not None]
    if any(nn.parameter.is_lazy(tensor) or tensor.is_meta for tensor in (*weights, *buffers)):
        raise ModelError(
            "The model has weights that hold no numbers yet, on the device meta or in lazy layers: load them with "
            "model.load_state_dict(state, assign=True), or call the model once."
        )
    return modules, list(dict.fromkeys(weights)), list(dict.fromkeys(buffers))


def reached(thing: Any, deep: int = 3) -> Iterator[Any]:
    """Yield a function and what it holds: its closure, globals and defaults, a method's object, a partial's parts.

    So with each of them, as ``deep`` as that.
    """
    if type(thing) in ProxyTypes:  # the object behind it may be gone
        return
    yield thing
    held: Iterable[Any] = ()
    if not deep or isinstance(thing, (nn.Module, types.ModuleType, *OPAQUE)):
        return
    if isinstance(thing, types.FunctionType):
        with suppress(ValueError):  # a name that is not bound yet
            named = inspect.getclosurevars(thing)
            held = (*named.nonlocals.values(), *(thing.__defaults__ or ()), *named.globals.values())
    elif isinstance(thing, types.MethodType):
        held = thing.__self__, thing.__func__
    elif isinstance(thing, partial):
        held = thing.func, *thing.args, *thing.keywords.values()
    elif isinstance(thing, (dict, list, tuple)):
        held = islice(thing.values() if isinstance(thing, dict) else thing, MANY)
    elif hasattr(thing, "__dict__"):
        held = [*vars(thing).values()]
    for part in held:
        yield from reached(part, deep - 1)


@contextmanager
def computing(precision: Precision | Literal["exact"], device: torch.device) -> Iterator[None]:
    """Run the block with another precision of matrix products, and put torch's settings back.

    ``"full"`` leaves everything as torch's settings say; unless they were changed, they let cuDNN round the
    products of recurrent and convolutional layers to TF32 (10 bits) on a GPU. ``"tf32"`` does so for all float32
    products on a GPU. ``"bf16"`` is torch's autocast with 8 bits, on any device. ``"exact"`` is the precision of
    the numbers, for the library's own sums, whose differences would be lost in bits that are enough for a model.
    """
    places, value = SETTINGS.get(precision, ((), None))
    with ExitStack() as undo:
        for place in places:
            undo.callback(setattr, place, SETTING, getattr(place, SETTING))
            setattr(place, SETTING, value)
        if precision in ("bf16", "exact"):
            half = precision == "bf16"
            undo.enter_context(torch.autocast(device.type, torch.bfloat16 if half else None, enabled=half))
        yield


def rounding() -> tuple[Any, ...]:
    """Return torch's settings of the precision of matrix products."""
    return tuple(getattr(place, SETTING) for place in ROUNDED)


def resolution(device: torch.device, dtype: torch.dtype) -> float:
    """Return how exactly a model computes at best: the relative distance of its numbers, products included."""
    if torch.is_autocast_enabled(device.type):
        dtype = torch.get_autocast_dtype(device.type)
    rounded = device.type == "cuda" and dtype == torch.float32 and not {True, "tf32"}.isdisjoint(rounding())
    return 2.0**-10 if rounded else torch.finfo(dtype).eps


def find_device(device: Any) -> torch.device:
    """Return a device after a small sum on it, or say in one sentence why there is none.

    Examples
    --------
    >>> find_device("cpu")
    device(type='cpu')
    >>> find_device("meta")
    Traceback (most recent call last):
    ...
    tempograd.core.errors.InputError: There is no device 'meta' here: use cpu.
    """
    try:
        chosen = torch.device(device)
        (torch.ones(1, device=chosen) + 1).item()
    except Exception as error:  # torch raises many kinds, one for each sort of device that is not there
        shown, use = repr(str(device)[:40]), "use cpu, or cuda:0" if torch.cuda.is_available() else "use cpu"
        full = "out of memory" in str(error).lower()  # of others: nothing of ours is there yet
        problem = f"The memory of {shown} is full" if full else f"There is no device {shown} here"
        raise InputError(f"{problem}: {use}.") from error
    return chosen


class NotCapturableError(Exception):
    """Something that a CUDA graph cannot repeat, or that cannot be compared with what it will be later."""


def plain_state(module: nn.Module) -> Hashable:
    """Return everything plain about a module and where its tensors lie; raise where there is more to it."""
    parts: list[Any] = []
    for part in module.modules():
        held, opaque = vars(part), isinstance(part, (torch.jit.ScriptModule, nn.DataParallel))
        if opaque or "forward" in held or any(map(held.__getitem__, HOOKS)):
            raise NotCapturableError
        own = {name: value for name, value in held.items() if name not in USUAL}
        parts += (id(part), type(part), type(part).forward, *held["_modules"], *own)
        waiting = [*own.values()]
        for value in waiting:  # which grows
            if type(value) not in CONTAINERS and isinstance(value, KINDS):
                parts.append(value)
            elif isinstance(value, Tensor):
                parts += (value.data_ptr(), value.shape, value.stride(), value.dtype)
            elif isinstance(value, CONTAINERS) and len(parts) < MOST:  # one may hold itself
                parts.append(len(value))
                waiting += (*value, *value.values()) if isinstance(value, dict) else value
            elif isinstance(value, FUNCTIONS) and not getattr(value, "__closure__", 0):
                parts.append(value)
            elif isinstance(value, ref):
                parts.append(id(value()))
            else:
                raise NotCapturableError
    return tuple(parts)


def trusted(model: Model, x: Tensor, caller: str, *, remember: bool = False) -> bool:
    """Tell whether a module was looked at for a caller and series of this size, and gave no reason for doubt.

    It is not run again as long as its attributes and the addresses of its tensors are what they were. What one
    method has seen says nothing of the batches of another. ``remember`` says that it was looked at now.
    """
    module = owner(model)
    if module is None:
        return False
    try:
        key = plain_state(module), getattr(model, "__func__", None), x.shape, x.dtype, x.device, caller
        known = _trusted.setdefault(module, [])
    except (NotCapturableError, TypeError):  # the last of a model that cannot be hashed
        return False
    if remember:
        known[:] = [*known, key][-KEPT:]
    return key in known


# Marks of a model's own code, by which an edited one is told from the one before even if both answer alike

LIBRARIES = {"tempograd", *sys.stdlib_module_names}
INSTALLED = {"site-packages", "dist-packages"}
VALUES = (int, float, complex, str)
PARSING = threading.Lock()  # CPython 3.11 counts how deep a tree is for all threads together


def code_mark(model: Model) -> str:
    """Name the code of a model by a hash of its source, without comments.

    Counted are the files that its classes and functions come from, and those of one's own that these import; of a
    script or a notebook the classes and functions alone; and the plain values that modules and functions hold.
    Libraries are not: an upgrade is no other model.

    Examples
    --------
    >>> code_mark(len) == code_mark(sum)  # nobody's own code
    True
    """
    parts = [part for module in modules_of(model) for part in module.modules()]
    held = [value for part in parts for value in vars(part).values() if isinstance(value, types.FunctionType)]
    within = [thing for each in (model, *held) for thing in reached(each)]
    kinds = {part if isinstance(part, types.FunctionType) else type(part) for part in (*parts, *within)}
    here = [part for kind in kinds if kind.__module__ == "__main__" for part in (kind, *vars(kind).values())]
    texts = [_text(part) for part in here if isinstance(part, types.FunctionType)]
    texts += _own_sources({kind.__module__ for kind in kinds} - {None})  # as functions of exported programs have
    settings = [item for part in parts for item in vars(part).items() if item[0] != "training"]
    values = [f"{name}={value!r}" for name, value in settings if name[:1] != "_" and _is_plain(value)]
    values += [repr(value) for value in within if isinstance(value, VALUES)]
    return hashlib.blake2b("\n".join([*sorted(map(_plain, texts)), *values]).encode(), digest_size=8).hexdigest()


def _is_plain(value: Any) -> bool:
    """Tell whether a value is a plain one, such as a threshold or the size of a kernel."""
    return all(isinstance(each, VALUES) for each in (value if isinstance(value, tuple) else (value,)))


def _text(function: types.FunctionType) -> str:
    with suppress(OSError, TypeError):  # typed into a shell that keeps nothing
        return dedent(inspect.getsource(function))
    return repr(function.__code__.co_code)


def _plain(source: str) -> str:
    """Return code without comments and layout; a lambda may be a part of what cannot be read alone."""
    with suppress(SyntaxError):
        return ast.dump(_tree(source))
    return source


def _tree(source: str) -> ast.Module:
    with PARSING:
        return ast.parse(source)


def _own_sources(names: set[str]) -> list[str]:
    """Return the code of these modules, and of all that they import, that is of no library."""
    waiting, sources = [*names], dict[str, str]()
    while waiting:
        name = waiting.pop()
        module = sys.modules.get(name)
        package, file = getattr(module, "__package__", None), Path(getattr(module, "__file__", None) or "")
        library = INSTALLED & set(file.parts) or name.partition(".")[0] in LIBRARIES
        if name in sources or name == "__main__" or file.suffix != ".py" or library:
            continue
        sources[name] = file.read_text(encoding="utf-8")
        for node in ast.walk(_tree(sources[name])):
            if isinstance(node, ast.Import):
                waiting += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                with suppress(ImportError):  # of a package, in a file that was imported without it
                    home = resolve_name("." * node.level + (node.module or ""), package)
                    waiting += [home, *(f"{home}.{alias.name}" for alias in node.names)]
    return list(sources.values())
