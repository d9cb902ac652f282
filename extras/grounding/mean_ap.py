"""Mean average precision as COCO defines it, by the package faster-coco-eval."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from looktwice.extras.grounding.library import import_library
from looktwice.extras.grounding.places import Place, Places

FIGURE_NAMES = {
    "ap": "AP_all",
    "ap_50": "AP_50",
    "ap_75": "AP_75",
    "ap_small": "AP_small",
    "ap_medium": "AP_medium",
    "ap_large": "AP_large",
    "ar_1": "AR_all",
    "ar_10": "AR_second",
    "ar_100": "AR_third",
}
"""Our names for the package's metrics."""
AREA_BEYOND_ALL_RANGES = (
    1e11  # square pixels: more than COCO's range "all", so that the place is ignored
)


@dataclass(frozen=True)
class Scene:
    """The places of one image: the predicted ones and the ground truth."""

    found_places: Places
    true_places: Places


def compute_average_precision(scenes: Iterable[Scene]) -> dict[str, float]:
    """Return COCO's metrics over scenes, under our names for them, without metrics to which no
    ground-truth box contributes.

    Categories are the labels of ground-truth boxes. Found boxes with other labels do not enter the
    average, as in COCO. A box without a confidence counts as 1.0; boxes of equal confidence are
    ranked in the order of scenes, then of the reply. A crowd is COCO's `iscrowd`. The package
    overwrites the flag `ignore`, so a place to ignore gets an area outside every range, which has
    the same effect.
    """
    matched = MatchedScenes.from_scenes(scenes)
    return matched.summarize() if matched else {}


@dataclass(frozen=True, eq=False)
class MatchedScenes:
    """The package's evaluation of scenes; their boxes are matched once, and any subset of scenes
    can be evaluated.

    `matches` are the package's own results, (categories, ranges of area, scenes), in the list from
    which its `accumulate` reads them; it has no public interface for a subset of images.
    """

    evaluation: Any
    matches: NDArray[np.object_]

    @classmethod
    def from_scenes(cls, scenes: Iterable[Scene]) -> MatchedScenes | None:
        """Match the predicted boxes of scenes with the true ones; None if there is no true box."""
        truth, found = _as_coco(scenes)
        if not truth["annotations"]:
            return None
        library = import_library()
        quiet: Any = {"print_function": lambda *_: None}
        own = library.COCO(truth, **quiet)
        settings = quiet | {"separate_eval": True}
        evaluation = library.COCOeval_faster(own, own.loadRes(found), "bbox", **settings)
        evaluation.evaluate()
        matches = np.empty(len(evaluation._evalImgs_cpp), object)
        matches[:] = evaluation._evalImgs_cpp
        ranges = len(evaluation.params.areaRng)
        shape = len(truth["categories"]), ranges, len(truth["images"])
        return cls(evaluation, matches.reshape(shape))

    def summarize(self, scenes: NDArray[np.int64] | None = None) -> dict[str, float]:
        """Return COCO's figures over the scenes with these indices, which may repeat; by default
        over every scene once."""
        chosen = self.matches if scenes is None else self.matches[:, :, scenes]
        self.evaluation._evalImgs_cpp = chosen.ravel().tolist()
        self.evaluation._paramsEval.imgIds = [*range(chosen.shape[2])]
        self.evaluation.accumulate()
        self.evaluation.summarize()
        figures: Mapping[str, float] = self.evaluation.stats_as_dict
        return {
            name: float(figures[theirs])
            for name, theirs in FIGURE_NAMES.items()
            if figures[theirs] >= 0
        }


def _as_coco(scenes: Iterable[Scene]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the scenes as COCO's annotations and results."""
    images, annotations, results = list[Any](), list[Any](), list[Any]()
    scenes = list(scenes)
    names = sorted({place.label for scene in scenes for place in scene.true_places})
    categories = {name: number for number, name in enumerate(names, 1)}
    for number, scene in enumerate(scenes, 1):
        images.append({"id": number})
        for place in scene.true_places:
            area = AREA_BEYOND_ALL_RANGES if place.ignore else place.area
            about = {"id": len(annotations) + 1, "area": area, "iscrowd": int(place.crowd)}
            annotations.append(_make_entry(place, number, categories) | about)
        for place in scene.found_places:
            if place.is_box and place.label in categories:
                score = 1.0 if place.score is None else place.score
                results.append(_make_entry(place, number, categories) | {"score": score})
    listed = [{"id": number, "name": name} for name, number in categories.items()]
    return {"images": images, "annotations": annotations, "categories": listed}, results


def _make_entry(place: Place, image: int, categories: Mapping[str, int]) -> dict[str, Any]:
    left, top, right, bottom = place.numbers
    box = [left, top, max(0.0, right - left), max(0.0, bottom - top)]
    return {"image_id": image, "category_id": categories[place.label], "bbox": box}
