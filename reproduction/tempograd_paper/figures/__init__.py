"""The figures that only the paper needs: effects that cancel out, and TIMING step by step."""

from tempograd_paper.figures.cancelling import (
    CancelOutRecord,
    cancel_out,
    cancel_out_example,
    cancel_out_record,
    draw_cancel_out,
)
from tempograd_paper.figures.path_steps import (
    TimingStepsRecord,
    draw_timing_steps,
    timing_steps,
    timing_steps_record,
)

__all__ = [
    "CancelOutRecord",
    "TimingStepsRecord",
    "cancel_out",
    "cancel_out_example",
    "cancel_out_record",
    "draw_cancel_out",
    "draw_timing_steps",
    "timing_steps",
    "timing_steps_record",
]
