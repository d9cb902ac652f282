"""Accuracy against a swept number, as small SVG drawings without scripts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import log

from looktwice.eval.records.records import PointRow
from looktwice.eval.scoring.labels import contestant_changes, contestant_label, factor_value, task_changes, task_label
from looktwice.eval.scoring.row import Row
from looktwice.eval.scoring.verdict import PointScores, RunScores

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 340, 52, 230, 16, 46
SHAPES = ("circle", "square", "triangle", "diamond")
DASHES = ("", "7 4", "2 4", "9 3 2 3")
MAX_LINES = 8  # as many as the palette has colours


@dataclass(frozen=True)
class Line:
    """One contestant: (x, accuracy, low, high) by rising x."""

    label: str
    points: tuple[tuple[float, float, float, float], ...]


@dataclass(frozen=True)
class Curve:
    """A chart: the swept setting (`factor`), the task, a line for each contestant, and the chance level."""

    factor: str
    task: str
    lines: tuple[Line, ...]
    chance: float | None = None
    left_out: int = 0

    @property
    def svg(self) -> str:
        """The chart as SVG with CSS classes `k0` to `k7`, so that a style sheet decides the colours."""
        place = _Axes(sorted({x for line in self.lines for x, *_ in line.points}))
        drawn = "".join(_line(line, number, place) for number, line in enumerate(self.lines))
        label = f"accuracy against {self.factor} on {self.task}"
        return (
            f'<svg class="curve" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">'
            f"{place.frame(self.factor)}{self._level(place)}{drawn}{self._legend(place)}</svg>"
        )

    def _level(self, place: _Axes) -> str:
        if self.chance is None:
            return ""
        y, right = place.y(self.chance), WIDTH - RIGHT
        text = f'<text class="tick" text-anchor="end" x="{right}" y="{y - 4:.1f}">chance</text>'
        return f'<path class="level" d="M{LEFT} {y:.1f}H{right}"/>{text}'

    def _legend(self, place: _Axes) -> str:
        """Labels at the right, in the order in which the lines end, each with its colour, dash and marker."""
        order = sorted(enumerate(self.lines), key=lambda pair: -pair[1].points[-1][1])
        rows = []
        for row, (number, line) in enumerate(order):
            x, y = WIDTH - RIGHT + 16, TOP + 14 + 20 * row
            dash = DASHES[number // 4 % 4]
            key = f'<path class="line k{number}" stroke-dasharray="{dash}" d="M{x} {y - 4}h26"/>'
            rows.append(
                f"{key}{_sign(number, x + 13, y - 4)}<text x='{x + 34}' y='{y}'>{escape(_short(line.label))}</text>"
            )
        return "".join(rows)


@dataclass(frozen=True)
class _Axes:
    """Positions of values in the chart; x is logarithmic if the values span a factor of thirty or more."""

    xs: list[float]

    def x(self, value: float) -> float:
        first, last = self.xs[0], self.xs[-1]
        if self.logarithmic:
            first, last, value = log(first), log(last), log(value)
        return LEFT + 14 + (WIDTH - LEFT - RIGHT - 28) * (value - first) / ((last - first) or 1.0)

    @property
    def logarithmic(self) -> bool:
        return self.xs[0] > 0 and self.xs[-1] / self.xs[0] >= 30

    def y(self, share: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - share)

    def frame(self, factor: str) -> str:
        right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
        lines = [f'<path class="grid" d="M{LEFT} {self.y(s):.1f}H{right}"/>' for s in (0, 0.25, 0.5, 0.75, 1)]
        ys = [
            f'<text class="tick" text-anchor="end" x="{LEFT - 8}" y="{self.y(s) + 4:.1f}">{100 * s:.0f}</text>'
            for s in (0, 0.25, 0.5, 0.75, 1)
        ]
        xs = [
            f'<text class="tick" text-anchor="middle" x="{self.x(v):.1f}" y="{bottom + 18}">{v:g}</text>'
            for v in self._ticks()
        ]
        middle = (LEFT + right) / 2
        scale = " (logarithmic)" if self.logarithmic else ""
        names = (
            f'<text text-anchor="middle" x="{middle}" y="{HEIGHT - 8}">{escape(factor)}{scale}</text>'
            f'<text text-anchor="middle" transform="translate(14 {(TOP + bottom) / 2}) rotate(-90)">accuracy %</text>'
        )
        return "".join((*lines, *ys, *xs, names))

    def _ticks(self) -> list[float]:
        """The measured values, without those whose labels would overlap their neighbour's."""
        kept: list[float] = []
        for value in self.xs:
            if not kept or self.x(value) - self.x(kept[-1]) >= 26:
                kept.append(value)
        return kept


def curves(runs: Sequence[RunScores], rows: Sequence[Row]) -> list[Curve]:
    """A chart for every setting that was swept over two numbers or more, for each task that it affects."""
    accuracy_rows = {
        (row.run, row.point): row for row in rows if row.metric == "accuracy" and not row.slice and row.point
    }
    chance = {row.task: row.value for row in rows if row.contestant == "chance (level)" and not row.slice}
    drawn: list[Curve] = []
    for run in runs:
        points = [(scores, accuracy_rows[run.name, scores.point.id]) for scores in run.points]
        for place in dict.fromkeys(place for scores in run.points for place in scores.point.changes):
            drawn += _sweeps(place, points, chance)
    return drawn


def _sweeps(place: str, points: Sequence[tuple[PointScores, Row]], chance: dict[str, float | None]) -> Iterator[Curve]:
    lines: dict[str, dict[str, dict[float, Row]]] = defaultdict(lambda: defaultdict(dict))
    for scores, row in points:
        point = scores.point
        value = factor_value(point, place)
        if value is not None and row.value is not None and _concerns(place, point):
            edition = scores.contestant.removeprefix(contestant_label(point))
            lines[task_label(point, place)][contestant_label(point, place) + edition][value] = row
    for task, by_contestant in lines.items():
        curve_lines = [
            _make_line(label, row_by_level) for label, row_by_level in by_contestant.items() if len(row_by_level) > 1
        ]
        if curve_lines:
            levels = {chance.get(row.task) for row_by_level in by_contestant.values() for row in row_by_level.values()}
            level = levels.pop() if len(levels) == 1 else None
            name = place.removeprefix("stages.").removeprefix(f"tasks.{task}.").removeprefix("task.")
            yield Curve(name, task, tuple(curve_lines[:MAX_LINES]), level, max(0, len(curve_lines) - MAX_LINES))


def _concerns(place: str, point: PointRow) -> bool:
    """Whether the place is one of this point's, and not the same setting of another task or stage."""
    if place.startswith(("task.", "tasks.")):
        return place in task_changes(point) or place.split(".")[1] == point.task or place.startswith("task.")
    return place in contestant_changes(point) or place.startswith("stages.")


def _make_line(label: str, row_by_level: dict[float, Row]) -> Line:
    points = [(x, row.value or 0.0, row.low or 0.0, row.high or 0.0) for x, row in sorted(row_by_level.items())]
    return Line(label, tuple(points))


def _line(line: Line, number: int, place: _Axes) -> str:
    spots = [(place.x(x), place.y(value)) for x, value, _, _ in line.points]
    bars = "".join(
        f'<path class="bar k{number}" d="M{place.x(x):.1f} {place.y(low):.1f}V{place.y(high):.1f}"/>'
        for x, _, low, high in line.points
    )
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in spots)
    dash = DASHES[number // 4 % 4]
    signs = "".join(_sign(number, x, y) for x, y in spots)
    return f'{bars}<path class="line k{number}" stroke-dasharray="{dash}" d="M{path}"/>{signs}'


def _sign(number: int, x: float, y: float) -> str:
    """The marker of a line, for readers who cannot tell the colours apart."""
    shape, r = SHAPES[number % 4], 4.0
    if shape == "circle":
        return f'<circle class="sign k{number}" cx="{x:.1f}" cy="{y:.1f}" r="{r}"/>'
    paths = {
        "square": f"M{x - r:.1f} {y - r:.1f}h{2 * r}v{2 * r}h{-2 * r}z",
        "triangle": f"M{x:.1f} {y - 1.3 * r:.1f}l{1.3 * r} {2.3 * r}h{-2.6 * r}z",
        "diamond": f"M{x:.1f} {y - 1.4 * r:.1f}l{1.4 * r} {1.4 * r}l{-1.4 * r} {1.4 * r}l{-1.4 * r} {-1.4 * r}z",
    }
    return f'<path class="sign k{number}" d="{paths[shape]}"/>'


def _short(label: str, length: int = 26) -> str:
    return label if len(label) <= length else label[: length - 1] + "…"
