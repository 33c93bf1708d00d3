"""Static pictures of what :mod:`tempograd.views` computes. matplotlib is needed once something is drawn.

Every picture is a figure. All take ``title=``, ``width="column" | "text"`` or inches, and ``ax=``, a place in a
figure of yours; fonts and sizes of letters are those of ``matplotlib.rcParams`` where you changed them.

======================  =========================================================================
``series``              one series with its signed attribution, channel by channel
``heatmap``             many channels at once, input and attribution side by side, for some series
``compare``             several methods on the same series
``horizon``             a forecast: which past values pushed which of its steps
``channel_importance``  which channels drive the predictions of a class, over many series
``blocks``              which channels, at which times, over a group of series
``dependence``          which values of a channel push up or down
``group_difference``    what differs between two groups of series
``removal``             how the prediction moves as cells are removed (CPD and CPP as curves)
``tuning``              settings of a method as differences to the default
``methods``             methods as dots with intervals, against TIMING
``ranking``             explainers as differences to the best of them
``baselines``           how much a map depends on what it compares with
======================  =========================================================================
"""

from tempograd.plots.choices import baselines, methods, ranking, removal, tuning
from tempograd.plots.many_series import blocks, channel_importance, dependence, group_difference
from tempograd.plots.one_series import compare, heatmap, horizon, series

__all__ = [
    "baselines",
    "blocks",
    "channel_importance",
    "compare",
    "dependence",
    "group_difference",
    "heatmap",
    "horizon",
    "methods",
    "ranking",
    "removal",
    "series",
    "tuning",
]


def __dir__() -> list[str]:
    return sorted(__all__)
