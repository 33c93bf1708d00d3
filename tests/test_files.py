import os
import stat

import pytest

from tempograd.files import write_atomically


def test_a_write_that_fails_halfway_leaves_the_old_file(tmp_path):
    target = write_atomically(tmp_path / "note", lambda path: path.write_text("old"))

    def half(path):
        path.write_text("ne")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_atomically(target, half)
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["note"]


def test_a_result_has_the_permissions_of_any_new_file(tmp_path):
    before = os.umask(0o027)
    try:
        target = write_atomically(tmp_path / "note", lambda path: path.write_text("x"))
        assert stat.S_IMODE(target.stat().st_mode) == 0o640
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)
