"""The paper's figures against stored pictures, as in tests/plots/test_pictures.py.

``make snapshots`` makes those anew that differ: look at them before you commit them.
"""

import pytest

from tempograd_paper import figures
from tests.helpers.pictures import check_picture, quadratic, stored, three_methods

pytestmark = pytest.mark.exact_draws
STORED = stored(__file__)
DRAWINGS = {
    "cancel_out": figures.cancel_out,
    "timing_steps": lambda: figures.timing_steps(quadratic, three_methods()[0], 2),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_drawing_looks_as_it_did(name, tmp_path, renewing):
    check_picture(DRAWINGS[name](), STORED / f"{name}.png", tmp_path, renewing=renewing)


def test_every_stored_picture_is_compared():
    assert {path.stem for path in STORED.glob("*.png")} == set(DRAWINGS)
