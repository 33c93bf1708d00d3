"""Numbers in files are read to their last digit, or refused with the place where they stand."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import tempograd as tg

NOT_NUMBERS = ("1_000", "٣", "１２", "0x10", "inf", "-Infinity", "²", "--5", "1e", "+", "high")


def parquet(path, column, values, kind):
    """A wide table of two steps with one more column of a given kind."""
    ones = np.ones(len(values))
    pq.write_table(pa.table({"t0": ones, "t1": 2 * ones, column: pa.array(values, kind)}), path)
    return path


@pytest.mark.parametrize("text", NOT_NUMBERS)
def test_what_only_python_takes_for_a_number_is_refused_with_its_line(text, write):
    quoted = f'"{text}"'
    with pytest.raises(tg.TempogradError, match=r"v\.csv, line 3: a is .*, which is no (finite )?number"):
        tg.read_series(write("v.csv", ["id,time,a", "1,0,5", f"1,1,{quoted}"]))
    with pytest.raises(tg.TempogradError, match=r"t\.csv, line 3: the time is .*: all must be numbers"):
        tg.read_series(write("t.csv", ["id,time,a", "1,0,5", f"1,{quoted},5"]))
    if "," not in text:
        with pytest.raises(tg.TempogradError, match=r"v\.ts, line 3: not all values are numbers"):
            tg.read_series(write("v.ts", ["@data", "1,2", f"1,{text}"]))


def test_plain_decimal_notation_of_every_kind_is_read(write):
    lines = ["id,time,a", *(f"1,{t},{text}" for t, text in enumerate([" 1.5", "+2", "-.5", "1e2", "3.", "-1E-2"]))]
    assert tg.read_series(write("n.csv", lines)).x.flatten().tolist() == pytest.approx(
        [1.5, 2, -0.5, 100, 3, -0.01]
    )
    missing = tg.read_series(write("m.csv", ["id,time,a,b", "1,0,5,?", "1,1,NaN,1", "1,2,-nan,1", "1,3, ,1"]))
    assert missing.mask[0].tolist() == [[True, False], [False, True], [False, True], [False, True]]


def test_true_and_false_are_1_and_0(write):
    lines = ["id,time,on,a,late", "1,0,True,2.5,FALSE", "1,1,False,NA,true", "1,2,,1,", "1,3, True,1,TRUE"]
    found = tg.read_series(write("b.csv", lines))
    assert found.x[0].tolist() == [[1, 2.5, 0], [0, 0, 1], [0, 1, 0], [1, 1, 1]]
    assert found.mask[0].tolist() == [[True] * 3, [True, False, True], [False, True, False], [True] * 3]


def test_flags_read_as_a_data_frame_of_the_same_file_is(write):
    path = write("b.csv", ["id,time,on,a", *(f"1,{t},{t % 3 == 0},{t}" for t in range(1200))])
    assert torch.equal(tg.read_series(path).x, tg.read_series(pd.read_csv(path)).x)


@pytest.mark.parametrize(
    ("cells", "what"),
    [
        (["True", "maybe"], "line 3: a is 'maybe', which is no number"),
        (["1", "yes"], "line 3: a is 'yes', which is no number"),
        (
            ["1", "19,87"],
            "line 3: a is '19,87', which is no number: write it with a decimal point, or read the file with",
        ),
        (["1.234,5", "1"], "line 2: a is '1.234,5', which is no number: write it with a decimal point"),
    ],
)
def test_a_cell_that_is_no_number_is_told_with_what_to_write(cells, what, write):
    with pytest.raises(tg.TempogradError) as raised:
        tg.read_series(write("c.csv", ["id;time;a", *(f"1;{time};{text}" for time, text in enumerate(cells))]))
    assert what in str(raised.value)


WHOLE = [2**53 + 1, 2**63 - 1, 0, 9007199254740993000]


def test_whole_labels_keep_all_their_digits(write, tmp_path):
    texts = [str(WHOLE[0]), str(WHOLE[1]), "0.0", str(WHOLE[3])]
    table = tg.read_series(write("w.csv", ["t0,t1,label", *(f"1,2,{text}" for text in texts)]))
    assert table.y.tolist() == WHOLE
    lines = ["@classLabel true", "@data", *(f"1,2:{text}" for text in texts)]
    assert tg.read_series(write("w.ts", lines)).y.tolist() == WHOLE
    assert tg.read_series(parquet(tmp_path / "w.parquet", "label", WHOLE, "int64")).y.tolist() == WHOLE
    negative = tg.read_series(write("n.csv", ["t0,t1,label", "1,2,-9007199254740993", "1,2,-9007199254740992"]))
    assert (negative.y.tolist(), negative.classes) == ([0, 1], ("-9007199254740993", "-9007199254740992"))


def test_classes_beyond_64_bits_in_other_files(tmp_path):
    np.savez(tmp_path / "b.npz", x=np.ones((2, 3, 1)), y=np.array([0, 2**63], np.uint64))
    with pytest.raises(tg.TempogradError, match="y holds integers beyond 9223372036854775807"):
        tg.read_series(tmp_path / "b.npz")
    np.savez(tmp_path / "c.npz", x=np.ones((2, 3, 1)), y=np.array([0, 2**53 + 1], np.uint64))
    assert tg.read_series(tmp_path / "c.npz").y.tolist() == [0, 2**53 + 1]


def test_whole_labels_beyond_64_bits_are_refused_and_never_become_values_of_a_regression(write, tmp_path):
    large = str(2**63)
    lines = ["@classLabel true", "@data", "1,2:0", f"1,2:{large}"]
    column = pa.table({"t0": [1.0, 1.0], "t1": [2.0, 2.0], "label": pa.array([0, 2**63], "uint64")})
    pq.write_table(column, tmp_path / "l.parquet")
    wide = ["t0,t1,label", "1,2,0", f"1,2,{large}"]
    for path in (write("l.csv", wide), write("l.ts", lines), tmp_path / "l.parquet", column):
        with pytest.raises(tg.TempogradError, match="labels must be finite and of 64 bits"):
            tg.read_series(path)
    values = tg.read_series(write("v.csv", ["t0,t1,label", "1,2,0.5", f"1,2,{large}"]))
    assert values.y.tolist() == [0.5, 2.0**63]  # one that is no whole number makes them values


def test_values_of_a_regression_keep_double_precision(write, tmp_path):
    values = [16777217.5, 1e300, -0.1]
    rows = ["t0,t1,label", *(f"1,2,{value!r}" for value in values)]
    assert tg.read_series(write("r.csv", rows)).y.tolist() == values
    lines = ["@targetLabel true", "@data", *(f"1,2:{value!r}" for value in values)]
    assert tg.read_series(write("r.ts", lines)).y.tolist() == values
    assert tg.read_series(parquet(tmp_path / "r.parquet", "label", values, "float64")).y.tolist() == values
    with pytest.raises(tg.TempogradError, match="y holds NaN or infinity"):
        tg.read_series(write("r.csv", ["t0,t1,label", "1,2,0.5", "1,2,1e999"]))


def test_ids_are_exact_or_stay_text(write, tmp_path):
    largest = 2**63 - 1
    exact = tg.read_series(write("i.csv", ["id,t0,t1", f"{largest},1,2", f"{-largest},1,2"]))
    assert exact.ids.tolist() == [largest, -largest]
    for odd in (str(2**64 - 1), "²", "--5", "٣", "1_0", "-0", "007", "9" * 5000):
        found = tg.read_series(write("i.csv", ["id,t0,t1", f"{odd},1,2", "8,1,2"]))
        assert found.ids == (odd, "8")
    found = tg.read_series(parquet(tmp_path / "i.parquet", "id", [2**64 - 1, 1], "uint64"))
    assert found.ids == ("18446744073709551615", "1")


def test_times_keep_all_their_digits(write):
    first = 1700000000000000001  # nanoseconds since 1970, beyond 2^53
    found = tg.read_series(write("t.csv", ["id,time,a", f"1,{first},5", f"1,{first + 1},6"]))
    assert (found.times, found.x.flatten().tolist()) == ((str(first), str(first + 1)), [5, 6])
    found = tg.read_series(write("t.csv", ["id,time,a", "1,1700000000.1234565,5", "1,1700000000.123457,6"]))
    assert found.times == ("1700000000.1234565", "1700000000.123457")
    with pytest.raises(tg.TempogradError, match="line 3: the time is '1e999': all must be numbers"):
        tg.read_series(write("t.csv", ["id,time,a", "1,0,5", "1,1e999,5"]))


def test_columns_that_are_steps_are_counted_in_plain_digits(write):
    with pytest.raises(tg.TempogradError, match="pass time="):
        tg.read_series(write("c.csv", ["t١,t٢", "1,2"]))


def test_ids_of_a_split_without_a_sign():
    x, y = torch.ones(2, 3, 1), torch.zeros(2, dtype=torch.int64)
    assert tg.Series(x, y, ids=torch.tensor([3, 1], dtype=torch.uint64)).ids.tolist() == [3, 1]
    with pytest.raises(tg.TempogradError, match="ids holds integers beyond"):
        tg.Series(x, y, ids=torch.tensor([2**64 - 1, 1], dtype=torch.uint64))


def test_a_column_may_name_series_and_label_them(write):
    path = write(
        "a.csv", ["id,time,a", *(f"{series},{step},{series + step}.5" for series in (0, 1) for step in (0, 1))]
    )
    found = tg.read_series(path, label="id")
    assert found.y.tolist() == found.ids.tolist() == [0, 1]
    assert found.x.flatten().tolist() == [0.5, 1.5, 1.5, 2.5]
