"""Renders and asks what stands on the studio's page, in a folder of its own, as a run does it."""

from __future__ import annotations

import hashlib
import io
import json
import time
import zipfile
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from threading import Lock
from typing import Any

from rich.console import Console

from looktwice.eval.readers.robust import Robust
from looktwice.eval.records.records import RunFolder
from looktwice.eval.runs.dry_run import DryRun, count_requests, try_arm
from looktwice.eval.runs.study import Study
from looktwice.eval.scoring.score import ScoringTools
from looktwice.eval.studio.draft import FILE, FOLDER, MODELS, Draft, Node
from looktwice.eval.studio.forms import Catalog
from looktwice.eval.tasks.own_questions import Folder
from looktwice.pipelines.config.build import Binder
from looktwice.pipelines.config.classes import ConfigError
from looktwice.pipelines.config.paths import Scope
from looktwice.pipelines.config.plan import make_plan, with_id
from looktwice.pipelines.config.spec import Arm, asks_model, digest, spec
from looktwice.pipelines.disk import dump_yaml, write_file
from looktwice.pipelines.model import Model
from looktwice.pipelines.picture import Payload, Picture
from looktwice.pipelines.pipeline import models_in
from looktwice.pipelines.runtime.stores import use_result_store
from looktwice.pipelines.sample import Item
from looktwice.pipelines.state import Stage, State, collect_remarks
from looktwice.pipelines.view import View

KEPT = 256  # pictures that the page may ask for
KEPT_STATES = 32  # with the pixels of their views
SUFFIXES = {"image/png": ".png", "image/jpeg": ".jpg", "image/webp": ".webp"}


class KeptStage:
    """A stage that calls no model, and what it gave behind the same stages on the same question: a
    run shares that among its arms too."""

    def __init__(self, stage: Stage, key: str, states: OrderedDict[str, State]) -> None:
        self.stage, self.key, self.states = stage, key, states

    def __call__(self, state: State, model: Model) -> State:
        """The state behind the stage, with its remarks as notes."""
        if self.key not in self.states:
            with collect_remarks() as remarks:
                after = self.stage(state, model)
            self.states[self.key] = after.with_notes(*remarks)
        self.states.move_to_end(self.key)
        if len(self.states) > KEPT_STATES:
            self.states.popitem(last=False)
        return self.states[self.key]


@dataclass(eq=False)
class Desk:
    """Where the drafts of one page are worked on: `folder` takes pictures, questions and runs, and
    `models` are those that may be asked, by name."""

    folder: Path
    models: Mapping[str, Node] = field(default_factory=lambda: MODELS)
    plugins: Sequence[str] = ()
    images: dict[str, Picture] = field(default_factory=dict)
    shown: OrderedDict[str, Payload] = field(default_factory=OrderedDict)
    states: OrderedDict[str, State] = field(default_factory=OrderedDict)
    lock: Lock = field(default_factory=Lock)
    asking: Lock = field(default_factory=Lock)

    @property
    def scope(self) -> Scope:
        """What the nodes of a draft may name."""
        return Scope(self.folder, plugins=tuple(self.plugins))

    @cached_property
    def _catalog(self) -> dict[str, Any]:
        return Catalog(self.plugins).to_dict()

    def start(self, draft: Draft) -> dict[str, Any]:
        """What a page begins with: the forms, whom it may ask, a draft and its pictures."""
        images = [self.image(name) for name in draft.images]
        begun = {"draft": draft.to_dict(), "images": images, "models": [*self.models]}
        return self._catalog | begun

    def read(self, draft: Draft, text: str) -> Draft:
        """The draft with what a study's text says. Raises ConfigError."""
        return draft.reading(text, self.folder / "pasted.yaml", self.models)

    def take(self, data: bytes) -> dict[str, Any]:
        """Keep the bytes of a picture; gives its name, its size, and under which sha256 the page
        gets it. Raises PictureError."""
        picture = Picture.encoded(data, "the picture")
        payload = picture.payload
        kind = payload.media_type if payload.data is data else ""
        name = f"{picture.sha[:12]}{SUFFIXES.get(kind, '.img')}"
        if name not in self.images:
            write_file(self.folder / name, data)
            self.images[name] = Picture.open(self.folder / name)
        return self.image(name)

    def image(self, name: str) -> dict[str, Any]:
        """A picture of the folder as the page shows it."""
        picture = self.images[name]
        width, height = picture.size
        return {"name": name, "width": width, "height": height, "sha": self._show(picture.payload)}

    def _show(self, payload: Payload) -> str:
        self.shown[payload.sha] = payload
        self.shown.move_to_end(payload.sha)
        while len(self.shown) > KEPT:
            self.shown.popitem(last=False)
        return payload.sha

    def item(self, draft: Draft) -> tuple[Folder, Item]:
        """The question as a run reads it, with its task. Raises TaskError, ValueError."""
        row = self._row(draft)
        file = f"{hashlib.sha256(row.encode()).hexdigest()[:16]}.jsonl"
        if not (self.folder / file).exists():
            write_file(self.folder / file, row + "\n")
        task = Folder(self.folder, file)
        item = next(iter(task))
        images = tuple(self.images[name] for name in draft.images)  # decoded once
        return task, replace(item, sample=replace(item.sample, images=images))

    def _row(self, draft: Draft) -> str:
        if not draft.images:
            raise ValueError("there is no picture yet; drop one on the page")
        if lost := [name for name in draft.files if name not in self.images]:
            raise ValueError(f"the picture {lost[0]} is not here; drop it on the page")
        return json.dumps(draft.row({name: p.size for name, p in self.images.items()}))

    def build(self, draft: Draft, after: int | None = None) -> dict[str, Any]:
        """The stages. Raises ConfigError with every fault and its place."""
        binder = Binder(self.scope, self.models)
        stages = {
            slot: binder.node(node, f"stages.{slot}", "stage")
            for slot, node in draft.nodes(after).items()
        }
        if binder.faults:
            raise ConfigError(binder.faults)
        may_ask = [self.model(name).identity for name in self.models]
        for slot, stage in stages.items():
            if any(model.identity not in may_ask for model in models_in(stage)):
                there = ", ".join(f"{{ref: {name}}}" for name in self.models)
                raise ConfigError([f"stages.{slot}: the studio may ask {there} and no other model"])
        return stages

    def model(self, name: str) -> Any:
        """A model that may be asked."""
        return Binder(self.scope, self.models).node(self.models[name], "model", "model")

    def render(self, draft: Draft, after: int | None = None) -> dict[str, Any]:
        """What would be sent, or, `after` so many stages, what there is to be sent, and why a stage
        failed. Raises ConfigError, TaskError, PictureError, ValueError."""
        started = time.perf_counter()
        task, item = self.item(draft)
        stages, study = self.build(draft, after), draft.study(self.models)
        model = self.model(draft.model) if any(map(asks_model, stages.values())) else None
        made = task, model, stages, Robust(), draft.draws, draft.seed, True
        arm = with_id(Arm("studio", {}, "studio", *made))
        arm = replace(arm, stages=self._keep(arm, task.file))
        with self.lock, use_result_store(self.folder / ".cache" / "findings"):
            trial = try_arm(arm, item)
        state = trial.state
        if trial.error:
            slot = state.trace[-1].slot if state.trace else ""
            raise ConfigError([f"stages.{slot}: {trial.error.splitlines()[-1]}"])
        views = state.shown or state.views
        return {
            "views": [self._view(view) for view in views],
            "sent": bool(state.shown),
            "words": _words(trial, views),
            "steps": [{"slot": s.slot, "ms": round(1e3 * s.seconds, 1)} for s in state.trace],
            "notes": [*state.notes],
            "answer": state.answer or state.reason,
            "amount": str(count_requests([trial], {arm.task_id: 1})),
            "yaml": dump_yaml(study),
            "ms": round(1e3 * (time.perf_counter() - started), 1),
        }

    def _keep(self, arm: Arm, question: str) -> dict[str, Stage]:
        """The stages of an arm, those before the first that may ask kept."""
        stages, before = dict(arm.stages), list[Any]([question, arm.seed])
        for slot, stage in takewhile(lambda pair: not asks_model(pair[1]), arm.stages.items()):
            before.append([slot, spec(stage)])
            stages[slot] = KeptStage(stage, digest(before), self.states)
        return stages

    def _view(self, view: View) -> dict[str, Any]:
        payload, (width, height) = view.picture.payload, view.size
        kind = payload.media_type.removeprefix("image/")
        shown = {"sha": self._show(payload), "bytes": len(payload.data), "kind": kind}
        return {"width": width, "height": height, "note": payload.note, **shown}

    def ask(self, draft: Draft) -> list[Node]:
        """Ask the study in all its arms; a row for each reply, with what was sent. What was asked
        before is not asked again. Raises ConfigError, RunError, TaskError."""
        task, item = self.item(draft)
        self.build(draft)
        config = draft.study(self.models, {**FOLDER, "file": task.file})
        plan = make_plan(config, self.scope, "studio")
        plan = replace(plan, name=f"asked-{Path(task.file).stem}")
        quiet = Console(file=io.StringIO())
        with self.asking:  # else the second one finds the run folder taken
            summary = Study(plan, self.folder / "runs", console=quiet)()
        if summary.why:
            raise ValueError(summary.why)
        folder = RunFolder(summary.folder)
        scorers, (row,) = ScoringTools(folder, plan).of_plan, folder.samples.values()
        rows, records = list[Node](), folder.records(item.sample.id)
        for arm in (*plan.points, *plan.readings):
            for draw in range(arm.draws):
                record = records[arm.replies_of or arm.id, item.sample.id, draw]
                scored = scorers[arm.id](record, row)
                for sent in record.sent:
                    data = folder.blobs.get(sent["sha"])
                    self._show(Payload(data, sent.get("type", ""), sent["sha"], ""))
                reply = next((r.text for r in reversed(record.replies) if r.text), "")
                rows.append(
                    {
                        "changes": {**arm.changes},
                        "draw": draw,
                        "reply": reply,
                        "answer": scored.answer,
                        "verdict": str(scored.verdict),
                        "why": (record.error or scored.reason).strip().rpartition("\n")[2],
                        "shas": [*record.pictures],
                        "cost": scored.cost,
                    }
                )
        return rows

    def pack(self, draft: Draft) -> bytes:
        """A zip file of a folder with the study, its question and its pictures, which `looktwice
        run` takes. Raises ConfigError, ValueError."""
        self.render(draft)  # tells what is wrong with it
        row = self._row(draft)
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("studio/study.yaml", dump_yaml(draft.study(self.models)))
            archive.writestr(f"studio/{FILE}", row + "\n")
            for name in dict.fromkeys(draft.files):
                archive.writestr(f"studio/{name}", self.images[name].source)
        return packed.getvalue()


def _words(trial: DryRun, views: Sequence[View]) -> list[Node]:
    """What is said, turn by turn: texts, and the numbers of views in their places."""
    numbers = {id(view): number for number, view in enumerate(views)}
    turns = [turn for turn in trial.state.messages if turn.role != "assistant"]
    if not turns:
        return [{"role": "prompt", "parts": [trial.state.prompt]}]
    words = list[Node]()
    for turn in turns:
        parts = [part if isinstance(part, str) else numbers[id(part)] for part in turn.parts]
        words.append({"role": turn.role, "parts": parts})
    return words
