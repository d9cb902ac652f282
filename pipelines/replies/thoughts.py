"""Strips thoughts from a reply, in the markers of every model family, and text after the end of the
model's turn."""

from __future__ import annotations

import re
from bisect import bisect_right

__all__ = [
    "cut_at_new_turn",
    "cut_at_turn_end",
    "ends_in_thought",
    "strip_beginning",
    "strip_thoughts",
]

THOUGHT_TAG = (
    "(?:[a-z]+:|longcat_|deep_?)?think(?:ing)?|thoughts?|(?:thought|thinking|reasoning)[_-]?process"
    "|reasoning(?:_content)?|reflection|reason|scratch_?pad|analysis|chain_?of_?thought|cot"
    "|(?:inner|internal)_?(?:monologue|thoughts?|reasoning)|antthinking"
    "|\u601d\u8003(?:\u8fc7\u7a0b)?"  # Chinese for thinking
)
"""Names of tags: <think>, <seed:think>, <longcat_think>, <reason>, <scratchpad> ..."""
OPENED_THOUGHT_PATTERN = re.compile(rf"<({THOUGHT_TAG})(?:\s[^<>]{{0,100}})?>", re.I)
CLOSED_THOUGHT_PATTERN = re.compile(rf"</\s?({THOUGHT_TAG})\s?>", re.I)
OPEN_TAG, CLOSE_TAG = "<think>", "</think>"
THOUGHT_BEGINS = "begin_of_thought|start_thinking|thought_start|think[_:]start|inner_prefix"
END_WORDS = "end_of_thought|end_thinking|thought_end|think[_:]end|inner_suffix"
SUMMARY_TAG = r"<summary>[^<]{0,40}(?:think|thought|reason)[^<]{0,80}</summary>"
THOUGHT_TITLE = r"\A[\s*_#]*(?:Here(?: is|'s) my thought process:|Thinking\.\.\.)"
RESPONSE_TITLE = r"Here(?: is|'s) my response:"
DONE_THINKING = r"\.\.\.\s?done thinking\.?[*_]*"
MESSAGE_END = r"(?:<\|eo[mt]\|>\s*)?"
MESSAGE_START = r"(?:<\|(?:end|return|call)\|>\s*)?(?:<\|start\|>\s*assistant\s*)?"
CHANNEL_TARGET = r"[^<]{0,200}(?:<\|constrain\|>[^<]{0,50})?"
MARKERS = tuple(
    (re.compile(marker, re.S | re.I if insensitive else re.S), replacement)
    for marker, replacement, insensitive in (
        # escaped for HTML, in other brackets, or as a special token
        (rf"(?:&lt;|\\<)(/?)({THOUGHT_TAG})(?:&gt;|\\?>)", r"<\1\2>", True),
        (r"[\[\u25c1](/?)think(?:ing)?[\]\u25b7]", r"<\1think>", True),
        (rf"<\|(/?)({THOUGHT_TAG})\|>", r"<\1\2>", True),
        (rf"<\|(?:{THOUGHT_BEGINS})\|>", OPEN_TAG, True),
        (rf"<\|(?:{END_WORDS})\|>", CLOSE_TAG, True),
        # collapsed, as on web pages, or in a code block
        (rf"<details\b[^<>]{{0,300}}>\s*{SUMMARY_TAG}(?:(?!<details\b).)*?</details>", "\n", True),
        (r"\A\s*```(?:think(?:ing)?|thoughts?|reasoning)\s*\n.*?\n```", "\n", True),
        (r"\A\s*```(?:think(?:ing)?|thoughts?|reasoning)\s*\n", OPEN_TAG, True),
        # in words, if words introduce the text after the thoughts, too: Granite, Ollama
        (rf"{THOUGHT_TITLE}(?=.*(?:{RESPONSE_TITLE}|{DONE_THINKING}))", OPEN_TAG, False),
        (rf"{RESPONSE_TITLE}|{DONE_THINKING}", CLOSE_TAG, False),
        # Apriel, Pangu
        (r"\[BEGIN FINAL RESPONSE\]", CLOSE_TAG, False),
        (r"\[unused16\]", OPEN_TAG, False),
        (r"\[unused17\]", CLOSE_TAG, False),
        # Kimi K3
        (r"<\|open\|>\s*think\s*<\|sep\|>", OPEN_TAG, False),
        (r"<\|close\|>\s*think\s*<\|sep\|>", CLOSE_TAG, False),
        (r"<\|(?:open|close)\|>\s*(?:response|message)\s*<\|sep\|>", "\n", False),
        # Solar
        (
            r"<\|end\|>\s*<\|begin\|>\s*assistant\s*(?=<\|(?:content|tool_calls)\|>)",
            CLOSE_TAG,
            False,
        ),
        # Muse
        (r"(?:<\|start\|>\s*assistant\s*)?\bto=self\s*<\|message\|>", OPEN_TAG, False),
        (
            rf"{MESSAGE_END}<\|start\|>\s*assistant(?:\s+to=[\w.-]{{1,64}})?\s*<\|message\|>",
            CLOSE_TAG,
            False,
        ),
        (r"\A\s*to=user\s*<\|message\|>", "", False),
        # Gemma
        (r"<\|channel>\s*(?:thought|analysis)\b", OPEN_TAG, False),
        (r"<channel\|>", CLOSE_TAG, False),
        (r"<unused94>(?:thought\b)?", OPEN_TAG, False),
        (r"<unused95>", CLOSE_TAG, False),
        # harmony: all but the channel `final` is for the model itself
        (rf"{MESSAGE_START}<\|channel\|>\s*final\b{CHANNEL_TARGET}<\|message\|>", CLOSE_TAG, False),
        # before a tool call, with its header in either order
        (
            r"<\|start\|>\s*assistant\s+to=([\w.-]{1,64})\s*<\|channel\|>\s*(\w+)",
            r"<|start|>assistant<|channel|>\2 to=\1",
            False,
        ),
        (r"<\|end\|>\s*<\|start\|>\s*assistant\s*(?=<\|channel\|>\s*\w+\s+to=)", CLOSE_TAG, False),
        (
            rf"{MESSAGE_START}<\|channel\|>\s*\w+\b(?!\s+to=){CHANNEL_TARGET}<\|message\|>",
            OPEN_TAG,
            False,
        ),
        # harmony whose special tokens the server removed
        (r"\Aanalysis(?=[A-Z\"'(\u2018\u201c])", OPEN_TAG, False),
        (r"assistantcommentary(?= to=)", f"{CLOSE_TAG}commentary", False),
        (r"assistant(?:analysis|commentary)(?=[^a-z]|\Z)", OPEN_TAG, False),
        (r"assistantfinal(?=[^a-z]|\Z)", CLOSE_TAG, False),
    )
)
"""Other markers, and their replacements."""
MARKED_ANSWER_PATTERN = re.compile(
    r"[<\[\u25c1]|&lt;|\Aanalysis|assistant(?:final|analysis|commentary)|\A\s*```"
    rf"|{THOUGHT_TITLE}|{RESPONSE_TITLE}|{DONE_THINKING}"
)
"""A cheap test: every marker begins with one of these."""

TURN_END_PATTERN = re.compile(
    r"</s>|<(?:eos|end_of_turn|turn\|)>|<\|(?:im[_:]end|end|endoftext|end_of_text|eo[tm](?:_id)?"
    r"|return|eos|hy_eos|stop|flush|endofturn|end_of_turn|turn_end|endofresponse|endofassistant"
    r"|assistant_end|role_end|end_of_turn_token|user|user_start|observation|im[_:]start|im_user"
    r"|im_system|start_header_id|header_start|start_of_role|start_of_turn)\|>|<\|turn>"
    r"|<start_of_turn>|<extra_id_1>|<SPECIAL_1[12]>|\[\|(?:endofturn|user|system)\|\]"
    r"|<[|\uff5c](?:end\u2581of\u2581sentence|User)[|\uff5c]>|\[INST\]|\[END FINAL RESPONSE\]",
    re.I,
)
"""Special tokens that end a turn or begin the next one."""
BEGIN_PATTERN = re.compile(r"<(?:s|bos|pad)>|<\|(?:begin_of_text|startoftext|begin)\|>", re.I)
"""Special tokens that begin a text."""
ECHO_PATTERN = re.compile(
    r"\A(?:<\|im_start\|>\s*(?:system|user)\b|<\|start_header_id\|>\s*(?:system|user)\b"
    r"|<start_of_turn>\s*user\b|<\|turn>\s*(?:system|user)\b|<\|(?:system|user)\|>|\[INST\]"
    r"|<\uff5cUser\uff5c>)",
    re.I,
)
"""The beginning of a reply that repeats its prompt."""
OWN_TURN_PATTERN = re.compile(
    r"<\|im_start\|>\s*assistant\b|<\|start_header_id\|>\s*assistant\s*<\|end_header_id\|>"
    r"|(?:<start_of_turn>|<\|turn>)\s*model\b|<\|assistant\|>|\[/INST\]|<\uff5cAssistant\uff5c>",
    re.I,
)
"""The start of the model's own turn after a repeated prompt."""
NEW_TURN_PATTERN = re.compile(
    r"(?:^|\n|(?<=[.!?)\]\"'*\w]) )[#*\s]{0,9}"
    r"(?:(?:Human|User|Assistant|HUMAN|USER|ASSISTANT|Question|QUESTION|Instruction)(?: ?\d{1,3})?"
    r"|(?<=\n\n)Q)\s?(?:\*\*)?:(?=\W)"
    r"|\n[#*\s]{0,9}(?:Frage|Pregunta|Pergunta|Domanda|\u0412\u043e\u043f\u0440\u043e\u0441)\s?:(?=\W)"
    r"|\n[#*\s]{0,9}(?:\u95ee\u9898|\u554f\u984c|\u7528\u6237|\u8cea\u554f|\uc9c8\ubb38)\s?[:\uff1a]"
)
"""Phrases that begin another turn, which some models append to a reply."""


def strip_thoughts(text: str) -> str:
    """Return a reply without its thoughts; an unclosed thought is removed to its end."""
    text = _normalize_markers(text)
    if not (OPENED_THOUGHT_PATTERN.search(text) or CLOSED_THOUGHT_PATTERN.search(text)):
        return text
    answer = CLOSED_THOUGHT_PATTERN.split(_drop_closed_thoughts(text))[-1]
    opened = OPENED_THOUGHT_PATTERN.search(answer)
    return answer[: opened.start() if opened else None].strip()


def ends_in_thought(text: str) -> bool:
    """Return whether the last thought of a reply was never closed."""
    rest = CLOSED_THOUGHT_PATTERN.split(_drop_closed_thoughts(_normalize_markers(text)))[-1]
    return OPENED_THOUGHT_PATTERN.search(rest) is not None


def strip_beginning(text: str) -> str:
    """Return a reply without the special tokens that begin a text and without a repeated prompt."""
    text = BEGIN_PATTERN.sub("", text)
    own = OWN_TURN_PATTERN.search(text) if ECHO_PATTERN.match(text.lstrip()) else None
    return text[own.end() :] if own else text


def cut_at_turn_end(text: str) -> str:
    """Return a reply up to the first special token that ends the model's turn, ignoring tokens
    before its first word."""
    for match in TURN_END_PATTERN.finditer(text):
        if re.search(r"\w", TURN_END_PATTERN.sub("", text[: match.start()])):
            return text[: match.start()].rstrip()
    return text


def cut_at_new_turn(text: str) -> str:
    """Return a reply up to the first phrase that begins another turn, such as "Human:"."""
    for match in NEW_TURN_PATTERN.finditer(text):
        if re.search(r"\w", text[: match.start()]):
            return text[: match.start()].rstrip()
    return text


def _normalize_markers(text: str) -> str:
    """Return the text with all thought markers replaced by tags."""
    if not MARKED_ANSWER_PATTERN.search(text):
        return text
    for marker, replacement in MARKERS:
        text = marker.sub(replacement, text)
    return text


def _drop_closed_thoughts(text: str) -> str:
    """Return the text with each closed thought replaced by a line break, in a single pass: a
    regular expression would take quadratic time."""
    ends: dict[str, list[int]] = {}
    for closer in CLOSED_THOUGHT_PATTERN.finditer(text):
        ends.setdefault(closer[1].lower(), []).append(closer.end())
    kept, at = list[str](), 0
    for opener in OPENED_THOUGHT_PATTERN.finditer(text):
        mine = ends.get(opener[1].lower(), [])
        after = bisect_right(mine, opener.end())
        if opener.start() >= at and after < len(mine):
            kept += [text[at : opener.start()], "\n"]
            at = mine[after]
    return "".join([*kept, text[at:]])
