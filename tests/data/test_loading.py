"""Data sets by name, and the sentences of those that are read from files."""

import gzip
import zlib
from pathlib import Path

import pytest
import torch

from tempograd.core.errors import DataError, UnknownNameError, short_path
from tempograd.data import DATASETS, Dataset, Series, load_dataset
from tempograd.data.datasets import choose_variant, dataset
from tempograd.data.files import File


@pytest.fixture
def calls(monkeypatch):
    """Register a data set for the time of a test; return what it was called with."""
    seen = []
    monkeypatch.setattr(DATASETS, "_entries", dict(DATASETS._entries))

    @dataset("spied", ["plain", "odd"], own_folds=True)
    def read(*, root=None, variant=None, fold=None):
        """Tell nobody."""
        seen.append((root, variant, fold))
        split = Series(torch.zeros(1, 2, 1), torch.zeros(1, dtype=torch.long))
        return Dataset("spied", split, None, split, 1, ("a",))

    assert read.__name__ == "read"  # still a plain function
    return seen


def test_arguments_reach_the_reader(calls, monkeypatch):
    monkeypatch.delenv("TEMPOGRAD_DATA", raising=False)
    assert load_dataset("spied").name == "spied"
    load_dataset("spied", root="here", fold=3, variant="odd")
    load_dataset("spied", root=Path("there"))
    assert calls == [(None, None, None), (Path("here"), "odd", 3), (Path("there"), None, None)]
    assert isinstance(calls[1][0], Path)


def test_the_environment_names_the_folder_unless_the_call_does(calls, monkeypatch):
    monkeypatch.setenv("TEMPOGRAD_DATA", "usual")
    load_dataset("spied")
    load_dataset("spied", root="special")
    monkeypatch.setenv("TEMPOGRAD_DATA", "")
    load_dataset("spied")
    assert [root for root, _, _ in calls] == [Path("usual"), Path("special"), None]


def test_a_loader_says_what_it_offers(calls):
    loader = DATASETS["spied"]
    assert (loader.variants, loader.own_folds, loader.needs_files) == (("plain", "odd"), True, False)
    assert loader.__doc__ == "Tell nobody."


def test_only_some_data_sets_bring_their_own_folds_and_need_files():
    own = {name for name, loader in DATASETS.items() if loader.own_folds}
    made = {name for name, loader in DATASETS.items() if not loader.needs_files} - {"toy"}
    assert own == {"pam", "boiler", "epilepsy"}  # the protocol's section 4.1
    assert made == {"pump", "state", "switch_feature"}


def test_the_first_variant_is_the_default_and_others_are_refused():
    assert choose_variant("spied", None, ("plain", "odd")) == "plain"
    assert choose_variant("spied", None, ("odd", "plain")) == "odd"
    assert choose_variant("spied", "odd", ("plain", "odd")) == "odd"
    with pytest.raises(UnknownNameError, match=r"No variant of spied is called 'add'\. Did you mean 'odd'\?"):
        choose_variant("spied", "add", ("plain", "odd"))


TEXT = "Zürich,1\nGenève,2\n"


def test_text_is_read_whether_it_is_packed_or_not(tmp_path):
    plain, packed = tmp_path / "a.csv", tmp_path / "a.csv.gz"
    plain.write_text(TEXT, encoding="utf-8")
    packed.write_bytes(gzip.compress(TEXT.encode()))
    for path in (plain, packed):
        with File(str(path), path.name).text() as file:
            assert file.read() == TEXT


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_bytes_that_are_no_text(tmp_path, ending):
    path = tmp_path / f"a.csv{ending}"
    content = b"Z\xffrich"
    path.write_bytes(gzip.compress(content) if ending else content)
    with pytest.raises(DataError) as caught, File(str(path), path.name).text() as file:
        file.read()
    assert str(caught.value) == (
        f"{short_path(path)} is no text in UTF-8: save it as UTF-8, or give it the ending of what it is."
    )


def broken_stream():
    packed = bytearray(gzip.compress(bytes(range(256)) * 40))
    packed[12:20] = b"\xff" * 8  # after the ten bytes of the header
    with pytest.raises(zlib.error):
        gzip.decompress(bytes(packed))
    return bytes(packed)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (TEXT.encode(), "Not a gzipped file"),
        (gzip.compress(TEXT.encode())[:-9], "Compressed file ended"),
        (broken_stream(), "Error -3 while decompressing"),
    ],
    ids=["plain", "cut", "broken"],
)
def test_a_damaged_archive_is_to_be_fetched_again(tmp_path, content, reason):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(content)
    with (
        pytest.raises(
            DataError, match=rf"a.csv.gz is damaged and cannot be unpacked \({reason}.*\): fetch it again\.$"
        ),
        File(str(path), path.name).text() as file,
    ):
        file.read()


def test_other_errors_of_the_reader_pass_through(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(TEXT, encoding="utf-8")
    with pytest.raises(ZeroDivisionError), File(str(path), path.name).text():
        raise ZeroDivisionError
