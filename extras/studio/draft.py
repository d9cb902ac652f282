"""The content of the studio's page (a question on pictures with marks, and stages), which converts
to and from a line of samples.jsonl and a study."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import cv2
import numpy as np
from pydantic import Field, with_config
from typing_extensions import TypedDict

from looktwice.eval.listing import simplify_default
from looktwice.eval.tasks import MarkedScenes
from looktwice.pipelines.config.classes import ConfigError, Faults
from looktwice.pipelines.config.load import load, resolve_references
from looktwice.pipelines.disk import write_file
from looktwice.pipelines.json_input import ALLOW_EXTRA, FORBID_EXTRA, CheckedAs, read_as
from looktwice.pipelines.marks import Mark, Mask
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.sample import Item
from looktwice.pipelines.state import Stage
from looktwice.prompting import Ask, Circles, MultipleChoice

Node = dict[str, Any]
FOLDER_TASK: Mapping[str, Any] = {"use": "eval.tasks.Folder", "path": "."}
QUESTIONS_FILE = "samples.jsonl"
Coordinate = Annotated[float, Field(ge=0, le=1e6)]
POCKET_NAME = "Pocket"
DEFAULT_MODELS: Mapping[str, Node] = {POCKET_NAME: {"use": "pipelines.models.Pocket"}}
"""The models that the studio may call by default."""


@with_config(ALLOW_EXTRA)
class PageMark(TypedDict, total=False):
    """The fields of a mark that the page sends, except for the coordinates of a point or box."""

    label: str
    image: Annotated[int, Field(ge=0)]
    lasso: Annotated[list[tuple[Coordinate, Coordinate]], Field(min_length=1)]


@dataclass(frozen=True)
class Slot:
    """A stage on the page: its name, its configuration node, and whether it is switched on."""

    __pydantic_config__ = FORBID_EXTRA
    slot: str
    node: Node
    on: bool = True


@dataclass(frozen=True)
class Draft:
    """The page's question and stages.

    `images` are names of files in the studio's folder. Marks have the form of samples.jsonl, except
    that a region drawn with the lasso has its corners in `lasso`, in pixel-centre coordinates.
    `model` is the name of a model that the studio may call; `each` and `sweep` are those of the
    study.
    """

    __pydantic_config__ = FORBID_EXTRA
    id: str = "studio"
    question: str = "What is at the mark?"
    images: tuple[str, ...] = ()
    choices: tuple[str | dict[str, str], ...] = ()
    answer: str | None = None
    marks: tuple[Annotated[Node, CheckedAs(PageMark)], ...] = ()
    meta: Node = field(default_factory=dict)
    stages: tuple[Slot, ...] = ()
    model: str = POCKET_NAME
    draws: Annotated[int, Field(ge=1, le=100)] = 1
    seed: int = 0
    each: tuple[Node, ...] = ()
    sweep: dict[str, list[Any]] = field(default_factory=dict)

    @classmethod
    def from_item(
        cls, item: Item, stages: Mapping[str, Stage], keep: Callable[[Picture], str], **more: Any
    ) -> Draft:
        """Build a draft from an item and stages; `keep` saves a picture and returns its name."""
        sample = item.sample
        return cls(
            sample.id,
            sample.question,
            tuple(map(keep, sample.images)),
            tuple(c if isinstance(c, str) else {"image": keep(c)} for c in sample.choices),
            item.answer,
            tuple(to_page_mark(mark) for mark in sample.marks),
            dict(sample.meta),
            tuple(Slot(name, simplify_default(stage)) for name, stage in stages.items()),
            **more,
        )

    def to_dict(self) -> Node:
        """Return the draft as the page's JSON."""
        return asdict(self)

    @property
    def files(self) -> list[str]:
        """The names of the pictures of the question, then those of its choices."""
        of_choices = [choice["image"] for choice in self.choices if isinstance(choice, dict)]
        return [*self.images, *of_choices]

    def make_row(self, sizes: Sequence[tuple[int, int]]) -> Node:
        """Make the row for samples.jsonl; `sizes` are the (width, height) of its images."""
        row: Node = {"id": self.id, "question": self.question}
        row |= {"image": self.images[0]} if len(self.images) == 1 else {"images": [*self.images]}
        row |= {"choices": [*self.choices], "answer": self.answer, "meta": self.meta}
        row["marks"] = [to_task_mark(mark, sizes) for mark in self.marks]
        return {name: value for name, value in row.items() if value or name == "question"}

    def list_nodes(self, after: int | None = None) -> dict[str, Node]:
        """Return the nodes of the stages that are switched on, by slot, among the first `after`
        stages or all. Raises ConfigError for a duplicate name."""
        named = [stage.slot for stage in self.stages]
        if twice := [name for name in named if named.count(name) > 1 or not name]:
            raise ConfigError([f"stages.{twice[0]}: each stage needs a unique name; change one"])
        return {stage.slot: stage.node for stage in self.stages[:after] if stage.on}

    def make_study(self, models: Mapping[str, Node], task: Mapping[str, Any] = FOLDER_TASK) -> Node:
        """Make the study of this question. Raises ConfigError for an unknown model."""
        if self.model not in models:
            there = ", ".join(models)
            raise ConfigError([f"model: there is no {self.model!r}; use one of {there}"])
        node: Node = {"task": {**task}, "model": models[self.model], "stages": self.list_nodes()}
        if "'ref':" in repr(node["stages"]):
            node |= {"model": self.model, "models": {**models}}
        node |= {"sweep": self.sweep, "each": [*self.each], "seed": self.seed}
        node["draws"] = self.draws if self.draws > 1 else 0
        return {name: value for name, value in node.items() if value or name == "stages"}

    def with_study(self, text: str, file: Path, models: Mapping[str, Node]) -> Draft:
        """Return the draft with the stages, model and draws of a study's text, which is saved to
        `file`.

        The model must be one that the studio may call, so that pasted text cannot add another
        server. Raises ConfigError.
        """
        write_file(file, text)
        faults = Faults()
        node = resolve_references(load(file), faults)
        if all(isinstance(part, Mapping) and "use" in part for part in node.values()):
            node = {"stages": node}  # the gallery's notation
        stages = node.get("stages")
        if faults:
            raise ConfigError(faults)
        if not stages or not isinstance(stages, Mapping):
            raise ConfigError(["stages: missing; write `stages: {mark: {use: ...}}`"])
        asked = node.get("model", models[self.model])
        named = [name for name, model in models.items() if asked in (name, model)]
        if not named:
            raise ConfigError(
                [
                    f"model: the studio may ask only {', '.join(models)}; name others when you"
                    " start it, such as `looktwice studio STUDY.yaml`"
                ]
            )
        slots = [
            {"slot": str(name), "node": part} for name, part in stages.items() if part is not None
        ]
        study = {"each": [], "sweep": {}, "stages": slots, "model": named[0]}
        for name in ("each", "sweep", "draws", "seed"):
            if node.get(name) is not None:
                study[name] = node[name]
        draft: Draft = read_as(Draft, json.dumps(self.to_dict() | study))
        return draft


def make_example(keep: Callable[[Picture], str]) -> Draft:
    """Make a question on a marked picture that Pocket can answer; `keep` is as for
    `Draft.from_item`."""
    item = next(iter(MarkedScenes(kind="shape")))
    choose: dict[str, Stage] = {"multiple_choice": MultipleChoice()}
    return Draft.from_item(item, {"mark": Circles(radius=28), **choose, "ask": Ask()}, keep)


def to_page_mark(mark: Mark) -> Node:
    """Convert a mark for the page: a region gets the corners of its outline."""
    node = mark.to_dict()
    if isinstance(mark, Mask):
        pixels = mark.pixels.astype(np.uint8)
        lines, _ = cv2.findContours(pixels, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
        node["outline"] = max(lines, key=cv2.contourArea)[:, 0].tolist()
    return node


def to_task_mark(mark: Node, sizes: Sequence[tuple[int, int]]) -> Node:
    """Convert a mark for samples.jsonl: the inside of a lasso becomes the pixels of a mask."""
    if "lasso" not in mark:
        return {key: value for key, value in mark.items() if key != "outline"}
    image = mark.get("image", 0)
    pixels = np.zeros(sizes[image][::-1], np.uint8)
    cv2.fillPoly(pixels, [np.array(mark["lasso"]).round().astype(np.int32)], 1)
    return Mask(mark.get("label", ""), pixels.astype(bool), image).to_dict()
