"""Every step of a writer fails once: what tests of the library and of the paper's package share."""

import builtins
import errno
import io
import os
import random
import resource
import sys
import threading
from pathlib import Path

from safetensors import SafetensorError

from tempograd.core.errors import OutputError

NUMBERS = (errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EIO)
CALLS = ("open", "mkdir", "fsync", "replace", "chmod", "stat", "lstat", "fstat")


class Faults:
    """Counts the steps that writers take, and lets one of them fail."""

    def __init__(self, monkeypatch):
        self.start(-1, 0)
        self.thread = threading.get_ident()  # others, which run the tests, are left alone
        for name in CALLS:
            monkeypatch.setattr(os, name, self.call(getattr(os, name)))
        for module in (io, builtins):
            monkeypatch.setattr(module, "open", self.opening(io.open if module is io else builtins.open))
        ours = (
            each
            for name, each in sys.modules.items()
            if name.partition(".")[0] in ("tempograd", "tempograd_paper")
        )
        for home in [each for each in ours if "save_file" in vars(each)]:
            monkeypatch.setattr(home, "save_file", self.saving(home.save_file))

    def start(self, failing, number):
        self.step, self.failing, self.number, self.removing = 0, failing, number, False

    def due(self):
        if threading.get_ident() != self.thread:
            return False
        self.step += 1
        if self.step - 1 != self.failing:
            return False
        frame, inside = sys._getframe(), []
        while frame is not None:
            inside.append(Path(frame.f_code.co_filename).name)
            frame = frame.f_back
        self.removing = "shutil.py" in inside
        return True

    def error(self):
        return OSError(self.number, os.strerror(self.number))

    def call(self, real):
        def called(*args, **options):
            if self.due():
                raise self.error()
            return real(*args, **options)

        return called

    def opening(self, real):
        def opened(file, mode="r", *args, **options):
            if not set(mode) & set("wax+"):
                return real(file, mode, *args, **options)
            if self.due():
                raise self.error()
            return _File(real(file, mode, *args, **options), self)

        return opened

    def saving(self, real):
        def saved(tensors, filename, *args, **options):
            real(tensors, filename, *args, **options)
            if self.due():
                os.truncate(filename, 20)
                raise SafetensorError(f"Error while serializing: I/O error: no luck (os error {self.number})")

        return saved


class _File:
    """A file whose writes may fail halfway."""

    def __init__(self, file, faults):
        self.file, self.faults = file, faults

    def write(self, data):
        if self.faults.due():
            self.file.write(data[: len(data) // 2])
            self.file.flush()
            raise self.faults.error()
        return self.file.write(data)

    def __getattr__(self, name):
        return getattr(self.file, name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()


def some(steps):
    """Return all steps, or the first, the last and a few between, where a writer writes line by line."""
    if steps <= 60:
        return range(steps)
    return [*range(8), *random.Random(0).sample(range(8, steps - 12), 4), *range(steps - 12, steps)]


def attempt(work):
    """Return the sentence with which it failed, nothing if it did not."""
    try:
        work()
    except OutputError as error:
        said = str(error)
        assert len(said) <= 300
        assert said.isprintable()
        return said
    return ""


def fails_at_every_step(write, read, folder, monkeypatch, *, there, quick=False, same=False):
    """Let each step fail once, and see that a reader finds the old or the new file, whole.

    ``there``: a file is replaced; ``quick``: one error at each step; ``same``: old and new cannot be told apart.
    """
    folder.mkdir()
    path = folder / "file"
    write(path, 0)
    old, before = read(path), path.read_bytes()
    write(path, 1)
    new = read(path)
    assert old != new or same
    faults = Faults(monkeypatch)
    path.unlink()
    if there:
        write(path, 0)
    faults.start(-1, 0)
    write(path, 1)
    steps = faults.step
    assert steps >= 8
    for failing in some(steps):
        for number in NUMBERS[failing % 4 :][:1] if quick else NUMBERS:
            faults.start(-1, 0)
            path.unlink(missing_ok=True)
            if there:
                path.write_bytes(before)
            faults.start(failing, number)
            said = attempt(lambda: write(path, 1))
            removing = faults.removing
            faults.start(-1, 0)
            assert path.exists() or (said and not there)
            assert not path.exists() or read(path) == (old if said else new)
            assert {each.name for each in folder.iterdir()} <= {"file"} or removing
    write(path, 1)
    assert [each.name for each in folder.iterdir()] == ["file"]


def stops_halfway(write, read, folder):
    """Let the system stop the writer after 200 bytes, inside safetensors too, as a full disk would."""
    path = folder / "file"
    write(path, 0)
    old = read(path)
    most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, most[1]))
    try:
        said = attempt(lambda: write(path, 1))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, most)
    assert "cannot be written: " in said
    assert os.strerror(errno.EFBIG) in said or "FileTooLarge" in said  # as older versions of safetensors say it
    assert read(path) == old
    assert [each.name for each in folder.iterdir()] == ["file"]
