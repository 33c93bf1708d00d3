"""Names of files that were written before the tuned protocol came: a change would orphan every kept record."""

from pathlib import Path

import pytest

from tempograd_paper.tables.archive import read_archive

RESULTS = Path(__file__).parents[2] / "results"
KEPT = {
    "table3-1000-published": ("84b0762394bcf397cd69", "bc13f57369d182c97f51", "9b3895fe80e0179a9c4e"),
    "table3-all-1000-fair": ("23e288c6c7f5365749a3", "9f513397bb69e5525284", "1cf6dcf4c1f27aa6fc93"),
    "table4-all-fair": ("a527754f517a5753071d", "f3afd17eaf5b6df6e26a", "f106c634cb3607e53a76"),
}


@pytest.mark.parametrize("folder", KEPT)
def test_records_explanations_and_models_keep_their_names(folder):
    found = read_archive(RESULTS / folder / "records.parquet")
    cell = found[KEPT[folder][0]].cell
    assert (cell.key, cell.explanation_key, cell.model_key) == KEPT[folder]
    assert [record.cell.key for record in found.values()] == list(found)
