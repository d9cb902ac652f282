"""The questions of a run as a probe takes them: what was sent, the true answer, and whether the
model was right."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from looktwice.eval.records.records import Record, SampleRow
from looktwice.eval.scoring.verdict import RunScores, Verdict


class Question(NamedTuple):
    """A question that was asked: `label` is the true answer in words, `words` are those in which it
    was asked.

    `offered` are the choices in words, none of an open question. Questions of one `cluster` share
    their picture, or a group. `sent` are the messages by sha256: read, each would hold its pixels.
    """

    sample: str
    cluster: str
    label: str
    words: str
    right: float
    sent: Sequence[str]
    offered: Sequence[str] = ()


def questions_of(run: RunScores) -> Mapping[str, Sequence[Question]]:
    """The questions of every arm by the id of its point, in the order of their records.

    Of several draws the first counts. Left out are samples without a key, those that failed, and
    those whose answer no request of the arm's own model brought; requests that offered tools are
    not among these.
    """
    by_arm: dict[str, dict[str, Question]] = {scores.point.id: {} for scores in run.points}
    for scores, record in run.records():
        row, scored = scores.samples.get(record.sample), scores.result_of(record)
        sent = _answered(record)
        if row is None or row.answer is None or scored is None or sent is None or record.draw > 0:
            continue
        if scored.verdict is not Verdict.FAILED:
            by_arm[scores.point.id][record.sample] = Question(
                record.sample,
                scores.clusters[record.sample],
                true_answer(row),
                row.sample["question"],
                scored.score.value,
                sent,
                choice_texts(row),
            )
    return {name: list(questions.values()) for name, questions in by_arm.items()}


def choice_texts(row: SampleRow) -> tuple[str, ...]:
    """The choices of a question in words; none where there are no choices, or where some are
    pictures."""
    choices = row.sample["choices"]
    return tuple(map(_plain, choices)) if all(isinstance(choice, str) for choice in choices) else ()


def true_answer(row: SampleRow) -> str:
    """The text of the right choice, so that its place among the choices is no part of it; without
    texts, the key."""
    key, texts = (row.answer or "").strip(), choice_texts(row)
    number = ord(key) - ord("A") if len(key) == 1 else -1
    return texts[number] if 0 <= number < len(texts) else _plain(key)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def is_held_out(cluster: str, share: float) -> bool:
    """Whether a cluster is among the share that a probe is tried on: the same in every arm and
    run."""
    drawn = int.from_bytes(hashlib.sha256(f"held out\n{cluster}".encode()).digest()[:8])
    return drawn < share * 2**64


def _answered(record: Record) -> Sequence[str] | None:
    """The messages of the last request that the arm's own model answered with words."""
    for call in reversed(record.calls):
        if (
            call.get("reply")
            and not call.get("model")
            and not (call.get("options") or {}).get("tools")
        ):
            return tuple(call["messages"])
    return None
