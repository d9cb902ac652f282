"""Questions about the boxes of a file in COCO's format: detection, and references to objects."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from looktwice.eval.tasks.base import TaskError, make_random_order, require_positive
from looktwice.eval.tasks.files import resolve_inside
from looktwice.extras.grounding.drawn_scenes import ANSWER_INSTRUCTIONS, UNIT_PHRASES, Ask, Unit
from looktwice.extras.grounding.places import format_places, read_places
from looktwice.extras.grounding.scorer import PlacesScorer
from looktwice.extras.make.files import FileTask, Source
from looktwice.pipelines.disk import read_file
from looktwice.pipelines.json_input import read_json
from looktwice.pipelines.picture import Picture, PictureError
from looktwice.pipelines.sample import Item, Sample

REQUIRED_LISTS = ("images", "annotations", "categories")
EXPRESSION_FIELDS = ("expression", "caption", "sentence", "sentences", "referring_expression")
Annotation = Mapping[str, Any]


@dataclass(frozen=True)
class CocoFile(FileTask):
    """Questions about the objects in a file in COCO's format, such as COCO, LVIS, or RefCOCO
    converted to it.

    `ask` "boxes" or "points" makes one question per image, about all objects of the categories that
    occur in it, or of the listed `categories`, whether they occur or not. "box" or "point" makes
    one question for each text in an annotation's `expression`, `caption`, `sentence` or `sentences`
    (or in its image's `caption`); annotations of an image with the same text are alternatives.
    Without such texts, it asks for each category of which an image has exactly one object.

    `path` is the JSON file; images lie in `images` (default: the file's folder). `unit` is the unit
    that the question asks for. `n` keeps that many images, chosen by `seed`. With "boxes",
    `mean_ap` reports average precision (the extra `map`). The flags of crowds and of objects to
    ignore are kept, and masks for points. Missing images are left out and counted. Raises
    TaskError.
    """

    path: Path
    images: Path | None = None
    ask: Ask = "boxes"
    categories: tuple[str, ...] = ()
    unit: Unit = "0-1000"
    n: int | None = None
    seed: int = 0
    mean_ap: bool = False

    def __post_init__(self) -> None:
        require_positive(self.n)
        _ = self.scorer

    @property
    def scorer(self) -> PlacesScorer:
        """The scorer of these questions."""
        return PlacesScorer(self.ask, mean_ap=self.mean_ap, form="xywh")

    @property
    def _source(self) -> Source:
        sources = (f"{item.sample.id} {item.sample.question} {item.truth}" for item in self._items)
        return f"objects of {Path(self.path).name}", sources

    @cached_property
    def _lists(self) -> Mapping[str, list[dict[str, Any]]]:
        try:
            data = read_json(read_file(Path(self.path)), max_values=None)
        except (OSError, ValueError) as exc:
            raise TaskError(f"{self.path} cannot be read as COCO's JSON ({exc})") from exc
        lists: dict[str, Any] = {}
        if isinstance(data, dict):
            lists = {name: data.get(name) for name in REQUIRED_LISTS}
        rows = [*lists.values()]
        if not rows or not all(
            isinstance(r, list) and all(isinstance(e, dict) for e in r) for r in rows
        ):
            found = ", ".join(data) if isinstance(data, dict) else type(data).__name__
            raise TaskError(
                f"{self.path}: COCO's JSON needs the lists {', '.join(REQUIRED_LISTS)} of objects;"
                f" found {found}"
            )
        return lists

    @cached_property
    def _category_names(self) -> dict[Any, str]:
        names = {row.get("id"): str(row.get("name", "")) for row in self._lists["categories"]}
        if unknown := [name for name in self.categories if name not in names.values()]:
            listed = ", ".join(names.values())
            raise TaskError(f"{self.path} has no category {unknown[0]!r}; it has {listed:.400}")
        return names

    @cached_property
    def _items(self) -> list[Item]:
        self._skipped.clear()
        _ = self._category_names
        by_image = defaultdict[Any, list[Annotation]](list)
        for row in self._lists["annotations"]:
            by_image[row.get("image_id")].append(row)
        rows = sorted(
            self._lists["images"], key=lambda row: make_random_order(str(row.get("id")), self.seed)
        )
        kept, items = set[int](), list[Item]()
        for row in rows if self.n is not None else self._lists["images"]:
            if len(kept) == self.n:
                break
            try:
                made = [*self._make_items(row, by_image.get(row.get("id"), []))]
            except (PictureError, OSError, ValueError) as exc:
                self._skipped.add(str(row.get("file_name", row.get("id"))), exc)
                continue
            items += made
            kept |= {id(row)} if made else set()
        if not items:
            wanted = f"no image with an existing file has objects to ask for (ask: {self.ask})"
            raise self._skipped.make_empty_error(Path(self.path), wanted)
        return items

    def _make_items(self, row: Mapping[str, Any], objects: Sequence[Annotation]) -> Iterator[Item]:
        folder = Path(self.path).parent if self.images is None else Path(self.images)
        picture = Picture.open(resolve_inside(folder, str(row.get("file_name", ""))))
        width, height = picture.size
        identifier, wanted = (
            str(row.get("id")),
            ANSWER_INSTRUCTIONS[self.ask].format(unit=UNIT_PHRASES[self.unit]),
        )
        for number, (words, names, asked) in enumerate(self._list_questions(row, objects)):
            truth = [self._make_place(entry, (width, height), bool(names)) for entry in asked]
            meta: dict[str, Any] = {"sizes": [[width, height]], "source": row.get("file_name")}
            meta |= {"categories": list(names)} if names else {}
            name = identifier if names else f"{identifier}_{number}"
            sample = Sample(name, f"{words} {wanted}", (picture,), (), (), meta)
            answer = format_places(read_places(truth, "xywh"))
            yield Item(sample, answer, {"places": truth})

    def _list_questions(
        self, row: Mapping[str, Any], objects: Sequence[Annotation]
    ) -> Iterator[tuple[str, Sequence[str], Sequence[Annotation]]]:
        """Yield the text of each question, the categories that it asks for, and the objects to
        find."""
        named = defaultdict[str, list[Annotation]](list)
        for entry in objects:
            named[self._category_names.get(entry.get("category_id"), "object")].append(entry)
        if self.ask in ("boxes", "points"):
            names = self.categories or tuple(named)
            if names:
                words = f"Find every object of these kinds: {', '.join(names)}."
                yield words, names, [entry for name in names for entry in named.get(name, ())]
            return
        texts = defaultdict[str, list[Annotation]](list)
        for entry in objects:
            for text in _list_expressions(entry) or _list_expressions(row):
                texts[text].append(entry)
        if not texts:
            single = {name: found for name, found in named.items() if len(found) == 1}
            texts.update({f"the {name}": [*found] for name, found in single.items()})
        for text, found in texts.items():
            yield f"Where is this: {text}?", (), found

    def _make_place(
        self, entry: Annotation, size: tuple[int, int], labelled: bool
    ) -> dict[str, Any]:
        """Return an annotation as a ground-truth place, with its mask only if points are asked
        for."""
        place: dict[str, Any] = {"bbox": entry.get("bbox")}
        if labelled:
            place["label"] = self._category_names.get(entry.get("category_id"), "object")
        if self.ask in ("point", "points") and entry.get("segmentation"):
            place |= {"segmentation": entry["segmentation"], "size": [size[1], size[0]]}
        flags = {"crowd": entry.get("iscrowd"), "ignore": entry.get("ignore")}
        return place | {name: True for name, given in flags.items() if given}


def _list_expressions(row: Mapping[str, Any]) -> list[str]:
    """Return the referring expressions of an annotation or image."""
    texts = list[str]()
    for key in EXPRESSION_FIELDS:
        value = row.get(key)
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, Mapping):
                inner = inner.get("sent", inner.get("raw"))
            texts += [inner.strip()] if isinstance(inner, str) and inner.strip() else []
    return list(dict.fromkeys(texts))
