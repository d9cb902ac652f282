"""Writes the list of rooms into README.md: the first sentence of each room's own docstring.

`python docs/rooms.py` rewrites the section "What lies where".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

__all__ = ["listing", "with_listing"]

ROOT = Path(__file__).parents[1]
FOLDERS = {
    "pipelines": "values, the one interface `stage(state, model) -> state`, models, configuration",
    "specialists": "vision models for one task each, and the stages that answer with them alone",
    "prompting": "what the model sees and is asked",
    "eval": "tasks, runs, scores, reports, the command line",
}
REST = """
    configs/              studies to start from
    tests/ bench/ docs/   what must hold, room by room; what is measured; guide, reference, gallery of stages
    typings/looktwice/    the version, and links to the five folders for type checkers

"""
START, END = "<!-- rooms: written by docs/rooms.py -->\n", "How to add a stage"


def listing() -> str:
    """Folders and rooms, a line each, with what their docstrings say lives there."""
    return "".join(line for folder in FOLDERS for line in _folder_lines(folder)) + REST


def with_listing(page: str) -> str:
    """The page with its list of rooms written anew."""
    before, _, rest = page.partition(START)
    return f"{before}{START}{listing()}{END}{rest.partition(END)[2]}"


def _folder_lines(folder: str) -> Iterator[str]:
    yield f"\n    {folder + '/':<22}{FOLDERS[folder]}\n"
    for path in sorted((ROOT / folder).iterdir()):
        source = path / "__init__.py" if path.is_dir() else path
        if source.is_file() and source.suffix == ".py" and path.name != "__init__.py":
            docstring = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or ""
            sentence = " ".join(docstring.partition("\n\n")[0].split()).removesuffix(".")
            yield f"      {path.name + ('/' if path.is_dir() else ''):<20}{sentence}\n"


if __name__ == "__main__":
    readme = ROOT / "README.md"
    readme.write_text(with_listing(readme.read_text(encoding="utf-8")), encoding="utf-8")
