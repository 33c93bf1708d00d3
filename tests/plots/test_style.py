"""The style: no setting of the user's gets in, none of ours gets out, and it can be read without hue."""

import sys

import matplotlib
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text

import tempograd as tg
from tempograd import plots
from tempograd.plots import parts
from tempograd.views import palette
from tests.helpers.explanations import made, waves, with_gaps

STRANGE = {
    "axes.facecolor": "black",
    "lines.linewidth": 9,
    "text.usetex": True,
    "axes.unicode_minus": False,
    "hatch.linewidth": 9,
}


def linear_light(colour):
    part = np.array(to_rgb(colour))
    return np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)


def lightness(colour):
    """Return CIE L*, 0 (black) to 100 (white): what is left of a colour in grey."""
    luminance = float(linear_light(colour) @ [0.2126, 0.7152, 0.0722])
    return 116 * luminance ** (1 / 3) - 16 if luminance > 0.008856 else 903.3 * luminance


def deuteranope(colour):
    """Return what is left of a colour without the cones for green (Machado, Oliveira and Fernandes, 2009)."""
    matrix = [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    return np.clip(np.array(matrix) @ linear_light(colour), 0, 1)


def test_the_users_colours_change_nothing_and_our_settings_stay_inside(tmp_path):
    explanation = waves()
    options = {"metadata": {"Date": None}}
    plots.series(explanation).savefig(tmp_path / "plain.svg", **options)
    with matplotlib.rc_context(STRANGE):
        before = dict(matplotlib.rcParams)
        picture = plots.series(explanation)
        picture.savefig(tmp_path / "strange.svg", **options)
        assert dict(matplotlib.rcParams) == before
    picture.savefig(tmp_path / "mixed.svg", **options)  # made with their settings, saved without
    plain = (tmp_path / "plain.svg").read_bytes()
    assert (tmp_path / "strange.svg").read_bytes() == plain
    assert (tmp_path / "mixed.svg").read_bytes() == plain


def test_fonts_and_sizes_are_the_users():
    with matplotlib.rc_context({"font.family": "serif", "font.size": 11, "axes.titlesize": 20}):
        picture = plots.channel_importance(waves(), width=5)
    sizes = {text.get_text(): text.get_fontsize() for text in picture.findobj(Text)}
    assert sizes["pushes down ← mean attribution → pushes up"] == 20
    assert sizes["channel 0"] == 11
    assert {text.get_fontfamily()[0] for text in picture.findobj(Text)} == {"serif"}
    assert picture.get_figwidth() == 5
    assert picture.get_figheight() > plots.channel_importance(waves(), width=5).get_figheight()


def test_a_pdf_embeds_its_fonts_as_outlines(tmp_path):
    plots.series(waves(), width="column").savefig(tmp_path / "picture.pdf")
    written = (tmp_path / "picture.pdf").read_bytes()
    assert b"/Type3" not in written
    assert b"/FontFile2" in written


PICTURES = {
    "series": lambda **where: plots.series(with_gaps(waves()), **where),
    "compare": lambda **where: plots.compare([waves(), waves()], **where),
    "channel_importance": lambda **where: plots.channel_importance(waves(), **where),
}


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_as_wide_as_a_column_and_nothing_is_cut_off(name):
    picture = PICTURES[name](width="column", title="")
    FigureCanvasAgg(picture).draw()
    box = picture.get_tightbbox()
    assert picture.get_figwidth() == 3.25
    assert -0.05 <= box.x0 < box.x1 <= 3.3
    assert -0.05 <= box.y0 < box.y1 <= picture.get_figheight() + 0.05
    assert picture.get_suptitle() == ""


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_takes_its_place_in_the_users_figure(name):
    figure = Figure(figsize=(10, 6), layout="constrained")
    axes = figure.subplots(1, 2)
    drawn = PICTURES[name](ax=axes[1])
    FigureCanvasAgg(figure).draw()
    assert drawn.figure is figure
    assert drawn.axes
    for inner in drawn.axes:
        assert inner.get_window_extent().x0 > 0.45 * figure.bbox.x1
    assert PICTURES[name](ax=figure.add_subfigure(figure.add_gridspec(1, 1)[0])).figure is figure


def test_widths_and_places_that_are_none_are_refused():
    with pytest.raises(tg.TempogradError):
        plots.series(waves(), width="page")
    with pytest.raises(tg.TempogradError):
        plots.series(waves(), ax=Figure().add_axes((0, 0, 1, 1)))
    with pytest.raises(TypeError, match=r"A picture has no option 'colour'; all take title, width, ax\."):
        plots.series(waves(), colour="red")


def test_a_notebook_shows_the_picture_itself():
    content = plots.series(waves())._repr_png_()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(content[16:20]) == round(7.6 * 110)  # pixels wide
    from IPython.core.formatters import DisplayFormatter

    picture = plots.series(waves())
    assert DisplayFormatter().format(picture)[0]["image/png"] == picture._repr_png_()


def test_without_matplotlib_the_library_works_and_the_error_says_what_to_install(monkeypatch):
    monkeypatch.delitem(sys.modules, "tempograd.plots.picture", raising=False)
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(tg.TempogradError, match=r"needs matplotlib: pip install 'tempograd\[plots\]'"):
        plots.series(waves())


def test_pale_and_full_bars_differ_in_grey():
    for full, pale in palette.PALE.items():
        assert lightness(pale) - lightness(full) > 35


def test_up_and_down_differ_without_cones_for_green():
    up, down = deuteranope(palette.UP), deuteranope(palette.DOWN)
    assert (up > down).tolist() == [True, True, False]  # yellowish against bluish
    assert np.abs(up - down).max() > 0.2


def test_colours_of_maps_darken_steadily_to_both_sides_and_are_white_at_0():
    signed, size = parts.colours(signed=True), parts.colours(signed=False)
    up, down = ([signed(0.5 + sign * x / 200) for x in range(101)] for sign in (1, -1))
    for ramp in (up, down, [size(x / 100) for x in range(101)]):
        grey = [lightness(colour[:3]) for colour in ramp]
        assert grey[0] > 99
        assert grey[-1] < 45
        assert max(np.diff(grey)) <= 0.5  # a table of 256 colours has a rounding step


def test_large_values_of_the_input_are_dark():
    grey = [lightness(parts.colours(signed=None)(share)[:3]) for share in (0.0, 0.5, 1.0)]
    assert grey[0] > grey[1] > grey[2]


def test_the_first_eight_methods_look_different():
    assert len({tuple(parts.method_style(index).values()) for index in range(8)}) == 8


def test_pictures_are_no_part_of_pyplot():
    from matplotlib import pyplot

    plots.series(made([[[1.0]]]))
    assert pyplot.get_fignums() == []
