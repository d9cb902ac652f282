"""Make the record of a sample from its last state, or from the failure that ended it, and the line
of an arm."""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from looktwice.eval.records.records import PointRow, Record, RunError
from looktwice.pipelines.config.arm import Arm
from looktwice.pipelines.config.plan import Plan
from looktwice.pipelines.config.spec import spec
from looktwice.pipelines.json_input import mend_text
from looktwice.pipelines.model import Reply, canonical, message_json
from looktwice.pipelines.models.keys import mask_keys, refuse_keys
from looktwice.pipelines.picture import PictureError
from looktwice.pipelines.pipeline import describe
from looktwice.pipelines.runtime.stores import Blobs
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import Call, State


def make_record(
    point: Arm, given: Sample, sha: str, state: State, blobs: Blobs, error: str = ""
) -> Record:
    """The record of one sample at one point; messages and pictures sent are put into `blobs` first.

    `given` is the sample as the task gave it: marks are recorded where a stage changed them.
    """
    calls = [call for entry in state.trace for call in entry.calls]
    sent = {kept["sha"]: kept for kept in _store_pictures(calls, blobs)}
    asked = state.sample
    return Record(
        point=point.id,
        sample=state.sample.id,
        sample_sha=sha,
        draw=state.draw,
        answer=None if error else state.answer,
        reason=state.reason,
        confidence=state.confidence,
        error=error,
        calls=tuple(_describe_call(call, blobs) for call in calls),
        pictures=tuple(sent),
        marks=tuple(mark.to_dict() for mark in asked.marks) if asked.marks != given.marks else None,
        notes=state.notes,
        timings={
            "total": round(sum(entry.seconds for entry in state.trace), 6),
            "stages": {entry.slot: round(entry.seconds, 6) for entry in state.trace},
            "calls": [
                {"seconds": c.reply.seconds, "cached": c.reply.cached} if c.reply else {}
                for c in calls
            ],
        },
        sent=tuple(sent.values()),
        choices=tuple(asked.to_dict()["choices"]) if asked.choices != given.choices else None,
        letters=dict(state.letters) or None,
        measured=dict(state.measures) or None,
    )


def make_point_rows(plan: Plan) -> list[PointRow]:
    """The lines of points.yaml for a plan. Raises RunError where a setting holds a key: all are
    written down."""
    rows = [_make_point_row(arm) for arm in (*plan.points, *plan.readings)]
    try:
        refuse_keys(**plan.config)
        for row in rows:  # what files of texts hold, and what was not made from a configuration
            refuse_keys(contestants={row.contestant: asdict(row)})
    except ValueError as exc:
        raise RunError(str(exc)) from exc
    return rows


def _make_point_row(arm: Arm) -> PointRow:
    facts = asdict(arm.task.facts) | {"scorer": spec(arm.task.facts.scorer)}
    return PointRow(
        arm.id,
        arm.contestant,
        arm.task_name,
        arm.task_id,
        dict(arm.changes),
        arm.baseline,
        facts,
        arm.spec,
        spec(arm.read),
        arm.draws,
        arm.seed,
        arm.replies_of,
    )


def describe_failure(exc: BaseException) -> str:
    """The traceback of a stage's own exception, its last line first, so that tables can show one
    line; without keys."""
    return mask_keys(f"{describe(exc)}\n{mend_text(''.join(traceback.format_exception(exc)))}")


def describe_reply(reply: Reply) -> dict[str, Any]:
    """A reply as a record holds it: without its time, which stands among the timings."""
    return {
        key: value for key, value in reply.to_dict().items() if key not in ("seconds", "cached")
    }


def _describe_call(call: Call, blobs: Blobs) -> dict[str, Any]:
    entry: dict[str, Any] = {"messages": _store_messages(call, blobs), "draw": call.draw}
    if options := call.options.given():
        entry["options"] = options
    if call.reply is not None:
        entry["reply"] = describe_reply(call.reply)
    if call.error:
        entry["error"] = call.error
    if call.model:
        entry["model"] = call.model
    return entry


def _store_messages(call: Call, blobs: Blobs) -> list[str]:
    try:
        return [blobs.put(canonical(message_json(message)).encode()) for message in call.messages]
    except (
        PictureError
    ):  # a picture that cannot be encoded is why this call failed; its error says so
        return []


def _store_pictures(calls: Iterable[Call], blobs: Blobs) -> Iterable[dict[str, Any]]:
    for call in calls:
        for view in (view for message in call.messages for view in message.views):
            try:
                payload, (width, height) = view.picture.payload, view.size
            except PictureError:
                continue
            sha = blobs.put(payload.data, payload.sha)
            size = {
                "bytes": len(payload.data),
                "type": payload.media_type,
                "width": width,
                "height": height,
            }
            yield {"sha": sha, **size, **({"note": payload.note} if payload.note else {})}
