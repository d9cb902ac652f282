"""`looktwice trajectories`: whole conversations of a run, tools and images included, as JSONL for tuning.

A line has `messages` in the form that chat templates take (text and image parts, tool calls with arguments as objects),
`images` as paths beside the file in the order of the image parts, `tools` as they were offered, and what to choose by:
verdict, value, how many looks, how many of them were refused, tokens.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from looktwice.eval.records.records import Record, RunError, RunFolder, SampleRow
from looktwice.eval.scoring.benchmark import build_scorer
from looktwice.eval.scoring.score import RecordScorer, configured_reader, score_run
from looktwice.eval.scoring.verdict import PointScores, ScoredRecord, Verdict
from looktwice.pipelines.model import Message, ToolCall
from looktwice.pipelines.state import Stage
from looktwice.pipelines.view import View
from looktwice.prompting.agent.record import read_end, read_looks

ENDINGS = {"image/jpeg": "jpg", "image/png": "png", "image/webp": "webp"}


def write_trajectories(
    run: Path, out: Path, only: Sequence[str] = (), reader: Stage | None = None, whole: bool = False
) -> Iterator[str]:
    """Write the file and its images; says how many. `only` keeps verdicts ("right"), `whole` leaves out refused calls.

    Raises RunError for a verdict that there is none of, and where nothing is left to write.
    """
    unknown = [name for name in only if name not in list(Verdict)]
    if unknown:
        raise RunError(f"--only {unknown[0]}: there is no such verdict; there are {', '.join(Verdict)}")
    out.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    with out.open("w", encoding="utf-8") as file:
        for line in trajectories(run, out, only, reader, whole):
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
            written += 1
    if not written:
        raise RunError(f"{run} has no such conversation; leave out --only, or ask with a stage that calls a model")
    yield f"{written} conversations: {out} (images beside it in {_image_folder(out).name})"


def trajectories(
    run: Path, out: Path, only: Sequence[str] = (), reader: Stage | None = None, whole: bool = False
) -> Iterator[dict[str, Any]]:
    """The conversations of a run, one a record, as the answering call has it; images go beside `out`."""
    scored = score_run(RunFolder(run), reader)
    points = {scores.point.id: scores for scores in scored.points}
    judges = {
        name: RecordScorer(scored.folder, reader or configured_reader(scores.point), build_scorer(scores.point.facts))
        for name, scores in points.items()
    }
    for record in scored.folder.records().values():
        scores = points[record.point]
        found = scores.scored.get(record.sample, {}).get(record.draw)
        if found is None or record.error or not record.replies or (only and found.verdict not in only):
            continue
        if not (whole and _count_refused(record)):
            call = _answering_call(judges[record.point], record, scores.samples[record.sample], found)
            yield _line(scored.folder, scores, record, found, call, out)


def _count_refused(record: Record) -> int:
    return sum(look.outcome == "refused" for look in read_looks(record.notes))


def _answering_call(judge: RecordScorer, record: Record, row: SampleRow, scored: ScoredRecord) -> int:
    """The last call of the conversation that led to the answer: of the draws of a vote, the first that says the same.

    A stage's second model counts where the point's own was never asked.
    """
    replied = [number for number, call in enumerate(record.calls) if call.get("reply")]
    own = [number for number in replied if not record.calls[number].get("model")] or replied
    ends = {record.calls[number]["draw"]: number for number in own}
    if len(ends) == 1:
        return own[-1]
    said = (judge(replace(record, calls=record.calls[: end + 1], answer=None), row) for end in ends.values())
    found = (end for end, read in zip(ends.values(), said, strict=True) if read.answer == scored.answer)
    return next(found, own[-1])


def _line(
    folder: RunFolder, scores: PointScores, record: Record, scored: ScoredRecord, call: int, out: Path
) -> dict[str, Any]:
    messages, looks, ended = folder.messages(record, call), read_looks(record.notes), read_end(record.notes)
    images = [_save_image(view, out) for message in messages for view in message.views]
    usage = [reply.usage for reply in record.replies]
    row = scores.samples[record.sample]
    return {
        "id": f"{record.point}/{record.sample}/{record.draw}",
        "task": scores.point.task,
        "contestant": scores.contestant,
        "sample": record.sample,
        "verdict": scored.verdict.value,
        "value": scored.score.value,
        "answer": scored.answer,
        "key": row.answer,
        "looks": len(looks),
        "refused": _count_refused(record),
        "ended": ended.by if ended is not None else "",
        "tokens": sum(each.tokens_in + each.tokens_out for each in usage),
        "messages": _turns(messages),
        "images": images,
        "tools": _offered_tools(record),
    }


def _turns(messages: Sequence[Message]) -> list[dict[str, Any]]:
    return [_turn(message) for message in messages]


def _turn(message: Message) -> dict[str, Any]:
    content = [{"type": "text", "text": part} if isinstance(part, str) else {"type": "image"} for part in message.parts]
    turn: dict[str, Any] = {"role": message.role, "content": content}
    if message.tool_calls:
        turn["tool_calls"] = [_tool_call(call) for call in message.tool_calls]
    if message.call_id:
        turn["tool_call_id"] = message.call_id
    return turn


def _tool_call(call: ToolCall) -> dict[str, Any]:
    """Arguments as an object where they are one, as templates want them, else the text as it was."""
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        arguments = call.arguments
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _offered_tools(record: Record) -> list[Mapping[str, Any]]:
    """The tools of the first call that offered any, with their schemas."""
    for call in record.calls:
        if tools := (call.get("options") or {}).get("tools"):
            return [{"type": "function", "function": dict(tool)} for tool in tools]
    return []


def _save_image(view: View, out: Path) -> str:
    """The path of the picture's own bytes, written once."""
    payload = view.picture.payload
    path = _image_folder(out) / f"{payload.sha}.{ENDINGS.get(payload.media_type, 'bin')}"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(payload.data)
    return str(path.relative_to(out.parent))


def _image_folder(out: Path) -> Path:
    return out.with_name(f"{out.stem}_images")
