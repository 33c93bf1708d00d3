"""Let the gallery show a picture that is the last line of a block: it is no part of pyplot, where it looks."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sphinx_gallery.scrapers import figure_rst

SHOWN = "_shown_in_gallery"


def scrape(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Save the value of the last line, if it is a picture that was not shown before."""
    value = block_vars["example_globals"].get("___")
    if not hasattr(value, "savefig") or hasattr(value, SHOWN):
        return ""
    path = Path(next(block_vars["image_path_iterator"]))
    value.savefig(path, dpi=150, bbox_inches="tight")
    setattr(value, SHOWN, True)
    return str(figure_rst([path], gallery_conf["src_dir"], _words(value)))


def _words(picture: Any) -> str:
    """Return the title of a picture, for those who cannot see it."""
    texts = [text.get_text() for text in picture.texts] + [axes.get_title(loc="left") for axes in picture.axes]
    return next((text.replace("\n", " ") for text in texts if text), "picture")


def _get_sg_image_scraper() -> Callable[..., str]:
    return scrape  # the gallery looks for this name
