"""Static pictures of what :mod:`tempograd.views` computes. matplotlib is needed once something is drawn.

Every picture is a figure. All take ``title=``, ``width="column" | "text"`` or inches, and ``ax=``, a place in a
figure of yours; fonts and sizes of letters are those of ``matplotlib.rcParams`` where you changed them.

======================  =========================================================================
``series``              one series with its signed attribution, channel by channel
``compare``             heat maps of a series and of what one or several methods say about it
``horizon``             a forecast: which past values pushed which of its steps
``channel_importance``  which channels drive the predictions of a class, over many series
``removal``             how the prediction moves as cells are removed (CPD and CPP as curves)
======================  =========================================================================
"""

from tempograd.plots.many_series import channel_importance, removal
from tempograd.plots.one_series import compare, horizon, series

__all__ = ["channel_importance", "compare", "horizon", "removal", "series"]
