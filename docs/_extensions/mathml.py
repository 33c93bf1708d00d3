"""Write formulas as MathML, which browsers draw by themselves: no script, no font and no network."""

import re

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.typing import ExtensionMetadata
from sphinx.writers.html5 import HTML5Translator

LOG = logging.getLogger(__name__)


def mathml(formula: str, display: str) -> str:
    """Return a formula as MathML.

    Lines that are aligned at ``&`` become an ``align*``, the one environment of this kind the converter knows.
    """
    if "\\\\" in formula and "\\begin" not in formula:
        formula = rf"\begin{{align*}}{formula}\end{{align*}}"
    formula = formula.replace(r"\arg", r"\operatorname{arg}")
    text = convert(re.sub(r"\s+", " ", formula.strip()), display=display)
    return text.replace("<mo>&#x02016;</mo>", '<mo stretchy="false">&#x02016;</mo>')  # else only the first grows


def _checked(formula: str, display: str, node: nodes.Node) -> str:
    text = mathml(formula, display)
    if "\\" in text or "<mi>&</mi>" in text:  # the converter copies what it does not understand
        LOG.warning("a formula holds a command that MathML cannot show: %s", formula, location=node)
    return text


def visit_inline(translator: HTML5Translator, node: nodes.math) -> None:
    """Write a formula inside a line."""
    translator.body.append(_checked(node.astext(), "inline", node))
    raise nodes.SkipNode


def visit_block(translator: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula on its own."""
    translator.body.append(f'<div class="formula">{_checked(node.astext(), "block", node)}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> ExtensionMetadata:
    """Offer the renderer, which ``html_math_renderer`` in ``conf.py`` chooses."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
