"""Types that stand in public signatures."""

from collections.abc import Callable

from torch import Tensor

Model = Callable[[Tensor], Tensor]
"""What can be explained: an ``nn.Module`` or a function, from series (batch, time, channel) to outputs."""

Target = Tensor | Callable[[Tensor], Tensor]
"""What is explained: one class per series (or step), or a function that picks a score from the output."""
