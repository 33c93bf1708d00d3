"""A model as it is found and left: frozen while it is explained; its device, precision and fingerprint."""

import inspect
import re
import threading
import types
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from itertools import chain, islice
from typing import Any, NamedTuple, TypeVar, get_args
from weakref import ProxyTypes, WeakKeyDictionary, WeakValueDictionary

import torch
from torch import Tensor, nn
from torch.nn.modules import module as nn_module
from torch.nn.parameter import is_lazy

from tempograd.core import validation
from tempograd.core.errors import InputError, ModelError
from tempograd.engine.bits import Bits
from tempograd.typing import Model as Model  # noqa: PLC0414  # also for those who look for it here
from tempograd.typing import Precision

Restore = Callable[[], object]  # puts something back
MANY = 100  # parts of a list that are looked at, so that a function that holds a data set costs nothing
NO_NUMBERS = (
    "The model has weights on the device meta, which holds no numbers: load them with "
    "model.load_state_dict(state, assign=True)."
)
OPAQUE = (Tensor, str, bytes, int, float, complex, type, type(None))  # nothing to look for inside
RECURRENT = re.compile(r"aten(\.|::)(gru|lstm|rnn_tanh|rnn_relu)\b")
LARGE = 2**26  # weights; of larger modules no copy is kept
WALKS = (nn.Module.named_modules, nn.Module.named_parameters, nn.Module.named_buffers)
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
T = TypeVar("T")

_trained: "WeakValueDictionary[int, nn.Module]" = WeakValueDictionary()  # copies of a model that a method trains
_here = threading.local()  # the calls of this thread, and whether its model is running
_lock = threading.RLock()
_functions = threading.RLock()  # of all models in which no module can be found
_turns: "WeakKeyDictionary[nn.Module, threading.RLock]" = WeakKeyDictionary()
_shared: dict[Hashable, "_SharedChange"] = {}


@contextmanager
def frozen(model: Model) -> Iterator[Callable[[], None]]:
    """Run the block on a model that nothing disturbs, and leave it as it was found, errors included.

    The modules of a model are found where they can be, and any other one that runs when the model does, inside a
    function say, is frozen at its first touch (see :func:`running`). All modules are in evaluation mode but
    for recurrent layers: cuDNN refuses to differentiate those, so they are in training mode with their dropout at
    0, which leaves their output as it is. Inside a program of ``torch.export`` or TorchScript there are no layers
    left to switch, so one with recurrent layers runs without cuDNN. Random numbers drawn by the model do not
    reach the caller's generators. Threads take turns on a model: what one method hooks into its layers would
    change what another reads from them. The block gets a function that puts the buffers back before the rest.
    """
    outside = torch.inference_mode(mode=False) if torch.is_inference_mode_enabled() else nullcontext()
    device, _ = place(model, torch.empty(0))
    call = _Call()
    with _turn(model), outside, torch.enable_grad(), no_denormals():
        try:
            call.keep_generators(device)
            for module in modules_of(model):
                call.freeze(module)
            if not is_compiled(model):  # which would compile the hook as well, each time anew
                call.changes.make("hook", _hooked)
            with _entered(call):
                yield call.restore_buffers
        finally:
            changed = call.leave()
    if changed:
        raise ModelError(changed)


@contextmanager
def _turn(model: Model) -> Iterator[None]:
    """Wait until no other thread explains a model that has a layer of this one."""
    modules = {part for module in modules_of(model) for part in parts_of(module).modules}
    with _lock:
        found = [_turns.setdefault(module, threading.RLock()) for module in modules] or [_functions]
    with ExitStack() as turns:
        for each in sorted(found, key=id):  # in one order, so that nobody waits for each other
            turns.enter_context(each)
        yield


@contextmanager
def running() -> Iterator[None]:
    """Mark the block as a run of the model: what runs there is frozen by the :func:`frozen` around it."""
    before = getattr(_here, "running", False)
    _here.running = True
    try:
        yield
    finally:
        _here.running = before


def spare(module: nn.Module) -> None:
    """Leave a module as it is when it runs: a copy that a method trains."""
    _trained.update((id(part), part) for part in module.modules())


def undisturbed_by_others() -> bool:
    """Tell whether all hooks on every module's forward are the one of this library."""
    return all(hook is _touch for hook in nn_module._global_forward_pre_hooks.values())


class _Call:
    """What one call has frozen."""

    def __init__(self) -> None:
        self.changes = SharedChanges()
        self._buffers: list[_Buffer | _Attributes] = []
        self._weights: list[tuple[nn.Module, list[nn.Parameter], Bits | None, list[int]]] = []
        self._touched: set[int] = set()

    def keep_generators(self, device: torch.device) -> None:
        """Put the state of the random generators back in the end."""
        self.changes.make("generator", lambda: partial(torch.set_rng_state, torch.get_rng_state()))
        if device.type == "cuda":
            self.changes.make(
                device, lambda: partial(torch.cuda.set_rng_state, torch.cuda.get_rng_state(device), device)
            )

    def freeze(self, module: nn.Module) -> None:
        """Freeze a module, with everything in it."""
        if id(module) in self._touched:
            return
        parts = parts_of(module)
        require_numbers(parts)
        self._touched.update(map(id, parts.modules))
        self._snapshot_weights(module, parts.parameters)
        kept = [_Buffer(buffer) for buffer in parts.buffers]
        self._buffers += [*kept, *(_Attributes(part) for part in parts.modules)]
        self.changes.make_all(
            chain(
                ((("module", id(part)), partial(_eval_mode, part)) for part in parts.modules),
                ((("weight", id(weight)), partial(_without_gradient, weight)) for weight in parts.parameters),
                ((("buffer", id(each.buffer)), each.restoring) for each in kept),
            )
        )
        if any(weight.is_cuda for weight in parts.parameters) and _recurs(module):
            self.changes.make("cudnn", _without_cudnn)

    def leave(self) -> str:
        """Put everything back, and say in a sentence if the model changed its own weights."""
        try:
            self.restore_buffers()
            return self._changed_weights()
        finally:
            self.changes.undo()

    def restore_buffers(self) -> None:
        """Put buffers back that a forward has changed, since it counts or keeps state in them."""
        for buffer in self._buffers:
            buffer.restore()

    def _snapshot_weights(self, module: nn.Module, weights: list[nn.Parameter]) -> None:
        few = sum(weight.numel() for weight in weights) <= LARGE
        versions = [weight._version for weight in weights]
        self._weights.append((module, weights, Bits(weights) if few else None, versions))

    def _changed_weights(self) -> str:
        """Put weights back that the model's own forward has changed, and say so; nothing if there are none."""
        names, lost = [], False
        for module, weights, bits, versions in self._weights:
            changed = versions != [weight._version for weight in weights] if bits is None else not bits.same()
            if not changed:
                continue
            names.append(type(module).__name__)
            if bits is None:
                lost = True
            else:
                bits.restore()
        if not names:
            return ""
        end = "they cannot all be put back, so load the model again" if lost else "they were put back"
        return (
            f"The weights of {', '.join(names)} changed while the model ran, so that every pass explained another "
            f"one ({end}): take the update out of its forward."
        )


class _Buffer:
    """The values of a buffer, for the case that a forward changes them."""

    def __init__(self, buffer: Tensor) -> None:
        self.buffer, self._version, self._copy = buffer, buffer._version, buffer.clone()

    def restore(self) -> None:
        if self.buffer._version != self._version:
            self.buffer.detach().copy_(self._copy)
            self._version = self.buffer._version

    def restoring(self) -> Restore:
        return self.restore


class _Attributes:
    """The tensors that a module keeps as plain attributes, where a forward may put others."""

    def __init__(self, part: nn.Module) -> None:
        self._held = part.__dict__
        self._kept = {name: _Buffer(value) for name, value in self._held.items() if isinstance(value, Tensor)}

    def restore(self) -> None:
        for name in [name for name, value in self._held.items() if isinstance(value, Tensor)]:
            if name not in self._kept:
                del self._held[name]
        for name, kept in self._kept.items():
            kept.restore()
            self._held[name] = kept.buffer


def _eval_mode(part: nn.Module) -> Restore:
    mode, recurrent = part.training, isinstance(part, nn.RNNBase)
    dropout = part.dropout if isinstance(part, nn.RNNBase) else 0.0
    if mode != recurrent:  # to set an attribute of a module takes long
        part.training = recurrent
    if isinstance(part, nn.RNNBase):
        part.dropout = 0.0

    def restore() -> None:
        if part.training != mode:
            part.training = mode
        if isinstance(part, nn.RNNBase):
            part.dropout = dropout

    return restore


def _without_gradient(weight: nn.Parameter) -> Restore:
    if not weight.requires_grad:
        return lambda: None
    weight.requires_grad_(False)
    return partial(weight.requires_grad_, True)


def _without_cudnn() -> Restore:
    before = torch.backends.cudnn.enabled
    torch.backends.cudnn.enabled = False
    return partial(setattr, torch.backends.cudnn, "enabled", before)


@contextmanager
def _entered(call: _Call) -> Iterator[None]:
    """Let the hook freeze what runs in this thread."""
    calls: list[_Call] = _here.__dict__.setdefault("calls", [])
    calls.append(call)
    try:
        yield
    finally:
        calls.remove(call)


def _hooked() -> Restore:
    return nn_module.register_module_forward_pre_hook(_touch).remove


def _touch(module: nn.Module, _: object) -> None:
    """Freeze a module before its first forward in a run of the model."""
    calls: list[_Call] = getattr(_here, "calls", [])
    if calls and getattr(_here, "running", False) and id(module) not in _trained:
        calls[-1].freeze(module)


def _recurs(module: nn.Module) -> bool:
    """Tell whether a module holds a program with recurrent layers.

    Examples
    --------
    >>> _recurs(nn.GRU(1, 1))
    False
    """
    parts = parts_of(module).modules
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
    module = _itself(getattr(model, "__self__", model))
    return module if isinstance(module, nn.Module) else None


def _itself(thing: Any) -> Any:
    """Return the object behind a ``weakref.proxy``, which has another type; None if it is gone."""
    if type(thing) not in ProxyTypes:
        return thing
    try:
        return thing.__init__.__self__
    except ReferenceError:
        return None


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


def is_compiled(model: Model) -> bool:
    """Tell whether ``torch.compile`` has had its hands on a model or on what can be found behind it."""
    if owner(model) is None and any(hasattr(part, "_torchdynamo_orig_callable") for part in reached(model)):
        return True
    parts = chain.from_iterable(parts_of(module).modules for module in modules_of(model))
    return any(
        type(part).__name__ == "OptimizedModule" or part.__dict__.get("_compiled_call_impl") is not None
        for part in parts
    )


def place(model: Model, x: Tensor) -> tuple[torch.device, torch.dtype]:
    """Where the model computes and in which precision; a model without weights follows ``x``."""
    for module in modules_of(model):
        parts = parts_of(module)
        for tensor in chain(parts.parameters, parts.buffers):
            if tensor.is_meta:
                raise ModelError(NO_NUMBERS)
            if tensor.is_floating_point():
                return tensor.device, tensor.dtype
    if owner(model) is None:
        loose = [part for part in reached(model) if isinstance(part, Tensor) and part.is_floating_point()]
        for tensor in loose:
            if isinstance(tensor, nn.Parameter):
                return tensor.device, tensor.dtype
        if x.device.type == "cpu" and loose:
            return loose[0].device, x.dtype
    return x.device, x.dtype


class ModuleParts(NamedTuple):
    """What a module consists of, each once, in the order in which torch lists it."""

    modules: list[nn.Module]
    parameters: list[nn.Parameter]
    buffers: list[Tensor]


def parts_of(module: nn.Module) -> ModuleParts:
    """Return all of it from one walk without names; torch's own lists take a walk each and name what they meet.

    Examples
    --------
    >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.BatchNorm1d(3))
    >>> [len(each) for each in parts_of(net)]
    [4, 4, 3]
    """
    modules: dict[int, nn.Module] = {}
    parameters: dict[int, nn.Parameter] = {}
    buffers: dict[int, Tensor] = {}
    waiting = [module]
    while waiting:
        part = waiting.pop()
        if id(part) in modules:
            continue
        kind = type(part)
        if (kind.named_modules, kind.named_parameters, kind.named_buffers) != WALKS:  # a way of its own
            return ModuleParts(list(module.modules()), list(module.parameters()), list(module.buffers()))
        modules[id(part)] = part
        for weight in part._parameters.values():
            if weight is not None:
                parameters[id(weight)] = weight
        for buffer in part._buffers.values():
            if buffer is not None:
                buffers[id(buffer)] = buffer
        waiting += [each for each in reversed(part._modules.values()) if each is not None]
    return ModuleParts(list(modules.values()), list(parameters.values()), list(buffers.values()))


def require_numbers(parts: ModuleParts) -> None:
    """Refuse a module with weights that were never loaded."""
    for tensor in chain(parts.parameters, parts.buffers):
        if is_lazy(tensor):
            raise ModelError(
                "The model has lazy layers that were never called, so they have no weights yet: call the model "
                "once with series, or load its weights."
            )
        if tensor.is_meta:
            raise ModelError(NO_NUMBERS)


def reached(model: Any, deep: int = 3) -> Iterator[Any]:
    """Yield a function and what it holds: its closure, globals and defaults, a method's object, a partial's parts.

    So with each of them, as ``deep`` as that.
    """
    thing = _itself(model)
    yield thing
    if deep and not isinstance(thing, (nn.Module, types.ModuleType, *OPAQUE)):
        for part in _held(thing):
            yield from reached(part, deep - 1)


def _held(thing: Any) -> Iterable[Any]:
    if isinstance(thing, types.FunctionType):
        try:
            named = inspect.getclosurevars(thing)
        except ValueError:  # a name that is not bound yet
            return ()
        return (*named.nonlocals.values(), *(thing.__defaults__ or ()), *named.globals.values())
    if isinstance(thing, types.MethodType):
        return (thing.__self__, thing.__func__)
    if isinstance(thing, partial):
        return (thing.func, *thing.args, *thing.keywords.values())
    if isinstance(thing, (dict, list, tuple)):
        return islice(thing.values() if isinstance(thing, dict) else thing, MANY)
    return vars(thing).values() if hasattr(thing, "__dict__") else ()


@contextmanager
def computing(precision: str, device: torch.device) -> Iterator[None]:
    """Run the block with another precision of matrix products, and put torch's settings back.

    ``"full"`` leaves everything as torch's settings say; unless they were changed, they let cuDNN round the
    products of recurrent and convolutional layers to TF32 (10 bits) on a GPU. ``"tf32"`` does so for all float32
    products on a GPU. ``"bf16"`` is torch's autocast with 8 bits, on any device.
    """
    validation.check_choice(precision, "precision", PRECISIONS)
    if precision == "bf16":
        with torch.autocast(device.type, torch.bfloat16):
            yield
        return
    if precision == "full":
        yield
        return
    with _set(_places(), "tf32", older=True):
        yield


@contextmanager
def exact(device: torch.device) -> Iterator[None]:
    """Run the block with matrix products in the precision of their numbers, whatever the settings.

    For the library's own sums, whose differences would be lost in the few bits that are enough for a model.
    """
    with _set(_products(), "ieee", older=False), torch.autocast(device.type, enabled=False):
        yield


@contextmanager
def _set(places: tuple[tuple[Any, str], ...], precision: str, *, older: bool) -> Iterator[None]:
    """Change settings for the block; another thread may be doing so too, and what both found is put back."""
    every = (*_places(), *_products())
    changes, before = SharedChanges(), [getattr(place, name) for place, name in places]
    changes.make("precision", lambda: partial(_put, every, [getattr(place, name) for place, name in every]))
    try:
        _put(places, [precision if name == "fp32_precision" else older for _, name in places])
        yield
    finally:
        _put(places, before)
        changes.undo()


def _put(places: tuple[tuple[Any, str], ...], values: Sequence[Any]) -> None:
    for (place, name), value in zip(places, values, strict=True):
        setattr(place, name, value)


def rounding() -> tuple[Any, ...]:
    """Return torch's settings of the precision of matrix products."""
    return tuple(getattr(place, name) for place, name in _places())


def resolution(device: torch.device, dtype: torch.dtype) -> float:
    """Return how exactly a model computes at best: the relative distance of its numbers, products included."""
    if torch.is_autocast_enabled(device.type):
        dtype = torch.get_autocast_dtype(device.type)
    rounded = (
        device.type == "cuda"
        and dtype == torch.float32
        and any(setting in {True, "tf32"} for setting in rounding())
    )
    return 2.0**-10 if rounded else torch.finfo(dtype).eps


def _places() -> tuple[tuple[Any, str], ...]:
    backends: Any = torch.backends
    if hasattr(backends.cudnn, "rnn"):  # since torch 2.9, where reading the older names may fail
        places = (backends.cuda.matmul, backends.cudnn.rnn, backends.cudnn.conv)
        return tuple((place, "fp32_precision") for place in places)
    return (backends.cuda.matmul, "allow_tf32"), (backends.cudnn, "allow_tf32")


def _products() -> tuple[tuple[Any, str], ...]:
    backends: Any = torch.backends
    if hasattr(backends.cudnn, "rnn"):
        return (backends.cuda.matmul, "fp32_precision"), (backends.mkldnn.matmul, "fp32_precision")
    return ((backends.cuda.matmul, "allow_tf32"),)


def find_device(device: Any) -> torch.device:
    """Return a device after a small sum on it, or say in one sentence why there is none.

    Examples
    --------
    >>> find_device("cpu")
    device(type='cpu')
    >>> find_device("meta")
    Traceback (most recent call last):
    ...
    tempograd.core.errors.InputError: The device 'meta' holds no numbers, so no model can compute there: use cpu.
    """
    if isinstance(device, bool) or not isinstance(device, (str, int, torch.device)):
        raise InputError(f"device must be a name such as 'cpu' or 'cuda:0', got {type(device).__name__}.")
    shown = repr(str(device)[:40])
    use = "use cpu, or cuda:0" if torch.cuda.is_available() else "use cpu"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's own, about names it once knew
            found = torch.device(device)
            if found.type != "meta":
                (torch.ones(1, device=found) + 1).item()
    except Exception as error:  # torch raises many kinds, one for each sort of device that is not there
        if "out of memory" in str(error).lower():  # of others: nothing of ours is there yet
            raise InputError(
                f"The memory of {shown} is full, so that nothing can start there: free some (other programs use "
                "it), or use cpu."
            ) from error
        raise InputError(f"There is no device {shown} here: {use}.") from error
    if found.type == "meta":
        raise InputError(f"The device {shown} holds no numbers, so no model can compute there: {use}.")
    return found


class _SharedChange:
    def __init__(self, restore: Restore) -> None:
        self.restore, self.users = restore, 0


class SharedChanges:
    """What one call changes outside itself while it runs, counted: the last one that has changed it puts it back.

    Two threads may explain models at the same time. If each put back what it had found, the second would find,
    and leave, what the first had changed.
    """

    def __init__(self) -> None:
        self._mine: dict[Hashable, None] = {}

    def make(self, key: Hashable, change: Callable[[], Restore]) -> bool:
        """Change what ``key`` names, and tell whether this call had not done so before.

        ``change`` is called unless another call has changed it already, and returns what puts it back.
        """
        if key in self._mine:
            return False
        self.make_all([(key, change)])
        return True

    def make_all(self, changes: Iterable[tuple[Hashable, Callable[[], Restore]]]) -> None:
        """Do the same for many."""
        with _lock:
            for key, change in changes:
                if key in self._mine:
                    continue
                shared = _shared.get(key)
                if shared is None:
                    shared = _shared[key] = _SharedChange(change())
                shared.users += 1
                self._mine[key] = None

    def undo(self) -> None:
        """Put back what no other call holds, the last change first, and all of it even if some of it fails."""
        with _lock:
            failed: BaseException | None = None
            for key in reversed(self._mine):
                change = _shared[key]
                change.users -= 1
                if change.users:
                    continue
                del _shared[key]
                try:
                    change.restore()
                except BaseException as error:  # raised when the rest has been put back
                    failed = failed or error
            self._mine.clear()
        if failed is not None:
            raise failed
