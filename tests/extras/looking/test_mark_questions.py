"""Questions about the mark itself: correct for every marker, and a model blind to one colour."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from looktwice.eval import evaluate
from looktwice.eval.tasks import Facts, TaskError
from looktwice.eval.tasks.base import Task
from looktwice.extras.looking import MarkQuestions
from looktwice.extras.toolkits import BlinkPaperStyle, BlinkReleasedStyle
from looktwice.pipelines import Pipeline
from looktwice.pipelines.marks import Box, Mark, Mask, Point
from looktwice.pipelines.model import Messages
from looktwice.pipelines.models import Scripted
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.sample import Item, Sample
from looktwice.pipelines.state import Stage
from looktwice.prompting import Ask, MultipleChoice
from looktwice.prompting.markers import (
    Arrows,
    Circles,
    Contours,
    Cover,
    Crosshairs,
    Dots,
    Polygons,
    Rectangles,
    Tint,
)
from tests.optional import extension

turns = extension("looking.turns")

GREY = {"light": 170, "dark": 80}


@dataclass(frozen=True)
class Halves:
    """A task of pictures with one light half and a mark in one half; it asks whether the mark lies
    on light or dark ground."""

    n: int = 24
    kind: str = "point"

    @property
    def facts(self) -> Facts:
        return Facts("made", "by hand")

    def __len__(self) -> int:
        return self.n

    def __iter__(self) -> Iterator[Item]:
        for number in range(self.n):
            right, answer = number % 2, ("light", "dark")[number // 2 % 2]
            pixels = np.full((240, 320, 3), GREY["dark"], np.uint8)
            side = slice(160, 320) if right == (answer == "light") else slice(0, 160)
            pixels[:, side] = GREY["light"]
            x, y = 80.0 + 160 * right, 60.0 + 10 * (number % 13)
            mark: Mark = Point("A", x, y)
            if self.kind == "box":
                mark = Box("A", x - 20, y - 20, x + 20, y + 20)
            elif self.kind == "mask":
                region = np.zeros((240, 320), bool)
                region[int(y) - 20 : int(y) + 20, int(x) - 20 : int(x) + 20] = True
                mark = Mask("A", region)
            images = (Picture(pixels, "made"),)
            question = "What is the ground under the mark?"
            yield Item(
                Sample(f"h{number}", question, images, ("light", "dark"), (mark,)),
                "AB"[("light", "dark").index(answer)],
            )


def draw_item(item: Item) -> Pixels:
    (image,) = item.sample.images
    return image.pixels


# ---- correct answers


MARKERS: list[tuple[Any, str, str, str]] = [
    (Circles(color="magenta"), "point", "a ring", "magenta"),
    (Dots(color="lime"), "point", "a dot", "green"),
    (Crosshairs(color="#0000f0"), "point", "a cross", "blue"),
    (Arrows(color="white"), "point", "an arrow", "white"),
    (Polygons(color="orange"), "point", "a polygon", "orange"),
    (Rectangles(color="yellow"), "box", "a rectangle", "yellow"),
    (Contours(color="black"), "mask", "an outline", "black"),
    (BlinkPaperStyle(), "point", "a ring", "red"),
    (BlinkReleasedStyle(), "point", "a ring", "red"),
]


@pytest.mark.parametrize(
    ("marker", "kind", "shape", "color"), MARKERS, ids=[type(row[0]).__name__ for row in MARKERS]
)
def test_shape_and_color_match_what_the_marker_draws(
    marker: Stage, kind: str, shape: str, color: str
) -> None:
    for aspect, answer in (("shape", shape), ("color", color)):
        items = list(MarkQuestions(Halves(12, kind), marker, aspect))  # type: ignore[arg-type]
        assert [item.truth["answer"] for item in items] == [answer] * 12
        for item in items:
            assert item.answer and item.sample.choices["ABCD".index(item.answer)] == answer
            assert len({*item.sample.choices}) == 4 and not item.sample.marks
        assert Counter(item.answer for item in items) == dict.fromkeys("ABCD", 3)


def test_a_color_chosen_by_the_marker_is_that_of_its_pixels() -> None:
    for item, before in zip(
        MarkQuestions(Halves(), Dots(color="black-or-white"), "color"), Halves(), strict=True
    ):
        assert item.truth["answer"] == ("white" if before.answer == "B" else "black")


def test_present_where_and_label_questions_match_what_is_drawn() -> None:
    plain = list(Halves())
    there = list(MarkQuestions(Halves(), Dots(), "present"))
    assert Counter(item.answer for item in there) == {"A": 12, "B": 12}
    for item, before in zip(there, plain, strict=True):
        assert bool((draw_item(item) != draw_item(before)).any()) == (item.answer == "A")
        assert item.sample.meta == {"aspect": "present", "of": before.sample.id}
    for item, before in zip(MarkQuestions(Halves(), Dots(label=None), "where"), plain, strict=True):
        down, across = np.argwhere((draw_item(item) != draw_item(before)).any(axis=2)).mean(axis=0)
        place = f"{'top' if down < 120 else 'bottom'} {'left' if across < 160 else 'right'}"
        assert item.truth["answer"] == place
    letters = list(MarkQuestions(Halves(), Dots(), "label"))
    assert Counter(item.truth["answer"] for item in letters) == dict.fromkeys("KMPRTXYZ", 3)
    assert len({draw_item(item).tobytes() for item in letters}) == 24


@pytest.mark.parametrize("kind", ["point", "box"])
def test_the_number_of_drawn_marks_is_the_correct_answer(kind: str) -> None:
    marker: Any = Dots(label=None) if kind == "point" else Tint(label=None, alpha=1)
    plain, counts = list(Halves(kind=kind)), Counter[int]()
    for item, before in zip(MarkQuestions(Halves(kind=kind), marker, "count"), plain, strict=True):
        differs = (draw_item(item) != draw_item(before)).any(axis=2).astype(np.uint8)
        assert str(cv2.connectedComponents(differs)[0] - 1) == item.truth["answer"]
        counts[int(item.truth["answer"])] += 1
    assert counts == dict.fromkeys((1, 2, 3, 4), 6)


@pytest.mark.parametrize(
    ("marker", "kind", "aspect", "said"),
    [
        (Cover(), "box", "shape", "is unknown; use one of Circles"),
        (Rectangles(), "point", "where", "Rectangles draws nothing on sample h0"),
        (Contours(), "mask", "count", "only points and boxes can be counted"),
        (Dots(label=None), "point", "label", "Dots draws no label beside this mark"),
        (Dots(), "point", "size", "aspect must be one of present, where"),
    ],
)
def test_unsupported_questions_are_refused(marker: Any, kind: str, aspect: Any, said: str) -> None:
    with pytest.raises(TaskError, match=said):
        list(MarkQuestions(Halves(kind=kind), marker, aspect))


# ---- a model that is blind to magenta

COLORS = {"red": (255, 0, 0), "magenta": (255, 0, 255), "blue": (0, 0, 255)}


def watch_but_magenta(messages: Messages) -> str:
    """Recognizes marks of pure colours except magenta, and their ground; otherwise takes the first
    choice."""
    (view,), text = messages[-1].views, messages[-1].text
    choices = {line[4:]: line[1] for line in text.splitlines() if line.startswith("(")}
    for name, color in COLORS.items():
        places = np.argwhere((view.pixels == color).all(axis=2))
        if len(places) and name != "magenta":
            down, across = places.mean(axis=0)
            ground = view.pixels[int(down), 4 if across < 160 else 315, 0]
            light = "light" if ground == GREY["light"] else "dark"
            return f"({choices.get(light) or choices.get(name) or choices['yes']})"
    return f"({choices.get('no') or 'A'})"


def test_the_scenes_of_a_task_are_generated_once_to_count_its_questions() -> None:
    class Drawn(Halves):
        def __iter__(self) -> Iterator[Item]:
            passes.append(1)
            return super().__iter__()

    passes, halves = list[int](), Drawn(4)
    assert len(MarkQuestions(halves, Circles(), "present")) == 4
    assert len(MarkQuestions(halves, Circles(), "where")) == 4
    assert passes == [1]


@pytest.mark.slow
def test_a_model_blind_to_magenta_is_detected(tmp_path: Path) -> None:
    halves = Halves(48)
    for color, share in (("red", 1.0), ("magenta", 0.0)):
        marker = Circles(color=color, label=None)
        tasks: dict[str, Task] = {"halves": halves}
        tasks["there"] = MarkQuestions(halves, marker, "present")
        tasks["color"] = MarkQuestions(halves, marker, "color")
        pipeline = Pipeline({"mark": marker, "choose": MultipleChoice(), "ask": Ask()})
        model = Scripted(watch_but_magenta)
        scored = evaluate(tasks, {"watch": pipeline}, model, out=tmp_path / color)
        rows = scored.where(contestant="watch", metric="accuracy").rows
        assert not any("found nothing" in note for note in scored.unchanged)  # the task draws it
        accuracy = {row.task: row.value for row in rows}
        assert (accuracy["there"], accuracy["halves"]) == (0.5 + share / 2, 0.5 + share / 2)
        lines = {line.asked: line for line in turns.find_seen_marks(scored.scores[0])}
        assert [*lines] == ["present", "color", "all of these"]
        assert {line.task for line in lines.values()} == {"halves"}
        present, both = lines["present"], lines["all of these"]
        assert (present.seen_share.value, present.seen_share.n) == (
            share,
            24,
        )  # the others have no mark
        # color alone is guessed in a quarter of the cases
        assert both.seen_share.value == 1 if share else 0 < both.seen_share.value <= 1 / 6
        assert present.unseen_error_share == (None if share else 1.0)
        assert (
            both.unseen_error_share is None if share else 0.7 < (both.unseen_error_share or 0) < 1
        )
        given = both.accuracy_if_seen if share else both.accuracy_if_unseen
        assert given and given.value == 1 if share else given and given.value <= 0.6
