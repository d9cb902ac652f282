"""The contestants of a study as models for any client: how a question is answered by the stages,
and how the answer becomes a response."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from looktwice.eval.records.records import RunError
from looktwice.eval.records.writer import describe_failure
from looktwice.eval.runs.companions import StoppableModel
from looktwice.eval.runs.requests import Forward, Request
from looktwice.eval.runs.trial import make_no_model
from looktwice.eval.scoring.labels import label_with_changes
from looktwice.extras.integrations.http_gate import Say
from looktwice.extras.integrations.protocols.exchange import AnswerContent, Refusal
from looktwice.extras.integrations.protocols.questions import Question
from looktwice.extras.integrations.recorded import Recorder, Requests
from looktwice.pipelines.config.plan import Plan, add_id
from looktwice.pipelines.config.spec import Arm, asks_model, find_settings, identity
from looktwice.pipelines.json_input import write_canonical
from looktwice.pipelines.model import CallOptions, ModelError, Reply, close_model, is_deferring
from looktwice.pipelines.models.cache import Store
from looktwice.pipelines.models.stops import CacheError
from looktwice.pipelines.models.wrappers import wrap_model
from looktwice.pipelines.pipeline import RecordingModel, StageFailed, find_cause
from looktwice.pipelines.state import State
from looktwice.prompting.agent.agent import Agent
from looktwice.prompting.controls.choices import PermuteChoices, PermuteLabels

FIRST_IDLE_COUNT, LATER_IDLE_COUNT = 10, 20
"""The number of consecutive requests in which a stage may change nothing before this is reported:
for a stage that has never changed anything, and for any other stage."""


def name_contestants(plan: Plan) -> dict[str, Arm]:
    """Return the arms of a study by the names that clients use, each with the recorded requests as
    its task.

    A contestant that is the same on every task keeps its name, other names become
    `contestant@task`; the name of an arm of a sweep ends with its changes. Raises RunError for a
    model that answers in batches.
    """
    by_name = defaultdict[str, dict[str, Arm]](dict)
    for arm in plan.points:
        changes = {k: v for k, v in arm.changes.items() if not k.startswith(("task.", "tasks."))}
        by_name[label_with_changes(arm.contestant, changes)].setdefault(arm.task_name, arm)
    arms = dict[str, Arm]()
    for name, of_task in by_name.items():
        kinds = set[str]()
        for arm in of_task.values():
            stages = [[slot, identity(stage)] for slot, stage in arm.stages.items()]
            kinds.add(write_canonical([stages, identity(arm.model), arm.seed]))
        if len(kinds) == 1:
            arms[name] = next(iter(of_task.values()))
        else:
            arms |= {f"{name}@{task}": arm for task, arm in of_task.items()}
    if batched := [name for name, arm in arms.items() if is_deferring(arm.model)]:
        raise RunError(
            f"{batched[0]}: its model answers in batches, which no client can wait for; use its"
            " `chat` as the model"
        )
    asked: dict[str, Any] = {"changes": {}, "task_name": "requests", "task": Requests(), "draws": 1}
    return {name: add_id(replace(arm, contestant=name, **asked)) for name, arm in arms.items()}


@dataclass(eq=False)
class StudyResponder:
    """Answers questions with the stages of `arms`, which are contestants by name, and records each
    answer.

    `cache` is the folder of the reply cache. `say` receives messages for the user. With
    `show_looks`, the texts before the last reply are sent as part of its reasoning. `abstain`
    selects whether an abstention is sent as an error or as text.
    """

    arms: Mapping[str, Arm]
    recorder: Recorder
    cache: Path
    say: Say
    show_looks: bool
    abstain: Literal["error", "text"]

    def __post_init__(self) -> None:
        self.stop, self.lock = threading.Event(), threading.Lock()
        self.idle = defaultdict[tuple[str, str], int](int)
        self.useful = set[tuple[str, str]]()  # stages that have changed something
        models = {id(model): model for arm in self.arms.values() for model in arm.models}
        self.models = {key: self._wrap(model) for key, model in models.items()}

    def _wrap(self, model: Any) -> Any:
        """Wrap a model with the reply cache and its limits, but without retries, which are left to
        clients. Raises RunError for a bad URL or a missing key, and CacheError."""
        if not getattr(model, "remote", False):
            return StoppableModel(model, self.stop)
        try:
            model.check()
        except ModelError as exc:
            raise RunError(str(exc)) from exc
        store = Store(self.cache, "--cache")
        len(store)  # raises here if the store cannot be read
        return wrap_model(model, store, self.stop, attempts=1)

    def close(self) -> None:
        """Prevent new model calls, and close every model."""
        self.stop.set()
        for model in self.models.values():
            close_model(model)

    def answer(self, question: Question) -> AnswerContent:
        """Answer a question. Raises Refusal."""
        arm = self.arms.get(question.model)
        if arm is None and not question.model and len(self.arms) == 1:
            arm = next(iter(self.arms.values()))
        if arm is None:
            names = ", ".join(self.arms)
            raise Refusal(
                404, f"there is no contestant {question.model!r}; the contestants are {names}"
            )
        refuse_options(arm, question.options, question.field_names)
        sample, row = self.recorder.record_question(question.sample, arm.task_id, question.answer)
        draws = self.recorder.reserve_draws(arm, sample.id, question.reply_count)
        is_sampled, blobs = is_random(arm, question.options), self.recorder.writer.blobs
        asked = Request(question.turns, question.options, 0, question.extra_fields)
        states = list[State]()
        for number, draw in enumerate(draws):
            request = replace(asked, draw=draw if is_sampled else number).store(blobs)
            model = RecordingModel(
                make_no_model(Forward()) if arm.model is None else self.models[id(arm.model)],
                sample.id,
                wrap_second=lambda second: self.models[id(second)],
            )
            watch = partial(self._warn_about_idle_stages, arm)
            try:
                states.append(
                    self.recorder.record_answer(arm, request, sample, row.sha, draw, model, watch)
                )
            except StageFailed as exc:
                raise explain_failure(exc) from exc
        return self._respond(arm, sample.id, draws[0], states)

    def _warn_about_idle_stages(self, arm: Arm, slot: str, before: State, after: State) -> None:
        """Report once that a stage changed nothing in the first ten requests, or later in twenty
        consecutive requests."""
        idle = _collect_content(before) == _collect_content(after)
        with self.lock:
            key = arm.contestant, slot
            if self.idle[key] < 0:
                return
            self.idle[key] = self.idle[key] + 1 if idle else 0
            self.useful |= set() if idle else {key}
            most = LATER_IDLE_COUNT if key in self.useful else FIRST_IDLE_COUNT
            if self.idle[key] < most:
                return
            self.idle[key] = -1
        when = "last" if key in self.useful else "first"
        why = f" ({after.notes[-1]})" if after.notes[len(before.notes) :] else ""
        self.say(f"{arm.contestant}: {slot!r} changed nothing in the {when} {most} requests{why}")

    def _respond(self, arm: Arm, sample: str, draw: int, states: Sequence[State]) -> AnswerContent:
        replies, looks, calls = list[Reply](), list[str](), list[list[Reply]]()
        for state in states:
            made = [call.reply for entry in state.trace for call in entry.calls if call.reply]
            calls.append(made)
            replies.append(self._get_reply(state, made))
            texts = (reply.text for reply in made[:-1] if reply.text and self.show_looks)
            looks.append("\n\n".join(texts))
        first = states[0]
        counts = {
            "record": f"{arm.id}/{quote(sample, safe='')}/{draw}",
            "calls": str(sum(map(len, calls))),
            "marks": str(len(first.sample.marks)),
            "views": str(len(first.views)),
        }
        headers = {f"x-looktwice-{name}": value for name, value in counts.items()}
        name = f"{arm.id[:8]}-{sample}-{draw}"
        return AnswerContent(arm.contestant, replies, looks, calls, name, headers)

    def _get_reply(self, state: State, made: Sequence[Reply]) -> Reply:
        """Return the last reply, or the stages' answer if there was no reply. Raises Refusal if
        they abstained."""
        if state.ended:
            if self.abstain == "text":
                return Reply("no answer")
            slot = state.trace[-1].slot
            raise Refusal(422, f"{slot}: {state.reason}", "abstained", slot=slot)
        if made:
            return made[-1]
        if state.answer is None:
            raise Refusal(
                422, state.reason or "no stage asked the model or gave an answer", "no_answer"
            )
        return Reply(state.answer)


def _collect_content(state: State) -> list[Any]:
    """Return everything in a state that a stage may change, except notes."""
    names = ("views", "prompt", "messages", "answer", "reason", "measures")
    sample = state.sample
    return [sample.marks, sample.choices, *(getattr(state, name) for name in names)]


def is_random(arm: Arm, options: CallOptions) -> bool:
    """Return whether the same request may get different replies, so that a repeated request needs a
    new draw: whether the temperature is left to the server, or is above 0 without a seed."""
    full = options.fill_from(arm.model)
    return bool(full.temperature is None or (full.temperature and full.seed is None))


def refuse_options(arm: Arm, options: CallOptions, fields: Mapping[str, str]) -> None:
    """Raise Refusal for options that an arm does not support; `fields` maps names of options to
    those in the client's protocol where they differ."""
    given = _list_fields(fields, options, "tools", "schema", "choices", "logprobs")
    if options.tools and any(find_settings(arm.stages, Agent)):
        raise Refusal(
            400,
            f"tools: {arm.contestant} is an agent with its own tools; leave out tools, or use a"
            " contestant without an agent",
        )
    refuse_permuted(arm)
    if given and not any(map(asks_model, arm.stages.values())):
        raise Refusal(400, f"{given}: {arm.contestant} asks no model; leave it out")
    try:
        getattr(arm.model, "refuse", lambda options: None)(options.fill_from(arm.model))
    except ModelError as exc:
        names = ("schema", "effort", "tools", "tool_choice")
        given = _list_fields(fields, options, *names) or "options"
        raise Refusal(400, f"{given}: {exc}") from exc


def _list_fields(fields: Mapping[str, str], options: CallOptions, *names: str) -> str:
    """List the options that are set, by their names in the client's protocol."""
    return " and ".join(
        fields.get(name, name) for name in names if getattr(options, name) is not None
    )


def refuse_permuted(arm: Arm) -> None:
    """Raise Refusal for an arm that reorders the choices: the client would take the letter in the
    answer for one of its own letters."""
    for kind in (PermuteChoices, PermuteLabels):
        if any(find_settings(arm.stages, kind)):
            raise Refusal(
                400,
                f"{arm.contestant}: {kind.__name__} changes the letters of choices, and only a"
                " scored run can undo this; use `looktwice run`, or remove the stage",
            )


def explain_failure(failed: StageFailed) -> Refusal:
    """Describe a failed stage to the client: the error of its model's server, or the stage and the
    reason."""
    cause, slot = find_cause(failed), failed.slot
    if isinstance(cause, ModelError):
        status = cause.status or 200
        if status == 200:  # no answer, or not a valid reply: a failure upstream
            status = 502 if cause.retryable else 0
        if status == 429 or status >= 500:
            kind = "rate_limit_error" if status == 429 else "upstream_error"
            return Refusal(status, str(cause), kind, cause.retry_after, slot=slot)
    if isinstance(cause, CacheError):
        return Refusal(500, str(cause), "server_error", slot=slot)
    reason = describe_failure(cause).splitlines()[0]
    return Refusal(422, f"{slot}: {reason}", "stage_failed", slot=slot, reason=reason)
