"""The site: ``.ci/docs`` builds it, with warnings as errors."""

import sys
from pathlib import Path

import falcon

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

from address import repository

project = "falcon"
author = "falcon's developers"
copyright = "2026, falcon's developers"
version = release = falcon.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_design",
    "generated",
    "mathml",
    "notebooks",
    "pictures",
]
exclude_patterns = ["_build", "jupyter_execute", "learn/*.ipynb"]
default_role = "name"
highlight_language = "none"  # blocks of no language are of a shell, or what is printed

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
myst_update_mathjax = False
html_math_renderer = "mathml"  # no script, no font from elsewhere

nb_execution_mode = "cache"
nb_execution_raise_on_error = True
nb_execution_timeout = 3600  # seconds per cell: it ends what hangs
nb_merge_streams = True
nb_output_stderr = "remove-warn"

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings say the types
autodoc_mock_imports = ["torch", "dask", "distributed"]  # extras, not needed to read about them
suppress_warnings = ["ref.python"]  # attributes such as `m` have several classes
autosummary_generate = False
napoleon_google_docstring = False
napoleon_use_param = False  # types stand as they are written
napoleon_use_rtype = False

html_theme = "furo"
html_title = f"falcon {version}"
if address := repository():  # each page links to its source
    html_theme_options = {
        "source_repository": address,
        "source_branch": "main",
        "source_directory": "docs/",
    }
html_static_path = ["_static"]
html_css_files = ["falcon.css"]
html_copy_source = False
html_show_sourcelink = False
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
