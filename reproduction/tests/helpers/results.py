"""Small plans and records with scores that a reader can add up."""

import torch

from tempograd_paper.runner import Measure, Plan, Record, Row

NAN = float("nan")
CPD = Measure("cpd10", "cpd", 0.1)
ACCURACY = Measure("acc10", "accuracy", 0.1)
AUP = Measure("aup", "aup")
IG, TIMING, RANDOM = Row("integrated_gradients", "IG"), Row("timing", "TIMING"), Row("random", "random")
LIME = Row("lime", "LIME")
GOOD = {"accuracy": 0.9, "majority": 0.5, "auroc": 0.95, "auroc_error": 0.01, "at_chance": False}

# fold means: TIMING 2, 3, 6 (the undefined series is left out), IG 1, 2, 2.5
SCORES = {
    "TIMING": {0: [1.0, 3.0], 1: [2.0, 4.0], 2: [6.0, NAN]},
    "IG": {0: [1.0, 1.0], 1: [3.0, 1.0], 2: [2.0, 3.0]},
}


def toy_plan(**changes) -> Plan:
    settings = {
        "name": "toy",
        "title": "A toy",
        "datasets": ("state",),
        "models": ("gru",),
        "folds": (0, 1, 2),
        "rows": (IG, TIMING),
        "measures": (CPD,),
        "table": "4",
    }
    return Plan(**(settings | changes))


def toy_record(cell, scores, model=GOOD, ids=None, **facts) -> Record:
    """Make a record; scores is a list for the only measure, or a dict of lists by measure."""
    named = scores if isinstance(scores, dict) else {cell.measures[0].name: scores}
    tensors = {name: torch.tensor(values, dtype=torch.float32) for name, values in named.items()}
    size = max(len(values) for values in tensors.values())
    numbers = torch.arange(size) if ids is None else torch.tensor(ids)
    return Record(cell, numbers, tensors, {"model": model} | facts)


def toy_records(plan, scores=SCORES, models=None, **options) -> dict[str, Record]:
    """Make the records that ``scores`` (label → fold → scores) has of a plan of one data set and model."""
    found = {}
    for row in plan.rows:
        for fold, values in scores.get(row.label, {}).items():
            cell = plan.cell(plan.datasets[0], plan.models[0], fold, row)
            found[cell.key] = toy_record(cell, values, (models or {}).get(fold, GOOD), **options)
    return found
