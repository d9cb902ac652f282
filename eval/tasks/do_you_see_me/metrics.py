"""Do You See Me as its authors score it: exact match, the mean of subtasks, and what each control
parameter does."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, ClassVar, Literal

import numpy as np

from looktwice.eval.records.records import SampleRow
from looktwice.eval.scoring.benchmark import (
    Metric,
    Scorer,
    Total,
    group_by,
    group_metric,
    right_by_draw,
)
from looktwice.eval.scoring.row import accuracy
from looktwice.eval.scoring.verdict import PointScores, Score, Verdict

Form = Literal["integer", "option", "letters", "yes_no"]

PARTS_2D = (
    "figure_ground",
    "visual_spatial",
    "joint_shape_color",
    "shape_discrimination",
    "letter_disambiguation",
    "form_constancy",
    "visual_closure",
)
PARTS_3D = (
    "shape_discrimination",
    "letter_disambiguation",
    "joint_shape_color",
    "form_constancy",
    "visual_spatial",
)
TOTALS = (
    Total("mean_2d", {f"2D {name}": "accuracy" for name in PARTS_2D}),
    Total("mean_3d", {f"3D {name}": "accuracy" for name in PARTS_3D}),
)


def standard_answer(answer: str, form: Form) -> str | None:
    """An answer in the form in which answers are compared; None where it is not of that form.

    Integers lose leading zeros, options become their digit, letters are capitals without spaces,
    yes and no are spelt "Yes" and "No". This is the standardisation that the paper (5.1) speaks of;
    its code was not published.
    """
    text = answer.strip().strip("*`\"'. ")
    if form == "integer":
        # no count is longer, and Python reads no 5,000 digits
        match = re.fullmatch(r"(\d{1,100})(?:\.0+)?", text)
        return str(int(match[1])) if match else None
    if form == "option":
        match = re.fullmatch(r"(?:option\s*)?[(\[<]?([1-4])[)\]>]?", text, re.I)
        return match[1] if match else None
    if form == "letters":
        plain = re.sub(r"[\s,;-]+", "", text).upper()
        return plain if re.fullmatch("[A-Z]+", plain) else None
    return {"yes": "Yes", "no": "No"}.get(text.casefold())


def kruskal(groups: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Whether values depend on their group (Kruskal-Wallis, App. K): the effect size H/(n - 1) in
    0..1, and p.

    Groups without values are left out; where all values are the same there is no effect and p is 1.
    """
    # scipy.stats, which has the whole test, takes a second to open
    from scipy.special import chdtrc

    filled = [group for group in groups if group]
    levels, place, times = np.unique(
        [v for group in filled for v in group], return_inverse=True, return_counts=True
    )
    n = len(place)
    if len(filled) < 2 or len(levels) < 2:
        return 0.0, 1.0
    ranks = (np.cumsum(times) - (times - 1) / 2)[place]
    sums = [
        part.sum() ** 2 / len(part)
        for part in np.split(ranks, np.cumsum([len(group) for group in filled])[:-1])
    ]
    ties = 1 - float((times.astype(float) ** 3 - times).sum()) / (n**3 - n)
    h = max(0.0, (12 / (n * (n + 1)) * sum(sums) - 3 * (n + 1)) / ties)
    return min(1.0, h / (n - 1)), float(chdtrc(len(filled) - 1, h))


@dataclass(frozen=True)
class SweepScorer(Scorer):
    """The subtask `name` of `kind` 2D or 3D: exact match in its `form`, and by levels of its
    `controls`.

    `accuracy_along` is given for every level of each control, `kruskal_*` for each control.
    """

    name: str
    kind: str
    form: Form
    controls: tuple[str, ...] = ()

    suite: ClassVar[str] = "Do You See Me"
    totals: ClassVar[tuple[Total, ...]] = TOTALS
    headlines: ClassVar[tuple[str, ...]] = ("mean_2d", "mean_3d")

    @property
    def part(self) -> str:
        """The subtask with its dimension."""
        return f"{self.kind} {self.name}"

    def compare(self, answer: str, row: SampleRow) -> Score | None:
        """Exact match of the standard forms; what has not the form is no answer."""
        given, wanted = (
            standard_answer(answer, self.form),
            standard_answer(row.answer or "", self.form),
        )
        if given is None:
            return Score(Verdict.UNREADABLE)
        right = given == wanted
        return Score(Verdict.RIGHT if right else Verdict.WRONG, float(right))

    def metrics(self, scores: PointScores) -> Sequence[Metric]:
        """A test and a row per level, for every control that has several levels."""
        return accuracy_along(self.controls, scores)

    def chance(self, samples: Mapping[str, SampleRow]) -> Mapping[str, float]:
        """One in four options, one in two for yes and no, one in 26 per letter; none for counts,
        which are open."""
        if self.form == "letters":
            return {"accuracy": fmean(26.0 ** -len(row.answer or "") for row in samples.values())}
        return (
            {"accuracy": {"option": 0.25, "yes_no": 0.5}[self.form]}
            if self.form != "integer"
            else {}
        )


def accuracy_along(controls: Sequence[str], scores: PointScores) -> list[Metric]:
    """For every control that has several levels its test, and the accuracy at each of its
    levels."""
    values, metrics = accuracy(scores), list[Metric]()
    for control in controls:
        levels: dict[Any, dict[str, float]] = defaultdict(dict)
        for name, row in scores.keyed.items():
            if control in row.meta and name in values:
                levels[row.meta[control]][name] = values[name]
        if len(levels) < 2:
            continue
        ordered = sorted(levels, key=lambda level: (isinstance(level, str), level))
        units: dict[str, float] = {}
        for level in ordered:
            units |= levels[level]
        effect, p = kruskal([list(levels[level].values()) for level in ordered])
        name = f"kruskal_{control}"
        metrics.append(Metric(name, units, value=effect, groups=len(ordered), p=p))
        for level in ordered:
            part = f"{control}={level}"
            metrics.append(Metric("accuracy_along", levels[level], slice=part))
    return metrics


ROLES = ("perception", "reasoning")


@dataclass(frozen=True)
class JointScorer(Scorer):
    """The joint form: one image with a question of perception and one of reasoning (paper, 3.1 and
    5.2.1).

    `perception_wrong_when_reasoning_right` is over the images whose reasoning is right; `both`
    wants both.
    """

    headlines: ClassVar[tuple[str, ...]] = ("both",)

    def metrics(self, scores: PointScores) -> Sequence[Metric]:
        """Both accuracies, both together, and how often the right conclusion was drawn from a wrong
        perception."""
        samples = scores.keyed
        seen, thought = (
            group_by(
                {n: row for n, row in samples.items() if row.meta.get("role") == role}, "image"
            )
            for role in ROLES
        )
        images = group_by(samples, "image")
        whole = {image: images[image] for image in images if image in seen and image in thought}
        metrics = [
            group_metric(
                f"{role}_accuracy", "image", scores, {image: side[image] for image in whole}
            )
            for role, side in zip(ROLES, (seen, thought), strict=True)
        ]
        both = group_metric("both", "image", scores, whole)
        wrong: dict[str, float] = {}
        for image in sorted(whole):
            names, cut = (*seen[image], *thought[image]), len(seen[image])
            draws = right_by_draw(scores.draws(name) for name in names)
            concluded = [not all(draw[:cut]) for draw in draws if all(draw[cut:])]
            if concluded:
                wrong[image] = fmean(concluded)
        name = "perception_wrong_when_reasoning_right"
        return [*metrics, both, replace(both, name=name, units=wrong)]
