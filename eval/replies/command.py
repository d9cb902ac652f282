"""Scores files of recorded replies: by the labels that were recorded with them, or read again by a reader of ours."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase

from looktwice.eval.readers.reader import build_reader
from looktwice.eval.replies.exports import export
from looktwice.eval.replies.files import CHOICES, Recorded, load_key, load_replies, name_of
from looktwice.eval.replies.label_proofs import disproof
from looktwice.eval.tasks.base import TaskError
from looktwice.pipelines.model import Message
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import Stage, State

UNREAD = "(Z)"
"""What BLINK's official labels say where no choice was found."""
NO_MODEL = NoModel("a reader may not call a model: recorded replies are only read")


@dataclass(frozen=True)
class Read:
    """What one item came to: the answer as "(X)" or None, the key or "", and why there is no answer."""

    recorded: Recorded
    answer: str | None
    key: str
    reason: str = ""

    @property
    def right(self) -> bool:
        """Official scoring: exactly equal strings, so "(C) Point C" is wrong where the key is "(C)"."""
        return self.answer == self.key

    @property
    def agrees(self) -> bool | None:
        """Whether the answer is the recorded label, where "(C) Point C" is C and "(Z)" is none; None without one."""
        return None if self.recorded.label is None else letter_of(self.recorded.label) == self.answer


@dataclass(frozen=True)
class Tally:
    """The figures of one file, or of all. A keyed item of the file's subtasks without a reply counts as not right.

    Without a reader only the keyed items are counted; with one (`by_reader`) n, agreement and coverage are of all
    replies, and accuracy of the keyed ones, of which there are `scored`.
    """

    name: str
    reads: tuple[Read, ...]
    gone: tuple[Read, ...] = ()
    by_reader: bool = False

    @property
    def keyed(self) -> list[Read]:
        """The items that are scored, those without a reply among them."""
        return [*(read for read in self.reads if read.key), *self.gone]

    @property
    def n(self) -> int:
        """How many items are counted."""
        return len(self.reads) if self.by_reader else len(self.reads) + len(self.gone)

    @property
    def micro(self) -> float:
        """The share of right answers of the scored items."""
        return _share([read.right for read in self.keyed])

    @property
    def macro(self) -> float:
        """The unweighted mean of the subtasks' shares, which is BLINK's total."""
        by: dict[str, list[bool]] = defaultdict(list)
        for read in self.keyed:
            by[read.recorded.subtask].append(read.right)
        return sum(map(_share, by.values())) / len(by)

    @property
    def coverage(self) -> float:
        """The share of items with an answer, right or wrong."""
        return sum(read.answer is not None for read in self.reads) / self.n

    @property
    def agreement(self) -> float | None:
        """The share of labelled replies in which the reader finds what the label says; None without any label."""
        same = [read.agrees for read in self.reads if read.agrees is not None]
        return _share(same) if self.by_reader and same else None

    @property
    def line(self) -> str:
        """The figures in percent: `n=..., macro=..., micro=..., coverage=...`, or those of `parts` with a reader."""
        subtasks = {read.recorded.subtask for read in (*self.reads, *self.gone)}
        parts = self.parts if self.by_reader else self._label_parts
        parts += [f"subtasks={len(subtasks)}/{len(CHOICES)}"] if subtasks < CHOICES.keys() else []
        parts += [f"missing={len(self.gone)}"] if self.gone else []
        return f"{self.name}: {', '.join(parts)}"

    @property
    def parts(self) -> list[str]:
        """What a reader came to: n, agreement, accuracy and coverage, then macro and how many items are scored."""
        found = [f"n={self.n}"]
        if self.agreement is not None:
            found.append(f"agreement={100 * self.agreement:.2f}%")
        if self.keyed:
            found.append(f"accuracy={100 * self.micro:.2f}%")
        found.append(f"coverage={100 * self.coverage:.2f}%")
        return [*found, f"macro={100 * self.macro:.2f}%", f"scored={len(self.keyed)}"] if self.keyed else found

    @property
    def _label_parts(self) -> list[str]:
        figures = [f"macro={100 * self.macro:.2f}", f"micro={100 * self.micro:.2f}"] if self.keyed else []
        return [f"n={self.n}", *figures, f"coverage={100 * self.coverage:.2f}"]


def replies_lines(
    files: Sequence[Path],
    reader: str | None = None,
    key: Path | None = None,
    disagreements: Path | None = None,
    exports: Sequence[Path] = (),
) -> Iterator[str]:
    """A line of figures per file and one for all of them; writes the listing of disagreements where asked.

    Without a reader the recorded labels are the answers. `key` maps idx to "(X)"; without one the keys in the files
    count, where they are not hidden. A run folder counts as one file for each of its contestants, read with the
    reader or else as its configuration says. `exports` are files to write what was read into, in the format of their
    endings (see `exports.FORMATS`); with several files of replies, their names hold `{name}`. Raises TaskError,
    RunError and ConfigError.
    """
    stage = build_reader(reader) if reader else None
    if disagreements is not None and stage is None:
        raise TaskError("--disagreements compares a reader with the recorded labels; name one with --reader")
    keys, tallies = (load_key(key) if key is not None else None), []
    for file in files:
        found = _tallies(file, keys, stage)
        if alike := [path for path in exports if len(files) * len(found) > 1 and "{name}" not in str(path)]:
            many = f"{len(files)} files" if len(files) > 1 else f"{len(found)} contestants"
            raise TaskError(f"--export {alike[0]}: {many} need {{name}} in it, such as out/{{name}}.json")
        for one in found:
            yield one.line
            yield from _exported(one, exports)
        tallies += found
    yield total(tallies)
    if disagreements is not None:
        text, count = listing(tallies)
        disagreements.write_text(text, encoding="utf-8", errors="backslashreplace")
        yield f"disagreements: {count} in {disagreements}"


def _tallies(file: Path, keys: Mapping[str, str] | None, stage: Stage | None) -> list[Tally]:
    if not file.is_dir():
        return [tally(name_of(file), load_replies(file), keys, stage)]
    from looktwice.eval.replies.exports import run_replies

    def read(recorded: Recorded, answer: str | None, reason: str) -> Read:
        own = "" if recorded.answer == "hidden" else recorded.answer or ""
        return Read(recorded, answer, own if keys is None else keys.get(recorded.idx, ""), reason)

    return [Tally(name, tuple(read(*row) for row in rows), by_reader=True) for name, rows in run_replies(file, stage)]


def _exported(one: Tally, exports: Sequence[Path]) -> Iterator[str]:
    for path in exports:
        out = Path(str(path).replace("{name}", one.name))
        count = export([(read.recorded, read.answer, read.key) for read in one.reads], out)
        yield f"exported: {count} in {out}"


def tally(name: str, rows: Sequence[Recorded], keys: Mapping[str, str] | None, reader: Stage | None = None) -> Tally:
    """The figures of one file's rows. Raises TaskError where not one of them has a key."""
    if keys is None:
        keys = {row.idx: row.answer for row in rows if row.answer and row.answer != "hidden"}
    held = [row for row in rows if row.idx in keys or not keys]
    if not held:
        example = f"{rows[0].idx!r} here, {next(iter(keys))!r} there"
        raise TaskError(f"{name}: none of its {len(rows)} items is in the key ({example})")
    if reader is None and all(row.label is None for row in held):
        raise TaskError(f"{name} has no official_label; name a reader of ours with --reader")
    present, there = {row.subtask for row in held}, {row.idx for row in held}
    absent = [idx for idx in keys if Recorded(idx, "").subtask in present and idx not in there]
    gone = tuple(Read(Recorded(idx, ""), None, keys[idx]) for idx in absent)
    reads = tuple(_read(row, keys.get(row.idx, ""), reader) for row in (held if reader is None else rows))
    return Tally(name, reads, gone, reader is not None)


def total(tallies: Sequence[Tally]) -> str:
    """The last line: macro is the mean of the files' macros, everything else is of all items of all files."""
    by_reader = any(one.by_reader for one in tallies)
    reads = tuple(read for one in tallies for read in one.reads)
    whole = Tally("total", reads, tuple(read for one in tallies for read in one.gone), by_reader)
    scored = [one.macro for one in tallies if one.keyed]
    macro = f"macro={100 * sum(scored) / len(scored):.2f}" if scored else ""
    if by_reader:
        parts = [f"{macro}%" if part.startswith("macro=") else part for part in whole.parts]
        return f"total: {', '.join([*parts, f'files={len(tallies)}'])}"
    parts = [macro if part.startswith("macro=") else part for part in whole._label_parts]
    return f"total: {', '.join([f'files={len(tallies)}', *parts])}"


def listing(tallies: Sequence[Tally]) -> tuple[str, int]:
    """Where reader and recorded label differ, by kind and with the replies, and how many there are.

    The kinds come most frequent first; those where the reply itself proves the label wrong are marked as such.
    """
    kinds: dict[str, list[str]] = defaultdict(list)
    for one in tallies:
        for read in (read for read in one.reads if read.agrees is False):
            kinds[_kind(read)].append(_entry(one.name, read))
    ordered = sorted(kinds.items(), key=lambda pair: -len(pair[1]))
    blocks = [f"# {kind}: {len(entries)}\n\n" + "\n".join(entries) for kind, entries in ordered]
    return "\n".join(blocks), sum(map(len, kinds.values()))


def letter_of(label: str | None) -> str | None:
    """The letter that a label begins with, or is, in brackets; None for the label of nothing."""
    found = re.match(r"\(([A-Y])\)|([A-Y])\Z", label or "")
    return f"({found[1] or found[2]})" if found else None


def _kind(read: Read) -> str:
    label = letter_of(read.recorded.label)
    bare, answer = (label or "").strip("()") or None, (read.answer or "").strip("()") or None
    proof = disproof(read.recorded, bare, answer)
    if proof:
        shown = re.sub(r"\b[A-Z]\b", "X", proof)
        return f"the label is proved wrong ({shown})"
    if read.answer is None:
        return f"the reader finds nothing ({read.reason.partition(':')[0]}), the label a letter"
    return "the reader finds a letter, the label nothing" if label is None else "two different letters"


def _entry(name: str, read: Read) -> str:
    said = "\n".join(f"    {line}" for line in read.recorded.reply.strip().splitlines()) or "    (empty)"
    key = f", key {read.key}" if read.key else ""
    found = read.answer or f"nothing ({read.reason})"
    return f"{name} {read.recorded.idx}: label {read.recorded.label}, reader {found}{key}\n{said}\n"


def _read(row: Recorded, key: str, reader: Stage | None) -> Read:
    """The recorded label as it is, or "(X)" as the reader finds it; no answer where there is none."""
    if reader is None:
        return Read(row, None if row.label in (None, UNREAD) else row.label, key)
    sample = Sample(row.idx, row.question, choices=row.choices, meta={"subtask": row.subtask})
    after = reader(State(sample, messages=(Message("assistant", (row.reply,)),)), NO_MODEL)
    answer = f"({after.answer})" if after.answer in tuple(ascii_uppercase) else after.answer
    return Read(row, answer, key, after.reason)


def _share(found: Sequence[bool]) -> float:
    return sum(found) / len(found)
