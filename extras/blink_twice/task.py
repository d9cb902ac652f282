"""BLINK-Twice (Ye et al., 2025): yes/no questions on misleading images, with its accuracies and CoT
score."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any

from looktwice.eval.scoring.groups import compute_group_metric, group_by
from looktwice.eval.scoring.verdict import Levels, Metric, PointScores, Samples, Scorer
from looktwice.eval.tasks.answer_cells import HIDDEN_CELLS
from looktwice.eval.tasks.base import Subset
from looktwice.eval.tasks.cells import Row, as_list, as_text
from looktwice.eval.tasks.image_cells import is_path, list_image_cells, read_picture_cell
from looktwice.eval.tasks.row_task import RowQuestion
from looktwice.eval.tasks.table_task import MappedTask
from looktwice.pipelines.picture import PictureError

CRITERIA = ("clues", "truth")
CRITERION_PATTERNS = {
    "clues": re.compile(r"\b(?:clues?|cues?)\b[^\d\n]{0,40}?(\d+(?:\.\d+)?)(?!\s*[-.\d])", re.I),
    "truth": re.compile(r"\b(?:truth|reality)\b[^\d\n]{0,40}?(\d+(?:\.\d+)?)(?!\s*[-.\d])", re.I),
}


def compute_cot_score(clues: float, truth: float) -> float:
    """Return the CoT score (supplement, "CoT Score"): the mean of visual clues seen (0..1) and
    truth inferred (0..1).

    Raises ValueError for a criterion outside 0..1.
    """
    for name, value in zip(CRITERIA, (clues, truth), strict=True):
        if not 0.0 <= value <= 1.0:
            raise ValueError(f"the criterion {name} must be in 0..1, found {value}")
    return (clues + truth) / 2


def parse_cot(text: str) -> tuple[float, float] | None:
    """Parse both criteria from a judge's reply, such as "Clues: 0.5" and "Truth: 1" on separate
    lines; None if either is missing or ambiguous."""
    values = []
    for name in CRITERIA:
        judged = CRITERION_PATTERNS[name].findall(text)
        if len(judged) != 1 or float(judged[0]) > 1:
            return None
        values.append(float(judged[0]))
    clues, truth = values
    return clues, truth


@dataclass(frozen=True)
class TwiceScorer(Scorer):
    """Scores two yes/no questions per image (`per_image`), and up to two images with their four
    questions per group (`per_group`).

    `no_acc` and `yes_acc` cover the questions with that correct answer; `q_acc` covers all
    questions (it reproduces all published rows); `q_acc_either` is the share of images with at
    least one right question (the supplement's definition); `i_acc` the share of images with both
    right; `g_acc` the share of groups of two images with all four right; `q_acc_naturalbench` the
    share of questions, among those asked about both images of a group, that are right on both.
    Incomplete images and groups are excluded from the metrics that they are too small for.
    """

    per_image: int = 2
    per_group: int = 4

    headlines = ("g_acc",)

    def metrics(self, scores: PointScores) -> Sequence[Metric]:
        """Return every accuracy that can be computed from the file's fields."""
        samples = scores.keyed_samples
        plain = compute_group_metric(
            "q_acc", "question", scores, {name: [name] for name in samples}
        )
        plain = replace(plain, clusters={})
        sides = []
        for metric, key in (("no_acc", "B"), ("yes_acc", "A")):
            units = {n: v for n, v in plain.units.items() if samples[n].answer == key}
            sides.append(replace(plain, name=metric, units=units))
        images = _filter_by_size(self.per_image, group_by(samples, "image"))
        groups = _filter_by_size(self.per_group, group_by(samples, "group"))
        grouped = {name: samples[name] for name in chain.from_iterable(groups.values())}
        twins = _filter_by_size(2, group_by(grouped, "group", "slot"))
        metrics = [
            *sides,
            plain,
            compute_group_metric("q_acc_either", "image", scores, images, any),
            compute_group_metric("i_acc", "image", scores, images),
            compute_group_metric("q_acc_naturalbench", "question pair", scores, twins),
            compute_group_metric("g_acc", "group", scores, groups),
        ]
        return list(filter(attrgetter("units"), metrics))

    def chance(self, samples: Samples) -> Levels:
        """Return the expected metrics of tossing a fair coin for every question."""
        return {
            "no_acc": 0.5,
            "yes_acc": 0.5,
            "q_acc": 0.5,
            "q_acc_either": 0.75,
            "i_acc": 0.5**self.per_image,
            "q_acc_naturalbench": 0.25,
            "g_acc": 0.5**self.per_group,
        }


def _filter_by_size(size: int, groups: Mapping[str, list[str]]) -> dict[str, list[str]]:
    return {name: members for name, members in groups.items() if len(members) == size}


COLUMN_GUESSES: Mapping[str, str] = {
    "question": "question questions query text",
    "answer": "answer answers gt gt_answer ground_truth label",
    "image": "image img image_path image_file file_name filename",
    "id": "id idx index question_id qid",
    "image_id": "image_id img_id image_name sample_id",
    "group": "group group_id pair_id base_id scene_id",
    "slot": "slot question_no question_index q_no",
    "category": "category illusion_type type class",
    "kind": "kind variant image_type is_adversarial adversarial",
}
"""Column names to try for each of our fields; the authors' files were not available for this list.
"""
CHOICES = ("Yes", "No")
KEY_LETTERS = {"a": "A", "yes": "A", "a yes": "A", "b": "B", "no": "B", "b no": "B"}
ERRATA = (
    (
        'the supplement calls Q-Acc "either question correct", but every published Q-Acc is plain'
        " accuracy, which is q_acc here; q_acc_either and NaturalBench's q_acc_naturalbench are"
        " also reported"
    ),
    "published I-Acc and G-Acc are not all shares of 448 images and 103 groups",
    "the table of one-pass and multi-turn results, headed Q-Acc, evidently shows No-Acc",
)


@dataclass(frozen=True)
class BlinkTwice(MappedTask):
    """Questions of BLINK-Twice from a parquet, JSONL, CSV or TSV file, or a folder of parquet
    files.

    `columns` maps our field names to the file's columns: question, answer and image are required,
    id, image_id, group, slot (which of an image's questions), category and kind are optional.
    Fields that `columns` omits are looked up under likely names; the error for a missing one lists
    all columns. A row may list several questions and answers. Answers "A) Yes", "yes", "B" ...
    become A (Yes) and B (No). Images are embedded, base64, or paths below `images`. Questions
    belong to the same image if `image_id` is the same, otherwise the image's path or, for embedded
    images, a hash of their pixels. The facts warn about metrics that the file does not allow.
    Columns with solutions (clues, true reality) reach no stage, since they would reveal the answer.
    Raises TaskError.
    """

    path: Path | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    images: Path | None = None
    file: str = ""
    split: str = "all"
    label_version: str = ""
    subset: Subset = Subset()
    hub: str = ""
    revision: str = ""

    errata = ERRATA
    scorer = TwiceScorer()
    _default_columns = COLUMN_GUESSES
    _required_fields = ("question", "answer", "image")
    _patterns = ("**",)

    @property
    def note(self) -> str:
        """A note on how the questions are grouped, what identifies an image, and which metrics
        cannot be computed."""
        images, groups = Counter[str](), Counter[str]()
        for question in self._selected_questions:
            images[question.meta["image"]] += 1
            if "group" in question.meta:
                groups[question.meta["group"]] += 1
        fours = list(groups.values()).count(self.scorer.per_group)
        notes = [f"{images.total()} questions on {len(images)} images, {fours} groups of four"]
        if self._image_id is None:
            notes.append("no column identifies images, so a hash of their pixels is used")
        if self.scorer.per_image not in images.values():
            notes.append(
                "warning: i_acc and q_acc_either cannot be computed, because no image has two"
                " questions"
            )
        if not fours:
            why = "no group has four questions" if groups else "no column identifies groups"
            notes.append(f"warning: g_acc cannot be computed, because {why}")
        return "; ".join(notes)

    @property
    def _text_columns(self) -> list[str]:
        return [*super()._text_columns, self._image_id or self._columns_by_field["image"][0]]

    @cached_property
    def _image_id(self) -> str | None:
        """The column that identifies an image, with its id or its path, or None."""
        column = self._columns_by_field["image"][0]
        _, first = next(iter(self.table.read_rows_at([0], [column])), (0, {column: None}))
        return next(
            iter(self._columns_by_field["image_id"]), column if is_path(first[column]) else None
        )

    def _questions(self, number: int, cells: Row) -> Iterator[RowQuestion]:
        """Yield the question of a row, or all questions of a row that lists several with as many
        answers."""
        row = self._get_first_cells(cells)
        questions, answers = as_list(row["question"]), as_list(row["answer"])
        if not questions or len(questions) != len(answers):
            raise ValueError(f"it has {len(questions)} questions but {len(answers)} answers")
        image = as_text(cells[self._image_id]) if self._image_id else self._hash_pixels(cells)
        image = image or f"row {number}"
        base = as_text(row.get("id")) or f"row {number}"
        texts = {name: as_text(row.get(name)) for name in ("group", "category", "kind")}
        for place, (question, answer) in enumerate(zip(questions, answers, strict=True), 1):
            words = as_text(question).strip()
            if not words:
                raise ValueError("the question is empty")
            self._repeat_counts[image] += 1
            slot = as_text(row.get("slot")) or str(self._repeat_counts[image])
            meta: dict[str, Any] = {name: text for name, text in texts.items() if text}
            meta |= {"row": number, "slot": slot, "image": image}
            identifier = base if len(questions) == 1 else f"{base}_q{place}"
            yield RowQuestion(number, identifier, words, CHOICES, _parse_key(answer), meta)

    def _hash_pixels(self, cells: Row) -> str:
        """Return the sha256 of the decoded images of a row; "" if one is unreadable, so that the
        row counts as a separate image."""
        digest = hashlib.sha256()
        try:
            for cell in list_image_cells(cells, self._image_columns):
                pixels = read_picture_cell(cell, "image", self._files).pixels
                digest.update(str(pixels.shape).encode() + pixels.tobytes())
        except PictureError:
            return ""
        return digest.hexdigest()


def _parse_key(cell: Any) -> str | None:
    """Return A for yes, B for no, None for hidden. Raises ValueError for anything else."""
    if isinstance(cell, bool):
        return "A" if cell else "B"
    text = as_text(cell).strip().casefold()
    if text in HIDDEN_CELLS:
        return None
    key = KEY_LETTERS.get(" ".join(re.findall(r"[a-z]+", text)))
    if key is None:
        raise ValueError(f"the answer {as_text(cell)!r} is neither A) Yes nor B) No")
    return key
