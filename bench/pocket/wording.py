"""Many wordings of every question and many formats of its choices, so that the network learns to
read them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from numpy.random import Generator

from looktwice.eval.tasks.marked_scenes.kinds import Question

WORDINGS: dict[str, tuple[str, ...]] = {
    r"What shape is the marked thing\?": (
        "What is the shape of the marked thing?",
        "Which shape does the marked object have?",
        "Name the shape of the marked object.",
        "What shape is the thing with the mark on it?",
        "The marked thing has which shape?",
        "What kind of shape is marked in the image?",
    ),
    r"What color is the marked thing\?": (
        "What is the color of the marked thing?",
        "Which color does the marked object have?",
        "Name the color of the marked object.",
        "The marked thing has which color?",
        "What color is marked in the image?",
    ),
    r"Which letter or digit is on the marked tile\?": (
        "Read the symbol on the marked tile.",
        "What is written on the marked tile?",
        "Which symbol does the marked tile show?",
        "What letter or digit does the marked object show?",
    ),
    r"Which of the two marked things is larger, A or B\?": (
        "Which marked thing is bigger, A or B?",
        "Is A larger, or B, or are both of the same size?",
        "Of the objects marked A and B, which is larger?",
    ),
    r"Which of the two marked things is higher up in the image, A or B\?": (
        "Which marked thing is higher, A or B?",
        "Is A higher up in the picture, or B, or neither?",
        "Of the objects marked A and B, which lies higher?",
    ),
    r"How many (.+) are in the image\?": (
        r"Count the \1 in the picture.",
        r"What is the number of \1 in the image?",
        r"How many \1 can you see?",
        r"How many \1 does the image show?",
    ),
    r"Divide the image into three rows and three columns. Where is the (.+)\?": (
        r"In a grid of three rows and three columns, in which cell is the \1?",
        r"The image has three rows and three columns. Which cell has the \1 in it?",
    ),
    r"Which of these is in the image\?": (
        "Which of these things can you see in the picture?",
        "Which one of the following is shown?",
        "Only one of these is in the image. Which?",
    ),
    r"Where is the (.+)\? Give .*": (
        r"Find the \1. Reply with x, y in percent.",
        r"Give the position of the \1 as x and y in percent.",
        r"Locate the middle of the \1, as (x, y) in percent of width and height.",
    ),
}
STYLES = ("({})", "{}.", "{})", "{}:", "[{}]", "{}")
INSTRUCTIONS = (
    "Answer with the letter of one choice: {letters}.",
    "Answer with the letter of one choice: {letters}.",
    "Answer with the letter.",
    "Choose one option.",
    "Reply with one letter only.",
    "Select the right answer.",
    "",
)
BEFORE = ("", "", "", "", "Look at the image.", "Look closely at the picture.", "Question:")


def reword(rng: Generator, text: str) -> str:
    """Return the question unchanged, or in another wording."""
    if rng.random() < 0.45:
        return text
    for pattern, wordings in WORDINGS.items():
        if re.fullmatch(pattern, text):
            return re.sub(f"^{pattern}$", str(rng.choice(list(wordings))), text)
    return text


def write_prompt(rng: Generator, question: Question, with_choices: bool) -> tuple[str, str]:
    """Return the whole prompt and its reply, with lettered choices if the question has some and
    they are requested."""
    before = str(rng.choice(list(BEFORE)))
    text = f"{before} {reword(rng, question.text)}".strip()
    if edges := [float(edge) for edge in re.findall(r"\d+\.\d", question.answer)]:
        return text, f"{round((edges[0] + edges[2]) / 2)}, {round((edges[1] + edges[3]) / 2)}"
    if not (question.choices and with_choices):
        return text, question.answer
    style, letters = str(rng.choice(list(STYLES))), "ABCDEF"[: len(question.choices)]
    labels = [style.format(letter) for letter in letters]
    lines = [f"{label} {choice}" for label, choice in zip(labels, question.choices, strict=True)]
    instruction = str(rng.choice(list(INSTRUCTIONS))).replace("{letters}", _list(labels))
    head = [text, "Choices:"] if rng.random() < 0.2 else [text]
    return "\n".join([*head, *lines, *([instruction] if instruction else [])]), question.key


def _list(labels: Sequence[str]) -> str:
    return f"{', '.join(labels[:-1])} or {labels[-1]}"
