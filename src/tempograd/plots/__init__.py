"""Static pictures. Each is a small record of plain numbers, and a drawing of it.

For every picture there are three functions: ``series`` computes and draws, ``series_record`` only computes,
``draw_series`` only draws. matplotlib is needed once something is drawn, and not before.

=================  ==============================================================================
``series``         one series with its signed attribution, channel by channel
``heatmap``        many channels at once, input and attribution side by side, for some series
``methods``        several methods on the same series
``drivers``        which channels drive the predictions of a class, over many series
``removal``        how the prediction moves as cells are removed (CPD and CPP as curves)
``convergence``    how sure the scores are: their estimated error as points were added
``cost``           faithfulness against cost, methods as points
=================  ==============================================================================
"""

from tempograd.plots.curves import (
    ConvergenceRecord,
    CostRecord,
    CostRow,
    RemovalRecord,
    convergence,
    convergence_record,
    cost,
    cost_record,
    draw_convergence,
    draw_cost,
    draw_removal,
    removal,
    removal_record,
)
from tempograd.plots.drivers import DriversRecord, draw_drivers, drivers, drivers_record
from tempograd.plots.maps import (
    HeatmapRecord,
    MethodsRecord,
    draw_heatmap,
    draw_methods,
    heatmap,
    heatmap_record,
    methods,
    methods_record,
)
from tempograd.plots.series import SeriesRecord, draw_series, series, series_record

__all__ = [
    "ConvergenceRecord",
    "CostRecord",
    "CostRow",
    "DriversRecord",
    "HeatmapRecord",
    "MethodsRecord",
    "RemovalRecord",
    "SeriesRecord",
    "convergence",
    "convergence_record",
    "cost",
    "cost_record",
    "draw_convergence",
    "draw_cost",
    "draw_drivers",
    "draw_heatmap",
    "draw_methods",
    "draw_removal",
    "draw_series",
    "drivers",
    "drivers_record",
    "heatmap",
    "heatmap_record",
    "methods",
    "methods_record",
    "removal",
    "removal_record",
    "series",
    "series_record",
]
