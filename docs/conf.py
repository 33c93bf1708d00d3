"""How the documentation is built: ``make docs``. Nothing is fetched, and a warning is an error."""

import sys
from pathlib import Path

from sphinx.application import Sphinx

from tempograd import __version__

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "tempograd"
author = "The tempograd developers"
copyright = "2026, the tempograd developers"  # noqa: A001  # Sphinx wants this name
release = version = __version__
language = "en_GB"

extensions = [
    "mathml",
    "myst_parser",
    "numpydoc",
    "offline",
    "registries",
    "running",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = [
    "_build",
    "_code",
    "_kept",
    "gallery/*.ipynb",
    "gallery/*.py",
    "sg_execution_times.rst",  # it would fetch scripts from elsewhere
    "gallery/sg_execution_times.rst",
]

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
myst_links_external_new_tab = False

autosummary_generate = True
autodoc_typehints = "none"  # types stand in the tables of parameters, in words
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"(torch|numpy|np|pd|pandas|matplotlib|captum|collections|pathlib|typing)\b.*"),
    ("py:.*", r"time_code"),  # a part of a module, named in its docstring
]

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "ignore_repr_types": r"Picture",
    "image_scrapers": ("gallery_pictures",),
    "matplotlib_animations": False,
    "min_reported_time": 10_000,  # seconds of this machine are of no use to readers
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "thumbnail_size": (400, 280),
}

html_theme = "furo"
html_title = "tempograd"
html_static_path = ["_static"]
html_extra_path = ["_kept"]  # what pages wrote for their readers
Path(__file__).with_name("_kept").mkdir(exist_ok=True)
html_css_files = ["tempograd.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
copybutton_selector = "div:not(.run-printed) > div.highlight > pre"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def setup(app: Sphinx) -> None:
    """Let pages link to the folder of results as they must on GitHub; here it is a page."""

    def kept(app: Sphinx, name: str, content: list[str]) -> None:
        content[0] = content[0].replace("](../reproduction/results/README.md)", "](kept.md)")

    app.connect("source-read", kept)
