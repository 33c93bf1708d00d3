"""Write files of explanations with the code of earlier schemas, and what that code itself reads in them.

Run from the root of the repository, once for each folder of which the table tells the commit::

    git archive COMMIT | tar -x -C TREE
    PYTHONPATH=TREE/src OMP_NUM_THREADS=1 python tests/explanation/write_old_schemas.py FOLDER [CASE …]

===================================  ========  ==========================================================
folder                               commit    why this one, and which cases
===================================  ========  ==========================================================
``tests/explanation/schema_2``       62eaf61c  the last before schema 3; all cases
``tests/explanation/schema_3``       62584704  the last before schema 4; all cases
``tests/explanation/schema_3/early`` c916207c  the last without task, classes, units; named timing tolerance
``tests/explanation/schema_4``       821fafc4  the last when this was run; all cases
``tests/explanation/schema_4/early`` b1147e93  the last without background, prediction and mixes_series; fixed
                                               inputs raw several_targets stamps timing
===================================  ========  ==========================================================

A folder gets one file for each case that the code can make, and ``expected.json`` with the fields of each as
:meth:`Explanation.load` gave them, in the words of that schema; ``test_old_schemas.py`` compares. Later code need
not run this: files that were once written stay as they are.
"""

import json
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

import tempograd as tg
from tempograd.explanation.files import SCHEMA

SAMPLED = ("lime", "augmented_occlusion", "fit", "winit")  # which called samples what others called points
LEARNT = ("fit", "winit")


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


X, OTHERS = numbers(3, 4, 2), numbers(6, 4, 2, seed=1)
MASK = torch.tensor([[[1, 1], [1, 0], [0, 1], [1, 1]], [[1, 0]] * 4, [[1, 1]] * 4], dtype=torch.bool)
AGE = numbers(3, 2, seed=2)


def network(*layers):
    """Return a plain network whose weights are drawn with fixed seeds."""
    model = nn.Sequential(*layers)
    with torch.no_grad():
        for seed, weight in enumerate(model.parameters()):
            weight.copy_(0.5 * numbers(*weight.shape, seed=10 + seed))
    return model.eval()


def flat(columns):
    return network(nn.Flatten(), nn.Linear(8, 4), nn.Tanh(), nn.Linear(4, columns))


THREE, ONE, DOUBLE, STEPS = (
    flat(3),
    flat(1),
    flat(3).double(),
    network(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 3)),
)
FORECAST = network(nn.Flatten(), nn.Linear(8, 6), nn.Unflatten(1, (3, 2)))  # 3 steps of 2 variables


def of_two(vitals, age):
    return THREE(vitals) * age.mean(1, keepdim=True)


def along(x, weight, site, power=1):
    size = torch.tensor([float(len(name)) for name in site])[:, None].to(x)
    return THREE(x * weight.to(x)[..., None]) * size**power


def of_any_length(x):
    return torch.stack([x.mean((1, 2)), x.amax((1, 2)), (x**2).sum((1, 2))], 1)


def with_noise(x):
    return THREE(x + 0.1 * torch.randn_like(x))


def among_others(x):
    return THREE(x - x.mean(0, keepdim=True))


def in_parts(x):
    """Take time first, and return a dict."""
    return {"state": x, "logits": THREE(x.transpose(0, 1))}


def first_and_last(outputs):
    return outputs[:, 0] - outputs[:, -1]


def in_old_words(method, options):
    words = {"n_steps": "points", "max_samples": "max_points", "background": "train"}
    words["n_samples"] = "samples" if method in SAMPLED else "points"
    words["fit_batch_size"] = "batch_size" if method in LEARNT else "batch"
    return {words.get(name, name): value for name, value in options.items()}


def explain(model, x, method="timing", **options):
    if method == "timing":
        options = {"n_samples": 6} | options
    return tg.explain(model, x, method, **(options if SCHEMA > 2 else in_old_words(method, options)))


def task(name):
    """Say what the output is, where that can be said."""
    return {"task": name} if SCHEMA > 3 else {}


NAMES = {
    "channels": ["heart rate", "température"],
    "times": ["8:00", "9:00", "10:30", "12:00"],
    "names": ["ward 3, bed 2", "Zoë", "007"],
    "ids": [7, 3, 2**40],
    "mask": MASK,
}
MORE = {"classes": ["low", "mid", "high"], "units": ["bpm", "°C"]}
RAW = (100 * X.double() + 1).masked_fill(~MASK, torch.nan)
STAMPS = [[f"{8 + row + step}:0{row}" for step in range(4)] for row in range(3)]
INPUTS = {"vitals": X, "age": AGE}
FIXED = {"weight": numbers(3, 4, seed=3), "site": ["a", "bcd", "ef"], "power": 2}
FEW = {"background": OTHERS, "epochs": 2}

CASES = {
    "timing": lambda: explain(THREE, X),
    "tolerance": lambda: explain(THREE, X, tolerance=0.3, max_samples=60, mask=MASK, seed=5),
    "named": lambda: explain(THREE, X, **NAMES),
    "raw": lambda: explain(THREE, X, **NAMES, **MORE, raw=RAW),
    "stamps": lambda: explain(THREE, X, **NAMES | {"times": STAMPS}),
    "average": lambda: explain(THREE, X, baseline="average", target=[2, 0, 1]),
    "without_series": lambda: explain(THREE, X, baseline="average", mask=MASK),
    "own_baseline": lambda: explain(DOUBLE, X.double(), baseline=OTHERS[:3].double()),
    "none": lambda: explain(THREE, X)[:0],
    "one_logit": lambda: explain(ONE, X, **task("classification")),
    "complement": lambda: explain(ONE, X, target=0, **task("classification")),
    "regression": lambda: explain(ONE, X, output="raw", **task("regression")),
    "forecast_in_columns": lambda: explain(THREE, X, output="raw", target=2, **task("forecast")),
    "forecast": lambda: explain(FORECAST, X, task="forecast", target=(1, 0)),
    "multilabel": lambda: explain(THREE, X, task="multilabel", target=2),
    "per_step": lambda: explain(STEPS, X),
    "steps": lambda: explain(STEPS, X, steps=[1, 3], target=1),
    "own_steps": lambda: explain(STEPS, X, "integrated_gradients", steps="own", n_steps=4),
    "picked": lambda: explain(THREE, X, target=first_and_last),
    "picked_in_words": lambda: explain(THREE, X, target=tg.targets.difference("low", "high"), **MORE),
    "several_targets": lambda: explain(THREE, X, targets=[0, 1], mask=MASK),
    "several_kinds": lambda: explain(
        FORECAST, X, task="forecast", targets=[(1, 0), (2, 1), tg.targets.mean(variable=1)]
    ),
    "inputs": lambda: explain(of_two, INPUTS, channels={"vitals": ["hr", "bp"], "age": ["age", "sex"]}),
    "inputs_in_order": lambda: explain(of_two, (X, AGE), baseline=(OTHERS[:3], 0.5)),
    "inputs_and_targets": lambda: explain(of_two, INPUTS, targets=[2, 0], mask={"vitals": MASK}),
    "fixed": lambda: explain(along, X, fixed=FIXED),
    "fixed_in_order": lambda: explain(along, X, fixed=(FIXED["weight"], FIXED["site"])),
    "in_parts": lambda: explain(in_parts, X, pick="logits", model_layout="TBD"),
    "lengths": lambda: explain(of_any_length, [X[0], X[1, :2], X[2, :3]], task="classification"),
    "background": lambda: explain(THREE, X, baseline="background", background=OTHERS),
    "with_noise": lambda: explain(with_noise, X, draws=2),
    "among_others": lambda: explain(among_others, X),
    "unchecked": lambda: explain(THREE, X, gradient_check=False),
    "integrated_gradients": lambda: explain(THREE, X, "integrated_gradients", n_steps=5),
    "rand_ig": lambda: explain(THREE, X, "rand_ig", n_samples=6),
    "gradient_shap": lambda: explain(THREE, X, "gradient_shap", n_samples=6, background=OTHERS),
    "occlusion": lambda: explain(THREE, X, "occlusion"),
    "occlusion_of_background": lambda: explain(
        THREE, X, "occlusion", n_samples=4, baseline="background", background=OTHERS
    ),
    "lime": lambda: explain(THREE, X, "lime", n_samples=20, mask=MASK),
    "augmented_occlusion": lambda: explain(THREE, X, "augmented_occlusion", n_samples=4, background=OTHERS),
    "fit": lambda: explain(STEPS, X, "fit", n_samples=4, fit_batch_size=3, **FEW),
    "winit": lambda: explain(STEPS, X, "winit", window=2, n_samples=2, fit_batch_size=3, **FEW),
    "timex": lambda: explain(THREE, X, "timex", background=OTHERS, epochs=1, fit_batch_size=3),
    "extremal_mask": lambda: explain(THREE, X, "extremal_mask", epochs=3, fit_batch_size=2),
    "dynamask": lambda: explain(THREE, X, "dynamask", areas=(0.25, 0.5), epochs=3),
}
SINCE = dict.fromkeys(("inputs", "inputs_in_order", "fixed", "fixed_in_order"), 3) | dict.fromkeys(
    (
        *("raw", "stamps", "forecast", "multilabel", "picked_in_words", "several_targets", "several_kinds"),
        *("inputs_and_targets", "in_parts", "lengths", "background", "occlusion_of_background"),
    ),
    4,
)  # the schemas whose code can do it, where that is not all of them
SAVED = {"without_series": {"series": False}}
ASKED = ("targets", "inputs", "n_outputs", "baseline_kind", "labels")  # what is no field, but read from them


def told(value):
    """Return any part of an explanation as JSON holds it; every number is read back as it was."""
    if isinstance(value, torch.Tensor):
        flat, dtype = value.reshape(-1), str(value.dtype).removeprefix("torch.")
        whole = not value.is_floating_point()
        listed = flat.long().tolist() if whole else [float(str(each)) for each in flat.numpy()]  # shortest
        assert np.array_equal(np.array(listed, dtype=dtype), flat.numpy(), equal_nan=not whole)
        return {"dtype": dtype, "shape": list(value.shape), "numbers": listed}
    if is_dataclass(value):
        return {each.name: told(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {name: told(part) for name, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [told(part) for part in value]
    return value


def loaded(found):
    """Return the fields of an explanation that was loaded, and of what it says of each of several inputs."""
    parts = {each.name: getattr(found, each.name) for each in fields(found)}
    if "call" in parts:
        call = parts.pop("call")
        parts |= {"call": call.plain, "fixed": call.tensors} if hasattr(call, "plain") else {}
    if "picker" in parts:
        parts["picker"] = None if found.picker is None else found.picker.spec()
    parts["siblings"] = [loaded(each) for each in parts.get("siblings", ())]
    parts |= {name: getattr(found, name) for name in ASKED if hasattr(found, name)}
    parts["parts"] = {name: found[name] for name in getattr(found, "inputs", ())}
    return told(parts)


def main(folder, *names):
    """Write the files of these cases, or of all that the code can make, and one line for each field of each."""
    warnings.simplefilter("ignore")
    folder = Path(folder)
    folder.mkdir(exist_ok=True)
    blocks = []
    for name in sorted(names or (name for name in CASES if SINCE.get(name, 0) <= SCHEMA)):
        path = CASES[name]().save(folder / f"{name}.safetensors", **SAVED.get(name, {}))
        content = loaded(tg.Explanation.load(path))
        lines = ",\n".join(f"  {json.dumps(field)}: {json.dumps(content[field])}" for field in sorted(content))
        blocks.append(f" {json.dumps(name)}: {{\n{lines}\n }}")
    (folder / "expected.json").write_text("{\n" + ",\n".join(blocks) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
