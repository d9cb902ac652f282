"""Do You See Me (Kanade and Ganu, 2025) from its official folders: a CSV and images for each
subtask, 2D and 3D."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from looktwice.eval.tasks.answer_cells import read_answer_key, read_choice_texts
from looktwice.eval.tasks.base import AbsentTask, RowErrors, Subset, TaskError, suggest_among
from looktwice.eval.tasks.cells import Row, as_text
from looktwice.eval.tasks.files import Files, open_files, open_picture
from looktwice.eval.tasks.row_task import Pictures, Questions, RowQuestion
from looktwice.eval.tasks.table_files import TextTable, require_columns
from looktwice.eval.tasks.table_task import MappedTask, TableTask
from looktwice.extras.do_you_see_me.subtasks import (
    ROLES,
    SUBTASKS,
    JointScorer,
    Subtask,
    SweepScorer,
    read_controls,
    standardize_answer,
)

TABLE_FILE = "dataset_info.csv"
COUNTING_NOTE = "Rows and columns are counted from 0."


@dataclass(frozen=True)
class DoYouSeeMe(TableTask):
    """The subtask `name` of `kind` 2D or 3D, from `path`: the whole tree, one dimension's folder, a
    subtask's folder, or a zip.

    Names in 2D: shape_discrimination, joint_shape_color, letter_disambiguation, form_constancy,
    visual_spatial, figure_ground, visual_closure; in 3D the first five. `sweep` becomes control
    parameters in `meta`, by which accuracy is sliced and tested. Questions that the CSV lacks are
    modelled on the README's samples. Listed `.svg` names are read as `.png`. If `coordinates` is
    "said", questions with 0-based coordinates state that they count from 0. Samples with a missing
    image fail or, if `missing` is "leave_out", are left out and counted in the facts; `blind` asks
    without any image, which measures the accuracy of guessing. `subset` selects some of the
    questions. Raises TaskError.
    """

    name: str
    path: Path
    kind: Literal["2D", "3D"] = "2D"
    missing: Literal["fail", "leave_out"] = "fail"
    blind: bool = False
    coordinates: Literal["as_published", "said"] = "as_published"
    subset: Subset = Subset()

    units = "lines"

    def __post_init__(self) -> None:
        if self.kind not in SUBTASKS:
            raise TaskError(f"kind must be 2D or 3D, found {self.kind!r}")
        names = SUBTASKS[self.kind]
        if self.name not in names:
            raise TaskError(
                f"no {self.kind} subtask is named {self.name!r}{suggest_among(self.name, names)}"
            )

    @property
    def subtask(self) -> Subtask:
        """The description of the subtask."""
        return SUBTASKS[self.kind][self.name]

    @property
    def split(self) -> str:
        """The only split of the dimension."""
        return f"all ({self.kind})"

    @property
    def errata(self) -> tuple[str, ...]:
        """The known errata of the subtask."""
        return self.subtask.errata

    @property
    def note(self) -> str:
        """A note if images are withheld or the wording of the question is looktwice's."""
        notes = ["asked without images"] if self.blind else []
        notes += (
            ["the question is worded by looktwice: the CSV has none"]
            if self.subtask.question
            else []
        )
        return "; ".join(notes)

    @property
    def scorer(self) -> SweepScorer:
        """Exact match, and accuracy along the control parameters."""
        shape = ("shape",) if self.name == "visual_closure" else ()
        return SweepScorer(
            self.name, self.kind, self.subtask.form, (*self.subtask.controls, *shape)
        )

    @cached_property
    def _files(self) -> Files:
        return open_files(self.path)

    @cached_property
    def _folder(self) -> str:
        """The subtask's folder within the files; empty if `path` is that folder. Raises
        AbsentTask."""
        names = self.subtask.folders
        if folder := self._find_folder(self.kind, names):
            return folder
        if Path(self.path).name in names and self._files.has(TABLE_FILE):
            return ""
        parts = [(kind, name) for kind, subtasks in SUBTASKS.items() for name in subtasks]
        found = [
            f"{name} ({kind})"
            for kind, name in parts
            if self._find_folder(kind, SUBTASKS[kind][name].folders)
        ]
        raise AbsentTask(
            f"{self.path} has no {names[0]}/{TABLE_FILE}; `path` must be the folder of"
            " 2D_DoYouSeeMe"
            " and 3D_DoYouSeeMe, one of these, or a zip of them",
            "Do You See Me",
            found,
            len(parts),
        )

    def _find_folder(self, kind: str, names: Sequence[str]) -> str:
        other = f"{'3D' if kind == '2D' else '2D'}_DoYouSeeMe"
        for entry in (
            entry for name in names for entry in self._files.find_by_suffix(f"{name}/{TABLE_FILE}")
        ):
            if other not in PurePosixPath(entry).parts:  # a zip may hold both dimensions
                return entry.removesuffix(TABLE_FILE)
        return ""

    def require_present(self) -> None:
        """Raise AbsentTask if `path` has no folder of this subtask."""
        self._folder  # noqa: B018  looks for it

    @cached_property
    def table(self) -> TextTable:
        """The table whose rows are the questions. Raises TaskError."""
        name = f"{self._folder}{TABLE_FILE}"
        table = TextTable(Path(name), "csv", self._files.read(name))
        needed = ["filename", "answer", "sweep"]
        needed += [] if self.subtask.question else ["question"]
        require_columns(name, needed, table.columns)
        return table

    @property
    def _text_columns(self) -> tuple[str, ...]:
        return self.table.columns

    @cached_property
    def _left_out(self) -> RowErrors:
        return RowErrors(f"{self._folder}{TABLE_FILE}", self.units)

    def _cells(self) -> Iterator[tuple[int, Any]]:
        return (
            (number + 2, cells) for number, cells in super()._cells()
        )  # line numbers of the file

    def _questions(self, number: int, cells: Mapping[str, str]) -> Questions:
        texts = {name: cell.strip() for name, cell in cells.items()}
        filename, subtask = texts["filename"], self.subtask
        answer = standardize_answer(texts["answer"], subtask.form)
        if not filename or "/" in filename or "\\" in filename:
            raise ValueError(f"filename must be a file in this folder, found {filename!r}")
        if answer is None:
            raise ValueError(
                f"{filename}: the answer {texts['answer']!r} does not have the form {subtask.form}"
            )
        question = texts.get("question") or subtask.question
        if not question:
            raise ValueError(f"{filename} has no question")
        spatial = self.name == "visual_spatial"
        if spatial and self.kind == "3D" and self.coordinates == "said":
            question = f"{question} {COUNTING_NOTE}"
        stem = PurePosixPath(filename).stem
        self._repeat_counts[stem] += 1
        identifier = f"{self.kind}_{self.name}_{stem}"
        if self.kind == "2D" and (spatial or self.name == "joint_shape_color"):
            identifier += f"_q{self._repeat_counts[stem]}"  # one image has several questions
        meta = {"image": stem} | read_controls(subtask, cells["sweep"], filename)
        meta |= {"sweep": cells["sweep"], "subtask": self.name, "kind": self.kind}
        meta["prompt"] = question
        if spatial:
            meta["coordinates"] = "from 0" if self.kind == "3D" else "from 1"
        image = f"{stem}.png" if filename.endswith(".svg") else filename
        images = () if self.blind else (f"{self._folder}{image}",)
        return [RowQuestion(number, identifier, question, (), answer, meta, images)]

    def _filter_usable(self, questions: Questions, total: int) -> Questions:
        """Return the questions whose images exist, or all if samples with a missing image fail."""
        questions = super()._filter_usable(questions, total)
        if self.missing == "fail":
            return questions
        present = []
        for question in questions:
            absent = [name for name in question.images if not self._files.has(name)]
            if absent:
                self._left_out.add(question.number, f"there is no image {absent[0]}")
            else:
                present.append(question)
        if not present:
            raise TaskError(
                f"{self.path}: none of the {total} images of {self.name} exists;"
                f" the first is {questions[0].images[0]}"
            )
        return present

    def _pictures(self, question: RowQuestion, cells: Row) -> Pictures:
        return tuple(open_picture(self._files, name) for name in question.images)


REQUIRED_COLUMNS = (
    "id",
    "image",
    *(f"{role}_{word}" for role in ROLES for word in ("question", "answer")),
)
DEFAULT_COLUMNS = {
    name: name for name in (*REQUIRED_COLUMNS, *(f"{role}_choices" for role in ROLES))
}


@dataclass(frozen=True)
class JointQuestions(MappedTask):
    """Two questions per image, asked separately, from a table (.jsonl, .csv, .tsv, .parquet).

    Its columns are id, image, perception_question, perception_answer, reasoning_question,
    reasoning_answer and, optionally, perception_choices and reasoning_choices; `columns` maps these
    to the table's own names. The samples are `<id>/perception` and `<id>/reasoning`. The authors'
    own 150 images are not published. Raises TaskError.
    """

    path: Path
    columns: Mapping[str, str] = field(default_factory=dict)
    images: Path | None = None
    split: str = ""
    label_version: str = ""
    subset: Subset = Subset()

    scorer = JointScorer()
    _required_fields = REQUIRED_COLUMNS
    _default_columns = DEFAULT_COLUMNS

    def _questions(self, number: int, cells: Row) -> Iterator[RowQuestion]:
        """Yield both questions of an image."""
        row = self._get_first_cells(cells)
        identifier = as_text(row["id"])
        for role in ROLES:
            words = as_text(row[f"{role}_question"])
            if not identifier or not words.strip():
                raise ValueError(f"id and {role}_question must not be empty")
            choices = read_choice_texts(row, [f"{role}_choices"])
            answer = read_answer_key(row[f"{role}_answer"], choices)
            meta = {"image": identifier, "role": role, "row": number}
            yield RowQuestion(number, f"{identifier}/{role}", words, choices, answer, meta)
