"""What a grid on the views means, and how to work with it, in the prompt; and how its cells are
named."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import ClassVar, Literal, Protocol

from looktwice.pipelines.model import Model
from looktwice.pipelines.state import State
from looktwice.pipelines.view import View
from looktwice.prompting.wording.instructions import Text, Wording, add_lines, fill_in

_COORDINATES = re.compile(r"[(\[]\s*(\d{1,4}(?:\s*,\s*\d{1,4}){1,2})\s*[)\]]")
GUIDES = {
    "none": (),
    "steps": (
        "Work in four steps and write down each of them.",
        "1. Understand: say what the question wants to know and what form its answer has.",
        (
            "2. Perceive: for every thing that the question or its choices speak of, give {where},"
            " in every image."
        ),
        "3. Connect: {connect}",
        "4. Conclude: decide by what you found in the steps before.",
    ),
    "guidelines": (
        "Keep to these rules.",
        "1. Before you speak of a thing, give {where}.",
        "2. Tell from these how things lie to one another.",
        "3. Search the image region by region along the grid, so that nothing small is missed.",
        "4. Draw your conclusion only from what you found in this way.",
    ),
}
FINALS = {
    "none": "",
    "steps": (
        'End with a line of its own that begins with "MY_ANSWER:" and then gives nothing but the'
        " answer."
    ),
    "guidelines": "End with your answer in double square brackets, as in [[ANSWER]].",
}
CONNECT = {
    False: "relate these places to one another, and say what follows for the question.",
    True: (
        "compare what lies at the same places in the images: what is the same, what changed, moved"
        " or is gone."
    ),
}


class Grid(Protocol):
    """A stage that draws a grid and can say what it means; `where` is what it gives of a thing, in
    words."""

    where: ClassVar[str]

    def gridded_views(self, views: tuple[View, ...], /) -> Sequence[View]:
        """Those of the views it gave that have the grid."""
        ...

    def describe(self, count: int, /) -> str:
        """What the grid means, where so many images have it."""
        ...


@dataclass(frozen=True)
class GridWords(Wording):
    """Says below the question what the grid on the views means, and how to use it. Stands behind
    the grid's stage.

    `grid` is that stage, best by reference, so that both always agree: `grid: ${stages.grid}`;
    where it is null, as in a sweep without the grid, nothing is said. `guide` "steps" adds the four
    steps of VLM2-Bench's VP-grid (understand, perceive, connect, conclude), "guidelines" the four
    rules of Scaffold (Lei et al. 2024), in our words. `header` is a line before these. `final` is
    the last line, which says how the answer is to be given; null takes the guide's own (a line
    "MY_ANSWER: ..." and "[[...]]"), "" none. `text` replaces all of them by your own words,
    `{file: NAME}` by those of a file; `{rows}`, `{columns}` and `{images}` in it become the grid's
    numbers, and that of the images.
    """

    grid: Grid | None = None
    guide: Literal["none", "steps", "guidelines"] = "none"
    header: str = ""
    final: str | None = None
    text: Text = ""

    def __call__(self, state: State, model: Model) -> State:
        """The prompt with these lines below it; as it is where no view has the grid."""
        count = len(self.grid.gridded_views(state.views)) if self.grid is not None else 0
        if self.grid is None or not count:
            return state
        if self.text:
            sizes = {
                name: str(getattr(self.grid, name))
                for name in ("rows", "columns")
                if hasattr(self.grid, name)
            }
            return add_lines(state, fill_in(self.text, images=str(count), **sizes))
        filled = {"where": self.grid.where, "connect": CONNECT[count > 1]}
        guide = [line.format(**filled) for line in GUIDES[self.guide]]
        final = FINALS[self.guide] if self.final is None else self.final
        lines = [state.prompt, self.header, self.grid.describe(count), self._twice(), *guide, final]
        return state.replace(prompt="\n".join(line for line in lines if line))

    def _twice(self) -> str:
        twice = getattr(self.grid, "layout", "overlay") == "original_plus_overlay"
        return (
            "Every image is shown twice, first as it is and then with the grid; both count as one."
            if twice
            else ""
        )


def read_coordinates(reply: str) -> tuple[tuple[int, ...], ...]:
    """Every "(2,3)" or "(1, 2, 3)" of a text, in brackets of either kind, in order, each once."""
    coordinates = (
        tuple(int(number) for number in named.split(",")) for named in _COORDINATES.findall(reply)
    )
    return tuple(dict.fromkeys(coordinates))


def format_coordinates(named: Sequence[int]) -> str:
    """Coordinates as they are drawn: "(1,2,3)"."""
    return f"({','.join(str(value) for value in named)})"


def column_letters(number: int) -> str:
    """A, B ... Z, AA, AB ... for 0, 1 ..., as spreadsheets name their columns."""
    text, number = "", number + 1
    while number:
        number, last = divmod(number - 1, 26)
        text = ascii_uppercase[last] + text
    return text
