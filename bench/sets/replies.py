"""Constructed replies: the formats in which models write letters, boxes, points and verdicts, and
formats that parsers get wrong."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import product

FRAMES = (
    "{}",
    " {}\n",
    "{}.",
    "({})",
    "({}) because it is nearer",
    "{}) the red one",
    "Answer: {}",
    "answer: {}",
    "ANSWER : {}",
    "Answer: **{}**",
    "The answer is {}.",
    "The answer is ({}), not (A).",
    "I first thought A. Answer: A\nOn reflection:\nAnswer: {}",
    "Answer: {}\nAnswer: E",
    '{{"analysis": "x", "answer": "{}"}}',
    '```json\n{{"analysis": "x", "answer": "{}"}}\n```',
    '{{"answer": "{}"',
    '["{}"]',
    "\\boxed{{{}}}",
    "\\boxed{{\\text{{{}}}}}",
    "\\boxed{{A}} or rather \\boxed{{{}}}",
    "\\boxed{{f(x)={{{}}}}}",
    "\\boxed{{{}",
    "<|begin_of_box|> {} <|end_of_box|>",
    "<think>Answer: A</think>{}",
    "I cannot tell.",
    "",
)
WORDS = ("A", "B", "C", "D", "a", "d", "E", "(2,3)", "7", "3, 4", "yes", "Yes", "T", "False", "cat")


def letters() -> Iterator[tuple[str, str]]:
    """Yield replies with the letter that is correct."""
    for frame, word, key in product(FRAMES, WORDS[:7], "ABCD"):
        yield frame.format(word), key


def texts() -> Iterator[str]:
    """Yield replies with letters, numbers, words and pairs."""
    yield from (frame.format(word) for frame, word in product(FRAMES, WORDS))


def visual_tests() -> Iterator[tuple[str, str, str, str]]:
    """Yield test, `additional`, key and reply of questions of VisFactor."""
    tests = {
        "CF1": "T", "P3": "F", "VZ2": "T", "CS1": "cat,kitten", "CS3": "yes",
        "CF3": "(2, 3)", "I3": "7", "MA1": "3", "SS3": "4", "VZ3": "B",
    }  # fmt: skip
    frames: tuple[str, ...] = (
        '{{"answer": {}}}',
        '{{"answer": "{}"}}',
        "{{'answer': {}}}",
        '{{ "answer" : {} }} ok',
    )
    frames += ('{{"answer": 1}} then {{"answer": "{}"}}', "{}", "The last is {}.", "So {{{}}}")
    words = (
        *WORDS,
        "true",
        "N",
        "0",
        "1",
        "(2, 3)",
        "2 3",
        "KITTEN",
        "'B'",
        "Cat",
        '"',
        "12 and 7",
    )
    for (test, key), frame, word in product(tests.items(), frames, words):
        for additional in ("", "3", "a;b") if test == "VZ3" else ("nan",):
            right = "T" if test == "VZ3" and not additional.isdigit() else key
            yield test, additional, right, frame.format(word)


def points(seed: int = 0, count: int = 600, whole_boxes: bool = False) -> Iterator[str]:
    """Yield replies with points and boxes in every form, near and beyond the edges.

    Boxes are shares unless `whole_boxes`: RoboRefer's parser scales those of whole numbers too, and
    then lists all their pixels, which are billions.
    """
    chance = random.Random(seed)
    for _ in range(count):
        share = [(round(chance.uniform(-0.1, 1.1), chance.choice((1, 2, 4)))) for _ in range(4)]
        thousandth = [chance.randint(-20, 1040) for _ in range(4)]
        pixel = [chance.randint(-3, 70) for _ in range(4)]
        x, y, x1, y1 = chance.choice((share, thousandth, pixel))
        b0, b1, b2, b3 = pixel if whole_boxes else share
        listed = [{"point": [y, x]}, {"point": [y1, x1]}]
        pairs = [{"point_2d": [x, y], "label": "a"}, {"point_2d": [x1, y1]}]
        dotted = [{"point": [x, y]}]
        yield chance.choice(
            (
                f"[({x}, {y})]",
                f"[({x}, {y}), ({x1},{y1})]",
                f"The cup is at ({x}, {y}) in the picture (second shelf).",
                f"({min(b0, b2)}, {min(b1, b3)}, {max(b0, b2)}, {max(b1, b3)})",
                f"[({b0}, {b1}, {b2}, {b3})]",
                f'<points x1="{x}" y1="{y}" x2="{x1}" y2="{y1}" alt="cup">cup</points>',
                f'<point x="{x}" y="{y}" alt="cup">cup</point>',
                f"```json\n{json.dumps(listed)}\n```",
                json.dumps(listed),
                f"```json\n{json.dumps(pairs)}\n```",
                json.dumps(pairs),
                f"Here: {json.dumps(dotted)} done",
                json.dumps([*dotted, {"point": [x1, y1]}]),
                json.dumps({"point": [x, y]}),
                f"[{x}, {y}]",
                "There are none.",
                "[]",
                "",
            )
        )


def biased() -> Iterator[tuple[str, str, str]]:
    """Yield replies with a key and the answer of a biased model."""
    frames = ("{}", "{{{}}}", " {} .", '"{}"', "{}.", "There are {} legs", "{} or 7", "-{}.0", "{}")
    words = ("3", "4", "Yes", "no", "1,000", "1000", "4.50", "4.5", "", "5 stripes", ".5", "0.5")
    keys = (
        ("4", "3"),
        ("Yes", "No"),
        ("1000", "1,001"),
        ("4.5", "45"),
        ("5", "five"),
        ("{4}", "4"),
    )
    for frame, word, (key, bias) in product(frames, words, keys):
        yield frame.format(word), key, bias


def verdicts() -> Iterator[str]:
    """Yield the replies of judges."""
    frames: tuple[str, ...] = (
        "{}",
        "**{}**",
        "{}.",
        "[reason]\nthe same\n[judge]\n{}",
        "[reason] not true [judge] {}",
    )
    frames += ("[judge] {}", "[reason] {}", "The verdict: {}", "[reason]x[judge]False[judge]{}")
    words = ("True", "False", "true", "FALSE", "1", "0", "", "untrue", "True or False")
    yield from (frame.format(word) for frame, word in product(frames, words))
