"""Generated puzzles: one solution each by independently written rules, no conspicuous option, and
planted models that only see, only reason, or only guess."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from looktwice.eval import evaluate
from looktwice.extras.do_you_see_me.subtasks import ROLES
from looktwice.extras.drawings import FigureAnalogy, MatrixSolver
from looktwice.extras.drawings.matrices import read_panels, solve_matrix
from looktwice.extras.scenes import Puzzles
from looktwice.pipelines.model import Model
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Item, Sample
from looktwice.pipelines.state import Stage, State, WithoutModel
from looktwice.specialists.answers import Chance, Guess
from tests.paths import DOCS

N = 54
Spokes = frozenset[int]


@cache
def items() -> tuple[Item, ...]:
    return tuple(Puzzles(n=N))


def spokes(bits: int) -> Spokes:
    return frozenset(n for n in range(8) if bits >> n & 1)


def shift(picture: Spokes, steps: int) -> Spokes:
    return frozenset((n + steps) % 8 for n in picture)


def spread_twice(a: Spokes, b: Spokes, times: int) -> Spokes | None:
    def once(picture: Spokes) -> Spokes:
        moved = shift(picture, 1)
        return picture | moved if times > 0 else picture & moved

    for _ in range(abs(times)):
        a = once(a)
    if a != b:
        return None
    for _ in range(abs(times)):
        b = once(b)
    return b


def list_last_panels(a: Spokes, b: Spokes) -> dict[str, Spokes | None]:
    """Return the third picture of a row by every rule."""
    turned = {f"turn by {n}": shift(b, n) if shift(a, n) == b else None for n in range(1, 8)}
    spread = {f"spread by {n}": spread_twice(a, b, n) for n in (1, 2, -1, -2)}
    overlay = {"either": a | b, "both": a & b, "not both": a ^ b, "first alone": a - b}
    return {**turned, **spread, **overlay}


def test_exhaustive_search_finds_one_solution_of_every_puzzle() -> None:
    task, used = Puzzles(n=900), set()
    for puzzle in map(task.make_puzzle, range(900)):
        rows = np.reshape([spokes(bits) for bits in puzzle.pictures], (3, 3)).tolist()
        rules = [list_last_panels(first, second) for first, second, _ in rows]
        holding = [n for n in rules[0] if rules[0][n] == rows[0][2] and rules[1][n] == rows[1][2]]
        options = [spokes(bits) for bits in puzzle.options]
        followed = {rules[2][name] for name in holding}
        assert [n for n, option in enumerate(options) if option in followed] == [puzzle.right_index]
        assert puzzle.rule in holding and rules[2][puzzle.rule] == options[puzzle.right_index]
        used.add(puzzle.rule)
    assert used >= {"turn by 1", "spread by -1", "either", "not both", "both", "first alone"}


def test_options_allowed_by_two_rules_are_both_reported() -> None:
    pictures = [1, 2, 3, 4, 8, 12, 6, 12]  # "or" and "xor": the first two rows do not decide
    assert solve_matrix(pictures, [1, 14, 10, 6]) == [1, 2]
    assert solve_matrix(pictures, [1, 4, 10, 6]) == [2]


@pytest.mark.slow
def test_panels_are_parsed_correctly_at_every_size() -> None:
    for item in items()[1::2]:
        wanted = [*item.truth["pictures"][:8], 0, *item.truth["options"]]
        bits = read_panels(item.sample.images[0].pixels)
        assert bits[:8] + bits[9:] == wanted[:8] + wanted[9:]


@pytest.mark.slow
@pytest.mark.parametrize("role", ROLES)
def test_the_solver_is_always_correct(role: str) -> None:
    asked = [item for item in items() if item.sample.meta["role"] == role]
    states = [MatrixSolver()(State.start(item.sample), NoModel()) for item in asked]
    assert [state.answer for state in states] == [item.answer for item in asked]
    assert len(asked) == N and {item.answer for item in asked} == {*"ABCD"}


def test_no_option_stands_out_by_similarity_to_the_others() -> None:
    for item in items()[1::2]:
        options, moved = item.truth["options"], item.sample.meta["moved"]
        assert len({option.bit_count() for option in options}) == 1
        for option in options:
            apart = sorted((option ^ rival).bit_count() for rival in options)
            assert apart == [0, 2 * moved, 2 * moved, 4 * moved]


def test_a_picture_without_panels_is_skipped() -> None:
    blank = Sample("a", "", (Picture(np.full((90, 90, 3), 255, np.uint8)),), ("w", "x", "y", "z"))
    state = MatrixSolver()(State.start(blank), NoModel())
    assert state.answer is None and "panels" in state.reason


def page(figures: Sequence[Pixels], columns: int) -> Sample:
    """Draw figures of 40 pixels row by row, and the last four in their own row, each above a small
    letter."""
    pixels = np.full((400, 400, 3), 255, np.uint8)
    given = len(figures) - 4
    for number, figure in enumerate(figures):
        row, column = divmod(number, columns) if number < given else (5, number - given)
        pixels[60 * row + 10 :][:40, 60 * column + 10 :][:, :40] = figure
        if number >= given:
            pixels[60 * row + 58 :][:6, 60 * column + 27 :][:, :6] = 0
    return Sample("page", "Which comes next?", (Picture(pixels),), tuple("wxyz"))


def flag(*parts: int) -> Pixels:
    """Return a cross whose named arms, clockwise from the top, are filled."""
    pixels = np.full((40, 40, 3), 255, np.uint8)
    pixels[18:22, :] = pixels[:, 18:22] = 0
    corners = ((0, 0), (0, 22), (22, 22), (22, 0))
    for part in parts:
        top, left = corners[part]
        pixels[top + 4 :][:10, left + 4 :][:, :10] = 0
    return pixels


TURNED = [flag(0), flag(1), flag(2)]
OVERLAID = [flag(0), flag(1), flag(0, 1), flag(2), flag(1), flag(1, 2), flag(0), flag(3)]


@pytest.mark.parametrize(
    ("given", "columns", "options", "answer"),
    [
        (TURNED, 3, [flag(1), flag(0, 2), flag(3), flag(0)], "C"),
        ([*TURNED, flag(3), flag(0)], 5, [flag(3), flag(1), flag(2), flag(0, 1)], "B"),
        (OVERLAID, 3, [flag(0), flag(3), flag(1, 2), flag(0, 3)], "D"),
        ([flag(0, 1), flag(1, 2), flag(2)], 2, [flag(3), flag(0), flag(1), flag(0, 2)], "A"),
    ],
    ids=["sequence", "longer", "overlay", "as A is to B"],
)
def test_figures_of_any_kind_are_continued(
    given: list[Pixels], columns: int, options: list[Pixels], answer: str
) -> None:
    state = FigureAnalogy()(State.start(page([*given, *options], columns)), NoModel())
    assert (state.answer, state.reason) == (answer, "")


def test_analogies_of_figures_solve_puzzles_and_abstain_where_they_cannot() -> None:
    asked = [item for item in items() if item.sample.meta["role"] == "reasoning"]
    states = [FigureAnalogy()(State.start(item.sample), NoModel()) for item in asked]
    right = [state.answer == item.answer for state, item in zip(states, asked, strict=True)]
    solved = f"solves {sum(right)} of the {N} matrices"
    text = (DOCS / "specialists.md").read_text(encoding="utf-8")
    assert solved in " ".join(text.split())
    state = FigureAnalogy()(State.start(page([flag(0)] * 6, 2)), NoModel())
    assert state.answer is None and "6 figures" in state.reason
    guess = Guess(FigureAnalogy())(State.start(page([flag(0)] * 6, 2)), NoModel())
    assert guess.answer in tuple("ABCD") and guess.notes[-1].startswith(Guess.NOTE)


@dataclass(frozen=True)
class Planted(WithoutModel):
    """Either sees correctly or reasons correctly, and guesses the rest."""

    able: frozenset[str]

    def __call__(self, state: State, model: Model) -> State:
        stage: Stage = MatrixSolver() if state.sample.meta["role"] in self.able else Chance()
        return stage(state, model)


@pytest.mark.slow
def test_models_that_only_see_only_reason_or_only_guess_are_distinguished(tmp_path: Path) -> None:
    able = {
        "sees": {"perception"},
        "reasons": {"reasoning"},
        "guesses": set(),
        "both": {"perception", "reasoning"},
    }
    planted = {name: Planted(frozenset(roles)) for name, roles in able.items()}
    table = evaluate(Puzzles(n=N), planted, out=tmp_path / "run")

    def share(name: str, metric: str) -> tuple[float, float, float]:
        (row,) = table.where(contestant=name, metric=metric, slice="").rows
        return row.value or 0.0, row.low or 0.0, row.high or 0.0

    for name, roles in able.items():
        for role in ROLES:
            value, low, high = share(name, f"{role}_accuracy")
            assert value == 1 if role in roles else high < 0.5 and low < 0.25 < high
    assert share("both", "both")[0] == 1 and share("guesses", "both")[2] < 0.25
    wrong = "perception_wrong_when_reasoning_right"
    assert share("reasons", wrong)[1] > 0.5 and share("sees", wrong)[2] < 0.3
