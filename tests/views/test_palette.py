"""One meaning has one colour, on the page and in pictures."""

import re
from dataclasses import replace
from importlib.resources import files

import pytest
from matplotlib.colors import to_hex

from tempograd import plots
from tempograd.html_report import report
from tempograd.views import palette
from tests.helpers.explanations import waves, with_gaps
from tests.helpers.report_page import Page

MEANINGS = {"up": palette.UP, "down": palette.DOWN, "missing": palette.MISSING, "truth": palette.TRUTH}


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = report(tmp_path_factory.mktemp("page") / "r.html", None, with_gaps(waves(channels=2)))
    return Page(path).text


@pytest.mark.parametrize("meaning", MEANINGS)
def test_the_page_has_the_colours_of_the_palette(page, meaning):
    assert re.search(rf"--{meaning}: (#[0-9a-f]{{6}});", page)[1] == MEANINGS[meaning]
    assert f"var(--{meaning})" in page  # in the key
    assert f'"{meaning}"' in page  # what the script asks for


def test_pictures_have_them_too():
    explanation = with_gaps(waves(channels=2))
    picture = plots.series(replace(explanation, truth=explanation.x == explanation.x))
    (legend,) = picture.legends
    keys = {text.get_text(): key for text, key in zip(legend.get_texts(), legend.legend_handles, strict=True)}
    assert to_hex(keys["pushes up"].get_facecolor()) == palette.UP
    assert to_hex(keys["pushes down"].get_facecolor()) == palette.DOWN
    assert to_hex(keys["not observed"].get_edgecolor()) == palette.MISSING
    assert to_hex(keys["known to decide the label"].get_color()) == palette.TRUTH


def test_page_and_script_declare_none_of_them_again():
    folder = files("tempograd.html_report")
    texts = [folder / "style.css", folder / "page.html", *(folder / "scripts").iterdir()]
    declared = {colour for text in texts for colour in re.findall(r"#[0-9a-f]{6}\b", text.read_text())}
    assert not declared & set(palette.LIGHT.values())
