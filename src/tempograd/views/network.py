"""A small model as steps on numbered cells of one memory, which the page's own script carries out.

The model is run once on a tensor that holds no values but their places in memory. What moves values moves places,
so that views, padding and writing into a part are no steps; what computes is a step, for which the script has an
operation of the same name. What has no such name is taken apart as torch's own compilers do it.
"""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor
from torch._decomp import decomposition_table
from torch.utils._pytree import tree_leaves, tree_map, tree_map_only

from tempograd.engine import frozen
from tempograd.engine.outputs import by_class
from tempograd.explanation import Explanation
from tempograd.metrics.base import Evaluation
from tempograd.typing import Model
from tempograd.views.series import shown_values, to_numpy

WEIGHTS = 1_200_000  # at most: 6 MB of the file
STEPS, CELLS = 20_000, 2**25  # at most: a loop over time, and 128 MB while the page is open

JOINS = {"cat", "stack", "slice_scatter", "select_scatter", "copy"}  # moves whose constants are values
MOVES = "view _unsafe_view permute transpose t expand slice select squeeze unsqueeze split split_with_sizes unbind"
MOVES += " unfold as_strided diagonal flip roll repeat index index_select gather alias detach broadcast_in_dim"
CELLWISE = "abs neg exp expm1 log log1p sqrt rsqrt reciprocal sin cos tanh sigmoid erf relu floor ceil trunc sign"
CELLWISE += " logical_not logical_and logical_or bitwise_not bitwise_and bitwise_or isnan eq ne lt le gt ge where"
CELLWISE += " add sub mul div floor_divide remainder fmod pow maximum minimum"
LAYERS = "gru lstm rnn_tanh rnn_relu gru_cell lstm_cell rnn_tanh_cell rnn_relu_cell"
OTHERS = LAYERS + " clone _to_copy convert_element_type sum mean prod amax amin max min var cumsum mm bmm addmm"
OTHERS += " convolution avg_pool1d avg_pool2d max_pool1d_with_indices max_pool2d_with_indices adaptive_max_pool2d"


class Cells(Tensor):
    """A tensor of which only the places of its values are known."""

    program: "Program"
    places: Tensor

    def __new__(cls, program: "Program", places: Tensor, dtype: torch.dtype) -> Self:
        layout: Any = {"strides": places.stride(), "storage_offset": places.storage_offset(), "dtype": dtype}
        cells: Self = Tensor._make_wrapper_subclass(cls, places.shape, device=program.device, **layout)
        cells.program, cells.places = program, places
        return cells

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.__name__ in LAYERS.split():  # before torch takes them apart
            return cls.__torch_dispatch__(func, types, args, kwargs)
        with torch._C.DisableTorchFunctionSubclass():  # which would make cells of all that comes out
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any, kwargs: Any) -> Any:  # type: ignore[override]
        program = next(part.program for part in tree_leaves((args, kwargs)) if isinstance(part, Cells))
        return program.follow(func, *args, **(kwargs or {}))


class Program:
    """The steps so far, and what they read: first weights in memory, then the series, then what steps fill."""

    def __init__(self, x: Tensor) -> None:
        self.device, self.size, self.weights = x.device, WEIGHTS, 0
        self.steps: list[list[Any]] = []
        self.constants: dict[bytes, int] = {}  # where each is
        self.series = self.new(x)

    def new(self, like: Tensor) -> Cells:
        """Return cells at the end of memory."""
        start, self.size = self.size, self.size + like.numel()
        if self.size > CELLS or len(self.steps) > STEPS:
            raise NotImplementedError("it takes too many steps")
        return Cells(self, torch.arange(start, self.size).view(like.shape), like.dtype)

    def places(self, value: Any) -> Tensor:
        """Return where the values of cells are, or of a constant."""
        if isinstance(value, Cells):
            return value.places
        value = torch.as_tensor(value).detach().to("cpu", torch.float32).contiguous()
        start = self.constants.setdefault(value.numpy().tobytes(), self.weights)
        self.weights = max(self.weights, start + value.numel())
        if self.weights > WEIGHTS:
            raise NotImplementedError(f"it has more than {WEIGHTS:,} weights")
        return torch.arange(start, start + value.numel()).view(value.shape)

    def follow(self, func: Any, *args: Any, **kwargs: Any) -> Any:
        """Return what an operation makes of cells."""
        name, _, overload = func.__name__.partition(".")
        if name.endswith("_") and isinstance(args[0], Cells):  # in place
            plain = getattr(getattr(torch.ops.aten, name[:-1]), overload)
            args[0].places.copy_(self.places(self.follow(plain, *args, **kwargs)))
            return args[0]
        if name in JOINS.union(MOVES.split(), ["constant_pad_nd"]):
            return self.move(func, name, args, kwargs)
        if name.startswith("new_") or name in {"zeros_like", "ones_like", "full_like", "empty_like"}:
            new = func(torch.empty(args[0].shape, dtype=args[0].dtype), *args[1:], **kwargs | {"device": "cpu"})
            return Cells(self, self.places(new), new.dtype)
        if name in CELLWISE.split() + OTHERS.split():
            return self.step(func, name, args, kwargs)
        if (found := (decomposition_table.get(func) or func.decompose)(*args, **kwargs)) is NotImplemented:
            raise NotImplementedError(f"it uses {name}")
        return found

    def move(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        """Put cells elsewhere: what is done to values is done to their places."""
        if any(isinstance(part, Cells) and not part.dtype.is_floating_point for part in tree_leaves(args[1:])):
            raise NotImplementedError("it looks values up by others")
        dtype = next(part.dtype for part in tree_leaves(args) if isinstance(part, Cells))
        if name == "constant_pad_nd":
            args = (*args[:2], int(self.places(float((*args, 0)[2]))))
        values = Tensor if name in JOINS else Cells
        args = tree_map_only(Tensor, lambda p: self.places(p) if isinstance(p, values) else p.cpu(), args)
        found = args[0].reshape(args[1]) if "view" in name else func(*args, **kwargs)
        return tree_map(lambda places: Cells(self, places, dtype), found)

    def step(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        """Add a step, and return the cells that it fills."""
        like = func(*tree_map_only(Tensor, lambda part: torch.ones(part.shape, dtype=part.dtype), args), **kwargs)
        filled = tree_map(self.new, like)
        if name in CELLWISE.split():
            spread = torch.broadcast_tensors(*map(self.places, args))  # type: ignore[no-untyped-call]
            args = [Cells(self, places, torch.float32) for places in spread]
        self.steps.append([name, *tree_map(self.operand, [tree_leaves(filled), [*args], kwargs])])
        return filled

    def operand(self, part: Any) -> Any:
        """Return an argument as plain data: cells by their places, what is no number as text."""
        if not isinstance(part, Tensor):
            return part if isinstance(part, (int, float, str, type(None))) else str(part)
        places = self.places(part).numpy()
        first, shape = int(places.flat[0]), places.shape
        strides = [int(places.take(min(1, size - 1), axis).flat[0]) - first for axis, size in enumerate(shape)]
        if np.array_equal(first + np.tensordot(strides, np.indices(shape), 1), places):
            return {"shape": [*shape], "first": first, "strides": strides}
        return {"shape": [*shape], "places": places.astype(np.uint32).ravel()}

    def plan(self, results: list[Any]) -> dict[str, Any]:
        """Return all steps as plain data and arrays."""
        walks = tree_map(self.operand, results)  # which may be constants
        weights = np.frombuffer(b"".join(self.constants), np.float32)
        return {"results": walks, "steps": self.steps, "weights": weights, "start": WEIGHTS, "size": self.size}


def network_plan(model: Model, explanation: Explanation, add: Callable[[Any], Any]) -> dict[str, Any]:
    """Return how the page computes the model's outputs for a series of the explanation, or why it cannot.

    ``add`` keeps an array and returns where the browser finds it.
    """
    ask = Evaluation(model, explanation, explanation.baseline).ask()
    if ask.call.by_row or explanation.mixes_series or explanation.varies:
        return {"reason": "it reads more than one series, or draws random numbers"}
    with frozen(ask.bare), torch.no_grad():
        block, target = ask.block(slice(0, 1)), ask.question.target
        try:
            program = Program(block.x)
            raw = ask.forward(program.series, block.index)
            results = [by_class(raw.flatten(ask.resolved.axis), ask.output)]
            if callable(target) and ask.scored:
                block = block._replace(target=target)
                results.append(ask.score(ask.apply_link(raw), block, 1, program.series))
            plan = program.plan(results)
        except Exception as error:  # whatever a model may do
            return {"reason": str(error).partition("\n")[0]}
    x, explained = to_numpy(ask.x), None if ask.steps is None else to_numpy(ask.steps)
    plan |= {"x": None if np.array_equal(x, to_numpy(shown_values([explanation]))) else x, "explained": explained}
    return dict(tree_map_only(np.ndarray, add, plan))
