"""BabyVision: questions about visual abilities of children, with choices or a short answer, in JSON
lines or parquet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from looktwice.eval.scoring.verdict import Scorer
from looktwice.eval.tasks.base import Subset
from looktwice.eval.tasks.cells import Row, as_text
from looktwice.eval.tasks.row_task import Questions, RowQuestion
from looktwice.eval.tasks.table_task import TableTask
from looktwice.extras.sets.set_task import get_letter, get_options, get_text

TEXT_COLUMNS = (
    "taskId",
    "type",
    "subtype",
    "ansType",
    "question",
    "options",
    "choiceAns",
    "blankAns",
)
EMPTY_VALUES = ("", "null", "none", "nan")


@dataclass(frozen=True)
class BabyVision(TableTask):
    """BabyVision (arXiv 2601.06521): `path` is the authors' `meta_data.jsonl` (beside its images),
    or the hub's parquet file or folder (`hub: UnipatAI/BabyVision` downloads it).

    `ansType` is choice (`choiceAns` counts from 0) or blank (`blankAns` is a string). `meta` has
    `type` (four), `subtype` (22) and `ansType`. `file`, `revision`, `where` and `images` are those
    of `eval.tasks.Columns`. Unusable rows are left out and counted in the facts. Raises TaskError.
    """

    path: Path | None = None
    scorer: Scorer | None = None
    subset: Subset = Subset()
    images: Path | None = None
    hub: str = ""
    revision: str = ""
    file: str = ""

    @property
    def split(self) -> str:
        """The name of the only split on the hub, train."""
        return "test"

    @property
    def _text_columns(self) -> Sequence[str]:
        return TEXT_COLUMNS

    @property
    def _image_columns(self) -> Sequence[str]:
        return ("image",)

    def _questions(self, number: int, cells: Row) -> Questions:
        question, kind = get_text(cells, "question"), as_text(cells["ansType"])
        if kind not in ("choice", "blank"):
            raise ValueError(f"`ansType` must be choice or blank, found {kind!r}")
        choices: tuple[str, ...] = ()
        answer: str | None = as_text(cells["blankAns"])
        if kind == "choice":
            choices = get_options(cells)
            answer = get_letter(as_text(cells["choiceAns"]), len(choices))
        elif str(answer).casefold() in EMPTY_VALUES:
            raise ValueError("a blank question has no `blankAns`")
        meta: dict[str, Any] = {name: as_text(cells[name]) for name in ("type", "subtype")}
        meta |= {"ansType": kind, "row": number}
        return [RowQuestion(number, as_text(cells["taskId"]), question, choices, answer, meta)]
