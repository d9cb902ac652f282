"""Object localisation questions from boxes in the format of COCO or LVIS: which of two boxes fits
the object?"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import add
from pathlib import Path
from typing import Any

from numpy.random import Generator

from looktwice.eval.tasks.base import TaskError
from looktwice.eval.tasks.files import resolve_inside
from looktwice.eval.tasks.photographs import deal_evenly, make_rng
from looktwice.extras.make.files import FileTask, Source, get_image_size, make_item
from looktwice.pipelines.disk import read_file
from looktwice.pipelines.geometry import Rect, Size, iou
from looktwice.pipelines.json_input import read_json
from looktwice.pipelines.marks import Box
from looktwice.pipelines.picture import PictureError
from looktwice.pipelines.sample import Item

CHOICES = ("Box A", "Box B")
REQUIRED_LISTS = ("images", "annotations", "categories")
ID_FIELDS = ("id", "image_id", "category_id")
MAX_TRIES = 200
NamedBoxes = list[tuple[str, Rect]]
"""The name and the box of each object in an image."""
MAX_OVERHANG = 1.0  # pixels that a box may stick out of its image


@dataclass(frozen=True)
class Localization(FileTask):
    """Localisation questions for each image that has a usable box, or for the first `n` (BLINK,
    section 3.2).

    Equal `seed`s give equal questions.

    The method is the paper's for LVIS: a random object of an image, its true box, and the same box
    with Gaussian noise on its edges. The paper gives no sigma: `noise` is sigma as a share of the
    box's width and height, and the noisy box is drawn again until its intersection over union with
    the true one lies in the range `iou`, so that it is neither the same box nor another object's.
    Objects are at least `smallest` px wide and high; annotations of crowds are left out.

    `path` is the JSON file with images, annotations and categories. Image files lie in `images`
    (default: the JSON's folder) or in the folders that LVIS's URLs name. Missing images are
    left out and counted. The boxes are the marks A and B; nothing is drawn. Raises TaskError.
    """

    path: Path
    images: Path | None = None
    n: int | None = None
    seed: int = 0
    noise: float = 0.15
    iou: tuple[float, float] = (0.4, 0.8)
    smallest: float = 32.0

    def __post_init__(self) -> None:
        if (
            (self.n is not None and self.n < 1)
            or self.noise <= 0
            or not 0 <= self.iou[0] < self.iou[1] < 1
        ):
            raise TaskError(
                "`n` must be at least 1 (or null for one question per image), `noise` above 0 and"
                f" `iou` two rising shares below 1, got n={self.n}, noise={self.noise},"
                f" iou={self.iou}"
            )

    @property
    def _source(self) -> Source:
        noise = f"Gaussian noise of {self.noise:g} of their sides"
        sources = (f"{item.sample.meta['source']} {item.sample.marks}" for item in self._items)
        return f"boxes of {Path(self.path).name} with {noise}", sources

    @cached_property
    def _lists(self) -> dict[str, list[dict[str, Any]]]:
        try:
            data = read_json(read_file(Path(self.path)), max_values=None)
        except (OSError, ValueError) as exc:
            raise TaskError(f"{self.path} cannot be read as COCO's JSON ({exc})") from exc
        lists: dict[str, Any] = {}
        if isinstance(data, dict):
            lists = {name: data.get(name) for name in REQUIRED_LISTS}
        if not lists or not all(isinstance(rows, list) for rows in lists.values()):
            names = ", ".join(sorted(data)) if lists else type(data).__name__
            raise TaskError(
                f"{self.path}: COCO's JSON needs the lists {', '.join(REQUIRED_LISTS)}; found"
                f" {names}"
            )
        for name, rows in lists.items():
            for number, row in enumerate(rows):
                is_object = isinstance(row, dict)
                if not is_object or any(isinstance(row.get(n), list | dict) for n in ID_FIELDS):
                    raise TaskError(
                        f"{self.path}: {name}[{number}] must be an object with ids, got {row!r:.80}"
                    )
        return lists

    @cached_property
    def _objects(self) -> dict[Any, NamedBoxes]:
        """The name and the box of each usable object, by image id."""
        names = {row.get("id"): str(row.get("name", "object")) for row in self._lists["categories"]}
        rows = self._lists["annotations"]
        boxes: dict[Any, NamedBoxes] = defaultdict(list)
        for row in rows:
            edges = row.get("bbox")
            if (
                not isinstance(edges, list)
                or [type(e) in (int, float) for e in edges] != [True] * 4
            ):
                continue
            left, top, width, height = map(float, edges)
            if not math.isfinite(left + top + width + height) or min(width, height) <= 0:
                continue
            objects = boxes[row.get("image_id")]
            if not row.get("iscrowd") and min(width, height) >= self.smallest:
                name = names.get(row.get("category_id"), "object").replace("_", " ")
                objects.append((name, (left, top, left + width, top + height)))
        if not boxes:
            raise TaskError(
                f"{self.path}: none of its {len(rows)} annotations has a box; `bbox` is [left, top,"
                " width, height]"
            )
        return boxes

    @cached_property
    def _items(self) -> list[Item]:
        self._skipped.clear()
        items: list[Item] = []
        for row in self._lists["images"]:
            objects = self._objects.get(row.get("id"))
            if objects and len(items) != self.n:
                file = self._find_image(row)
                try:
                    items.append(self._item(len(items), file, str(row.get("id")), objects))
                except (PictureError, TaskError) as exc:
                    self._skipped.add(file.name, exc)
        if not items:
            wanted = f"no image has both its file and a box of {self.smallest:g} px or more"
            raise self._skipped.make_empty_error(self.path, wanted)
        return items

    def _item(self, number: int, file: Path, identifier: str, objects: NamedBoxes) -> Item:
        rng = make_rng("localization", self.seed, identifier)
        name, true = objects[int(rng.integers(len(objects)))]
        size = width, height = get_image_size(file)
        others = [box for kind, box in objects if kind == name and box != true]
        if (
            min(true[:2]) < -MAX_OVERHANG
            or true[2] > width + MAX_OVERHANG
            or true[3] > height + MAX_OVERHANG
        ):
            raise TaskError(
                f"its box {true} lies outside the image of {width}x{height}: the JSON belongs to"
                " other images"
            )
        left, top = max(0.0, true[0]), max(0.0, true[1])
        true = left, top, min(float(width), true[2]), min(float(height), true[3])
        pair = [true, self._draw_noisy_box(rng, true, size, others)]
        letter = deal_evenly(number, "AB", "letter", "localization", self.seed)
        boxes = pair if letter == "A" else pair[::-1]
        marks = tuple(Box(label, *box) for label, box in zip("AB", boxes, strict=True))
        words = (
            f"Which of the two boxes, A and B, encloses the {name} more exactly, touching its"
            " outermost pixels?"
        )
        return make_item(
            f"localization_{number:04}",
            words,
            (file,),
            CHOICES,
            letter,
            marks,
            subtask="Object_Localization",
            source=file.name,
            object=name,
            iou=round(iou(*boxes), 2),
        )

    def _draw_noisy_box(self, rng: Generator, true: Rect, size: Size, others: list[Rect]) -> Rect:
        """Return the true box with noise on its edges, far enough from other objects of its
        category."""
        sigma = self.noise * (true[2] - true[0]), self.noise * (true[3] - true[1])
        low, high = self.iou
        for _ in range(MAX_TRIES):
            edges = map(add, true, rng.normal(0, [*sigma, *sigma]).tolist())
            box = x0, y0, x1, y1 = tuple(round(edge, 1) for edge in edges)
            if min(x0, y0) < 0 or x1 > size[0] or y1 > size[1] or min(x1 - x0, y1 - y0) < 2:
                continue
            apart = all(iou(box, neighbour) < 0.5 for neighbour in others)
            if apart and low <= iou(box, true) <= high:
                return box
        raise TaskError(
            f"no box with noise on its edges lies inside the image and has an intersection over"
            f" union with the true box within {self.iou}; the object may fill its image"
        )

    def _find_image(self, row: Mapping[str, Any]) -> Path:
        """Return the path of an image, by its file name or by the end of LVIS's URL."""
        root = Path(self.images) if self.images is not None else Path(self.path).parent
        address = str(row.get("coco_url", "")).rstrip("/").split("/")
        names = [str(row["file_name"])] if row.get("file_name") else []
        names += ["/".join(address[-2:]), address[-1]] if address[-1] else []
        if not names:
            raise TaskError(
                f"{self.path}: the image {row.get('id')!r} has neither file_name nor coco_url"
            )
        files = [resolve_inside(root, name) for name in names]
        return next((file for file in files if file.is_file()), files[0])
