"""What a reply holds beside its answer: thoughts, in the markers of every model family, and what
follows the end of the model's turn."""

from __future__ import annotations

import re
from bisect import bisect_right

__all__ = ["cut_at_new_turn", "cut_at_turn_end", "ends_in_thought", "strip_thoughts"]

THOUGHT_TAG = (
    "(?:[a-z]+:|longcat_)?think(?:ing)?|thoughts?|(?:thought|thinking|reasoning)[_-]?process"
    "|reasoning(?:_content)?|reflection|reason|scratch_?pad|analysis|chain_?of_?thought|cot"
    "|inner_?(?:monologue|thoughts?)|antthinking"
)
"""Names of tags: <think>, <seed:think>, <longcat_think>, <reason>, <scratchpad> ..."""
OPENED = re.compile(rf"<({THOUGHT_TAG})(?:\s[^<>]{{0,100}})?>", re.I)
CLOSED = re.compile(rf"</({THOUGHT_TAG})\s?>", re.I)
OPEN, CLOSE = "<think>", "</think>"
BEGINS = "begin_of_thought|start_thinking|thought_start|think_start|inner_prefix"
ENDS = "end_of_thought|end_thinking|thought_end|think_end|inner_suffix"
START = r"(?:<\|(?:end|return|call)\|>\s*)?(?:<\|start\|>\s*assistant\s*)?"
TO = r"[^<]{0,200}(?:<\|constrain\|>[^<]{0,50})?"
MARKERS = tuple(
    (re.compile(marker, re.I if insensitive else 0), replacement)
    for marker, replacement, insensitive in (
        # escaped for HTML, in other brackets, or as a special token
        (rf"&lt;(/?)({THOUGHT_TAG})&gt;", r"<\1\2>", True),
        (r"[\[\u25c1](/?)think(?:ing)?[\]\u25b7]", r"<\1think>", True),
        (rf"<\|(/?)({THOUGHT_TAG})\|>", r"<\1\2>", True),
        (rf"<\|(?:{BEGINS})\|>", OPEN, True),
        (rf"<\|(?:{ENDS})\|>", CLOSE, True),
        # Gemma
        (r"<\|channel>\s*(?:thought|analysis)\b", OPEN, False),
        (r"<channel\|>", CLOSE, False),
        (r"<unused94>(?:thought\b)?", OPEN, False),
        (r"<unused95>", CLOSE, False),
        # harmony: all but the channel `final` is for the model itself
        (rf"{START}<\|channel\|>\s*final\b{TO}<\|message\|>", CLOSE, False),
        # before a call of a tool
        (r"<\|end\|>\s*<\|start\|>\s*assistant\s*(?=<\|channel\|>\s*\w+\s+to=)", CLOSE, False),
        (rf"{START}<\|channel\|>\s*\w+\b(?!\s+to=){TO}<\|message\|>", OPEN, False),
        # harmony whose special tokens a server took away
        (r"\Aanalysis(?=[A-Z\"'(\u2018\u201c])", OPEN, False),
        (r"assistant(?:analysis|commentary)(?=[^a-z]|\Z)", OPEN, False),
        (r"assistantfinal(?=[^a-z]|\Z)", CLOSE, False),
    )
)
"""Other markers, and what they become."""
MARKED = re.compile(r"[<\[\u25c1]|&lt;|\Aanalysis|assistant(?:final|analysis|commentary)")
"""Something that every marker begins with."""

TURN_END = re.compile(
    r"</s>|<(?:eos|end_of_turn|turn\|)>|<\|(?:im_end|end|endoftext|end_of_text|eot_id|eom_id|return"
    r"|eos|endofturn|end_of_turn|endofresponse|end_of_turn_token|user|observation|im_start"
    r"|start_header_id|start_of_turn)\|>|<\|turn>|<start_of_turn>|<\|END_OF_TURN_TOKEN\|>"
    r"|<\uff5c(?:end\u2581of\u2581sentence|User)\uff5c>|\[INST\]",
    re.I,
)
"""Special tokens that end a turn or begin the next one."""
NEW_TURN = re.compile(
    r"(?:^|\n|(?<=[.!?)\]\"'*\w]) )[#*\s]{0,9}"
    r"(?:(?:Human|User|Assistant|HUMAN|USER|ASSISTANT|Question|QUESTION|Instruction)(?: ?\d{1,3})?"
    r"|(?<=\n\n)Q)\s?(?:\*\*)?:(?=\W)"
)
"""Words that begin another turn, which some replies write on with."""


def strip_thoughts(text: str) -> str:
    """Return a reply without its thoughts; of a thought that was never closed nothing is left."""
    text = _in_tags(text)
    if not (OPENED.search(text) or CLOSED.search(text)):
        return text
    answer = CLOSED.split(_drop_closed_thoughts(text))[-1]
    opened = OPENED.search(answer)
    return answer[: opened.start() if opened else None].strip()


def ends_in_thought(text: str) -> bool:
    """Whether the last thought of a reply was never closed."""
    rest = CLOSED.split(_drop_closed_thoughts(_in_tags(text)))[-1]
    return OPENED.search(rest) is not None


def cut_at_turn_end(text: str) -> str:
    """Return a reply up to the first special token that ends the model's turn; tokens before its
    first word count as nothing."""
    for match in TURN_END.finditer(text):
        if re.search(r"\w", TURN_END.sub("", text[: match.start()])):
            return text[: match.start()].rstrip()
    return text


def cut_at_new_turn(text: str) -> str:
    """Return a reply up to the first words that begin another turn, such as "Human:"."""
    for match in NEW_TURN.finditer(text):
        if re.search(r"\w", text[: match.start()]):
            return text[: match.start()].rstrip()
    return text


def _in_tags(text: str) -> str:
    """The text with every marker of a thought as a tag."""
    if not MARKED.search(text):
        return text
    for marker, replacement in MARKERS:
        text = marker.sub(replacement, text)
    return text


def _drop_closed_thoughts(text: str) -> str:
    """The text with a line break for each thought that its own tag closes; one pass, because a
    pattern would take time squared."""
    ends: dict[str, list[int]] = {}
    for closer in CLOSED.finditer(text):
        ends.setdefault(closer[1].lower(), []).append(closer.end())
    kept, at = list[str](), 0
    for opener in OPENED.finditer(text):
        mine = ends.get(opener[1].lower(), [])
        after = bisect_right(mine, opener.end())
        if opener.start() >= at and after < len(mine):
            kept += [text[at : opener.start()], "\n"]
            at = mine[after]
    return "".join([*kept, text[at:]])
