"""Recorded replies from files: JSON lines of ours, VLMEvalKit's tables of predictions and
lmms-eval's samples."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from looktwice.eval.tasks.base import TaskError
from looktwice.eval.tasks.table_files import read_objects, read_texts
from looktwice.pipelines.disk import read_file
from looktwice.pipelines.json_input import read_json

_POINTS = tuple(f"Point {letter}" for letter in "ABCD")
_LATER = ("the second image", "the third image")
CHOICES: Mapping[str, tuple[str, ...]] = {
    "Art_Style": _LATER,
    "Counting": ("", "", "", ""),
    "Forensic_Detection": (
        "the first image",
        "the second image",
        "the third image",
        "the fourth image",
    ),
    "Functional_Correspondence": _POINTS,
    "IQ_Test": tuple(f"picture {letter}" for letter in "ABCD"),
    "Jigsaw": _LATER,
    "Multi-view_Reasoning": ("left", "right"),
    "Object_Localization": ("Box A", "Box B"),
    "Relative_Depth": ("A is closer", "B is closer"),
    "Relative_Reflectance": ("A is darker", "B is darker", "About the same"),
    "Semantic_Correspondence": _POINTS,
    "Spatial_Relation": ("yes", "no"),
    "Visual_Correspondence": _POINTS,
    "Visual_Similarity": _LATER,
}
"""BLINK's choices by subtask; the texts of Counting differ from item to item and are empty here."""
HIDDEN = "hidden"
"""The key of an item of the split test, which is not public."""


@dataclass(frozen=True)
class RecordedReply:
    """One recorded reply: the item it answers, its words, and the label that the benchmark's own
    code gave it.

    `own_choices` and `question` are the item's where the file has them; `answer` is the key as
    "(X)" or HIDDEN.
    """

    idx: str
    reply: str
    label: str | None = None
    answer: str | None = None
    own_choices: tuple[str, ...] = field(default=(), repr=False)
    question: str = field(default="", repr=False)
    category: str = ""

    @property
    def subtask(self) -> str:
        """The subtask of BLINK that the item is of, or the category of an item of another
        benchmark."""
        return self.category or subtask_of_idx(self.idx)

    @property
    def choices(self) -> tuple[str, ...]:
        """The texts of the item's choices, or those of its subtask. Raises TaskError where neither
        is known."""
        if self.own_choices:
            return self.own_choices
        if self.subtask not in CHOICES:
            known = ", ".join(sorted(CHOICES))
            raise TaskError(
                f"{self.idx!r}: {self.subtask!r} is no subtask of BLINK; there are {known}"
            )
        return CHOICES[self.subtask]


def subtask_of_idx(idx: str) -> str:
    """`val_Art_Style_3` is of Art_Style: the split and the number are cut off."""
    return idx.partition("_")[2].rpartition("_")[0]


def letter_of(label: str | None) -> str | None:
    """The letter that a label begins with, or is, as "(X)"; None for the label of no choice."""
    found = re.match(r"\(([A-Y])\)|([A-Y])\Z", label or "")
    return f"({found[1] or found[2]})" if found else None


def model_name(file: Path) -> str:
    """The file's name without its endings, which is the model's."""
    return re.sub(r"\.(jsonl|tsv|xlsx)$", "", file.name.removesuffix(".gz"))


def load_replies(file: Path) -> list[RecordedReply]:
    """The rows of a file: `.tsv` and `.xlsx` as VLMEvalKit writes them, else JSON lines, plain or
    gzip.

    JSON lines have `idx, reply, official_label, answer` and may have `choices` and `question`, or
    are lmms-eval's samples (`doc`, `resps`). Raises TaskError.
    """
    found: dict[str, RecordedReply] = {}
    for number, recorded in _numbered_replies(file):
        if recorded.idx in found:
            raise TaskError(
                f"{file} line {number}: the idx {recorded.idx!r} comes twice; keep one reply per"
                " item"
            )
        found[recorded.idx] = recorded
    if not found:
        raise TaskError(
            f"{file} holds no reply; expected JSON lines with idx, reply and official_label"
        )
    return list(found.values())


def load_key(file: Path) -> dict[str, str]:
    """A JSON object from idx to "(X)". Raises TaskError."""
    try:
        data = read_json(read_file(file))
    except (OSError, ValueError) as exc:
        raise TaskError(
            f"{file} cannot be read as a key ({exc}); expected a JSON object from idx to '(A)'"
        ) from exc
    if (
        not isinstance(data, dict)
        or not data
        or not all(re.fullmatch(r"\([A-Z]\)", str(v)) for v in data.values())
    ):
        raise TaskError(f"{file} is no key; expected a JSON object from idx to '(A)', '(B)' ...")
    return {str(idx): str(letter) for idx, letter in data.items()}


def _numbered_replies(file: Path) -> Iterator[tuple[int, RecordedReply]]:
    if file.suffix in (".tsv", ".xlsx"):
        for number, cells in enumerate(read_texts(file), 2):
            yield number, _reply_of_vlmevalkit(cells, f"{file} line {number}")
        return
    for number, data in read_objects(file):
        yield number, _reply_from_json(data, f"{file} line {number}")


def _reply_from_json(data: Mapping[str, Any], place: str) -> RecordedReply:
    if "doc" in data and ("resps" in data or "filtered_resps" in data):
        data = _reply_of_lmms_eval(data, place)
    if not isinstance(data.get("idx"), str) or "reply" not in data:
        raise TaskError(f"{place}: expected an object with idx and reply, found {sorted(data)}")
    if not isinstance(data.get("choices") or [], list):
        raise TaskError(f"{place}: choices is {data['choices']!r}; expected a list of texts")
    choices = tuple(map(str, data.get("choices") or ()))
    label, key, question = (
        _optional_text(data, name, place) for name in ("official_label", "answer", "question")
    )
    if key not in (None, HIDDEN) and not re.fullmatch(r"\(?[A-Z]\)?", key):
        raise TaskError(
            f"{place}: answer is {key!r}; expected the key as '(A)', '(B)' ..., or 'hidden'"
        )
    key = f"({key})" if key and len(key) == 1 else key
    return RecordedReply(
        _check_idx(data["idx"], place),
        str(data["reply"] or ""),
        label,
        key,
        choices,
        question or "",
    )


def _optional_text(data: Mapping[str, Any], name: str, place: str) -> str | None:
    """A text that may be missing. Raises TaskError for anything else."""
    value = data.get(name)
    if value is not None and not isinstance(value, str):
        raise TaskError(f"{place}: {name} is {value!r}; expected a text")
    return value or None


def _check_idx(idx: str, place: str) -> str:
    if not re.fullmatch(r"[^_]+_.+_\d+", idx):
        raise TaskError(
            f"{place}: the idx {idx!r} is not SPLIT_SUBTASK_NUMBER, such as val_Art_Style_1"
        )
    return idx


def _reply_of_lmms_eval(data: Mapping[str, Any], place: str) -> dict[str, Any]:
    """lmms-eval's sample: the document's columns, the reply in `resps` (a list per request) or
    `filtered_resps`."""
    doc, replies = data["doc"], data.get("resps") or data["filtered_resps"]
    while isinstance(replies, list) and replies:
        replies = replies[0]
    if not isinstance(doc, dict) or "idx" not in doc:
        raise TaskError(
            f"{place}: lmms-eval's sample has no doc.idx; log samples with the documents' columns"
        )
    key = doc.get("answer") or data.get("target")
    return {
        **{name: doc.get(name) for name in ("idx", "choices", "question")},
        "reply": replies or "",
        "answer": key,
    }


def without_empty_end(texts: Sequence[str]) -> tuple[str, ...]:
    """The texts of choices up to the last one that is there."""
    return tuple(texts[: max((number for number, text in enumerate(texts, 1) if text), default=0)])


def _reply_of_vlmevalkit(cells: Mapping[str, str], place: str) -> RecordedReply:
    """VLMEvalKit's row: index, prediction, and maybe category, split, answer, question, A, B ..."""
    if not {"index", "prediction"} <= cells.keys():
        raise TaskError(
            f"{place}: expected the columns index and prediction, found {', '.join(sorted(cells))}"
        )
    index = cells["index"]
    if not re.fullmatch(r"[^_]+_.+_\d+", index):
        category = cells.get("category", "").strip().replace(" ", "_") or "unknown"
        index = f"{cells.get('split') or 'val'}_{category}_{index.removesuffix('.0')}"
    answer, label = cells.get("answer", "").strip("() "), cells.get("official_label") or None
    texts = without_empty_end([cells.get(letter, "") for letter in ascii_uppercase])
    key = f"({answer})" if re.fullmatch("[A-Z]", answer) else None
    return RecordedReply(
        _check_idx(index, place), cells["prediction"], label, key, texts, cells.get("question", "")
    )
