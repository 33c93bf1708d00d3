"""What the demo has finished so far: explanations, scores, and the files that hold them."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor

    from tempograd.data import Split
    from tempograd.explanation import Explanation
    from tempograd.html_report.predictions import Removal
    from tempograd.models import Classifier

SHOWN = ("timing", "random", "integrated_gradients", "occlusion", "extremal_mask")  # as maps in the report
PICTURES = ("series.png", "removal.png", "cost.png")
GAP = "CPD minus TIMING's, 95 % interval"  # the last column of the table


def claim_folder(folder: Path, *, force: bool) -> None:
    """Make the folder, and make sure that nobody else's files lie where the demo's will."""
    from tempograd._utils.io import EXPLANATION, MODEL, REPORT, Kind, check_output, start, writable

    picture = Kind("picture", lambda path: "Software\0tempograd" in start(path))
    files = {
        "model.safetensors": MODEL,
        "timing.safetensors": EXPLANATION,
        "report.html": REPORT,
        "table.md": Kind("table", lambda path: GAP in start(path).partition("\n")[0]),
    } | dict.fromkeys(PICTURES, picture)
    for name, kind in files.items():
        check_output(writable(folder) / name, kind, force=force)


class Finished(NamedTuple):
    """One method: its explanation, its scores, and the seconds that it took."""

    explanation: "Explanation"
    scores: "dict[str, Tensor]"
    seconds: float


@dataclass
class Results:
    """The methods that are done, each in all files or in none."""

    out: Path
    split: "Split"
    force: bool = False
    model: "Classifier" = field(init=False)
    done: dict[str, Finished] = field(default_factory=dict)
    removals: "dict[str, Removal]" = field(default_factory=dict)

    @property
    def report(self) -> Path:
        return self.out / "report.html"

    def join(self, method: str, finished: Finished) -> None:
        """Add a method and write the files anew; an interruption waits until they are whole."""
        from tempograd._utils.io import write_atomically
        from tempograd._utils.signals import uninterrupted
        from tempograd.html_report import report
        from tempograd.models import save_model

        with uninterrupted():
            if not self.done:
                for name in PICTURES:  # of an earlier run
                    (self.out / name).unlink(missing_ok=True)
                save_model(self.model, self.out / "model.safetensors", force=self.force)
                finished.explanation.save(self.out / f"{method}.safetensors", force=self.force)
            self.done[method] = finished
            report(
                self.report,
                self.model,
                self.shown,
                self.split,
                scores=self.padded_scores,
                removals=self.removals,
                force=self.force,
            )
            text = self.table
            write_atomically(self.out / "table.md", lambda path: path.write_text(text + "\n", encoding="utf-8"))

    @property
    def shown(self) -> "dict[str, Explanation]":
        """Return the explanations that are drawn as maps."""
        return {method: finished.explanation for method, finished in self.done.items() if method in SHOWN}

    @property
    def padded_scores(self) -> "dict[str, dict[str, Tensor]]":
        """Return one score for each series: NaN, not defined, where a method explained fewer of them."""
        from torch.nn.functional import pad

        missing = {m: len(self.split) - len(finished.explanation.values) for m, finished in self.done.items()}
        return {
            m: {name: pad(found, (0, missing[m]), value=float("nan")) for name, found in finished.scores.items()}
            for m, finished in self.done.items()
        }

    @property
    def table(self) -> str:
        """Return the scores with, in the last column, the paired difference to TIMING in CPD."""
        from tempograd._utils.formatting import table
        from tempograd.cli.scores import score_rows
        from tempograd.metrics import compare

        scores = self.padded_scores
        head, *rows = score_rows(scores)
        head[1:1], head[len(head) :] = ["series"], [GAP]
        for row in rows:
            method = row[0]
            row.insert(1, str(len(self.done[method].explanation.values)))
            gap = compare(scores[method]["cpd"], scores["timing"]["cpd"])
            interval = f"{gap.mean:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}]".replace("-", "−")
            row.append("" if method == "timing" else interval)
        return table([head, *rows])

    def draw(self) -> None:
        """Write pictures for those who would rather look."""
        from tempograd import plots
        from tempograd.metrics import summarise

        rows = []
        for method, finished in self.done.items():
            cpd, each = summarise(finished.scores["cpd"]), finished.seconds / len(finished.explanation.values)
            rows.append((method, each, cpd.mean, cpd.standard_error))
        timing, split = self.done["timing"].explanation, self.split
        pictures = (
            plots.series(timing, 0, model=self.model, y=split.y, truth=split.truth),
            plots.removal(self.model, self.shown),
            plots.cost(rows),
        )
        for name, picture in zip(PICTURES, pictures, strict=True):
            picture.savefig(self.out / name, dpi=160, metadata={"Software": "tempograd"})  # see claim_folder

    def left_by_interruption(self, wanted: list[str]) -> str:
        """Say in one line what is there and what is missing."""
        if not self.done:
            return f"before the first method was done: {self.out} has nothing of this run."
        missing = [method for method in wanted if method not in self.done] or ["some of the pictures"]
        return (
            f"{self.report} and table.md beside it are whole with {', '.join(self.done)}; "
            f"missing: {', '.join(missing)}."
        )
