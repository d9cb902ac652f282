"""What stands on the studio's page: a question on pictures with marks, and stages; as a line of
samples.jsonl, and as a study, both ways."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import cv2
import numpy as np
from pydantic import Field, with_config
from typing_extensions import TypedDict

from looktwice.eval.listing import plain
from looktwice.pipelines.config.classes import ConfigError, Faults
from looktwice.pipelines.config.load import load, resolve
from looktwice.pipelines.disk import write_file
from looktwice.pipelines.json_input import CLOSED, OPEN, Holds, read_as
from looktwice.pipelines.marks import Mark, Mask
from looktwice.pipelines.sample import Item
from looktwice.pipelines.state import Stage

Node = dict[str, Any]
FOLDER: Mapping[str, Any] = {"use": "eval.tasks.Folder", "path": "."}
FILE = "samples.jsonl"
Corner = Annotated[float, Field(ge=0, le=1e6)]
POCKET = "Pocket"
MODELS: Mapping[str, Node] = {POCKET: {"use": "pipelines.models.Pocket"}}
"""Whom the studio may ask unless more are named where it is started."""


@with_config(OPEN)
class PageMark(TypedDict, total=False):
    """A mark as the page sends it, beside the places of a point or box."""

    label: str
    image: Annotated[int, Field(ge=0)]
    lasso: Annotated[list[tuple[Corner, Corner]], Field(min_length=1)]


@dataclass(frozen=True)
class Slot:
    """A stage on the page: its name, its node as in a configuration, and whether it is switched
    on."""

    __pydantic_config__ = CLOSED
    slot: str
    node: Node
    on: bool = True


@dataclass(frozen=True)
class Draft:
    """A question and its stages as they stand on the page.

    `images` are names of files in the studio's folder. A mark is as in samples.jsonl; one that was
    drawn as a line around a region has the corners of it as `lasso`, in pixel centres. `model` is
    the name of one that the studio may ask; `each` and `sweep` are those of the study.
    """

    __pydantic_config__ = CLOSED
    id: str = "studio"
    question: str = "What is at the mark?"
    images: tuple[str, ...] = ()
    choices: tuple[str | dict[str, str], ...] = ()
    answer: str | None = None
    marks: tuple[Annotated[Node, Holds(PageMark)], ...] = ()
    meta: Node = field(default_factory=dict)
    stages: tuple[Slot, ...] = ()
    model: str = POCKET
    draws: Annotated[int, Field(ge=1, le=100)] = 1
    seed: int = 0
    each: tuple[Node, ...] = ()
    sweep: dict[str, list[Any]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, item: Item, stages: Mapping[str, Stage], images: Sequence[str], **more: Any
    ) -> Draft:
        """An item and stages that were built, on pictures of these names: first those of the
        question, then those of its choices."""
        sample, of_choices = item.sample, iter(images[len(item.sample.images) :])
        return cls(
            sample.id,
            sample.question,
            tuple(images[: len(sample.images)]),
            tuple(c if isinstance(c, str) else {"image": next(of_choices)} for c in sample.choices),
            item.answer,
            tuple(drawn(mark) for mark in sample.marks),
            dict(sample.meta),
            tuple(Slot(name, plain(stage)) for name, stage in stages.items()),
            **more,
        )

    def to_dict(self) -> Node:
        """As the page holds it."""
        return {**vars(self), "stages": [vars(stage) for stage in self.stages]}

    @property
    def files(self) -> list[str]:
        """The names of all its pictures: those of the question, then those of its choices."""
        of_choices = [choice["image"] for choice in self.choices if isinstance(choice, dict)]
        return [*self.images, *of_choices]

    def row(self, sizes: Mapping[str, tuple[int, int]]) -> Node:
        """The line of samples.jsonl; `sizes` are (width, height) of the images by name."""
        own = [sizes[name] for name in self.images]
        marks = [masked(mark, own) for mark in self.marks]
        row: Node = {"id": self.id, "question": self.question}
        row |= {"image": self.images[0]} if len(self.images) == 1 else {"images": [*self.images]}
        choices, answer = [*self.choices], self.answer or None
        more = {"choices": choices, "answer": answer, "marks": marks, "meta": self.meta}
        return row | {name: value for name, value in more.items() if value}

    def nodes(self, after: int | None = None) -> dict[str, Node]:
        """The stages that are switched on, or the first of all stages alone. Raises ConfigError for
        a name that stands twice."""
        named = [stage.slot for stage in self.stages]
        if twice := [name for name in named if named.count(name) > 1 or not name]:
            raise ConfigError([f"stages.{twice[0]}: each stage has a name of its own; change one"])
        return {stage.slot: stage.node for stage in self.stages[:after] if stage.on}

    def study(self, models: Mapping[str, Node], task: Mapping[str, Any] = FOLDER) -> Node:
        """The study of this question. Raises ConfigError for a model that was not named."""
        if self.model not in models:
            there = ", ".join(models)
            raise ConfigError([f"model: {self.model!r} was not named; there are {there}"])
        stages, named = self.nodes(), models[self.model]
        node: Node = {"task": {**task}, "model": named, "stages": stages}
        if "'ref':" in repr(stages):
            node |= {"model": self.model, "models": {**models}}
        more = {"sweep": self.sweep, "each": [*self.each], "seed": self.seed}
        more["draws"] = self.draws if self.draws > 1 else 0
        return node | {name: value for name, value in more.items() if value}

    def reading(self, text: str, file: Path, models: Mapping[str, Node]) -> Draft:
        """The draft with stages, model and draws of a study's text, which is kept in `file`. Raises
        ConfigError.

        A model must be one of those that the studio may ask: what is pasted brings no server of its
        own.
        """
        write_file(file, text)
        faults = Faults()
        node = resolve(load(file), faults)
        is_bare = all(isinstance(part, Mapping) and "use" in part for part in node.values())
        stages = node if is_bare else node.get("stages")  # as the gallery writes them
        if not stages or not isinstance(stages, Mapping):
            faults.note("stages: there are none; write `stages: {mark: {use: ...}}`")
        if faults or not isinstance(stages, Mapping):
            raise ConfigError(faults)
        slots = tuple(Slot(str(name), part) for name, part in stages.items() if part is not None)
        node = {} if is_bare else node
        asked = node.get("model", models[self.model])
        named = [name for name, model in models.items() if asked in (name, model)]
        if not named:
            advice = "name others where it is started, such as `looktwice studio STUDY.yaml`"
            raise ConfigError([f"model: the studio may ask {', '.join(models)}; {advice}"])
        whole = {**vars(self), "stages": slots, "model": named[0]}
        whole |= {"each": node.get("each") or (), "sweep": node.get("sweep") or {}}
        whole |= {name: node[name] for name in ("draws", "seed") if name in node}
        draft: Draft = read_as(Draft, json.dumps(Draft(**whole).to_dict()))
        return draft


def drawn(mark: Mark) -> Node:
    """A mark as the page draws it: a region with the corners of its outline."""
    node = mark.to_dict()
    if isinstance(mark, Mask):
        pixels = mark.pixels.astype(np.uint8)
        lines, _ = cv2.findContours(pixels, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
        node["outline"] = max(lines, key=cv2.contourArea)[:, 0].tolist()
    return node


def masked(mark: Node, sizes: Sequence[tuple[int, int]]) -> Node:
    """A mark as samples.jsonl holds it: the inside of a lasso as the pixels of a mask."""
    lasso = mark.get("lasso")
    kept = {key: value for key, value in mark.items() if key not in ("lasso", "outline")}
    if lasso is None:
        return kept
    image = mark.get("image", 0)
    pixels = np.zeros(sizes[image][::-1], np.uint8)
    cv2.fillPoly(pixels, [np.array(lasso, np.float64).round().astype(np.int32).reshape(-1, 2)], 1)
    return Mask(str(mark.get("label", "")), pixels.astype(bool), image).to_dict()
