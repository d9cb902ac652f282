"""The annotated solutions that the judge of BLINK-Twice is shown: visual clues and what the image
really shows.

No stage sees them, so they are in no record; they are read from the task's own file when a run is
judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from looktwice.eval.judging.passes import JudgeCase
from looktwice.eval.records.records import PointRow, RunError
from looktwice.eval.tasks.base import TaskError
from looktwice.eval.tasks.blink_twice import BlinkTwice
from looktwice.eval.tasks.cells import as_list, as_text
from looktwice.eval.tasks.files import locate_data
from looktwice.eval.tasks.table_files import open_table
from looktwice.pipelines.config import did_you_mean
from looktwice.pipelines.config.build import Binder
from looktwice.pipelines.config.paths import Scope

COLUMN_NAMES: Mapping[str, tuple[str, ...]] = {
    "clues": (
        "detailed_visual_clues",
        "visual_clues",
        "detailed_clues",
        "clues",
        "visual_cues",
        "detailed_cues",
    ),
    "truth": ("true_reality", "reality", "truth", "real_situation"),
}
"""The column names that are tried for the two columns; published files differ in them."""


@dataclass
class AnnotatedSolutions:
    """Adds clues, truth and the image itself to cases of BLINK-Twice, of the run in the folder
    `run`.

    `columns` names columns that are not in COLUMN_NAMES. If the file of a task or these columns are
    missing, its cases stay unchanged, and `notes` says so.
    """

    run: Path
    columns: Mapping[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    loaded: dict[str, tuple[Mapping[int, Mapping[str, str]], Mapping[str, Any]]] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        if unknown := [name for name in self.columns if name not in COLUMN_NAMES]:
            raise RunError(
                f"--column {unknown[0]}: the columns are {' and '.join(COLUMN_NAMES)}, as --column"
                " clues=NAME"
            )

    def __call__(self, case: JudgeCase, point: PointRow) -> JudgeCase:
        """The case with the solution in its row of the file."""
        if point.task_id not in self.loaded:
            self.loaded[point.task_id] = self._load(point)
        rows, images = self.loaded[point.task_id]
        solution = rows.get(case.sample.meta.get("row", -1), {})
        sample = replace(case.sample, images=images.get(case.sample.id, case.sample.images))
        return replace(case, sample=sample, solution=solution)

    def _load(self, point: PointRow) -> tuple[Mapping[int, Mapping[str, str]], Mapping[str, Any]]:
        binder = Binder(Scope.of_records(self.run))
        task = binder.node(point.spec["task"], "task")
        try:
            if not isinstance(task, BlinkTwice):
                raise TaskError("; ".join(binder.faults) or f"its task is a {type(task).__name__}")
            return dict(self._rows(task)), {item.sample.id: item.sample.images for item in task}
        except TaskError as exc:
            self.notes.append(f"cot: {point.task} was not judged ({exc})")
            return {}, {}

    def _rows(self, task: BlinkTwice) -> Iterator[tuple[int, Mapping[str, str]]]:
        place, _ = locate_data(task.path, task.hub, task.revision, ["**"])
        cells = open_table(place / task.file if task.file else place)
        named = self._find_columns(cells.columns)
        for number, row in enumerate(cells.rows(list(named.values()))):
            yield (
                number,
                {
                    name: "; ".join(
                        filter(None, (as_text(part).strip() for part in as_list(row[column])))
                    )
                    for name, column in named.items()
                },
            )

    def _find_columns(self, available: Sequence[str]) -> dict[str, str]:
        by_case = {column.casefold().replace(" ", "_"): column for column in available}
        chosen = {}
        for name, guesses in COLUMN_NAMES.items():
            guess = next((by_case[guess] for guess in guesses if guess in by_case), "")
            column = chosen[name] = self.columns.get(name, guess)
            if column not in available:
                near = did_you_mean(column, available)
                problem = f"there is no column {column!r}{near}" if column else "none found"
                raise TaskError(
                    f"{name}: {problem}; the columns are {', '.join(available)}. Say --column"
                    f" {name}=COLUMN"
                )
        return chosen
