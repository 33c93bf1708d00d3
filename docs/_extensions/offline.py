"""Refuse pages that would fetch something: the site must work from a disk, without a network."""

import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.typing import ExtensionMetadata

FETCHES = re.compile(r'<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)="((?:https?:)?//[^"]+)"')


def check(app: Sphinx, error: Exception | None) -> None:
    """Look at every page that was written."""
    for page in [] if error else sorted(Path(app.outdir).rglob("*.html")):
        for address in FETCHES.findall(page.read_text(encoding="utf-8")):
            raise ExtensionError(f"{page.relative_to(app.outdir)} would fetch {address}.")


def setup(app: Sphinx) -> ExtensionMetadata:
    """Check at the end of a build."""
    app.connect("build-finished", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
