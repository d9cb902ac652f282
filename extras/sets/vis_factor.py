"""VisFactor: twenty tests of visual cognition, with several questions per item."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

from looktwice.eval.records.records import SampleRow
from looktwice.eval.scoring.groups import compute_group_metric, group_by
from looktwice.eval.scoring.verdict import Metric, PointScores, Score, Scorer
from looktwice.eval.tasks.base import Subset, TaskError
from looktwice.eval.tasks.cells import Row, as_text
from looktwice.eval.tasks.row_task import Questions, RowQuestion
from looktwice.eval.tasks.table_files import TextTable, require_columns
from looktwice.eval.tasks.table_task import TableTask
from looktwice.pipelines.sample import PLACEHOLDERS_FIELD

TRUE_OR_FALSE_TESTS = frozenset(
    ("CF1", "CF2", "MV1", "MV2", "MV3", "P3", "RL2", "S1", "S2", "SS2", "VZ1", "VZ2")
)
TRUE_OR_FALSE_SPELLINGS = {"t": "T", "y": "T", "1": "T", "true": "T", "yes": "T"}
TRUE_OR_FALSE_SPELLINGS |= {"f": "F", "n": "F", "0": "F", "false": "F", "no": "F"}
WORD_TESTS, NUMBER_TESTS = ("CS1", "CS2", "CS3"), ("I3", "MA1", "SS3")
ANSWER_PATTERN = re.compile(r'\{\s*"answer"\s*:\s*(.+?)\s*\}')
TEXT_COLUMNS = ("index", "question", "answer", "category_id", "eval_index", "additional")
STEPS_INSTRUCTION = "Output: Reason step by step. At the end, respond"


def read_last_answer(reply: str) -> str:
    """Return the value of the last {"answer": ...} in a reply, without quotes; "" if there is
    none."""
    value = next(reversed(ANSWER_PATTERN.findall(reply)), "").strip()
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
    return value[1:-1] if quoted else value


def read_prediction(reply: str, test: str, additional: str) -> str:
    """Parse the answer in a reply by the rules of VisFactor's code, and return it in the form of
    the correct answers.

    The answer is T or F for twelve tests, and for VZ3 unless `additional` is a number; the text for
    CS1 to CS3; the last two numbers as "(3, 4)" for CF3; the last number for I3, MA1 and SS3; the
    last capital for VZ3. The last three rules use the whole reply if it has no {"answer": ...}.
    """
    value = read_last_answer(reply)
    if test in TRUE_OR_FALSE_TESTS or (test == "VZ3" and not additional.isdigit()):
        return TRUE_OR_FALSE_SPELLINGS.get(value.lower(), "")
    if test in WORD_TESTS:
        return value
    value = value or reply
    if test == "VZ3":
        return next((character for character in reversed(value) if character.isupper()), "")
    numbers = re.findall(r"\d+", value)
    if test == "CF3":
        return "({}, {})".format(*numbers[-2:]) if len(numbers) > 1 else ""
    return numbers[-1] if test in NUMBER_TESTS and numbers else ""


@dataclass(frozen=True)
class VisFactorScorer(Scorer):
    """The scorer of VisFactor's authors (75036e2), for `read: {use: eval.readers.WholeReply}`.

    An item (`eval_index` of a test) is right if all its questions are. `item_accuracy` of a test is
    the share of its items that are right, and `vis_factor`, the published number, is the mean over
    the tests.
    """

    @property
    def headlines(self) -> tuple[str, ...]:
        """The name of the metric that tables show first: the mean over the tests."""
        return ("vis_factor",)

    def compare(self, answer: str, row: SampleRow) -> Score:
        """Compare the answer with the key; for CS1 to CS3, with any of the key's words, ignoring
        case."""
        test, key = str(row.meta.get("category_id")), row.answer or ""
        found = read_prediction(answer, test, str(row.meta.get("additional", "")))
        if test in WORD_TESTS:
            return Score.of(found.lower() in key.lower().split(","))
        return Score.of(found == key)

    def metrics(self, scores: PointScores) -> Sequence[Metric]:
        """Return each test's share of right items, and the mean over the tests."""
        tests = group_by(scores.keyed_samples, "category_id")
        found, units = list[Metric](), dict[str, float]()
        for test, members in sorted(tests.items()):
            rows = {name: scores.keyed_samples[name] for name in members}
            groups = group_by(rows, "category_id", "eval_index")
            metric = compute_group_metric("item_accuracy", "item", scores, groups)
            if metric.units:
                found.append(Metric(**{**vars(metric), "slice": f"category_id={test}"}))
                units |= metric.units
        if not found:
            return ()
        failed = frozenset[str]().union(*(metric.failed for metric in found))
        clusters = {name: of for metric in found for name, of in metric.clusters.items()}
        mean = fmean(fmean(metric.units.values()) for metric in found)
        whole = Metric("vis_factor", units, "item", failed, mean, clusters=clusters)
        return [whole, *found]


VIS_FACTOR_SCORER = VisFactorScorer()


@dataclass(frozen=True)
class VisFactor(TableTask):
    """VisFactor (arXiv 2502.16435): `path` is VisFactor.tsv, or the generated VisFactor_GE.tsv,
    _GN.tsv or _GH.tsv.

    `<IMAGE_0>` in a question becomes `<image 1>`, so that `prompting.turns.Ask` with
    `images: inline` sends the images there; `<ADDITIONAL_0>` becomes a part of `additional`, which
    is split at semicolons, and `<br>` a line break. With `steps`, prompts ask for reasoning where
    the authors' prompts do. `meta` has `category_id` (the test), `eval_index` (the item) and
    `additional`. Raises TaskError.
    """

    path: Path
    steps: bool = False
    scorer: Scorer | None = VIS_FACTOR_SCORER
    subset: Subset = Subset()

    @property
    def split(self) -> str:
        """The name of the split."""
        return "test"

    @cached_property
    def table(self) -> TextTable:
        """The table whose rows are the questions. Raises TaskError."""
        path = Path(self.path)
        if path.suffix.lower() != ".tsv" or not path.is_file():
            raise TaskError(f"{path} is not a .tsv file; set `path` to VisFactor.tsv")
        table = TextTable(path, "tsv")
        require_columns(path, [*TEXT_COLUMNS, "image"], table.columns)
        return table

    @property
    def _text_columns(self) -> Sequence[str]:
        return TEXT_COLUMNS

    @property
    def _image_columns(self) -> Sequence[str]:
        return ("image",)

    def _questions(self, number: int, cells: Row) -> Questions:
        texts = {name: as_text(cells[name]) for name in TEXT_COLUMNS}
        if not texts["index"] or not texts["question"].strip():
            raise ValueError("index and question must not be empty")
        prompt = fill_question(texts, self.steps)
        meta: dict[str, Any] = {name: texts[name] for name in TEXT_COLUMNS[3:]}
        meta |= {"prompt": prompt, "row": number, PLACEHOLDERS_FIELD: True}
        return [RowQuestion(number, texts["index"], prompt, (), texts["answer"], meta)]


def fill_question(texts: Mapping[str, str], steps: bool = False) -> str:
    """Fill a question's placeholders with its additional parts, and number its images from 1."""
    text = texts["question"].replace("<br>", "\n")
    parts = texts["additional"].replace("<br>", "\n").split(";")
    if texts["additional"] not in ("", "nan"):
        text = re.sub(r"<ADDITIONAL_(\d+)>", lambda place: _select_part(parts, place), text)
    text = text.replace("Output: Respond", STEPS_INSTRUCTION) if steps else text
    return re.sub(r"<IMAGE_(\d+)>", lambda place: f"<image {int(place[1]) + 1}>", text)


def _select_part(parts: Sequence[str], place: re.Match[str]) -> str:
    number = int(place[1])
    return parts[number] if number < len(parts) else place[0]
