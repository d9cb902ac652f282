"""Questions with a known truth, made on the fly from real photographs: no download, no labelling,
any number."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version as installed
from typing import Any, Literal

import cv2

from looktwice.eval.tasks.base import Facts, MadeTask, Subset, TaskError
from looktwice.eval.tasks.photographs import PHOTOGRAPHS, QuestionImages, deal_evenly, seeded_rng
from looktwice.pipelines.picture import Picture, Pixels
from looktwice.pipelines.sample import Item, Sample

CHOICES = {
    "jigsaw": ("the second image", "the third image"),
    "correspondence": ("Point A", "Point B", "Point C", "Point D"),
    "depth": ("Point A", "Point B"),
}
QUESTIONS = {
    "jigsaw": (
        "The lower right quarter of the first image is missing. Which image shows the missing"
        " piece?"
    ),
    "correspondence": (
        "Which point on the second image shows the same spot as the point REF on the first image?"
    ),
    "depth": "Which of the two points on the image is closer to the camera?",
}
SECOND_VIEW = " The second image shows the same scene from a little further to the right."
STRENGTH = {"jigsaw": 0.0, "correspondence": 0.5, "depth": 0.0}
NOTES = {
    "jigsaw": (
        "several crops of each of 12 photographs: questions on one photograph are not independent"
    ),
    "correspondence": (
        "several windows on each of 14 photographs and one stereo pair: questions on one photograph"
        " are not independent"
    ),
    "depth": (
        "one scene: every question is about the Middlebury Motorcycle pair, so n counts points, not"
        " scenes"
    ),
}


@dataclass(frozen=True)
class Photos(MadeTask):
    """`n` questions of one `kind` on the photographs that come with scikit-image.

    `jigsaw`: BLINK's construction: the upper left 2x2 of a 3x3 grid with its last piece black, and
    two pieces to choose from. `correspondence`: REF on the first image, four candidates on the
    second; by homography (`source: photos`) or true disparity (`stereo`), of which `both` has every
    fifth. `depth`: two points on the left view of the stereo pair; the right view is the second
    image unless `pair` is false. The truth is by construction, or by the pair's measured disparity.

    `strength` in 0..1 is how much viewpoint and light differ (of a jigsaw the light of the pieces,
    of stereo that of the second view); None is 0 for jigsaw and depth and 0.5 for correspondence.
    `turn` is how far the second view of a correspondence is turned at strength 1, in degrees either
    way. `quality` is that of the JPEG files that models and specialists are given, None sends them
    lossless. Question `i` depends on kind, source, turn, `seed` and `i` alone, and is about the
    same spots for every strength and quality, so a sweep over these asks the same questions.
    Answers are dealt: every run of as many questions as there are letters has each letter once.
    Images are not marked; points are in `marks`. Scores can be sliced by `photo`, `source` and, for
    depth, the `ratio` of the disparities. Raises TaskError.
    """

    kind: Literal["jigsaw", "correspondence", "depth"]
    n: int = 60
    seed: int = 0
    strength: float | None = None
    quality: int | None = None
    source: Literal["photos", "stereo", "both"] = "both"
    pair: bool = True
    turn: float = 40.0
    subset: Subset = field(default_factory=Subset)

    def __post_init__(self) -> None:
        if self.kind not in CHOICES:
            raise TaskError(f"kind is one of {', '.join(CHOICES)}, found {self.kind!r}")
        if self.n < 1:
            raise TaskError(f"n is how many questions are made, 1 or more; found {self.n}")
        if self.strength is not None and not 0 <= self.strength <= 1:
            raise TaskError(f"strength lies in 0..1, found {self.strength}")
        if self.quality is not None and not 1 <= self.quality <= 100:
            raise TaskError(
                f"quality is that of a JPEG, 1 to 100, or null for lossless; found {self.quality}"
            )
        if not 0 <= self.turn <= 90:
            raise TaskError(f"turn is in degrees, 0 to 90; found {self.turn}")
        if self.source not in ("photos", "stereo", "both"):
            raise TaskError(f"source is one of photos, stereo, both; found {self.source!r}")
        if self.source != "both" and self.kind != "correspondence":
            raise TaskError(f"source is a setting of correspondence; {self.kind} has one source")
        if not self.pair and self.kind != "depth":
            raise TaskError(f"pair is a setting of depth; {self.kind} always shows the same images")

    @property
    def facts(self) -> Facts:
        """What a table must say: the truth is made, and how many scenes stand behind the
        questions."""
        return Facts(
            "made",
            f"by construction, scikit-image {installed('scikit-image')}",
            note=NOTES[self.kind],
        )

    @cached_property
    def _chosen(self) -> list[int]:
        plan = self._plan if self.subset.per else lambda number: {}
        return self.subset.choose([(self._id(number), plan(number)) for number in range(self.n)])

    def _id(self, number: int) -> str:
        return f"{self.kind}_{number:04}"

    def _plan(self, number: int) -> dict[str, Any]:
        """What is known of a question before it is made."""
        source, scenes = self._source(number)
        return {
            "kind": self.kind,
            "photo": deal_evenly(number, scenes, "photo", self.kind, self.seed),
            "source": source,
            "strength": STRENGTH[self.kind] if self.strength is None else float(self.strength),
            "quality": self.quality,
            "answer": deal_evenly(
                number, "ABCD"[: len(CHOICES[self.kind])], "letter", self.kind, self.seed
            ),
        }

    def _source(self, number: int) -> tuple[str, tuple[str, ...]]:
        from looktwice.eval.tasks.photos.jigsaw import SCENES

        if self.kind == "jigsaw":
            return "photos", SCENES
        if (
            self.kind == "depth"
            or self.source == "stereo"
            or (self.source == "both" and number % 5 == 4)
        ):
            return "stereo", ("motorcycle",)
        return "photos", PHOTOGRAPHS

    def _item(self, number: int) -> Item:
        plan = self._plan(number)
        answer = plan.pop("answer")
        drawn = self._draw(number, plan, answer)
        names = [f"{self._id(number)} image {place}" for place in range(len(drawn.images))]
        images = tuple(
            _encode(pixels, self.quality, name)
            for pixels, name in zip(drawn.images, names, strict=True)
        )
        question = QUESTIONS[self.kind] + (
            SECOND_VIEW if self.kind == "depth" and self.pair else ""
        )
        meta = {**plan, **drawn.meta}
        return Item(
            Sample(self._id(number), question, images, CHOICES[self.kind], drawn.marks, meta),
            answer,
        )

    def _draw(self, number: int, plan: dict[str, Any], answer: str) -> QuestionImages:
        from looktwice.eval.tasks.photos.jigsaw import draw_jigsaw
        from looktwice.eval.tasks.photos.stereo import draw_depth, draw_stereo
        from looktwice.eval.tasks.photos.viewpoints import draw_correspondence

        rng = seeded_rng("draw", self.kind, plan["source"], self.seed, number)
        rank = deal_evenly(number, range(4), "rank", self.kind, self.seed)
        if self.kind == "jigsaw":
            return draw_jigsaw(rng, plan["photo"], answer, plan["strength"])
        if self.kind == "depth":
            return draw_depth(rng, answer, rank % 2 == 1, rank > 1, plan["strength"], self.pair)
        if plan["source"] == "stereo":
            return draw_stereo(rng, answer, rank, plan["strength"])
        return draw_correspondence(rng, plan["photo"], answer, rank, plan["strength"], self.turn)


def _encode(pixels: Pixels, quality: int | None, name: str) -> Picture:
    if quality is None:
        return Picture(pixels, name)
    _, data = cv2.imencode(".jpg", pixels[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])
    return Picture.encoded(bytes(data), name)
