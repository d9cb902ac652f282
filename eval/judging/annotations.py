"""The annotated solutions that BLINK-Twice's judge is shown: the visual clues and what the image really shows.

No stage sees them, so they are in no record; they are read from the task's own file when a run is judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from looktwice.eval.judging.passes import Case
from looktwice.eval.records.records import PointRow, RunError
from looktwice.eval.tasks.base import TaskError
from looktwice.eval.tasks.blink_twice import BlinkTwice
from looktwice.eval.tasks.cells import as_list, as_text
from looktwice.eval.tasks.files import locate_data
from looktwice.eval.tasks.row_errors import nearest
from looktwice.eval.tasks.table_files import open_table
from looktwice.pipelines.config.build import Binder, Scope

GUESSES: Mapping[str, tuple[str, ...]] = {
    "clues": ("detailed_visual_clues", "visual_clues", "detailed_clues", "clues", "visual_cues", "detailed_cues"),
    "truth": ("true_reality", "reality", "truth", "real_situation"),
}
"""The names that are tried for the two columns; the authors' own could not be seen when this was written."""


@dataclass
class Notes:
    """Adds clues, truth and the image itself to cases of BLINK-Twice; `columns` names the columns where guesses fail.

    A task whose file is gone, or has no such columns, leaves its cases as they are, and a sentence says so.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    sentences: list[str] = field(default_factory=list)
    held: dict[str, tuple[Mapping[int, Mapping[str, str]], Mapping[str, Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if unknown := [name for name in self.columns if name not in GUESSES]:
            raise RunError(f"--column {unknown[0]}: the columns are {' and '.join(GUESSES)}, as --column clues=NAME")

    def __call__(self, case: Case, point: PointRow) -> Case:
        """The case with what its row of the file says."""
        if point.task_id not in self.held:
            self.held[point.task_id] = self._loaded(point)
        rows, images = self.held[point.task_id]
        notes = rows.get(case.sample.meta.get("row", -1), {})
        sample = replace(case.sample, images=images.get(case.sample.id, case.sample.images))
        return replace(case, sample=sample, notes=notes)

    def _loaded(self, point: PointRow) -> tuple[Mapping[int, Mapping[str, str]], Mapping[str, Any]]:
        binder = Binder(Scope(Path("/")))
        task = binder.node(point.spec["task"], "task")
        try:
            if not isinstance(task, BlinkTwice):
                raise TaskError("; ".join(binder.faults) or f"its task is a {type(task).__name__}")
            return dict(self._rows(task)), {item.sample.id: item.sample.images for item in task}
        except TaskError as exc:
            self.sentences.append(f"cot: {point.task} was not judged ({exc})")
            return {}, {}

    def _rows(self, task: BlinkTwice) -> Iterator[tuple[int, Mapping[str, str]]]:
        place, _ = locate_data(task.path, task.hub, task.revision, ["**"])
        cells = open_table(place / task.file if task.file else place)
        named = self._found(cells.columns)
        for number, row in enumerate(cells.rows(list(named.values()))):
            yield number, {name: _listed(row[column]) for name, column in named.items()}

    def _found(self, there: Any) -> dict[str, str]:
        by_case = {column.casefold().replace(" ", "_"): column for column in there}
        found = {}
        for name, guesses in GUESSES.items():
            guess = next((by_case[one] for one in guesses if one in by_case), "")
            found[name] = self.columns.get(name, guess)
            if found[name] not in there:
                said = (
                    f"there is no column {found[name]!r}{nearest(found[name], there)}" if found[name] else "none found"
                )
                raise TaskError(f"{name}: {said}; the columns are {', '.join(there)}. Say --column {name}=COLUMN")
        return found


def _listed(cell: Any) -> str:
    """A cell of one text or of several, as one text."""
    return "; ".join(as_text(one).strip() for one in as_list(cell) if as_text(one).strip())
