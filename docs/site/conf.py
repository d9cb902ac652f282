"""What Sphinx is told of the site; `docs/site/build_site.py` writes the pages that it reads."""

project = "looktwice"
author = copyright = "The looktwice contributors"  # Sphinx's own names
extensions = ["myst_parser", "sphinx_design", "sphinx_copybutton"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 6
highlight_language = "text"
suppress_warnings = ["misc.highlighting_failure"]  # excerpts with `...`
html_theme = "furo"
html_title = "looktwice"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_extra_path = ["_extra"]
html_show_sphinx = False
html_show_search_summary = False  # it fetches pages, which a browser refuses from disk
