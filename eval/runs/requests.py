"""Requests of clients of `serve`: the turns and settings that a client sent with a question. With
them, a replay runs a contestant's stages as they ran for the client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from looktwice.eval.records.records import Record, RunError, RunFolder, StoredMessage
from looktwice.pipelines.config.spec import asks_model
from looktwice.pipelines.json_input import read_json, write_canonical
from looktwice.pipelines.model import (
    CallOptions,
    Message,
    Model,
    ModelError,
    Tool,
    make_message_json,
)
from looktwice.pipelines.pipeline import RecordingModel
from looktwice.pipelines.runtime.stores import Blobs
from looktwice.pipelines.state import Stage, State

REQUEST_NOTE_PREFIX = "request "
"""Prefix of a record's note that holds the sha256 of its request."""
SENT_PREFIX = "sent."
"""Prefix of the names of a record's measurements that hold settings which `CallOptions` lacks."""


@dataclass(frozen=True, eq=False)
class Request:
    """A client's request: its `turns` as received, its settings, and the draw that it asks for.

    `other_settings` are those that `CallOptions` does not have, as JSON. The question is the user's
    last turn.
    """

    turns: tuple[Message, ...]
    options: CallOptions = CallOptions()
    draw: int = 0
    other_settings: Mapping[str, str] = field(default_factory=dict)
    sha: str = ""

    @property
    def question_index(self) -> int:
        """The index of the question among the turns; the number of turns if there is no
        question."""
        users = [n for n, turn in enumerate(self.turns) if turn.role == "user"]
        return users[-1] if users else len(self.turns)

    def store(self, blobs: Blobs) -> Request:
        """Store the request with its turns and pictures, and return a copy with its `sha`. Raises
        PictureError."""
        for payload in (view.picture.payload for turn in self.turns for view in turn.views):
            blobs.put(payload.data, payload.sha)
        turns = [
            blobs.put(write_canonical(make_message_json(turn)).encode()) for turn in self.turns
        ]
        plain = {"turns": turns, "options": self.options.to_dict(), "draw": self.draw}
        sha = blobs.put(write_canonical(plain | {"sent": dict(self.other_settings)}).encode())
        return replace(self, sha=sha)

    @classmethod
    def from_record(cls, folder: RunFolder, record: Record) -> Request | None:
        """Return the request that a record answers, or None if no client asked for it. Raises
        RunError."""
        shas = [
            note.removeprefix(REQUEST_NOTE_PREFIX)
            for note in record.notes
            if note.startswith(REQUEST_NOTE_PREFIX)
        ]
        if not shas:
            return None
        try:
            plain = read_json(folder.blobs.get(shas[0]))
            turns = tuple(StoredMessage(folder.blobs, sha) for sha in plain["turns"])
            options = read_options(plain["options"])
            return cls(turns, options, plain["draw"], plain["sent"], shas[0])
        except (OSError, ValueError, LookupError, TypeError) as exc:
            raise RunError(
                f"{folder.path}: the request {shas[0][:12]} of sample {record.sample} is missing or"
                f" damaged ({exc}), so it cannot be replayed"
            ) from exc

    def apply_to(self, state: State) -> State:
        """Return a sample's initial state with the turns and settings of the request."""
        for name, value in self.other_settings.items():
            state = state.measured(f"{SENT_PREFIX}{name}", value)
        return state.replace(messages=self.turns[: self.question_index]).with_notes(
            REQUEST_NOTE_PREFIX + self.sha
        )

    def override_stages(self, stages: Mapping[str, Stage]) -> dict[str, Stage]:
        """Return a contestant's stages; the last one that calls a model uses the client's
        settings."""
        last = [slot for slot, stage in stages.items() if asks_model(stage)][-1:]
        return {s: WithRequest(stage, self) if s in last else stage for s, stage in stages.items()}


def read_options(plain: Mapping[str, Any]) -> CallOptions:
    """Return the call options that a record holds. Raises TypeError for an unknown one."""
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in plain.items()}
    if "tools" in values:
        values["tools"] = tuple(Tool(**tool) for tool in values["tools"])
    return CallOptions(**values)


@dataclass(frozen=True)
class WithRequest:
    """Runs a stage with the settings of a client's request, which override its own, and with the
    turns that followed the question, such as results of the client's tools."""

    stage: Stage
    request: Request

    def __call__(self, state: State, model: Model) -> State:
        """Return the state after the stage."""
        request = self.request
        if not isinstance(model, RecordingModel):
            raise TypeError("a client's request needs a RecordingModel")
        if isinstance(self.stage, Forward):
            later: tuple[Message, ...] = ()
            state = state.replace(messages=request.turns)
        else:
            later = request.turns[request.question_index + 1 :]
        return self.stage(state, model.for_request(request.options, later))


@dataclass(frozen=True)
class Forward:
    """Forwards the conversation unchanged, as `serve --tap` and `serve pocket` do.

    Raises ModelError if there is no conversation.
    """

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with the reply."""
        if not state.messages:
            raise ModelError("there is no conversation to forward")
        reply = model(state.messages, draw=state.draw)
        return state.replace(messages=(*state.messages, reply.as_message()))
