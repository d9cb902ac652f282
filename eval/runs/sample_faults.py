"""Finds the samples of a task that would fail, without decoding images where possible."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from looktwice.eval.tasks.base import Task, check_items
from looktwice.eval.tasks.own_questions import Folder
from looktwice.pipelines.counted import format_count
from looktwice.pipelines.marks import Point
from looktwice.pipelines.picture import Picture, PictureError
from looktwice.pipelines.sample import Item, Sample, check_marks, describe_key_fault

MAX_OPENING_SECONDS = 5.0  # after this, only the existence of images without marks is checked


@dataclass
class SampleFaults:
    """The faults of a task's samples by kind, each with its sample, and the number of samples
    checked.

    `points` are the point marks; `is_complete` is True if every image was opened to read its size.
    """

    unreadable_images: list[str] = field(default_factory=list)
    marks_outside: list[str] = field(default_factory=list)
    duplicate_ids: list[str] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)
    checked_count: int = 0
    is_complete: bool = True

    def sentences(self) -> Iterator[str]:
        """Yield a sentence for each kind of fault, with its first example."""
        for found, why in (
            (self.unreadable_images, "an image that cannot be read"),
            (self.marks_outside, "a mark outside its image"),
            (self.duplicate_ids, "a duplicate id"),
        ):
            if found:
                more = "; --all lists all" if len(found) > 1 else ""
                number = format_count(len(found), "sample")
                yield f"{number} would fail for {why}; the first: {found[0]}{more}"


def find_sample_faults(task: Task, limit: int | None) -> SampleFaults:
    """Check the first `limit` samples for missing images, marks outside their image and duplicate
    ids. Raises TaskError.

    In a folder of questions, every image must exist, and is opened if it has a mark. More expensive
    checks, and other tasks, are limited to a few seconds.
    """
    faults, seen = SampleFaults(), set[str]()
    until, is_folder = time.monotonic() + MAX_OPENING_SECONDS, isinstance(task, Folder)
    for item in islice(check_items(task), limit):  # one in memory at a time
        is_late = time.monotonic() > until
        if is_late and not is_folder:
            faults.is_complete = False
            break
        sample = item.sample
        faults.checked_count += 1
        faults.points += [mark for mark in sample.marks if isinstance(mark, Point)]
        if sample.id in seen:
            faults.duplicate_ids.append(f"sample {sample.id}")
        seen.add(sample.id)
        faults.is_complete &= not is_late
        if unread := next(_find_unreadable(sample, is_late), ""):
            faults.unreadable_images.append(f"sample {sample.id}: {unread}")
        elif outside := find_mark_fault(sample):
            faults.marks_outside.append(outside)
    return faults


def get_pictures(sample: Sample) -> list[Picture]:
    """Return the images of a sample, including those of its choices."""
    return [i for i in (*sample.images, *sample.choices) if isinstance(i, Picture)]


def _find_unreadable(sample: Sample, only_missing: bool) -> Iterator[str]:
    """Yield the faults of images that cannot be opened, or, if `only_missing`, only of those that
    are missing."""
    for picture in get_pictures(sample):
        try:
            if not picture.is_there():
                picture.source  # noqa: B018  raises the reason
            elif not (only_missing or picture.is_generated):
                picture.size  # noqa: B018  reads the header
                if is_truncated(picture.source):
                    picture.payload  # noqa: B018  decodes it
        except PictureError as exc:
            yield str(exc)


def is_truncated(data: bytes) -> bool:
    """Return whether the end of an encoded image is missing, for example after an interrupted
    download; some such images can still be decoded."""
    begun = {b"\x89PNG": b"IEND", b"\xff\xd8\xff": b"\xff\xd9", b"GIF8": b";"}
    end = next((end for begin, end in begun.items() if data.startswith(begin)), b"")
    is_short = data[:4] == b"RIFF" and len(data) < 8 + int.from_bytes(data[4:8], "little")
    # the one byte that ends a GIF is often among the last 64 by chance
    tail = data.rstrip(b"\0")[-1:] if end == b";" else data[-64:]
    return is_short or end not in tail


def find_mark_fault(sample: Sample) -> str:
    """Describe the first mark outside its image; empty if there is none or the image cannot be
    read."""
    try:
        check_marks(sample)
    except PictureError:
        return ""
    except ValueError as exc:
        return str(exc)
    return ""


def open_item(item: Item) -> tuple[int, list[str]]:
    """Return the number of a sample's images, including those of its choices, and its faults:
    images that cannot be decoded, invalid ground truth, a mark outside its image."""
    sample = item.sample
    images = get_pictures(sample)
    wrong = describe_key_fault(item.answer, len(sample.choices)), find_mark_fault(sample)
    faults = list(filter(None, wrong))
    for image in images:
        try:
            image.pixels  # noqa: B018  decodes it
        except PictureError as exc:
            faults.append(str(exc))
    return len(images), faults
