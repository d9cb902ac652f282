"""Reads markers that are burnt into the pixels, such as those of the official BLINK images, and
adds them as marks."""

from __future__ import annotations

import itertools
import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from looktwice.extras.burnt_in.drawn import FoundShape, Kind, find_drawn_shapes
from looktwice.extras.burnt_in.label_ocr import ReadLabel, read_labels
from looktwice.extras.burnt_in.pairing import (
    Marker,
    MarkerScene,
    find_clipped_markers,
    find_markers,
)
from looktwice.extras.burnt_in.rings import Map
from looktwice.pipelines.geometry import PixelRect, Rect
from looktwice.pipelines.marks import Box, Mark, Point
from looktwice.pipelines.model import Model
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State, WithoutModel
from looktwice.prompting.drawing.colors import parse_rgb
from looktwice.prompting.evidence import MissingAction

MIN_LINE_CLOSENESS = 0.25  # minimum closeness to the colour of a pixel in a line
# margin by which a line is closer to the colour than its background, which may be similar
MIN_CLOSENESS_LEAD = 0.15
MIN_RECTANGLE_SIDE = 16  # minimum side in pixels
MAX_LINE_THICKNESS = 8  # maximum thickness of a line in pixels
MIN_SIDE_SHARE = (
    0.8  # minimum visible share of each side; labels and other boxes may cover the rest
)
CORNER_OVERSHOOT = 8  # pixels past a corner into which lines must not continue
MAX_LINES = 16  # lines per direction to follow up


@dataclass(frozen=True)
class FoundRectangle:
    """A rectangle whose edges, in edge coordinates, run along the middle of lines `stroke` pixels
    thick."""

    x0: float
    y0: float
    x1: float
    y1: float
    stroke: float
    color: str
    score: float

    @property
    def edges(self) -> Rect:
        """The edges: left, top, right, bottom."""
        return self.x0, self.y0, self.x1, self.y1


@dataclass(frozen=True, eq=False)
class Line:
    """A thin straight line across the picture: its middle, its thickness, and the pixels along it
    at which the colour is visible."""

    middle: float
    thickness: float
    visible_pixels: NDArray[np.bool_]


def find_rectangles(closeness: Map, color: str) -> list[FoundRectangle]:
    """Return the most complete rectangle in a map of closeness HxW; empty if there is none."""
    ground = cv2.morphologyEx(
        closeness,
        cv2.MORPH_OPEN,
        np.ones((MAX_LINE_THICKNESS + 1, MAX_LINE_THICKNESS + 1), np.uint8),
    )
    thin = ((closeness >= MIN_LINE_CLOSENESS) & (closeness - ground >= MIN_CLOSENESS_LEAD)).astype(
        np.uint8
    )
    level, upright = _find_lines(thin), _find_lines(np.ascontiguousarray(thin.T))
    pairs = itertools.product(itertools.combinations(level, 2), itertools.combinations(upright, 2))
    outlines = [outline for pair in pairs if (outline := _build_rectangle(*pair, color))]
    return sorted(outlines, key=lambda outline: -outline.score)[:1]


def _find_lines(mask: NDArray[np.uint8]) -> list[Line]:
    """Return the horizontal lines of a mask, from top to bottom: at most `MAX_LINES`, the
    longest."""
    closed = cv2.morphologyEx(mask, cv2.MORPH_CLOSE, np.ones((1, 5), np.uint8))
    runs = cv2.morphologyEx(closed, cv2.MORPH_OPEN, np.ones((1, MIN_RECTANGLE_SIDE), np.uint8))
    count = runs.sum(1, dtype=int)
    lines: list[tuple[int, Line]] = []
    steps = np.diff(count >= MIN_RECTANGLE_SIDE, prepend=False, append=False)
    for start, stop in np.flatnonzero(steps).reshape(-1, 2).tolist():  # runs of rows
        longest = int(count[start:stop].max())
        strong = start + np.flatnonzero(count[start:stop] >= 0.5 * longest)
        first, last = int(strong[0]), int(strong[-1])
        if last - first < MAX_LINE_THICKNESS:
            seen = closed[max(0, first - 1) : last + 2].max(0).astype(bool)
            lines.append((longest, Line((first + last) / 2, last - first + 1.0, seen)))
    lines = sorted(lines, key=lambda pair: -pair[0])[:MAX_LINES]
    return sorted((line for _, line in lines), key=lambda line: line.middle)


def _build_rectangle(
    level: tuple[Line, Line], upright: tuple[Line, Line], color: str
) -> FoundRectangle | None:
    """Return the rectangle that four lines form, or None if a side is incomplete or runs on past a
    corner."""
    (y0, y1), (x0, x1) = ([line.middle for line in pair] for pair in (level, upright))
    if min(x1 - x0, y1 - y0) < MIN_RECTANGLE_SIDE:
        return None
    stroke = float(np.median([line.thickness for line in (*level, *upright)]))
    over, whole = round(stroke / 2) + 2, []
    for line, start, stop in zip(
        (*level, *upright), (x0, x0, y0, y0), (x1, x1, y1, y1), strict=True
    ):
        whole.append(float(line.visible_pixels[round(start) : round(stop) + 1].mean()))
        before, after = max(0, round(start - over)), round(stop + over) + 1
        for part in (
            line.visible_pixels[max(0, before - CORNER_OVERSHOOT) : before],
            line.visible_pixels[after:][:CORNER_OVERSHOOT],
        ):
            if part.sum() >= CORNER_OVERSHOOT - 1 and len(part) == CORNER_OVERSHOOT:
                return None
    if min(whole) < MIN_SIDE_SHARE:
        return None
    edges = x0 + 0.5, y0 + 0.5, x1 + 0.5, y1 + 0.5
    return FoundRectangle(*edges, stroke, color, float(np.mean(whole)))


LABEL_WORD_PATTERN = re.compile(r"(?<![\w'])(?:[A-H]|REF)(?![\w'])")
LABEL_CLAUSE_PATTERN = re.compile(r"label?led (?:by|with|as)\b([^.?\n]*)")
RecoveredMark = tuple[Mark, dict[str, Any]]
"""A mark, and the appearance of its marker for the record."""
UNPAIRED_COST = 1e9  # cost of pairing a box with a label that is not next to it
PLAIN_COLORS = (
    *("red", "lime", "green", "blue", "yellow", "cyan", "magenta", "orange"),
    *("white", "black"),
)
"""The colours in which shapes are commonly drawn."""
MAX_LABEL_DISTANCE = 2  # maximum distance between a box and its label, in steps of 8 pixels


@dataclass(frozen=True)
class RecoverMarks(WithoutModel):
    """Adds the markers that are visible in a sample's images as marks: rings become points, drawn
    boxes become boxes.

    It finds labelled markers of two `kinds`: "rings" are circles in one of `colors` with a white
    label on a black plate beside them, "boxes" are upright rectangles in `box_colors`; a box whose
    label cannot be read is labelled with its colour. `radii` are the smallest and the largest
    radius of these circles, to the middle of the stroke, in pixels. If no image has any of them,
    `unlabelled` names the kinds that are searched for without a label and at any size: "rings" and
    "dots" become points at their centres, "arrows" points at their tips, "boxes" boxes. Such a
    shape must be drawn in exactly one of `plain_colors` (white and black for rings and boxes only)
    and measure 1 to 70 percent of the diagonal. It gets the label that is read beside it. A single
    shape without a label gets the only label that is missing; any other shape is named after its
    colour ("red", "red 2"). `unlabelled: []` requires labels.

    `letters` are the expected labels, each once in all images; null takes the labels that the
    choices name, and REF if the prompt names it. The rings of one image share a style, which also
    helps to find a ring that hardly stands out, and a ring whose label is cut off at the edge.
    Marks that the sample already has are dropped; `given: keep` keeps those whose label is not
    found in the pixels, such as those of a client that sends no rings. Views stay unchanged, and
    the appearance of each marker is stored in `meta["burnt_in"]` for EraseMarks.

    If labels are missing, `on_missing` decides: "keep" what was found with a note in the record,
    "fail" (ValueError), or "abstain" with the reason. Invalid settings raise ValueError when the
    stage is built.
    """

    kinds: tuple[Literal["rings", "boxes"], ...] = ("rings",)
    colors: tuple[str, ...] = ("red", "white")
    box_colors: tuple[str, ...] = ("red", "lime")
    radii: tuple[float, float] = (4.0, 17.0)
    unlabelled: tuple[Kind, ...] = ("rings", "boxes", "dots", "arrows")
    plain_colors: tuple[str, ...] = PLAIN_COLORS
    letters: tuple[str, ...] | None = None
    on_missing: MissingAction = "keep"
    given: Literal["drop", "keep"] = "drop"

    version: ClassVar[int] = 2

    def __post_init__(self) -> None:
        for name in ("kinds", "colors", "box_colors", "plain_colors"):
            if not getattr(self, name):
                raise ValueError(f"{name} is empty; give at least one value")
        for color in (*self.colors, *self.box_colors, *self.plain_colors):
            parse_rgb(color)
        if not 2 <= self.radii[0] < self.radii[1]:
            raise ValueError(
                "radii must be the smallest radius (2 or more) and the largest in pixels, got"
                f" {list(self.radii)}"
            )
        if self.letters is not None:
            wrong = [word for word in self.letters if not re.fullmatch("[A-Z]+", word)]
            if wrong or not self.letters or len(set(self.letters)) < len(self.letters):
                raise ValueError(
                    "letters must be distinct words in capitals, such as A or REF, got"
                    f" {list(self.letters)}"
                )

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with the marks that were read. Raises PictureError, and ValueError if
        `on_missing` is "fail"."""
        sample = state.sample
        words = self.letters if self.letters is not None else find_label_words(sample)
        markers: list[RecoveredMark] = []
        if "rings" in self.kinds and words:
            markers += self._find_rings(sample, words)
        if "boxes" in self.kinds:
            markers += self._find_boxes(sample, words)
        if self.unlabelled and not markers:
            markers += self._find_plain_shapes(sample, words)
        markers.sort(key=lambda pair: (pair[0].image, pair[0].label not in words, pair[0].label))
        marks = tuple(mark for mark, _ in markers)
        if self.given == "keep":
            read = {mark.label for mark in marks}
            marks += tuple(mark for mark in sample.marks if mark.label not in read)
        meta = {**sample.meta, "burnt_in": [look for _, look in markers]}
        state = state.replace(sample=replace(sample, marks=marks, meta=meta))
        if bare := [mark.label for mark, _ in markers if mark.label not in words]:
            state = state.with_notes(f"shapes without a label: {', '.join(bare)}")
        missing = _list_missing_words(words, [mark.label for mark in marks])
        if not missing and (words or markers):
            return state
        if words:
            reason = f"no marker {', '.join(missing)} was found"
        elif self.unlabelled:
            reason = "no marker was found, and the choices name no labels to look for"
        else:
            reason = "the choices name no labels; set `letters`"
        if self.on_missing == "fail":
            raise ValueError(f"sample {sample.id}: {reason}")
        return state.abstain(reason) if self.on_missing == "abstain" else state.with_notes(reason)

    def _find_rings(self, sample: Sample, words: Sequence[str]) -> Iterator[RecoveredMark]:
        """Yield the point of each word that was found, with the appearance of its ring."""
        scenes = [
            MarkerScene.from_pixels(image.pixels, self.colors, self.radii)
            for image in sample.images
        ]
        best: dict[str, tuple[int, Marker]] = {}

        def keep_best(image: int, markers: Sequence[Marker]) -> None:
            for marker in markers:
                if marker.label not in best or best[marker.label][1].ring.score < marker.ring.score:
                    best[marker.label] = image, marker

        for number, scene in enumerate(scenes):
            keep_best(number, find_markers(scene, words))
        if best:
            style = max((marker.ring for _, marker in best.values()), key=lambda ring: ring.score)
            for number in {*range(len(scenes))} - {image for image, _ in best.values()}:
                rest = _list_missing_words(words, best)
                keep_best(number, find_markers(scenes[number], rest, style))
        for number, scene in enumerate(scenes):
            own = [marker for image, marker in best.values() if image == number]
            like = [marker for image, marker in best.values() if image != number]
            if rest := _list_missing_words(words, best):
                keep_best(number, find_clipped_markers(scene, rest, own, self.colors[0], like))
        for image, marker in best.values():
            # clamped to the image, even if half of the ring lies outside
            ring, (width, height) = marker.ring, sample.images[image].size
            x, y = min(max(0.0, ring.x), width - 1.0), min(max(0.0, ring.y), height - 1.0)
            point = Point(marker.label, x, y, image)
            look = {"radius": ring.radius, "stroke": ring.stroke, "color": ring.color}
            plate = list(marker.plate) if marker.plate else None
            more = {"plate": plate, "score": round(ring.score, 3)}
            yield point, {"kind": "ring", **point.to_dict(), **look, **more}

    def _find_boxes(self, sample: Sample, words: Sequence[str]) -> Iterator[RecoveredMark]:
        """Yield the rectangles of each image, one of each colour, with their labels and appearance.
        A rectangle without a label beside it gets the only label that is left, if there is one."""
        for number, image in enumerate(sample.images):
            scene = MarkerScene.from_pixels(image.pixels, self.box_colors, self.radii)
            outlines = [
                box
                for color, closeness in scene.closeness.items()
                for box in find_rectangles(closeness, color)
            ]
            read = read_labels(scene.gray, words) if outlines else []
            beside = _match_labels(outlines, read)
            rest = _list_missing_words(words, [label.text for label in beside.values()])
            last = rest[0] if len(rest) == 1 and len(outlines) == len(words) else ""
            for place, outline in enumerate(outlines):
                label = beside.get(place)
                text = label.text if label else last or outline.color
                box = Box(text, *outline.edges, number)
                look = {"stroke": outline.stroke, "color": outline.color}
                plate = list(label.plate) if label else None
                yield box, {"kind": "box", **box.to_dict(), **look, "plate": plate}

    def _find_plain_shapes(self, sample: Sample, words: Sequence[str]) -> Iterator[RecoveredMark]:
        """Yield the shapes of all images that were drawn in one plain colour, with their
        appearance."""
        found = list[tuple[int, FoundShape, ReadLabel | None]]()
        for number, image in enumerate(sample.images):
            shapes = find_drawn_shapes(image.pixels, self.plain_colors, self.unlabelled)
            if not shapes:
                continue
            gray = np.asarray(cv2.cvtColor(image.pixels, cv2.COLOR_RGB2GRAY), np.uint8)
            read = read_labels(gray, words)
            shapes = [  # a label's plate is a black box, and its O a ring
                shape
                for shape in shapes
                if not any(_lies_in_plate(shape.area, label.plate) for label in read)
            ]
            outlines = [FoundRectangle(*shape.area, 1, shape.color, 1) for shape in shapes]
            beside = _match_labels(outlines, read)
            found += [(number, shape, beside.get(at)) for at, shape in enumerate(shapes)]
        rest = _list_missing_words(words, [label.text for *_, label in found if label])
        last, given = (rest if len(rest) == len(found) == 1 else []), set[str]()
        for number, shape, label in found:
            text, count = label.text if label else (last or [shape.color])[0], 1
            while text in given:
                count += 1
                text = f"{shape.color} {count}"
            given.add(text)
            mark = shape.to_mark(text, number)
            plate = list(label.plate) if label else None
            yield mark, {**mark.to_dict(), **shape.appearance, "plate": plate}


def find_label_words(sample: Sample) -> tuple[str, ...]:
    """Return the labels that a question names, in order: those of its choices, or of a clause in
    the prompt, and REF.

    Choices such as "A is closer" and "Point A" name labels; so does "labeled by A and B" in the
    prompt.
    """
    prompt = f"{sample.question}\n{sample.meta.get('prompt', '')}"
    texts = [choice for choice in sample.choices if isinstance(choice, str)]
    named = LABEL_WORD_PATTERN.findall("\n".join(texts)) or LABEL_WORD_PATTERN.findall(
        "\n".join(LABEL_CLAUSE_PATTERN.findall(prompt))
    )
    reference = ["REF"] if "REF" in LABEL_WORD_PATTERN.findall(prompt) else []
    return tuple(dict.fromkeys([*reference, *named]))


def _lies_in_plate(area: PixelRect, plate: PixelRect) -> bool:
    """Return whether the middle of an area lies in a plate that is not much smaller than the
    area."""
    x, y = (area[0] + area[2]) / 2, (area[1] + area[3]) / 2
    inside = plate[0] <= x <= plate[2] and plate[1] <= y <= plate[3]
    return inside and area[2] - area[0] <= 1.5 * (plate[2] - plate[0])


def _list_missing_words(words: Sequence[str], markers: Container[str]) -> list[str]:
    return [word for word in words if word not in markers]


def _match_labels(
    outlines: Sequence[FoundRectangle], read: Sequence[ReadLabel]
) -> dict[int, ReadLabel]:
    """Return, for each rectangle by its index, the label beside its outline; each word is used
    once.

    All labels are assigned together, so that as many rectangles as possible get one and distances
    are smallest. A label beside two outlines therefore goes to the one that has no other label.
    """
    from scipy.optimize import linear_sum_assignment

    cost = np.full((len(outlines), len(read)), UNPAIRED_COST)
    for place, column in np.ndindex(cost.shape):
        distance, corner = _measure_label_distance(outlines[place], read[column])
        if distance <= MAX_LABEL_DISTANCE:
            cost[place, column] = distance * 10_000 + corner
    pairs = np.transpose(linear_sum_assignment(cost)).tolist()
    given: dict[str, tuple[int, ReadLabel]] = {}
    for place, column in sorted(pairs, key=lambda pair: cost[tuple(pair)]):
        if cost[place, column] < UNPAIRED_COST:
            given.setdefault(read[column].text, (place, read[column]))
    return dict(given.values())


def _measure_label_distance(outline: FoundRectangle, label: ReadLabel) -> tuple[float, float]:
    """Return the distance from a label's plate to the outline, in steps of 8 pixels, and the
    distance from the plate's middle to the nearest corner, in pixels."""
    (x, y), (left, top, right, bottom) = label.center, label.plate
    across = max(outline.x0 - x, x - outline.x1)
    down = max(outline.y0 - y, y - outline.y1)
    outside = float(np.hypot(max(across, 0), max(down, 0)))
    half = min(right - left, bottom - top) / 2
    aside = min(abs(outline.x0 - x), abs(outline.x1 - x))
    level = min(abs(outline.y0 - y), abs(outline.y1 - y))
    distance = max(0.0, (outside or -max(across, down)) - half)
    return distance // 8, float(np.hypot(aside, level))
