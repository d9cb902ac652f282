"""The rules by which benchmarks of tables compare whole replies with keys, read from the code of
their authors and of VLMEvalKit (2026-08); what each of them misreads is part of the rule."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from looktwice.eval.records.records import SampleRow
from looktwice.pipelines.geometry import iou

KEYS = {"1": "yes", "0": "no"}
PARTED = re.compile(r"""[;/\[\]"{}()=+\\_\-><@`,?!]""")
NUMBER_COMMA = re.compile(r"\d,\d")
PERIOD = re.compile(r"\.(?!\d)")
BOX = re.compile(r"<box>\s*\[(\d+),(\d+),(\d+),(\d+)\].*?</box>", re.S)
LEADS = (
    "The best answer is",
    "The correct answer is",
    "The answer is",
    "The answer",
    "The best option is",
    "The correct option is",
)
BRACED = frozenset(
    ("Subway Connections", "Nested Squares", "Line Plot Intersections", "Circled Letter")
)
WORDY = 10  # a reply of more words without a capital A to E has no letter
Box = Sequence[float]


def first_word(reply: str, words: tuple[str, str]) -> str:
    """The word of the two that comes first as a whole word, in whatever case; empty for neither
    (NaturalBench)."""
    word = re.search(rf"\b(?:{'|'.join(words)})\b", reply, re.I)
    return word[0].lower() if word else ""


def yes_or_no(reply: str) -> str:
    """ "yes" or "no" where that one alone is among the words; "**Yes**" is neither (VLMEvalKit)."""
    text = reply.lower()
    for mark in dict.fromkeys(PARTED.findall(text)):
        touches = f"{mark} " in text or f" {mark}" in text or NUMBER_COMMA.search(text)
        text = text.replace(mark, "" if touches else " ")
    answers = {"yes", "no"} & {*PERIOD.sub("", text).split()}
    return answers.pop() if len(answers) == 1 else ""


def first_letter(reply: str) -> str:
    """The first capital A to E anywhere, once openings such as "The answer is" are removed, and A
    for an empty reply (TreeBench in VLMEvalKit)."""
    text = reply.strip()
    for lead in LEADS:
        text = text.replace(lead, "")
    letter = re.search("[A-E]", text)
    if letter or len(text.split()) > WORDY:
        return letter[0] if letter else ""
    return next((name for name in "ABCDE" if text.lower() in f"({name})".lower()), "")


def braced(reply: str) -> str:
    """What stands in the first braces, white space included; empty where there are none
    (VLMsAreBlind)."""
    inner = re.search(r"\{(.*?)\}", reply)
    return inner[1] if inner else ""


def rows_and_columns(reply: str) -> tuple[int, ...]:
    """The numbers of "rows={4} columns={5}" in either order, else of the first "(4, 5)"."""
    rows = re.search(r"[Rr]ows?[^{}]*\{(\d+)\}", reply)
    columns = re.search(r"[Cc]olumns?[^{}]*\{(\d+)\}", reply)
    pair = re.search(r"\((\d+),\s*(\d+)\)", reply)
    if rows and columns:
        return int(rows[1]), int(columns[1])
    return (int(pair[1]), int(pair[2])) if pair else ()


def mean_best_iou(reply: str, targets: Sequence[Box]) -> float:
    """The mean over target boxes of the best IoU with any box that a reply writes as
    `<box>[x1,y1,x2,y2]</box>` in its `<think>`, without one in the whole reply (TreeBench).

    A box with a space between its numbers, with fractions or without an area is none. Boxes beyond
    the targets cost nothing. Without targets it is 1 for a reply with a box, else 0.
    """
    thought = re.search(r"<think>(.*?)</think>", reply, re.S)
    boxes = []
    for numbers in BOX.findall(thought[1] if thought else reply):
        left, top, right, bottom = map(int, numbers)
        if left < right and top < bottom:
            boxes.append((left, top, right, bottom))
    if not targets or not boxes:
        return float(bool(boxes))
    best = []
    for x0, y0, x1, y1 in targets:
        best.append(max(iou(box, (x0, y0, x1, y1)) for box in boxes))
    return sum(best) / len(best)


def _natural(reply: str, row: SampleRow) -> bool:
    letters = (row.answer or "").upper() in ("A", "B")
    return first_word(reply, ("a", "b") if letters else ("yes", "no")) == key_of(row)


def _tree(reply: str, row: SampleRow) -> bool:
    answer = re.search(r"<answer>(.*?)</answer>", reply, re.S)
    return (answer[1] if answer else reply).strip().upper() == row.answer


def _blind(reply: str, row: SampleRow) -> bool:
    task, key = str(row.meta.get("task", "")), row.answer or ""
    if task.startswith("Counting Grid"):
        return rows_and_columns(reply) == tuple(map(int, re.findall(r"\d+", key)))
    return braced(reply) == key if task in BRACED else key.lower() in reply.lower()


def _vp(reply: str, row: SampleRow) -> bool:
    """The first A to D in any word and case: "Answer: D" is A (VP-Bench's code of 2025-12)."""
    letter = re.search("[A-D]", reply.upper())
    return (letter[0] if letter else "") == row.answer


def key_of(row: SampleRow) -> str:
    """The key in small letters, yes and no for 1 and 0."""
    key = (row.answer or "").lower()
    return KEYS.get(key, key)


RULES: Mapping[str, Callable[[str, SampleRow], bool]] = {
    "natural_bench": _natural,
    "yes_or_no": lambda reply, row: yes_or_no(reply) == key_of(row),
    "tree_bench": _tree,
    "tree_bench_vlmevalkit": lambda reply, row: first_letter(reply) == row.answer,
    "vlms_are_blind": _blind,
    "vp_bench": _vp,
}
"""Whether a reply is right, by the name of the rule."""
