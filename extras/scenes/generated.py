"""The task of generated Do You See Me questions: the seven 2D and five 3D subtasks and the two
patch studies, with any number of questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from looktwice.eval.tasks.base import Facts, Fields, Subset, TaskError, suggest_among
from looktwice.eval.tasks.photographs import deal_evenly, make_rng
from looktwice.eval.tasks.swept import KindAndControls, SceneParameters, SweptTask
from looktwice.extras.do_you_see_me.subtasks import SweepScorer
from looktwice.extras.scenes import closure, counting, grids, sheets
from looktwice.extras.scenes.scene import Scene, SceneType, find_valid_try
from looktwice.extras.scenes.solid_scenes import SOLID_SCENE_TYPES
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.sample import Item, Sample

KINDS: Mapping[str, SceneType] = {
    kind.name: kind
    for kind in (
        sheets.GROUND_TYPE,
        grids.GRIDS_TYPE,
        counting.COLORED_TYPE,
        counting.SHAPES_TYPE,
        grids.LETTERS_TYPE,
        sheets.CONSTANCY_TYPE,
        closure.CLOSURE_TYPE,
        counting.ROTATION_TYPE,
        counting.COUNTING_TYPE,
    )
} | SOLID_SCENE_TYPES
ALL_MARKED_NOTE = "every object is a mark, which can give counts away"
TARGETS_MARKED_NOTE = "every object that is to be counted is a mark, which gives the count away"


@dataclass(frozen=True)
class GeneratedDoYouSeeMe(SweptTask):
    """`n` generated questions of the Do You See Me subtask `name`, each on a separate picture.

    Names: figure_ground, visual_spatial, joint_shape_color, shape_discrimination,
    letter_disambiguation, form_constancy, visual_closure; shape_discrimination_3d,
    joint_shape_color_3d, letter_disambiguation_3d, form_constancy_3d, visual_spatial_3d, with
    solids from looktwice's own renderer on plain ground; and patch_rotation, patch_counting (App.
    O). Canvases, control parameters and questions are the authors' (but pictures of a grid of
    solids have half the width and height). `controls` sets the levels of parameters, one level or a
    list for each; other parameters have the paper's levels. In each block of as many questions as
    there are combinations of levels, each combination occurs once; a level that is listed twice
    occurs twice as often. Levels are in `meta`, under the same names as for `DoYouSeeMe`.

    `official` also reproduces the flaws of the authors' images: see `facts`. Question `i` depends
    only on the settings, `seed` and `i`, not on `n`. The content of the drawing is in each item's
    `truth`, not in its sample. With `marks`, all shapes, letters, cells or options are boxes in the
    sample; with `marks: asked`, only those to be counted. They are meant for oracles, zooms and
    measurements of attention, because they give the counts away. Raises TaskError.
    """

    name: str
    n: int = 100
    seed: int = 0
    official: bool = False
    controls: Mapping[str, Any] = field(default_factory=dict)
    marks: bool | Literal["asked"] = False
    subset: Subset = Subset()

    def __post_init__(self) -> None:
        if self.name not in KINDS:
            raise TaskError(f"no subtask is named {self.name!r}{suggest_among(self.name, KINDS)}")
        super().__post_init__()
        if self.official and not self.kind.flaws:
            raise TaskError(
                f"official: the code of {self.name} was not published, so its flaws cannot be"
                " reproduced"
            )
        if self.marks == "asked" and not self.make_scene(0).counted_label:
            raise TaskError(
                f"marks: `asked` is for questions that count objects, but {self.name} asks"
                " something else"
            )

    @property
    def kind(self) -> SceneType:
        """The definition of the subtask."""
        return KINDS[self.name]

    @property
    def _kind_and_controls(self) -> KindAndControls:
        return self.name, self.kind.controls

    @property
    def facts(self) -> Facts:
        """The origin of the truth, and the flaws of the authors' images that were reproduced."""
        notes = ["as the authors draw"] if self.official else []
        if self.kind.flaws and not self.official:
            notes.append("without the flaws of the authors' images")
        if self.marks:
            notes.append(ALL_MARKED_NOTE if self.marks is True else TARGETS_MARKED_NOTE)
        return Facts(
            f"made ({self.kind.group})",
            "by construction",
            self.kind.flaws if self.official else (),
            "; ".join(notes),
            scorer=SweepScorer(self.kind.name, self.kind.group, self.kind.form, tuple(self.levels)),
        )

    def make_scene(self, number: int) -> Scene:
        """Make the scene of question `number`, with its key, truth, marks and painter; repeated
        calls return the same scene."""
        words = (self.name, self.seed, "official" if self.official else "ours")

        def deal(cards: Sequence[Any]) -> Any:
            return deal_evenly(number, cards, "answer", len(cards), *words)

        plan = self._plan(number)
        levels = (f"{name}={level}" for name, level in plan.items())
        rng = make_rng("scene", number, *words, *levels)
        tries = self.kind.draw(SceneParameters(rng, plan, deal, self.official))
        return find_valid_try(tries, self.name, plan)

    def _item(self, number: int) -> Item:
        scene, name = self.make_scene(number), self._id(number)
        meta = {"image": name, **self._plan(number), **scene.meta}
        meta |= {"subtask": self.kind.name, "kind": self.kind.group}
        meta |= {"prompt": scene.question, "official": self.official}
        images = (Picture(scene.paint(), name),)
        marks = scene.counted_marks if self.marks == "asked" else scene.marks if self.marks else ()
        sample = Sample(name, scene.question, images, (), marks, meta)
        return Item(sample, scene.answer, scene.truth)

    def _get_known_fields(self, number: int) -> Fields:
        """Return the fields by which a subset may select; the scene is made only if the levels do
        not suffice."""
        plan = self._plan(number)
        if {self.subset.per, self.subset.whole} - {None} <= plan.keys():
            return plan
        scene = self.make_scene(number)
        return {**plan, **scene.meta, "answer": scene.answer}
