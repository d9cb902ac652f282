"""The integration with inspect_ai: a contestant as a solver, image tools, readers as scorers, and
tasks. It needs the extra `inspect`; its functions are registered with inspect as `looktwice/...`.

Every call goes through inspect's own active model, so that inspect's logs, limits and caches count
it.
"""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample as InspectSample
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    ContentImage,
    ContentText,
    ContentVideo,
    GenerateConfig,
    ModelOutput,
    ResponseSchema,
    get_model,
)
from inspect_ai.scorer import Score, Scorer, Target, accuracy, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, generate, multiple_choice, solver
from inspect_ai.solver._task_state import sample_state
from inspect_ai.tool import (
    Tool,
    ToolCall as InspectCall,
    ToolDef,
    ToolError,
    ToolFunction,
    ToolInfo,
    ToolParams,
)

from looktwice.eval.readers.reader import build_reader
from looktwice.extras.integrations.images import Images
from looktwice.extras.integrations.looking import (
    DEFAULT_STUDY,
    REPORTED_ERRORS,
    LookTools,
    find_agent,
    find_arms,
)
from looktwice.extras.integrations.protocols.questions import (
    NO_VIDEOS_ERROR,
    ClientFacts,
    make_sample,
    read_data_url,
)
from looktwice.extras.integrations.responder import refuse_permuted
from looktwice.extras.logs.own import make_row_reader
from looktwice.pipelines.config.build import build
from looktwice.pipelines.model import (
    CallOptions,
    FinishReason,
    Message,
    Messages,
    ModelError,
    Reply,
    ToolCall,
    Usage,
)
from looktwice.pipelines.models.attached import read_turn_fields
from looktwice.pipelines.models.wire import replace_text
from looktwice.pipelines.pipeline import Pipeline, StageFailed, find_cause
from looktwice.pipelines.sample import Item
from looktwice.pipelines.state import State
from looktwice.pipelines.view import View

METADATA_KEY = "looktwice"
"""The key in a sample's metadata that holds the inputs and the notes of the stages."""
VIDEO_FORMATS: Mapping[str, Any] = {
    "video/mp4": "mp4",
    "video/mpeg": "mpeg",
    "video/quicktime": "mov",
}
"""Media types of videos -> inspect's names for them; inspect knows no others."""
FINISH_REASONS: Mapping[str, FinishReason] = {
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "filter",
}
TOOL_CHOICES: Mapping[Any, Any] = {None: None, "auto": "auto", "none": "none", "required": "any"}


class InspectModel:
    """A looktwice model that calls inspect's active model, for stages that run in a thread of
    inspect's event loop."""

    identity = "the active model of inspect_ai"
    output: ModelOutput | None = None

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """Return the reply. Raises ModelError for options that inspect lacks, and inspect's own
        errors, for example when a limit is reached."""
        if options.choices:
            raise ModelError(
                "inspect_ai cannot restrict a reply to choices; leave `choices` out of options"
            )
        tools = [
            ToolInfo(name=tool.name, description=tool.description, parameters=_describe_tool(tool))
            for tool in options.tools or ()
        ]
        sent = [_convert_message(message) for message in messages]
        named = options.tool_choice
        choice = TOOL_CHOICES[named] if named in TOOL_CHOICES else ToolFunction(name=named)
        ask = partial(get_model().generate, sent, tools, choice, config=_make_config(options))
        self.output = output = anyio.from_thread.run(ask)
        calls = _read_calls(output.message)
        used = output.usage
        usage = Usage(used.input_tokens, used.output_tokens) if used else Usage()
        finish: FinishReason = "tool" if calls else FINISH_REASONS.get(output.stop_reason, "stop")
        attached = _read_attached(output.message)
        return Reply(output.completion, finish, tool_calls=calls, usage=usage, attached=attached)


def _make_config(options: CallOptions) -> GenerateConfig:
    asked = {
        "temperature": options.temperature,
        "top_p": options.top_p,
        "top_k": options.top_k,
        "max_tokens": options.max_tokens,
        "stop_seqs": list(options.stop or ()) or None,
        "seed": options.seed,
        "logprobs": True if options.logprobs else None,
        "top_logprobs": options.logprobs,
        "reasoning_effort": options.effort,
    }
    if options.schema is not None:
        schema = dict(options.schema) or {"type": "object"}
        asked["response_schema"] = ResponseSchema(name="reply", json_schema=schema)
    return GenerateConfig(**asked)


def _describe_tool(tool: Any) -> ToolParams:
    return ToolParams.model_validate(dict(tool.parameters))


def _convert_part(part: str | View) -> ContentText | ContentImage | ContentVideo:
    """Convert a part to inspect's format. Raises ValueError for a video in a container that inspect
    does not know."""
    if isinstance(part, str):
        return ContentText(text=part)
    payload = part.picture.payload
    if not payload.media_type.startswith("video/"):
        return ContentImage(image=payload.data_url)
    if payload.media_type not in VIDEO_FORMATS:
        raise ValueError(
            f"inspect_ai does not accept {payload.media_type}; send the frames as `form: mp4`, or"
            " as images"
        )
    return ContentVideo(video=payload.data_url, format=VIDEO_FORMATS[payload.media_type])


def _convert_message(message: Message) -> ChatMessage:
    """Convert a message to inspect's format."""
    content = [_convert_part(part) for part in message.parts]
    if message.role == "tool":
        return ChatMessageTool(content=content, tool_call_id=message.call_id)
    if message.role != "assistant":
        role = ChatMessageSystem if message.role == "system" else ChatMessageUser
        return role(content=content)
    calls = [
        InspectCall(id=call.id, function=call.name, arguments=json.loads(call.arguments))
        for call in message.tool_calls
    ]
    own = message.attached.get("content")
    said: Any = replace_text(own, message.text) if own else message.text
    return ChatMessageAssistant(content=said, tool_calls=calls or None)


def _parse_message(turn: ChatMessage) -> Message:
    """Convert a message from inspect's format. Raises ValueError for a picture that is not a data
    URL, and for a video."""
    content = [ContentText(text=turn.content)] if isinstance(turn.content, str) else turn.content
    if any(isinstance(part, ContentVideo) for part in content):
        raise ValueError(f"a message holds a video: {NO_VIDEOS_ERROR}")
    parts = [
        View.of(read_data_url(part.image)) if isinstance(part, ContentImage) else part.text
        for part in content
        if isinstance(part, ContentImage | ContentText)
    ]
    answered = getattr(turn, "tool_call_id", None) or ""
    attached = _read_attached(turn) if turn.role == "assistant" else {}
    return Message(turn.role, tuple(parts), _read_calls(turn), answered, attached)


def _read_attached(turn: ChatMessage) -> dict[str, Any]:
    """Return the content of an assistant's turn if it holds more than plain text, such as signed
    reasoning."""
    parts = [] if isinstance(turn.content, str) else turn.content
    dumped = [part.model_dump(mode="json", exclude_none=True) for part in parts]
    return read_turn_fields({"content": dumped})


def _read_calls(turn: ChatMessage) -> tuple[ToolCall, ...]:
    calls = getattr(turn, "tool_calls", None) or ()
    return tuple(ToolCall(call.id, call.function, json.dumps(call.arguments)) for call in calls)


@solver
def looktwice(study: str, contestant: str) -> Solver:
    """Return a solver that runs the stages of a study's contestant, named as in `looktwice serve`,
    with inspect's model instead of the study's.

    The solver replaces `multiple_choice()`: the stages format the choices. The conversation and the
    reply are stored in the state; `metadata["looktwice"]` gets the number of views and the stages'
    notes. Raises Refusal for an arm that permutes the choices.
    """
    arm = find_arms(study, contestant)[contestant]
    refuse_permuted(arm)
    stages = Pipeline(arm.stages)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        *earlier, asked = map(_parse_message, state.messages)
        ours = state.metadata.get(METADATA_KEY) or {}  # marks and fields of looktwice's tasks
        about = {name: ours[name] for name in ("marks", "meta") if name in ours}
        choices = [choice.value for choice in state.choices or ()]
        sample = make_sample(
            [asked], ClientFacts(id=str(state.sample_id), choices=choices, **about)
        )
        begun = State.start(sample, arm.seed).replace(messages=tuple(earlier))
        model = InspectModel()
        try:
            done = await anyio.to_thread.run_sync(stages, begun, model, abandon_on_cancel=True)
        except StageFailed as exc:
            raise find_cause(exc) from None  # otherwise the causes form a cycle
        state.messages = [_convert_message(message) for message in done.messages or (asked,)]
        state.output = model.output or ModelOutput()
        state.output.completion = done.reply or done.answer or ""
        notes = {"views": len(done.views), "notes": list(done.notes), "reason": done.reason}
        state.metadata[METADATA_KEY] = {**ours, **notes}
        return state

    return solve


def look_tools(study: str = DEFAULT_STUDY, contestant: str = "") -> list[Tool]:
    """Return the tools of a study's agent, for `react(tools=[*look_tools()])` and the like.

    Image 1 is the first one of the conversation, and each image that a tool shows gets the next
    number.
    """
    agent, folder = find_agent(study, contestant), Path(tempfile.mkdtemp(prefix="looktwice-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    of_samples = dict[str, LookTools]()

    def looks() -> LookTools:
        state = sample_state()
        if state.uuid not in of_samples:
            images = Images(folder / state.uuid, ())
            for turn in filter(lambda turn: turn.role == "user", state.messages):
                for view in _parse_message(turn).views:
                    images.open(view.picture.payload.data_url)
            of_samples[state.uuid] = LookTools(agent, images)
        return of_samples[state.uuid]

    def make(name: str, description: str, parameters: ToolParams) -> Tool:
        async def execute(**arguments: Any) -> list[ContentText | ContentImage]:
            try:
                look = looks().look
                parts = await anyio.to_thread.run_sync(look, name, arguments)
            except REPORTED_ERRORS as exc:
                raise ToolError(str(exc)) from exc
            return [_convert_part(part) for part in parts]

        return ToolDef(execute, name, description, parameters).as_tool()

    offered = LookTools(agent, Images(folder, ())).descriptions
    return [make(tool.name, tool.description, _describe_tool(tool)) for tool in offered]


@scorer(metrics=[accuracy(), stderr()])
def answer_reader(reader: str = "robust") -> Scorer:
    """Return a scorer that compares the answer that a looktwice reader finds in the reply with the
    target; a reply without an answer is unscored, with the reason."""
    read = make_row_reader(build_reader(reader))

    async def score(state: TaskState, target: Target) -> Score:
        row = read(
            {
                "sample": str(state.sample_id),
                "task": "",
                "question": state.input_text,
                "choices": tuple(choice.value for choice in state.choices or ()),
                "key": target.text,
                "reply": state.output.completion,
            }
        )
        if row["verdict"] in ("right", "wrong", ""):
            return Score(value=row["value"], answer=row["answer"], explanation=row["verdict"])
        why = ": ".join(filter(None, (row["verdict"], row["reason"], row["detail"])))
        return Score.unscored(reason=row["verdict"], answer=row["answer"], explanation=why)

    return score


def _convert_item(item: Item) -> InspectSample:
    """Convert an item to inspect's format; choices that are pictures follow the images."""
    sample, pictures, texts = item.sample, list(item.sample.images), list[str]()
    for choice in sample.choices:
        if not isinstance(choice, str):
            pictures.append(choice)
        texts.append(choice if isinstance(choice, str) else f"image {len(pictures)}")
    content = [_convert_part(View(picture)) for picture in pictures]
    marks = [mark.to_dict() for mark in sample.marks]
    return InspectSample(
        id=sample.id,
        input=[ChatMessageUser(content=[*content, ContentText(text=sample.question)])],
        choices=texts or None,
        target=item.answer or "",
        metadata={METADATA_KEY: {"marks": marks, "meta": dict(sample.meta)}},
    )


@task
def questions(
    use: str = "MarkedScenes",
    study: str = "",
    contestant: str = "",
    reader: str = "robust",
    **settings: Any,
) -> Task:
    """Return the questions of a looktwice task as a task of inspect: `use` names the class, such as
    Blink, Tsv, Columns or Folder, and `settings` are the settings of this class. With a `study`,
    its `contestant` answers."""
    node = {"use": use if "." in use else f"eval.tasks.{use}", **settings}
    given = tuple(value for value in settings.values() if isinstance(value, str))
    items = build(node, place="task", given_paths=given)
    samples = [*map(_convert_item, items)]
    choose: Callable[[], Solver] = multiple_choice if samples[0].choices else generate
    return Task(
        dataset=MemoryDataset(samples, name=use),
        solver=looktwice(study, contestant) if study else choose(),
        scorer=answer_reader(reader),
    )


@task
def blink(path: str = "data/BLINK", name: str = "Relative_Depth", **settings: Any) -> Task:
    """Return a subtask of BLINK, from its parquet files below `path`."""
    made: Task = questions("Blink", path=path, name=name, **settings)
    return made
