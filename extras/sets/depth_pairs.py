"""DA-2K: questions about which of two points of a picture is closer to the camera."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from looktwice.eval.scoring.verdict import Scorer
from looktwice.eval.tasks.base import Subset, make_random_order
from looktwice.eval.tasks.row_task import Pictures, Questions, RowQuestion
from looktwice.extras.sets.set_task import SetTask
from looktwice.pipelines.marks import Point

QUESTION = "Which point is closer to the camera?"
CHOICES = ("A is closer", "B is closer")


@dataclass(frozen=True)
class Da2k(SetTask):
    """DA-2K (arXiv 2406.09414): `path` is DA-2K.zip, its folder, or the folder with
    `annotations.json`; `hub: depth-anything/DA-2K` downloads it.

    The file maps each image to pairs of points `point1` and `point2`, written [row, column], and
    names the closer one. In the release this is always `point1`, so the letters A and B are
    assigned by `seed` and the id. Points become marks of the image. `meta` has `scene` (the image's
    folder: indoor, aerial ...) and `image`. Raises TaskError.
    """

    path: Path | None = None
    seed: int = 0
    scorer: Scorer | None = None
    subset: Subset = Subset()
    hub: str = ""
    revision: str = ""

    units = "images"
    errata = ("point1 is always the closer one in the file; here it is A or B in turn",)
    _file = "annotations.json"
    _zip_name = "DA-2K.zip"
    _patterns = (_zip_name,)

    def _cells(self) -> Iterator[tuple[int, Any]]:
        yield from enumerate(self._read_json(dict).items())

    def _questions(self, number: int, cells: tuple[str, Any]) -> Questions:
        name, pairs = cells
        if not isinstance(pairs, list):
            raise ValueError(f"{name}: pairs must be a list, found {pairs!r:.80}")
        meta = {"scene": PurePosixPath(name).parent.name, "image": name}
        return [
            self._make_question(number, f"{name}#{n}", pair, meta) for n, pair in enumerate(pairs)
        ]

    def _make_question(
        self, number: int, name: str, pair: Any, meta: Mapping[str, Any]
    ) -> RowQuestion:
        closer = pair.get("closer_point") if isinstance(pair, Mapping) else None
        if closer not in ("point1", "point2"):
            raise ValueError(f"{name}: `closer_point` must be point1 or point2, found {pair!r:.80}")
        names = ["point1", "point2"]
        if make_random_order(name, self.seed)[0] % 2:
            names.reverse()
        marks = []
        for label, which in zip("AB", names, strict=True):
            row, column = pair[which]
            marks.append(Point(label, float(column), float(row)))
        answer = "AB"[names.index(closer)]
        image = (str(meta["image"]),)
        return RowQuestion(number, name, QUESTION, CHOICES, answer, meta, image, tuple(marks))

    def _pictures(self, question: RowQuestion, cells: Any) -> Pictures:
        return tuple(map(self._open, question.images))
