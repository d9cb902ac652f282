"""VLM2-Bench's own metrics for each kind of subtask, and its totals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from looktwice.eval.records.records import SampleRow
from looktwice.eval.scoring.groups import compute_group_metric, find_group_clusters, group_by
from looktwice.eval.scoring.metrics import list_right_by_draw
from looktwice.eval.scoring.verdict import (
    Levels,
    Metric,
    PointScores,
    Samples,
    Score,
    Scorer,
    Total,
    Verdict,
)

HEADLINE_METRICS = {
    "GC-Mat": "pair_accuracy",
    "GC-Trk": "pair_accuracy",
    "OC-Cpr": "pair_accuracy",
    "OC-Cnt": "numeric_official",
    "OC-Grp": "accuracy",
    "PC-Cpr": "pair_accuracy",
    "PC-Cnt": "numeric_official",
    "PC-Grp": "accuracy",
}
"""The metric of each subtask that enters the overall score."""
MAX_DIGITS = 100  # a longer number is no count, and Python refuses to parse it
TOTALS = (
    Total("overall_8", HEADLINE_METRICS),
    Total("overall_9", {**HEADLINE_METRICS, "PC-VID": "vid"}),
)
HEADLINE_TOTALS = ("overall_8", "overall_9", "pair_accuracy", "numeric_official", "vid")


class SubtaskScorer(Scorer):
    """The base class of the scorers of all subtasks."""

    suite = "VLM2-Bench"
    totals = TOTALS
    headlines = HEADLINE_TOTALS


def get_side(name: str, meta: Mapping[str, Any], key: str | None) -> str:
    """Return a question's side of its pair, T or F: the side named in its id for Cpr, its correct
    answer otherwise."""
    ending = str(meta.get("q_id", "")).rpartition("_")[2]
    named = {"p": "T", "n": "F"}.get(ending) if name.endswith("Cpr") else None
    return named or key or ""


@dataclass(frozen=True)
class PairScorer(SubtaskScorer):
    """The scorer of GC-Mat, GC-Trk, OC-Cpr and PC-Cpr (`name`): a pair is right if both of its
    questions are.

    The positive side of a pair is the question whose correct answer is T; for Cpr the one whose id
    ends with `_p`, whatever its answer.

    `pair_accuracy` is official: GC joins all questions of one id (if more than two share it, one
    right of each side is enough), Cpr counts only complete pairs. `pair_accuracy_vlmevalkit`
    requires every question of the id, and counts incomplete pairs as wrong. `positive_accuracy` and
    `negative_accuracy` are over the same pairs.
    """

    name: str

    def metrics(self, scores: PointScores) -> Sequence[Metric]:
        """Return the four metrics, each over pairs."""
        samples = scores.keyed_samples
        pairs = group_by(samples, "pair")
        sides: dict[str, dict[str, list[str]]] = {"T": {}, "F": {}}
        for pair, names in pairs.items():
            for name in names:
                row = samples[name]
                side = sides.setdefault(get_side(self.name, row.meta, row.answer), {})
                side.setdefault(pair, []).append(name)
        true, false = sides["T"], sides["F"]
        complete = true.keys() & false.keys()
        both: dict[str, float] = {}
        for pair in pairs:
            if self.name.endswith("Cpr") and pair not in complete:
                continue
            positive = true.get(pair, [])
            draws = list_right_by_draw(map(scores.draws, [*positive, *false.get(pair, [])]))
            cut = len(positive)
            if draws:
                both[pair] = fmean(any(draw[:cut]) and any(draw[cut:]) for draw in draws)
        metrics, failed = [], frozenset[str]()
        for metric, side in (("positive_accuracy", true), ("negative_accuracy", false)):
            groups = {pair: side.get(pair, []) for pair in both}
            metrics.append(compute_group_metric(metric, "pair", scores, groups, any))
            failed |= metrics[-1].failed
        clusters = find_group_clusters(scores, pairs)
        official = Metric("pair_accuracy", both, "pair", failed, clusters=clusters)
        every = compute_group_metric("pair_accuracy_vlmevalkit", "pair", scores, pairs)
        units = dict(every.units)
        units |= dict.fromkeys(units.keys() - complete, 0.0)
        return [official, *metrics, replace(every, units=units)]

    def chance(self, samples: Samples) -> Levels:
        """Return 0.25 for GC, whose two questions are independent, and 0.5 for Cpr, where one
        question negates the other."""
        return {"pair_accuracy": 0.5 if self.name.endswith("Cpr") else 0.25, "accuracy": 0.5}


@dataclass(frozen=True)
class CountScorer(SubtaskScorer):
    """The scorer of OC-Cnt and PC-Cnt (`name`): the share of exact counts, and how close the
    others are.

    `numeric_official` leaves out of the mean all answers that are not a count from 1 to the number
    of images. `numeric_vlmevalkit` counts an answer that is not a number as 0 and accepts any
    number; accuracy is the share of exact counts.
    """

    name: str

    def compare(self, answer: str, row: SampleRow) -> Score | None:
        """Compare numbers exactly; an answer that is not a number is unreadable."""
        count = _parse_number(answer)
        if count is None:
            return Score(Verdict.UNREADABLE)
        return Score.of(count == int(row.answer or 0))

    def metrics(self, scores: PointScores) -> Sequence[Metric]:
        """Return the two means; a question with several draws counts with the mean of its draws."""
        official: dict[str, float] = {}
        toolkit: dict[str, float] = {}
        for name, row in scores.keyed_samples.items():
            truth, images = int(row.answer or 0), int(row.meta["image_len"])
            inside, draws = list[float](), list[float]()
            for scored in scores.get_recorded_draws(name):
                count = _parse_number(scored.answer)
                draws.append(0.0 if count is None else score_count(count, truth, images))
                if count is not None and 1 <= count <= images:
                    inside.append(draws[-1])
            if inside:
                official[name] = fmean(inside)
            if draws:
                toolkit[name] = fmean(draws)
        failed = frozenset(scores.keyed_samples.keys() - scores.comparable_values.keys())
        return [
            Metric("numeric_official", official, failed=failed),
            Metric("numeric_vlmevalkit", toolkit, failed=failed),
        ]

    def chance(self, samples: Samples) -> Levels:
        """Return the mean score and the accuracy of uniform guesses from 1 to the number of
        images."""
        levels, exact = list[float](), list[float]()
        for row in samples.values():
            images = int(row.meta["image_len"])
            levels.append(compute_chance_score(int(row.answer or 0), images))
            exact.append(1 / images)
        level = fmean(levels)
        return {"numeric_official": level, "numeric_vlmevalkit": level, "accuracy": fmean(exact)}


@dataclass(frozen=True)
class GroupScorer(SubtaskScorer):
    """The scorer of OC-Grp and PC-Grp (`name`): plain accuracy over four choices."""

    name: str

    def chance(self, samples: Samples) -> Levels:
        """Return one over the number of choices, which is taken as four if the choices could not be
        parsed."""
        return {
            "accuracy": fmean(1 / (len(row.sample["choices"]) or 4) for row in samples.values())
        }


@dataclass(frozen=True)
class VideoScorer(SubtaskScorer):
    """The scorer of PC-VID: a judge's grade of the description, 0 or 1 for AB videos and 0, 1 or 2
    for ABA videos.

    A description that no judge has graded has no score, whatever numbers it contains. `vid` is the
    mean of `vid_ab` and `vid_aba`; unreadable and failed samples are excluded from all three, as in
    the official code.
    """

    name = "PC-VID"
    key_is_answer = False  # it is the highest score
    needs_judge = True

    def compare(self, answer: str, row: SampleRow) -> Score | None:
        """Return the grade divided by the highest grade (the row's answer); only the highest grade
        is RIGHT."""
        most = int(row.answer or 1)
        grade = _parse_number(answer)
        if grade is None or grade > most:
            return Score(Verdict.UNREADABLE)
        return Score(Verdict.RIGHT if grade == most else Verdict.WRONG, grade / most)

    def metrics(self, scores: PointScores) -> Sequence[Metric]:
        """Return the means of AB and ABA videos, and the mean of both."""
        kinds: dict[str, dict[str, float]] = {"AB": {}, "ABA": {}}
        for name, row in scores.keyed_samples.items():
            asked = scores.get_recorded_draws(name)
            graded = [s.score.value for s in asked if s.verdict in (Verdict.RIGHT, Verdict.WRONG)]
            if graded and row.meta.get("type") in kinds:
                kinds[row.meta["type"]][name] = fmean(graded)
        parts = []
        for kind, units in kinds.items():
            if units:
                parts.append(Metric(f"vid_{kind.lower()}", units, "video"))
        if len(parts) < 2:
            return parts
        mean = fmean(fmean(part.units.values()) for part in parts)
        return [*parts, Metric("vid", {**kinds["AB"], **kinds["ABA"]}, "video", value=mean)]


def _parse_number(answer: str | None) -> int | None:
    digits = (answer or "").strip()
    return int(digits) if digits.isdecimal() and len(digits) <= MAX_DIGITS else None


def score_count(count: int, truth: int, image_count: int) -> float:
    """Return the score (0 to 1) of a count, given the correct count and the number of images.

    It is 1 if right, otherwise 1 - (4 / image_count) * e**(1/10), at least 0, where e is the error
    divided by the largest possible error. Example: with 4 images, a correct count of 1 and an
    answer of 2, the score is 0.10404.
    """
    if count == truth:
        return 1.0
    largest = max(truth - 1, image_count - truth)
    if largest <= 0:
        return 0.0
    penalty = 4 / image_count * float((abs(count - truth) / largest) ** 0.1)
    return max(0.0, 1.0 - penalty)


def compute_chance_score(truth: int, image_count: int) -> float:
    """Return the mean score of a uniform guess from 1 to the number of images."""
    return fmean(score_count(count, truth, image_count) for count in range(1, image_count + 1))
