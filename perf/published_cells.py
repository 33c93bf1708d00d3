"""Which cell of the released sweep on State and Switch-Feature is best on test CPD.

The paper does not say which (segments, max_length) its two synthetic tables use. The released scripts sweep
them with min_length 1 and score each on the test series, so the settings of ``ReleasedTiming`` are the
best one's. Results: ``perf/results/published_cells.json``.
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

import tempograd as tg
from tempograd_paper.released import released, released_metric, train_as_released

SWEEP = {"switch_feature": [10, 100], "state": [10, 100, 200]}
SEGMENTS = [1, 5, 10]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--folds", type=int, nargs="+", default=range(5))
    parser.add_argument("--series", type=int, default=200)
    parser.add_argument("--budget", type=float, default=1e9, help="stop after this many seconds")
    parser.add_argument("--out", type=Path, default=Path("perf/results/published_cells.json"))
    args = parser.parse_args()
    start, rows = time.monotonic(), []
    metric = released_metric("cpd")
    for fold in args.folds:
        for name, longest in SWEEP.items():
            data = tg.load_dataset(name, fold=fold)
            model = train_as_released("gru", data, seed=42 + fold, device=args.device)
            x = data.test.x[: args.series].to(args.device)
            accuracy = tg.accuracy(model, data.test)
            floor = tg.evaluate(model, tg.explain(model, x, "random"), metrics=[metric])["cpd"].mean().item()
            plain = tg.explain(model, x, released("integrated_gradients", name))
            ig = tg.evaluate(model, plain, metrics=[metric])["cpd"].mean().item()
            for high in longest:
                for segments in SEGMENTS:
                    if time.monotonic() - start > args.budget:
                        return
                    preset = replace(released("timing", name), segments=segments, max_length=high)
                    score = tg.evaluate(model, tg.explain(model, x, preset), metrics=[metric])["cpd"].mean().item()
                    row = {"data": name, "fold": fold, "segments": segments, "max_length": high, "cpd": score}
                    rows.append(row | {"random": floor, "ig": ig, "accuracy": accuracy})
                    print(" ".join(f"{key}={value}" for key, value in rows[-1].items()), flush=True)
                    args.out.parent.mkdir(parents=True, exist_ok=True)
                    args.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
