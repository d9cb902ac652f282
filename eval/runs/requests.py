"""What a client of `serve` asked for beside its question: earlier turns and settings. With it the
stages of a contestant run as they did when the request came, also in a replay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from looktwice.eval.records.records import Record, RunError, RunFolder, StoredMessage
from looktwice.pipelines.config.spec import asks_model
from looktwice.pipelines.json_input import read_json
from looktwice.pipelines.model import (
    CallOptions,
    Message,
    Model,
    ModelError,
    Tool,
    canonical,
    message_json,
)
from looktwice.pipelines.pipeline import RecordingModel
from looktwice.pipelines.runtime.stores import Blobs
from looktwice.pipelines.state import Stage, State

NOTE = "request "
"""Before the sha256 of the request, in a note of its record."""
SENT = "sent."
"""Before the names of the settings that `CallOptions` does not have, among what is measured."""


@dataclass(frozen=True, eq=False)
class Request:
    """The `turns` of a request as they came, its settings, and the number of the draw that is
    asked.

    `sent` are settings that `CallOptions` does not have, as JSON. The question is the last turn of
    the user.
    """

    turns: tuple[Message, ...]
    options: CallOptions = CallOptions()
    draw: int = 0
    sent: Mapping[str, str] = field(default_factory=dict)
    sha: str = ""

    @property
    def place(self) -> int:
        """The place of the question among the turns; after them where there is none."""
        users = [n for n, turn in enumerate(self.turns) if turn.role == "user"]
        return users[-1] if users else len(self.turns)

    def keep(self, blobs: Blobs) -> Request:
        """The same with its `sha`, under which it is kept with its turns and their pictures. Raises
        PictureError."""
        for payload in (view.picture.payload for turn in self.turns for view in turn.views):
            blobs.put(payload.data, payload.sha)
        turns = [blobs.put(canonical(message_json(turn)).encode()) for turn in self.turns]
        plain = {"turns": turns, "options": self.options.given(), "draw": self.draw}
        sha = blobs.put(canonical(plain | {"sent": dict(self.sent)}).encode())
        return replace(self, sha=sha)

    @classmethod
    def of_record(cls, folder: RunFolder, record: Record) -> Request | None:
        """The request that a record answers; None for one that no client asked for. Raises
        RunError."""
        shas = [note.removeprefix(NOTE) for note in record.notes if note.startswith(NOTE)]
        if not shas:
            return None
        try:
            plain = read_json(folder.blobs.get(shas[0]))
            turns = tuple(StoredMessage(folder.blobs, sha) for sha in plain["turns"])
            options = read_options(plain["options"])
            return cls(turns, options, plain["draw"], plain["sent"], shas[0])
        except (OSError, ValueError, LookupError, TypeError) as exc:
            raise RunError(
                f"{folder.path}: the request {shas[0][:12]} of sample {record.sample} is gone or"
                f" damaged ({exc}); it cannot be replayed"
            ) from exc

    def begin(self, state: State) -> State:
        """The first state of its sample."""
        for name, value in self.sent.items():
            state = state.measured(f"{SENT}{name}", value)
        return state.replace(messages=self.turns[: self.place]).with_notes(NOTE + self.sha)

    def stages(self, stages: Mapping[str, Stage]) -> dict[str, Stage]:
        """The stages of a contestant, of which the last that asks does so as the client asked."""
        last = [slot for slot, stage in stages.items() if asks_model(stage)][-1:]
        return {s: AsAsked(stage, self) if s in last else stage for s, stage in stages.items()}


def read_options(plain: Mapping[str, Any]) -> CallOptions:
    """Settings as records hold them. Raises TypeError for an unknown one."""
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in plain.items()}
    if "tools" in values:
        values["tools"] = tuple(Tool(**tool) for tool in values["tools"])
    return CallOptions(**values)


@dataclass(frozen=True)
class AsAsked:
    """Lets a stage ask with the settings of a request, which count before its own, and with the
    turns that followed the question, such as what a client's tools gave."""

    stage: Stage
    request: Request

    def __call__(self, state: State, model: Model) -> State:
        """What the stage makes of the state."""
        request = self.request
        if not isinstance(model, RecordingModel):
            raise TypeError("a request is answered by stages that are recorded")
        if isinstance(self.stage, Forward):
            later: tuple[Message, ...] = ()
            state = state.replace(messages=request.turns)
        else:
            later = request.turns[request.place + 1 :]
        return self.stage(state, model.asking(request.options, later))


@dataclass(frozen=True)
class Forward:
    """Sends the conversation on as it is: what `serve --tap` and `serve pocket` do with a request.

    Raises ModelError where there is none.
    """

    def __call__(self, state: State, model: Model) -> State:
        """The state with the reply."""
        if not state.messages:
            raise ModelError("there is no conversation to send on")
        reply = model(state.messages, draw=state.draw)
        return state.replace(messages=(*state.messages, reply.as_message()))
