"""BLINK-Twice (Ye et al., 2025): yes/no questions on images that mislead, and its accuracies and CoT score."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from looktwice.eval.records.records import SampleRow
from looktwice.eval.scoring.benchmark import Metric, Scorer
from looktwice.eval.scoring.comparison import comparable_values
from looktwice.eval.scoring.groups import group_by, group_metric, samples_with_key
from looktwice.eval.scoring.verdict import PointScores
from looktwice.eval.tasks.base import Facts, Subset, TaskError
from looktwice.eval.tasks.cells import HIDDEN, as_list, as_text, image_cells, picture_from_cell
from looktwice.eval.tasks.files import DataLocation, Files, locate_data, open_files
from looktwice.eval.tasks.row_errors import LeftOut, nearest
from looktwice.eval.tasks.table_files import TableFile, open_table
from looktwice.pipelines.config.spec import spec
from looktwice.pipelines.sample import Item, Sample

CRITERIA = ("clues", "truth")
_JUDGED = {
    "clues": re.compile(r"\b(?:clues?|cues?)\b[^\d\n]{0,40}?(\d+(?:\.\d+)?)(?!\s*[-.\d])", re.I),
    "truth": re.compile(r"\b(?:truth|reality)\b[^\d\n]{0,40}?(\d+(?:\.\d+)?)(?!\s*[-.\d])", re.I),
}


def cot_score(clues: float, truth: float) -> float:
    """The CoT score (supplement, "CoT Score"): visual clues seen (0..1) and truth inferred (0..1), their mean.

    Raises ValueError for a criterion outside 0..1.
    """
    for name, value in zip(CRITERIA, (clues, truth), strict=True):
        if not 0.0 <= value <= 1.0:
            raise ValueError(f"the criterion {name} lies in 0..1, found {value}")
    return (clues + truth) / 2


def judged_cot(text: str) -> tuple[float, float] | None:
    """Both criteria from a judge's words, such as "Clues: 0.5" and "Truth: 1" on lines of their own; else None."""
    found = [_JUDGED[name].findall(text) for name in CRITERIA]
    if any(len(values) != 1 for values in found):
        return None
    clues, truth = (float(values[0]) for values in found)
    return (clues, truth) if max(clues, truth) <= 1.0 else None


@dataclass(frozen=True)
class TwiceScorer(Scorer):
    """Two yes/no questions per image, up to two images per group.

    `no_acc` and `yes_acc` are over the questions with that key, `q_acc` is over all questions (which every published
    row equals), `q_acc_either` over images with one right question at least (the supplement's words), `i_acc` over
    images with both right, `g_acc` over groups of two images with all four right, and `q_acc_naturalbench` over
    questions that are asked of both images of a group and are right on both. Incomplete images and groups are not
    counted in what they are too small for.
    """

    per_image: int = 2
    per_group: int = 4

    def metrics(self, scores: PointScores) -> Sequence[Metric]:
        """Every accuracy that the files' fields allow."""
        samples = samples_with_key(scores)
        failed = frozenset(name for name in samples if name not in comparable_values(scores))
        each = {name: [name] for name in samples}
        plain = group_metric("q_acc", "question", scores, each).units
        found = [
            Metric(metric, {n: v for n, v in plain.items() if samples[n].answer == key}, "question", failed)
            for metric, key in (("no_acc", "B"), ("yes_acc", "A"))
        ]
        found.append(Metric("q_acc", plain, "question", failed))
        images = {name: held for name, held in group_by(samples, "image").items() if len(held) == self.per_image}
        groups = {name: held for name, held in group_by(samples, "group").items() if len(held) == self.per_group}
        inside = {name: samples[name] for held in groups.values() for name in held}
        twins = {name: held for name, held in group_by(inside, "group", "slot").items() if len(held) == 2}
        found.append(group_metric("q_acc_either", "image", scores, images, any))
        found.append(group_metric("i_acc", "image", scores, images))
        found.append(group_metric("q_acc_naturalbench", "question pair", scores, twins))
        found.append(group_metric("g_acc", "group", scores, groups))
        return [entry for entry in found if entry.units]

    def chance(self, samples: Mapping[str, SampleRow]) -> Mapping[str, float]:
        """Of a fair coin for every question."""
        return {
            "no_acc": 0.5,
            "yes_acc": 0.5,
            "q_acc": 0.5,
            "q_acc_either": 0.75,
            "i_acc": 0.5**self.per_image,
            "q_acc_naturalbench": 0.25,
            "g_acc": 0.5**self.per_group,
        }


GUESSES: Mapping[str, tuple[str, ...]] = {
    "question": ("question", "questions", "query", "text"),
    "answer": ("answer", "answers", "gt", "gt_answer", "ground_truth", "label"),
    "image": ("image", "img", "image_path", "image_file", "file_name", "filename"),
    "id": ("id", "idx", "index", "question_id", "qid"),
    "image_id": ("image_id", "img_id", "image_name", "sample_id"),
    "group": ("group", "group_id", "pair_id", "base_id", "scene_id"),
    "slot": ("slot", "question_no", "question_index", "q_no"),
    "category": ("category", "illusion_type", "type", "class"),
    "kind": ("kind", "variant", "image_type", "is_adversarial", "adversarial"),
}
"""The names that are tried for each of our words; the authors' own could not be seen when this was written."""
NEEDED = ("question", "answer", "image")
CHOICES = ("Yes", "No")
ERRATA = (
    'the supplement calls Q-Acc "either question correct"; every published Q-Acc is plain accuracy, which is q_acc '
    "here; q_acc_either and NaturalBench's q_acc_naturalbench stand beside it",
    "published I-Acc and G-Acc are not all shares of 448 images and 103 groups",
    "the table of one-pass and multi-turn results, headed Q-Acc, evidently shows No-Acc",
)


@dataclass(frozen=True)
class BlinkTwice:
    """Questions from a parquet, JSONL, CSV or TSV file, or a folder of parquet files.

    `columns` maps our words to the file's columns: question, answer and image must be found, id, image_id, group,
    slot (which of an image's questions), category and kind may be. What it leaves out is looked for under likely
    names; the error for what is not found lists all columns. A cell of questions and one of answers may be lists.
    Keys "A) Yes", "yes", "B" ... become A (Yes) and B (No). Images are embedded, base64, or paths below `images`.
    Columns with solutions (clues, true reality) reach no stage: they would give the answer away. Raises TaskError.
    """

    path: Path | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    images: Path | None = None
    file: str = ""
    split: str = "all"
    label_version: str = ""
    subset: Subset = field(default_factory=Subset)
    hub: str = ""
    revision: str = ""

    def __post_init__(self) -> None:
        if unknown := [name for name in self.columns if name not in GUESSES]:
            raise TaskError(f"columns: {unknown[0]!r} is no word of ours{nearest(unknown[0], GUESSES)}")
        if (self.path is None) == (not self.hub):
            raise TaskError("say where the data lie: either `path` or `hub`, and not both")

    @property
    def facts(self) -> Facts:
        """The sha256 of the file, the errata, how the questions are grouped, and what was left out."""
        rows, sha = self._rows, self._source.sha
        images = Counter(row["meta"].get("image") for row in rows)
        groups = Counter(row["meta"].get("group") for row in rows if row["meta"].get("group"))
        note = f"{len(rows)} questions on {len(images)} images, {sum(n == 4 for n in groups.values())} groups of four"
        note += "" if groups else "; no column names groups, so there is no g_acc"
        version = self.label_version or f"as in the file, sha256 {sha[:12]}"
        revision = self._place[1] or f"sha256 {sha}"
        return Facts(self.split, version, ERRATA, note, revision, self._left_out.sentences, spec(TwiceScorer()))

    def __len__(self) -> int:
        return len(self._chosen)

    def __iter__(self) -> Iterator[Item]:
        """The items in their order."""
        wanted: dict[int, list[Mapping[str, Any]]] = {}
        for place in self._chosen:
            wanted.setdefault(self._rows[place]["number"], []).append(self._rows[place])
        column = self._map["image"]
        for number, cells in self._source.rows_at(sorted(wanted), [column]):
            found = image_cells(cells, [column]) or [None]
            for row in wanted[number]:
                images = tuple(picture_from_cell(cell, f"{row['id']} image", self._files) for cell in found)
                yield Item(Sample(row["id"], row["question"], images, CHOICES, meta=row["meta"]), row["answer"])

    @cached_property
    def _place(self) -> DataLocation:
        return locate_data(self.path, self.hub, self.revision, ["**"])

    @cached_property
    def _source(self) -> TableFile:
        place, _ = self._place
        return open_table(place / self.file if self.file else place)

    @cached_property
    def _files(self) -> Files:
        place, _ = self._place
        return open_files(self.images if self.images is not None else place if place.is_dir() else place.parent)

    @cached_property
    def _left_out(self) -> LeftOut:
        return LeftOut(self.file or self._place[0].name)

    @cached_property
    def _map(self) -> dict[str, str]:
        there = self._source.columns
        by_case = {column.casefold().replace(" ", "_"): column for column in there}
        found = {}
        for name, guesses in GUESSES.items():
            if name in self.columns:
                found[name] = self.columns[name]
            elif guess := next((by_case[guess] for guess in guesses if guess in by_case), ""):
                found[name] = guess
        said = f"the columns are {', '.join(there)}"
        if wrong := [column for column in found.values() if column not in there]:
            raise TaskError(f"there is no column {wrong[0]!r}{nearest(wrong[0], there)} {said}")
        if missing := [name for name in NEEDED if name not in found]:
            raise TaskError(
                f"no column was found for {', '.join(missing)}; {said}. Say which: columns: {{{missing[0]}: COLUMN}}"
            )
        return found

    @cached_property
    def _rows(self) -> list[dict[str, Any]]:
        self._left_out.begin()
        words = {name: column for name, column in self._map.items() if name != "image"}
        if "image_id" not in words and self._image_is_text:
            words["image_id"] = self._map["image"]
        rows, total = [], 0
        slots: Counter[str] = Counter()
        for number, cells in enumerate(self._source.rows(list(dict.fromkeys(words.values())))):
            total += 1
            row = {name: cells[column] for name, column in words.items()}
            try:
                found = _row_questions(number, row, slots)
            except ValueError as exc:
                self._left_out.add(number, str(exc))
                continue
            if not any(self._left_out.repeats(number, one["id"]) for one in found):
                rows += found
        self._left_out.check(total)
        return rows

    @property
    def _image_is_text(self) -> bool:
        """Whether images are paths, which then also tell one image from another."""
        first = next(iter(self._source.rows_at([0], [self._map["image"]])), (0, {}))[1].get(self._map["image"])
        return isinstance(first, str) and len(first) < 512

    @cached_property
    def _chosen(self) -> list[int]:
        rows = [(row["id"], {**row["meta"], "answer": row["answer"]}) for row in self._rows]
        return self.subset.choose(rows)


def _row_questions(number: int, row: Mapping[str, Any], slots: Counter[str]) -> list[dict[str, Any]]:
    """The one question of a row, or all of a row that lists several with as many answers."""
    questions, answers = as_list(row["question"]), as_list(row["answer"])
    if not questions or len(questions) != len(answers):
        raise ValueError(f"{len(questions)} questions and {len(answers)} answers")
    image = as_text(row.get("image_id")) or (f"row {number}" if len(questions) > 1 else "")
    base = as_text(row.get("id")) or f"row {number}"
    found = []
    for place, (question, answer) in enumerate(zip(questions, answers, strict=True), 1):
        if not as_text(question).strip():
            raise ValueError("the question is empty")
        slots[image] += 1
        meta: dict[str, Any] = {
            name: as_text(row[name]) for name in ("group", "category", "kind") if as_text(row.get(name))
        }
        meta |= {"row": number, "slot": as_text(row.get("slot")) or str(slots[image])} | (
            {"image": image} if image else {}
        )
        identifier = base if len(questions) == 1 else f"{base}_q{place}"
        words = as_text(question).strip()
        found.append(
            {"number": number, "id": identifier, "question": words, "answer": _key(answer), "meta": meta}
        )  # fmt: skip
    return found


def _key(found: Any) -> str | None:
    """A for yes, B for no. Raises ValueError for anything else."""
    said = as_text(found).strip().casefold()
    if isinstance(found, bool):
        return "A" if found else "B"
    if said in HIDDEN:
        return None
    words: Sequence[str] = re.findall(r"[a-z]+", said)
    if words in (["a"], ["yes"], ["a", "yes"]):
        return "A"
    if words in (["b"], ["no"], ["b", "no"]):
        return "B"
    raise ValueError(f"the answer {as_text(found)!r} is neither A) Yes nor B) No")
