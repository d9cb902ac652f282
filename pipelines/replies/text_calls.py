"""Tool calls that a server left in a reply's text, in the formats that models are trained on."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from looktwice.pipelines.json_input import read_json
from looktwice.pipelines.model import ToolCall

__all__ = ["UNPARSED_CALL_ADVICE", "TextCall", "read_text_calls", "strip_text_calls"]

UNPARSED_CALL_ADVICE = (
    "the reply is a tool call that the server left as text; start the server with this model's"
    " tool call parser, or set `protocol: {use: prompting.agent.TaggedCalls}` of the agent"
)
MAX_TOOL_CALLS = 128
MAX_FAILED_READS = 32  # objects in the text that look like calls but are not
NAME_REGEX = r"[\w.-]{1,64}"
BAR, GAP = "[|\uff5c]", "[_\u2581]"
TAG_PREFIX = r"(?:[\w\uff5c]{1,20}:?)?"  # a prefix of a tag name, as in <minimax:tool_call>
MINIMAX_PREFIX = "]<]minimax[>["  # before each tag
INVOKE_TAG_REGEX = rf"<{TAG_PREFIX}(?:function=|(?:invoke|function)\sname=)"
CHANNEL_TAG_REGEX = (
    r"(?:<\|start\|>\s*assistant\s*)?(?:<\|channel\|>|\A|(?<=</think>))"
    r"\s*(?:commentary|analysis)\s+"
)
CONSTRAINT_TAG_REGEX = r"[^<{]{0,50}(?:<\|constrain\|>[^<{]{0,50})?(?:<\|message\|>|(?=\{))"
TOOL_NAME_FIELDS = ("name", "tool_name", "tool", "action")
ARGUMENT_FIELDS = ("arguments", "parameters", "args", "action_input", "tool_input", "input")
NESTED_FIELDS = ("function", "function_call", "tool_calls")
CALL_FIELDS_REGEX = "|".join((*TOOL_NAME_FIELDS, *NESTED_FIELDS, "type"))
FORMAT_REGEXES = {
    # Qwen, Hermes, GLM, Hunyuan, Seed, Granite, Gemma, Nemotron, LongCat
    "tagged": rf"(?:<|&lt;)(?P<tag>{TAG_PREFIX}tool_?calls?|{TAG_PREFIX}function_?calls?"
    r"|\|(?:tool|function)_calls?\|?)(?:>|&gt;).*?(?:(?:<|&lt;)/?(?P=tag)(?:>|&gt;)|<tool_call\|>|\Z)",
    # Qwen-coder without its tags, MiniMax, DeepSeek, Llama
    "invoked": rf"{INVOKE_TAG_REGEX}(?:(?!{INVOKE_TAG_REGEX}).)*?"
    rf"(?:</{TAG_PREFIX}(?:invoke|function)>|\Z)",
    "mistral": r"\[TOOL_CALLS\].*?(?:(?=\[TOOL_CALLS\])|</s>|\Z)",
    # DeepSeek, Kimi, StepFun
    "listed": rf"<{BAR}tool{GAP}calls?(?:{GAP}section)?{GAP}begin{BAR}>.*?"
    rf"(?:<{BAR}tool{GAP}calls(?:{GAP}section)?{GAP}end{BAR}>|\Z)",
    # Llama, Phi, InternLM, Cohere, LFM, Solar, Kimi K3, FunctionGemma, GigaChat
    "called": r"(?:<\|python_(?:tag|start)\|>|\bfunctools(?=\[)|<\|action_start\|>"
    r"|<\|START_ACTION\|>|<\|tool_call[_:]start\|>|<\|open\|>\s*tools\s*<\|sep\|>"
    r"|<start_function_call>|\bfunction call<\|role_sep\|>).*?"
    r"(?:<\|(?:action_end|END_ACTION|tool_call[_:]end|python_end|eom_id|eot_id)\|>"
    r"|<\|close\|>\s*tools\s*<\|sep\|>|<end_function_call>|\Z)",
    # Apertus: the name of the tool is the key
    "keyed": r"<\|tools_prefix\|>.*?(?:<\|tools_suffix\|>|\Z)",
    "harmony": rf"(?:{CHANNEL_TAG_REGEX}to={NAME_REGEX}{CONSTRAINT_TAG_REGEX}"
    rf"|<\|start\|>\s*assistant\s+to={NAME_REGEX}\s*<\|channel\|>{CONSTRAINT_TAG_REGEX})"
    r".*?(?:<\|call\|>|<\|end\|>|\Z)",
    # ReAct, Qwen 2
    "react": rf"^[ \t*]*(?:Action|\u273fFUNCTION\u273f)[*\s]*:[*\s]*{NAME_REGEX}[*\s]*\n"
    r"[*\s]*(?:Action[ _]Input|\u273fARGS\u273f)[*\s]*:.*?"
    r"(?=\n\s*(?:Observation\s*:|\u273fRE)|\Z)",
    # any JSON, Python or tag: a call only if it names a tool and its arguments
    "fenced": r"```\w{0,12}\s*(?:(?!```).)*```",
    "bare": r"\A\s*(?:[\[{].*[\]}]|[a-z]\w{0,40}\([^()\n]{1,2000}\))\s*\Z",
    "loose": r"<(?P<any>tool|tool_code|tool_use|use_mcp_tool)>(?:(?!<(?P=any)>).)*?</(?P=any)>",
    "inline": rf"""(?<![\w"'\[{{,:])\{{\s*["'](?:{CALL_FIELDS_REGEX})["']\s*:""",
}
AMBIGUOUS_FORMATS = ("fenced", "bare", "loose", "inline")
"""Formats that ordinary text may match, too."""
SECTIONS_PATTERN = re.compile(
    "|".join(f"(?P<{name}>{form})" for name, form in FORMAT_REGEXES.items()), re.S | re.I | re.M
)
FUNCTION_PATTERN = re.compile(
    rf"{INVOKE_TAG_REGEX}[\"']?(?P<name>{NAME_REGEX})[\"']?\s*>(?P<body>(?:(?!{INVOKE_TAG_REGEX}).)*)",
    re.S,
)
PARAMETER_PATTERN = re.compile(
    rf"<{TAG_PREFIX}parameter(?:=|\sname=[\"'])(?P<name>{NAME_REGEX})[\"']?[^>]*>"
    rf"(?P<value>(?:(?!<{TAG_PREFIX}parameter).)*?)</{TAG_PREFIX}parameter>",
    re.S,
)
TAGGED_VALUE_PATTERN = re.compile(rf"<(?P<name>{NAME_REGEX})>(?P<value>[^<]*)</(?P=name)>")
ARGUMENT_PAIR_PATTERN = re.compile(
    r"<arg_key>(?P<key>[^<]{1,64})</arg_key>\s*<arg_value>(?P<value>(?:(?!<arg_).)*?)</arg_value>"
    r"|<\|tool_arg:start\|>(?P<key_2>[^<]{1,64})<\|tool_arg:value\|>"
    r"(?P<value_2>(?:(?!<\|tool_arg).)*?)<\|tool_arg:end\|>"
    r"|<\|open\|>argument\s+key=\"(?P<key_3>[^<\"]{1,64})\"[^<]{0,80}<\|sep\|>"
    r"(?P<value_3>(?:(?!<\|open).)*?)<\|close\|>argument<\|sep\|>",
    re.S,
)
PAIR_NAME_PATTERN = re.compile(
    rf".{{0,80}}?<\|open\|>call\s+tool=\"({NAME_REGEX})\"|\s*({NAME_REGEX})", re.S
)
NAMED_JSON_PATTERN = re.compile(
    rf"(?:functions?\.|call:|to=(?:functions\.)?)?(?P<name>{NAME_REGEX})(?::\d{{1,3}})?"
    rf"(?:\[CALL_ID\]\w{{0,40}}|\[ARGS\]|<{BAR}[^<>]{{1,40}}{BAR}>|```|\b(?:json|code|commentary)\b"
    r"|</(?:tool_)?name>|<(?:arguments|parameters|args|input)>|\*|Action[ _]Input\s*:"
    r"|\u273fARGS\u273f\s*:|\s){0,12}(?=\{)"
)
FENCE_PATTERN = re.compile(
    r"\A(?:\s*(?:```\w{0,12}|(?:<|&lt;)(?:(?!&gt;)[^<>]){1,60}(?:>|&gt;)|\[TOOL_CALLS\]|functools"
    r"|function call(?=<)))+\s*"
)
FENCE_END_PATTERN = re.compile(r"(?:\s*(?:```|(?:<|&lt;)(?:(?!&gt;)[^<>]){1,60}(?:>|&gt;)))+\s*\Z")
MAX_CODE_LENGTH = 10_000  # characters of Python, or of malformed JSON, that are parsed
QUOTED_STRING_PATTERN = re.compile(r'<\|"\|>(.*?)<\|"\|>|<escape>(.*?)<escape>', re.S)
PIECE_PATTERN = re.compile(
    r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|\b(?P<key>[A-Za-z_]\w*)(?=\s*:)"
    r"|\b(?P<constant>true|false|null)\b|(?P<bracket>[{}])",
    re.S,
)
PYTHON_CONSTANTS = {"true": "True", "false": "False", "null": "None"}
NON_TOOL_NAMES = ("answer", "final_answer", "print", "dict", "list", "set", "tuple")


class TextCall(NamedTuple):
    """A tool call in a text, and the span of the text that holds it."""

    call: ToolCall
    start: int
    end: int


def read_text_calls(text: str) -> list[TextCall]:
    """Return the tool calls in a reply without its thoughts, in order, with numbered ids."""
    calls = list[TextCall]()
    for _, start, end, found in _find_sections(text.replace(MINIMAX_PREFIX, "")):
        for name, arguments in found:
            calls.append(TextCall(ToolCall(f"call_{len(calls)}", name, arguments), start, end))
            if len(calls) == MAX_TOOL_CALLS:
                return calls
    return calls


def strip_text_calls(text: str) -> str:
    """Return the text of a reply without the tool calls in it, including malformed ones."""
    kept, at, whole = list[str](), 0, text.replace(MINIMAX_PREFIX, "")
    for form, start, end, found in _find_sections(whole):
        if found or form not in AMBIGUOUS_FORMATS:
            kept, at = [*kept, whole[at:start]], end
    return "\n".join([*kept, whole[at:]]).strip() if kept else text


def _find_sections(text: str) -> Iterator[tuple[str, int, int, list[tuple[str, str]]]]:
    """Yield each section that may hold calls: its format, its span, and the calls in it."""
    at, failures = 0, 0
    while section := SECTIONS_PATTERN.search(text, at):
        form = next(name for name in FORMAT_REGEXES if section[name] is not None)
        end = section.end()
        if form == "inline":
            value, after = (
                _read_json_at(text, section.start()) if failures < MAX_FAILED_READS else (None, end)
            )
            found = list(_read_object_calls(value)) if isinstance(value, dict) else []
            failures += not found
            end = after if found else end
        else:
            found = list(_read_section(form, section[0]))
        yield form, section.start(), end, found
        at = max(end, section.start() + 1)


def _read_section(form: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the JSON arguments of each call in a section."""
    if functions := list(FUNCTION_PATTERN.finditer(text)):
        yield from map(_read_function, functions)
        return
    inner = FENCE_END_PATTERN.sub("", FENCE_PATTERN.sub("", text))
    if pairs := list(ARGUMENT_PAIR_PATTERN.finditer(text)):
        if (
            name := PAIR_NAME_PATTERN.match(text)
            if "<|open|>" in text
            else PAIR_NAME_PATTERN.match(inner)
        ):
            groups = [[group for group in pair.groups() if group is not None] for pair in pairs]
            values = {key.strip(): _read_value(value) for key, value in groups}
            yield name[1] or name[2], json.dumps(values, ensure_ascii=False)
        return
    calls = [*_read_json_calls(inner, form == "keyed")] or [*_read_python_calls(inner)]
    if calls or form in ("fenced", "bare"):
        yield from calls
        return
    at = 0
    while match := NAMED_JSON_PATTERN.search(text, at):
        value, at = _read_json_at(text, match.end())
        if isinstance(value, dict):
            yield match["name"], json.dumps(value, ensure_ascii=False)


def _read_function(function: re.Match[str]) -> tuple[str, str]:
    """Read a call whose parameters are in tags, or are one JSON object."""
    body = function["body"]
    values = {m["name"]: _read_value(m["value"]) for m in PARAMETER_PATTERN.finditer(body)}
    if not values and body.lstrip().startswith("{"):
        given, _ = _read_json_at(body, 0)
        values = given if isinstance(given, dict) else {}
    elif not values:
        values = {m["name"]: _read_value(m["value"]) for m in TAGGED_VALUE_PATTERN.finditer(body)}
    return function["name"], json.dumps(values, ensure_ascii=False)


def _read_python_calls(text: str) -> Iterator[tuple[str, str]]:
    """Yield the calls in Python code such as `[zoom(box=[1, 2, 3, 4])]`, which is never run."""
    if len(text) > MAX_CODE_LENGTH or not re.match(rf"\s*\[?\s*{NAME_REGEX}\(", text):
        return
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        nodes = tree.elts if isinstance(tree, ast.List) else [tree]
        for node in nodes:
            if not isinstance(node, ast.Call) or node.args or not node.keywords:
                return
            values = {str(word.arg): ast.literal_eval(word.value) for word in node.keywords}
            name = ast.unparse(node.func).removesuffix(".call")
            if name not in NON_TOOL_NAMES:
                yield name, json.dumps(values, ensure_ascii=False)
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return


def _read_json_calls(text: str, keyed: bool = False) -> Iterator[tuple[str, str]]:
    """Yield the calls in one JSON value, or in several consecutive ones."""
    at = 0
    while at < len(text):
        value, at = _read_json_at(text, at)
        if value is None:
            return
        for item in value if isinstance(value, list) else [value]:
            if keyed and isinstance(item, dict):
                item = {
                    "name": next(iter(item), None),
                    "arguments": next(iter(item.values()), None),
                }
            found = list(_read_object_calls(item))
            if not found:
                return
            yield from found
        rest = re.match(r"[\s;,]*", text[at:])
        at += rest.end() if rest else 0


def _read_object_calls(item: Any) -> Iterator[tuple[str, str]]:
    """Yield the calls in a JSON object that names a tool and its arguments."""
    if not isinstance(item, dict):
        return
    inner = next(
        (item[key] for key in NESTED_FIELDS if isinstance(item.get(key), dict | list)), None
    )
    if inner is not None:
        for value in inner if isinstance(inner, list) else [inner]:
            yield from _read_object_calls(value)
        return
    name = next((item[key] for key in TOOL_NAME_FIELDS if isinstance(item.get(key), str)), None)
    for key in ARGUMENT_FIELDS:
        given = item.get(key)
        if name and (isinstance(given, dict) or (isinstance(given, str) and _is_object(given))):
            yield name, given if isinstance(given, str) else json.dumps(given)
            return


def _is_object(text: str) -> bool:
    return text.strip().startswith("{")


def _read_json_at(text: str, at: int) -> tuple[Any, int]:
    """Return the JSON value that starts at a position and its end; None and the end of the text if
    there is none."""
    start = re.compile(r"\s*").match(text, at)
    place = start.end() if start else at
    try:
        _, end = json.JSONDecoder().raw_decode(text, place)
        return read_json(text[place:end]), end
    except (ValueError, RecursionError):
        return _read_malformed_json_at(text, place)


def _read_malformed_json_at(text: str, start: int) -> tuple[Any, int]:
    """Read an object like `_read_json_at`, even if it is malformed: with unquoted keys, strings
    quoted as in Gemma or Python, or a trailing comma."""
    part = QUOTED_STRING_PATTERN.sub(
        lambda quoted: json.dumps(quoted[1] or quoted[2] or ""), text[start:][:MAX_CODE_LENGTH]
    )
    pieces, depth, last = list[str](), 0, 0
    for piece in PIECE_PATTERN.finditer(part):
        word = piece[0]
        depth += {"{": 1, "}": -1}.get(word, 0)
        word = json.dumps(word) if piece["key"] else PYTHON_CONSTANTS.get(word, word)
        pieces += [part[last : piece.start()], word]
        last = piece.end()
        if depth < 1:
            break
    if not part.startswith("{") or depth:
        return None, len(text)
    try:
        value = ast.literal_eval("".join(pieces))
        json.dumps(value)
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return None, len(text)
    rest = part[last:]
    return value, len(text) - len(rest) if text.endswith(rest) else len(text)


def _read_value(text: str) -> Any:
    """Read the value of a parameter as JSON, else as text."""
    try:
        return read_json(text.strip())
    except ValueError:
        return text.strip("\n")
