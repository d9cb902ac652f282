"""A study's agent as an environment for a trainer that generates the tokens and runs the tool
calls: rows of data for the questions, a class with a method for each tool, and the reward.

It implements the protocol of `environment_factory` in TRL, and imports no trainer.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from PIL import Image

from looktwice.extras.training.rollouts import PendingRequest, Rollout, Rollouts
from looktwice.pipelines.config.classes import ConfigError
from looktwice.pipelines.model import CallOptions, FinishReason, Messages, Reply, Tool, ToolCall
from looktwice.pipelines.view import View
from looktwice.prompting.agent.call_formats import NativeCalls

Block = dict[str, Any]
Turn = Mapping[str, Any]

PYTHON_TYPES: Mapping[str, Any] = {
    "array": list[float],
    "boolean": bool,
    "integer": int,
    "number": float,
    "object": dict,
    "string": str,
}
"""The Python type hints from which TRL derives the JSON types of arguments."""
ENDED_MESSAGE = "The question is answered; give no further call."


def make_rows(rollouts: Rollouts, samples: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return a row for each question, or for the questions with the ids `samples`. In a row,
    `sample` is the id, and `prompt` holds the turns before the question; the environment adds the
    question's own texts and pictures.

    Raises ConfigError if TRL cannot run the contestant, and KeyError for an unknown id.
    """
    _refuse_unsuitable(rollouts)
    rows = []
    for name in samples or rollouts.items:
        rollout = Rollout(rollouts, rollouts.items[name])
        earlier = _get_request(rollout).messages[:-1]
        rollout.close()
        if any(turn.views for turn in earlier):
            fault = "its examples have pictures, which a row of TRL cannot hold; leave them out"
            raise ConfigError([f"contestant {rollouts.arm.contestant!r}: {fault}"])
        turns = [{"role": turn.role, "content": _make_blocks(turn.parts)} for turn in earlier]
        rows.append({"prompt": [*turns, {"role": "user", "content": []}], "sample": name})
    return rows


def _refuse_unsuitable(rollouts: Rollouts) -> None:
    """Raise ConfigError for an agent whose calls or pictures TRL would handle differently."""
    agent, fault = rollouts.agent, ""
    protocol = agent.protocol if agent else NativeCalls("tool")
    advice = "write protocol: {use: prompting.agent.NativeCalls, pictures: tool}"
    if not isinstance(protocol, NativeCalls):
        fault = f"its calls are {type(protocol).__name__}, and TRL parses calls itself; {advice}"
    elif protocol.pictures != "tool":
        fault = f"its pictures follow the tool's turn, and TRL leaves them in it; {advice}"
    elif agent and agent.afresh:
        fault = "`afresh` begins a second conversation, which TRL cannot do; leave it out"
    if fault:
        raise ConfigError([f"contestant {rollouts.arm.contestant!r}: {fault}"])


def _get_request(rollout: Rollout) -> PendingRequest:
    """Return the pending request. Raises ValueError if the stages answered without the model."""
    if rollout.pending_request is None:
        fault = "was answered without the model; leave it out of the training"
        raise ValueError(f"the question {rollout.item.sample.id} {fault}")
    return rollout.pending_request


def _make_blocks(parts: Sequence[str | View]) -> list[Block]:
    """Convert texts and pictures to content blocks of chat templates, with PIL images."""
    return [
        {"type": "text", "text": part}
        if isinstance(part, str)
        else {"type": "image", "image": Image.fromarray(part.pixels)}
        for part in parts
    ]


def make_environment(rollouts: Rollouts) -> Callable[[], Any]:
    """Build the `environment_factory`: a class with `reset` and a method for each tool of the
    agent. Raises ConfigError if TRL cannot run the contestant."""
    _refuse_unsuitable(rollouts)
    methods = {tool.name: _make_method(tool) for tool in _list_tools(rollouts)}
    if taken := {"reset", "get_reward"} & methods.keys():
        fault = f"TRL uses the name {min(taken)!r} itself; give the tool another name"
        raise ConfigError([f"contestant {rollouts.arm.contestant!r}: {fault}"])
    return type("StudyEnvironment", (_Environment,), {**methods, "_rollouts": rollouts})


def _list_tools(rollouts: Rollouts) -> Sequence[Tool]:
    return rollouts.agent.tool_descriptions if rollouts.agent else ()


class _Environment:
    """An environment that TRL drives; it holds one rollout at a time."""

    _rollouts: Rollouts
    _rollout: Rollout | None = None
    _call_count = 0

    def reset(self, sample: str, **row: Any) -> list[Block]:
        """Start a rollout of the question `sample` (its id), and return its texts and pictures."""
        self._close()
        self._rollout, self._call_count = Rollout(self._rollouts, self._rollouts.items[sample]), 0
        return _make_blocks(_get_request(self._rollout).messages[-1].parts)

    def _close(self) -> None:
        """Abort a rollout that has not ended, without a record."""
        if self._rollout is not None:
            self._rollout.close()

    def _call(self, name: str, arguments: Mapping[str, Any]) -> list[Block]:
        """Run a tool call, and return the texts and pictures that the agent adds after it."""
        rollout = self._rollout
        self._call_count += 1
        if rollout is None or rollout.pending_request is None:
            return [{"type": "text", "text": ENDED_MESSAGE}]
        before = len(rollout.pending_request.messages)
        call = ToolCall(f"call_{self._call_count}", name, json.dumps(arguments))
        asked = rollout.send(Reply("", "tool", tool_calls=(call,)))
        if asked is None:
            return [{"type": "text", "text": ENDED_MESSAGE}]
        added = [turn for turn in asked.messages[before:] if turn.role != "assistant"]
        return [block for turn in added for block in _make_blocks(turn.parts)]

    def _end(self, completion: Sequence[Turn], step: int | None) -> float:
        """Send the final answer of a completion, and return its score.

        Each call was already sent as a separate reply when the trainer ran it. If the replies of
        the completion differ from these, for example because one holds text or several calls, the
        rollout is repeated with the completion's replies.
        """
        rollout, (*looks, answer) = self._rollout, _read_replies(completion)
        if rollout is None:
            raise ValueError("the environment has no rollout; call reset first")
        is_same = [1] * self._call_count == [len(look.tool_calls) for look in looks]
        is_same = is_same and not any(look.text for look in looks)
        rollout.step = step
        if rollout.pending_request is not None and not is_same:
            rollout.close()
            repeated = _RepeatingModel([*looks, answer])
            return float(self._rollouts.run(rollout.item, repeated, lambda: step).score.value)
        return float(rollout.finish(answer).score.value)


class _RepeatingModel:
    """A model that returns the replies of a completion in order, then keeps repeating the last
    one."""

    identity = "a model in training"

    def __init__(self, replies: Sequence[Reply]) -> None:
        self.replies = list(replies)

    def __call__(
        self, messages: Messages, draw: int = 0, options: CallOptions = CallOptions()
    ) -> Reply:
        """Return the next reply."""
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]


def _make_method(tool: Tool) -> Callable[..., list[Block]]:
    """Build a method with the name, arguments and descriptions of a tool, from which TRL makes the
    schema that the model sees."""

    def method(self: _Environment, **arguments: Any) -> list[Block]:
        return self._call(tool.name, arguments)

    properties = tool.parameters.get("properties", {})
    required = tool.parameters.get("required", ())
    given = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    lines = [tool.description, "", "Args:"] if properties else [tool.description]
    hints: dict[str, Any] = {}
    for name in sorted(properties, key=lambda name: name not in required):
        schema = properties[name]
        hints[name] = PYTHON_TYPES.get(schema.get("type", ""), str)
        empty = inspect.Parameter.empty
        default = empty if name in required else schema.get("default")
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        given.append(inspect.Parameter(name, kind, default=default, annotation=hints[name]))
        lines.append(f"    {name}: {schema.get('description', name)}")
    method.__name__ = method.__qualname__ = tool.name
    method.__doc__, method.__annotations__ = "\n".join(lines), hints
    method.__signature__ = inspect.Signature(given)  # type: ignore[attr-defined]
    return method


def _read_replies(completion: Sequence[Turn]) -> list[Reply]:
    """Convert a completion to replies. The last one is the answer; it is empty if the completion
    was truncated before the answer."""
    replies, count = list[Reply](), 0
    for number, turn in enumerate(completion):
        if turn.get("role") != "assistant":
            continue
        calls = []
        for call in turn.get("tool_calls") or ():
            count += 1
            asked = call.get("function", {})
            arguments = json.dumps(asked.get("arguments", {}))
            calls.append(ToolCall(f"call_{count}", str(asked.get("name", "")), arguments))
        is_last = number == len(completion) - 1
        if calls and is_last:  # these calls have no results
            continue
        content = turn.get("content") or ""
        if not isinstance(content, str):
            content = "".join(part.get("text", "") for part in content)
        thought = turn.get("reasoning_content") or turn.get("thinking") or ""
        finish: FinishReason = "tool" if calls else "stop"
        replies.append(Reply(content, finish, thought, tuple(calls)))
    if not replies or replies[-1].tool_calls:
        replies.append(Reply("", "length"))
    return replies


def study_reward(
    completions: Sequence[Sequence[Turn]],
    environments: Sequence[Any],
    trainer_state: Any = None,
    **columns: Any,
) -> list[float]:
    """Score each answer by the study's reader and scorer, record it, and return the scores: 1 for a
    correct answer, 0 for a wrong or unreadable one, and values in between from scorers that
    grade."""
    step = getattr(trainer_state, "global_step", None)
    pairs = zip(environments, completions, strict=True)
    return [environment._end(completion, step) for environment, completion in pairs]
