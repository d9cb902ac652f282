"""Formats of tool calls: native function calls of the server, <tool_call> tags in the text, or
plain CALL lines.

Arguments are parsed as JSON and never evaluated. Calls are read from the reply alone: not from its
<think> parts, and not from anything that users, tools or images contain.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Any, Literal

from looktwice.pipelines.json_input import read_json, write_canonical
from looktwice.pipelines.model import Message, Reply, Tool, ToolCall
from looktwice.pipelines.replies.text_calls import read_text_calls, strip_text_calls
from looktwice.pipelines.replies.thoughts import strip_thoughts
from looktwice.pipelines.view import View
from looktwice.prompting.coordinates import ToolError
from looktwice.prompting.wording.instructions import Parts, Text, WithTextFiles, get_text

_CALL_PATTERN = re.compile(r"^[ \t]*CALL[ \t]+(\S+)[ \t]*(.*)$", re.M)
_ANSWER_PATTERN = re.compile(r"^[ \t]*ANSWER[ \t]*:[ \t]*\S", re.M)


class CallFormat:
    """A format of tool calls and their results. By default, calls are read from the text of a
    reply, wherever `pattern` matches."""

    @property
    def pattern(self) -> re.Pattern[str]:
        """The pattern that matches a call in a reply."""
        raise NotImplementedError

    def write_instructions(self, tools: Sequence[Tool]) -> str:
        """Return the description of the tools and the call format for the system message; empty if
        the server describes them."""
        return ""

    def select_native_tools(self, tools: Sequence[Tool]) -> tuple[Tool, ...] | None:
        """Return the tools that are passed to the server, or None if calls are written in the
        text."""
        return None

    def read_calls(self, reply: Reply, max_calls: int) -> tuple[list[ToolCall], int]:
        """Return the first `max_calls` calls of a reply, outside its <think> parts, and the number
        of all its calls. A malformed call has arguments but no name."""
        matches = list(self.pattern.finditer(strip_thoughts(reply.text)))
        return [self.parse(f"call_{n}", m) for n, m in enumerate(matches[:max_calls])], len(matches)

    def parse(self, name: str, match: re.Match[str]) -> ToolCall:
        """Parse the call at a match of the pattern; `name` becomes the id of the call."""
        raise NotImplementedError

    def make_assistant_turn(self, reply: Reply, calls: Sequence[ToolCall]) -> Message:
        """Return the reply as a turn of the conversation. If calls that were not answered follow,
        the text is cut after the last answered call."""
        text = strip_thoughts(reply.text)
        ends = [match.end() for match in islice(self.pattern.finditer(text), len(calls) + 1)]
        cut = calls and len(ends) > len(calls)
        kept = text[: ends[-2]] if cut else reply.text
        return Message("assistant", (kept,), attached=reply.attached)

    def make_result_turns(self, answers: Sequence[tuple[ToolCall, Parts]]) -> tuple[Message, ...]:
        """Return the turns that hold the results of the calls: here a single user turn."""
        parts = (part for answer in answers for part in self.wrap_result(*answer))
        return (Message("user", tuple(parts)),)

    def wrap_result(self, call: ToolCall, parts: Parts) -> Parts:
        """Return the result of one call as it appears in the user turn."""
        raise NotImplementedError

    def find_fault(self, reply: Reply) -> str:
        """Return the reason why a reply without a call cannot be the final answer, or an empty
        string if it can."""
        return ""


@dataclass(frozen=True)
class NativeCalls(CallFormat):
    """Function calls with JSON schemas, for servers that support them.

    Calls that a server leaves in the text, in the formats of Qwen, Llama, Mistral and others, are
    run as well.

    Most servers accept images in user turns only. `pictures` "user" puts the images of all results
    of a reply into one user turn, each after its label. "tool" leaves them in the tool turns, for
    models that accept images there: `MessagesAPI`, `ResponsesAPI`, `GeminiAPI`, and a `ChatAPI`
    with the same setting (a `ChatAPI` with another setting moves them into a user turn, without
    labels). "both" shows them in both turns.
    """

    pictures: Literal["user", "tool", "both"] = "user"

    def select_native_tools(self, tools: Sequence[Tool]) -> tuple[Tool, ...] | None:
        """Return all tools, or None if there are none."""
        return tuple(tools) or None

    def read_calls(self, reply: Reply, max_calls: int) -> tuple[list[ToolCall], int]:
        """Return the calls that the server parsed, or else those that it left in the text, with ids
        that are unique within the reply."""
        if not reply.tool_calls:
            calls = [found.call for found in read_text_calls(strip_thoughts(reply.text))]
            return calls[:max_calls], len(calls)
        kept = list(reply.tool_calls[:max_calls])
        ids = [call.id for call in kept]
        if len(set(ids)) < len(ids) or not all(ids):
            kept = [replace(call, id=f"call_{n}") for n, call in enumerate(kept)]
        return kept, len(reply.tool_calls) + reply.calls_left_out

    def make_assistant_turn(self, reply: Reply, calls: Sequence[ToolCall]) -> Message:
        """Return the reply as a turn with its text and calls."""
        turn = replace(reply.as_message(), tool_calls=tuple(calls))
        if reply.tool_calls:
            return turn
        return replace(turn, parts=(strip_text_calls(strip_thoughts(reply.text)),))

    def make_result_turns(self, answers: Sequence[tuple[ToolCall, Parts]]) -> tuple[Message, ...]:
        """Return a tool turn for each call and, unless `pictures` is "tool", one user turn with the
        images."""
        if self.pictures == "tool":
            return tuple(Message("tool", parts, call_id=call.id) for call, parts in answers)
        turns: list[Message] = []
        shown: list[str | View] = []
        for call, parts in answers:
            words = tuple(part for part in parts if isinstance(part, str))
            kept = parts if self.pictures == "both" else words
            turns.append(Message("tool", kept, call_id=call.id))
            for label, part in pairwise(("", *parts)):
                if isinstance(part, View):
                    shown += [label, part] if isinstance(label, str) and label else [part]
        return (*turns, Message("user", tuple(shown))) if shown else tuple(turns)


@dataclass(frozen=True)
class TaggedCalls(WithTextFiles, CallFormat):
    """Calls in the text of the reply, as `<tool_call>{"name": ..., "arguments":
    {...}}</tool_call>`.

    This is the format of Qwen's chat templates, Hermes and many models trained to use tools. Use it
    with servers that do not support function calls. Results are sent in a user turn, in
    <tool_response> tags.

    Some models were trained with other names: `tag` and `results` are the names of the tags,
    without angle brackets (an empty `results` writes no tags). If `tool` names a tool, the tags
    hold only the arguments of a call to that tool. `how` replaces the default description of the
    tools and the format, and `then` is written after each result.
    """

    tag: str = "tool_call"
    results: str = "tool_response"
    tool: str = ""
    how: Text | None = None
    then: Text = ""

    @property
    def pattern(self) -> re.Pattern[str]:
        """The pattern of a tagged call. The last call may lack its closing tag, because servers use
        that tag as a stop sequence."""
        tag = re.escape(self.tag)
        return re.compile(rf"<{tag}>(.*?)(?:</{tag}>|(?=<{tag}>)|\Z)", re.S)

    def write_instructions(self, tools: Sequence[Tool]) -> str:
        """Describe the tools and how to call them."""
        if self.how is not None:
            return get_text(self.how)
        call = "the arguments as JSON" if self.tool else '{"name": "NAME", "arguments": {...}}'
        given = "" if self.tool else ", the arguments as JSON by the tool's parameters"
        come = f"come back in <{self.results}>" if self.results else "come back"
        return (
            f"<tools>\n{_format_tools(tools)}\n</tools>\nTo call a tool, write"
            f" <{self.tag}>{call}</{self.tag}>{given}. Several calls may follow one another. Then"
            f" stop: the results {come}."
        )

    def parse(self, name: str, match: re.Match[str]) -> ToolCall:
        """Parse the call between two tags; unless the text is a JSON object with a `name`, the call
        has no tool name."""
        text = match[1].strip()
        if self.tool:
            return ToolCall(name, self.tool, text)
        try:
            data = read_json(text)
        except ValueError:
            data = None
        if not isinstance(data, dict) or not isinstance(data.get("name"), str):
            return ToolCall(name, "", text)
        given = data.get("arguments", data.get("parameters", {}))
        written = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
        return ToolCall(name, data["name"], written)

    def wrap_result(self, call: ToolCall, parts: Parts) -> Parts:
        """Return the result in tags, followed by the text `then`."""
        tags = (f"<{self.results}>", f"</{self.results}>") if self.results else ("", "")
        return tuple(filter(None, (tags[0], *parts, get_text(self.then), tags[1])))


@dataclass(frozen=True)
class PlainCalls(CallFormat):
    """Calls in plain lines, for models that know no other format: `CALL name {...}` calls a tool,
    and `ANSWER: ...` gives the answer.

    A reply with neither line is malformed.
    """

    pattern = _CALL_PATTERN  # a class attribute, since there are no settings

    def write_instructions(self, tools: Sequence[Tool]) -> str:
        """Describe the tools and how to call them."""
        return (
            "The tools, one a line, with their parameters as JSON"
            f" schemas:\n{_format_tools(tools)}\nEvery reply must end in one of two forms. To call"
            " a tool, write a line of its own:\nCALL NAME {...}\nwith the arguments as JSON on the"
            " same line; several such lines may follow one another. To give the final answer,"
            " write a line of its own:\nANSWER: ..."
        )

    def parse(self, name: str, match: re.Match[str]) -> ToolCall:
        """Parse the call in a line."""
        return ToolCall(name, match[1], match[2].strip() or "{}")

    def wrap_result(self, call: ToolCall, parts: Parts) -> Parts:
        """Return the result after a line with the name of its tool."""
        return (f"RESULT of {call.name}:", *parts)

    def find_fault(self, reply: Reply) -> str:
        """Return an error message if the reply has neither a CALL nor an ANSWER line."""
        if _ANSWER_PATTERN.search(strip_thoughts(reply.text)):
            return ""
        return 'the reply has neither a line "CALL NAME {...}" nor a line "ANSWER: ..."'


def decode_arguments(call: ToolCall) -> Mapping[str, Any]:
    """Parse the arguments of a call as JSON. Raises ToolError unless they are one object with
    finite numbers."""
    given = repr(call.arguments[:120])
    if not call.name:
        raise ToolError(f'expected {{"name": ..., "arguments": {{...}}}} as JSON, found {given}')
    try:
        data = read_json(call.arguments, parse_constant=_refuse_non_finite_number)
        write_canonical(data).encode()  # rejects 1e999, which is read as infinity
    except (ValueError, RecursionError) as exc:
        raise ToolError(f"the arguments are no JSON ({str(exc)[:120]}): {given}") from exc
    if not isinstance(data, dict):
        raise ToolError(f"the arguments must be a JSON object, found {given}")
    return data


def _format_tools(tools: Sequence[Tool]) -> str:
    described = (
        {"name": t.name, "description": t.description, "parameters": dict(t.parameters)}
        for t in tools
    )
    return "\n".join(json.dumps(tool, ensure_ascii=False) for tool in described)


def _refuse_non_finite_number(name: str) -> Any:
    raise ValueError(f"{name} is no number")
