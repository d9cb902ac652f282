"""The annotated solutions that the judge of BLINK-Twice sees: visual clues, the true content of the
image, and the steps of reasoning.

No stage sees them and no record contains them; they are read from the task's own file when a run is
judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from looktwice.eval.records.records import PointRow, RunError
from looktwice.eval.tasks.base import TaskError
from looktwice.eval.tasks.cells import as_list, as_text
from looktwice.eval.tasks.table_task import guess_column
from looktwice.extras.blink_twice.task import BlinkTwice
from looktwice.extras.judging.passes import JudgeCase
from looktwice.pipelines.config.build import Binder
from looktwice.pipelines.config.classes import extend_hint, suggest_names

COLUMN_NAMES: Mapping[str, str] = {
    "clues": "detailed_visual_clues visual_clues detailed_clues clues visual_cues detailed_cues",
    "truth": "true_reality reality truth real_situation",
    "steps": "steps key_steps reasoning_steps key_reasoning_steps",
}
"""The column names that are tried for each annotation, because published files differ."""

TaskSolutions = tuple[Mapping[int, Mapping[str, str]], Mapping[str, Any]]
"""The annotated solutions by row of the file, and the images by sample."""


@dataclass
class AnnotatedSolutions:
    """Adds the clues, truth, steps and image to cases of BLINK-Twice in the run folder `run`.

    `columns` names the columns of annotations whose name is not in COLUMN_NAMES; for `steps` it may
    name several, such as a,b. If a file has no steps, the parts of its clues and truth are used as
    steps. If the file of a task or a column is missing, the cases stay unchanged, and `notes` says
    why.
    """

    run: Path
    columns: Mapping[str, str]

    def __post_init__(self) -> None:
        self.notes = list[str]()
        self.loaded = dict[str, TaskSolutions]()
        if unknown := [name for name in self.columns if name not in COLUMN_NAMES]:
            raise RunError(
                f"--column {unknown[0]} does not exist; the columns are"
                f" {', '.join(COLUMN_NAMES)}, such as --column clues=NAME"
            )

    def __call__(self, case: JudgeCase, point: PointRow) -> JudgeCase:
        """Return the case with the solution from its row of the file."""
        if point.task_id not in self.loaded:
            self.loaded[point.task_id] = self._load(point)
        rows, images = self.loaded[point.task_id]
        solution = rows.get(case.sample.meta.get("row", -1), {})
        sample = replace(case.sample, images=images.get(case.sample.id, case.sample.images))
        return replace(case, sample=sample, solution=solution)

    def _load(self, point: PointRow) -> TaskSolutions:
        binder = Binder.for_run(self.run)
        task = binder.build_node(point.spec["task"], "task")
        try:
            if not isinstance(task, BlinkTwice):
                raise TaskError("; ".join(binder.faults) or f"its task is a {type(task).__name__}")
            return self._read_rows(task), {item.sample.id: item.sample.images for item in task}
        except TaskError as exc:
            self.notes.append(f"cot and steps: {point.task} was not judged ({exc})")
            return {}, {}

    def _read_rows(self, task: BlinkTwice) -> dict[int, Mapping[str, str]]:
        named, rows = self._find_columns(task.table.columns), dict[int, Mapping[str, str]]()
        for number, row in enumerate(task.table.rows([*dict.fromkeys(chain(*named.values()))])):
            parts = dict[str, list[str]]()
            for name, columns in named.items():
                texts = (as_text(part) for column in columns for part in as_list(row[column]))
                parts[name] = [words for text in texts if (words := " ".join(text.split()))]
            solution = {name: "; ".join(parts[name]) for name in ("clues", "truth")}
            steps = parts.get("steps") or [*parts["clues"], *parts["truth"]]
            rows[number] = {**solution, "steps": "\n".join(steps)}
        return rows

    def _find_columns(self, available: Sequence[str]) -> dict[str, list[str]]:
        chosen = dict[str, list[str]]()
        for name, guesses in COLUMN_NAMES.items():
            column = self.columns.get(name) or guess_column(guesses, available) or ""
            if not column and name == "steps":
                continue
            chosen[name] = column.split(",") if name == "steps" else [column]
            if lacking := [part for part in chosen[name] if part not in available]:
                column = lacking[0]
                problem = f"there is no column {column!r}" if column else "none found"
                near = suggest_names(column, available) if column else ""
                there = extend_hint(near, f"the columns are {', '.join(available)}")
                raise TaskError(f"{name}: {problem}{there}. Add --column {name}=COLUMN")
        return chosen
