"""Judges' verdicts on the replies of a run: `judged.jsonl` in the run folder, which scoring reads
without calling a model."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated

from looktwice.eval.records.schema import Draw, Record, RunError
from looktwice.eval.records.writer import cut_torn_tail
from looktwice.pipelines.disk import append_file
from looktwice.pipelines.json_input import (
    FORBID_EXTRA,
    CheckedAs,
    JsonInteger,
    Number,
    read_as,
    write_json,
)

VERSION = 1
DESCRIPTION_PASS = "vid"
"""The judge grades a description; this grade is the answer that is compared with the correct one.
"""
REASONING_PASS = "cot"
"""The judge scores the reasoning by criteria, without changing whether the answer is right."""
UNREADABLE_PASS = "unreadable"
"""The judge extracts the answer from a reply that the reader could not read."""
EVERY_PASS = "every"
"""The judge, instead of the reader, extracts the answer from every reply."""
STEPS_PASS = "steps"
"""The judge names the annotated steps that a chain of thought covers, without changing whether the
answer is right."""
MATCH_CRITERION = "match"
"""The criterion of a judge that compares the reply with the correct answer: 1 if the reply gives
that answer, else 0. This score decides whether the reply is right."""
NO_JUDGE = "none"
"""The value of `--judge` for using no judge."""

JudgedReply = tuple[str, str, int, str]
"""(point, sample, draw, digest of the judged text)."""
JudgementKey = tuple[str, str, str, int, str, str, int]
"""(pass, point, sample, draw, identity of the judge, digest of the judged text, version of the
question): the last line with a key counts."""


@dataclass(frozen=True)
class Judgement:
    """A judge's verdict on one reply in one pass. The verdict does not apply to a later record of
    the same sample with another reply.

    `judge` is the model's name, `identity` a digest of all its settings, `words` a digest of the
    judged text, `asked` the version of the judge's question. The verdict is an `answer`, `scores`
    by criterion, or `none` (the reply chooses nothing); otherwise `reason` states why the judge's
    reply holds no verdict, or `error` why the judge could not be asked. `cached` marks a reply from
    the cache; the tokens are those of the call to the judge.
    """

    __pydantic_config__ = FORBID_EXTRA
    kind: str
    point: str
    sample: str
    draw: Draw
    judge: str
    identity: str
    words: str
    asked: JsonInteger = 1
    answer: str | None = None
    scores: Annotated[Mapping[str, float], CheckedAs(dict[str, Number])] = field(
        default_factory=dict
    )
    none: bool = False
    reason: str = ""
    error: str = ""
    said: str = ""
    tokens_in: JsonInteger = 0
    tokens_out: JsonInteger = 0
    cached: bool = False
    v: int = VERSION

    @property
    def key(self) -> JudgementKey:
        """The key of the line: a later line with the same key replaces it."""
        return self.kind, self.point, self.sample, self.draw, self.identity, self.words, self.asked

    @property
    def has_verdict(self) -> bool:
        """True if there is a verdict, including "the reply chooses nothing"."""
        return self.answer is not None or bool(self.scores) or self.none

    @property
    def verdict(self) -> str:
        """The verdict as text, for comparing judges; empty if there is none."""
        if self.scores:
            return ", ".join(f"{name} {value:g}" for name, value in self.scores.items())
        return "none" if self.none else self.answer or ""


@dataclass(frozen=True)
class Judgements:
    """All judgements of a run and, by pass, the judge whose verdicts scoring uses
    (`counting_judges`, empty if no judge is used).

    `is_named` is True if the user named this judge; otherwise it is the judge with the most
    verdicts.
    """

    lines: tuple[Judgement, ...] = ()
    counting_judges: Mapping[str, str] = field(default_factory=dict)
    is_named: bool = False

    @property
    def counting_names(self) -> str:
        """The names of the judges whose verdicts count, separated by commas."""
        return ", ".join(dict.fromkeys(self.counting_judges.values()))

    @property
    def judges(self) -> list[str]:
        """The names of all judges, in the order of the first judgement of each."""
        return list(dict.fromkeys(line.judge for line in self.lines))

    def count_verdicts(self, kind: str) -> dict[str, tuple[int, int]]:
        """Return, for each judge of a pass, its number of verdicts and the number of replies it was
        asked about."""
        read = dict[str, tuple[int, int]]()
        for line in self.lines:
            if line.kind == kind:
                given, asked = read.get(line.judge, (0, 0))
                read[line.judge] = given + line.has_verdict, asked + 1
        return read

    @property
    def explain_counting(self) -> list[str]:
        """A sentence for each pass with several judges; it states which judge's verdicts count and
        why, and how many replies each judge read."""
        sentences, why = (
            list[str](),
            "it was named" if self.is_named else "no judge read more replies",
        )
        for kind, judge in self.counting_judges.items():
            read = {name: "{} of {}".format(*of) for name, of in self.count_verdicts(kind).items()}
            own = read.pop(judge, "0 of 0")
            if read:
                others = ", ".join(" ".join(pair) for pair in read.items())
                where = f" for {kind}" if len(self.counting_judges) > 1 else ""
                sentences.append(
                    f"judge {judge} is used{where}, because {why}: it read {own} replies"
                    f" ({others}); --judge NAME chooses another"
                )
        return sentences

    def group_by_record(self) -> dict[JudgedReply, dict[str, Judgement]]:
        """Return the verdicts that scoring uses, by (point, sample, draw, digest of the judged
        text) and pass."""
        records = defaultdict[JudgedReply, dict[str, Judgement]](dict)
        for line in self.lines:
            if line.judge == self.counting_judges.get(line.kind) and line.has_verdict:
                records[line.point, line.sample, line.draw, line.words][line.kind] = line
        return dict(records)


def hash_judged_text(record: Record) -> str:
    """Return a digest of the text that a judge reads, a record's last reply; empty if there is
    none."""
    last = record.last_reply
    return hashlib.sha256(last["text"].encode()).hexdigest()[:16] if last else ""


def read_judgements(run: Path, judge: str = "") -> Judgements:
    """Read the last judgement of every key. `judge` names the judge whose verdicts count: "none"
    for no judge, "" for the judge with the most verdicts in each pass (in a tie, the first that was
    asked).

    Raises RunError for a damaged line, and for a judge that never judged this run.
    """
    last = dict[JudgementKey, Judgement]()
    path = run / "judged.jsonl"
    data = path.read_bytes() if path.exists() else b""
    for number, line in enumerate(data.split(b"\n")[:-1], 1):  # without a torn last line
        try:
            judgement: Judgement = read_as(Judgement, line)
            if judgement.v != VERSION:
                raise ValueError(f"version {judgement.v}; this looktwice reads version {VERSION}")
        except ValueError as exc:
            advice = "delete the line and judge the run again"
            raise RunError(f"{path} line {number}: not a judgement ({exc}); {advice}") from exc
        last[judgement.key] = judgement
    kept = Judgements(tuple(last.values()))
    if judge not in ("", NO_JUDGE, *kept.judges):
        names = ", ".join(kept.judges) or "none"
        raise RunError(
            f"--judge {judge}: it did not judge {run} (judges so far: {names}); run"
            " `looktwice judge` first"
        )
    counting = dict[str, str]()
    for kind in dict.fromkeys(line.kind for line in kept.lines) if judge != NO_JUDGE else ():
        read = kept.count_verdicts(kind)
        counting[kind] = judge or max(read, key=lambda name: read[name][0])
    return Judgements(kept.lines, counting, is_named=bool(judge))


def append_judgements(run: Path, *lines: Judgement) -> None:
    """Append judgements to the file, after cutting off a torn last line that a killed process
    left."""
    path = run / "judged.jsonl"
    if not lines:
        return
    data = ""
    for line in lines:  # empty fields are left out
        node = {name: v for name, v in asdict(line).items() if v or name in ("draw", "v")}
        data += f"{write_json(node)}\n"
    cut_torn_tail(path)
    append_file(path, data.encode())
