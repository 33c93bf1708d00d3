"""The picture of ``docs/sampling.md``: how the error of a map falls as passes are added."""

from typing import TYPE_CHECKING, Any

from sampling_names import DATASETS
from tempograd.plots import parts
from tempograd.plots.parts import heading
from tempograd.views import palette

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tempograd.plots.picture import Picture

Row = dict[str, Any]
Figures = dict[str, Any]
WAYS = ("default", "200 points", "40 ms")


def records(run: Figures) -> list[Row]:
    """Return the rows of a file with the names of their columns."""
    return [dict(zip(run["columns"], row, strict=True)) for row in run["rows"]]


def pick(run: Figures, **wanted: Any) -> list[Row]:
    """Return the rows that are as wanted."""
    return [row for row in records(run) if all(row[name] == value for name, value in wanted.items())]


def errors(stopping: Figures) -> "Picture":
    """Draw the error against passes, a panel for each data set, three models and the paper's settings."""
    with parts.drawing(7.2, 4.6) as picture:
        panels = picture.subplots(2, 3, sharex=True, sharey=True)
        for axes, (name, label) in zip(panels.flat, DATASETS.items(), strict=True):
            case = {"dataset": name, "setting": "paper"}
            released = pick(stopping, **case, way="released")  # of the same models, at 50 passes
            _line(axes, _means(released), "independent masks, plain mean (as released)", 0, "^")
            fixed = [row for way in WAYS for row in pick(stopping, **case, way=way)]
            _line(axes, _means(fixed), "the default estimator", 1, "o")
            _line(axes, _means(pick(stopping, **case, way="tolerance 0.1")), "tolerance=0.1", 2, "*")
            axes.set_title(label)
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_yticks([0.01, 0.03, 0.1, 0.3, 1, 3], ["1 %", "3 %", "10 %", "30 %", "100 %", "300 %"])
            axes.set_xticks([50, 500, 5000], ["50", "500", "5,000"])
            axes.minorticks_off()
            axes.grid(color=palette.FAINT, linewidth=0.5)
        for axes in panels[1]:
            axes.set_xlabel("passes of the model")
        for axes in panels[:, 0]:
            axes.set_ylabel("error of the map")
        handles, labels = panels[0, 0].get_legend_handles_labels()
        picture.legend(handles, labels, loc="outside lower center", ncols=3)
        heading(picture, "The default starts lower, and more passes help")
        return picture


def _means(rows: list[Row]) -> list[tuple[float, float]]:
    """Return mean passes and mean error over the models, in the order of the passes."""
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["way"], []).append(row)
    return sorted(
        (sum(row["passes"] for row in group) / len(group), sum(row["error"] for row in group) / len(group))
        for group in groups.values()
    )


def _line(axes: "Axes", places: list[tuple[float, float]], label: str, colour: int, mark: str) -> None:
    axes.plot(
        *zip(*places, strict=True),
        color=palette.METHODS[colour],
        marker=mark,
        markersize=9 if mark == "*" else 4,
        linestyle="none" if mark == "*" else "-",
        linewidth=1,
        label=label,
    )
