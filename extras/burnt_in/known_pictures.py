"""Marks of known pictures, read from a file, for samples whose images come without marks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np

from looktwice.pipelines.geometry import Affine, rectangle
from looktwice.pipelines.marks import Mark
from looktwice.pipelines.model import Model
from looktwice.pipelines.picture import (
    Picture,
    Pixels,
    compute_perceptual_hash,
    measure_hash_distance,
)
from looktwice.pipelines.ranges import check_ranges
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State, WithoutModel
from looktwice.pipelines.transforms import resample
from looktwice.prompting.evidence import MissingAction, handle_missing
from looktwice.prompting.question_lines import fill_in_sha, parse_sample, read_lines

THUMBNAIL_SIDE = 32  # side of a thumbnail in pixels
MAX_HASH_DISTANCE = (
    12  # maximum difference of two hashes; closer pictures are compared by thumbnails
)
MAX_DIFFERENCE_RATIO = (
    0.7  # maximum ratio of the differences to the nearest and to the next picture
)


def make_thumbnail(picture: Picture) -> Pixels:
    """Return a thumbnail, THUMBNAIL_SIDE x THUMBNAIL_SIDE x 3, RGB. Raises PictureError."""
    return resample(
        np.asarray(picture.make_thumbnail(8 * THUMBNAIL_SIDE).convert("RGB")),
        THUMBNAIL_SIDE,
        THUMBNAIL_SIDE,
    )


class PictureMatch(NamedTuple):
    """A known picture that resembles an image: its line in the file, its index in that line, and
    its distances from the image: of the hashes, in bits, and of the thumbnails."""

    line: Sample
    picture_index: int
    hash_distance: int
    difference: float

    @property
    def marks(self) -> list[Mark]:
        """The marks of this picture, in its own pixel coordinates."""
        return [mark for mark in self.line.marks if mark.image == self.picture_index]


@dataclass(frozen=True)
class MarksFrom(WithoutModel):
    """Adds marks to the images of a sample that match a known picture; a file holds the pictures
    and their marks. Use it for requests of other programs, which re-encode and resize images and
    send no marks.

    `path` is a file of JSON lines such as `eval.tasks.Folder` reads: `image` or `images` (paths
    relative to the file) and `marks` in their pixels, which are scaled to the sample's images. Two
    pictures match if their perceptual hashes are close, and if their thumbnails of 32 x 32 pixels
    differ by at most `most` of 255 levels on average. The nearest one is used. If another picture
    is almost as near and has other marks, only lines whose `question` occurs in the prompt are
    considered; an image that is still ambiguous gets no marks. Images that have marks keep them.

    A note in the record names the line and its distance. `missing` decides about images that match
    no picture: "keep" the sample with a note, "fail" it, or "abstain". `sha` is the hash of the
    file and its pictures, as in `prompting.turns.FewShot`. Raises ValueError.
    """

    path: Path
    most: float = 3.5
    missing: MissingAction = "keep"
    sha: str = ""

    def __post_init__(self) -> None:
        check_ranges(self, "most > 0")
        fill_in_sha(self, [line.sha for line in self.lines])

    @cached_property
    def lines(self) -> tuple[Sample, ...]:
        """The content of each line. Raises ValueError, which names the invalid line."""
        return read_lines(self.path, _parse_line)

    @cached_property
    def _known_pictures(self) -> list[tuple[Sample, int, int, Pixels]]:
        """Every picture of the file: its line, its number, its hash and its thumbnail."""
        pictures = []
        for line in self.lines:
            for number, image in enumerate(line.images):
                pictures.append(
                    (line, number, compute_perceptual_hash(image), make_thumbnail(image))
                )
        return pictures

    def __call__(self, state: State, model: Model) -> State:
        """Return the state with the marks of known pictures added to its sample."""
        sample, notes, lacking = state.sample, list[str](), list[str]()
        marks, name = list(sample.marks), Path(self.path).name
        for number, image in enumerate(sample.images):
            if sample.list_marks_on(number):
                continue
            matches = self._find_nearest(image, state.prompt)
            if len(matches) != 1:
                lines = " and ".join(match.line.id for match in matches) or "no picture"
                differ = ", whose marks differ" if matches else ""
                lacking.append(f"image {number + 1} matches {lines} of {name}{differ}")
                continue
            match = matches[0]
            width, height = match.line.images[match.picture_index].size
            scale = Affine.resize(image.size[0] / width, image.size[1] / height)
            for mark in match.marks:
                moved = mark.transform(scale, rectangle(0, 0, *image.size))
                marks += [replace(moved, image=number)] if moved is not None else []
            notes.append(
                f"image {number + 1} has the marks of {match.line.id} of {name}:"
                f" hashes differ by {match.hash_distance}, thumbnails by {match.difference:.1f}"
            )
        state = state.replace(sample=replace(sample, marks=tuple(marks))).with_notes(*notes)
        return handle_missing(state, self.missing, lacking) if lacking else state

    def _find_nearest(self, image: Picture, prompt: str) -> list[PictureMatch]:
        """Return the one picture that matches, none if all are too far, or several if the match is
        ambiguous."""
        own_hash, small, matches = (
            compute_perceptual_hash(image),
            make_thumbnail(image),
            list[PictureMatch](),
        )
        for line, number, hashed, thumbnail in self._known_pictures:
            bits = measure_hash_distance(own_hash, hashed)
            if bits <= MAX_HASH_DISTANCE:
                difference = float(cv2.absdiff(small, thumbnail).mean())
                matches.append(PictureMatch(line, number, bits, difference))
        matches.sort(key=lambda match: match.difference)
        if not matches or matches[0].difference > self.most:
            return []
        near = [m for m in matches if MAX_DIFFERENCE_RATIO * m.difference <= matches[0].difference]
        asked = [m for m in near if m.line.question and m.line.question in prompt]
        distinct: dict[str, PictureMatch] = {}
        for match in asked or near:
            plain = [mark.to_dict() | {"image": 0} for mark in match.marks]
            distinct.setdefault(json.dumps(plain), match)
        return [*distinct.values()]


def _parse_line(row: Any, path: Path, number: int) -> Sample:
    if not isinstance(row, Mapping) or not (row.get("image") or row.get("images")):
        raise ValueError("expected an object with image or images, and marks")
    return parse_sample(row, path, f"line {number}")
