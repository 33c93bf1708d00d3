"""MIMIC-III: finding its tables, damaged ones, the cache and the database."""

import gzip
import os
import re
import sys
import time
from pathlib import Path

import duckdb
import pytest

from reproduction.tests.helpers.mimic3_world import World
from tempograd.core.errors import DataError, InputError, MissingExtraError
from tempograd.data import load_dataset
from tempograd_paper.datasets import mimic3, queries
from tempograd_paper.datasets.mimic3 import prepare_mimic3


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TEMPOGRAD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def world():
    world = World()
    for number in (1, 2, 3):
        world.stay(number)
        world.chart(number, 618, 10 * number, hours=number)
        world.lab(number, 50813, number / 2, hours=number)
    return world.complete()


@pytest.fixture
def root(world, tmp_path, cache):
    return world.write(tmp_path / "data" / "MIMIC3").parent


def contents(root):
    """Both tables, with None for what is missing."""
    return [
        {
            name: [None if str(value) == "nan" else value for value in column.tolist()]
            for name, column in part.items()
        }
        for part in prepare_mimic3(root).read()
    ]


# ---- where the tables are, and how they are written ----


@pytest.mark.parametrize("folder", ["MIMIC3", "MIMIC3-demo", "mimiciii", "", "it's [0-9] * fine/MIMIC3"])
def test_tables_are_found_in_every_folder_and_spelling(world, root, tmp_path, folder):
    expected = contents(root)
    assert expected[0]["icustay_id"] == [1, 2, 3]
    assert (expected[1]["value"], expected[1]["hour"]) == (
        [0.5, 80, 10, 1, 80, 20, 1.5, 80, 30],
        [1, 0, 1, 2, 0, 2, 3, 0, 3],
    )
    base = tmp_path / "other" / folder.removesuffix("MIMIC3") if "/" in folder else tmp_path / "other"
    place = base / folder.rpartition("/")[2] if folder else base
    sibling = World()
    sibling.stay(9)
    stands_for = tmp_path / "other" / "it's 5 x fine" / "MIMIC3"  # the last folder's name, read as a pattern
    for upper, zipped, newline in ((True, False, "\r\n"), (False, True, "\n")):
        for old in place.glob("*.csv*"):
            old.unlink()
        world.write(place, upper=upper, zipped=zipped, newline=newline)
        sibling.write(stands_for, upper=upper, zipped=zipped)
        assert contents(base) == expected


def test_the_full_database_comes_before_the_demo(world, root):
    world.stay(4)
    world.write(root / "MIMIC3-demo")
    assert contents(root)[0]["icustay_id"] == [1, 2, 3]


def test_nothing_found_says_where_to_get_it_and_where_to_put_it(tmp_path, cache, monkeypatch):
    monkeypatch.delenv("TEMPOGRAD_DATA", raising=False)
    with pytest.raises(
        DataError, match=r"no folder was given: pass root= .* holds MIMIC3. Get it from https://phys"
    ):
        load_dataset("mimic3")
    with pytest.raises(
        DataError, match=rf"not in {tmp_path}: put it at {tmp_path}/MIMIC3 \(MIMIC3-demo, mimiciii"
    ):
        load_dataset("mimic3", root=tmp_path)
    (tmp_path / "mimiciii").mkdir()
    with pytest.raises(
        DataError, match=r"mimiciii lacks ICUSTAYS, ADMISSIONS, PATIENTS, CHARTEVENTS, LABEVENTS of"
    ):
        load_dataset("mimic3", root=tmp_path)


def test_a_missing_table_is_named(root):
    (root / "MIMIC3" / "LABEVENTS.csv.gz").unlink()
    with pytest.raises(
        DataError, match=r"MIMIC3 lacks LABEVENTS of MIMIC-III: put the table there as .csv.gz or .csv"
    ):
        prepare_mimic3(root)


# ---- damaged tables ----


def spoil(root, table, old, new):
    """Replace text in one table."""
    path = root / "MIMIC3" / f"{table}.csv.gz"
    text = gzip.decompress(path.read_bytes()).decode()
    assert old in text
    path.write_bytes(gzip.compress(text.replace(old, new, 1).encode()))


ROW = ",1.0,1.0,,\n"
DAMAGE = {  # table: what, replaced by what, and what is said after the file's name
    "CHARTEVENTS": [
        (
            '"VALUENUM"',
            '"VALUE_NUM"',
            " has no column valuenum; its first line must name the columns of MIMIC-III.",
        ),
        (",30,30,", ",30,thirty,", ", line 7: valuenum is 'thirty', which is no number."),
    ],
    "ICUSTAYS": [("\n2,1002,", "\n2,P2,", ", line 3: subject_id is 'P2', which is no whole number.")],
    "PATIENTS": [
        ('"GENDER","DOB"', '"SEX","BORN"', " has no column gender, dob; its first line must name the columns"),
        ("2070-03-01 00:00:00", "March", ", line 2: dob is 'March', which is no date and time."),
    ],
    "LABEVENTS": [
        ('"FLAG"', '"ITEMID"', " names a column twice in its first line: row_id, subject_id, hadm_id, itemid"),
        (ROW, ",1.0,1.0.0,,\n", ", line 3: valuenum is '1.0.0', which is no number."),
        (ROW, ",1.0,1.0\n", ", line 3 has fewer columns than its header, which has 9."),
        (ROW, ",1.0,1.0,,,a,b\n", ", line 3 has more columns than its header, which has 9."),
        (ROW, ',1.0,1.0,"mg,\n', ", line 3: a quotation mark is opened and never closed."),
    ],
}


@pytest.mark.parametrize(
    ("table", "old", "new", "message"), [(table, *case) for table, cases in DAMAGE.items() for case in cases]
)
def test_a_damaged_table_says_where_and_what(root, cache, table, old, new, message):
    spoil(root, table, old, new)
    with pytest.raises(DataError, match=re.escape(f"/MIMIC3/{table}.csv.gz{message}")) as caught:
        prepare_mimic3(root)
    assert "\n" not in str(caught.value)
    error = caught.value  # with no cause to print: that would quote the line of a patient
    assert error.__cause__ is None
    assert error.__suppress_context__ or error.__context__ is None
    assert not cache.exists() or list(cache.iterdir()) == []


def test_text_where_nothing_is_read_does_no_harm(root):
    expected = contents(root)
    spoil(root, "ICUSTAYS", '"LOS"', '"length of stay"')
    assert contents(root) == expected


def test_an_empty_table_lacks_its_columns(root):
    (root / "MIMIC3" / "PATIENTS.csv.gz").write_bytes(gzip.compress(b""))
    with pytest.raises(DataError, match=r"PATIENTS.csv.gz has no column subject_id, gender, dob"):
        prepare_mimic3(root)


@pytest.mark.parametrize("table", ["CHARTEVENTS", "LABEVENTS"])
def test_a_truncated_archive_is_refused(root, world, table):
    for number in range(2000):
        world.chart(1, 618, 10 + number % 50, hours=1, seconds=number)
        world.lab(1, 50813, 1 + number % 7, hours=1, seconds=number)
    world.write(root / "MIMIC3")
    path = root / "MIMIC3" / f"{table}.csv.gz"
    whole = path.read_bytes()
    for length in (len(whole) - 4, len(whole) * 9 // 10, 200):
        path.write_bytes(whole[:length])
        with pytest.raises(
            DataError, match=rf"{table}.csv.gz is damaged and cannot be unpacked.*: fetch it again"
        ):
            prepare_mimic3(root)


def test_a_plain_file_under_the_name_of_an_archive_is_refused(root):
    (root / "MIMIC3" / "ICUSTAYS.csv.gz").write_text("ROW_ID\n1\n")
    with pytest.raises(DataError, match=r"ICUSTAYS.csv.gz is damaged and cannot be unpacked \(Not a gzipped file"):
        prepare_mimic3(root)


# ---- the cache ----


def test_the_second_time_only_the_cache_is_read(root, cache, monkeypatch):
    expected = contents(root)
    files = sorted(cache.iterdir())
    assert [file.name[23:] for file in files] == ["-cells.parquet", "-stays.parquet"]
    monkeypatch.setattr(mimic3, "run_script", None)
    assert contents(root) == expected
    assert sorted(cache.iterdir()) == files


@pytest.mark.parametrize("delta", ["size", "time", "script", "place", "half"])
def test_the_cache_follows_the_tables_and_the_script(root, cache, monkeypatch, delta):
    first = prepare_mimic3(root)
    table = root / "MIMIC3" / "LABEVENTS.csv.gz"
    if delta == "size":
        before = table.stat()
        table.write_bytes(gzip.compress(gzip.decompress(table.read_bytes()).replace(b",1.5,1.5,", b",8.25,8.25,")))
        os.utime(table, ns=(before.st_atime_ns, before.st_mtime_ns))
    elif delta == "time":
        os.utime(table, ns=(0, 0))
    elif delta == "script":
        script = (mimic3.files("tempograd_paper.datasets") / "mimic3.sql").read_text()
        changed = root.parent / "scripts"
        changed.mkdir()
        (changed / "mimic3.sql").write_text(script.replace("'48", "'47") + "-- changed")
        monkeypatch.setattr(mimic3, "files", lambda package: changed)
    elif delta == "place":
        (root / "MIMIC3").rename(root / "mimiciii")
    else:
        first.stays.unlink()
    run, ran = mimic3.run_script, []
    monkeypatch.setattr(mimic3, "run_script", lambda *args: ran.append(1) or run(*args))
    second = prepare_mimic3(root)
    assert ran == [1]
    assert (second == first) == (delta == "half")
    assert second.read()[1]["value"].max() == 80
    assert (8.25 in second.read()[1]["value"]) == (delta == "size")


def test_nothing_is_left_of_an_interrupted_preparation(root, cache, monkeypatch):
    def stop(connection, table, order, path):
        path.write_bytes(b"PAR1 half a file")
        raise KeyboardInterrupt

    monkeypatch.setattr(mimic3, "write_parquet", stop)
    with pytest.raises(KeyboardInterrupt):
        prepare_mimic3(root)
    assert list(cache.iterdir()) == []


def test_the_cache_is_where_it_was_asked_for(root, tmp_path, monkeypatch):
    assert prepare_mimic3(root, cache=tmp_path / "mine").stays.parent == tmp_path / "mine"
    monkeypatch.delenv("TEMPOGRAD_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert prepare_mimic3(root).stays.parent == tmp_path / "xdg" / "tempograd"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert prepare_mimic3(root).cells.parent == tmp_path / "home" / ".cache" / "tempograd"


def test_a_damaged_cache_says_what_to_delete(root):
    prepared = prepare_mimic3(root)
    prepared.cells.write_bytes(prepared.cells.read_bytes()[:100])
    with pytest.raises(DataError, match=rf"Delete {prepared.stays} and {prepared.cells}: they will be made again"):
        load_dataset("mimic3", root=root)


def test_a_cache_that_cannot_be_written_says_what_to_set(root, tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(DataError, match=r"file cannot be written to: set TEMPOGRAD_CACHE to a folder that can"):
        prepare_mimic3(root, cache=tmp_path / "file")


# ---- the database ----


def test_memory_is_bounded_and_the_rest_goes_beside_the_cache(root, cache, monkeypatch):
    seen, run = [], mimic3.run_script

    def look(connection, *args):
        seen.append([connection.execute(f"SELECT current_setting('{name}')").fetchone()[0] for name in SETTINGS])
        run(connection, *args)

    SETTINGS = ("memory_limit", "temp_directory", "autoinstall_known_extensions", "autoload_known_extensions")
    monkeypatch.setattr(mimic3, "run_script", look)
    prepare_mimic3(root)
    monkeypatch.setenv("TEMPOGRAD_MEMORY", "100MiB")
    prepare_mimic3(root, cache=cache / "b")
    prepare_mimic3(root, cache=cache / "c", memory="200MiB")
    assert [memory for memory, *_ in seen] == ["3.7 GiB", "100.0 MiB", "200.0 MiB"]
    assert [Path(folder).parent for _, folder, *_ in seen] == [cache, cache / "b", cache / "c"]
    assert all(rest == [False, False] for _, _, *rest in seen)
    assert not [file for file in cache.rglob("*") if "spill" in file.name]


def test_too_little_or_no_size_of_memory(root):
    with pytest.raises(InputError, match="memory must be a size such as '4GB', got 'much'"):
        prepare_mimic3(root, memory="much")
    with pytest.raises(
        DataError, match=r"Memory or disk ran out with memory='1MB': give more \(memory= or TEMPOGRAD_ME"
    ):
        prepare_mimic3(root, memory="1MB")


def test_the_large_tables_stream_past_the_small_ones(root, monkeypatch):
    """The planner must not build its hash tables from chartevents, of which it cannot know the size."""
    plans = []

    def explained(connection, script, *args):
        for statement in connection.extract_statements(script):
            if "FROM chartevents" in statement.query or "FROM labevents" in statement.query:
                query = statement.query[statement.query.index("SELECT") :]
                plans.append(connection.execute(f"EXPLAIN (FORMAT json) {query}").fetchone()[1])
            connection.execute(statement)

    monkeypatch.setattr(mimic3, "run_script", explained)
    prepare_mimic3(root)
    assert len(plans) == 2
    for plan in plans:
        assert plan.index("READ_CSV") < plan.index("_items") < plan.index("cohort")  # probe sides come first


def test_an_interrupt_stops_the_database(monkeypatch):
    def interrupted(jobs, timeout):
        time.sleep(0.2)
        raise KeyboardInterrupt

    monkeypatch.setattr(queries, "wait", interrupted)
    start = time.monotonic()
    with queries.connect("1GB") as connection, pytest.raises(KeyboardInterrupt):
        queries.run_script(connection, "SELECT count(*) FROM range(10000000000000) AS t(i) WHERE i % 7 = 3", "", 1)
    assert time.monotonic() - start < 10


def test_progress_counts_the_bytes_that_are_read(root, monkeypatch):
    said, counts = [], iter([5, 8, 15])

    class Line:
        def __init__(self, total, label):
            said.append((total, label))

        def __enter__(self):
            return said.append

        def __exit__(self, *error):
            said.append("end")

    rounds = iter([True, True, False])
    monkeypatch.setattr(queries, "progress_bar", Line)
    monkeypatch.setattr(queries, "_bytes_read", lambda: next(counts))
    monkeypatch.setattr(queries, "wait", lambda jobs, timeout: type("Done", (), {"not_done": next(rounds)}))
    with queries.connect("1GB") as connection:
        queries.run_script(connection, "SELECT 1", "MIMIC-III", 20)
    assert said == [(20, "MIMIC-III"), 3, 7, "end"]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell")
def test_the_bytes_of_this_process_are_counted(tmp_path):
    (tmp_path / "file").write_bytes(bytes(300_000))
    before = queries._bytes_read()
    (tmp_path / "file").read_bytes()
    assert 300_000 <= queries._bytes_read() - before < 400_000


def test_without_duckdb_or_with_an_old_one_the_extra_is_named(root, monkeypatch):
    monkeypatch.setattr(duckdb, "__version__", "1.4.4")
    with pytest.raises(
        MissingExtraError, match=r"needs duckdb 2 or later, not 1.4.4: pip install 'tempograd\[data\]'"
    ):
        prepare_mimic3(root)
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(MissingExtraError, match=r"This needs duckdb: pip install 'tempograd\[data\]'"):
        load_dataset("mimic3", root=root)
