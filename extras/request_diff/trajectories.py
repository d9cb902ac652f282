"""`looktwice export --to trajectories`: the conversations of a run, tools and images included, as
JSONL or Parquet for fine-tuning.

Every line has every field, a field has one type in all lines, and missing values are null.
`messages` have the form of chat APIs: a `role`, a `content` that is a list of text and image parts,
`tool_calls` whose `arguments` are the text that the model wrote (JSON, unless the call is
malformed), and `tool_call_id`. `images` are the images of the image parts, in their order: paths
relative to the file in JSONL, bytes in Parquet. `tools` are the tools offered, as JSON text.
Lines can be filtered by verdict, value, number of looks, number of refused looks, and tokens.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from looktwice.eval.records.records import Record, RunError, RunFolder, refuse_run_file
from looktwice.eval.scoring.score import score_run
from looktwice.eval.scoring.verdict import PointScores, ScoredRecord, Verdict
from looktwice.pipelines.config.classes import suggest_names
from looktwice.pipelines.config.spec import get_public_path
from looktwice.pipelines.counted import format_count
from looktwice.pipelines.disk import open_atomic, write_file
from looktwice.pipelines.model import Message
from looktwice.pipelines.picture import Payload
from looktwice.pipelines.state import Stage
from looktwice.prompting.agent import BlackImages, NoResult
from looktwice.prompting.agent.looks import read_episode_end, read_looks

Line = dict[str, Any]

FILE_EXTENSIONS = {"image/jpeg": "jpg", "image/png": "png", "image/webp": "webp"}
LINES_PER_WRITE = 64  # lines with images in memory while a Parquet file is written


def write_trajectories(out: Path, lines: Iterator[Line]) -> Iterator[str]:
    """Write the file as JSONL or Parquet, by its suffix, and yield a line with the number of
    conversations.

    Raises RunError for another suffix, and the errors of `read_trajectories`.
    """
    refuse_run_file(out)
    if out.suffix not in (".jsonl", ".parquet"):
        raise RunError(f"--out {out}: trajectories need a name that ends in .jsonl or .parquet")
    written, images = chain([next(lines)], lines), out.with_name(f"{out.stem}_images")
    out.parent.mkdir(parents=True, exist_ok=True)
    if out.suffix == ".parquet":
        yield f"{format_count(_write_parquet(written, out), 'conversation')}: {out} (images inside)"
    else:
        conversations = format_count(_write_jsonl(written, out, images), "conversation")
        yield f"{conversations}: {out} (images in {images.name} next to it)"


def read_trajectories(
    run: Path,
    only: Sequence[str] = (),
    reader: Stage | None = None,
    whole: bool = False,
    plugins: Sequence[str] = (),
    contestants: Sequence[str] = (),
) -> Iterator[Line]:
    """Yield the conversations of a run, one per record, up to the call that gave the answer;
    `images` are Payloads.

    `only` selects verdicts such as "right"; `whole` leaves out conversations with refused tool
    calls. `contestants` are named with or without their changes; the default is all except
    placebos, whose zooms show another region or nothing, and those that failed on every sample.
    Raises RunError for an unknown verdict or contestant, and if no conversation is left.
    """
    if unknown := [name for name in only if name not in list(Verdict)]:
        raise RunError(
            f"--only {unknown[0]}: there is no such verdict; use one of {', '.join(Verdict)}"
        )
    scored, is_empty = score_run(RunFolder(run), reader, plugins=plugins), True
    points = {scores.point.id: scores for scores in _select_points(scored.points, contestants)}
    for record in scored.folder.records().values():
        if record.error or not record.replies or record.point not in points:
            continue
        scores = points[record.point]
        verdict = scores.scored.get(record.sample, {}).get(record.draw)
        if verdict is None or (only and verdict.verdict not in only):
            continue
        line = _make_line(scored.folder, scores, record, verdict)
        if not (whole and line["refused"]):
            is_empty = False
            yield line
    if is_empty:
        raise RunError(
            f"{run} has no conversation that matches these options; leave out --only, name another"
            " --contestant, or run stages that call a model"
        )


def _select_points(points: Sequence[PointScores], names: Sequence[str]) -> list[PointScores]:
    """Select the arms whose conversations are written. Raises RunError for an unknown name."""
    labels = set[str]()
    for arm in points:
        labels |= {arm.contestant, arm.point.contestant}
    for name in names:
        if name not in labels:
            hint = suggest_names(name, labels) or f"; use one of {', '.join(sorted(labels))}"
            raise RunError(f"--contestant {name}: there is no such contestant{hint}")
    if names:
        return [a for a in points if {a.contestant, a.point.contestant} & {*names}]
    return [arm for arm in points if not (arm.failure or is_placebo(arm.point.spec.get("stages")))]


def is_placebo(node: Any) -> bool:
    """Return whether a stage, or one of its settings, shows a region other than the one asked for,
    or nothing."""
    if isinstance(node, Mapping):
        uses = {get_public_path(kind) for kind in (BlackImages, NoResult)}
        blind = node.get("elsewhere") is True or node.get("use") in uses
        return blind or any(map(is_placebo, node.values()))
    return isinstance(node, list | tuple) and any(map(is_placebo, node))


def _write_jsonl(lines: Iterator[Line], out: Path, images: Path) -> int:
    """Write JSON lines; begin with one that has tool calls and images, since readers infer types
    from the first lines of a file."""
    written = list[Line]()
    for line in lines:
        paths = []
        for image in line["images"]:
            path = images / _format_file_name(image)
            if not path.exists():
                write_file(path, image.data)
            paths.append(path.relative_to(out.parent).as_posix())
        written.append(line | {"images": paths})

    def rank_by_content(number: int) -> tuple[bool, bool]:
        line = written[number]
        return any(turn["tool_calls"] for turn in line["messages"]), bool(line["images"])

    written.insert(0, written.pop(max(range(len(written)), key=rank_by_content)))
    with open_atomic(out) as file:
        for line in written:
            file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
    return len(written)


def _write_parquet(lines: Iterator[Line], out: Path) -> int:
    """Write Parquet with images in the format of `datasets`: the bytes, and a file name whose
    suffix gives the format."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    text, count, written = pa.string(), pa.int64(), 0
    function = pa.struct({"name": text, "arguments": text})
    call = pa.struct({"id": text, "type": text, "function": function})
    message = {
        "role": text,
        "content": pa.list_(pa.struct({"type": text, "text": text})),
        "tool_calls": pa.list_(call),
        "tool_call_id": text,
    }
    others = {
        "value": pa.float64(),
        **dict.fromkeys(("looks", "refused", "tokens"), count),
        "messages": pa.list_(pa.struct(message)),
        "images": pa.list_(pa.struct({"bytes": pa.binary(), "path": text})),
    }
    rows = list(islice(lines, LINES_PER_WRITE))
    schema = pa.schema({name: others.get(name, text) for name in rows[0]})
    with open_atomic(out) as whole, ParquetWriter(whole, schema) as file:
        while rows:
            for row in rows:
                row["images"] = [
                    {"bytes": i.data, "path": _format_file_name(i)} for i in row["images"]
                ]
            file.write_table(pa.Table.from_pylist(rows, schema))
            written, rows = written + len(rows), list(islice(lines, LINES_PER_WRITE))
    return written


def _find_answering_call(scores: PointScores, record: Record, scored: ScoredRecord) -> int:
    """Return the index of the last call of the conversation that led to the answer; among the draws
    of a vote, take the first with this answer.

    Calls of a stage's second model count only if the contestant's own model was never called.
    """
    replied = [number for number, call in enumerate(record.calls) if call.get("reply")]
    own = [number for number in replied if not record.calls[number].get("model")] or replied
    ends = dict[int, int]()
    for number in own:
        ends[record.calls[number]["draw"]] = number
    if len(ends) > 1 and scores.score is not None:
        for end in ends.values():
            draw = replace(record, calls=record.calls[: end + 1], answer=None)
            if scores.score(draw, scores.samples[record.sample]).answer == scored.answer:
                return end
    return own[-1]


def _make_line(
    folder: RunFolder, scores: PointScores, record: Record, scored: ScoredRecord
) -> Line:
    messages = folder.messages(record, _find_answering_call(scores, record, scored))
    looks, ended = read_looks(record.notes), read_episode_end(record.notes)
    usage = [reply.usage for reply in record.replies]
    offered = ((call.get("options") or {}).get("tools") for call in record.calls)
    tools = next(filter(None, offered), ())  # of the first call that offered any
    return {
        "id": f"{record.point}/{record.sample}/{record.draw}",
        "task": scores.point.task,
        "contestant": scores.contestant,
        "sample": record.sample,
        "verdict": scored.verdict.value,
        "value": float(scored.score.value),
        "answer": scored.answer,
        "key": scores.samples[record.sample].answer,
        "looks": len(looks),
        "refused": sum(look.outcome == "refused" for look in looks),
        "ended": ended.by if ended is not None else "",
        "tokens": sum(used.tokens_in + used.tokens_out for used in usage),
        "messages": [_make_turn(message) for message in messages],
        "images": [view.picture.payload for message in messages for view in message.views],
        "tools": json.dumps(
            [{"type": "function", "function": dict(tool)} for tool in tools], ensure_ascii=False
        ),
    }


def _make_turn(message: Message) -> dict[str, Any]:
    """Convert a message to a turn with every field; chat templates that test for a field ignore
    null values."""
    content, calls = list[Line](), list[Line]()
    for part in message.parts:
        is_text = isinstance(part, str)
        content.append(
            {"type": "text", "text": part} if is_text else {"type": "image", "text": None}
        )
    for call in message.tool_calls:
        function = {"name": call.name, "arguments": call.arguments}
        calls.append({"id": call.id, "type": "function", "function": function})
    return {
        "role": message.role,
        "content": content,
        "tool_calls": calls or None,
        "tool_call_id": message.call_id or None,
    }


def _format_file_name(image: Payload) -> str:
    return f"{image.sha}.{FILE_EXTENSIONS.get(image.media_type, 'bin')}"
