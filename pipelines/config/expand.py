"""Expands a configuration to one node per arm: contestants x sweep x one-at-a-time changes (`each`)
x tasks, and `fragility:` to the sweep that it stands for."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from typing import Any

from looktwice.pipelines.config.classes import did_you_mean
from looktwice.pipelines.config.load import (
    Node,
    Overlay,
    name_faults,
    nest,
    resolve,
    shape_faults,
    task_name,
)
from looktwice.pipelines.config.paths import Scope

MOST_ARMS = 100_000


ALONE = (
    "; where this contestant's stages are the whole pipeline, say `replace: true` beside `stages:`"
)


@dataclass(frozen=True)
class ArmNode:
    """One arm before it is built: who answers, what was changed, and the nodes of what it takes.

    `place` is the contestant's place in the file, as `task_place` and `model_place` are those of
    its task and model; `own` are the slots that it names itself, and `models` what `{ref: ...}` may
    name. `changed_at` tells by what entry a place was changed, such as `each[0].`.
    """

    contestant: str
    changes: Mapping[str, Any]
    task_name: str
    task: Any
    model: Any
    stages: Mapping[str, Any]
    read: Any
    draws: Any
    seed: Any
    baseline: bool
    place: str
    own: frozenset[str]
    models: Mapping[str, Any]
    task_place: str
    model_place: str
    changed_at: Mapping[str, str]


@dataclass
class Expansion:
    """Expands a loaded configuration; gathers `faults`, and in `left_out` the contestants whose
    needs are not met."""

    config: Node
    scope: Scope = field(default_factory=Scope)
    faults: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)

    def arms(self) -> Iterator[ArmNode]:
        """Every arm of the configuration, in order, duplicates included.

        Where an entry has the wrong type there are no arms, only faults.
        """
        strange, wrong = shape_faults(self.config)
        self._note([*strange, *wrong])
        if wrong:
            return
        self._note(name_faults(self.config))
        base = {
            k: v
            for k, v in self.config.items()
            if k not in ("sweep", "each", "contestants", "baseline")
        }
        named = {
            k: v
            for k, v in (self.config.get("contestants") or {"plain": {}}).items()
            if v is not None
        }
        if self._are_too_many(len(named)):
            return
        first = self.config.get("baseline") or next(iter(named), "")
        if named and first not in named:
            self.faults.append(f"baseline: no contestant {first!r}; there are {', '.join(named)}")
        for name, overlay in named.items():
            place = f"contestants.{name}" if self.config.get("contestants") else ""
            merged = self._merged(base, overlay or {}, place)
            if not self._needs_are_met(name, overlay or {}, merged):
                continue
            for changes, changed_at in self._changes():
                arms = self._arms_of(name, merged, overlay or {}, changes, name == first, place)
                yield from (replace(arm, changed_at=changed_at) for arm in arms)

    def _merged(self, base: Node, overlay: Mapping[str, Any], place: str) -> Node:
        """The configuration of this contestant: its stages lie over the file's, or with
        `replace: true` alone.

        They extend, because that is what a mapping in a mapping does in Hydra, OmegaConf and
        docker-compose: who changes one slot keeps the others, `ask` among them.
        """
        layer = Overlay(alone=ALONE)
        node = dict(base)
        own = {k: v for k, v in overlay.items() if k in ("stages", "model", "read", "draws")}
        if _stands_alone(overlay):
            node["stages"] = {}
        if isinstance(own.get("model"), str):
            node["model"] = None
        merged: Node = layer(node, own)
        self._note(f"{place}.{fault}" if place else fault for fault in layer.faults)
        return merged

    def _are_too_many(self, contestants: int) -> bool:
        """Whether there are more arms than anybody could run or read, which is a fault; told before
        they are made."""
        tasks, each = len(self.config.get("tasks") or "1"), len(self.config.get("each") or ()) + 1
        axes = [len(values) for values in (self.config.get("sweep") or {}).values()]
        if (arms := contestants * tasks * each * prod(axes)) > MOST_ARMS:
            counts = " x ".join(map(str, [*axes, each, contestants, tasks]))
            self._note(
                [
                    f"sweep: its values x changes of `each` x contestants x tasks, {counts}, make"
                    f" {arms:,} arms, and {MOST_ARMS:,} are the most; sweep fewer values, or in"
                    " configurations of their own"
                ]
            )
        return arms > MOST_ARMS

    def _changes(self) -> Iterator[tuple[dict[str, Any], dict[str, str]]]:
        """Each combination of the sweep's axes, with nothing and then with each single change; and
        where each change stands."""
        sweep, each = self.config.get("sweep") or {}, self.config.get("each") or []
        for values in product(*sweep.values()):
            combination = dict(zip(sweep, values, strict=True))
            yield combination, {}
            for number, single in enumerate(each):
                yield {**combination, **single}, dict.fromkeys(single, f"each[{number}].")

    def _arms_of(
        self,
        name: str,
        merged: Node,
        overlay: Mapping[str, Any],
        changes: Mapping[str, Any],
        baseline: bool,
        place: str,
    ) -> Iterator[ArmNode]:
        """The arms of one contestant under one set of changes, one for each of its tasks."""
        applied = {k: v for k, v in changes.items() if self._applies(k, v, merged, overlay)}
        layer, node = Overlay(), merged
        # the class first: settings are laid on it
        for key in sorted(applied, key=lambda key: not key.endswith(".use")):
            node = layer(node, nest(key, applied[key]))
        self._note(f"{place}.{fault}" if place else fault for fault in layer.faults)
        node = resolve(node, self.faults)
        node = _with_prices(node, node["prices"]) if node.get("prices") else node
        tasks = self._tasks(node)
        models = {k: v for k, v in (node.get("models") or {}).items() if v is not None}
        for task in self._chosen(overlay, tasks, place):
            others = tuple(f"tasks.{name}." for name in tasks if name != task)
            mine = {k: v for k, v in applied.items() if not f"{k}.".startswith(others)}
            stages = {
                slot: stage
                for slot, stage in (node.get("stages") or {}).items()
                if stage is not None
            }
            model, model_place = self._model(node.get("model"), models)
            own_model = isinstance(overlay.get("model"), Mapping)
            yield ArmNode(
                name,
                flat_changes(mine),
                task,
                tasks[task],
                model,
                stages,
                node.get("read"),
                node.get("draws", 1),
                node.get("seed", 0),
                baseline,
                place,
                frozenset(overlay.get("stages") or ()),
                models,
                f"tasks.{task}" if node.get("task") is None else "task",
                f"{place}.{model_place}" if own_model else model_place,
                {},
            )

    def _applies(self, key: str, value: Any, merged: Node, overlay: Mapping[str, Any]) -> bool:
        """A contestant is not touched by changes of slots that it does not have, or has dropped."""
        parts, own = key.split("."), overlay.get("stages") or {}
        if parts[0] == "stages" and len(parts) > 1 and parts[1] in own and own[parts[1]] is None:
            return False
        if parts[0] != "stages" or not _stands_alone(overlay):
            return not (parts[0] == "model" and "model" in overlay)
        return len(parts) > 1 and parts[1] in merged["stages"]

    def _tasks(self, node: Node) -> dict[str, Any]:
        if (task := node.get("task")) is not None:
            if others := node.get("tasks"):
                hint = f"a setting of one task is tasks.{next(iter(others))}.n=8, say"
                self._note([f"task: there is `tasks:` as well; keep one of the two ({hint})"])
            return {task_name(task): task}
        tasks = {k: v for k, v in (node.get("tasks") or {}).items() if v is not None}
        if not tasks:
            self._note(
                [
                    "tasks: there is none; name one, such as `task: {use: eval.tasks.Photos, kind:"
                    " jigsaw}`"
                ]
            )
        return tasks

    def _chosen(
        self, overlay: Mapping[str, Any], tasks: Mapping[str, Any], place: str
    ) -> list[str]:
        only, dropped = overlay.get("only"), self.config.get("tasks") or {}
        for name in only or ():
            if name not in tasks and name not in dropped:
                self._note(
                    [
                        f"{place}.only: no task {name!r}; there are"
                        f" {', '.join(tasks)}{did_you_mean(name, tasks)}"
                    ]
                )
        return [task for task in tasks if only is None or task in only]

    def _model(self, model: Any, models: Mapping[str, Any]) -> tuple[Any, str]:
        """The model's node, named, written out, or the only one there is, and its place in the
        file."""
        if model is None and len(models) == 1 and "model" not in self.config:
            model = next(iter(models))
        if not isinstance(model, str):
            return model, "model"
        if model not in models:
            self._note([f"model: no model {model!r} under `models:`{did_you_mean(model, models)}"])
        return models.get(model), f"models.{model}"

    def _needs_are_met(self, name: str, overlay: Mapping[str, Any], merged: Node) -> bool:
        """Whether what a contestant `needs` is there; if not, it is left out.

        `env` names environment variables, `A|B` means one of them; `file` names files.
        """
        needs = overlay.get("needs") or {}
        wanted = (text.split("|") for text in _many(needs.get("env")))
        missing = [
            f"{' or '.join(names)} is not set"
            for names in wanted
            if not any(map(os.environ.get, names))
        ]
        for text in _many(needs.get("file")):
            plain = resolve({**merged, "needed": text}, self.faults).get("needed", text)
            try:
                self.scope.path(plain)
            except ValueError as exc:
                missing.append(str(exc))
        if missing:
            self.left_out[name] = "; ".join(missing)
        return not missing

    def _note(self, faults: Any) -> None:
        self.faults += [fault for fault in faults if fault not in self.faults]


def _with_prices(node: Any, prices: Mapping[str, Any]) -> Any:
    """The node with the listed prices in every `ChatAPI` that asks for a listed model and has none.

    Those of a batch are others.
    """
    if isinstance(node, list):
        return [_with_prices(inner, prices) for inner in node]
    if not isinstance(node, Mapping) or str(node.get("use", "")).endswith(
        "pipelines.models.Batched"
    ):
        return node
    held = {name: _with_prices(inner, prices) for name, inner in node.items()}
    listed = prices.get(held["model"]) if isinstance(held.get("model"), str) else None
    is_chat = str(held.get("use", "")).endswith("pipelines.models.ChatAPI")
    return held | {"prices": listed} if listed and is_chat and held.get("prices") is None else held


def flat_changes(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Changes as single settings: a merged mapping is spread, a new node is shown by its class."""
    flat: dict[str, Any] = {}
    for key, value in changes.items():
        if isinstance(value, Mapping) and "use" not in value:
            inner = {
                f"{key}.{name}": v for name, v in value.items() if name not in ("before", "after")
            }
            flat |= flat_changes(inner)
        elif isinstance(value, Mapping):
            shown = ", ".join(
                f"{k}={v}" for k, v in value.items() if k not in ("use", "before", "after")
            )
            flat[key] = str(value["use"]).rpartition(".")[2] + (f"({shown})" if shown else "")
        elif key.endswith(".use"):
            flat[key] = str(value).rpartition(".")[2]
        else:
            flat[key] = value
    return flat


def _many(value: Any) -> list[str]:
    return [] if value is None else [value] if isinstance(value, str) else list(value)


def _stands_alone(overlay: Mapping[str, Any]) -> bool:
    return "stages" in overlay and bool(overlay.get("replace"))


STYLE_STAGE, CODEC_STAGE = "prompting.markers.VPBenchStyle", "prompting.views.Encode"


STYLES = (
    "default",
    "color blue",
    "color green",
    "color yellow",
    "font scale 0.2",
    "font scale 1.0",
    "marker type diamond",
    "marker type square",
    "marker type triangle",
    "radius 1",
    "radius 3",
    "radius 10",
    "radius 15",
    "text label",
    "text offset below",
    "text offset left",
    "text offset right",
)


CODECS = ("png", "jpeg90", "jpeg80", "jpeg70")


CODEC_SLOT = "encode"


ASKING = ("prompting.turns.", "prompting.agent.")
"""The rooms of stages before which a picture gets its codec."""


def expand_fragility(config: dict[str, Any], faults: list[str]) -> dict[str, Any]:
    """The configuration with the sweep that its entry `fragility` asks for; without the entry, as
    it is."""
    wanted = config.get("fragility")
    if not isinstance(wanted, Mapping):
        return config
    stages, slot = config.get("stages") or {}, wanted.get("slot", "mark")
    if slot not in stages:
        faults.append(
            f"fragility.slot: there is no slot {slot!r}{did_you_mean(slot, stages)}; it is the slot"
            f" of the marker, and there are {', '.join(stages) or 'none'}"
        )
    if config.get("sweep") or config.get("each"):
        faults.append(
            "fragility: it sweeps styles and codecs itself, so say `sweep: null` and `each: null`"
            " beside it"
        )
    styles, codecs = wanted.get("styles") or STYLES, wanted.get("codecs") or CODECS
    bad = [name for name in codecs if not re.fullmatch(r"png|(jpeg|webp)([1-9]\d?|100)", str(name))]
    if bad:
        faults.append(
            "fragility.codecs: expected png, or jpeg or webp with a quality such as jpeg80, found"
            f" {bad[0]!r}"
        )
    if faults:
        return config
    place = {} if CODEC_SLOT in stages else _place(stages, slot)
    drawn = [{"use": STYLE_STAGE, "style": style} for style in styles]
    coded = []
    for name in map(str, codecs):
        codec = name.rstrip("0123456789")
        node: Node = {"use": CODEC_STAGE, "codec": codec}
        if quality := name.removeprefix(codec):
            node["quality"] = int(quality)
        if codec == "jpeg":
            node["chroma"] = "4:2:0"  # Pillow's, with which VPBench encodes
        coded.append({**node, **place})
    return {**config, "sweep": {f"stages.{slot}": drawn, f"stages.{CODEC_SLOT}": coded}}


def _place(stages: Mapping[str, Any], slot: str) -> dict[str, str]:
    """Before the stage that asks; where none of ours does, after the marker."""
    for name, node in stages.items():
        if isinstance(node, Mapping) and str(node.get("use", "")).startswith(ASKING):
            return {"before": name}
    return {"after": slot}
