"""The studio's backend, for a server or a notebook: it renders drafts and sends them to models as a
run would, in a separate folder.

It also makes the notes that the page shows with the pictures: the texts of the request, the amount
that Ask sends, marks that no stage draws, and drawings that are cropped.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from threading import Lock
from typing import Any

import cv2
import numpy as np
from rich.console import Console

from looktwice.eval.display.printable import printable
from looktwice.eval.listing import simplify_default
from looktwice.eval.records.records import RunFolder
from looktwice.eval.runs.dry_run import DryRun, RequestSize, count_requests, try_arm
from looktwice.eval.runs.study import Study
from looktwice.eval.scoring.score import ScoringTools
from looktwice.eval.tasks.own_questions import Folder
from looktwice.extras.studio.draft import (
    DEFAULT_MODELS,
    FOLDER_TASK,
    QUESTIONS_FILE,
    Draft,
    Node,
    make_example,
)
from looktwice.extras.studio.forms import Catalog
from looktwice.pipelines.config.build import Binder
from looktwice.pipelines.config.classes import ConfigError
from looktwice.pipelines.config.paths import Scope
from looktwice.pipelines.config.plan import Plan, make_plan
from looktwice.pipelines.config.spec import Arm, asks_model, digest, find_settings, spec
from looktwice.pipelines.counted import format_count
from looktwice.pipelines.disk import dump_yaml, write_file
from looktwice.pipelines.geometry import bounds
from looktwice.pipelines.json_input import FORBID_EXTRA, read_as
from looktwice.pipelines.marks import Box, Mask, Point
from looktwice.pipelines.model import Model, ModelError, get_model_name
from looktwice.pipelines.models.pocket.model import Pocket, make_network_inputs
from looktwice.pipelines.models.pocket.network import PLACES_PER_SIDE
from looktwice.pipelines.picture import Payload, Picture, PictureError
from looktwice.pipelines.pipeline import list_models
from looktwice.pipelines.runtime.stores import MemoryCache, use_result_store
from looktwice.pipelines.sample import Item
from looktwice.pipelines.state import Call, Stage, State
from looktwice.pipelines.view import View
from looktwice.prompting.markers.base import Marking
from looktwice.prompting.views.seen import Drawing, find_drawings

MAX_SHOWN_PICTURES = 256  # pictures that the page may request
MAX_CACHED_STATES = 32  # states in the cache, with the pixels of their views
REQUEST_ERRORS = (ValueError, LookupError, OSError)
"""Exceptions for faults in a request, which the page displays."""
INTERNAL_NAME_PATTERN = re.compile(r"^draft\.|[0-9a-f]{16}\.jsonl: .*\s+line 1: ")
IMAGE_SUFFIXES = {"image/png": ".png", "image/jpeg": ".jpg", "image/webp": ".webp"}


@dataclass(frozen=True)
class DraftRequest:
    """A request of the page: a draft, the number of stages `after` which to show the views, and
    the `text` of a study to read."""

    __pydantic_config__ = FORBID_EXTRA
    draft: Draft
    after: int | None = None
    text: str = ""


@dataclass(eq=False)
class StudioBackend:
    """The backend of one page: `folder` holds pictures, questions and runs; `models` are the models
    that the page may call, by name."""

    folder: Path
    models: dict[str, Node] = field(default_factory=lambda: {**DEFAULT_MODELS})
    plugins: Sequence[str] = ()
    images: dict[str, Picture] = field(default_factory=dict)
    picture_cache: MemoryCache = field(default_factory=partial(MemoryCache, MAX_SHOWN_PICTURES))
    state_cache: MemoryCache = field(default_factory=partial(MemoryCache, MAX_CACHED_STATES))
    lock: Lock = field(default_factory=Lock)
    ask_lock: Lock = field(default_factory=Lock)

    @property
    def binder(self) -> Binder:
        """The binder that builds a draft's nodes."""
        return Binder(Scope(self.folder, plugins=tuple(self.plugins)), self.models)

    @cached_property
    def _catalog(self) -> Node:
        return Catalog(self.plugins).to_dict()

    def make_start_data(self, draft: Draft) -> Node:
        """Return the page's initial data: forms, the models that it may call, a draft, an example
        for a page without pictures, and the pictures of both."""
        example = make_example(self.save_picture)
        images = [self.describe_image(name) for name in (*draft.images, *example.images)]
        begun = {"draft": draft.to_dict(), "example": example.to_dict(), "images": images}
        return self._catalog | begun | {"models": [*self.models]}

    def allow_model(self, model: Any) -> str:
        """Allow the page to call a model, and return the model's name."""
        node, name = simplify_default(model), get_model_name(model)
        if self.models.get(name, node) != node:
            name += f" {len(self.models)}"
        self.models[name] = node
        return name

    def save_bytes(self, data: bytes) -> str:
        """Save a picture's bytes and return its name. Raises PictureError."""
        picture = Picture.encoded(data, "the picture")
        payload = picture.payload
        kind = payload.media_type if payload.data is data else ""
        name = picture.sha[:12] + IMAGE_SUFFIXES.get(kind, ".img")
        if name not in self.images:
            write_file(self.folder / name, data)
            self.images[name] = picture
        return name

    def save_picture(self, picture: Picture) -> str:
        """Save a picture's original bytes, or else the bytes that are sent, and return the saved
        picture's name."""
        try:
            return self.save_bytes(picture.source)
        except PictureError:
            return self.save_bytes(picture.payload.data)

    def describe_image(self, name: str) -> Node:
        """Describe a saved picture for the page, with its name."""
        return {"name": name, **self.describe_picture(self.images[name])}

    def describe_picture(self, picture: Picture) -> Node:
        """Describe a picture for the page, which loads it by its SHA-256."""
        payload, (width, height) = picture.payload, picture.size
        kind, sha = payload.media_type.removeprefix("image/"), self._cache_payload(payload)
        facts = {"width": width, "height": height, "bytes": len(payload.data), "kind": kind}
        return {"sha": sha, "note": payload.note, **facts}

    def _cache_payload(self, payload: Payload) -> str:
        return self.picture_cache.get_or_compute(payload.sha, lambda: (payload, 1)).sha

    def answer(self, what: str, data: bytes) -> Any:
        """Return the response to the request `what`: plain values, or the bytes of a file.

        The body of `upload` is a picture's bytes, any other body is JSON. Raises REQUEST_ERRORS.
        """
        if what == "upload":
            return self.describe_image(self.save_bytes(data))
        asked: DraftRequest = read_as(DraftRequest, data)
        if what == "render":
            return self.render(asked.draft, asked.after)
        if what == "read":
            pasted = self.folder / "pasted.yaml"
            return {"draft": asked.draft.with_study(asked.text, pasted, self.models).to_dict()}
        return self.ask(asked.draft) if what == "ask" else self.pack_study(asked.draft)

    def explain_fault(self, exc: Exception) -> list[str]:
        """Return the error messages without the names of the studio's internal files."""
        faults = exc.faults if isinstance(exc, ConfigError) else (str(exc),)
        return [
            INTERNAL_NAME_PATTERN.sub("", printable(fault).replace(f"{self.folder}/", ""))
            for fault in faults
        ]

    def build_item(self, draft: Draft) -> tuple[Folder, Item]:
        """Build the draft's task and its question, as a run would. Raises TaskError,
        ValueError."""
        if not draft.images:
            raise ValueError("there is no picture yet; drop one on the page")
        if lost := [name for name in draft.files if name not in self.images]:
            raise ValueError(
                f"the picture {lost[0]} is missing from the studio; drop it on the page again"
            )
        images = tuple(self.images[name] for name in draft.images)  # decode each picture only once
        row = json.dumps(draft.make_row([picture.size for picture in images]))
        file = f"{digest(row)}.jsonl"
        if not (self.folder / file).exists():
            write_file(self.folder / file, row + "\n")
        task = Folder(self.folder, file)
        item = next(iter(task))
        return task, replace(item, sample=replace(item.sample, images=images))

    def build_arm(self, draft: Draft, task: Folder) -> Arm:
        """Build the draft's stages as an arm. Raises ConfigError with every fault and its path."""
        binder = self.binder
        stages = {
            slot: binder.build_node(node, f"stages.{slot}", "stage")
            for slot, node in draft.list_nodes().items()
        }
        model = binder.build_node(self.models[draft.model], "model", "model")
        if binder.faults:
            raise ConfigError(binder.faults)
        arm = Arm("studio", {}, "studio", task, model, stages, None, draft.draws, draft.seed)
        self._check_models([arm])
        return arm

    def build_plan(self, draft: Draft, task: Folder) -> Plan:
        """Plan the study with all its arms. Raises ConfigError."""
        config = draft.make_study(self.models, {**FOLDER_TASK, "file": task.file})
        plan = make_plan(config, self.binder.scope, "studio")
        self._check_models(plan.points)
        return plan

    def _check_models(self, arms: Sequence[Arm]) -> None:
        """Raise ConfigError if a stage or setting of the arms uses a model that the page may not
        call."""
        may_ask = [self.binder.build_node(node, "model").identity for node in self.models.values()]
        for arm in arms:
            parts = {f"stages.{slot}": stage for slot, stage in arm.stages.items()}
            for place, part in {"model": arm.model, **parts}.items():
                if any(model.identity not in may_ask for model in list_models(part)):
                    there = ", ".join(f"{{ref: {name}}}" for name in self.models)
                    raise ConfigError([f"{place}: the studio may ask only {there}"])

    def render(self, draft: Draft, after: int | None = None) -> Node:
        """Return the request that would be sent, the views after the first `after` stages, and the
        error of a later stage, if any. Raises ConfigError, TaskError, PictureError, ValueError."""
        study, (task, item) = draft.make_study(self.models), self.build_item(draft)
        arm = self.build_arm(draft, task)
        arms = self.build_plan(draft, task).points if draft.each or draft.sweep else ()
        with self.lock, use_result_store(self.folder / ".cache" / "findings"):
            trial, *asked = [self._dry_run(tried, item) for tried in (arm, *arms)]
            shown = trial
            if after is not None:
                first = {slot: arm.stages[slot] for slot in draft.list_nodes(after)}
                shown = self._dry_run(replace(arm, stages=first), item)
            if shown.error:
                raise _make_failure(shown)
            views = shown.state.shown_views or shown.state.views
            undrawn = () if trial.error else describe_undrawn(trial, self._dry_run)
            notes = [*shown.state.notes, *describe_cut_views(shown, views), *undrawn]
        return {
            "views": [self.describe_picture(view.picture) for view in views],
            "words": list_texts(trial.state),
            "notes": notes,
            "answer": trial.state.answer or trial.state.reason,
            "amount": describe_amount(asked or [trial]),
            "arms": len(arms) or 1,
            "faults": self.explain_fault(_make_failure(trial)) if trial.error else [],
            "yaml": dump_yaml(study),
        }

    def _dry_run(self, arm: Arm, item: Item) -> DryRun:
        """Dry-run an arm on a question, with cached results for the stages before the first that
        may call a model."""
        marks = [mark.center for mark in item.sample.marks]  # `describe_undrawn` leaves one out
        stages, before = dict(arm.stages), list[Any]([arm.task.file, marks, arm.seed])
        for slot, stage in arm.stages.items():
            if asks_model(stage):
                break
            before.append([slot, spec(stage)])
            stages[slot] = partial(self._run_stage, stage, digest(before))
        return replace(try_arm(replace(arm, stages=stages), item), arm=arm)

    def _run_stage(self, stage: Stage, key: str, state: State, model: Model) -> State:
        """Run a stage that calls no model, or return its cached state.

        `key` identifies the stage and all stages before it, by which a run shares them among arms.
        """
        return self.state_cache.get_or_compute(key, lambda: (stage(state, model), 1))

    def ask(self, draft: Draft) -> list[Node]:
        """Run the study in all its arms, and return a row for each reply, with the pictures sent.

        Earlier requests are not repeated. Raises ConfigError, RunError, TaskError.
        """
        task, item = self.build_item(draft)
        plan = replace(self.build_plan(draft, task), name=f"asked-{Path(task.file).stem}")
        with self.ask_lock:  # a concurrent run would find the folder locked
            summary = Study(plan, self.folder / "runs", console=Console(file=io.StringIO()))()
        if summary.why:
            raise ValueError(summary.why)
        folder, rows = RunFolder(summary.folder), list[Node]()
        scorers, (row,) = ScoringTools(folder, plan).plan_scorers, folder.samples.values()
        records = folder.records(item.sample.id)
        for arm in (*plan.points, *plan.readings):
            for draw in range(arm.draws):
                record = records[arm.replies_of or arm.id, item.sample.id, draw]
                scored = scorers[arm.id](record, row)
                for sent in record.sent:
                    data = folder.blobs.get(sent["sha"])
                    self._cache_payload(Payload(data, sent.get("type", ""), sent["sha"], ""))
                rows.append(
                    {
                        "changes": {**arm.changes},
                        "draw": draw,
                        "reply": next((r.text for r in reversed(record.replies) if r.text), ""),
                        "answer": scored.answer,
                        "verdict": str(scored.verdict),
                        "why": (record.error or scored.reason).strip().rpartition("\n")[2],
                        "shas": [*record.pictures],
                    }
                )
        return rows

    def pack_study(self, draft: Draft) -> bytes:
        """Return a zip file for `looktwice run`: a folder with the study, its question and its
        pictures. Raises ConfigError, ValueError."""
        task, _ = self.build_item(draft)
        self.build_plan(draft, task)
        self.render(draft)  # raises the errors that planning a run would raise
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("studio/study.yaml", dump_yaml(draft.make_study(self.models)))
            archive.write(self.folder / task.file, f"studio/{QUESTIONS_FILE}")
            for name in dict.fromkeys(draft.files):
                archive.writestr(f"studio/{name}", self.images[name].source)
        return packed.getvalue()


def _make_failure(trial: DryRun) -> ConfigError:
    """Return an error that names the failed stage and the reason."""
    slot = trial.state.trace[-1].slot if trial.state.trace else ""
    return ConfigError([f"stages.{slot}: {trial.error.splitlines()[-1]}"])


# ---- notes shown with the pictures

DRAWING_HINTS = {
    Point: "point {}; add Circles",
    Box: "box {}; add Rectangles",
    Mask: "region {}; add Contours",
}


def list_texts(state: State) -> list[Node]:
    """List the text of each turn, with null for each view."""
    words = [
        {"role": turn.role, "parts": [p if isinstance(p, str) else None for p in turn.parts]}
        for turn in state.messages
    ]
    return words or [{"role": "prompt", "parts": [state.prompt]}]


def describe_amount(trials: Sequence[DryRun]) -> str:
    """Describe the amount that a run of these arms would send, and how the tokens are counted."""
    tried = [replace(t, requests=[*map(count_tokens, t.calls, t.requests)]) for t in trials]
    amount = count_requests(tried, {trial.arm.task_id: 1 for trial in tried})
    if not amount.request_count:
        return "no stage asks a model"
    arms = f" in {format_count(len(tried), 'arm')}" if len(tried) > 1 else ""
    is_pocket = all(isinstance(model, Pocket) for trial in tried for model in trial.arm.models)
    rule = "counted by Pocket" if is_pocket else "estimated"
    return f"{amount}{arms}; tokens {rule}"


def count_tokens(call: Call, request: RequestSize) -> RequestSize:
    """Return the request with its exact token counts if its model is Pocket."""
    if isinstance(request.model, Pocket):
        with suppress(ModelError):  # the error is reported when the model is called
            words, views = make_network_inputs(call.messages)
            pictures = PLACES_PER_SIDE * PLACES_PER_SIDE * len(views)
            return replace(request, word_tokens=len(words), picture_tokens=pictures)
    return request


def describe_undrawn(trial: DryRun, dry_run: Callable[[Arm, Item], DryRun]) -> Iterator[str]:
    """Yield a note for each mark that changes no request, with the stage that would draw it.

    `dry_run` tries an arm without the mark.
    """
    sample, markers = trial.item.sample, [*find_settings(trial.arm.stages, Marking)]
    for mark in sample.marks:
        if any(marker.selects(mark) for marker in markers):
            continue
        rest = tuple(kept for kept in sample.marks if kept is not mark)
        item = replace(trial.item, sample=replace(sample, marks=rest))
        if get_outcome(dry_run(trial.arm, item)) == get_outcome(trial):
            yield f"no stage draws the {DRAWING_HINTS[type(mark)].format(mark.label)}"


def get_outcome(trial: DryRun) -> tuple[object, ...]:
    """Return the requests that a trial would send, and its answer, so that trials can be
    compared."""
    state, views = trial.state, trial.state.shown_views or trial.state.views
    return state.prompt, state.answer, [view.picture.payload.sha for view in views]


def describe_cut_views(trial: DryRun, views: Sequence[View]) -> Iterator[str]:
    """Yield a note for each view whose edge cuts through a mark or label that a stage drew."""
    stages = trial.arm.stages
    for drawing in find_drawings(trial.state, stages):
        for number, view in enumerate(views, 1):
            if isinstance(stages[drawing.slot], Marking) and is_cut(drawing, view):
                yield f"view {number} cuts off a part of what stage {drawing.slot!r} draws"


def is_cut(drawing: Drawing, view: View) -> bool:
    """Return whether the edge of a view cuts through the drawing."""
    drawn, part = drawing.drawn_view.parts[:1], view.parts[:1]
    if not (drawn and part and drawn[0].source == part[0].source):
        return False
    edges = bounds((drawn[0].affine @ part[0].affine.inverse).map_polygon(part[0].clip))
    left, top, right, bottom = (max(0, round(edge)) for edge in edges)
    seen = np.zeros(drawing.drawn_view.pixels.shape[:2], bool)
    seen[top:bottom, left:right] = True
    if seen.all():
        return False
    cover = drawing.changed_mask
    around = cv2.dilate((cover & ~seen).astype(np.uint8), np.ones((3, 3)))
    return bool(around[cover & seen].any())
