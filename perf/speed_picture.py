"""The pictures of ``docs/speed.md``: ratios with their range, and how cost grows. Numbers from ``make bench``."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tempograd.core.formatting import short_number
from tempograd.plots import parts
from tempograd.plots.parts import heading
from tempograd.views import palette

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tempograd.plots.picture import Picture

Figures = dict[str, Any]
SIDES = {  # name, colour, mark: the mark alone tells them apart in grey
    "timing": ("TIMING", palette.METHODS[1], "o"),
    "ig": ("IG", palette.METHODS[2], "s"),
    "captum": ("captum's IG, 32 series a call", palette.METHODS[0], "^"),
    "captum_best": ("captum's IG, its best batch", palette.METHODS[0], "v"),
    "released": ("released structure of TIMING", palette.METHODS[4], "D"),
}
MODELS = {"gru": "GRU-200", "cnn": "CNN", "transformer": "Transformer"}
METHODS = {
    "occlusion": "FO",
    "augmented_occlusion": "AFO",
    "lime": "LIME",
    "fit": "FIT",
    "winit": "WinIT",
    "dynamask": "Dynamask",
    "extremal_mask": "Extrmask",
    "contralsp": "ContraLSP",
    "contralsp, 4 times as many series": "ContraLSP, 4 × the series",
}
AXES = {"series": "series", "steps": "steps of a series", "channels": "channels", "points": "points"}


def setting(row: Figures) -> str:
    """Say what was explained."""
    return f"{MODELS[row['model']]}, {row['series']} series, {row['points']} points"


def ratios(run: Figures) -> "Picture":
    """Draw, row by row, multiples of the bare model, memory, and how much faster than others."""
    faster = {METHODS[name]: row["faster"] for name, row in run["methods"].items()}
    faster |= {
        name.upper() if name != "all" else f"all {row['metrics']} removal metrics": row["faster"]
        for name, row in run["metrics"].items()
    }
    sizes = [len(run["paths"]) * 0.75, len(run["memory"]) * 0.75, len(faster) * 0.4]
    with parts.drawing(7.2, 2.0 + 0.62 * sum(sizes)) as picture:
        top, middle, bottom = picture.subplots(3, 1, height_ratios=sizes)
        _grouped(top, [(setting(row), row["over_bare"]) for row in run["paths"]], tuple(SIDES))
        top.axvline(1, color=palette.INK, linewidth=0.8)
        top.set_title("Time, as a multiple of the bare model's forward and backward passes", pad=36)
        top.legend(loc="lower left", bbox_to_anchor=(-0.02, 0.99), ncols=3, borderaxespad=0)
        memory = [(f"{setting(row)}", row["megabytes"]) for row in run["memory"]]
        _grouped(middle, memory, ("timing", "ig", "captum", "captum_best"))
        middle.set_title("Peak memory, in megabytes")
        for index, (name, figure) in enumerate(faster.items()):
            _range(bottom, figure, index, palette.INK, "o")
            bottom.text(0, index, f"{name} ", transform=bottom.get_yaxis_transform(), ha="right", va="center")
        bottom.set_yticks([])
        bottom.set_ylim(len(faster) - 0.4, -0.6)
        bottom.axvline(1, color=palette.INK, linewidth=0.8)
        bottom.set_title("Times faster than the public procedure (metrics: than a plain loop)")
        for axes in (top, middle, bottom):
            _logarithmic(axes.xaxis)
            axes.grid(axis="x", color=palette.FAINT, linewidth=0.5)
        heading(picture, "Speed and memory on a CPU: medians and ranges")
        return picture


def growth(run: Figures) -> "Picture":
    """Draw multiples of the bare model while one size grows and the others stay."""
    sweeps = run["sweeps"]
    with parts.drawing(7.2, 2.9) as picture:
        panels = picture.subplots(1, len(sweeps), sharey=True)
        for axes, (axis, rows) in zip(panels, sweeps.items(), strict=True):
            for shift, side in enumerate(rows[0]["over_bare"]):
                label, colour, mark = SIDES[side]
                figures = [row["over_bare"][side] for row in rows]
                places = [row[axis] * 1.06 ** (shift - 1) for row in rows]  # beside each other, not on top
                axes.plot(
                    places,
                    [figure["median"] for figure in figures],
                    color=colour,
                    marker=mark,
                    markersize=4,
                    linewidth=1,
                    label=label,
                )
                low, high = ([figure[end] for figure in figures] for end in ("least", "most"))
                axes.vlines(places, low, high, color=colour, linewidth=0.8)
            axes.axhline(1, color=palette.INK, linewidth=0.8)
            axes.set_xscale("log")
            axes.set_xticks([row[axis] for row in rows], [f"{row[axis]}" for row in rows])
            axes.minorticks_off()
            axes.set_xlabel(AXES[axis])
            axes.grid(axis="y", color=palette.FAINT, linewidth=0.5)
        panels[0].set_ylabel("multiple of the bare model's time")
        panels[0].set_ylim(bottom=0)
        handles, labels = panels[0].get_legend_handles_labels()
        picture.legend(handles, labels, loc="outside lower center", ncols=3)
        heading(picture, "Cost as one size grows: a flat line grows as the model does")
        return picture


def _grouped(axes: "Axes", rows: Sequence[tuple[str, Figures]], sides: Iterable[str]) -> None:
    """Draw a group of marks for every row, one below the other."""
    shown = list(sides)
    for index, (name, figures) in enumerate(rows):
        for place, side in enumerate(shown):
            label, colour, mark = SIDES[side]
            height = index + 0.7 * ((place + 0.5) / len(shown) - 0.5)
            _range(axes, figures[side], height, colour, mark, label if index == 0 else None)
        axes.text(0, index, f"{name} ", transform=axes.get_yaxis_transform(), ha="right", va="center")
        if index:
            axes.axhline(index - 0.5, color=palette.FAINT, linewidth=0.5)
    axes.set_yticks([])
    axes.set_ylim(len(rows) - 0.5, -0.5)


def _range(axes: "Axes", figure: Figures, height: float, colour: str, mark: str, label: str | None = None) -> None:
    axes.plot([figure["least"], figure["most"]], [height, height], color=colour, linewidth=1.1)
    axes.plot(figure["median"], height, mark, color=colour, markersize=4.5, label=label)


def _logarithmic(axis: Any) -> None:
    """Use a logarithmic axis with plain numbers, closer ones where it is short."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axis.axes.set_xscale("log")
    low, high = axis.axes.get_xlim()
    steps = (1, 2, 3, 5) if high < 30 * low else (1, 3)
    if high < 6 * low:
        steps = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 7)
    axis.set_major_locator(LogLocator(subs=steps, numticks=20))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: short_number(float(f"{value:.3g}"))))
