"""The face of face_recognition 1.3: its names, signatures and the order of its sides."""

from __future__ import annotations

from typing import Any

import numpy as np


def face_locations(
    img: Any, number_of_times_to_upsample: int = 1, model: str = "hog"
) -> list[tuple[int, ...]]:
    """Top, right, bottom and left; with "cnn" one face, else two, each lower by the doublings."""
    assert img.dtype == np.uint8 and img.flags.c_contiguous
    places = [(10, 59, 49, 20), (0, img.shape[1], 30, 70)][: 1 if model == "cnn" else 2]
    return [(top + number_of_times_to_upsample, *rest) for top, *rest in places]


def face_encodings(
    face_image: Any, known_face_locations: Any = None, num_jitters: int = 1, model: str = "small"
) -> list[Any]:
    return [np.full(128, place[3]) for place in known_face_locations]
