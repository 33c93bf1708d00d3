"""Work beside the model on a GPU: captured CUDA graphs, blocks prefetched, results copied to the host late.

On a CPU nothing runs beside anything else, so everything here happens at once, and nothing is captured.
"""

import gc
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Generic, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.modules import module as nn_module
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tempograd.engine.model import Model, NotCapturableError, owner, plain_state, rounding, undisturbed_by_others

Tensors = tuple[Tensor, ...]
Prepared = TypeVar("Prepared")
CELLS = 2**18  # of the series that pass at once; beyond, the device is busy enough
SHARE = 0.002  # of the device's memory that a captured graph may keep
KEPT = 8  # captured graphs, or reasons for none, per model
HIGH = -1  # priority of a stream: many small kernels would otherwise wait for one large one of the model each
ATTENTION = "_attention"  # in the names of fused attention and of its backward pass

_known: "WeakKeyDictionary[nn.Module, OrderedDict[Hashable, _CapturedGraph | bool]]" = WeakKeyDictionary()
_lock = threading.RLock()


def run_captured(
    model: Model, kind: Hashable, work: Callable[..., Tensors], inputs: Tensors, *, uses_model: bool = True
) -> Tensors | None:
    """Return ``work(*inputs)`` from a captured graph, or None where there is none and the pass must run as usual.

    A pass over one series launches hundreds of tiny kernels, and the host needs several times as long to launch
    them as the device to run them. A CUDA graph launches all of them at once. It repeats kernels and addresses,
    nothing else, so it is only made of, and only used for, a model that is known to do the same again:

    - it is an ``nn.Module`` without hooks whose attributes are plain data, and they, the addresses of its tensors
      and torch's settings are what they were;
    - a trial pass reads nothing from the host, draws no random numbers, and changes no tensor and no attribute;
    - the capture, which fails where the host waits for the device, succeeds;
    - the first replay gives what the trial gave.

    New weights at the old addresses, as an optimiser leaves them, are read by the replay. Graphs go with the
    model. ``work`` must be a function of the model, of ``kind`` and of its inputs alone; the second pass of a kind
    is captured. ``uses_model=False`` says that the model is not called: a graph then holds whatever became of it.
    """
    module = owner(model)
    modes = torch._C._len_torch_dispatch_stack() + torch._C._len_torch_function_stack()
    hooked = nn_module._global_forward_hooks or nn_module._global_backward_hooks or not undisturbed_by_others()
    casts = torch.is_autocast_enabled("cuda") or torch.is_anomaly_enabled()
    if module is None or modes or hooked or casts or torch.cuda.is_current_stream_capturing():
        return None
    with _lock:  # a graph has one place for its inputs, and two threads may run it
        try:
            state = plain_state(module) if uses_model else None
            shapes = tuple((tensor.shape, tensor.dtype) for tensor in inputs)
            cudnn, stream = torch.backends.cudnn, torch.cuda.current_stream().cuda_stream
            kernels = cudnn.enabled, cudnn.benchmark, cudnn.deterministic, rounding(), stream  # what chooses them
            settings = torch.are_deterministic_algorithms_enabled(), kernels
            key = (kind, getattr(model, "__func__", None), shapes, inputs[0].device, settings, state)
            known = _known.setdefault(module, OrderedDict())
        except (NotCapturableError, TypeError):  # the last of a model that cannot be hashed
            return None
        found = known.get(key)
        if found is None:
            known[key] = True  # seen once
        elif found is True:
            known[key] = found = _try_capture(module, state, work, inputs) or False
        known.move_to_end(key)
        while len(known) > KEPT:
            known.popitem(last=False)
        return found.run(inputs) if isinstance(found, _CapturedGraph) else None


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch has no types here
    """Notes whether a tensor on the host takes part: a replay would read the same place, whatever is there.

    Fused attention hands the seed and the offset of its dropout to its own backward pass, on the host unless it is
    captured. They are numbers without a meaning where nothing is drawn, and what is drawn is seen elsewhere.
    """

    beside = False

    def __torch_dispatch__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        attends = ATTENTION in func.name()
        for part in tree_leaves((args, kwargs, result)):
            if isinstance(part, Tensor) and not part.is_cuda:
                self.beside = self.beside or not (attends and part.ndim == 0 and not part.is_floating_point())
        return result


class _CapturedGraph(NamedTuple):
    graph: "torch.cuda.CUDAGraph"
    inputs: Tensors
    outputs: Tensors

    @torch.no_grad()
    def run(self, inputs: Tensors) -> Tensors:
        _copy(inputs, self.inputs)
        self.graph.replay()
        outputs = tuple(map(torch.empty_like, self.outputs))
        _copy(self.outputs, outputs)
        return outputs


def _copy(values: Tensors, into: Tensors) -> None:
    """Copy tensors by one kernel for all of a type."""
    for kind in {part.dtype for part in into}:
        pairs = [pair for pair in zip(into, values, strict=True) if pair[0].dtype == kind]
        torch._foreach_copy_([place for place, _ in pairs], [value for _, value in pairs])


def _try_capture(
    module: nn.Module, state: Hashable, work: Callable[..., Tensors], inputs: Tensors
) -> _CapturedGraph | None:
    device = inputs[0].device
    stream, current = _stream(device, 0), torch.cuda.current_stream(device)
    static = tuple(tensor.clone() for tensor in inputs)
    stream.wait_stream(current)
    try:
        with torch.cuda.stream(stream):
            expected = _trial(module, state, lambda: work(*static))
            graph = _capture(stream, work, static)
            return graph if all(map(_alike, graph.run(inputs), expected)) else None
    except NotCapturableError:
        return None
    finally:
        current.wait_stream(stream)


def _trial(module: nn.Module, state: Hashable, work: Callable[[], Tensors]) -> Tensors:
    """Run the pass, and refuse it if it did what a graph cannot repeat."""
    tensors = [*module.parameters(), *module.buffers()]
    before = [tensor._version for tensor in tensors], torch.get_rng_state(), torch.cuda.get_rng_state()
    with _Watch() as watch:  # type: ignore[no-untyped-call]
        result = work()
    random = not torch.equal(before[1], torch.get_rng_state())
    random |= not torch.equal(before[2], torch.cuda.get_rng_state())
    changed = before[0] != [tensor._version for tensor in tensors]
    changed |= state is not None and plain_state(module) != state
    if watch.beside or random or changed:
        raise NotCapturableError
    return result


def _capture(stream: "torch.cuda.Stream", work: Callable[..., Tensors], static: Tensors) -> _CapturedGraph:
    free = torch.cuda.mem_get_info(stream.device)
    if free[0] < 2 * SHARE * free[1]:  # what torch keeps for later cannot be used or freed while it captures
        torch.cuda.empty_cache()
        free = torch.cuda.mem_get_info(stream.device)
    graph = torch.cuda.CUDAGraph()
    try:
        with ExitStack() as undo:
            generator = torch.cuda.default_generators[stream.device.index or 0]
            undo.callback(generator.graphsafe_set_state, generator.graphsafe_get_state())
            generator.graphsafe_set_state(generator.clone_state())  # a capture that fails leaves it unusable
            if gc.isenabled():  # it would free device memory half-way through
                undo.callback(gc.enable)
                gc.disable()
            undo.enter_context(warnings.catch_warnings())
            warnings.filterwarnings("ignore", "The CUDA Graph is empty")  # where the pass fails at once
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                outputs = work(*static)
            finally:
                graph.capture_end()
    except RuntimeError as error:  # the pass can still run as usual
        raise NotCapturableError from error
    if free[0] - torch.cuda.mem_get_info(stream.device)[0] > SHARE * free[1]:
        raise NotCapturableError
    return _CapturedGraph(graph, static, outputs)


def _alike(found: Tensor, expected: Tensor) -> bool:
    size = float(expected.abs().amax().nan_to_num(1.0)) if expected.numel() else 0.0
    return torch.allclose(found, expected, rtol=1e-3, atol=1e-4 * size, equal_nan=True)


def host_copy(numbers: Tensor) -> Callable[[], Tensor]:
    """Start the copy of numbers to the host; calling the result waits for the copy, not for later work.

    Examples
    --------
    >>> host_copy(torch.tensor(True))()
    tensor(True)
    """
    if not numbers.is_cuda:
        return lambda: numbers
    copy = torch.empty(numbers.shape, dtype=numbers.dtype, pin_memory=True)
    copy.copy_(numbers, non_blocking=True)
    event = torch.cuda.current_stream(numbers.device).record_event()

    def wait() -> Tensor:
        event.synchronize()
        return copy

    return wait


@dataclass
class Prefetcher(Generic[Prepared]):
    """Prepares a block of series on a stream of its own while the model computes on the one before.

    What was prepared is freed into that stream's memory, so the next preparation may begin only when the model
    is done with the block before: :meth:`take` notes that moment.
    """

    device: torch.device
    _free: "torch.cuda.Event | None" = None
    _waiting: tuple[Hashable, Prepared] | None = None

    def take(self, key: Hashable, make: Callable[[], Prepared]) -> Prepared:
        """Return what was prepared under ``key``, or make it now; what was prepared for others is dropped."""
        ready, self._waiting = self._waiting, None
        if self.device.type == "cuda":
            current = torch.cuda.current_stream(self.device)
            current.wait_stream(_stream(self.device, HIGH))
            self._free = current.record_event()
        return ready[1] if ready is not None and ready[0] == key else make()

    def prepare(self, key: Hashable, make: Callable[[], Prepared]) -> None:
        """Make something for later, once the work sent before the last :meth:`take` is done."""
        stream = _stream(self.device, HIGH) if self.device.type == "cuda" else None
        if stream is not None and self._free is not None:
            stream.wait_event(self._free)
        with nullcontext() if stream is None else torch.cuda.stream(stream):
            self._waiting = key, make()


@dataclass
class HostWriter:
    """Writes results where they belong, one block late where they come from another device.

    To copy at once would make the host wait for the device, and then the device for the host.
    """

    _pending: list[tuple[Tensor, slice | Tensor, Callable[[], Tensor]]] = field(default_factory=list)
    _new: int = 0

    def write(self, whole: Tensor, rows: slice | Tensor, part: Tensor) -> None:
        """Write ``part`` into ``whole[rows]``, at the latest when :meth:`flush` is called."""
        if whole.is_cuda or not part.is_cuda:
            whole[rows] = part.to(whole)
            return
        self._new += 1
        self._pending.append((whole, rows, host_copy(part.to(whole.dtype))))

    def flush(self, *, earlier: bool = False) -> None:
        """Wait for all results, or for those alone that were there when somebody last waited."""
        keep, self._new = self._new if earlier else 0, 0
        while len(self._pending) > keep:
            whole, rows, copied = self._pending.pop(0)
            whole[rows] = copied()


@lru_cache
def _stream(device: torch.device, priority: int) -> "torch.cuda.Stream":
    """One stream per device and use: each keeps the memory that it once used, and libraries a workspace for it."""
    return torch.cuda.Stream(device, priority=priority)  # type: ignore[no-untyped-call]  # torch has no types here
