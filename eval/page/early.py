"""Thumbnails of a run's pictures, made beside it while the process has little else to do: they take
most of the time of its page."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from looktwice.eval.page.conversations import THUMBNAIL
from looktwice.pipelines.picture import Picture, PictureError, thumbnail
from looktwice.pipelines.runtime.stores import Blobs

MADE: dict[str, str] = {}
"""Data URLs of thumbnails by the sha256 of the picture."""
MOST_PICTURE_CHARACTERS = 9_000_000
"""The length of a page's words and thumbnails together."""

WINDOW, IDLE = 0.02, 0.3  # seconds that are looked at, and how much of a core is little in them
LOOK = 1.0  # seconds between looks for new pictures


@contextmanager
def early_thumbnails(blobs: Blobs) -> Iterator[None]:
    """Inside, thumbnails of what is kept there are made while the process is idle."""
    ended = threading.Event()
    thread = threading.Thread(target=_make, args=(blobs, ended), name="looktwice-thumbnails")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _make(blobs: Blobs, ended: threading.Event) -> None:
    seen, length = set[str](), 0
    while not ended.wait(LOOK):
        new = set[str]()
        with suppress(OSError):  # an earlier run is being moved aside
            new = blobs.names() - seen
        for sha in new:
            while not _is_idle(ended):
                if ended.is_set():
                    return
            seen.add(sha)
            # a message, or what is being written
            with suppress(PictureError, OSError, ValueError):
                MADE[sha] = thumbnail(Picture.encoded(blobs.get(sha)), *THUMBNAIL)
                length += len(MADE[sha])
            if length > MOST_PICTURE_CHARACTERS:
                return


def _is_idle(ended: threading.Event) -> bool:
    cpu, wall = time.process_time(), time.perf_counter()
    has_ended = ended.wait(WINDOW)
    spent = time.process_time() - cpu
    return not has_ended and spent < IDLE * (time.perf_counter() - wall)
