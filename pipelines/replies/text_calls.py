"""Calls of tools that a server left in the words of a reply, in the forms in which models are
trained to write them."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from looktwice.pipelines.json_input import read_json
from looktwice.pipelines.model import ToolCall

__all__ = ["LEFT_AS_TEXT", "TextCall", "read_text_calls", "strip_text_calls"]

LEFT_AS_TEXT = (
    "the reply is a call of a tool that the server left as text; start the server with the tool"
    " call parser of this model, or set `protocol: {use: prompting.agent.TaggedCalls}` of the agent"
)
MOST_CALLS = 128
NAME = r"[\w.-]{1,64}"
BAR, GAP = "[|\uff5c]", "[_\u2581]"
SPACE = r"(?:[\w\uff5c]{1,20}:?)?"  # a name before that of a tag, as in <minimax:tool_call>
INVOKE = rf"<{SPACE}(?:function=|(?:invoke|function)\sname=)"
CHANNEL = r"(?:<\|start\|>\s*assistant\s*)?<\|channel\|>\s*(?:commentary|analysis)\s+"
CONSTRAINED = r"[^<]{0,50}(?:<\|constrain\|>[^<]{0,50})?<\|message\|>"
FORMS = {
    # Qwen, Hermes, GLM, Hunyuan, Seed, Granite, Gemma
    "tagged": rf"<(?P<tag>{SPACE}tool_calls?|{SPACE}function_calls?|\|tool_call\|?)>.*?"
    r"(?:</?(?P=tag)>|<tool_call\|>|\Z)",
    # Qwen-coder without its tags, MiniMax, DeepSeek
    "invoked": rf"{INVOKE}(?:(?!{INVOKE}).)*?</{SPACE}(?:invoke|function)>",
    "mistral": r"\[TOOL_CALLS\].*?(?=\[TOOL_CALLS\]|</s>|\Z)",
    # DeepSeek, Kimi
    "listed": rf"<{BAR}tool{GAP}calls?(?:{GAP}section)?{GAP}begin{BAR}>.*?"
    rf"(?:<{BAR}tool{GAP}calls(?:{GAP}section)?{GAP}end{BAR}>|\Z)",
    # Llama, Phi, InternLM, Cohere, LFM
    "called": r"(?:<\|python_tag\|>|\bfunctools(?=\[)|<\|action_start\|>|<\|START_ACTION\|>"
    r"|<\|tool_call_start\|>).*?"
    r"(?:<\|(?:action_end|END_ACTION|tool_call_end|eom_id|eot_id)\|>|\Z)",
    "harmony": rf"{CHANNEL}to={NAME}{CONSTRAINED}.*?(?:<\|call\|>|<\|end\|>|\Z)",
    # JSON or Python alone: a call only where it names a tool and its arguments
    "fenced": r"```(?:json|python|tool_call|tool_code)?\s*(?:(?!```).)*```",
    "bare": r"\A\s*[\[{].*[\]}]\s*\Z",
}
SECTIONS = re.compile("|".join(f"(?P<{name}>{form})" for name, form in FORMS.items()), re.S | re.I)
FUNCTION = re.compile(
    rf"{INVOKE}[\"']?(?P<name>{NAME})[\"']?\s*>(?P<body>(?:(?!{INVOKE}).)*)", re.S
)
PARAMETER = re.compile(
    rf"<{SPACE}parameter(?:=|\sname=[\"'])(?P<name>{NAME})[\"']?[^>]*>"
    rf"(?P<value>(?:(?!<{SPACE}parameter).)*?)</{SPACE}parameter>",
    re.S,
)
PAIR = re.compile(
    r"<arg_key>([^<]{1,64})</arg_key>\s*<arg_value>((?:(?!<arg_).)*?)</arg_value>", re.S
)
NAMED_JSON = re.compile(
    rf"(?:functions?\.|call:|to=functions\.)?(?P<name>{NAME})(?::\d{{1,3}})?"
    rf"(?:\[CALL_ID\]\w{{0,40}}|\[ARGS\]|<{BAR}[^<>]{{1,40}}{BAR}>|```|json|\s){{0,6}}(?=\{{)"
)
FENCE = re.compile(
    r"\A\s*(?:```(?:json|python|tool_call|tool_code)?|<[^<>]{1,60}>|\[TOOL_CALLS\]|functools)+\s*"
)
FENCE_END = re.compile(r"\s*(?:```|<[^<>]{1,60}>)+\s*\Z")
LONGEST_CODE = 10_000  # characters of Python that are looked at


class TextCall(NamedTuple):
    """A call in a text, and the span of the text that holds it."""

    call: ToolCall
    start: int
    end: int


def read_text_calls(text: str) -> list[TextCall]:
    """The calls of a reply without its thoughts, in order, with ids that count them."""
    calls = list[TextCall]()
    for section in SECTIONS.finditer(text):
        for name, arguments in _read_section(section):
            call = ToolCall(f"call_{len(calls)}", name, arguments)
            calls.append(TextCall(call, section.start(), section.end()))
            if len(calls) == MOST_CALLS:
                return calls
    return calls


def strip_text_calls(text: str) -> str:
    """The words of a reply beside the calls in it, also those that are broken."""
    kept, at = list[str](), 0
    for section in SECTIONS.finditer(text):
        alone = section["fenced"] or section["bare"]
        if not alone or any(_read_section(section)):
            kept, at = [*kept, text[at : section.start()]], section.end()
    return "\n".join([*kept, text[at:]]).strip() if kept else text


def _read_section(section: re.Match[str]) -> Iterator[tuple[str, str]]:
    """The name and the arguments as JSON of each call in a section."""
    text = section[0]
    if functions := list(FUNCTION.finditer(text)):
        for function in functions:
            values = {m["name"]: _value(m["value"]) for m in PARAMETER.finditer(function["body"])}
            yield function["name"], json.dumps(values, ensure_ascii=False)
        return
    inner = FENCE_END.sub("", FENCE.sub("", text))
    if pairs := PAIR.findall(text):
        name = re.match(rf"\s*({NAME})", inner)
        if name:
            values = {key.strip(): _value(value) for key, value in pairs}
            yield name[1], json.dumps(values, ensure_ascii=False)
        return
    calls = [*_calls_of(inner)] or [*_python_calls(inner)]
    if calls or section["fenced"] or section["bare"]:
        yield from calls
        return
    at = 0
    while match := NAMED_JSON.search(text, at):
        value, at = _json_at(text, match.end())
        if isinstance(value, dict):
            yield match["name"], json.dumps(value, ensure_ascii=False)


def _python_calls(text: str) -> Iterator[tuple[str, str]]:
    """The calls in Python such as `[zoom(box=[1, 2, 3, 4])]`, which is read and never run."""
    if len(text) > LONGEST_CODE or not re.match(rf"\s*\[?\s*{NAME}\(", text):
        return
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        nodes = tree.elts if isinstance(tree, ast.List) else [tree]
        for node in nodes:
            if not isinstance(node, ast.Call) or node.args or not node.keywords:
                return
            values = {str(word.arg): ast.literal_eval(word.value) for word in node.keywords}
            yield ast.unparse(node.func), json.dumps(values, ensure_ascii=False)
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return


def _calls_of(text: str) -> Iterator[tuple[str, str]]:
    """The calls in one JSON value, or in several one behind the other."""
    at = 0
    while at < len(text):
        value, at = _json_at(text, at)
        if value is None:
            return
        for item in value if isinstance(value, list) else [value]:
            inner = item.get("function") if isinstance(item, dict) else None
            item = inner if isinstance(inner, dict) else item
            if not isinstance(item, dict):
                return
            name = item.get("name", item.get("tool_name"))
            given = [item[key] for key in ("arguments", "parameters", "args") if key in item]
            if not isinstance(name, str) or not given:
                return
            written = given[0] if isinstance(given[0], str) else json.dumps(given[0])
            yield name, written
        rest = re.match(r"[\s;,]*", text[at:])
        at += rest.end() if rest else 0


def _json_at(text: str, at: int) -> tuple[Any, int]:
    """The JSON value that begins at a place, and where it ends; None and the end of the text where
    none does."""
    start = re.compile(r"\s*").match(text, at)
    place = start.end() if start else at
    try:
        _, end = json.JSONDecoder().raw_decode(text, place)
        return read_json(text[place:end]), end
    except (ValueError, RecursionError):
        return None, len(text)


def _value(text: str) -> Any:
    """The value of a parameter: JSON, else a text."""
    try:
        return read_json(text.strip())
    except ValueError:
        return text.strip("\n")
