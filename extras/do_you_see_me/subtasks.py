"""The subtasks of Do You See Me, their errata, and how its authors score them."""

from __future__ import annotations

import ast
import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, Literal

from looktwice.eval.records.records import SampleRow
from looktwice.eval.scoring.groups import compute_group_metric
from looktwice.eval.scoring.metrics import ControlScorer, list_right_by_draw
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

Form = Literal["integer", "option", "letters", "yes_no"]

OPTION_INSTRUCTION = "Respond as follows: Option <your answer, 1 to 4>."
MIRRORED_NOTE = (
    "rows and columns count from 0, and in the one published render column 0 is on the right-hand"
    " side: answers for left and right are mirrored unless columns are read from the right"
)


@dataclass(frozen=True)
class Subtask:
    """A subtask of Do You See Me: `folders` are its folder names, the one in the official tree
    first; `controls` name the entries of `sweep` in order.

    `question` is used if the CSV has no questions; it is modelled on the README's samples.
    """

    name: str
    folders: tuple[str, ...]
    controls: tuple[str, ...]
    form: Form
    question: str = ""
    errata: tuple[str, ...] = ()


SUBTASKS_2D = (
    Subtask(
        "shape_discrimination",
        ("geometric_dataset", "shape_disambiguation"),
        ("num_shapes", "max_instances", "min_distance"),
        "integer",
        errata=(
            "the paper counts 241 questions, the file has 240",
            "60 of 240 images hold fewer kinds of shapes than num_shapes says (failed placements)",
        ),
    ),
    Subtask(
        "joint_shape_color",
        ("color_and_shape_disambiguation", "shape_color_discrimination"),
        ("num_shapes", "max_instances"),
        "integer",
        errata=(
            (
                "the paper calls the second control the number of unique colours; the generator"
                " varies instances, and the colours are always eight"
            ),
            '"1" is the correct answer to 358 of 408 questions, which no published model beats',
        ),
    ),
    Subtask(
        "letter_disambiguation",
        ("letter_disambiguation",),
        ("num_letters", "contrast", "spacing"),
        "letters",
        "The image shows letters, each made of a grid of small squares. Respond with the letters"
        " only, from left to right.",
        (
            (
                "a larger spacing also shrinks the dots, and on near-white grounds every contrast"
                " level is faint"
            ),
            (
                "some images of the repository's tree, which holds only samples, were renamed:"
                " 1.png shows row 0.svg"
            ),
        ),
    ),
    Subtask(
        "form_constancy",
        ("visual_form_constancy",),
        ("rotation", "aspect_ratio", "size", "shape_change"),
        "option",
        "The image shows a target pattern and four options. Which option shows the same pattern as"
        f" the target? {OPTION_INSTRUCTION}",
        (
            (
                "with shape_change 0 the three wrong options are near copies of each other: the"
                " answer is the odd one out"
            ),
        ),
    ),
    Subtask(
        "visual_spatial",
        ("visual_spatial",),
        ("rows", "columns", "grids"),
        "integer",
        errata=('always answering "0" scores 40.69 %, which is a published score',),
    ),
    Subtask(
        "figure_ground",
        ("visual_figure_ground",),
        ("num_shapes", "density"),
        "option",
        "The image shows a target pattern and four options, each of them on a noisy background."
        f" Which option shows the same pattern as the target? {OPTION_INSTRUCTION}",
        (
            "the README says that the target is embedded in noise; in the images, the options are",
            "with circles only, two wrong options can equal the target",
        ),
    ),
    Subtask(
        "visual_closure",
        ("visual_closure",),
        ("offset", "edges_distorted", "edges_removed", "edges_halved"),
        "option",
        "The image shows a complete target shape and four options with missing parts. Which option"
        f" would be the target once its missing parts are filled in? {OPTION_INSTRUCTION}",
        ("the paper counts 166 questions, the file has 168",),
    ),
)
SUBTASKS_3D = (
    Subtask(
        "shape_discrimination",
        ("3D_shape_discrimination",),
        ("num_shapes", "max_instances", "min_visibility"),
        "integer",
        errata=("the same 120 renders as joint_shape_color, all with the same scene and lighting",),
    ),
    Subtask(
        "joint_shape_color",
        ("3D_color_and_shape_disambiguation",),
        ("num_shapes", "max_instances", "min_visibility"),
        "integer",
        errata=(
            "the paper says eight colours, the generator has five",
            '"1" is the correct answer to 90.83 % of the questions',
        ),
    ),
    Subtask(
        "letter_disambiguation",
        ("3D_letter_disambiguation",),
        ("dot_type", "dot_size", "spacing", "num_letters"),
        "letters",
    ),
    Subtask(
        "form_constancy",
        ("3D_visual_form_constancy",),
        ("num_shapes", "rotation"),
        "yes_no",
        errata=(
            "every correct answer is No, so this measures how often a model says No",
            "rotating a sphere changes nothing",
        ),
    ),
    Subtask(
        "visual_spatial",
        ("3D_visual_spatial",),
        ("max_row", "max_column"),
        "integer",
        errata=(MIRRORED_NOTE,),
    ),
)
SUBTASKS: Mapping[str, Mapping[str, Subtask]] = {
    "2D": {subtask.name: subtask for subtask in SUBTASKS_2D},
    "3D": {subtask.name: subtask for subtask in SUBTASKS_3D},
}
CLOSURE_SHAPES = ("capsule", "star", "hexagon", "circle", "pentagon", "rectangle", "triangle")


def read_controls(subtask: Subtask, sweep: str, filename: str) -> dict[str, Any]:
    """Parse the control parameters, by name, from the text of a tuple or list.

    Closure's shape is not in its sweep: it follows from the image's number, 24 images per shape.
    Raises ValueError.
    """
    try:
        values = ast.literal_eval(sweep)
    except (ValueError, SyntaxError, MemoryError, RecursionError) as exc:
        raise ValueError(f"sweep must be a tuple or list, found {sweep!r}") from exc
    names = subtask.controls
    if not isinstance(values, tuple | list) or len(values) != len(names):
        raise ValueError(f"sweep must hold {', '.join(names)}, found {sweep!r}")
    numbers = (value for value in values if not isinstance(value, str))
    if not all(isinstance(value, int | float) and math.isfinite(value) for value in numbers):
        raise ValueError(f"sweep must hold numbers and words, found {sweep!r}")
    controls = dict(zip(names, values, strict=True))
    if subtask.name == "visual_closure" and (number := re.fullmatch(r"(\d+)\.\w+", filename)):
        place = int(number[1]) // 24
        controls |= {"shape": CLOSURE_SHAPES[place]} if place < len(CLOSURE_SHAPES) else {}
    return controls


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


def standardize_answer(answer: str, form: Form) -> str | None:
    """Convert an answer to the form in which answers are compared; None if it does not have that
    form.

    Integers lose leading zeros, options become their digit, letters are capitals without spaces,
    yes and no are spelt "Yes" and "No". This is the standardisation that the paper describes (5.1);
    its code was not published.
    """
    text = answer.strip().strip("*`\"'. ")
    if form == "integer":
        # no count is longer, and Python refuses to parse 5,000 digits
        match = re.fullmatch(r"(\d{1,100})(?:\.0+)?", text)
        return str(int(match[1])) if match else None
    if form == "option":
        match = re.fullmatch(r"(?:option\s*)?[(\[<]?([1-4])[)\]>]?", text, re.I)
        return match[1] if match else None
    if form == "letters":
        plain = re.sub(r"[\s,;-]+", "", text).upper()
        return plain if re.fullmatch("[A-Z]+", plain) else None
    return {"yes": "Yes", "no": "No"}.get(text.casefold())


@dataclass(frozen=True)
class SweepScorer(ControlScorer):
    """Scores the subtask `name` of `kind` 2D or 3D by exact match in its `form`, also by levels of
    its `controls`.

    `accuracy_along` is reported for every level of each control, `kruskal_*` for each control.
    """

    name: str
    kind: str
    form: Form
    controls: tuple[str, ...] = ()

    suite = "Do You See Me"
    totals = TOTALS
    headlines = ("mean_2d", "mean_3d")

    @property
    def part(self) -> str:
        """The subtask's name with its dimension."""
        return f"{self.kind} {self.name}"

    def compare(self, answer: str, row: SampleRow) -> Score | None:
        """Compare the standard forms exactly; an answer that has no standard form is unreadable."""
        given, wanted = (
            standardize_answer(answer, self.form),
            standardize_answer(row.answer or "", self.form),
        )
        if given is None:
            return Score(Verdict.UNREADABLE)
        return Score.of(given == wanted)

    def chance(self, samples: Samples) -> Levels:
        """Return the chance level: 1/4 for options, 1/2 for yes and no, 1/26 per letter; empty for
        counts, which are open-ended."""
        if self.form == "letters":
            return {"accuracy": fmean(26.0 ** -len(row.answer or "") for row in samples.values())}
        return (
            {"accuracy": {"option": 0.25, "yes_no": 0.5}[self.form]}
            if self.form != "integer"
            else {}
        )


ROLES = ("perception", "reasoning")


@dataclass(frozen=True)
class JointScorer(Scorer):
    """Scores the joint form: one image with a perception question and a reasoning question (paper,
    3.1 and
    5.2.1).

    `perception_wrong_when_reasoning_right` covers the images with a right reasoning answer; `both`
    is the share of images with both answers right.
    """

    headlines = ("both",)

    def metrics(self, scores: PointScores) -> Sequence[Metric]:
        """Return the accuracies of perception and reasoning, the share of images with both right,
        and the share of right conclusions that follow a wrong perception."""
        sides: dict[str, dict[str, list[str]]] = {role: defaultdict(list) for role in ROLES}
        for name, row in scores.keyed_samples.items():
            if row.meta.get("role") in sides and "image" in row.meta:
                sides[row.meta["role"]][str(row.meta["image"])].append(name)
        seen, thought = sides.values()
        whole = {
            image: [*names, *thought[image]] for image, names in seen.items() if image in thought
        }
        metrics = []
        for role, side in sides.items():
            groups = {image: side[image] for image in whole}
            metrics.append(compute_group_metric(f"{role}_accuracy", "image", scores, groups))
        both = compute_group_metric("both", "image", scores, whole)
        wrong: dict[str, float] = {}
        for image in sorted(whole):
            cut = len(seen[image])
            draws = list_right_by_draw(map(scores.draws, whole[image]))
            concluded = [not all(draw[:cut]) for draw in draws if all(draw[cut:])]
            if concluded:
                wrong[image] = fmean(concluded)
        name = "perception_wrong_when_reasoning_right"
        return [*metrics, both, replace(both, name=name, units=wrong)]
