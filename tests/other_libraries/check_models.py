"""Explain models of other libraries in at most three lines each, and check every one by plain forwards.

``make models`` runs this in an environment for each group of libraries (they cannot all be installed together),
keeps what was found in ``tests/other_libraries/results`` and writes it into ``docs/models.md``.

A method whose scores sum to the change of the score is checked by that sum, one without gradients by a loop
over cells. Both run the model of the other library by itself. An explanation is *right* when the two agree to 1 %,
*told* when they do not and the check of gradients has said so for each series, *stated* when only the share that
is missing stands in the verdict, and *wrong* otherwise. The exit status is 0 unless one is wrong:
*stated* ones are neither hidden nor right, and the page counts them apart.
"""

import argparse
import importlib
import json
import platform
import re
import sys
import warnings
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import tempograd as tg
from tests.other_libraries.catalogue.cases import CASES, Built, Case

GROUPS = ("huggingface", "forecasters", "lightning", "tsai", "estimators")
RESULTS = Path(__file__).with_name("results")
MOST = 1e-2  # of the change of the score
Result = dict[str, Any]


def leaves(inputs: Any) -> list[Tensor]:
    """Return the tensors of one or several inputs."""
    return list(inputs.values()) if isinstance(inputs, dict) else [inputs]


def like(inputs: Any, tensors: Iterable[Tensor]) -> Any:
    """Return tensors as the inputs are."""
    tensors = list(tensors)
    return dict(zip(inputs, tensors, strict=True)) if isinstance(inputs, dict) else tensors[0]


def baseline_of(built: Built) -> Any:
    """Return the series that the path starts at."""
    zeros = like(built.inputs, (torch.zeros_like(each) for each in leaves(built.inputs)))
    return zeros if built.baseline is None else built.baseline


@torch.no_grad()
def sum_gap(built: Built, explanation: tg.Explanation) -> tuple[Tensor, Tensor]:
    """Return by how much the sum of the scores misses the change of the score, and that change."""
    change = built.score(built.inputs) - built.score(baseline_of(built))
    return (explanation.values.flatten(1).sum(1) - change).abs(), change.abs()


@torch.no_grad()
def loop_gap(built: Built, explanation: tg.Explanation) -> tuple[Tensor, Tensor]:
    """Return by how much the scores miss those of a loop over cells, summed, and the size of those."""
    parts, missed, size = leaves(built.inputs), 0.0, 0.0
    own = explanation.values if len(parts) == 1 else None
    for place, part in enumerate(parts):
        cells = part.clone().flatten(1)
        falls = torch.zeros_like(cells)
        absent = leaves(baseline_of(built))[place].flatten(1)
        for cell in range(cells.shape[1]):
            changed = cells.clone()
            changed[:, cell] = absent[:, cell]
            others = [*parts[:place], changed.view_as(part), *parts[place + 1 :]]
            falls[:, cell] = built.score(built.inputs) - built.score(like(built.inputs, others))
        found = own if own is not None else explanation[list(built.inputs)[place]].values
        if found.shape != part.shape:  # the user's series were channels first
            found = found.movedim(1, 2)
        missed = missed + (found.flatten(1) - falls).abs().sum(1)
        size = size + falls.abs().sum(1)
    return missed, size


def judge(case: Case, built: Built, explanation: tg.Explanation) -> Result:
    """Compare an explanation with plain forwards."""
    complete = explanation.facts.complete
    missed, size = (sum_gap if complete else loop_gap)(built, explanation)
    share, verdict = float(missed.sum() / size.sum()), explanation.verdict()
    result = {"gap": float(f"{share:.2g}"), "method": explanation.method, "verdict": verdict}
    if not share < torch.inf:  # nothing changed, or something was not finite: nothing was tested
        return result | {"gap": None, "outcome": "wrong"}
    if share <= MOST:
        return result | {"outcome": "right, although it was said to fail" if case.flagged else "right"}
    check, off = explanation.gradient_check, ~(missed <= MOST * size)
    if check is not None and bool(check.failed[off].all()) and not verdict.startswith(("complete", "converged")):
        return result | {"outcome": "told"}
    stated = complete and re.search(r"complete to|miss", verdict) and percent(share) in verdict
    return result | {"outcome": "stated" if stated else "wrong"}


def percent(share: float) -> str:
    """Write a share as verdicts do."""
    return f"{100 * share:.2g} %" if share < 0.0995 else f"{100 * share:.0f} %"


def by_default(case: Case, method: str) -> str:
    """Return the lines with the default method, its number of samples too."""
    return re.sub(r", n_steps=\d+", "", case.lines.replace(f'"{method}"', '"timing"'))


def run_lines(case: Case, lines: str) -> tuple[Built, tg.Explanation, list[str]]:
    """Run lines in a world where a user has built the model, and return also what was warned of."""
    built = case.build()
    names = {"tg": tg, "torch": torch, **built.names}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", tg.TempogradWarning)
        exec(lines, names)  # the lines are our own
    said = [str(each.message) for each in caught if issubclass(each.category, tg.TempogradWarning)]
    return built, names["exp"], said


def explain(case: Case) -> Result:
    """Build a model, run the user's lines and judge what they give; also what TIMING says of its own scores."""
    built, found, said = run_lines(case, case.lines)
    result = judge(case, built, found) | {"warnings": said}
    if found.facts.needs_gradient:
        _, timing, _ = run_lines(case, by_default(case, found.method))
        result["timing"] = timing.verdict()
        if case.flagged and result["timing"].startswith("converged"):  # the default method must tell too
            result["outcome"] = "wrong"
    return result


def attempt(case: Case) -> Result:
    """Return what became of a case; an error is one line."""
    facts = {"library": case.library, "version": metadata.version(case.library), "model": case.model}
    facts |= {"lines": case.lines, "flagged": case.flagged}
    try:
        return facts | explain(case)
    except Exception as error:  # the others still run
        return facts | {"outcome": "error", "error": f"{type(error).__name__}: {error}"}


def installed(name: str) -> bool:
    """Tell whether a library is there."""
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def run(group: str, wanted: Callable[[Case], bool]) -> list[Result]:
    """Run the cases of a group, and say what each gave."""
    importlib.import_module(f"tests.other_libraries.catalogue.{group}")
    results = []
    for case in filter(wanted, CASES.values()):
        if not installed(case.library):
            print(f"{case.library} is not installed: {case.model} was not tried")
            continue
        found = attempt(case)
        gap = found["error"] if "error" in found else f"gap {found['gap']}"
        print(f"{case.library:20} {case.model:40} {found['outcome']:6} {gap}", flush=True)
        for line in (*found.get("warnings", ()), found.get("verdict"), found.get("timing")):
            if line:
                print(f"    {line}")
        results.append(found)
    return results


def main(arguments: list[str]) -> int:
    """Run a group; the exit status says whether all were right or told."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("group", choices=GROUPS)
    parser.add_argument("--only", help="models whose names have this in them; nothing is kept then")
    given = parser.parse_args(arguments)
    results = run(given.group, lambda case: (given.only or "").lower() in case.model.lower())
    if given.only is None:
        RESULTS.mkdir(exist_ok=True)
        kept = {"torch": torch.__version__.split("+")[0], "python": platform.python_version(), "models": results}
        path = RESULTS / f"{given.group}.json"
        path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return int(not results or any(found["outcome"] not in {"right", "told", "stated"} for found in results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
