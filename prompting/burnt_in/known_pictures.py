"""Marks of known pictures, from a file beside them, for questions that bring their pictures
alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from looktwice.pipelines.geometry import Affine, rectangle
from looktwice.pipelines.marks import Mark
from looktwice.pipelines.model import Model
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.ranges import check_ranges
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State, WithoutModel
from looktwice.pipelines.transforms import resample
from looktwice.prompting.evidence import Missing, handle_missing
from looktwice.prompting.question_lines import read_lines, sample_of

SIDE = 32  # pixels of a thumbnail
MOST_BITS = 10  # of 64 that may differ; what is compared more closely
SHAPE = 0.03  # by what the ratio of width to height may differ, relatively
CLEARER = 0.7  # the likeness of the nearest picture is at most this share of the next one's


class Likeness(NamedTuple):
    """How a picture looks, whatever its size and its codec."""

    thumbnail: Pixels  # SIDE x SIDE x 3
    bits: NDArray[np.bool_]  # 64: where 8 rows of 9 grey values rise (dHash)
    shape: NDArray[np.float64]  # the logarithm of width / height

    @classmethod
    def of(cls, picture: Picture) -> Likeness:
        """Raises PictureError."""
        small = resample(np.asarray(picture.small(8 * SIDE).convert("RGB")), SIDE, SIDE)
        grey = cv2.cvtColor(small, cv2.COLOR_RGB2GRAY).astype(np.float32)
        row = cv2.resize(grey, (9, 8), interpolation=cv2.INTER_AREA)
        width, height = picture.size
        return cls(small, (row[:, 1:] > row[:, :-1]).ravel(), np.log(np.divide(width, height)))


class Match(NamedTuple):
    """A picture of the file: its line, its number in it, and how far a picture is from it."""

    line: Sample
    image: int
    bits: int
    difference: float

    @property
    def marks(self) -> list[Mark]:
        """The marks of this picture, in its pixels."""
        return [mark for mark in self.line.marks if mark.image == self.image]


@dataclass(frozen=True)
class MarksFrom(WithoutModel):
    """Gives the images of a sample the marks that a file holds for pictures that look alike: other
    programs encode and resize pictures anew, and send no marks.

    `path` is a file of JSON lines such as `eval.tasks.Folder` reads: `image` or `images` (paths
    relative to the file) and `marks` in their pixels, which are scaled to the sample's images. Two
    pictures are alike if their shapes are, if at most 10 of the 64 bits of their difference hashes
    differ, and if their thumbnails of 32 x 32 pixels differ by at most `most` on average, of 255.
    The nearest one counts. Where another is nearly as near and has other marks, those lines count
    whose `question` stands in the words; what is still ambiguous gets no marks. Images that have
    marks keep them.

    Which line it was and how near is noted in the record. `missing` says what is done where an
    image is like none: "keep" it with a note, "fail" the sample, or "abstain". `sha` is the hash of
    the file and its pictures, as in `prompting.turns.FewShot`. Raises ValueError.
    """

    path: Path
    most: float = 3.5
    missing: Missing = "keep"
    sha: str = ""

    def __post_init__(self) -> None:
        check_ranges(self, "most > 0")
        digest = hashlib.sha256(json.dumps([line.sha for line in self.lines]).encode()).hexdigest()
        if self.sha and self.sha != digest[:16]:
            raise ValueError(
                f"{self.path} or its images have changed: sha is {digest[:16]}, and {self.sha} was"
                " expected"
            )
        object.__setattr__(self, "sha", digest[:16])

    @cached_property
    def lines(self) -> tuple[Sample, ...]:
        """What each line says of its pictures. Raises ValueError that names the line."""
        return read_lines(self.path, _parse_line)

    @cached_property
    def _known(self) -> tuple[list[tuple[Sample, int]], Likeness]:
        """Every picture of the file, as its line and its number, and all likenesses in one."""
        places = [(line, number) for line in self.lines for number, _ in enumerate(line.images)]
        looks = [Likeness.of(line.images[number]) for line, number in places]
        thumbnails, bits, shapes = zip(*looks, strict=True)
        return places, Likeness(np.array(thumbnails), np.array(bits), np.array(shapes))

    def __call__(self, state: State, model: Model) -> State:
        """The state whose sample has these marks too."""
        sample, notes, lacking = state.sample, list[str](), list[str]()
        marks = list(sample.marks)
        for number, image in enumerate(sample.images):
            if sample.on(number):
                continue
            matches = self._nearest(image, state.prompt)
            if len(matches) != 1:
                lines = " and ".join(match.line.id for match in matches)
                fits = f"like {lines}, whose marks differ" if lines else "like no picture"
                lacking.append(f"image {number + 1} is {fits} of {Path(self.path).name}")
                continue
            match = matches[0]
            marks += _fit(match, image, number)
            notes.append(
                f"image {number + 1} has the marks of {match.line.id} of {Path(self.path).name}:"
                f" {match.bits} of 64 bits differ, thumbnails by {match.difference:.1f}"
            )
        state = state.replace(sample=replace(sample, marks=tuple(marks))).with_notes(*notes)
        return handle_missing(state, self.missing, lacking) if lacking else state

    def _nearest(self, image: Picture, words: str) -> list[Match]:
        """One picture where it is clear which one is meant, none where all are too far, or those
        between which it is not clear."""
        places, known = self._known
        look = Likeness.of(image)
        bits = (known.bits != look.bits).sum(1)
        alike = np.flatnonzero((bits <= MOST_BITS) & (abs(known.shape - look.shape) <= SHAPE))
        matches = []
        for place in alike.tolist():
            apart = cv2.absdiff(known.thumbnail[place], look.thumbnail)
            matches.append(Match(*places[place], int(bits[place]), float(apart.mean())))
        matches.sort(key=lambda match: match.difference)
        if not matches or matches[0].difference > self.most:
            return []
        near = [m for m in matches if CLEARER * m.difference <= matches[0].difference]
        asked = [m for m in near if m.line.question and m.line.question in words]
        distinct: dict[str, Match] = {}
        for match in asked or near:
            plain = [mark.to_dict() | {"image": 0} for mark in match.marks]
            distinct.setdefault(json.dumps(plain), match)
        return [*distinct.values()]


def _fit(match: Match, image: Picture, number: int) -> Sequence[Mark]:
    """The marks of a known picture in the pixels of one that is like it."""
    (width, height), (old_width, old_height) = image.size, match.line.images[match.image].size
    scale, frame = Affine.resize(width / old_width, height / old_height), image.size
    moved = [mark.transform(scale, rectangle(0, 0, *frame)) for mark in match.marks]
    return [replace(mark, image=number) for mark in moved if mark is not None]


def _parse_line(row: Any, path: Path, number: int) -> Sample:
    if not isinstance(row, Mapping) or not (row.get("image") or row.get("images")):
        raise ValueError("expected an object with image or images, and marks")
    return sample_of(row, path, f"line {number}")
