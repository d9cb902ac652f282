"""Writes the map of the source, `docs/map.md`: the first sentence of each room's own docstring.

`python docs/rooms.py` makes the page anew.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

__all__ = ["page"]

ROOT = Path(__file__).parents[1]
FOLDERS = {
    "pipelines": "Values, the interface `stage(state, model) -> state`, models, configuration",
    "specialists": "Vision models for one task each, and the stages that answer with them",
    "prompting": "What the model is shown and asked",
    "eval": "Tasks, runs, scores, reports, the command line",
    "extras": "Extensions, which attach by a table; nothing above imports them",
}
REST = """
## The rest

- `configs/`: studies to start from
- `tests/`, `bench/`, `docs/`: tests by room, benchmarks, documents
- `typings/looktwice/`: the version, and links to the folders for type checkers
"""
HEAD = """\
# Map of the source

Find the folder and package of anything in the source; for contributors.

A folder holds rooms, a room holds a few files, and a class is `folder.room.Class` in Python and YAML;
YAML names many classes of `extras/` by a shorter path, and Python by `extras.room.Class`.
`python docs/rooms.py` makes this page from the docstrings of the rooms.
How to add a stage, and the style: [CONTRIBUTING.md](../CONTRIBUTING.md).
"""


def page() -> str:
    """Folders and rooms, a line each, with what their docstrings say lives there."""
    lines = "".join(line for folder in FOLDERS for line in _folder_lines(folder))
    return HEAD + lines + REST


def _folder_lines(folder: str) -> Iterator[str]:
    yield f"\n## {folder}\n\n{FOLDERS[folder]}.\n\n"
    for path in sorted((ROOT / folder).iterdir()):
        source = path / "__init__.py" if path.is_dir() else path
        if source.is_file() and source.suffix == ".py" and path.name != "__init__.py":
            docstring = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or ""
            paragraph = " ".join(docstring.partition("\n\n")[0].split())
            sentence = re.split(r"(?<=\.) (?=[A-Z])", paragraph)[0].removesuffix(".")
            yield f"- `{path.name}{'/' * path.is_dir()}`: {sentence}\n"


if __name__ == "__main__":
    (ROOT / "docs" / "map.md").write_text(page(), encoding="utf-8")
