"""Pages on what was measured hold the tables of the kept results."""

import pytest

import sampling_page
import speed_page
import tuning_page


@pytest.mark.slow
@pytest.mark.parametrize("source", [speed_page, sampling_page, tuning_page], ids=lambda module: module.__name__)
def test_the_tables_of_a_page_are_those_of_its_results(source):
    page = source.PAGE.read_text(encoding="utf-8")
    assert speed_page.written(page, blocks=source.BLOCKS) == page
