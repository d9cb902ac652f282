"""Matrix puzzles whose last picture follows from a rule, each with a question of perception and one
of reasoning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import product, repeat
from typing import Any

import numpy as np

from looktwice.eval.tasks.base import Facts, Fields, Subset
from looktwice.eval.tasks.photographs import deal_evenly, make_rng
from looktwice.eval.tasks.swept import (
    Control,
    IntegerControl,
    KindAndControls,
    SceneParameters,
    SweptTask,
)
from looktwice.extras.do_you_see_me.subtasks import ROLES, JointScorer
from looktwice.extras.drawings.matrices import RULES, SPOKE_COUNT, solve_matrix
from looktwice.extras.scenes.canvas import SQUARE, make_blank, stroke_outline, write_text
from looktwice.extras.scenes.scene import find_valid_try
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.sample import Item, Sample

REASONING_QUESTION = (
    "The pictures of each row follow one rule, the same in all three rows. Which picture stands in"
    " the place of the question mark?"
)
PERCEPTION_QUESTION = "How many lines does the picture in row {}, column {} of the matrix have?"
OPTION_NAMES = tuple(f"picture {letter}" for letter in "ABCD")
PANEL_GAP = 0.25  # between two panels, as a share of a panel
SPOKE_RANGE = (0.2, 0.85)  # the start and end of spokes, as shares of half a panel
CONTROLS = (
    Control("rule", tuple(RULES)),
    IntegerControl("size", (24, 48, 96), 20, 240),
    IntegerControl("moved", (1, 2), 1, 2),
)


@dataclass(frozen=True)
class Puzzle:
    """A matrix puzzle: nine pictures and four options, as bits that stand for spokes
    (`extras.drawings.matrices`), the rule's name, and the index of the right option."""

    pictures: tuple[int, ...]
    options: tuple[int, ...]
    rule: str
    right_index: int

    def paint(self, size: int) -> Pixels:
        """Draw the matrix with panels of `size` pixels, and the lettered options below it."""
        pitch = size * (1 + PANEL_GAP)
        pixels = make_blank(
            round(4 * pitch + PANEL_GAP * size), round(4.6 * pitch + PANEL_GAP * size)
        )
        left = PANEL_GAP * size
        corners = [(left + n % 3 * pitch, left + n // 3 * pitch) for n in range(9)]
        corners += [(left + n * pitch, left + 3.3 * pitch) for n in range(4)]
        for bits, corner in zip((*self.pictures[:8], 0, *self.options), corners, strict=True):
            stroke_outline(pixels, SQUARE * size + corner, max(1.5, size / 40))
            middle = np.array(corner) + size / 2
            for number in range(SPOKE_COUNT):
                if bits >> number & 1:
                    angle = 2 * np.pi * number / SPOKE_COUNT
                    way = np.array([np.sin(angle), -np.cos(angle)]) * size / 2
                    ends = middle + np.array(SPOKE_RANGE)[:, None] * way
                    stroke_outline(pixels, ends, max(2, size / 16), closed=False)
        x, y = corners[8]
        write_text(pixels, "?", x + size / 2, y + 0.7 * size, 0.6 * size)
        for letter, (x, y) in zip("ABCD", corners[9:], strict=True):
            write_text(pixels, letter, x + size / 2, y + 1.4 * size, max(11.0, 0.3 * size))
        return pixels


@cache
def find_rows(kind: str, name: str) -> list[tuple[int, int, int]]:
    """Return all rows of three pictures that follow a rule, and whose last picture is not empty and
    differs from the others."""
    rule, rows = RULES[kind][name], list[tuple[int, int, int]]()
    for first, second in product(range(1, 2**SPOKE_COUNT), repeat=2):
        third = rule(first, second)
        if third and third not in (first, second):
            rows.append((first, second, third))
    return rows


def draw_puzzle(params: SceneParameters, right: int) -> Puzzle | None:
    """Draw a random puzzle with the level's rule and exactly one solution; None if this try fails.

    The options are the four combinations of two changes, each of which moves lines, so that all
    have the same number of lines and each resembles the others equally.
    """
    kind = params.levels["rule"]
    name = params.pick(tuple(RULES[kind]))
    fitting = find_rows(kind, name)
    if not fitting:  # with two half turns, the third picture equals the first
        return None
    rows = [params.pick(fitting) for _ in range(3)]
    pictures = tuple(bits for row in rows for bits in row)
    spokes, moved = params.shuffled(range(SPOKE_COUNT)), params.levels["moved"]
    drawn = [1 << n for n in spokes if pictures[8] >> n & 1]
    free = [1 << n for n in spokes if not pictures[8] >> n & 1]
    if min(len(drawn), len(free)) < 2 * moved:
        return None
    first = sum(drawn[:moved] + free[:moved])
    second = sum(drawn[moved : 2 * moved] + free[moved : 2 * moved])
    base = first * (right % 2) ^ second * (right // 2)
    flips = [base ^ flip for flip in (0, first, second, first ^ second)]
    options = tuple(pictures[8] ^ flip for flip in flips)
    alone = solve_matrix(pictures[:8], options) == [right]
    return Puzzle(pictures, options, name, right) if alone else None


@dataclass(frozen=True)
class Puzzles(SweptTask):
    """`n` puzzles (matrices of three by three pictures) with two questions each: `<id>/perception`
    asks how many lines a picture has, `<id>/reasoning` which of four options completes the matrix.

    Pictures are spokes in eight directions. Rules apply along rows: rotation by some eighths,
    progression (each line gains or loses neighbours), overlay (either, both, not both, first
    alone). `controls`: the `rule`; `size`, a panel's side in pixels (small panels are hard to see);
    `moved`, the number of lines that two of the wrong options have in other places than the right
    one (the third wrong option has twice as many such lines). Every combination occurs equally
    often, and the positions of right choices are balanced. Each puzzle has exactly one solution
    under all rules. The scores are those of the joint form (Do You See Me, 5.2.1): both accuracies,
    both together, and how often perception is wrong if reasoning is right. The `subset` may choose
    by `image`, `role` and levels. Question `i` depends only on `controls`, `seed` and `i`. Raises
    TaskError.
    """

    n: int = 54
    seed: int = 0
    controls: Mapping[str, Any] = field(default_factory=dict)
    subset: Subset = Subset()

    @property
    def facts(self) -> Facts:
        """The origin of the truth, and the joint scorer of both questions."""
        return Facts("made", "by construction", note="generated images", scorer=JointScorer())

    @property
    def _kind_and_controls(self) -> KindAndControls:
        return "puzzle", CONTROLS

    def make_puzzle(self, number: int) -> Puzzle:
        """Make puzzle `number`; repeated calls return the same puzzle."""
        plan = self._plan(number)
        rng = make_rng("puzzle", self.seed, number, *map(str, plan.values()))
        right = deal_evenly(number, range(4), "right", self.seed)
        params = SceneParameters(rng, plan, lambda cards: cards[0])
        return find_valid_try(map(draw_puzzle, repeat(params), repeat(right)), "puzzle", plan)

    @cached_property
    def _selected_numbers(self) -> Sequence[int]:
        rows = [(self._id(number), self._get_known_fields(number)) for number in range(2 * self.n)]
        return self.subset.choose(rows)

    def _id(self, number: int) -> str:
        return f"{super()._id(number // 2)}/{ROLES[number % 2]}"

    def _get_known_fields(self, number: int) -> Fields:
        image, role = self._id(number).split("/")
        return {"image": image, "role": role, **self._plan(number // 2)}

    def _item(self, number: int) -> Item:
        puzzle, meta = self.make_puzzle(number // 2), dict(self._get_known_fields(number))
        question, choices, right = REASONING_QUESTION, OPTION_NAMES, puzzle.right_index
        if meta["role"] == "perception":
            rng = make_rng("perception", self.seed, number)
            place = int(rng.integers(8))
            count = puzzle.pictures[place].bit_count()
            right = min(deal_evenly(number // 2, range(4), "count", self.seed), count)
            question = PERCEPTION_QUESTION.format(place // 3 + 1, place % 3 + 1)
            choices = tuple(str(count - right + n) for n in range(4))
        picture = Picture(puzzle.paint(meta["size"]), meta["image"])
        sample = Sample(self._id(number), question, (picture,), choices, (), meta)
        truth = {"pictures": list(puzzle.pictures), "options": list(puzzle.options)}
        return Item(sample, "ABCD"[right], {**truth, "rule": puzzle.rule})
