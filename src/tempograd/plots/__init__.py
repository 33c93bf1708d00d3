"""Static pictures. Each is a small record of plain numbers, and a drawing of it.

For every picture there are three functions: ``series`` computes and draws, ``series_record`` only computes,
``draw_series`` only draws. matplotlib is needed once something is drawn, and not before.

======================  =========================================================================
``series``              one series with its signed attribution, channel by channel
``heatmap``             many channels at once, input and attribution side by side, for some series
``compare``             several methods on the same series
``horizon``             a forecast: which past values pushed which of its steps
``channel_importance``  which channels drive the predictions of a class, over many series
``blocks``              which channels, at which times, over a group of series
``dependence``          whether high values of a channel push up or down
``group_difference``    what differs between two groups of series
``removal``             how the prediction moves as cells are removed (CPD and CPP as curves)
``convergence``         how sure the scores are: their estimated error as samples were added
``cost``                faithfulness against cost, methods as dots
``tuning``              settings of a method as differences to the default
``methods``             methods as dots with intervals, against TIMING
``ranking``             explainers as differences to the best of them
``baselines``           how much a map depends on what it compares with
======================  =========================================================================
"""

from tempograd.plots.baseline_comparison import BaselinesRecord, baselines, baselines_record, draw_baselines
from tempograd.plots.block_map import BlocksRecord, blocks, blocks_record, draw_blocks
from tempograd.plots.channels import (
    ChannelImportanceRecord,
    channel_importance,
    channel_importance_record,
    draw_channel_importance,
)
from tempograd.plots.choices import (
    ChoiceRecord,
    draw_ranking,
    draw_tuning,
    ranking,
    ranking_record,
    tuning,
    tuning_record,
)
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
from tempograd.plots.forecast import HorizonRecord, draw_horizon, horizon, horizon_record
from tempograd.plots.maps import (
    CompareRecord,
    HeatmapRecord,
    compare,
    compare_record,
    draw_compare,
    draw_heatmap,
    heatmap,
    heatmap_record,
)
from tempograd.plots.one_series import SeriesRecord, draw_series, series, series_record
from tempograd.plots.scored_methods import MethodsRecord, draw_methods, methods, methods_record
from tempograd.plots.two_groups import (
    GroupDifferenceRecord,
    draw_group_difference,
    group_difference,
    group_difference_record,
)
from tempograd.plots.value_effects import DependenceRecord, dependence, dependence_record, draw_dependence

__all__ = [
    "BaselinesRecord",
    "BlocksRecord",
    "ChannelImportanceRecord",
    "ChoiceRecord",
    "CompareRecord",
    "ConvergenceRecord",
    "CostRecord",
    "CostRow",
    "DependenceRecord",
    "GroupDifferenceRecord",
    "HeatmapRecord",
    "HorizonRecord",
    "MethodsRecord",
    "RemovalRecord",
    "SeriesRecord",
    "baselines",
    "baselines_record",
    "blocks",
    "blocks_record",
    "channel_importance",
    "channel_importance_record",
    "compare",
    "compare_record",
    "convergence",
    "convergence_record",
    "cost",
    "cost_record",
    "dependence",
    "dependence_record",
    "draw_baselines",
    "draw_blocks",
    "draw_channel_importance",
    "draw_compare",
    "draw_convergence",
    "draw_cost",
    "draw_dependence",
    "draw_group_difference",
    "draw_heatmap",
    "draw_horizon",
    "draw_methods",
    "draw_ranking",
    "draw_removal",
    "draw_series",
    "draw_tuning",
    "group_difference",
    "group_difference_record",
    "heatmap",
    "heatmap_record",
    "horizon",
    "horizon_record",
    "methods",
    "methods_record",
    "ranking",
    "ranking_record",
    "removal",
    "removal_record",
    "series",
    "series_record",
    "tuning",
    "tuning_record",
]
