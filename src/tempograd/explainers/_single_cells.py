"""The one place that replaces single cells: how far predictions fall when one value is another."""

from collections.abc import Callable

import torch
from torch import Tensor

from tempograd.engine import Block, Prefixes, Question, one_logit, pieces, spans, wider
from tempograd.errors import InputError, ModelError

EVEN = 16  # matrix products treat all rows alike when their number is a multiple of this
Replacement = Callable[[Block], Tensor]  # new values, (series, time, channel, draws)
Finish = Callable[[Block, Tensor], None]  # takes the falls, (series, time, channel, draws, outputs)


def replace_cells(
    question: Question,
    draws: int,
    replacement: Replacement,
    finish: Finish,
    *,
    label: str,
    prefixes: bool = False,
    every: bool = False,
) -> None:
    """Replace each observed cell alone, and hand over by how much the prediction falls.

    Parameters
    ----------
    question : Question
    draws : int
        Replacements per cell; each costs one pass of the model.
    replacement : function
        Makes the new values of a block of series.
    finish : function
        Takes what the prediction of the clean series is above that of the changed one; 0 where nothing was
        observed.
    label : str
        Shown with the progress.
    prefixes : bool, default=False
        Whether a cell is judged by the class predicted from the series up to its step (B8), and not by the
        prediction the question is about.
    every : bool, default=False
        Whether all outputs are read, and not only the target.
    """
    question.settled(question.block(slice(0, 1)))  # tells whether there is one output per step
    own = prefixes or isinstance(question.steps, str)
    precision = torch.promote_types(question.dtype, torch.float32)

    def work(rows: slice, size: int) -> None:
        question.verify_once()
        block = question.settled(question.block(rows))
        falls = (_at_own_steps if own else _in_whole_series)(question, block, size, replacement(block), every)
        if not bool(falls.isfinite().all()):
            raise ModelError(
                "The model returned NaN or infinity when one value of a series was replaced: replace by values "
                "within the range of the data."
            )
        finish(block, falls.to(precision))

    cells = question.x.shape[2] if own else _most_observed(question)
    chunks = question.chunks if own else wider(question.chunks, question.model)
    chunks.run(len(question.x), cells * draws + 1, work, label)


def check_training(rows: Tensor, question: Question) -> None:
    """Refuse training series that are not like the explained ones."""
    if rows.shape[-2:] != question.x.shape[1:]:
        raise InputError(
            f"The training series have shape {tuple(rows.shape[-2:])}, x has {tuple(question.x.shape[1:])}: "
            "fit with series of the same length and channels."
        )


def _most_observed(question: Question) -> int:
    if question.mask is None:
        return question.x[0].numel()
    return max(1, int(question.mask.sum((1, 2)).max()))


def _in_whole_series(question: Question, block: Block, size: int, values: Tensor, every: bool) -> Tensor:
    """Run the series once for each observed cell and draw, beside the clean series.

    Clean and changed series go through the model together, in an even number of rows, so that a cell the model
    ignores scores exactly 0 and not the difference of two roundings. Up to the cell they are alike.
    """
    series, draws, width = len(values), values.shape[-1], block.x[0].numel()
    places = block.observed.flatten().nonzero()[:, 0]
    new = values.flatten(0, 2)[places].flatten()
    clean = torch.arange(series, device=places.device)
    even = EVEN if size >= EVEN else 1
    falls = []
    for piece in pieces(len(new), max(1, size - size % even - series)):
        place = places[torch.arange(piece.start, piece.stop, device=places.device) // draws]
        more = place.new_zeros(-(series + len(place)) % even)
        owner = torch.cat([clean, place // width, more])
        z, changed = block.x[owner], slice(series, series + len(place))
        row = torch.arange(len(z), device=z.device)[changed]
        when = place % width // z.shape[2]
        z[row, when, place % z.shape[2]] = new[piece]
        alike = _alike(owner, changed, when, z.shape[1])
        parts = [
            _read(question, z[part], _of(block, owner[part]), alike[part], every) for part in pieces(len(z), size)
        ]
        score = torch.cat(parts)
        falls.append(score[owner[changed]] - score[changed])
    found = torch.cat(falls) if falls else new.new_zeros(0, 1)
    whole = found.new_zeros(block.x.numel(), draws, found.shape[-1])
    whole[places] = found.view(len(places), draws, whole.shape[-1])
    return whole.view(*values.shape, -1)


def _of(block: Block, index: Tensor) -> Block:
    """Give every row the target and steps of its series."""
    target = block.target[index] if isinstance(block.target, Tensor) else block.target
    steps = block.steps[index] if isinstance(block.steps, Tensor) else block.steps
    return block._replace(target=target, steps=steps)


def _alike(owner: Tensor, changed: slice, when: Tensor, time: int) -> Tensor:
    """Return the same number for rows that are alike up to the end of a span, as all are until the change."""
    ends = torch.tensor([span.stop for span in spans(time)], device=owner.device)
    alike = owner[:, None].repeat(1, len(ends))
    own = len(owner) + torch.arange(len(when), device=owner.device)[:, None]
    alike[changed] = torch.where(when[:, None] < ends, own, alike[changed])
    return alike


def _own_target(question: Question, block: Block, prefixes: Prefixes) -> Tensor:
    """Return the class that each step is judged by, (series, time)."""
    target, single = block.target, one_logit(prefixes.columns, question.output)
    if not isinstance(target, Tensor) or not (single or isinstance(block.steps, str)):
        return prefixes.default
    return target if target.ndim == 2 else target[:, None].expand(prefixes.default.shape)


@torch.no_grad()
def _read(question: Question, z: Tensor, block: Block, alike: Tensor, every: bool) -> Tensor:
    """Return the explained score of each row, or all its outputs, (rows, outputs)."""
    answer = question.linked(question.call(z, alike))
    if not every:
        return question.score(answer, block, 1)[:, None]
    if isinstance(block.steps, Tensor):
        answer = (answer * block.steps[..., None]).sum(1)
    return answer.flatten(1)


def _at_own_steps(question: Question, block: Block, size: int, values: Tensor, every: bool) -> Tensor:
    """Read the prediction at each cell's own step, from the series up to it."""
    series, time, channels, draws = values.shape
    prefixes = Prefixes(question, block, size)
    target = _own_target(question, block, prefixes)
    values = torch.where(block.observed[..., None], values, block.x[..., None]).flatten(2)
    channel = torch.arange(channels, device=values.device).repeat_interleave(draws)
    falls = prefixes.outputs.new_zeros(series, time, channels * draws, prefixes.outputs.shape[-1] if every else 1)
    for piece in pieces(channels * draws, max(1, size // series - 1)):
        changed = piece.stop - piece.start
        for starts in prefixes.starts(changed + 1, 1):
            windows = block.x[:, starts, None, None].repeat(1, 1, changed + 1, 1, 1)  # the first stays clean
            new = values[:, starts, piece, None, None]
            windows[:, :, 1:].scatter_(-1, channel[piece, None, None].expand_as(new), new)
            answer = prefixes.replaced(starts, windows)[:, :, :, 0]
            if not every:
                answer = answer.gather(-1, target[:, starts, None, None].expand(*answer.shape[:3], 1))
            falls[:, starts, piece] = answer[:, :, :1] - answer[:, :, 1:]
    falls = falls.view(series, time, channels, draws, -1)
    return falls.where(block.observed[..., None, None], 0)
