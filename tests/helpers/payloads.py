"""Files that write a marker when they are opened carelessly."""

import json
import pickle
import warnings
import zipfile
from pathlib import Path

import torch
from torch import nn

# parts of an archive by torch.export.save, as torch writes them now and as 2.6 did
EXPORTED = ("models/model.json", "exported_program.json")
SAMPLE_INPUTS = ("sample_inputs/model.pt", "example_inputs.pt")


class Touches:
    """Writes a marker when it is unpickled."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return Path.touch, (Path(self.marker),)


def pickled(marker, path):
    path.write_bytes(pickle.dumps(Touches(marker)))
    return path


def saved_by_torch(marker, path, nested=False):
    torch.save({"state_dict": Touches(marker)} if nested else Touches(marker), path)
    return path


def expression(marker):
    """Return Python that writes a marker, without a quotation mark that JSON, TOML or CSV would mind."""
    return f"__import__('pathlib').Path('{marker}').touch()"


def exported(path):
    """Export a small model to a .pt2 file."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(6, 2)).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own
        shapes = ({0: torch.export.Dim.AUTO},)
        torch.export.save(torch.export.export(model, (torch.zeros(4, 2, 3),), dynamic_shapes=shapes), path)
    return path


def swapped(source, path, delta):
    """Copy an archive; ``change`` gets the name and the content of each part, and returns the new content."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            new.writestr(name, delta(name, old.read(name)))
    return path


def evaluating(marker, source, path):
    """Put Python in the place of the first expression of an exported program."""

    def delta(name, content):
        if not name.endswith(EXPORTED):
            return content
        plain = json.loads(content)
        _first_expression(plain)["expr_str"] = expression(marker)
        return json.dumps(plain).encode()

    return swapped(source, path, delta)


def _first_expression(plain):
    waiting = [plain]
    while waiting:
        thing = waiting.pop()
        if isinstance(thing, dict) and "expr_str" in thing:
            return thing
        waiting += thing.values() if isinstance(thing, dict) else thing if isinstance(thing, list) else ()
    raise AssertionError("the program has no expression")


class Writes(nn.Module):
    """TorchScript that writes a marker when it is loaded, and another one when it is called."""

    def __init__(self, loaded: str, called: str):
        super().__init__()
        self.loaded = loaded
        self.called = called

    def forward(self, x):
        torch.save(x, self.called)
        return x.flatten(1)

    @torch.jit.export
    def __getstate__(self):
        return self.loaded, self.called, self.training

    @torch.jit.export
    def __setstate__(self, state: tuple[str, str, bool]):
        self.loaded = state[0]
        self.called = state[1]
        self.training = state[2]
        torch.save(torch.zeros(1), self.loaded)


def scripted(marker, path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is deprecated
        torch.jit.save(torch.jit.script(Writes(str(marker), f"{marker}-called")), path)
    return path


def scripted_load(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.load(path)
