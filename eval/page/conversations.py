"""The texts, pictures and times of a run's records for a page, and the samples' own images from the
tasks, if their data is available."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from looktwice.eval.page.data import PageAnswer, PagePicture, PageTurn
from looktwice.eval.records.records import (
    Record,
    RunError,
    RunFolder,
    SampleRow,
    get_looks,
    read_message,
)
from looktwice.eval.scoring.verdict import Scorer
from looktwice.eval.tasks.base import GeneratedTask, TaskError
from looktwice.pipelines.config.build import Binder
from looktwice.pipelines.counted import count_common_prefix, format_times
from looktwice.pipelines.marks import Box, Mark, mark_from_dict
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.sample import Sample

if TYPE_CHECKING:
    from looktwice.prompting.agent.looks import Look

THUMBNAIL_SIDE_AND_QUALITY = 256, 75
"""The longest side of a thumbnail in pixels, and its quality."""

REASONING_PREFIX = "(reasoning) "  # before the reasoning of a model
MAX_PICTURE_CHARACTERS, MAX_THUMBNAIL_CHARACTERS = 9_000_000, 4_000_000
"""Limits of a page, in characters: its texts and thumbnails together, and its thumbnails alone,
enough for some 300 photographs."""

PageMark = tuple[str, float, float, float, float, str]
Sources = Sequence[tuple[PagePicture, Picture]]
"""A sample's own pictures, with their pixels."""


@dataclass
class Conversations:
    """A reader of the conversations of a run's records; it reads a message that many records share
    once."""

    folder: RunFolder
    messages: dict[str, PageTurn] = field(default_factory=dict)

    def add_details(
        self, record: Record, answer: PageAnswer, sources: Callable[[], Sources]
    ) -> PageAnswer:
        """Return the answer with its conversation and timing; `sources` is a function that returns
        the sample's pictures, called only if an agent looked at them."""
        last = record.last_reply or {}
        served = (last.get("served_by") or {}).items()
        return replace(
            answer,
            reply=last.get("text", ""),
            turns=tuple(self._list_turns(record, sources)),
            seconds=record.timings.get("total"),
            served_by=", ".join(f"{name} {value}" for name, value in served if value),
        )

    def _list_turns(self, record: Record, sources: Callable[[], Sources]) -> Iterator[PageTurn]:
        """Yield the turns that no earlier call sent, without replies that were already shown."""
        earlier, reply = list[str](), PageTurn("", ())
        looks = get_looks(record)
        times = {node["sha"]: format_times(node.get("seconds", ())).strip() for node in record.sent}
        for number, call in enumerate(record.calls):
            sent = list(call["messages"])
            for sha in sent[count_common_prefix(sent, earlier) :]:
                turn = self._read_turn(sha, times)
                if turn.role != "assistant" or _get_repeated_parts(turn) != _get_repeated_parts(
                    reply
                ):
                    yield turn
            earlier, reply = sent, _make_reply_turn(call)
            yield reply
            for look in looks:
                if look.call == number:
                    asked = draw_look(look, sources()) if any(look.regions) else ()
                    yield PageTurn("look", (look.summary, *asked))
        for note in record.notes:
            if not note.startswith("look {"):
                yield PageTurn("note", (note,))

    def _read_turn(self, sha: str, times: Mapping[str, str]) -> PageTurn:
        if sha not in self.messages:
            try:
                data = read_message(self.folder.blobs, sha)
            except RunError as exc:
                data = {"role": "user", "parts": [f"({exc})"]}
            parts = [
                p if isinstance(p, str) else PagePicture(p["picture"], times.get(p["picture"], ""))
                for p in data["parts"]
            ]
            self.messages[sha] = PageTurn(data["role"], (*parts, *_format_tool_calls(data)))
        return self.messages[sha]


def _format_tool_calls(node: Mapping[str, Any]) -> list[str]:
    return [f"{call['name']} {call['arguments']}" for call in node.get("tool_calls", ())]


def _get_repeated_parts(turn: PageTurn) -> list[str | PagePicture]:
    """Return the parts of a reply that later calls repeat, without reasoning and without an empty
    text next to tool calls."""
    return [
        part
        for part in turn.parts
        if part and not (isinstance(part, str) and part.startswith(REASONING_PREFIX))
    ]


def _make_reply_turn(call: Mapping[str, Any]) -> PageTurn:
    reply = call.get("reply")
    if not reply:
        return PageTurn("no reply", (str(call.get("error", "")),))
    thought = [f"{REASONING_PREFIX}{reply['reasoning']}"] if reply.get("reasoning") else []
    return PageTurn("reply", (reply["text"], *thought, *_format_tool_calls(reply)))


def scale_marks(row: SampleRow, number: int, size: tuple[int, int]) -> tuple[Any, ...]:
    """Return the marks of image `number` as fractions of its size in pixels; empty if they do not
    fit."""
    try:
        marks = [mark_from_dict(mark) for mark in row.sample["marks"]]
        return tuple(_scale_marks(marks, number, size))
    except (ValueError, TypeError, OverflowError):
        return ()


def _scale_marks(
    marks: Sequence[Mark], number: int, size: tuple[int, int], kind: str = ""
) -> Iterator[PageMark]:
    """Yield the marks of image `number` as a page draws them."""

    def share(x: float, y: float) -> tuple[float, float]:
        return round(x / size[0], 4), round(y / size[1], 4)

    for mark in (mark for mark in marks if mark.image == number):
        if isinstance(mark, Box):
            sides = share(mark.x1 - mark.x0, mark.y1 - mark.y0)
            yield f"box{kind}", *share(mark.x0, mark.y0), *sides, mark.label
        else:
            x, y = mark.center
            yield f"point{kind}", *share(x + 0.5, y + 0.5), 0.0, 0.0, mark.label


def draw_answer(
    scorer: Scorer | None, answer: PageAnswer, row: SampleRow, sources: Callable[[], Sources]
) -> tuple[PagePicture, ...]:
    """Return the sample's own pictures with the correct answer and this answer drawn on them, by
    `Scorer.marks`; empty if the scorer has no marks."""
    found = scorer.marks(answer.answer, row) if scorer and answer.answer else ()
    true = scorer.marks(None, row) if scorer and row.answer is not None else ()
    if not found and not true:
        return ()
    placed = list[PagePicture]()
    for number, (picture, pixels) in enumerate(sources()):
        marks = _scale_marks(true, number, pixels.size, " true")
        found_marks = _scale_marks(found, number, pixels.size, " found")
        placed.append(replace(picture, marks=(*marks, *found_marks)))
    return tuple(placed)


def draw_look(look: Look, sources: Sources) -> Iterator[PagePicture]:
    """Yield every image in which a look requested a region, with a box around that region."""
    for number, *edges in filter(None, look.regions):
        if int(number) < len(sources):
            picture, pixels = sources[int(number)]
            width, height = pixels.size
            left, top, right, bottom = (
                round(edge / side, 4) for edge, side in zip(edges, (width, height) * 2, strict=True)
            )
            box = ("box", left, top, right - left, bottom - top, str(look.number))
            yield PagePicture(picture.name, f"look {look.number} at {picture.caption}", (box,))


def rebuild_tasks(
    folders: Sequence[RunFolder], plugins: Sequence[str]
) -> tuple[dict[str, Any], list[str]]:
    """Return the tasks of runs by task id, rebuilt from their records, and the reasons why some
    cannot or must not be read."""
    tasks, faults = dict[str, Any](), list[str]()
    for folder in folders:
        binder = Binder.for_run(folder.path, plugins)
        for point in folder.points.values():
            if point.task_id not in tasks and "task" in point.spec:
                # do not test whether it is empty, which would read its data
                task = binder.build_node(point.spec["task"], "task")
                tasks[point.task_id] = () if task is None else task
        faults += binder.faults
    return tasks, faults


def make_image_loader(tasks: Mapping[str, Any]) -> Callable[[str, str], tuple[Picture, ...]]:
    """Return a function (task id, sample id) -> the sample's own images, empty if the task's data
    is not available. `tasks` maps task ids to tasks."""
    loaded: dict[str, dict[str, Sample]] = {}

    def images(task_id: str, sample: str) -> tuple[Picture, ...]:
        task = tasks.get(task_id, ())
        if isinstance(task, GeneratedTask):
            return item.sample.images if (item := task.item(sample)) else ()
        if task_id not in loaded:
            loaded[task_id] = {}
            with suppress(TaskError):  # its data is gone
                loaded[task_id] = {item.sample.id: item.sample for item in task}
        match = loaded[task_id].get(sample)
        return tuple(map(copy, match.images)) if match else ()  # copies, so that pixels are freed

    return images
