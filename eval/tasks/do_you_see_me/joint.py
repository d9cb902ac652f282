"""Do You See Me's joint form from a user's files: one image, a question of perception and one of
reasoning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from looktwice.eval.tasks.base import Subset, TaskError
from looktwice.eval.tasks.cells import answer_key, as_text, choice_texts
from looktwice.eval.tasks.do_you_see_me.metrics import JointScorer
from looktwice.eval.tasks.table_task import TableQuestion, TableTask

ROLES = ("perception", "reasoning")
COLUMNS = (
    "id",
    "image",
    *(f"{role}_{word}" for role in ROLES for word in ("question", "answer", "choices")),
)
NEEDED = tuple(name for name in COLUMNS if not name.endswith("choices"))


@dataclass(frozen=True)
class JointQuestions(TableTask):
    """Two questions per image, asked separately, from a table (.jsonl, .csv, .tsv, .parquet).

    Its columns are id, image, perception_question, perception_answer, reasoning_question,
    reasoning_answer and, where there are any, perception_choices and reasoning_choices; `columns`
    maps these to the table's own names. The samples are `<id>/perception` and `<id>/reasoning`. The
    authors' own 150 images are not published. Raises TaskError.
    """

    path: Path
    columns: Mapping[str, str] = field(default_factory=dict)
    images: Path | None = None
    split: str = ""
    label_version: str = ""
    subset: Subset = field(default_factory=Subset)

    scorer = JointScorer()

    @property
    def _word_columns(self) -> list[str]:
        return [column for name, column in self._map.items() if name != "image"]

    @property
    def _image_columns(self) -> list[str]:
        return [self._map["image"]]

    def _questions(self, number: int, cells: Mapping[str, Any]) -> list[TableQuestion]:
        """Both questions of an image, one after the other."""
        return [self._question(number, cells, role) for role in ROLES]

    @cached_property
    def _map(self) -> dict[str, str]:
        available = self._table.columns
        mapping = {name: self.columns.get(name, name) for name in COLUMNS}
        wanted = [name for name in COLUMNS if name in NEEDED or name in self.columns]
        missing = [mapping[name] for name in wanted if mapping[name] not in available]
        unknown = [name for name in self.columns if name not in COLUMNS]
        if unknown or missing:
            what = "no setting of `columns` is" if unknown else "there is no column"
            raise TaskError(
                f"{self.path}: {what} {(unknown or missing)[0]!r}; it has {', '.join(available)},"
                f" and needed are {', '.join(NEEDED)}: map them with `columns`"
            )
        return {name: column for name, column in mapping.items() if column in available}

    def _question(self, number: int, cells: Mapping[str, Any], role: str) -> TableQuestion:
        identifier, question = (
            as_text(cells[self._map[name]]) for name in ("id", f"{role}_question")
        )
        if not identifier or not question.strip():
            raise ValueError(f"id and {role}_question must not be empty")
        column = self._map.get(f"{role}_choices")
        choices = choice_texts(cells, [column] if column else [])
        answer = answer_key(cells[self._map[f"{role}_answer"]], choices)
        meta = {"image": identifier, "role": role, "row": number}
        return TableQuestion(number, f"{identifier}/{role}", question, choices, answer, meta)
