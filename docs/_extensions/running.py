"""The directive ``run``: code that runs while the pages are built, followed by what it prints or draws.

So every number and every picture of a page is the library's own, of this version.
"""

import shutil
import tempfile
from pathlib import Path
from typing import Any, ClassVar

import page_blocks
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

PICTURES = "_pictures"  # below the sources, where Sphinx finds pictures
KEPT = "_kept"  # and this is copied as it is: html_extra_path


class Run(SphinxDirective):
    """Show code, run it after the blocks before it on the same page, and show what came out.

    ``:hide:`` leaves the code out, ``:quiet:`` what it prints. ``:file:`` names a file of ``_code``: the code
    comes from there unless the block shows it, and later blocks can import it. ``:html:`` shows the last value
    as a notebook does. ``:keep:`` puts a file that the block wrote beside the pages, below ``kept/``. A picture
    needs ``:alt:``.
    """

    has_content = True
    optional_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {
        "alt": directives.unchanged_required,
        "caption": directives.unchanged_required,
        "file": directives.unchanged_required,
        "hide": directives.flag,
        "html": directives.flag,
        "keep": directives.unchanged_required,
        "quiet": directives.flag,
    }

    def run(self) -> list[nodes.Node]:
        """Run the block; what it raises is an error of the page."""
        block = self._block()
        try:
            outcome = page_blocks.run(block, self._state("names", dict), self._folder())
        except Exception as error:
            raise self.error(f"This block ended with {type(error).__name__}: {error}") from error
        if "keep" in self.options:
            kept = Path(self.env.srcdir) / KEPT / "kept"
            kept.mkdir(parents=True, exist_ok=True)
            shutil.copy(self._folder() / self.options["keep"], kept)
        shown: list[nodes.Node] = []
        if "hide" not in self.options:
            shown.append(
                self._literal(block.code.rstrip(), "console" if block.language == "sh" else "python", "code")
            )
        if "html" in self.options:
            shown.append(
                nodes.raw("", f'<div class="run-html">{outcome.value._repr_html_()}</div>', format="html")
            )
        elif outcome.text.strip() and "quiet" not in self.options:
            shown.append(self._literal(outcome.text.rstrip(), "text", "printed"))
        return shown + [self._picture(figure) for figure in outcome.pictures]

    def _block(self) -> page_blocks.Block:
        file = self.options.get("file")
        if file:
            self.env.note_dependency(page_blocks.CODE / file)
        return page_blocks.as_shown(
            self.arguments[0] if self.arguments else "python", "\n".join(self.content), file
        )

    def _state(self, name: str, make: Any) -> Any:
        """Return what the blocks of one page share."""
        return self.env.current_document.setdefault(f"run_{name}", make())

    def _folder(self) -> Path:
        folder = Path(self.env.app.run_folder) / self.env.docname.replace("/", "_")
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _literal(self, text: str, language: str, kind: str) -> nodes.literal_block:
        block = nodes.literal_block(text, text, language=language, classes=[f"run-{kind}"])
        self.set_source_info(block)
        return block

    def _picture(self, figure: Any) -> nodes.Node:
        if "alt" not in self.options:
            raise self.error("A picture needs :alt:, what it shows in words.")
        number = self._state("count", list)
        number.append(1)
        name = f"{self.env.docname.replace('/', '_')}_{len(number)}.png"
        path = Path(self.env.srcdir) / PICTURES / name
        path.parent.mkdir(exist_ok=True)
        figure.savefig(path, dpi=150, bbox_inches="tight", metadata={"Software": None})
        width = f"{round(96 * figure.get_figwidth())}px"  # browsers show an inch as 96 pixels
        image = nodes.image(
            uri=f"/{PICTURES}/{name}", alt=self.options["alt"], width=width, classes=["run-picture"]
        )
        if "caption" not in self.options:
            return image
        texts, _ = self.parse_inline(self.options["caption"])
        return nodes.figure("", image, nodes.caption("", "", *texts))


def _begin(app: Sphinx) -> None:
    app.run_folder = tempfile.mkdtemp(prefix="tempograd-pages-")  # type: ignore[attr-defined]


def _end(app: Sphinx, error: Exception | None) -> None:
    shutil.rmtree(app.run_folder)  # type: ignore[attr-defined]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Add the directive and the folder in which pages run."""
    app.add_directive("run", Run)
    app.connect("builder-inited", _begin)
    app.connect("build-finished", _end)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
