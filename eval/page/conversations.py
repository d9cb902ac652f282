"""The words, pictures and times of a run's records, as a page shows them: turns that no earlier
call has sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from looktwice.eval.page.data import PageAnswer, PagePicture, PageTurn
from looktwice.eval.records.records import Record, RunError, RunFolder, SampleRow, read_message
from looktwice.pipelines.marks import Box, Mark, mark_from_dict
from looktwice.prompting.agent.episode import read_looks

THUMBNAIL = 256, 75
"""The longest side of a thumbnail in pixels, and its quality as a JPEG."""


@dataclass
class Conversations:
    """Reads the conversations of a run's records; a message that many records share is read
    once."""

    folder: RunFolder
    known: dict[str, PageTurn] = field(default_factory=dict)

    def detail(self, record: Record, answer: PageAnswer) -> PageAnswer:
        """The answer with what was said and shown, and how long it took."""
        last = record.last_reply or {}
        served = ", ".join(
            f"{name} {value}" for name, value in (last.get("served_by") or {}).items() if value
        )
        seconds = record.timings.get("total")
        return replace(
            answer,
            reply=last.get("text", ""),
            turns=(*self._turns(record),),
            seconds=seconds,
            served_by=served,
        )

    def _turns(self, record: Record) -> Iterator[PageTurn]:
        seen: list[str] = []
        looks = {look.call: look.words for look in read_looks(record.notes)}
        for number, call in enumerate(record.calls):
            sent = list(call["messages"])
            common = next(
                (i for i, (a, b) in enumerate(zip(sent, seen, strict=False)) if a != b),
                min(len(sent), len(seen)),
            )
            yield from (
                self._turn(sha)
                for sha in sent[common:]
                if not self._is_last_reply(sha, record, number)
            )
            seen = sent
            yield _reply(call)
            if number in looks:
                yield PageTurn("look", (looks[number],))
        for note in record.notes:
            if not note.startswith("look {"):
                yield PageTurn("note", (note,))

    def _is_last_reply(self, sha: str, record: Record, number: int) -> bool:
        """Whether a message only sends back what the model said in the call before, which is shown
        already."""
        turn = self._turn(sha)
        return (
            number > 0
            and turn.role == "assistant"
            and turn.parts == _reply(record.calls[number - 1]).parts[:1]
        )

    def _turn(self, sha: str) -> PageTurn:
        if sha not in self.known:
            try:
                data = read_message(self.folder.blobs, sha)
                parts = tuple(
                    p if isinstance(p, str) else PagePicture(p["picture"]) for p in data["parts"]
                )
                tools = tuple(
                    f"{call['name']} {call['arguments']}" for call in data.get("tool_calls", ())
                )
                self.known[sha] = PageTurn(data["role"], (*parts, *tools))
            except RunError as exc:
                self.known[sha] = PageTurn("user", (f"({exc})",))
        return self.known[sha]


def _reply(call: Mapping[str, Any]) -> PageTurn:
    reply = call.get("reply")
    if not reply:
        return PageTurn("no reply", (str(call.get("error", "")),))
    tools = [f"{tool['name']} {tool['arguments']}" for tool in reply.get("tool_calls", ())]
    thought = [f"(reasoning) {reply['reasoning']}"] if reply.get("reasoning") else []
    return PageTurn("reply", (reply["text"], *thought, *tools))


def place_marks(row: SampleRow, number: int, size: tuple[int, int]) -> tuple[Any, ...]:
    """The marks of image `number` as shares of its size in pixels; none where they do not fit."""
    with suppress(ValueError, TypeError, OverflowError):
        marks = [mark_from_dict(mark) for mark in row.sample["marks"]]
        return tuple(_placed(mark, size) for mark in marks if mark.image == number)
    return ()


def _placed(mark: Mark, size: tuple[int, int]) -> tuple[str, float, float, float, float, str]:
    width, height = size
    if isinstance(mark, Box):
        sides = (
            mark.x0 / width,
            mark.y0 / height,
            (mark.x1 - mark.x0) / width,
            (mark.y1 - mark.y0) / height,
        )
        left, top, right, bottom = (round(side, 4) for side in sides)
        return ("box", left, top, right, bottom, mark.label)
    x, y = mark.center
    return "point", round((x + 0.5) / width, 4), round((y + 0.5) / height, 4), 0.0, 0.0, mark.label


def shown_pictures(answers: Sequence[PageAnswer]) -> dict[str, None]:
    """The names of the pictures in the conversations, in order."""
    parts = (part for answer in answers for turn in answer.turns for part in turn.parts)
    return dict.fromkeys(part.name for part in parts if isinstance(part, PagePicture))
