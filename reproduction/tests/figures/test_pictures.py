"""The paper's figures against stored pictures, as in tests/plots/test_pictures.py.

Make the pictures anew with ``python -m reproduction.tests.figures.test_pictures``, and look at them before you
commit them.
"""

import pytest
from matplotlib.testing.compare import compare_images

from tempograd_paper import figures
from tests.helpers.pictures import DPI, TOLERANCE, quadratic, stored, three_methods

pytestmark = pytest.mark.exact_draws
STORED = stored(__file__)
DRAWINGS = {
    "cancel_out": figures.cancel_out,
    "timing_steps": lambda: figures.timing_steps(quadratic, three_methods()[0], 2),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_drawing_looks_as_it_did(name, tmp_path):
    DRAWINGS[name]().savefig(tmp_path / f"{name}.png", dpi=DPI)
    difference = compare_images(str(STORED / f"{name}.png"), str(tmp_path / f"{name}.png"), TOLERANCE)
    assert difference is None, difference


def test_every_stored_picture_is_compared():
    assert {path.stem for path in STORED.glob("*.png")} == set(DRAWINGS)


if __name__ == "__main__":
    for name, drawing in DRAWINGS.items():
        drawing().savefig(STORED / f"{name}.png", dpi=DPI)
