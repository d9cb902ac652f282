"""Six of BLINK's tasks on rendered scenes, whose ground truth is known for every pixel."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import permutations, product, repeat
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from looktwice.eval.tasks.base import Subset
from looktwice.eval.tasks.marked_scenes.task import KindTask
from looktwice.eval.tasks.photographs import make_rng
from looktwice.eval.tasks.photos.correspondence import (
    MIN_BORDER_DISTANCE,
    choose_depth_points,
    choose_points,
    find_corners,
    make_depth_marks,
    make_marks,
)
from looktwice.eval.tasks.swept import Control, IntegerControl, Level, SceneParameters
from looktwice.extras.scenes.scene import find_valid_try
from looktwice.extras.scenes.scenes3d import (
    COLORS,
    MIN_DISTANCE_FACTOR,
    SHAPES,
    SKY,
    XYZ,
    Camera,
    Floats,
    Solid,
    View,
    World,
    draw_grain,
    to_linear_color,
)
from looktwice.pipelines.marks import Marks, Point
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.sample import Item, Sample

PICTURE_SIZE = (480, 360)  # pixels
MAX_COORDINATE = 4.5  # largest coordinates of solids, in units
CAMERA_DISTANCE = 15.0  # horizontal distance of cameras from the centre, in units
LOW_CAMERA_HEIGHT = 2.6  # height, in units, below which a camera is low
SMOOTH_NEIGHBOURHOOD = np.ones(
    (9, 9), np.uint8
)  # neighbourhood of a marked point that shows a single surface


@dataclass(frozen=True, eq=False)
class ViewQuestion:
    """A question about views of one world; `marks` lie on the pictures, `answer` is a letter of the
    choices."""

    views: tuple[View, ...]
    question: str
    choices: tuple[str, ...]
    answer: str
    marks: Marks = ()


def place_camera(degrees: float, height: float) -> Camera:
    """Return a camera that points at the centre, `degrees` to the right of the front; low cameras
    see more of the background."""
    turn, over = math.radians(degrees), 1.8 if height < LOW_CAMERA_HEIGHT else 0.8
    return Camera(
        (CAMERA_DISTANCE * math.sin(turn), -CAMERA_DISTANCE * math.cos(turn), height),
        (0.0, 0.0, over),
        PICTURE_SIZE,
    )


def draw_view(
    params: SceneParameters,
    appearances: Sequence[tuple[str, str | XYZ]],
    height: float,
    degrees: float = 0.0,
) -> View:
    """Place solids with these shapes and colours at random, as many as fit without touching, and
    return their view from a camera at this height."""
    rng, solids = params.rng, list[Solid]()
    for shape, color in appearances:
        for _ in range(200):
            x, y, size = rng.uniform(
                (-MAX_COORDINATE, -MAX_COORDINATE, 0.5), (MAX_COORDINATE, MAX_COORDINATE, 1.1)
            ).tolist()
            solid = Solid.on_ground(shape, color, x, y, size)
            if solid.is_separated(solids, MIN_DISTANCE_FACTOR):
                solids.append(solid)
                break
    tint = rng.uniform(70, 190) + rng.uniform(-20, 20, 3)
    light = (float(rng.choice([-1, 1]) * rng.uniform(4, 9)), float(rng.uniform(-9, -3)), 11.0)
    world = World(tuple(solids), to_linear_color(tint.tolist()), draw_grain(rng), light)
    return View(world, place_camera(degrees, height))


def draw_appearances(params: SceneParameters, count: int) -> Sequence[tuple[str, str]]:
    """Draw `count` different pairs of shape and colour at random."""
    return params.shuffled(product(SHAPES, COLORS))[:count]


def find_smooth_points(view: View, solids_only: bool = False) -> NDArray[np.int64]:
    """Return the pixels (n, 2) whose neighbourhood shows a single surface, away from the border."""
    identity = view.hits.identity.astype(np.float32)
    smooth = (
        cv2.dilate(identity, SMOOTH_NEIGHBOURHOOD) == cv2.erode(identity, SMOOTH_NEIGHBOURHOOD)
    ) & (identity > SKY)
    smooth &= identity >= 0 if solids_only else True
    rim = int(MIN_BORDER_DISTANCE)
    rows, columns = np.nonzero(smooth[rim:-rim, rim:-rim])
    return np.stack([columns, rows], axis=1) + rim


DEPTH_QUESTION = "Which point is closer to the camera?"


def draw_depth(params: SceneParameters) -> ViewQuestion | None:
    """Ask which of two points is closer; their distances differ by a factor of `ratio` to 1.3 x
    `ratio`.

    The closer point is the lower one in half of the questions, and the one farther from the image's
    centre in half.
    """
    letter, lower, outer = params.deal(list(product("AB", (False, True), (False, True))))
    ratio = float(params.levels["ratio"])
    view = draw_view(
        params, draw_appearances(params, 8), float(params.rng.uniform(LOW_CAMERA_HEIGHT, 5))
    )
    points = find_smooth_points(view)
    near = np.asarray(1 / view.hits.distance[points[:, 1], points[:, 0]], np.float64)
    for _ in range(20):
        pair = choose_depth_points(
            params.rng, points.astype(float), near, PICTURE_SIZE, lower, outer, ratio
        )
        if pair and pair[1] <= 1.3 * ratio:
            marks = make_depth_marks(pair[0], letter)
            return ViewQuestion(
                (view,), DEPTH_QUESTION, ("A is closer", "B is closer"), letter, marks
            )
    return None


REFLECTANCE_QUESTION = "Which point has darker surface color, or the colors is about the same?"
SHADE_CHOICES = ("A is darker", "B is darker", "About the same")
MAX_SAME_RATIO, MIN_CLEAR_RATIO = (
    1.08,
    1.2,
)  # ratios of two values that are about the same, and clearly different


def draw_reflectance(params: SceneParameters) -> ViewQuestion | None:
    """Ask which of two points on gray solids reflects less, or whether they are about the same.

    Their brightness in the picture is balanced independently of their reflectance: for every
    answer, A is darker in a third of the questions, B in a third, and neither in a third.
    """
    letter, looks_like = params.deal(list(product("ABC", repeat=2)))
    pale, ratio = float(params.rng.uniform(0.5, 0.9)), float(params.levels["ratio"])
    grays = [(pale / ratio ** (number % 2),) * 3 for number in range(8)]
    view = draw_view(params, [(params.pick(SHAPES), gray) for gray in grays], 6.0)
    points = params.rng.permutation(find_smooth_points(view, solids_only=True))[:3000]
    columns, rows = points[: len(points) // 2 * 2].reshape(-1, 2, 2).T
    owner = view.hits.identity[rows, columns]
    albedo, light = view.hits.albedo[rows, columns, 0], view.hits.radiance[rows, columns, 0]
    fits = (
        (owner[0] != owner[1]) & compare_values(albedo, letter) & compare_values(light, looks_like)
    )
    if not fits.any():
        return None
    number = int(fits.argmax())
    places = zip("AB", columns[:, number], rows[:, number], strict=True)
    marks = tuple(Point(label, float(x), float(y)) for label, x, y in places)
    return ViewQuestion((view,), REFLECTANCE_QUESTION, SHADE_CHOICES, letter, marks)


def compare_values(values: Floats, letter: str) -> NDArray[np.bool_]:
    """Return a mask of the pairs (2, n) in which the first value is clearly smaller (`letter` A),
    the second is (B), or neither is (C)."""
    first, second = values
    if letter == "C":
        return np.asarray(np.maximum(first, second) <= MAX_SAME_RATIO * np.minimum(first, second))
    return np.asarray(
        MIN_CLEAR_RATIO * first < second if letter == "A" else MIN_CLEAR_RATIO * second < first
    )


MOTION_QUESTION = (
    "The two images are frames of a video of a static scene. Is the camera moving left or right"
    " around the scene?"
)


def draw_motion(params: SceneParameters) -> ViewQuestion:
    """Ask to which side a camera moves as it turns `angle` degrees around the centre."""
    letter, angle = params.deal("AB"), float(params.levels["angle"])
    start = float(params.rng.uniform(-20, 20))
    first = draw_view(params, draw_appearances(params, 8), 2.5, start)
    second = View(first.world, place_camera(start + angle * (1 if letter == "B" else -1), 2.5))
    return ViewQuestion((first, second), MOTION_QUESTION, ("left", "right"), letter)


CORRESPONDENCE_QUESTION = (
    "Which point on the second image shows the same spot as the point REF on the first image?"
)


def draw_correspondence(params: SceneParameters) -> ViewQuestion | None:
    """Ask which point of a second view, from `angle` degrees to a side, shows the same spot as the
    point REF of the first view.

    The number of wrong points that are nearer to REF's position than the right one, `rank`, is
    balanced.
    """
    letter, rank = params.deal(list(product("ABCD", range(4))))
    angle = float(params.levels["angle"]) * params.pick((-1, 1))
    first = draw_view(params, draw_appearances(params, 8), 6.0)
    second = View(first.world, place_camera(angle, 6.0))
    calm, corners = find_smooth_points(first), find_corners(first.pixels).astype(int)
    mask = np.zeros(first.hits.identity.shape, bool)
    mask[calm[:, 1], calm[:, 0]] = True
    corners = corners[mask[corners[:, 1], corners[:, 0]]]
    landed, seen = first.locate_in(second, corners)
    places = [corners[seen] * 1.0, landed[seen]]
    chosen = choose_points(params.rng, places, PICTURE_SIZE, rank) if seen.sum() > 3 else None
    if chosen is None:
        return None
    marks = make_marks(places[0][chosen[0]], places[1][chosen], letter)
    names = tuple(f"Point {label}" for label in "ABCD")
    return ViewQuestion((first, second), CORRESPONDENCE_QUESTION, names, letter, marks)


RELATIONS = ("to the left of", "to the right of", "in front of", "behind")
MIN_SIDEWAYS_DISTANCE, MIN_DEPTH_DISTANCE = (
    1.2,
    1.5,
)  # minimum distances, in units, between solids beside, and in front of, each other


def draw_relation(params: SceneParameters) -> ViewQuestion | None:
    """Ask whether one solid is beside, in front of or behind another, as seen by the camera."""
    letter, relation = params.deal("AB"), params.levels["relation"]
    view = draw_view(params, draw_appearances(params, 6), 6.0)
    own = np.array([solid.center for solid in view.world.solids]) @ view.camera.axes.T
    value, least = (
        (own[:, 0], MIN_SIDEWAYS_DISTANCE)
        if relation in RELATIONS[:2]
        else (own[:, 2], MIN_DEPTH_DISTANCE)
    )
    sign = 1 if (relation in ("to the left of", "in front of")) == (letter == "A") else -1
    whole = np.flatnonzero(view.measure_visible_shares() > 0.6)
    for first, second in params.shuffled(permutations(whole.tolist(), 2)):
        if sign * (value[second] - value[first]) >= least:
            names = [view.world.solids[number].name for number in (first, second)]
            question = f"Is the {names[0]} {relation} the {names[1]}?"
            return ViewQuestion((view,), question, ("yes", "no"), letter)
    return None


MAX_COUNTED_SOLIDS = 6


def draw_counting(params: SceneParameters) -> ViewQuestion | None:
    """Ask how many solids have a given colour; the larger part of each solid is visible."""
    place, key = params.deal(list(product(range(4), range(1, MAX_COUNTED_SOLIDS + 1))))
    low = max(0, key - place)
    asked, *others = params.shuffled(COLORS)
    count = max(params.levels["objects"], key)
    colors = [asked if n < key else params.pick(others) for n in range(count)]
    view = draw_view(params, [(params.pick(SHAPES), color) for color in colors], 9.0)
    if len(view.world.solids) < count or view.measure_visible_shares().min() <= 0.5:
        return None
    choices = tuple(str(low + number) for number in range(4))
    return ViewQuestion((view,), f"How many {asked} objects are there?", choices, "ABCD"[key - low])


@dataclass(frozen=True)
class RenderedKind:
    """A kind of question: BLINK's name of the task, the function that draws a question (None for a
    failed try), and the control parameter."""

    subtask: str
    draw: Callable[[SceneParameters], ViewQuestion | None]
    control: Control


RATIO_CONTROL = Control("ratio", (1.15, 1.4, 1.8), 1.02, 3)
KINDS: Mapping[str, RenderedKind] = {
    "depth": RenderedKind("Relative_Depth", draw_depth, RATIO_CONTROL),
    "reflectance": RenderedKind(
        "Relative_Reflectance", draw_reflectance, Control("ratio", (1.3, 1.6, 2.0), 1.21, 2.4)
    ),
    "motion": RenderedKind(
        "Multi-view_Reasoning", draw_motion, Control("angle", (3, 8, 15), 0.5, 40)
    ),
    "correspondence": RenderedKind(
        "Visual_Correspondence", draw_correspondence, Control("angle", (5, 15, 30), 0, 45)
    ),
    "relation": RenderedKind("Spatial_Relation", draw_relation, Control("relation", RELATIONS)),
    "counting": RenderedKind(
        "Counting", draw_counting, IntegerControl("objects", (6, 9, 12), 1, 16)
    ),
}

CONTROLS = {name: (kind.control,) for name, kind in KINDS.items()}


@dataclass(frozen=True)
class RenderedScenes(KindTask):
    """`n` questions of one `kind`, in the wording and format of BLINK, about rendered solids.

    Kinds: depth, reflectance, motion (multi-view reasoning), correspondence, relation, counting.
    `controls` sets the levels of the kind's parameter, one level or a list: the `ratio` of the
    distances or of the reflectances, the `angle` in degrees between two views, the `relation`, or
    the number of `objects`. Every level occurs equally often, and levels are slices of the scores.

    Pictures are 480 x 360 pixels. Nothing is drawn on them: points are in the sample's marks, and
    any stage may draw them. `make_views(number)` returns a question's views with their cameras;
    their `hits` give the identity, distance, normal, reflectance and light at every pixel. Solids,
    cameras and light are also in each item's `truth`. Cues in the picture that might predict the
    answer are balanced: height and eccentricity of the closer point, brightness of the darker one,
    and distance of the right point from REF's position. Question `i` depends only on `kind`,
    `controls`, `seed` and `i`. `looktwice make` saves the questions in BLINK's columns. Raises
    TaskError.
    """

    kind: str
    n: int = 100
    seed: int = 0
    controls: Mapping[str, Any] = field(default_factory=dict)
    subset: Subset = Subset()

    _controls = CONTROLS
    _note = "rendered images"

    def make_question(self, number: int) -> ViewQuestion:
        """Make question `number` with its views; repeated calls return the same question."""
        plan = self._plan(number)
        rng = make_rng("rendered", self.kind, self.seed, number, *map(str, plan.values()))
        params = SceneParameters(rng, plan, partial(self._deal, number))
        return find_valid_try(map(KINDS[self.kind].draw, repeat(params)), self.kind, plan)

    def make_views(self, number: int) -> tuple[View, ...]:
        """Return the views of question `number`, with the ground truth of every pixel."""
        return self.make_question(number).views

    def _item(self, number: int) -> Item:
        return make_item(self.kind, self.seed, number, tuple(self._plan(number).items()))


@lru_cache(192)  # a run's page needs the same questions again
def make_item(kind: str, seed: int, number: int, levels: tuple[tuple[str, Level], ...]) -> Item:
    """Build question `number` of a kind at these levels of its control."""
    task = RenderedScenes(kind, seed=seed, controls=dict(levels))
    asked, name = task.make_question(number), f"{kind}_{number:05}"
    pictures = tuple(
        Picture(view.pixels, f"{name} image {place}") for place, view in enumerate(asked.views, 1)
    )
    meta = {"kind": kind, "subtask": KINDS[kind].subtask, **dict(levels)}
    sample = Sample(name, asked.question, pictures, asked.choices, asked.marks, meta)
    world = asked.views[0].world
    truth = {
        "objects": [solid.to_dict() for solid in world.solids],
        "light": [round(part, 4) for part in world.light],
        "cameras": [view.camera.to_dict() for view in asked.views],
    }
    return Item(sample, asked.answer, truth)
