"""Renders and asks what stands on the studio's page, in a folder of its own, as a run does it;
whoever carries what the page asks for, a server or a notebook."""

from __future__ import annotations

import hashlib
import io
import json
import re
import time
import zipfile
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import takewhile
from pathlib import Path
from threading import Lock
from typing import Annotated, Any

from pydantic import Field
from rich.console import Console

from looktwice.eval.display.printable import printable
from looktwice.eval.readers.robust import Robust
from looktwice.eval.records.records import RunFolder
from looktwice.eval.runs.dry_run import DryRun, try_arm
from looktwice.eval.runs.study import Study
from looktwice.eval.scoring.score import ScoringTools
from looktwice.eval.studio.draft import FILE, FOLDER, MODELS, Draft, Node
from looktwice.eval.studio.forms import Catalog
from looktwice.eval.studio.hints import say_amount, say_cut, say_undrawn, words_of
from looktwice.eval.tasks.own_questions import Folder
from looktwice.pipelines.config.build import Binder
from looktwice.pipelines.config.classes import ConfigError
from looktwice.pipelines.config.paths import Scope
from looktwice.pipelines.config.plan import Plan, make_plan, with_id
from looktwice.pipelines.config.spec import Arm, asks_model, digest, spec
from looktwice.pipelines.disk import dump_yaml, write_file
from looktwice.pipelines.json_input import CLOSED, read_as
from looktwice.pipelines.model import Model
from looktwice.pipelines.picture import Payload, Picture
from looktwice.pipelines.pipeline import models_in
from looktwice.pipelines.runtime.stores import use_result_store
from looktwice.pipelines.sample import Item
from looktwice.pipelines.state import Stage, State, collect_remarks
from looktwice.pipelines.view import View

KEPT = 256  # pictures that the page may ask for
KEPT_STATES = 32  # with the pixels of their views
FAULTS = (ValueError, LookupError, OSError)
"""What may be wrong with what is asked, which the page tells."""
LINE = re.compile(r"^draft\.|[0-9a-f]{16}\.jsonl: .*\s+line 1: ")  # that nobody wrote by hand
PLACE = re.compile("(?:`|the )?(question|choices|answer|draws)\\b")
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


@dataclass(frozen=True)
class Asked:
    """What the page sends: a draft, and what is wanted of it."""

    __pydantic_config__ = CLOSED
    draft: Draft
    after: Annotated[int, Field(ge=0)] | None = None
    text: str = ""


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

    def answer(self, what: str, data: bytes) -> Any:
        """What the page gets: plain values, or the bytes of a file. What is uploaded is a picture's
        bytes, all else is JSON. Raises FAULTS."""
        if what == "upload":
            return self.take(data)
        asked: Asked = read_as(Asked, data)
        if what == "render":
            return self.render(asked.draft, asked.after)
        if what == "read":
            return {"draft": self.read(asked.draft, asked.text).to_dict()}
        return self.ask(asked.draft) if what == "ask" else self.pack(asked.draft)

    def say_faults(self, exc: Exception) -> list[str]:
        """What is wrong, in sentences that begin with a place, without the folder's name."""
        sentences = list[str]()
        for fault in exc.faults if isinstance(exc, ConfigError) else (str(exc),):
            sentence = LINE.sub("", printable(fault).replace(f"{self.folder}/", ""))
            place = PLACE.match(sentence)
            sentences.append(f"{place[1]}: {sentence}" if place else sentence)
        return sentences

    def item(self, draft: Draft) -> tuple[Folder, Item]:
        """The question as a run reads it, with its task. Raises TaskError, ValueError."""
        if not draft.images:
            raise ValueError("there is no picture yet; drop one on the page")
        if lost := [name for name in draft.files if name not in self.images]:
            raise ValueError(f"the picture {lost[0]} is not here; drop it on the page")
        row = json.dumps(draft.row({name: p.size for name, p in self.images.items()}))
        file = f"{hashlib.sha256(row.encode()).hexdigest()[:16]}.jsonl"
        if not (self.folder / file).exists():
            write_file(self.folder / file, row + "\n")
        task = Folder(self.folder, file)
        item = next(iter(task))
        images = tuple(self.images[name] for name in draft.images)  # decoded once
        return task, replace(item, sample=replace(item.sample, images=images))

    def arm(self, draft: Draft, task: Folder) -> Arm:
        """The stages as they stand. Raises ConfigError with every fault and its place."""
        binder = Binder(self.scope, self.models)
        stages = {
            slot: binder.node(node, f"stages.{slot}", "stage")
            for slot, node in draft.nodes().items()
        }
        model = binder.node(self.models[draft.model], "model", "model")
        if binder.faults:
            raise ConfigError(binder.faults)
        model = model if any(map(asks_model, stages.values())) else None
        made = task, model, stages, Robust(), draft.draws, draft.seed, True
        arm = with_id(Arm("studio", {}, "studio", *made))
        self._refuse_strangers([arm])
        return arm

    def plan(self, draft: Draft, task: Folder) -> Plan:
        """The study in all its arms. Raises ConfigError."""
        config = draft.study(self.models, {**FOLDER, "file": task.file})
        plan = make_plan(config, self.scope, "studio")
        self._refuse_strangers(plan.points)
        return plan

    def _refuse_strangers(self, arms: Sequence[Arm]) -> None:
        """Raises ConfigError for a model that may not be asked, wherever a study names it."""
        binder = Binder(self.scope, self.models)
        may_ask = [binder.node(node, "model", "model").identity for node in self.models.values()]
        for arm in arms:
            for place, part in {"model": arm.model, **arm.stages}.items():
                if any(model.identity not in may_ask for model in models_in(part)):
                    where = place if part is arm.model else f"stages.{place}"
                    there = ", ".join(f"{{ref: {name}}}" for name in self.models)
                    raise ConfigError([f"{where}: the studio may ask {there} and no other model"])

    def render(self, draft: Draft, after: int | None = None) -> dict[str, Any]:
        """What would be sent; its views `after` so many stages alone, and why a later one failed.
        Raises ConfigError, TaskError, PictureError, ValueError."""
        started = time.perf_counter()
        study, (task, item) = draft.study(self.models), self.item(draft)
        arm, arms = self.arm(draft, task), list[Arm]()
        if draft.each or draft.sweep:
            arms += self.plan(draft, task).points
        with self.lock, use_result_store(self.folder / ".cache" / "findings"):
            trial, *asked = [self._try(tried, item, task.file) for tried in (arm, *arms)]
            shown = trial
            if after is not None:
                first = {slot: arm.stages[slot] for slot in draft.nodes(after)}
                shown = self._try(replace(arm, stages=first), item, task.file)
            if shown.error:
                raise _failure(shown)
            undrawn = () if trial.error else say_undrawn(trial, partial(self._without, trial))
            views = shown.state.shown or shown.state.views
            notes = [*shown.state.notes, *say_cut(shown, views), *undrawn]
        return {
            "views": [self._view(view) for view in views],
            "sent": bool(shown.state.shown),
            "words": words_of(trial.state),
            "notes": notes,
            "answer": trial.state.answer or trial.state.reason,
            "amount": say_amount(asked or [trial]),
            "faults": self.say_faults(_failure(trial)) if trial.error else [],
            "yaml": dump_yaml(study),
            "ms": round(1e3 * (time.perf_counter() - started), 1),
        }

    def _try(self, arm: Arm, item: Item, question: str) -> DryRun:
        """An arm on a question, with the stages kept that come before the first that may ask."""
        stages, before = dict(arm.stages), list[Any]([question, arm.seed])
        for slot, stage in takewhile(lambda pair: not asks_model(pair[1]), arm.stages.items()):
            before.append([slot, spec(stage)])
            stages[slot] = KeptStage(stage, digest(before), self.states)
        return replace(try_arm(replace(arm, stages=stages), item), arm=arm)

    def _without(self, trial: DryRun, number: int) -> DryRun:
        """The same arm on the question without one of its marks."""
        sample = trial.item.sample
        marks = (*sample.marks[:number], *sample.marks[number + 1 :])
        item = replace(trial.item, sample=replace(sample, marks=marks))
        return self._try(trial.arm, item, f"{trial.arm.task.file} without {number}")

    def _view(self, view: View) -> dict[str, Any]:
        payload, (width, height) = view.picture.payload, view.size
        kind = payload.media_type.removeprefix("image/")
        shown = {"sha": self._show(payload), "bytes": len(payload.data), "kind": kind}
        return {"width": width, "height": height, "note": payload.note, **shown}

    def ask(self, draft: Draft) -> list[Node]:
        """Ask the study in all its arms; a row for each reply, with what was sent. What was asked
        before is not asked again. Raises ConfigError, RunError, TaskError."""
        task, item = self.item(draft)
        plan = replace(self.plan(draft, task), name=f"asked-{Path(task.file).stem}")
        with self.asking:  # else the second one finds the run folder taken
            quiet = Console(file=io.StringIO())
            summary = Study(plan, self.folder / "runs", console=quiet)()
        if summary.why:
            raise ValueError(summary.why)
        folder, rows = RunFolder(summary.folder), list[Node]()
        scorers, (row,) = ScoringTools(folder, plan).of_plan, folder.samples.values()
        records = folder.records(item.sample.id)
        for arm in (*plan.points, *plan.readings):
            for draw in range(arm.draws):
                record = records[arm.replies_of or arm.id, item.sample.id, draw]
                scored = scorers[arm.id](record, row)
                for sent in record.sent:
                    data = folder.blobs.get(sent["sha"])
                    self._show(Payload(data, sent.get("type", ""), sent["sha"], ""))
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

    def pack(self, draft: Draft) -> bytes:
        """A zip file of a folder with the study, its question and its pictures, which `looktwice
        run` takes. Raises ConfigError, ValueError."""
        task, _ = self.item(draft)
        self.plan(draft, task)
        self.render(draft)  # as the plan, it tells what is wrong
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("studio/study.yaml", dump_yaml(draft.study(self.models)))
            archive.write(self.folder / task.file, f"studio/{FILE}")
            for name in dict.fromkeys(draft.files):
                archive.writestr(f"studio/{name}", self.images[name].source)
        return packed.getvalue()


def _failure(trial: DryRun) -> ConfigError:
    """Why a stage failed, with its place."""
    slot = trial.state.trace[-1].slot if trial.state.trace else ""
    return ConfigError([f"stages.{slot}: {trial.error.splitlines()[-1]}"])
