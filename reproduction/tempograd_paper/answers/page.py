"""What we learnt, on one page, and the paragraphs of it that the README has."""

import re
import textwrap
from functools import partial
from importlib.resources import files

from tempograd_paper.answers import claims
from tempograd_paper.answers.lessons import Lessons

WIDTH = 140  # of lines of the README
START, END = "<!-- written by make tables -->", "<!-- end -->"


def write_page(lessons: Lessons) -> str:
    """Write the page."""
    return _filled("learnt.txt", lessons) + "\n"


def write_paragraphs(lessons: Lessons) -> str:
    """Write what the README says of the paper."""
    wrapped = partial(textwrap.fill, width=WIDTH, break_long_words=False, break_on_hyphens=False)
    return "\n\n".join(map(wrapped, _filled("readme.txt", lessons).split("\n\n")))


def _filled(template: str, lessons: Lessons) -> str:
    """Put claims where a template names them; a paragraph or point is left out if its first claim says nothing."""
    text = files("tempograd_paper.answers").joinpath(template).read_text(encoding="utf-8")
    found = []
    for part in re.split(r"\n(?=\n|\* )", text.rstrip()):
        said = {name: str(getattr(claims, name)(lessons)) for name in re.findall(r"{(\w+)}", part)}
        if next(iter(said.values()), True):
            found.append("\n" * part.startswith("\n") + " ".join(part.split()).format(**said).strip())
    return "\n".join(found)


def renew_block(page: str, text: str) -> str:
    """Return a page with the text between its marks, or as it is where it has none."""
    marks = re.compile(f"{re.escape(START)}.*?{re.escape(END)}", re.DOTALL)
    return marks.sub(lambda _: f"{START}\n\n{text}\n\n{END}", page)
