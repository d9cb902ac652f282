"""The line that shows where a run stands, on a terminal of 80 columns."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from looktwice.eval.display.progress import Display, Spent

MANY = Spent(12_345_678, 1_234_567, 123.456)


@pytest.mark.parametrize("width", range(56, 120, 4))
def test_on_a_terminal_it_is_one_line(width: int) -> None:
    screen = io.StringIO()
    display = Display(
        Console(file=screen, width=width, force_terminal=True, legacy_windows=False),
        24_000,
        lambda: MANY,
    )
    with display:
        for number in range(2000):
            display.add(("right", "wrong", "unreadable", "failed")[number % 4])
    shown = screen.getvalue()
    assert "\x1b[1A" not in shown, "it goes up a line, so there was more than one"
    lines = [re.sub(r"\x1b\[[\d;?]*\w", "", line) for line in re.split(r"[\r\n]+", shown)]
    assert max(map(len, lines)) <= width
    assert re.search(r"━━━━ +2000/24000 .* [\d:]+ left$", lines[-2]), (
        "neither the bar nor the time is cut off"
    )
    if width == 80:
        assert re.search(
            r" 2000/24000  r500 w500 u500 f500  cost 123.46  [\d.]+/s  [\d:]+ left$", lines[-2]
        )


@pytest.mark.parametrize(
    ("width", "said"),
    [
        (200, "2/3 | right 1 failed 1 | tokens 12.3M in 1.2M out | cost 123.46 | "),
        (75, "2/3  right 1 failed 1  12.3M+1.2M tok  cost 123.46  0.0/s  0:"),
        (60, "2/3  r1 f1  12.3M+1.2M tok  cost 123.46  0.0/s  0:"),
        (45, "2/3  r1 f1  cost 123.46  0.0/s  0:"),
        (24, "2/3  r1 f1  0:"),
        (5, "2/3  "),
    ],
)
def test_what_is_less_urgent_is_shortened_first(width: int, said: str) -> None:
    display = Display(Console(quiet=True), 3, lambda: MANY)
    display.started -= 100
    for verdict in ("right", "failed"):
        display.add(verdict)
    assert display.words(width).startswith(said) and len(display.words(width)) <= width


def test_without_prices_no_cost_is_said_and_without_tokens_none() -> None:
    assert "cost" not in Display(Console(quiet=True), 3, lambda: Spent(10, 2)).words()
    assert "tok" not in Display(Console(quiet=True), 3, lambda: Spent(0, 0)).words()
