"""BLINK (Fu et al., 2024) from its official parquet files, one folder for each of its fourteen
tasks, and totals."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from string import ascii_uppercase
from typing import Any, ClassVar

from looktwice.eval.scoring.benchmark import Scorer, Total
from looktwice.eval.tasks.base import Facts, Subset, TaskError
from looktwice.eval.tasks.cells import broken_picture
from looktwice.eval.tasks.row_errors import RowErrors, suggest_name
from looktwice.eval.tasks.table_files import ParquetTable
from looktwice.eval.tasks.table_task import TableQuestion, TableTask
from looktwice.pipelines.config.spec import spec
from looktwice.pipelines.picture import Picture

NAMES = (
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
ALL = dict.fromkeys(NAMES, "accuracy")
WITHOUT_REFLECTANCE = {
    name: metric for name, metric in ALL.items() if name != "Relative_Reflectance"
}


@dataclass(frozen=True)
class BlinkScorer(Scorer):
    """The task `name`: plain accuracy. The official total is `blink_macro`; VLMEvalKit's is
    `blink_micro`."""

    name: str

    suite: ClassVar[str] = "BLINK"
    totals: ClassVar[tuple[Total, ...]] = (
        Total("blink_macro", ALL),
        Total("blink_micro", ALL, pooled=True),
        Total("blink_macro_without_reflectance", WITHOUT_REFLECTANCE),
        Total("blink_micro_without_reflectance", WITHOUT_REFLECTANCE, pooled=True),
    )

    headlines: ClassVar[tuple[str, ...]] = ("blink_macro",)


WORDS = ("idx", "question", "sub_task", "choices", "answer", "prompt")
IMAGES = ("image_1", "image_2", "image_3", "image_4")
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

    `path` is the folder of all tasks, `split` is val or test.

    `question` and `choices` are the columns of these names; the official text, which already ends
    with the lettered choices, is `meta["prompt"]`, verbatim. The official runner also puts a
    disclaimer of its own before the prompts of Art_Style, Forensic_Detection and Jigsaw: that text
    is in no column and is left out here. The column `explanation` is left out because it gives
    answers away. `meta["row"]` counts from 0 through all files. The key "(B)" becomes "B", and
    "hidden" None. Raises TaskError.
    """

    path: Path
    name: str
    split: str = "val"
    subset: Subset = field(default_factory=Subset)

    def __post_init__(self) -> None:
        folder = Path(self.path)
        if not folder.is_dir():
            raise TaskError(
                f"there is no folder {folder}; `path` is the folder that holds BLINK's task folders"
            )
        present = sorted(entry.name for entry in folder.iterdir() if entry.is_dir())
        if self.name in present:
            return
        hint = suggest_name(self.name, {*NAMES, *present} - {self.name})
        known = (
            f"BLINK's {self.name} is not in it."
            if self.name in NAMES
            else f"no task is named {self.name!r}{hint}"
        )
        raise TaskError(f"{folder}: {known} It has {', '.join(present) or 'no folders'}")

    @property
    def facts(self) -> Facts:
        """The split, the sha256 of its files as label version (the files name none), and the known
        errata."""
        digest = hashlib.sha256()
        for file in self._parts:
            with file.open("rb") as source:
                digest.update(hashlib.file_digest(source, "sha256").digest())
        sha, own = digest.hexdigest(), spec(BlinkScorer(self.name))
        errata = ERRATA.get(self.name, ())
        return Facts(
            self.split,
            f"as in the file, sha256 {sha[:12]}",
            errata,
            revision=f"sha256 {sha}",
            scorer=own,
        )

    @property
    def _word_columns(self) -> tuple[str, ...]:
        return WORDS

    @property
    def _image_columns(self) -> tuple[str, ...]:
        return IMAGES

    @cached_property
    def _parts(self) -> list[Path]:
        folder = Path(self.path) / self.name
        files = sorted(folder.glob("*-*-of-*.parquet"))
        found = [file for file in files if file.name.startswith(f"{self.split}-")]
        if not found:
            splits = sorted({file.name.split("-")[0] for file in files})
            raise TaskError(
                f"{folder} has no {self.split}-*-of-*.parquet; it has the splits"
                f" {', '.join(splits) or 'none'}"
            )
        total = found[0].stem.split("-of-")[-1]
        if not total.isdecimal() or len(found) != int(total):
            raise TaskError(
                f"{folder}: {len(found)} of {total} files of the split {self.split}; fetch the"
                " others"
            )
        return found

    @cached_property
    def _table(self) -> ParquetTable:
        table = ParquetTable(tuple(self._parts))
        if missing := [name for name in (*WORDS, *IMAGES) if name not in table.columns]:
            raise TaskError(
                f"{self._parts[0]} lacks the columns {', '.join(missing)}; it has"
                f" {', '.join(table.columns)}"
            )
        return table

    @cached_property
    def _left_out(self) -> RowErrors:
        return RowErrors(self._parts[0] if len(self._parts) == 1 else self._parts[0].parent)

    def _check_left_out(self, total: int) -> None:
        """The official files are whole: no row may be left out."""
        self._left_out.raise_any()
        super()._check_left_out(total)

    def _questions(self, number: int, cells: Mapping[str, Any]) -> list[TableQuestion]:
        texts = [name for name in WORDS if name not in ("choices", "answer")]
        if wrong := [name for name in texts if not cells[name] or not isinstance(cells[name], str)]:
            raise ValueError(f"{', '.join(wrong)}: no text, but every question needs one")
        identifier, choices, answer = cells["idx"], cells["choices"], cells["answer"]
        if (
            not isinstance(choices, list)
            or len(choices) < 2
            or not all(isinstance(text, str) for text in choices)
        ):
            raise ValueError(f"{identifier} needs at least two texts as choices, found {choices!r}")
        keys = {f"({letter})": letter for letter in ascii_uppercase[: len(choices)]}
        if answer not in (*keys, "hidden"):
            can_be = ", ".join(keys)
            raise ValueError(
                f"{identifier} has the answer {answer!r}; with its choices it can be {can_be} or"
                " hidden"
            )
        meta = {"subtask": cells["sub_task"], "prompt": cells["prompt"], "row": number}
        return [
            TableQuestion(
                number, identifier, cells["question"], tuple(choices), keys.get(answer), meta
            )
        ]

    def _pictures(self, question: TableQuestion, cells: Mapping[str, Any]) -> tuple[Picture, ...]:
        """The columns up to the last image, at least the first: one that is missing before another
        must fail."""
        end = max((end for end, name in enumerate(IMAGES, 1) if cells[name] is not None), default=1)
        return tuple(_picture(cells[name], f"{question.id} {name}") for name in IMAGES[:end])


def _picture(cell: Any, name: str) -> Picture:
    if isinstance(cell, Mapping) and cell.get("bytes"):
        return Picture.encoded(cell["bytes"], name)
    return broken_picture(
        name, "the parquet file holds no bytes for it; fetch a file with embedded images"
    )
