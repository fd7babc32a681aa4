"""Sphinx: the guide in Markdown, the gallery of examples, the reference from docstrings."""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent / "src"))

import maxsparse  # noqa: E402

project, author, copyright = "maxsparse", "The maxsparse developers", "The maxsparse developers"
version = release = maxsparse.__version__
extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_templates"]
templates_path = ["_templates"]
suppress_warnings = ["config.cache"]  # the configuration of the gallery holds classes

myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3
autosummary_generate = True
numpydoc_show_class_members = False
autodoc_typehints = "none"  # shapes and meanings are in the docstrings

html_theme = "pydata_sphinx_theme"
html_title = "maxsparse"
html_theme_options = {
    "show_toc_level": 2,
    "navbar_align": "left",
    "header_links_before_dropdown": 9,
    "navbar_persistent": [],
    "navbar_end": ["search-button", "theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
}
# Only the gallery and the reference have pages below them to list.
html_sidebars = {name: [] for name in ("index", "start", "choose", "recovery", "solvers", "networks", "use", "stereo")}
html_sidebars |= {"theory": [], "contributing": [], "results": [], "big-data": [], "reliability": []}
html_show_sourcelink = html_copy_source = False

sphinx_gallery_conf = {
    "examples_dirs": str(DOCS.parent / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "ignore_pattern": r"benchopt_solver",
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 10**6,
    "abort_on_example_error": True,
}

PARTS = ("dictionaries", "signals", "metrics", "complex_data", "solvers", "theory", "recovery", "networks", "training")
PARTS += ("streaming", "distributed", "export", "stereo", "plotting", "experiments", "fields.arrays", "fields.spectra")
PARTS += ("fields.brain",)


def write_reference() -> None:
    """Write one page per public module: its docstring, and a summary of the functions and classes in ``__all__``."""
    folder = DOCS / "reference"
    folder.mkdir(exist_ok=True)
    top = ["maxsparse", "=========", "", ".. currentmodule:: maxsparse", "", ".. autosummary::", "   :toctree: parts"]
    (folder / "top.rst").write_text("\n".join([*top, "", "   Result", "   solve", ""]), encoding="utf-8")
    for part in PARTS:
        name = f"maxsparse.{part}"
        module = importlib.import_module(name)
        public = [getattr(module, key) for key in module.__all__]
        keys = [
            key
            for key, value in zip(module.__all__, public, strict=True)
            if inspect.isclass(value) or inspect.isfunction(value)
        ]
        lines = [
            f"ms.{part}",
            "=" * (len(part) + 3),
            "",
            f".. automodule:: {name}",
            "",
            f".. currentmodule:: {name}",
            "",
        ]
        lines += [".. autosummary::", "   :toctree: parts", "   :nosignatures:", "", *(f"   {key}" for key in keys), ""]
        page, text = folder / f"{part}.rst", "\n".join(lines)
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


write_reference()
