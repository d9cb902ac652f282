"""The scorer of points and boxes as answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from looktwice.eval.records.records import SampleRow
from looktwice.eval.scoring.verdict import Metric, PointScores, Score, ScoredRecord, Scorer, Verdict
from looktwice.extras.grounding.ap_intervals import estimate_precision
from looktwice.extras.grounding.library import require_library
from looktwice.extras.grounding.matching import (
    MatchCounts,
    compute_place_iou,
    holds_point,
    label_places,
    match_places,
    pick_top_place,
)
from looktwice.extras.grounding.mean_ap import Scene, compute_average_precision
from looktwice.extras.grounding.places import (
    Form,
    Place,
    Places,
    parse_places,
    read_places,
    to_marks,
)
from looktwice.pipelines.marks import Mark
from looktwice.pipelines.ranges import check_ranges


@dataclass(frozen=True)
class PlacesScorer(Scorer):
    """Scores places that `PlacesInReply` read, by `rule`.

    "box": right if the first box has an IoU of `threshold` or more with one of the true boxes,
    which are alternatives: the accuracy of RefCOCO. "point": right if the first point, or the
    middle of the first box, lies in one of the true masks, or boxes without a mask. If all places
    of an answer have confidences, the most confident one is taken as the first. "boxes" and
    "points": all places are asked for; found and true ones are paired so that as many as possible
    fit, with equal labels, and the value of a sample is its F1.

    `mean_iou` is the mean IoU of the first box with the nearest true one or, of several, of each
    true box with the nearest found one. "box" also reports accuracy at each of `thresholds`,
    "boxes" and "points" precision and recall per sample. With `mean_ap`, "boxes" also reports
    COCO's average precision and recall over all images of the task (the extra `map`), without the
    figures that no true box enters. Their intervals resample whole samples, with all of their
    images; in simulations, 86 to 98 % contain the figure that very many images would give, fewer
    with rare categories or missing confidences and at most 100 images. Few models state
    confidences. Boxes without one count as equally certain, so that AP depends on the order of the
    images; `ap_reversed` is AP with the images in reverse order, and `confidence_given` the share
    of boxes with a confidence. Where the two differ, cite F1.

    A label means a category if both are equal apart from case, articles, punctuation and a plural
    s, if `synonyms` ({sofa: couch}) map it to the category, or if it contains the name of only one
    category. A box without a label has the category that was asked for, if there was only one; the
    meta field `categories` lists those asked for. A box whose label is not a category is wrong in
    F1 and does not enter AP.

    The true places are the field `places` of an item's truth, or else its answer, as objects or
    JSON; `form` is that of their boxes. Places marked `crowd` or `ignore` need not be found, and a
    box that only fits these is not counted.
    """

    rule: Literal["box", "point", "boxes", "points"] = "box"
    threshold: float = 0.5
    thresholds: tuple[float, ...] = ()
    mean_ap: bool = False
    synonyms: Mapping[str, str] = field(default_factory=dict)
    places: str = "places"
    form: Form = "xyxy"

    def __post_init__(self) -> None:
        check_ranges(self, "threshold > 0", "threshold <= 1")
        if self.mean_ap and self.rule != "boxes":
            raise ValueError(f"mean_ap needs `rule: boxes`, got {self.rule!r}")
        if self.mean_ap:
            require_library()

    @property
    def headlines(self) -> tuple[str, ...]:
        """The metrics to show first."""
        if self.rule == "boxes":
            return ("ap", "ap_50") if self.mean_ap else ("precision", "recall")
        return {"box": ("mean_iou",), "point": (), "points": ("precision", "recall")}[self.rule]

    def compare(self, answer: str, row: SampleRow) -> Score:
        """Return the score of an answer; UNREADABLE if it is not a list of places."""
        found = parse_places(answer)
        if found is None:
            return Score(Verdict.UNREADABLE)
        if self.rule in ("boxes", "points"):
            f1 = self._match(found, row).f1
            return Score(Verdict.RIGHT if f1 == 1 else Verdict.WRONG, f1)
        if self.rule == "point":
            return Score.of(
                any(
                    holds_point(true, one)
                    for one in pick_top_place(found)
                    for true in self._read_truth(row)
                )
            )
        return Score.of(self._compute_first_iou(found, row) >= self.threshold)

    def metrics(self, scores: PointScores) -> Sequence[Metric]:
        """Return mean IoU, accuracy at other thresholds, precision, recall and average
        precision."""
        faulty = {name for name, row in scores.keyed_samples.items() if not self._has_truth(row)}
        scores = scores.only({*scores.samples} - faulty) if faulty else scores
        found = {
            (draw.sample, draw.draw): parse_places(draw.answer or "") for draw in scores.all_records
        }
        return [
            metric
            for metric in self._yield_metrics(scores, found)
            if metric.units or metric.value is not None
        ]

    def marks(self, answer: str | None, row: SampleRow) -> Sequence[Mark]:
        """Return the places of an answer or, for None, the true ones, if they can be read."""
        if answer is not None:
            return tuple(to_marks(parse_places(answer) or ()))
        return tuple(to_marks(self._read_truth(row))) if self._has_truth(row) else ()

    def _yield_metrics(
        self, scores: PointScores, found: Mapping[tuple[str, int], Places | None]
    ) -> Iterator[Metric]:
        def make_mean(name: str, value: Any) -> Metric:
            units = scores.means(
                lambda draw: value(found[draw.sample, draw.draw] or (), scores.samples[draw.sample])
            )
            keyed = {unit: score for unit, score in units.items() if unit in scores.keyed_samples}
            failed = frozenset(keyed.keys() - scores.comparable_values.keys())
            return Metric(name, keyed, failed=failed, clusters=scores.clusters)

        if self.rule == "box":
            yield make_mean("mean_iou", self._compute_first_iou)
            for minimum in self.thresholds:
                accuracy = partial(self._is_accurate, minimum)
                yield make_mean(f"accuracy_iou_{minimum:g}", accuracy)
        elif self.rule in ("boxes", "points"):
            if self.rule == "boxes":
                yield make_mean("mean_iou", self._compute_mean_iou)
            yield make_mean("precision", lambda some, row: self._match(some, row).precision)
            yield make_mean("recall", lambda some, row: self._match(some, row).recall)
        if self.mean_ap:
            yield from self._yield_average_precision(scores, found)

    def _yield_average_precision(
        self, scores: PointScores, found: Mapping[tuple[str, int], Places | None]
    ) -> Iterator[Metric]:
        """Yield COCO's metrics, and one that shows whether they depend on the order of images."""
        every = {
            place.label: None
            for row in scores.keyed_samples.values()
            for place in self._read_truth(row)
        }
        draws: list[ScoredRecord] = [
            d for name in scores.keyed_samples for d in scores.get_recorded_draws(name)
        ]
        scenes, given, clusters = list[Scene](), list[bool](), list[str]()
        for draw in draws:
            row = scores.samples[draw.sample]
            own = label_places(
                found[draw.sample, draw.draw] or (),
                self._list_categories(row),
                self.synonyms,
                [*every],
            )
            given += [place.score is not None for place in own]
            scenes += _split_images(own, self._read_truth(row))
            clusters += [scores.clusters[draw.sample]] * (len(scenes) - len(clusters))
        figures = estimate_precision(scenes, clusters)
        for name, figure in figures.items():
            yield Metric(name, value=figure.value, low=figure.low, high=figure.high, unit="image")
        if figures and given and not all(given):
            turned = compute_average_precision(scenes[::-1])["ap"]
            yield Metric("ap_reversed", value=turned, unit="image")
            yield Metric("confidence_given", value=sum(given) / len(given), unit="image")

    def _read_truth(self, row: SampleRow) -> Places:
        """Return the ground-truth places of a sample. Raises ValueError."""
        value = row.truth.get(self.places, row.answer)
        try:
            return read_places(value if value is not None else [], self.form)
        except ValueError as exc:
            raise ValueError(
                f"sample {row.id}: its truth `{self.places}`, or else its answer, must hold places"
                f" ({exc})"
            ) from exc

    def _has_truth(self, row: SampleRow) -> bool:
        """Return whether the ground-truth places of a sample can be read."""
        try:
            self._read_truth(row)
        except ValueError:
            return False
        return True

    def _list_categories(self, row: SampleRow) -> list[str]:
        """Return the categories that a sample asks for."""
        listed = row.meta.get("categories")
        names = [str(name) for name in listed] if isinstance(listed, list | tuple) else []
        return [*dict.fromkeys([*names, *filter(None, (p.label for p in self._read_truth(row)))])]

    def _match(self, found: Places, row: SampleRow) -> MatchCounts:
        """Match predicted places with ground-truth places, and count the matches."""
        named = label_places(found, self._list_categories(row), self.synonyms)
        fits = self._rate_box_fit if self.rule == "boxes" else _rate_point_fit
        return match_places(named, self._read_truth(row), fits)

    def _rate_box_fit(self, found: Place, true: Place) -> float:
        share = compute_place_iou(found, true)
        return share if share >= self.threshold else 0.0

    def _compute_first_iou(self, found: Places, row: SampleRow) -> float:
        """Return the IoU of the first box with the nearest ground-truth box."""
        shares = [
            compute_place_iou(one, true)
            for one in pick_top_place(found)
            for true in self._read_truth(row)
        ]
        return max(shares, default=0.0)

    def _is_accurate(self, minimum: float, found: Places, row: SampleRow) -> float:
        return float(self._compute_first_iou(found, row) >= minimum)

    def _compute_mean_iou(self, found: Places, row: SampleRow) -> float | None:
        """Return the mean, over ground-truth boxes, of the IoU with the nearest predicted box of
        the same label; None if there is nothing to find."""
        named = label_places(found, self._list_categories(row), self.synonyms)
        best = list[float]()
        for true in self._read_truth(row):
            alike = (one for one in named if not true.label or one.label == true.label)
            if not true.is_optional:
                best.append(max((compute_place_iou(one, true) for one in alike), default=0.0))
        return sum(best) / len(best) if best else None


def _rate_point_fit(found: Place, true: Place) -> float:
    return float(holds_point(true, found))


def _split_images(found: Places, true: Places) -> Iterator[Scene]:
    """Yield a scene for each image of a sample."""
    for image in sorted({0, *(place.image for place in (*found, *true))}):
        yield Scene(
            tuple(place for place in found if place.image == image),
            tuple(place for place in true if place.image == image),
        )
