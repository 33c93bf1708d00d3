"""Small files for ``perf/results/`` from what the studies of stopping and of coverage wrote."""

import re
from collections.abc import Sequence
from typing import Any

from sampling_picture import Figures, Row

COLUMNS = (
    *("dataset", "model", "setting", "way", "accuracy", "converged_cpd", "converged_noise"),
    *("error", "error_difference", "error_difference_se"),
    *("overlap", "overlap_difference", "overlap_difference_se", "cpd", "cpd_difference", "cpd_difference_se"),
    *("passes", "most_passes", "seconds", "estimated_error", "median_error", "unseen", "covered"),
)
CELL = re.compile(r" *(.*?): ([\d.]+) err ([\d.]+) n (\d+) *")


def stopping(lines: Sequence[Row], day: str) -> Figures:
    """Pack the lines of ``stopping.py``."""
    return {
        "date": day,
        "hardware": "one NVIDIA H200",
        "series": 100,
        "seeds": "3 for released, plain mean and default, 1 for the others",
        "converged_points": 32768,
        "notes": [
            "'released' are independent masks and a plain mean on the midpoints of the path.",
            "Differences are to 'released', standard errors paired over series.",
            "seconds: per series, all 100 series in one call, one timing each, alone on the device for "
            "'released', 'default', 'tolerance 0.2' and '40 ms'; six data sets shared it for the others.",
            "Of 2026-11-15, with the estimator before: '40 ms' of the transformer with automatic settings on "
            "Boiler, PhysioNet 2012 and Epilepsy and with the paper's on Epilepsy, 'tolerance 0.2' of the second.",
        ],
        "columns": list(COLUMNS),
        "rows": [[_short(line[name]) for name in COLUMNS] for line in lines],
    }


def _short(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, float) else value


def coverage(lines: Sequence[str], day: str) -> Figures:
    """Read ``model | way: covered err error n points | …``, a line for each model."""
    models = {}
    for line in lines:
        name, *cells = line.split("|")
        found = [CELL.fullmatch(cell) for cell in cells]
        models[name.strip()] = {
            match[1]: {"covered": float(match[2]), "error": float(match[3]), "points": int(match[4])}
            for match in found
            if match
        }
    return {"date": day, "seeds": 200, "models": models}
