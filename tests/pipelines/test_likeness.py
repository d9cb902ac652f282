"""Pictures are recognised after encoding and resizing, and not confused with others."""

import io

import numpy as np
import pytest
from PIL import Image

from looktwice.eval.tasks import MarkedScenes
from looktwice.pipelines import Picture
from looktwice.pipelines.picture import compute_perceptual_hash, measure_hash_distance

SCENES = [item.sample.images[0] for item in MarkedScenes("symbol", n=12)]
HASHES = [compute_perceptual_hash(scene) for scene in SCENES]


def encode(image: Image.Image, kind: str, **settings: int) -> Picture:
    buffer = io.BytesIO()
    image.save(buffer, kind, **settings)
    return Picture.encoded(buffer.getvalue())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "quality", "scale"),
    [("PNG", 0, 1.0), ("JPEG", 75, 1.0), ("JPEG", 40, 0.5), ("WEBP", 60, 1.6), ("PNG", 0, 0.3)],
)
def test_a_picture_is_recognised(kind: str, quality: int, scale: float) -> None:
    for number, scene in enumerate(SCENES):
        image = Image.fromarray(scene.pixels)
        size = (round(image.width * scale), round(image.height * scale))
        settings = {"quality": quality} if quality else {}
        again = compute_perceptual_hash(encode(image.resize(size), kind, **settings))
        distances = [measure_hash_distance(again, known) for known in HASHES]
        assert distances[number] <= 8
        assert sorted(range(len(SCENES)), key=distances.__getitem__)[0] == number


def test_a_different_aspect_ratio_increases_the_distance() -> None:
    image = Image.fromarray(SCENES[0].pixels)
    wide = Picture(np.asarray(image.resize((2 * image.width, image.height))))
    assert measure_hash_distance(compute_perceptual_hash(wide), HASHES[0]) == pytest.approx(
        8, abs=3
    )
    assert measure_hash_distance(HASHES[0], compute_perceptual_hash(wide)) >= 6
