"""LIME: a sparse linear model of the prediction, fitted to series with random cells taken out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from tempograd.core import validation
from tempograd.core.errors import warn
from tempograd.core.estimate import Estimate
from tempograd.core.rng import Stream, bits, fold_in, keys
from tempograd.engine import Ask, Batching, Block, slices
from tempograd.engine.ask import Starts, all_scores, with_targets
from tempograd.explainers.base import EXPLAINERS, Explainer
from tempograd.typing import LimeDistance, Setting

# Many weighted Lasso problems at once, solved to the end.
#
# For weights :math:`p_i` that sum to 1, samples :math:`z_i` and scores :math:`y_i` each problem is
#
# .. math:: \min_{b, \beta} \; \tfrac12 \sum_i p_i (y_i - b - z_i^\top \beta)^2 + \alpha \lVert \beta \rVert_1 .
#
# The intercept leaves when both sides are centred at their weighted means. Few samples: the path of solutions
# from the largest useful :math:`\alpha` downwards is piecewise linear and is followed from corner to corner, which
# is exact. Many samples: accelerated proximal gradients, with the cells × cells matrix where it is the smaller
# one. Both end with the optimality conditions, so that neither has to be believed.

FEW = 128  # samples up to which following the path is cheaper than iterating
TIGHT = 1e-11  # violation of the optimality conditions, as a share of the largest covariance
PATIENCE = 20_000  # iterations
CORNERS = 20  # per sample; only where many cells are tied there are so many
GOLDEN = 0.6180339887498949
CHECK = 10  # iterations between two looks at the optimality conditions


class LassoProblem(NamedTuple):
    """Problems in standard form: columns centred and scaled by the roots of the weights."""

    columns: Tensor  # (series, cells, samples)
    scores: Tensor  # (series, samples, problems)
    covariance: Tensor  # (series, cells, problems)
    alpha: Tensor  # (series, 1, problems)
    square: Tensor | None  # (series, cells, cells), where that is smaller than the columns

    def slope(self, beta: Tensor) -> Tensor:
        """Covariance of the columns with what ``beta`` leaves over."""
        if self.square is not None:
            return self.covariance - self.square @ beta
        return self.columns @ (self.scores - self.columns.mT @ beta)

    def of(self, rows: Tensor) -> "LassoProblem":
        """Return some of the problems."""
        return LassoProblem(*(None if part is None else part[rows] for part in self))  # type: ignore[arg-type]


class LassoFit(NamedTuple):
    """What was found, (series, cells, problems) each, in float64."""

    beta: Tensor
    error: Tensor  # standard errors of the coefficients
    freedom: Tensor  # degrees of freedom of these


def lasso(z: Tensor, y: Tensor, weight: Tensor, alpha: float, *, relative: bool) -> LassoFit:
    """Solve, and tell how far the coefficients are from those of infinitely many samples.

    All problems share the samples ``z``, (series, samples, cells); ``y``, (series, samples, problems), holds
    their scores. Only ratios of the weights, (series, samples), matter. With ``relative`` the penalty ``alpha``,
    above 0, is a share of the smallest one at which all coefficients are 0.

    Examples
    --------
    >>> z = torch.tensor([[[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]])
    >>> y = 3 * z[..., :1] - z[..., 1:]
    >>> lasso(z, y, torch.ones(1, 4), 0.1, relative=False).beta[0, :, 0]
    tensor([ 2.6000, -0.6000], dtype=torch.float64)
    """
    z, y = z.double(), y.double()
    y = y - y[:, :1]  # a constant score stays exactly 0
    p = (weight.double() / weight.double().sum(1, keepdim=True))[..., None]
    root = p.sqrt()
    columns = ((z - (p * z).sum(1, keepdim=True)) * root).mT.contiguous()
    scores = (y - (p * y).sum(1, keepdim=True)) * root
    covariance = columns @ scores
    largest = covariance.abs().amax(1, keepdim=True)
    samples, cells = z.shape[1:]
    level = alpha * (largest if relative else torch.ones_like(largest))
    fit = LassoProblem(columns, scores, covariance, level, columns @ columns.mT if cells < samples else None)
    beta = _corners(fit) if samples <= min(FEW, cells) else torch.zeros_like(covariance)
    tolerance = TIGHT * largest
    left = (violation(fit, beta) > tolerance).flatten(1).any(1)
    if bool(left.any()):
        beta[left] = _descend(fit.of(left), beta[left], tolerance[left])
    parts = p
    if relative:  # those that the samples have in the largest covariance, (series, samples, problems)
        where = covariance.abs().argmax(1, keepdim=True)
        column = columns.gather(1, where.mT.expand(-1, -1, samples))
        parts = column.mT * scores * covariance.gather(1, where).sign()
    return LassoFit(beta, *_errors(fit, beta, p, alpha * parts))


# The error of a coefficient: how far it is from that of infinitely many masks
#
# A coefficient :math:`\beta_j` that is not 0 solves :math:`\sum_i p_i z_{ij} r_i = \lambda s_j`, with centred
# columns :math:`z`, residuals :math:`r` and the sign :math:`s_j`; a relative penalty is such a sum itself,
# :math:`\lambda = \sum_i \lambda_i`. With another draw of the masks the parts of both sums move, and the
# coefficients with them: the sandwich of White (1980), which does not ask that the prediction is linear,
#
# .. math:: e_j^2 = \sum_i \big( G^{-1} (p_i z_i r_i - s \lambda_i) \big)_j^2, \qquad G = \sum_i p_i z_i z_i^\top,
#
# over the active cells. Residuals are too small by the leverage of their sample, a factor :math:`\sqrt{1 - h_i}`
# (HC2 of MacKinnon and White, 1985). Here the samples are not found but drawn, one cell independent of the other,
# so :math:`G` need not be inverted: its expectation is diagonal, and where :math:`k` coefficients, one of them the
# intercept, are fitted to random samples,
#
# .. math:: h_i = \frac{p_i \tau}{1 + p_i \tau}, \qquad \sum_i h_i = k, \qquad
#     (G^{-1})_{jj} \approx \frac{c}{G_{jj}}, \qquad c = \frac{\tau}{k},
#
# which is :math:`h = k / n` and :math:`c = 1 / (1 - k / n)` for :math:`n` equal weights (El Karoui et al., 2013).
# What becomes of the single :math:`G^{-1} z_i` follows from :math:`\sum_i p_i (G^{-1} z_i)_j^2 = (G^{-1})_{jj}`.
# All this costs a few products with the masks for any number of problems, and needs no more masks than cells.

LEVERAGE_STEPS = 30  # of Newton's method, which begins at the solution for equal weights
LIKELY = 2  # standard errors that a cell may be off
SPARE = 2  # samples beyond the coefficients, without which residuals tell nothing


def _errors(fit: LassoProblem, beta: Tensor, p: Tensor, penalty: Tensor) -> tuple[Tensor, Tensor]:
    """Return the standard errors of the coefficients and their degrees of freedom.

    ``p``, (series, samples, 1), are the weights; ``penalty``, (series, samples, problems or 1), the parts of the
    penalty that the samples have.
    """
    slope, active = fit.slope(beta), beta != 0
    count = (p > 0).sum(1, keepdim=True)
    fitted = torch.minimum(active.sum(1, keepdim=True) + 1, count - 0.5)
    leverage, inflation = _leverage(p, fitted, count)
    spread = inflation * (p * (1 - leverage) ** 2).sum(1, keepdim=True)
    residual = (fit.scores - fit.columns.mT @ beta) * ((1 - leverage) / spread).sqrt()
    sign = torch.where(active, beta, slope).sign()  # a cell that is 0 would enter with that of its slope
    square = (
        fit.columns.square() @ residual.square()
        - 2 * sign * (fit.columns @ (residual * penalty))
        + penalty.square().sum(1, keepdim=True)
    )
    scale = inflation / fit.columns.square().sum(2)[..., None]
    error = scale * square.clamp(min=0).sqrt()
    idle = scale * (fit.alpha - slope.abs()).clamp(min=0)  # of a move from 0, the penalty swallows as much
    error = torch.where(active, error, (error - idle / LIKELY).clamp(min=0))
    error = torch.where(error.isfinite() & (count - fitted >= SPARE), error, torch.inf)
    # A sum of squares is known as well as the squares are alike, 2 / (sum r^4 / (sum r^2)^2 - 1 / n), which is n
    # for normal residuals, and less where few samples carry them. The fit takes its share.
    equal, total = p.square().sum(1, keepdim=True), residual.square().sum(1, keepdim=True)
    uneven = residual.pow(4).sum(1, keepdim=True) / total.square() - equal
    return error, ((1 - fitted / count) * torch.fmin(2 / uneven.clamp(min=0), 1 / equal)).expand_as(beta)


def _leverage(p: Tensor, fitted: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
    """Return the leverage of each sample, (series, samples, problems), and by how much it inflates errors.

    The sum of leverages is concave in what is sought, so that the steps come from below and need no guard.
    """
    tau = fitted / (1 - fitted / count)
    for _ in range(LEVERAGE_STEPS):
        rest = 1 / (1 + p * tau)
        tau = tau + (fitted - (p * tau * rest).sum(1, keepdim=True)) / (p * rest**2).sum(1, keepdim=True)
    return p * tau / (1 + p * tau), tau / fitted


def violation(fit: LassoProblem, beta: Tensor) -> Tensor:
    """Return how far each problem is from its optimum, (series, 1, problems)."""
    slope = fit.slope(beta)
    off = torch.where(beta == 0, (slope.abs() - fit.alpha).clamp(min=0), (slope - fit.alpha * beta.sign()).abs())
    return off.amax(1, keepdim=True)


def _descend(fit: LassoProblem, beta: Tensor, tolerance: Tensor) -> Tensor:
    """Accelerated proximal gradients; the momentum starts anew where it points uphill."""
    order = torch.arange(1, fit.columns.shape[1] + 1, dtype=torch.float64, device=fit.columns.device)
    vector = ((order * GOLDEN).frac() - 0.5).expand(len(fit.columns), -1)[..., None]  # in no special direction
    for _ in range(40):  # power iterations bound the largest eigenvalue of the cells × cells matrix
        vector = fit.columns @ (fit.columns.mT @ vector)
        length = vector.norm(dim=1, keepdim=True).clamp(min=torch.finfo(torch.float64).tiny)
        vector = vector / length
    size = 1 / (1.1 * length)
    point, age = beta, torch.ones_like(fit.alpha)
    for count in range(1, PATIENCE + 1):
        target = point + size * fit.slope(point)
        moved = target.sign() * (target.abs() - size * fit.alpha).clamp(min=0)
        uphill = ((point - moved) * (moved - beta)).sum(1, keepdim=True) > 0
        older = torch.where(uphill, 1.0, (1 + (1 + 4 * age**2).sqrt()) / 2)
        point = moved + torch.where(uphill, 0.0, (age - 1) / older) * (moved - beta)
        beta, age = moved, older
        if count % CHECK == 0 and bool((violation(fit, beta) <= tolerance).all()):
            return beta
    warn("lime.stopped", iterations=PATIENCE)
    return beta


class LassoPath(NamedTuple):
    """Where the path of each problem stands; slots hold the active cells. Shapes are (series, problems, …)."""

    level: Tensor  # the penalty reached so far
    covariance: Tensor  # (…, cells)
    cell: Tensor  # (…, slots), the cell in each slot
    sign: Tensor  # (…, slots), 0 for an empty slot
    beta: Tensor  # (…, slots)
    column: Tensor  # (…, slots, samples)
    active: Tensor  # (…, cells)


def _corners(fit: LassoProblem) -> Tensor:
    """Follow the solutions from all zero down to ``alpha``; between two corners the active cells stay the same."""
    covariance, alpha = fit.covariance.mT, fit.alpha[:, 0]
    slots = min(fit.columns.shape[1:])
    empty = covariance.new_zeros(*alpha.shape, slots)
    level, entering = covariance.abs().max(-1)
    column = empty[..., None].expand(*empty.shape, fit.columns.shape[2])
    active = torch.zeros_like(covariance, dtype=torch.bool)
    path = LassoPath(level, covariance, empty.long(), empty, empty, column, active)
    joins = level > alpha
    for count in range(CORNERS * slots):
        if count % CHECK == 0 and not bool((path.level > alpha).any()):
            break
        path, joins, entering = _next_corner(_join(path, fit, joins, entering), fit, alpha)  # or stay
    return torch.zeros_like(covariance).scatter_add_(-1, path.cell, path.beta).mT


def _join(path: LassoPath, fit: LassoProblem, joins: Tensor, entering: Tensor) -> LassoPath:
    """Put the cells that join into the first empty slots."""
    cell = entering[..., None]
    first = torch.where(joins, (path.sign == 0).int().argmax(-1), -1)[..., None]
    here = torch.arange(path.sign.shape[-1], device=cell.device) == first
    series = torch.arange(len(cell), device=cell.device)[:, None, None]
    return path._replace(
        cell=torch.where(here, cell, path.cell),
        sign=torch.where(here, path.covariance.gather(-1, cell).sign(), path.sign),
        column=torch.where(here[..., None], fit.columns[series, cell], path.column),
        active=path.active.scatter(-1, cell, path.active.gather(-1, cell) | joins[..., None]),
    )


def _next_corner(path: LassoPath, fit: LassoProblem, alpha: Tensor) -> tuple[LassoPath, Tensor, Tensor]:
    """Go on until a cell joins, one leaves, or ``alpha`` is reached."""
    level, covariance, cell, sign, beta, column, active = path
    used = sign != 0
    identity = torch.eye(sign.shape[-1], dtype=sign.dtype, device=sign.device)
    between = torch.where(used[..., None] & used[..., None, :], column @ column.mT, identity)
    speed = torch.linalg.solve_ex(between, sign[..., None])[0][..., 0].nan_to_num(0, 0, 0)
    drift = (speed[..., None, :] @ column)[..., 0, :] @ fit.columns.mT

    wait = torch.full_like(covariance, torch.inf)
    for side in (1, -1):  # a cell joins when its covariance meets the level, from below or from above
        nearing = 1 - side * drift
        until = (level[..., None] - side * covariance).clamp(min=0) / nearing
        wait = torch.where((nearing > 1e-9) & ~active & (until < wait), until, wait)
    join, entering = wait.min(-1)
    leave, gone = torch.where(speed * beta < 0, -beta / speed, torch.inf).min(-1)
    step = torch.minimum(torch.minimum(join, leave), level - alpha).clamp(min=0)

    leaves = (leave <= step) & (level > alpha)
    joins = (join <= step) & ~leaves & (level - step > alpha) & ~used.all(-1)
    out = leaves[..., None] & (torch.arange(sign.shape[-1], device=sign.device) == gone[..., None])
    lost = cell.gather(-1, gone[..., None])
    following = path._replace(
        level=level - step,
        covariance=covariance - step[..., None] * drift,
        sign=torch.where(out, 0, sign),
        beta=torch.where(out, 0, beta + step[..., None] * speed),
        active=active.scatter(-1, lost, active.gather(-1, lost) & ~leaves[..., None]),
    )
    return following, joins, entering


LEAST, MOST = 50, 4096  # samples chosen by default
COPIES = 4  # of the masks, in double precision, while the regressions are solved


@EXPLAINERS.register("lime")
@dataclass(frozen=True)
class Lime(Explainer):
    r"""Local linear model of the prediction.

    Random masks :math:`z_i \in \{0, 1\}^{T \times D}` keep each observed cell with probability one half and put
    the others at the baseline :math:`x'`. The scores are the coefficients of the weighted Lasso

    .. math::

        \min_{b, A} \; \frac{1}{2 \sum_i w_i} \sum_i w_i \big( F_{\hat y}(x' + z_i \odot (x - x'))
            - b - \langle z_i, A \rangle \big)^2 + \lambda \lVert A \rVert_1,
        \qquad w_i = \exp\!\Big( \frac{-\delta_i^2}{2 \sigma^2} \Big),

    where :math:`\delta_i` is a cosine distance from what is explained. Nothing but predictions is needed.

    Parameters
    ----------
    n_samples : int, optional
        Masks per series; each costs one pass of the model. By default twice as many as observed cells, at least
        50 and at most 4096: with fewer masks than cells the coefficients cannot be told apart.
    alpha : float, default=0.01
        Penalty.
    relative : bool, default=True
        Whether :math:`\lambda` is ``alpha`` times the smallest penalty at which all scores are 0, so that the
        scale of the output makes no difference; otherwise :math:`\lambda` is ``alpha``.
    width : float, default=1
        Width :math:`\sigma` of the kernel.
    distance : {"kept", "series"}
        Cosine distance between the mask and the full mask, or between the series with and without the absent
        cells; both over the observed cells.

    Notes
    -----
    With ``baseline="background"`` every mask has a series :math:`x'` of its own, drawn from the background.

    With one output per step and ``steps="own"`` each step has its own regression on all cells, and its own cells'
    coefficients are kept. Masks are drawn per cell, so longer series see the same masks in their first steps.
    The regressions are solved to the end (see ``lasso``); where cells are tied, as with far fewer masks than
    cells, the solution is one of several.

    The standard error of a score says how far it is from that of infinitely many masks with the same penalty and
    kernel. The penalty pulls scores towards 0, which no number of masks mends and the error does not contain.
    The prediction is not linear, so it is a sandwich [2]_, with the leverage of samples that are drawn at random
    [3]_ [4]_: with :math:`n` masks of equal weight, residuals :math:`r`, :math:`k` coefficients (the intercept and
    those that are not 0), and the parts :math:`\lambda_i` that the masks have in :math:`\lambda`,

    .. math:: s_j = \frac{1}{1 - k / n} \; \frac{\sqrt{\sum_i \big( (z_{ij} - \bar z_j) \, r_i / n
        - \lambda_i \operatorname{sign} A_j \big)^2}}{\tfrac1n \sum_i (z_{ij} - \bar z_j)^2}.

    A score of 0 has an error as far as the penalty does not hold it there. Errors are infinite where fewer than
    two masks are left beyond the coefficients, and too small with four cells or fewer and a narrow kernel.

    References
    ----------
    .. [1] M. T. Ribeiro, S. Singh and C. Guestrin, "Why should I trust you? Explaining the predictions of any
       classifier", KDD 2016. https://arxiv.org/abs/1602.04938
    .. [2] H. White, "A Heteroskedasticity-Consistent Covariance Matrix Estimator and a Direct Test for
       Heteroskedasticity", Econometrica 48, 1980.
    .. [3] J. G. MacKinnon and H. White, "Some Heteroskedasticity-Consistent Covariance Matrix Estimators with
       Improved Finite Sample Properties", Journal of Econometrics 29, 1985.
    .. [4] N. El Karoui, D. Bean, P. J. Bickel, C. Lim and B. Yu, "On robust regression with high-dimensional
       predictors", PNAS 110, 2013.

    Examples
    --------
    >>> weigh = lambda x: (x * torch.tensor([[1.0, 2.0], [0.0, -1.0]])).sum((1, 2))
    >>> x = torch.tensor([[[3.0, 1.0], [5.0, 4.0]]])
    >>> Lime(alpha=1e-6)(weigh, x, output="raw").values.round(decimals=3) + 0
    tensor([[[ 3.,  2.],
             [ 0., -4.]]])
    """

    needs_gradient: ClassVar[bool] = False
    takes_inputs: ClassVar[bool] = True
    takes_background: ClassVar[bool] = True

    n_samples: int | None = validation.integer(None, least=2)
    alpha: float = validation.positive(0.01)
    relative: bool = validation.boolean(True)
    width: float = validation.positive(1.0)
    distance: LimeDistance = validation.choice("kept", LimeDistance)

    @classmethod
    def grid(cls, shape: tuple[int, int]) -> list[dict[str, Setting]]:
        """Return penalties and widths of the kernel."""
        return [{"alpha": alpha, "width": width} for alpha in (0.001, 0.01, 0.1) for width in (0.1, 0.25, 1.0)]

    def attribute(self, ask: Ask) -> list[Estimate]:
        samples = (2 * ask.observed_cells).clamp(LEAST, MOST)  # of each series
        samples = samples if self.n_samples is None else torch.full_like(samples, self.n_samples)
        return [self._fitted(ask, samples, each) for each in self._masked_scores(ask.each(), int(samples.max()))]

    def _fitted(self, ask: Ask, samples: Tensor, scores: Tensor) -> Estimate:
        """Return the scores of one target; fitted together, the steps of one would change digits of another."""
        values, error, ess = (torch.zeros(ask.x.shape, device=ask.x.device) for _ in range(3))
        n_evals = samples.to(values.device, torch.int32)

        def work(rows: slice, _: int) -> None:
            block = ask.block(rows)
            keep = self._masks(ask, block, slice(0, scores.shape[1]))
            counted = torch.arange(scores.shape[1]) < samples[rows, None]
            found = self._solve(block, keep, scores[rows], counted.to(block.x.device))
            values[rows] = found.beta.to(values)
            error[rows] = found.error.where(block.observed, 0).to(error)
            ess[rows] = (found.freedom + 1).where(block.observed, 0).to(ess)

        room = Batching(ask.device, COPIES * scores.shape[1] * max(ask.x[0].numel(), scores.shape[2]))
        room.run(len(values), 1, work, f"fit {self.name}")
        draws = n_evals[:, None, None].repeat(1, *values.shape[1:])
        if ask.mask is not None:
            draws = draws.where(ask.mask.to(draws.device), 0)
        return Estimate(values, error, draws, ess, n_evals=n_evals)

    def _masks(self, ask: Ask, block: Block, batch: slice) -> Tensor:
        """Return which cells are kept, (series, samples, time, channel); unobserved ones always are."""
        stream = fold_in(keys(ask.seed, block.ids, Stream.PERTURBATIONS), batch.stop)[:, :, batch]
        cell = torch.arange(block.x[0].numel(), device=block.x.device)
        word = bits(stream[..., None], torch.arange(len(cell) // 32 + 1, device=cell.device))
        kept = ((word[..., cell // 32] >> (cell % 32)) & 1).bool()  # each bit of a word is one cell
        return kept.view(len(block.x), -1, *block.x.shape[1:]) | ~block.observed[:, None]

    def _masked_scores(self, asks: Sequence[Ask], samples: int) -> list[Tensor]:
        """Return the scores of all masked series, (series, samples, problems) for each ask, on the device."""
        ask = asks[0]
        parts: list[list[Tensor]] = []

        def work(rows: slice, size: int) -> None:
            blocks = with_targets(asks, ask.block(rows))
            block, scores = blocks[0], []
            absent = _absent(block, samples)
            for batch in slices(samples, max(1, size // len(block.x))):
                z = torch.where(self._masks(ask, block, batch), block.x[:, None], absent(batch))
                scores.append(self._scores(asks, z, blocks))
            parts.append([torch.cat(each, 1) for each in zip(*scores, strict=True)])
            ask.verify_once()

        ask.batching.run(len(ask.x), samples, work, f"explain with {self.name}")
        return [torch.cat(each) for each in zip(*parts, strict=True)]

    def _scores(self, asks: Sequence[Ask], z: Tensor, blocks: Sequence[Block]) -> list[Tensor]:
        """Return the explained scores of masked series, (series, samples, problems): one, or one per step."""
        scores = [score.double() for score in all_scores(asks, z, blocks)]
        return [score if score.ndim == 3 else score[..., None] for score in scores]

    def _solve(self, block: Block, keep: Tensor, scores: Tensor, counted: Tensor) -> LassoFit:
        """Return the scores of the cells of a block, like its series, and what is known of their errors."""
        parts = (part.reshape(*block.x.shape, -1) for part in self._coefficients(block, keep, scores, counted))
        if scores.shape[2] > 1:  # the effect of each cell on its own step
            return LassoFit(*(part.diagonal(dim1=1, dim2=3).mT for part in parts))
        return LassoFit(*(part[..., 0] for part in parts))

    def _coefficients(self, block: Block, keep: Tensor, scores: Tensor, counted: Tensor) -> LassoFit:
        weight = torch.exp(-(self._distance(block, keep) ** 2) / (2 * self.width**2)) * counted
        return lasso(keep.flatten(2), scores, weight, self.alpha, relative=self.relative)

    def _distance(self, block: Block, keep: Tensor) -> Tensor:
        """Cosine distance of each sample from what is explained, (series, samples)."""
        observed = block.observed.flatten(1).double()
        if self.distance == "kept":
            kept = keep.flatten(2).double() @ observed[..., None]
            return 1 - (kept[..., 0] / observed.sum(1, keepdim=True).clamp(min=1)).sqrt()
        x = block.x.flatten(1).double() * observed
        absent = _absent(block, keep.shape[1])(slice(0, keep.shape[1]))
        z = torch.where(keep, block.x[:, None], absent).flatten(2).double() * observed[:, None]
        return 1 - torch.cosine_similarity(x[:, None], z, dim=2, eps=1e-8)


def _absent(block: Block, samples: int) -> Starts:
    """Return what looks up the values of absent cells in some samples: the baseline, or those of drawn series.

    These are drawn in groups, so that a series has the same ones whatever number of samples its company needs.
    """
    if block.background is None:
        return lambda _: block.baseline[:, None]
    return block.background.starts(block, samples, group=LEAST)
