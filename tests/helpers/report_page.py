"""Reads a report back as the page's script does, written from the description of the layout in packing.py."""

import base64
import gzip
import json
import struct
from html.parser import HTMLParser

import numpy as np

VOID = {"meta", "input", "img", "br"}


class Page(HTMLParser):
    """Collects start tags and the text of scripts, and checks that tags are closed in order."""

    def __init__(self, path):
        super().__init__()
        self.text = path.read_text(encoding="utf-8")
        self.tags, self.scripts, self.open = [], {}, []
        self.feed(self.text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts[self.tags[-1][1].get("id", "code")] = data

    @property
    def content(self):
        return unpack(self.scripts["data"])


def unpack(text):
    """Return the header with every array in the place of its description."""
    raw = gzip.decompress(base64.b64decode(text))
    (length,) = struct.unpack("<I", raw[:4])
    assert (4 + length) % 8 == 0

    def attach(entry):
        if isinstance(entry, dict) and set(entry) == {"at", "length", "type"}:
            assert entry["at"] % 8 == 0
            return np.frombuffer(
                raw, "<" + np.dtype(entry["type"]).str[1:], entry["length"], 4 + length + entry["at"]
            )
        if isinstance(entry, dict):
            return {name: attach(part) for name, part in entry.items()}
        return [attach(part) for part in entry] if isinstance(entry, list) else entry

    return attach(json.loads(raw[4 : 4 + length]))


def flags(packed, shape):
    return np.unpackbits(packed, count=int(np.prod(shape)), bitorder="little").astype(bool).reshape(shape)
