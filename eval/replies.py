"""BLINK's questions for recorded replies (idx, choices and answer key, without question texts and
images), and a reader of their official labels.

With these, the model `pipelines.models.Replay` replays a file of recorded replies as a run. Not
here: reading, scoring and writing such files (`logs`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal

from looktwice.eval.readers.reader import Reading, TextReader
from looktwice.eval.tasks.base import Facts, Subset, TaskError, suggest_among
from looktwice.eval.tasks.blink import BlinkScorer
from looktwice.pipelines.config.spec import spec
from looktwice.pipelines.disk import read_file
from looktwice.pipelines.json_input import read_json
from looktwice.pipelines.sample import Item, Sample

__all__ = ["OfficialLabel", "RecordedQuestions"]

_POINT_CHOICES = tuple(f"Point {letter}" for letter in "ABCD")
_LATER_IMAGE_CHOICES = ("the second image", "the third image")
CHOICES: Mapping[str, tuple[str, ...]] = {
    "Art_Style": _LATER_IMAGE_CHOICES,
    "Counting": ("", "", "", ""),
    "Forensic_Detection": (
        "the first image",
        "the second image",
        "the third image",
        "the fourth image",
    ),
    "Functional_Correspondence": _POINT_CHOICES,
    "IQ_Test": tuple(f"picture {letter}" for letter in "ABCD"),
    "Jigsaw": _LATER_IMAGE_CHOICES,
    "Multi-view_Reasoning": ("left", "right"),
    "Object_Localization": ("Box A", "Box B"),
    "Relative_Depth": ("A is closer", "B is closer"),
    "Relative_Reflectance": ("A is darker", "B is darker", "About the same"),
    "Semantic_Correspondence": _POINT_CHOICES,
    "Spatial_Relation": ("yes", "no"),
    "Visual_Correspondence": _POINT_CHOICES,
    "Visual_Similarity": _LATER_IMAGE_CHOICES,
}
"""BLINK's choices, by subtask; the choices of Counting differ between questions and are empty
here."""
KEY_PATTERN = re.compile(r"\([A-Z]\)|[A-Z]")
HIDDEN_ANSWER = "hidden"
"""The correct answer of a question in the test split, whose answers are not public."""


def get_subtask_of_idx(idx: str) -> str:
    """Return the subtask in an idx, without the split and the number: `val_Art_Style_3` gives
    Art_Style."""
    return idx.partition("_")[2].rpartition("_")[0]


def load_answer_key(file: Path) -> dict[str, str]:
    """Read an answer key, a JSON object that maps the id of a sample to "(X)" or "X"; return all as
    "(X)". Raises TaskError."""
    expected = "a JSON object that maps the id of each sample to a letter, such as '(A)' or 'A'"
    try:
        data = read_json(read_file(file))
    except (OSError, ValueError) as exc:
        raise TaskError(
            f"{file} cannot be read as an answer key ({exc}); it must be {expected}"
        ) from exc
    if not isinstance(data, dict) or not data:
        raise TaskError(f"{file} is not an answer key: it must be {expected}")
    for name, letter in data.items():
        if not KEY_PATTERN.fullmatch(str(letter)):
            raise TaskError(
                f"{file} is not an answer key: {name} has {str(letter)[:40]!r}; it must be"
                f" {expected}"
            )
    return {str(name): f"({str(letter).strip('()')})" for name, letter in data.items()}


OLD_KEY_ERRATUM = (
    "the offline key val_answers.json of 2024 assigns the labels of Relative_Reflectance to the"
    " wrong questions; the data set was corrected on 2025-09-03, so scores on the two keys cannot"
    " be compared"
)


@dataclass(frozen=True)
class RecordedQuestions:
    """The subtask `name` of BLINK, from the official offline answer key `key` in the folder `path`,
    a JSON object that maps idx to "(X)".

    Use this task with the model `pipelines.models.Replay` to score replies that other software
    recorded; any other model would get neither questions nor images. The choices are those of the
    subtask; Counting's differ between questions and are empty. `subset` selects some of the
    questions. Raises TaskError.
    """

    path: Path
    name: str
    key: str = "val_answers.json"
    subset: Subset = Subset()

    def __post_init__(self) -> None:
        if self.name not in CHOICES:
            raise TaskError(f"BLINK has no task {self.name!r}{suggest_among(self.name, CHOICES)}")

    @property
    def facts(self) -> Facts:
        """The split val, the answer key's sha256 as the label version, and the known errata of the
        key."""
        sha = hashlib.sha256(self._file.read_bytes()).hexdigest()
        errata = (OLD_KEY_ERRATUM,) if self.name == "Relative_Reflectance" else ()
        note = "recorded replies, without the texts and images of the questions"
        own = spec(BlinkScorer(self.name))
        return Facts(
            "val",
            f"{self._file.name}, sha256 {sha[:12]}",
            errata,
            note,
            f"sha256 {sha}",
            scorer=own,
        )

    def __len__(self) -> int:
        return len(self._selected_ids)

    def __iter__(self) -> Iterator[Item]:
        """Yield the items in the order of the answer key."""
        question = f"A question of BLINK's {self.name}; only the reply to it was recorded."
        for idx in self._selected_ids:
            sample = Sample(idx, question, choices=CHOICES[self.name], meta={"subtask": self.name})
            yield Item(sample, self._keys[idx].strip("()"))

    @property
    def _file(self) -> Path:
        return Path(self.path) / self.key

    @cached_property
    def _keys(self) -> dict[str, str]:
        keys = {
            idx: key
            for idx, key in load_answer_key(self._file).items()
            if idx.startswith(f"val_{self.name}_")
        }
        if not keys:
            raise TaskError(
                f"{self._file} has no answers for val_{self.name}_1 ...; set `key` to BLINK's"
                " val_answers.json"
            )
        return keys

    @cached_property
    def _selected_ids(self) -> list[str]:
        rows = [
            (idx, {"subtask": self.name, "answer": key.strip("()")})
            for idx, key in self._keys.items()
        ]
        return [rows[number][0] for number in self.subset.choose(rows, self._file)]


@dataclass(frozen=True)
class OfficialLabel(TextReader):
    """Reads a recorded official label as BLINK's own scoring does: "(B)" is B, "(Z)" is no answer.

    The official code compares strings: any other text stays as it is, so "(B) Point B" is wrong.
    """

    accepts_only_letters: ClassVar[bool] = True
    part: ClassVar[Literal["answer", "turn", "reply"]] = "reply"

    def read_text(self, reply: str, sample: Sample) -> Reading:
        if reply == "(Z)":
            return Reading(None, "unread: the official code found no choice")
        return Reading({f"({letter})": letter for letter in sample.letters}.get(reply, reply))
