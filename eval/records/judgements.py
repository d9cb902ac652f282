"""What judges said of a run's replies: `judged.jsonl` in the run folder, read by scoring, which
asks nobody."""

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
from looktwice.pipelines.json_input import CLOSED, Holds, Number, Whole, read_as, write_json

VERSION = 1
DESCRIPTION_PASS = "vid"
"""The judge grades a description; its grade is then the answer that is compared with the key."""
REASONING_PASS = "cot"
"""The judge scores the reasoning by criteria; this leaves the verdict on the answer as it is."""
UNREADABLE_PASS = "unreadable"
"""The judge extracts the answer from a reply that the reader could not read."""
EVERY_PASS = "every"
"""The judge extracts the answer from every reply, in the reader's place."""
STEPS_PASS = "steps"
"""The judge says which annotated steps a chain of thought sees; the answer's verdict stays."""
NOBODY = "none"
"""The name of no judge, as `--judge` takes it."""

JudgedWords = tuple[str, str, int, str]
"""(point, sample, draw, digest of the judged words)."""
JudgementKey = tuple[str, str, str, int, str, str, int]
"""(pass, point, sample, draw, identity of the judge, judged words, version of the question): the
last line counts."""


@dataclass(frozen=True)
class Judgement:
    """One reply, judged in one pass. Of a record that was asked anew, and so has other words, it
    says nothing.

    `judge` is the model's name, `identity` a digest of all its settings, `words` a digest of what
    was judged, `asked` the version of the question put to it. The verdict is an `answer`, `scores`
    by criterion, or `none` (the reply chooses nothing); else `reason` says why its words give no
    verdict, or `error` that it could not be asked. `cached` says that no server was asked for it;
    tokens are those of the judge's call.
    """

    __pydantic_config__ = CLOSED
    kind: str
    point: str
    sample: str
    draw: Draw
    judge: str
    identity: str
    words: str
    asked: Whole = 1
    answer: str | None = None
    scores: Annotated[Mapping[str, float], Holds(dict[str, Number])] = field(default_factory=dict)
    none: bool = False
    reason: str = ""
    error: str = ""
    said: str = ""
    tokens_in: Whole = 0
    tokens_out: Whole = 0
    cached: bool = False
    v: int = VERSION

    @property
    def key(self) -> JudgementKey:
        """What makes this line the successor of an earlier one."""
        return self.kind, self.point, self.sample, self.draw, self.identity, self.words, self.asked

    @property
    def given(self) -> bool:
        """Whether there is a verdict, also that the reply chooses nothing."""
        return self.answer is not None or bool(self.scores) or self.none

    @property
    def verdict(self) -> str:
        """The verdict as a text, for comparing two judges; empty where there is none."""
        if self.scores:
            return ", ".join(f"{name} {value:g}" for name, value in self.scores.items())
        return "none" if self.none else self.answer or ""


@dataclass(frozen=True)
class Judgements:
    """Every judgement of a run, and by pass the judge (`counting`) whose verdicts scoring uses;
    empty for none.

    `named` says that somebody named that judge; else it is the one that read most in the pass.
    """

    lines: tuple[Judgement, ...] = ()
    counting: Mapping[str, str] = field(default_factory=dict)
    named: bool = False

    @property
    def counts(self) -> str:
        """The judges whose verdicts count, in one text."""
        return ", ".join(dict.fromkeys(self.counting.values()))

    @property
    def judges(self) -> list[str]:
        """The judges by name, in the order in which they were first asked."""
        return list(dict.fromkeys(line.judge for line in self.lines))

    def read_in(self, kind: str) -> dict[str, tuple[int, int]]:
        """By judge of a pass: on how many of the replies that it was asked about it gave a verdict,
        and of how many."""
        read = dict[str, tuple[int, int]]()
        for line in self.lines:
            if line.kind == kind:
                given, asked = read.get(line.judge, (0, 0))
                read[line.judge] = given + line.given, asked + 1
        return read

    @property
    def which_counts(self) -> list[str]:
        """Of several judges of a pass, one sentence: whose verdicts count and why, and how many
        replies each of them read."""
        sentences, why = list[str](), "it was named" if self.named else "no judge read more"
        for kind, judge in self.counting.items():
            read = {name: "{} of {}".format(*of) for name, of in self.read_in(kind).items()}
            own = read.pop(judge, "0 of 0")
            if read:
                others = ", ".join(" ".join(pair) for pair in read.items())
                where = f" for {kind}" if len(self.counting) > 1 else ""
                sentences.append(
                    f"judge {judge} counts{where}, since {why}: it read {own} replies ({others});"
                    " --judge NAME takes another"
                )
        return sentences

    def by_record(self) -> dict[JudgedWords, dict[str, Judgement]]:
        """The verdicts that count, by (point, sample, draw, words) and pass."""
        records = defaultdict[JudgedWords, dict[str, Judgement]](dict)
        for line in self.lines:
            if line.judge == self.counting.get(line.kind) and line.given:
                records[line.point, line.sample, line.draw, line.words][line.kind] = line
        return dict(records)


def words_of(record: Record) -> str:
    """A digest of the words of a record that a judge reads: its last reply; empty where it has
    none."""
    last = record.last_reply
    return hashlib.sha256(last["text"].encode()).hexdigest()[:16] if last else ""


def judgements(run: Path, judge: str = "") -> Judgements:
    """The last line of every key. `judge` names whose verdicts count: "none" nobody's, and "" in
    each pass those of the judge that gave a verdict on most replies (of equal ones the first that
    was asked).

    Raises RunError for a damaged line, and for a judge that never judged this run.
    """
    last = dict[JudgementKey, Judgement]()
    path = run / "judged.jsonl"
    data = path.read_bytes() if path.exists() else b""
    for number, line in enumerate(data.split(b"\n")[:-1], 1):  # without a torn last one
        try:
            judgement: Judgement = read_as(Judgement, line)
            if judgement.v != VERSION:
                raise ValueError(f"version {judgement.v}; this looktwice reads version {VERSION}")
        except ValueError as exc:
            advice = "delete the line and judge the run again"
            raise RunError(f"{path} line {number}: not a judgement ({exc}); {advice}") from exc
        last[judgement.key] = judgement
    kept = Judgements(tuple(last.values()))
    if judge not in ("", NOBODY, *kept.judges):
        names = ", ".join(kept.judges) or "nobody"
        raise RunError(
            f"--judge {judge}: it did not judge {run} (so far: {names}); `looktwice judge` asks one"
        )
    counting = dict[str, str]()
    for kind in dict.fromkeys(line.kind for line in kept.lines) if judge != NOBODY else ():
        read = kept.read_in(kind)
        counting[kind] = judge or max(read, key=lambda name: read[name][0])
    return Judgements(kept.lines, counting, named=bool(judge))


def append(run: Path, *lines: Judgement) -> None:
    """Write lines behind the others; a torn last line, which a killed process leaves, is cut off
    first."""
    path = run / "judged.jsonl"
    if not lines:
        return
    data = ""
    for line in lines:  # what is empty is left out
        node = {name: v for name, v in asdict(line).items() if v or name in ("draw", "v")}
        data += f"{write_json(node)}\n"
    cut_torn_tail(path)
    append_file(path, data.encode())
