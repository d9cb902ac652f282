"""Sentences about the results of specialists: the label, the position and a measured property of
each region."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations

import numpy as np

from looktwice.pipelines.marks import Mark, Mask, Point, bounding_box
from looktwice.pipelines.model import Model
from looktwice.pipelines.ranges import Ranged
from looktwice.pipelines.state import State
from looktwice.prompting.evidence import MissingAction, handle_missing
from looktwice.prompting.where.places import Where, WithSource
from looktwice.prompting.where.sources import OnMarks
from looktwice.prompting.wording.instructions import Text, Wording, add_lines, get_text, read_texts
from looktwice.specialists.protocols import DepthEstimator, ImageSimilarity, Matcher
from looktwice.specialists.results import DepthMap, Floats
from looktwice.specialists.rules import NoEvidence
from looktwice.specialists.sharing import look_once

Evidence = tuple[Mark, str]
"""A region, and the description of its measured property."""


@dataclass(frozen=True, kw_only=True)
class RegionWords(Ranged, WithSource):
    """Lists the regions that any source of `prompting.where` finds, one per line: its label, its
    position in percent of the view's width and height, and its share of the image.

    The label is the recognized text if the detector reads text, and the object's name if it finds
    objects. `lead` is the line before them. The first `most` regions of an image are listed.
    Numbers are rounded to whole percent, so that the same scene always gives the same text. If no
    view shows a region, or no region has a description, `missing` decides what happens. After
    Perception Programs (arXiv 2604.12896), which use the order what, where, how.
    """

    where: Where = field(default_factory=OnMarks)
    lead: Text = "What a vision model sees in the image, in percent of its width and height:"
    most: int = 12
    missing: MissingAction = "keep"

    ranges = ("most >= 1",)

    def __post_init__(self) -> None:
        super().__post_init__()
        read_texts(self)

    def describe_regions(self, state: State, marks: Sequence[Mark]) -> list[Evidence]:
        """Return the description of each region, in the order of their lines. Raises NoEvidence."""
        evidence = list[Evidence]()
        for mark in marks:
            width, height = state.sample.images[mark.image].size
            x0, y0, x1, y1 = bounding_box(mark)
            area = float(mark.pixels.sum()) if isinstance(mark, Mask) else (x1 - x0) * (y1 - y0)
            share = _round_percent(area / (width * height))
            evidence.append((mark, "" if isinstance(mark, Point) else f"{share} % of the image"))
        return evidence

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with these lines below the prompt; its views stay unchanged."""
        places = self.where.places(state, model)
        state = state.with_notes(*places.notes)
        marks = [*chain.from_iterable(m[: self.most] for m in places.regions.values())]
        reasons, evidence = [*places.reasons.values()], list[Evidence]()
        try:
            evidence = self.describe_regions(state, marks)
        except NoEvidence as exc:
            reasons.append(str(exc))
        lines = [line for mark, how in evidence for line in self._format_lines(state, mark, how)]
        if not lines:
            why = reasons or [f"no {places.region_phrase} is seen"]
            return handle_missing(state, self.missing, why)
        return add_lines(state, get_text(self.lead), *lines)

    def _format_lines(self, state: State, mark: Mark, how: str) -> list[str]:
        lines = []
        for number, view in enumerate(state.views, 1):
            for place in view.to_view(mark)[:1]:
                name = place.label or "a region"
                of = f" of image {number}" if len(state.views) > 1 else ""
                parts = f"{name}{of}", _describe_place(place, view.size), how
                lines.append(", ".join(filter(None, parts)))
        return lines


@dataclass(frozen=True, kw_only=True)
class DepthWords(RegionWords):
    """Lists how near the regions are to the camera, the nearest first: the rank, and the nearness
    from 0 (the farthest 2 % of the image) to 100 (the nearest 2 %).

    The nearness of a point is the median over `window` x `window` pixels. `invert` reverses the
    values, as a control that must lose as much accuracy as the true values gain.
    """

    depth: DepthEstimator
    lead: Text = "How near places are to the camera, the nearest first, as a vision model sees it:"
    window: int = 9
    invert: bool = False

    ranges = ("window >= 1",)

    def describe_regions(self, state: State, marks: Sequence[Mark]) -> list[Evidence]:
        """Return rank and nearness of each region. Raises NoEvidence."""
        evidence = list[Evidence]()
        for number in dict.fromkeys(mark.image for mark in marks):
            pictures = [image.pixels for image in state.sample.images[number:]]
            depth: DepthMap = look_once(self.depth, *pictures)
            low, high = np.nanpercentile(depth.nearness, [2, 98])
            levels = dict[Mark, int]()
            for mark in marks:
                values = self._get_values(depth, mark) if mark.image == number else ()
                if len(values):
                    share = (float(np.median(values)) - low) / max(high - low, 1e-12)
                    level = _round_percent(float(np.clip(share, 0, 1)))
                    levels[mark] = 100 - level if self.invert else level
            ranked = sorted(levels, key=lambda mark: -levels[mark])
            for mark in ranked:
                rank = 1 + sum(level > levels[mark] for level in levels.values())
                how = f"rank {rank} of {len(levels)} from the camera, nearness {levels[mark]}"
                evidence.append((mark, how))
        return evidence

    def _get_values(self, depth: DepthMap, mark: Mark) -> Floats:
        if isinstance(mark, Point):
            return depth.get_values_around(mark.x, mark.y, self.window)
        x0, y0, x1, y1 = (round(edge) for edge in bounding_box(mark))
        patch = depth.nearness[max(0, y0) : y1, max(0, x0) : x1]
        inside = depth.nearness[mark.pixels] if isinstance(mark, Mask) else patch
        return inside[~np.isnan(inside)]


@dataclass(frozen=True, kw_only=True)
class MatchWords(RegionWords):
    """Lists the position at which each mark of one picture appears in another picture, and the
    other picture's mark that is nearest to this position.

    `images` are the numbers of the two pictures, from 0. A mark is shifted by the median shift of
    the `nearest` matched points around it.
    """

    matcher: Matcher
    lead: Text = "Where places of one image lie in the other, as matched points tell:"
    images: tuple[int, int] = (0, 1)
    nearest: int = 5

    ranges = ("nearest >= 1",)

    def describe_regions(self, state: State, marks: Sequence[Mark]) -> list[Evidence]:
        """Return the position of each region of the first picture in the second. Raises
        NoEvidence."""
        first, second = (state.sample.images[number] for number in self.images)
        matches = look_once(self.matcher, first.pixels, second.pixels)
        if len(matches) < self.nearest:
            raise NoEvidence(f"{len(matches)} matches, at least {self.nearest} are needed")
        evidence, (here, there) = list[Evidence](), self.images
        for mark in filter(lambda mark: mark.image == here, marks):
            near = np.argsort(np.linalg.norm(matches.xy0 - mark.center, axis=1), kind="stable")
            moved = (matches.xy1 - matches.xy0)[near[: self.nearest]]
            x, y = (np.median(moved, axis=0) + mark.center).tolist()
            how = f"in image {there + 1} {_describe_place(Point('', x, y), second.size)}"
            away = {
                target.label: float(np.hypot(*np.subtract(target.center, (x, y)))) / second.size[0]
                for target in marks
                if target.image == there
            }
            if away:
                label = min(away, key=lambda name: away[name])
                how += f", nearest to {label} ({_round_percent(away[label])} % of the width away)"
            evidence.append((mark, how))
        return evidence


@dataclass(frozen=True)
class SimilarityWords(Wording):
    """Lists how similar the sample's pictures are, pair by pair, the most similar first.

    `lead` is the line before them. Exceptions of `similarity` are passed on.
    """

    similarity: ImageSimilarity
    lead: Text = "How similar the images are, the most similar first, as a vision model sees it:"

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with a line for each pair below the prompt."""
        images, alike = state.sample.images, dict[str, float]()
        for first, second in combinations(range(len(images)), 2):
            value = look_once(self.similarity, images[first].pixels, images[second].pixels)
            alike[f"image {first + 1} and image {second + 1}"] = round(value, 2)
        ranked = sorted(alike, key=lambda pair: -alike[pair])
        lines = [f"{pair}: similarity {alike[pair]:.2f}" for pair in ranked]
        return add_lines(state, get_text(self.lead), *lines) if lines else state


def _round_percent(share: float) -> int:
    """Return a share in whole percent; values that differ only in their last bits are rounded to
    the same number."""
    return round(round(100 * share, 6))


def _describe_place(place: Mark, size: tuple[int, int]) -> str:
    """Describe the position of a mark in a picture of this (width, height)."""
    if isinstance(place, Point):
        across, down = ((at + 0.5) / side for at, side in zip(place.center, size, strict=True))
        return f"{_round_percent(across)} % from the left and {_round_percent(down)} % from the top"
    x0, y0, x1, y1 = bounding_box(place)
    left, right = _round_percent(x0 / size[0]), _round_percent(x1 / size[0])
    top, bottom = _round_percent(y0 / size[1]), _round_percent(y1 / size[1])
    return f"from {left} to {right} % across and {top} to {bottom} % down"
