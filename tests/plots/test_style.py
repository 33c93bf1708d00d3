"""The style: no setting of the user's gets in, none of ours gets out, and it can be read without hue."""

import subprocess
import sys

import matplotlib
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb

import tempograd as tg
from tempograd import plots
from tempograd.plots import style
from tempograd.views import palette
from tests.helpers.explanations import made, waves, with_gaps

STRANGE = {
    "font.family": "monospace",
    "axes.facecolor": "black",
    "lines.linewidth": 9,
    "text.usetex": True,
    "savefig.transparent": True,
    "axes.unicode_minus": False,
    "savefig.dpi": 33,
    "svg.fonttype": "none",
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


def test_the_users_settings_change_nothing_and_ours_stay_inside(tmp_path):
    explanation = waves()
    plots.series(explanation).savefig(tmp_path / "plain.svg")
    with matplotlib.rc_context(STRANGE):
        before = dict(matplotlib.rcParams)
        picture = plots.series(explanation)
        picture.savefig(tmp_path / "strange.svg")
        assert dict(matplotlib.rcParams) == before
    picture.savefig(tmp_path / "mixed.svg")  # made with their settings, saved without
    plain = (tmp_path / "plain.svg").read_bytes()
    assert (tmp_path / "strange.svg").read_bytes() == plain
    assert (tmp_path / "mixed.svg").read_bytes() == plain
    assert b"<dc:date>" not in plain


def test_drawing_on_a_canvas_of_ones_own_is_in_our_style_too():
    def pixels(settings):
        canvas = FigureCanvasAgg(plots.series(with_gaps(waves())))
        with matplotlib.rc_context(settings):
            canvas.draw()
        return np.asarray(canvas.buffer_rgba())

    np.testing.assert_array_equal(pixels({}), pixels(STRANGE | {"text.hinting": "none", "hatch.linewidth": 9}))


def test_a_notebook_shows_the_picture_itself():
    content = plots.series(waves())._repr_png_()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(content[16:20]) == round(7.6 * 110)  # pixels wide
    from IPython.core.formatters import DisplayFormatter

    picture = plots.series(waves())
    assert DisplayFormatter().format(picture)[0]["image/png"] == picture._repr_png_()


def test_without_matplotlib_the_library_works_and_the_error_says_what_to_install(monkeypatch):
    code = "import sys, tempograd as tg; tg.plots.series_record; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
    monkeypatch.delitem(sys.modules, "tempograd.plots.picture", raising=False)
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    record = plots.series_record(waves())
    with pytest.raises(tg.TempogradError, match=r"needs matplotlib: pip install 'tempograd\[plots\]'"):
        plots.draw_series(record)
    assert record.scores.values.shape == (30, 3)


def test_pale_and_full_bars_differ_in_grey():
    for full, pale in palette.PALE.items():
        assert lightness(pale) - lightness(full) > 35


def test_up_and_down_differ_without_cones_for_green():
    up, down = deuteranope(palette.UP), deuteranope(palette.DOWN)
    assert (up > down).tolist() == [True, True, False]  # yellowish against bluish
    assert np.abs(up - down).max() > 0.2


def test_colours_of_maps_darken_steadily_to_both_sides_and_are_white_at_0():
    signed, size = style.colours(signed=True), style.colours(signed=False)
    up, down = ([signed(0.5 + sign * x / 200) for x in range(101)] for sign in (1, -1))
    for ramp in (up, down, [size(x / 100) for x in range(101)]):
        grey = [lightness(colour[:3]) for colour in ramp]
        assert grey[0] > 99
        assert grey[-1] < 45
        assert max(np.diff(grey)) <= 0.5  # a table of 256 colours has a rounding step


def test_the_first_eight_methods_have_dashes_of_their_own():
    dashes = [str(style.method_style(index)["linestyle"]) for index in range(8)]
    assert len(set(dashes)) == 8


def test_pictures_are_no_part_of_pyplot():
    from matplotlib import pyplot

    plots.series(made([[[1.0]]]))
    assert pyplot.get_fignums() == []
