"""How a model asks for tools and is answered: by function calls of the server, in tags of its own, or in plain lines.

What a reply asks for is read as JSON and never evaluated; only the reply itself is read, neither its thoughts nor what
users, tools or images say.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal, Protocol

from looktwice.pipelines.model import Message, Reply, Tool, ToolCall, canonical, strip_thoughts
from looktwice.pipelines.models.wire import whole
from looktwice.pipelines.view import View
from looktwice.prompting.coordinates import ToolError

Parts = tuple[str | View, ...]
_TAGGED = re.compile(r"<tool_call>(.*?)(?:</tool_call>|(?=<tool_call>)|\Z)", re.S)
_CALL = re.compile(r"^[ \t]*CALL[ \t]+(\S+)[ \t]*(.*)$", re.M)
_ANSWER = re.compile(r"^[ \t]*ANSWER[ \t]*:[ \t]*\S", re.M)


class CallFormat(Protocol):
    """One way of asking for tools. `calls` gives at most so many, and how many there were; a call that cannot be read
    has no name and the text as its arguments."""

    def words(self, tools: Sequence[Tool]) -> str:
        """What the model must be told in words."""

    def native_tools(self, tools: Sequence[Tool]) -> tuple[Tool, ...] | None:
        """What is given to the server."""

    def calls(self, reply: Reply, most: int) -> tuple[list[ToolCall], int]:
        """What a reply asks for."""

    def turn(self, reply: Reply, calls: Sequence[ToolCall]) -> Message:
        """The reply as a turn of the conversation, with the calls that are answered and no others."""

    def results(self, answers: Sequence[tuple[ToolCall, Parts]]) -> tuple[Message, ...]:
        """The turns that answer the calls."""

    def fault(self, reply: Reply) -> str:
        """What is wrong with a reply without any call as a last one; empty where nothing is."""


@dataclass(frozen=True)
class NativeCalls:
    """Function calls with JSON schemas, where the server has them.

    Servers of chat completions take images in a user's turn alone. `images_as` "user" puts all of a reply's results
    into one such turn, each behind its name; "tool" leaves them in the tools' turns, as servers take them that allow
    it (`pipelines.models.wire` sends them in a user's turn of their own, without names).
    """

    images_as: Literal["user", "tool"] = "user"

    def words(self, tools: Sequence[Tool]) -> str:
        """Nothing: the server says it."""
        return ""

    def native_tools(self, tools: Sequence[Tool]) -> tuple[Tool, ...] | None:
        """The tools."""
        return tuple(tools) or None

    def calls(self, reply: Reply, most: int) -> tuple[list[ToolCall], int]:
        """The calls as the server read them, each with an id of its own."""
        kept = list(reply.tool_calls[:most])
        twice = len({call.id for call in kept}) < len(kept) or not all(call.id for call in kept)
        named = [replace(call, id=f"call_{n}") for n, call in enumerate(kept)] if twice else kept
        return named, len(reply.tool_calls)

    def turn(self, reply: Reply, calls: Sequence[ToolCall]) -> Message:
        """The reply's words and the calls."""
        return Message("assistant", (reply.text,), tuple(calls))

    def results(self, answers: Sequence[tuple[ToolCall, Parts]]) -> tuple[Message, ...]:
        """A tool's turn for each call, and, by `images_as`, a user's turn with the images."""
        if self.images_as == "tool":
            return tuple(Message("tool", parts, call_id=call.id) for call, parts in answers)
        words = [Message("tool", tuple(p for p in parts if isinstance(p, str)), call_id=c.id) for c, parts in answers]
        shown = tuple(part for _, parts in answers for part in _named_images(parts))
        return (*words, Message("user", shown)) if shown else tuple(words)

    def fault(self, reply: Reply) -> str:
        """Nothing: words without a call are an answer."""
        return ""


@dataclass(frozen=True)
class TaggedCalls:
    """Calls in the reply's own text, as `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`.

    The form of Qwen's chat templates, Hermes and many models tuned to use tools, for servers without function calls.
    Results come back in a user's turn, in <tool_response>.
    """

    def words(self, tools: Sequence[Tool]) -> str:
        """The tools and the form."""
        return (
            f"<tools>\n{_list_tools(tools)}\n</tools>\n"
            'To call a tool, write <tool_call>{"name": "NAME", "arguments": {...}}</tool_call>, the arguments as JSON '
            "by the tool's parameters. Several calls may follow one another. Then stop: the results come back in "
            "<tool_response>."
        )

    def native_tools(self, tools: Sequence[Tool]) -> tuple[Tool, ...] | None:
        """Nothing."""
        return None

    def calls(self, reply: Reply, most: int) -> tuple[list[ToolCall], int]:
        """The calls in the text, thoughts left out."""
        text = strip_thoughts(reply.text)
        found = islice(_TAGGED.finditer(text), most)
        return [_parse_tagged(number, match[1].strip()) for number, match in enumerate(found)], text.count(
            "<tool_call>"
        )

    def turn(self, reply: Reply, calls: Sequence[ToolCall]) -> Message:
        """The text up to the last of the calls."""
        return Message("assistant", (_cut_after_calls(reply.text, _TAGGED, calls),))

    def results(self, answers: Sequence[tuple[ToolCall, Parts]]) -> tuple[Message, ...]:
        """One user's turn with everything."""
        return (Message("user", tuple(part for _, parts in answers for part in _wrap_response(parts))),)

    def fault(self, reply: Reply) -> str:
        """Nothing: words without a call are an answer."""
        return ""


@dataclass(frozen=True)
class PlainCalls:
    """The strict form for models that know no other: a line `CALL name {...}` asks, a line `ANSWER: ...` answers.

    A reply with neither is malformed.
    """

    def words(self, tools: Sequence[Tool]) -> str:
        """The tools and the form."""
        return (
            f"The tools, one a line, with their parameters as JSON schemas:\n{_list_tools(tools)}\n"
            "Every reply must end in one of two forms. To call a tool, write a line of its own:\nCALL NAME {...}\n"
            "with the arguments as JSON on the same line; several such lines may follow one another. To give the "
            "final answer, write a line of its own:\nANSWER: ..."
        )

    def native_tools(self, tools: Sequence[Tool]) -> tuple[Tool, ...] | None:
        """Nothing."""
        return None

    def calls(self, reply: Reply, most: int) -> tuple[list[ToolCall], int]:
        """The lines that call, thoughts left out."""
        found = list(_CALL.finditer(strip_thoughts(reply.text)))
        calls = [ToolCall(f"call_{n}", match[1], match[2].strip() or "{}") for n, match in enumerate(found[:most])]
        return calls, len(found)

    def turn(self, reply: Reply, calls: Sequence[ToolCall]) -> Message:
        """The text up to the last of the calls."""
        return Message("assistant", (_cut_after_calls(reply.text, _CALL, calls),))

    def results(self, answers: Sequence[tuple[ToolCall, Parts]]) -> tuple[Message, ...]:
        """One user's turn with everything."""
        named = ((f"RESULT of {call.name}:", *parts) for call, parts in answers)
        return (Message("user", tuple(part for parts in named for part in parts)),)

    def fault(self, reply: Reply) -> str:
        """That neither line is there."""
        if _ANSWER.search(strip_thoughts(reply.text)):
            return ""
        return 'the reply has neither a line "CALL NAME {...}" nor a line "ANSWER: ..."'


def decode_arguments(call: ToolCall) -> Mapping[str, Any]:
    """The arguments of a call as JSON values. Raises ToolError for anything but one object of finite numbers."""
    if not call.name:
        raise ToolError(f'expected {{"name": ..., "arguments": {{...}}}} as JSON, found {call.arguments[:120]!r}')
    try:
        data = json.loads(call.arguments, parse_constant=_refuse_constant)
        canonical(data).encode()  # refuses 1e999, which is read as infinite, and half a surrogate pair
    except (ValueError, RecursionError) as exc:
        raise ToolError(f"the arguments are no JSON ({str(exc)[:120]}): {call.arguments[:120]!r}") from exc
    if not isinstance(data, dict):
        raise ToolError(f"the arguments must be a JSON object, found {call.arguments[:120]!r}")
    return data


def _parse_tagged(number: int, text: str) -> ToolCall:
    """The call between two tags; without a name where that is no object with name and arguments."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict) or not isinstance(data.get("name"), str):
        return ToolCall(f"call_{number}", "", text)
    arguments = data.get("arguments", data.get("parameters", {}))
    written = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return ToolCall(f"call_{number}", whole(data["name"]), whole(written))


def _cut_after_calls(text: str, pattern: re.Pattern[str], calls: Sequence[ToolCall]) -> str:
    """A reply without what follows the last call that is answered, where more calls follow."""
    said = strip_thoughts(text)
    found = list(islice(pattern.finditer(said), len(calls) + 1))
    return said[: found[len(calls) - 1].end()] if calls and len(found) > len(calls) else text


def _list_tools(tools: Sequence[Tool]) -> str:
    described = ({"name": t.name, "description": t.description, "parameters": dict(t.parameters)} for t in tools)
    return "\n".join(json.dumps(tool, ensure_ascii=False) for tool in described)


def _named_images(parts: Parts) -> Iterable[str | View]:
    """The images of a result, each behind the words before it."""
    for before, part in zip(("", *parts), parts, strict=False):
        if isinstance(part, View):
            yield from (before, part) if isinstance(before, str) and before else (part,)


def _wrap_response(parts: Parts) -> Iterable[str | View]:
    yield "<tool_response>"
    yield from parts
    yield "</tool_response>"


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")
