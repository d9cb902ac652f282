"""BLINK (Fu et al., 2024), read from its official parquet files, one folder for each of its
fourteen tasks, and its total scores."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from string import ascii_uppercase

from looktwice.eval.scoring.verdict import Scorer, Total
from looktwice.eval.tasks.base import (
    AbsentTask,
    RowErrors,
    Subset,
    TaskError,
    suggest_among,
    suggest_name,
)
from looktwice.eval.tasks.cells import Row
from looktwice.eval.tasks.image_cells import make_broken_picture
from looktwice.eval.tasks.row_task import Pictures, Questions, RowQuestion
from looktwice.eval.tasks.table_files import ParquetTable, digest_files, require_columns
from looktwice.eval.tasks.table_task import TableTask
from looktwice.pipelines.picture import Picture

TASK_NAMES = (
    "Art_Style",
    "Counting",
    "Forensic_Detection",
    "Functional_Correspondence",
    "IQ_Test",
    "Jigsaw",
    "Multi-view_Reasoning",
    "Object_Localization",
    "Relative_Depth",
    "Relative_Reflectance",
    "Semantic_Correspondence",
    "Spatial_Relation",
    "Visual_Correspondence",
    "Visual_Similarity",
)
MACRO_PARTS = dict.fromkeys(TASK_NAMES, "accuracy")
MACRO_PARTS_WITHOUT_REFLECTANCE = {
    name: metric for name, metric in MACRO_PARTS.items() if name != "Relative_Reflectance"
}


@dataclass(frozen=True)
class BlinkScorer(Scorer):
    """Scores the task `name` by plain accuracy. The official total is `blink_macro`; VLMEvalKit's
    is `blink_micro`."""

    name: str

    suite = "BLINK"
    totals = (
        Total("blink_macro", MACRO_PARTS),
        Total("blink_micro", MACRO_PARTS, pooled=True),
        Total("blink_macro_without_reflectance", MACRO_PARTS_WITHOUT_REFLECTANCE),
        Total("blink_micro_without_reflectance", MACRO_PARTS_WITHOUT_REFLECTANCE, pooled=True),
    )

    headlines = ("blink_macro",)


TEXT_COLUMNS = ("idx", "question", "sub_task", "choices", "answer", "prompt")
IMAGE_COLUMNS = ("image_1", "image_2", "image_3", "image_4")
ERRATA = {
    "Relative_Reflectance": (
        (
            "val labels were matched to the wrong questions until the release of 2025-09-03; the"
            " offline key val_answers.json of 2024 still has the wrong ones, so scores on the two"
            " keys cannot be compared"
        ),
    )
}


@dataclass(frozen=True)
class Blink(TableTask):
    """The task `name` of BLINK from PATH/NAME/SPLIT-*-of-*.parquet, read a few rows at a time.

    `path` is the folder of all tasks, `split` is val or test. Instead of `path`, `hub` names a data
    set of the Hugging Face hub (BLINK-Benchmark/BLINK) and `revision` its commit; `subset` selects
    some of the questions.

    `question` and `choices` are the columns of these names; the official text, which already ends
    with the lettered choices, is `meta["prompt"]`, verbatim. The official runner also prepends a
    disclaimer to the prompts of Art_Style, Forensic_Detection and Jigsaw: that text is in no column
    and is left out here. The column `explanation` is left out because it reveals answers.
    `meta["row"]` counts from 0 through all files. The answer "(B)" becomes "B", and "hidden" None.
    Raises TaskError.
    """

    path: Path | None = None
    name: str = ""
    split: str = "val"
    subset: Subset = Subset()
    hub: str = ""
    revision: str = ""

    every_row_required = True

    def __post_init__(self) -> None:
        if self.path is None:
            if self.name not in TASK_NAMES:
                raise TaskError(
                    f"BLINK has no task {self.name!r}{suggest_among(self.name, TASK_NAMES)}"
                )
            return
        folder = Path(self.path)
        if not folder.is_dir():
            raise TaskError(
                f"there is no folder {folder}; `path` must be the folder of BLINK's task folders"
            )
        present = self._folder_names
        if self.name not in (*present, *TASK_NAMES):
            hint = suggest_name(self.name, {*TASK_NAMES, *present})
            raise TaskError(
                f"{folder}: BLINK has no task {self.name!r}{hint} The folder has"
                f" {', '.join(present) or 'no folders'}"
            )

    @property
    def _folder_names(self) -> list[str]:
        """The names of the folders in `path`."""
        return sorted(entry.name for entry in Path(self.path or "").iterdir() if entry.is_dir())

    def require_present(self) -> None:
        """Raise AbsentTask if `path` has no folder of this task."""
        if self.path is None or self.name in (present := self._folder_names):
            return
        raise AbsentTask(
            f"{self.path}: BLINK's task {self.name} is missing. The folder has"
            f" {', '.join(present) or 'no folders'}; to drop the task"
            " from a study, type `tasks.NAME=null`",
            "BLINK",
            [name for name in TASK_NAMES if name in present],
            len(TASK_NAMES),
        )

    @property
    def errata(self) -> tuple[str, ...]:
        """The known errata of the task."""
        return ERRATA.get(self.name, ())

    @property
    def scorer(self) -> BlinkScorer:
        """Plain accuracy, and BLINK's totals."""
        return BlinkScorer(self.name)

    _text_columns = TEXT_COLUMNS
    _image_columns = IMAGE_COLUMNS

    @property
    def _patterns(self) -> Sequence[str]:
        return [f"{self.name}/{self.split}-*.parquet"]

    @cached_property
    def table(self) -> ParquetTable:
        """The table whose rows are the questions. Raises TaskError."""
        self.require_present()
        folder = self._location[0] / self.name
        files = sorted(folder.glob(f"{self.split}-*-of-*.parquet"))
        if not files:
            splits = sorted({file.name.split("-")[0] for file in folder.glob("*-*-of-*.parquet")})
            raise TaskError(
                f"{folder} has no {self.split}-*-of-*.parquet; the splits in it are:"
                f" {', '.join(splits) or 'none'}"
            )
        total = files[0].stem.split("-of-")[-1]
        if not total.isdecimal() or len(files) != int(total):
            raise TaskError(
                f"{folder} has {len(files)} of {total} files of the split {self.split}; download"
                " the others"
            )
        table = ParquetTable(tuple(files))
        require_columns(files[0], (*TEXT_COLUMNS, *IMAGE_COLUMNS), table.columns)
        return table

    @cached_property
    def _sha(self) -> str:
        return hashlib.sha256(digest_files(self.table.files)).hexdigest()

    @cached_property
    def _left_out(self) -> RowErrors:
        files = self.table.files
        return RowErrors(files[0] if len(files) == 1 else files[0].parent)

    def _questions(self, number: int, cells: Row) -> Questions:
        texts = ("idx", "question", "sub_task", "prompt")
        if wrong := [name for name in texts if not cells[name] or not isinstance(cells[name], str)]:
            raise ValueError(f"expected a non-empty string in {' and '.join(wrong)}")
        identifier, choices, answer = cells["idx"], cells["choices"], cells["answer"]
        if not isinstance(choices, list) or len(choices) < 2 or None in choices:
            raise ValueError(
                f"{identifier} needs at least two strings as choices, found {choices!r}"
            )
        keys = {f"({letter})": letter for letter in ascii_uppercase[: len(choices)]}
        if answer not in (*keys, "hidden"):
            raise ValueError(
                f"{identifier} has the answer {answer!r}; with these choices it must be"
                f" {', '.join(keys)} or hidden"
            )
        meta = {"subtask": cells["sub_task"], "prompt": cells["prompt"], "row": number}
        question, key = cells["question"], keys.get(answer)
        return [RowQuestion(number, identifier, question, tuple(choices), key, meta)]

    def _pictures(self, question: RowQuestion, cells: Row) -> Pictures:
        """Return the images up to the last column that has one, and at least the image of the first
        column: a missing image before another one must fail."""
        end = max(
            (end for end, name in enumerate(IMAGE_COLUMNS, 1) if cells[name] is not None), default=1
        )
        pictures = []
        for column in IMAGE_COLUMNS[:end]:
            name, cell = f"{question.id} {column}", cells[column]
            if cell and cell["bytes"]:
                pictures.append(Picture.encoded(cell["bytes"], name))
            else:
                why = (
                    "the parquet file has no bytes for this image; download a file with embedded"
                    " images"
                )
                pictures.append(make_broken_picture(name, why))
        return tuple(pictures)
