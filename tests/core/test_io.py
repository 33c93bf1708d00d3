"""Files are written whole, where they belong, and nobody else's is lost."""

import errno
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
import safetensors
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from tempograd.core import io
from tempograd.core.errors import OutputError, TempogradError
from tempograd.core.io import Kind, check_output, made, write_atomically

NOTE = Kind("note", lambda path: path.read_text().startswith("note"))


def note(text="note new"):
    return lambda path: path.write_text(text)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def refused(call, *arguments, **options):
    """Return the one sentence with which a call is refused."""
    with pytest.raises(OutputError) as caught:
        call(*arguments, **options)
    said = str(caught.value)
    assert len(said) <= 300
    assert said.isprintable()
    assert said.endswith(".")
    assert isinstance(caught.value, TempogradError)
    return said


# what is written, and how


def test_a_write_that_fails_halfway_leaves_the_old_file(tmp_path):
    target = write_atomically(tmp_path / "note", note("old"))

    def half(path):
        path.write_text("ne")
        raise OSError("half a disk")

    assert "cannot be written: half a disk." in refused(write_atomically, target, half)
    assert target.read_text() == "old"
    assert names(tmp_path) == ["note"]


@pytest.mark.parametrize("mask", [0o027, 0o077, 0o002])
def test_a_result_has_the_permissions_of_any_new_file(tmp_path, mask):
    before = os.umask(mask)
    try:
        target = write_atomically(tmp_path / "note", note())
        assert stat.S_IMODE(target.stat().st_mode) == 0o666 & ~mask
        assert os.umask(mask) == mask
    finally:
        os.umask(before)


def test_the_mask_is_not_touched_since_other_threads_would_see_it(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "umask", None)
    assert write_atomically(tmp_path / "note", note()).read_text() == "note new"


def test_nobody_else_reads_a_private_file_while_it_is_written(tmp_path):
    """Whatever rights the new file has at that moment, the folder it lies in lets nobody in."""
    seen = []

    def write(path):
        path.write_text("secret")
        seen.append(stat.S_IMODE(path.parent.stat().st_mode))

    write_atomically(tmp_path / "note", write)
    assert seen == [0o700]


def test_a_file_is_on_the_disk_before_it_gets_its_name(tmp_path, monkeypatch):
    done, sync, replace = [], os.fsync, os.replace

    def fsync(handle):
        kind = "folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else f"file of {os.fstat(handle).st_size}"
        done.append(kind)
        sync(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", lambda *paths: done.append("rename") or replace(*paths))
    write_atomically(tmp_path / "note", note("12345"))
    assert done == ["file of 5", "rename", "folder"]


def test_file_systems_that_cannot_sync_are_written_to(tmp_path, monkeypatch):
    def fsync(handle):
        raise OSError(errno.EINVAL, "not here")

    monkeypatch.setattr(os, "fsync", fsync)
    check_output(tmp_path / "note")
    assert write_atomically(tmp_path / "note", note()).read_text() == "note new"


# where a path leads


def test_links_in_a_circle_are_refused(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert "Too many levels of symbolic links" in refused(check_output, tmp_path / "a")
    assert "Too many levels of symbolic links" in refused(write_atomically, tmp_path / "a", note())
    assert (tmp_path / "a").is_symlink()


def pipe(path):
    os.mkfifo(path)


def listener(path):
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(os.path.relpath(path))  # the path of a socket must be short


@pytest.mark.parametrize("make", [pipe, listener])
@pytest.mark.parametrize("linked", [False, True])
def test_pipes_and_sockets_are_refused_and_stay(tmp_path, make, linked, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "odd"
    make(path)
    before = path.lstat()
    if linked:
        (tmp_path / "link").symlink_to("odd")
        path = tmp_path / "link"
    for force in (False, True):
        assert "is a device or a pipe" in refused(check_output, path, NOTE, force=force)
        assert "is a device or a pipe" in refused(write_atomically, path, note(), kind=NOTE, force=force)
    assert (tmp_path / "odd").lstat() == before


def test_a_device_is_refused():
    """Only the check is called: a fault here must not harm the machine."""
    assert "is a device or a pipe" in refused(check_output, "/dev/null")


# what is refused before anything is written


def bad_places(folder):
    (folder / "file").write_text("mine")
    return {
        "The folder": folder / "typo" / "deep" / "note",
        "is a folder": folder,
        "Not a directory": folder / "file" / "below",
        "File name too long": folder / ("n" * 256),
        "embedded null byte": folder / "n\0te",
    }


@pytest.mark.parametrize("place", range(5))
def test_places_that_cannot_be_written_are_known_beforehand(tmp_path, place):
    said, path = list(bad_places(tmp_path).items())[place]
    assert said in refused(check_output, path, NOTE)
    assert said in refused(write_atomically, path, note(), kind=NOTE)
    assert names(tmp_path) == ["file"]
    assert (tmp_path / "file").read_text() == "mine"


def test_an_empty_name_is_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "is a folder: name a file in it" in refused(check_output, "")
    assert names(tmp_path) == []


def test_a_name_of_255_bytes_can_be_written(tmp_path):
    path = tmp_path / ("ü" * 127 + "n")
    check_output(path)
    assert write_atomically(path, note()).read_text() == "note new"


def test_what_safetensors_says_of_a_full_disk_is_passed_on(tmp_path):
    def write(path):
        path.write_text("half")
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    assert "No space left on device" in refused(write_atomically, tmp_path / "note", write)
    assert names(tmp_path) == []


def test_the_check_leaves_nothing_behind_and_changes_nothing(tmp_path):
    (tmp_path / "note").write_text("note old")
    before = (tmp_path / "note").stat()
    check_output(tmp_path / "note", NOTE)
    assert (tmp_path / "note").stat() == before
    assert names(tmp_path) == ["note"]


@pytest.mark.parametrize("force", [False, True])
def test_write_protected_files_are_refused(tmp_path, force):
    path = tmp_path / "note"
    path.write_text("note old")
    path.chmod(0o444)
    assert "is write-protected" in refused(check_output, path, NOTE, force=force)
    assert "is write-protected" in refused(write_atomically, path, note(), kind=NOTE, force=force)
    assert path.read_text() == "note old"


def test_a_folder_below_a_file_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("mine")
    assert "is no folder that can be written to" in refused(made, tmp_path / "file" / "below")
    assert "is no folder that can be written to" in refused(made, tmp_path / "n\0te")


# what is never overwritten


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("how", ["same", "dots", "symbolic link", "hard link", "linked folder", "input is a link"])
def test_inputs_are_never_overwritten(tmp_path, monkeypatch, how, force):
    monkeypatch.chdir(tmp_path)
    given = Path("data")
    given.write_text("note of mine")
    path = {"dots": Path("..") / tmp_path.name / "data"}.get(how, Path("other"))
    if how == "same":
        path = tmp_path / "data"
    elif how == "symbolic link":
        path.symlink_to("data")
    elif how == "hard link":
        path.hardlink_to("data")
    elif how == "linked folder":
        Path("here").symlink_to(".")
        path = Path("here") / "data"
    elif how == "input is a link":
        given = Path("link")
        given.symlink_to("data")
        path = Path("data")
    said = refused(check_output, path, NOTE, inputs=["gone", given], force=force)
    assert "is one of the inputs, which are never overwritten" in said
    assert given.read_text() == "note of mine"


def test_only_files_of_the_kind_are_replaced_unless_somebody_insists(tmp_path):
    path = tmp_path / "note"
    path.write_text("a letter")
    said = "exists and is no note that tempograd wrote: name another file, or pass force=True"
    assert said in refused(check_output, path, NOTE)
    assert said in refused(write_atomically, path, note(), kind=NOTE)
    assert path.read_text() == "a letter"
    check_output(path, NOTE, force=True)
    write_atomically(path, note("note 1"), kind=NOTE, force=True)
    write_atomically(path, note("note 2"), kind=NOTE)
    assert path.read_text() == "note 2"


def test_an_empty_file_has_nothing_to_lose(tmp_path):
    """As ``tempfile`` makes them for whoever wants a name."""
    (tmp_path / "note").touch()
    check_output(tmp_path / "note", NOTE)
    assert write_atomically(tmp_path / "note", note(), kind=NOTE).read_text() == "note new"


def test_messages_stay_short_and_in_one_line(tmp_path):
    path = tmp_path / ("deep" * 40) / ("line\n\x1b[31m" + "n" * 200)
    refused(check_output, path)
    refused(write_atomically, path, note(), kind=NOTE)


# what killed processes leave behind

HOLD = """
import sys
from tempograd.core.io import scratch
with scratch(sys.argv[1]) as folder:
    (folder / "part").write_text("half")
    print(folder.name, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def writer(tmp_path):
    """A process that is writing, and the name of its scratch folder."""
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    path = os.pathsep.join(sys.path)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": path}
    ) as process:
        yield process, process.stdout.readline().strip()
        process.kill()


def test_scratch_of_a_living_process_stays_and_that_of_a_killed_one_goes(tmp_path, writer):
    process, name = writer
    write_atomically(tmp_path / "note", note())
    assert names(tmp_path) == [name, "note"]
    process.kill()
    process.wait()
    assert names(tmp_path) == [name, "note"]
    write_atomically(tmp_path / "note", note())
    assert names(tmp_path) == ["note"]


def test_threads_do_not_sweep_each_other_however_long_they_take(tmp_path):
    with io.scratch(tmp_path) as folder:
        os.utime(folder, (0, 0))
        thread = threading.Thread(target=io.sweep, args=[tmp_path])
        thread.start()
        thread.join()
        assert folder.exists()
    assert names(tmp_path) == []


def test_only_what_the_library_left_is_swept(tmp_path):
    stale = tmp_path / ".tempograd-abcd_123"
    stale.mkdir()
    (stale / "new").write_text("half")
    mine = [".tempograd", ".tempograd-", ".tempograd-mine", ".tempograd-abcd_1234", "tempograd-abcd_123"]
    for name in mine:
        (tmp_path / name).mkdir()
    (tmp_path / ".tempograd-aaaaaaaa").write_text("a file")
    (tmp_path / ".tempograd-bbbbbbbb").symlink_to(tmp_path / ".tempograd")
    io.sweep(tmp_path)
    assert names(tmp_path) == sorted([*mine, ".tempograd-aaaaaaaa", ".tempograd-bbbbbbbb"])


def test_a_sweeper_that_is_faster_than_the_lock_does_no_harm(tmp_path, monkeypatch):
    """It removes the new folder before its maker has locked it; the maker takes another."""
    opened, lock, times = os.open, io.fcntl.flock, []

    def slow_open(path, *flags, **options):
        if (folder := Path(path)).parent == tmp_path and folder.is_dir():
            times.append(folder)
            if len(times) == 1:
                folder.rmdir()
        return opened(path, *flags, **options)

    def slow_lock(handle, how):
        if len(times) == 2:
            raise BlockingIOError
        lock(handle, how)
        if len(times) == 3:
            times[-1].rmdir()

    monkeypatch.setattr(os, "open", slow_open)
    monkeypatch.setattr(io.fcntl, "flock", slow_lock)
    with io.scratch(tmp_path) as folder:
        assert folder.exists()
        assert (len(times), folder) == (4, times[-1])


@pytest.mark.usefixtures("interruptible")
def test_a_signal_waits_until_a_file_is_read(tmp_path, monkeypatch):
    """Interrupted, safetensors would take the file for damaged."""
    path, read = tmp_path / "two.safetensors", []
    save_file({"a": torch.ones(2), "b": torch.zeros(1)}, path)

    class Slow:
        def __init__(self, *given):
            self.file = safetensors.safe_open(*given)

        def __enter__(self):
            self.file = self.file.__enter__()
            return self

        def __exit__(self, *_):
            return False

        def metadata(self):
            return {}

        def keys(self):
            return self.file.keys()

        def get_tensor(self, name):
            signal.raise_signal(signal.SIGINT)
            read.append(name)
            return self.file.get_tensor(name)

    monkeypatch.setattr("tempograd.core.io.safetensors", SimpleNamespace(safe_open=Slow))
    with pytest.raises(KeyboardInterrupt):
        io.load(path)
    assert sorted(read) == ["a", "b"]
