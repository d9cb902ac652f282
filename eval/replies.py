"""Scores files of recorded replies: by the labels that were recorded with them, or read again by a reader of ours."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from looktwice.eval.readers import reader as reader_of
from looktwice.eval.task import TaskError
from looktwice.pipelines.model import Message
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import Stage, State

__all__ = ["Read", "Recorded", "Tally", "load_key", "load_replies", "replies_lines"]

_POINTS = tuple(f"Point {letter}" for letter in "ABCD")
_LATER = ("the second image", "the third image")
CHOICES: Mapping[str, tuple[str, ...]] = {
    "Art_Style": _LATER,
    "Counting": ("", "", "", ""),
    "Forensic_Detection": ("the first image", "the second image", "the third image", "the fourth image"),
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
UNREAD = "(Z)"
"""What BLINK's official labels say where no choice was found."""


@dataclass(frozen=True)
class Recorded:
    """One recorded reply: the item it answers, its words, and the label that the benchmark's own code gave it."""

    idx: str
    reply: str
    label: str | None = None
    answer: str | None = None

    @property
    def subtask(self) -> str:
        """`val_Art_Style_3` is of Art_Style: the split and the number are cut off."""
        return self.idx.partition("_")[2].rpartition("_")[0]


@dataclass(frozen=True)
class Read:
    """What one item came to: the answer as "(X)" or None, the key, and whether it is right."""

    recorded: Recorded
    answer: str | None
    key: str

    @property
    def right(self) -> bool:
        """Official scoring: exactly equal strings, so "(C) Point C" is wrong where the key is "(C)"."""
        return self.answer == self.key


@dataclass(frozen=True)
class Tally:
    """The figures of one file. A keyed item of the file's subtasks that has no reply counts as not right."""

    name: str
    reads: tuple[Read, ...]
    missing: int = 0
    agreement: float | None = None
    scored: bool = True

    @property
    def n(self) -> int:
        """How many items are scored."""
        return len(self.reads)

    @property
    def micro(self) -> float:
        """The share of right answers of all items."""
        return sum(read.right for read in self.reads) / self.n

    @property
    def macro(self) -> float:
        """The unweighted mean of the subtasks' shares, which is BLINK's total."""
        by: dict[str, list[bool]] = defaultdict(list)
        for read in self.reads:
            by[read.recorded.subtask].append(read.right)
        return sum(sum(held) / len(held) for held in by.values()) / len(by)

    @property
    def coverage(self) -> float:
        """The share of items with an answer, right or wrong."""
        return sum(read.answer is not None for read in self.reads) / self.n

    @property
    def line(self) -> str:
        """`NAME: n=..., macro=..., micro=..., coverage=...`, in percent."""
        parts = [f"n={self.n}"]
        if self.scored:
            parts += [f"macro={100 * self.macro:.2f}", f"micro={100 * self.micro:.2f}"]
        parts.append(f"coverage={100 * self.coverage:.2f}")
        if self.agreement is not None:
            parts.append(f"agreement={100 * self.agreement:.2f}")
        subtasks = {read.recorded.subtask for read in self.reads}
        if subtasks < CHOICES.keys():
            parts.append(f"subtasks={len(subtasks)}/{len(CHOICES)}")
        if self.missing:
            parts.append(f"missing={self.missing}")
        return f"{self.name}: {', '.join(parts)}"


def replies_lines(
    files: Sequence[Path], reader: str | None = None, key: Path | None = None, disagreements: Path | None = None
) -> Iterator[str]:
    """A line of figures per file and one for all of them; writes the listing of disagreements where asked.

    Without a reader the recorded labels are the answers. `key` maps idx to "(X)"; only its items are scored, and
    without one the keys in the files, where they are not hidden. Raises TaskError and ConfigError.
    """
    stage = reader_of(reader) if reader else None
    if disagreements is not None and stage is None:
        raise TaskError("--disagreements compares a reader with the recorded labels; name one with --reader")
    keys, tallies = (load_key(key) if key is not None else None), []
    for file in files:
        tallies.append(tally(_name(file), load_replies(file), keys, stage))
        yield tallies[-1].line
    yield total(tallies)
    if disagreements is not None:
        text, count = listing(tallies)
        disagreements.write_text(text, encoding="utf-8")
        yield f"disagreements: {count} in {disagreements}"


def load_replies(file: Path) -> list[Recorded]:
    """The rows (`idx, reply, official_label, answer`) of a JSONL file, plain or gzip. Raises TaskError."""
    found: dict[str, Recorded] = {}
    for number, line in enumerate(_lines(file), 1):
        if not line.strip():
            continue
        recorded = _recorded(line, f"{file} line {number}")
        if recorded.idx in found:
            raise TaskError(f"{file} line {number}: the idx {recorded.idx!r} comes twice; keep one reply per item")
        found[recorded.idx] = recorded
    if not found:
        raise TaskError(f"{file} holds no reply; expected JSON lines with idx, reply and official_label")
    return list(found.values())


def load_key(file: Path) -> dict[str, str]:
    """A JSON object from idx to "(X)". Raises TaskError."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        raise TaskError(f"{file} cannot be read as a key ({exc}); expected a JSON object from idx to '(A)'") from exc
    if not isinstance(data, dict) or not data or not all(re.fullmatch(r"\([A-Z]\)", str(v)) for v in data.values()):
        raise TaskError(f"{file} is no key; expected a JSON object from idx to '(A)', '(B)' ...")
    return {str(idx): str(letter) for idx, letter in data.items()}


def tally(name: str, rows: Sequence[Recorded], keys: Mapping[str, str] | None, reader: Stage | None = None) -> Tally:
    """The figures of one file's rows. Raises TaskError where not one of them has a key."""
    if keys is None:
        keys = {row.idx: row.answer for row in rows if row.answer and row.answer != "hidden"}
    scored = bool(keys)
    held = [row for row in rows if row.idx in keys or not scored]
    if not held:
        example = f"{rows[0].idx!r} here, {next(iter(keys))!r} there"
        raise TaskError(f"{name}: none of its {len(rows)} items is in the key ({example})")
    if reader is None and all(row.label is None for row in held):
        raise TaskError(f"{name} has no official_label; name a reader of ours with --reader")
    present, there = {row.subtask for row in held}, {row.idx for row in held}
    absent = [idx for idx in keys if Recorded(idx, "").subtask in present and idx not in there]
    answers = [_answer(row, reader) for row in held]
    reads = [Read(row, answer, keys.get(row.idx, "")) for row, answer in zip(held, answers, strict=True)]
    gone = [Read(Recorded(idx, ""), None, keys[idx]) for idx in absent]
    same = [_letter(row.label) == answer for row, answer in zip(held, answers, strict=True) if row.label is not None]
    agreement = sum(same) / len(same) if reader is not None and same else None
    return Tally(name, (*reads, *gone), len(gone), agreement, scored)


def total(tallies: Sequence[Tally]) -> str:
    """The last line: macro is the mean of the files' macros, micro and coverage are of all items of all files."""
    reads = [read for one in tallies for read in one.reads]
    parts = [f"files={len(tallies)}", f"n={len(reads)}"]
    if all(one.scored for one in tallies):
        parts.append(f"macro={100 * sum(one.macro for one in tallies) / len(tallies):.2f}")
        parts.append(f"micro={100 * sum(read.right for read in reads) / len(reads):.2f}")
    parts.append(f"coverage={100 * sum(read.answer is not None for read in reads) / len(reads):.2f}")
    if all(one.agreement is not None for one in tallies):
        sizes = [one.n - one.missing for one in tallies]
        agreed = sum((one.agreement or 0.0) * size for one, size in zip(tallies, sizes, strict=True)) / sum(sizes)
        parts.append(f"agreement={100 * agreed:.2f}")
    return f"total: {', '.join(parts)}"


def listing(tallies: Sequence[Tally]) -> tuple[str, int]:
    """Where reader and recorded label differ, by kind and with the reply, and how many there are."""
    kinds: dict[str, list[str]] = defaultdict(list)
    for one in tallies:
        for read in one.reads:
            label = _letter(read.recorded.label)
            if read.recorded.label is not None and label != read.answer:
                kinds[_kind(label, read.answer)].append(_entry(one.name, read))
    counts = Counter({kind: len(entries) for kind, entries in kinds.items()})
    blocks = [f"# {kind}: {count}\n\n" + "\n".join(kinds[kind]) for kind, count in counts.most_common()]
    return "\n".join(blocks), sum(counts.values())


def _kind(label: str | None, answer: str | None) -> str:
    if answer is None:
        return "the reader finds nothing, the label a letter"
    return "the reader finds a letter, the label nothing" if label is None else "two different letters"


def _entry(name: str, read: Read) -> str:
    said = "\n".join(f"    {line}" for line in read.recorded.reply.strip().splitlines()) or "    (empty)"
    key = f", key {read.key}" if read.key else ""
    return f"{name} {read.recorded.idx}: label {read.recorded.label}, reader {read.answer or 'nothing'}{key}\n{said}\n"


def _answer(row: Recorded, reader: Stage | None) -> str | None:
    """The recorded label as it is, or "(X)" as the reader finds it; None where there is no answer."""
    if reader is None:
        return None if row.label in (None, UNREAD) else row.label
    choices = CHOICES.get(row.subtask)
    if choices is None:
        raise TaskError(f"{row.idx!r}: {row.subtask!r} is no subtask of BLINK; there are {', '.join(sorted(CHOICES))}")
    state = State(Sample(row.idx, "", choices=choices), messages=(Message("assistant", (row.reply,)),))
    found = reader(state, NoModel("a reader may not call a model: recorded replies are only read")).answer
    return f"({found})" if found in tuple(ascii_uppercase) else found


def _letter(label: str | None) -> str | None:
    """The letter that a label begins with, in brackets; None for the label of nothing."""
    found = re.match(r"\([A-Y]\)", label or "")
    return found[0] if found else None


def _recorded(line: str, place: str) -> Recorded:
    try:
        data: Any = json.loads(line)
    except ValueError as exc:
        raise TaskError(f"{place}: not JSON ({exc})") from exc
    if not isinstance(data, dict) or not isinstance(data.get("idx"), str) or "reply" not in data:
        shown = sorted(data) if isinstance(data, dict) else type(data).__name__
        raise TaskError(f"{place}: expected an object with idx and reply, found {shown}")
    if not re.fullmatch(r"[^_]+_.+_\d+", data["idx"]):
        raise TaskError(f"{place}: the idx {data['idx']!r} is not SPLIT_SUBTASK_NUMBER, such as val_Art_Style_1")
    return Recorded(data["idx"], str(data["reply"] or ""), data.get("official_label"), data.get("answer"))


def _lines(file: Path) -> Iterable[str]:
    try:
        with gzip.open(file, "rt", encoding="utf-8") if file.suffix == ".gz" else file.open(encoding="utf-8") as source:
            yield from source
    except (OSError, EOFError, UnicodeDecodeError) as exc:
        raise TaskError(f"{file} cannot be read ({exc}); expected JSON lines, plain or .gz") from exc


def _name(file: Path) -> str:
    return file.name.removesuffix(".gz").removesuffix(".jsonl")
