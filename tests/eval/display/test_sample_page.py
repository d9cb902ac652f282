"""The page of one sample: what an agent requested, drawn on the image."""

from typing import Any

import numpy as np

from looktwice.eval.display.printable import make_file_names
from looktwice.eval.display.sample_page import draw_look, number_images
from looktwice.pipelines.model import Message
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.view import View
from looktwice.prompting.agent import Agent, AgentTool, Magnify, Measure, Zoom
from looktwice.prompting.agent.looks import Look
from tests.tables import table

GREY = View.of(Picture(np.full((100, 200, 3), 128, np.uint8)))
TOOLS: dict[str, AgentTool] = {"zoom": Zoom(), "magnify": Magnify(), "measure": Measure()}


def drawn(look: Look, frame: Any = "pixels") -> np.ndarray[Any, Any] | None:
    view = draw_look(look, [Agent(TOOLS, coordinates=frame)], {1: GREY})
    return None if view is None else (view.pixels != 128).any(2)


@table
def test_a_requested_box_is_drawn_in_the_frame_of_the_agent(frame: Any, box: list[float]) -> None:
    for image in (1, 0):  # 0 is the last one
        marked = drawn(Look(1, 0, "zoom", "shown", {"image": image, "box": box}), frame)
        assert marked is not None
        ys, xs = np.nonzero(marked)
        assert abs(xs.min() - 50) <= 2 and abs(xs.max() - 149) <= 2
        assert abs(ys.min() - 20) <= 2 and abs(ys.max() - 79) <= 2
        assert not marked[30:70, 60:140].any()


def test_requested_points_are_drawn() -> None:
    marked = drawn(Look(1, 0, "measure", "said", {"image": 1, "start": [40, 50], "end": [160, 50]}))
    assert marked is not None and not marked[:, 90:110].any()
    assert marked[:, :100].any() and marked[:, 100:].any()


@table
def test_nothing_is_drawn_without_a_requested_location(
    tool: str, outcome: Any, arguments: Any
) -> None:
    assert drawn(Look(1, 0, tool, outcome, arguments)) is None


def test_images_are_numbered_as_the_agent_numbers_them() -> None:
    other = View.of(Picture(np.zeros((5, 5, 3), np.uint8)))
    turns = (
        Message("user", ("Image 1 (200 x 100 pixels):", GREY, "Look.", other)),
        Message("user", ("Image 3:", other)),
    )
    assert number_images(turns) == {1: GREY, 3: other}


def test_file_names_are_safe_and_distinct() -> None:
    names = ["val_12", "a/b", "a:b", "a_b", "A_B", "nul", "con.txt", "end.", "", "tab\t"]
    names += ["r\u202eab", "x" * 300, "x" * 301, "\u00e9" * 300]
    found = make_file_names(names)
    assert list(found) == names and found["val_12"] == "val_12"
    assert len({text.casefold() for text in found.values()}) == len(names)
    for text in found.values():
        assert text and len(text.encode()) <= 140 and text[-1] not in ". "
        assert not set(text) & set('<>:"/\\|?*\t\u202e')
        assert text.partition(".")[0].casefold() not in ("nul", "con")
