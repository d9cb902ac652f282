"""Expands a configuration to one node per arm: contestants x sweep x `each` x tasks."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from typing import Any, NamedTuple

from looktwice.pipelines.config.classes import (
    Faults,
    extend_hint,
    find_class,
    flatten_changes,
    suggest_names,
)
from looktwice.pipelines.config.load import (
    OVERLAY_KEYS,
    Node,
    Overlay,
    find_shape_faults,
    get_task_name,
    nest_value,
    resolve_references,
)
from looktwice.pipelines.config.paths import Scope
from looktwice.pipelines.config.spec import Arm
from looktwice.pipelines.model import is_deferring

MAX_ARMS = 100_000


REPLACE_HINT = (
    "; if this contestant's stages are the whole pipeline, add `replace: true` next to `stages:`"
)


class ArmNode(NamedTuple):
    """An arm that is not built yet: `arm` holds the nodes of its task, model, stages and reader.

    `place`, `task_place` and `model_place` are the places of the contestant, its task and its model
    in the file. `own_slots` holds the slots that the contestant itself sets, and `models` the
    models that `{ref: ...}` may name. `change_sources` maps a place to the entry that changes it,
    such as `each[0].stages.mark`.
    """

    arm: Arm
    place: str
    own_slots: Collection[str]
    models: Mapping[str, Any]
    task_place: str
    model_place: str
    change_sources: Mapping[str, str]


@dataclass
class Expansion:
    """Expands a configuration; `left_out` maps contestants with unmet needs to the reason."""

    config: Node
    scope: Scope = field(default_factory=Scope)
    faults: Faults = field(default_factory=Faults)
    left_out: dict[str, str] = field(default_factory=dict)

    def expand_arms(self) -> Iterator[ArmNode]:
        """Yield every arm of the configuration in order, including duplicates.

        If an entry has the wrong type, yields no arms and only notes faults.
        """
        unknown, wrong = find_shape_faults(self.config)
        self.faults.note(*unknown, *wrong)
        if wrong:
            return
        if self.config.get("sweep") or self.config.get("each"):
            from looktwice.pipelines.config.change_faults import find_change_faults

            self.faults.note(*find_change_faults(self.config))
        named = _drop_nulls(self.config.get("contestants")) or {"plain": {}}
        if self._has_too_many_arms(len(named)):
            return
        first = self.config.get("baseline") or next(iter(named))
        if first not in named:
            self.faults.note(f"baseline: no contestant {first!r}; there are {', '.join(named)}")
        for name, overlay in named.items():
            place = f"contestants.{name}." if self.config.get("contestants") else ""
            merged = self._merge_contestant(overlay, place)
            if not self._needs_are_met(name, overlay, merged):
                continue
            for changes in self._combine_changes(f"contestants.{name}."):
                applied = {
                    k: v for k, (v, _) in changes.items() if _is_applicable(k, merged, overlay)
                }
                changed_at = {key: entry for key, (_, entry) in changes.items()}
                for node in self._expand_tasks(name, merged, overlay, applied, place):
                    arm = replace(node.arm, baseline=name == first)
                    yield node._replace(arm=arm, change_sources=changed_at)

    def _merge_contestant(self, overlay: Mapping[str, Any], place: str) -> Node:
        """Return the configuration of a contestant: its stages are overlaid on the file's, or
        replace them with `replace: true`.

        As with nested mappings in Hydra, OmegaConf and docker-compose, a contestant that changes
        one slot keeps the others, including `ask`.
        """
        layer, plans = Overlay(hint=REPLACE_HINT), ("sweep", "each", "contestants")
        node = {key: value for key, value in self.config.items() if key not in plans}
        own = {k: v for k, v in overlay.items() if k in OVERLAY_KEYS}
        if _replaces_stages(overlay):
            node["stages"] = {}
        if isinstance(own.get("model"), str):
            node["model"] = None
        merged: Node = layer(node, own)
        self.faults.note(*(f"{place}{fault}" for fault in layer.faults))
        return merged

    def _has_too_many_arms(self, contestants: int) -> bool:
        """Return whether there would be more than `MAX_ARMS` arms, and note that as a fault; this
        is checked before expanding."""
        axes = [len(values) for values in (self.config.get("sweep") or {}).values()]
        singles, tasks = len(self.config.get("each") or ()), len(self.config.get("tasks") or "1")
        counts = [*axes, singles + 1, contestants, tasks]
        if (arms := prod(counts)) > MAX_ARMS:
            self.faults.note(
                "sweep: values x changes of `each` x contestants x tasks make"
                f" {' x '.join(map(str, counts))} = {arms:,} arms, more than the limit of"
                f" {MAX_ARMS:,}; sweep fewer values, or split the study into several files"
            )
        return arms > MAX_ARMS

    def _combine_changes(self, own_place: str) -> Iterator[dict[str, tuple[Any, str]]]:
        """Yield each combination of the sweep's values, first alone, then with each entry of
        `each`, as changed place -> (value, entry that sets it). Changes to contestants are limited
        to those below `own_place`, the contestant's own place."""
        sweep, each = self.config.get("sweep") or {}, self.config.get("each") or ()
        axes = [
            [(value, f"sweep.{key}[{number}]") for number, value in enumerate(values)]
            for key, values in sweep.items()
        ]
        singles: list[dict[str, tuple[Any, str]]] = [{}]
        singles += [
            {key: (value, f"each[{number}].{key}") for key, value in single.items()}
            for number, single in enumerate(each)
        ]
        for values, single in product(product(*axes), singles):
            changes = dict(zip(sweep, values, strict=True)) | single
            yield {
                key.removeprefix(own_place): change
                for key, change in changes.items()
                if key.startswith(own_place) or not key.startswith("contestants.")
            }

    def _expand_tasks(
        self,
        name: str,
        merged: Node,
        overlay: Mapping[str, Any],
        changes: Mapping[str, Any],
        place: str,
    ) -> Iterator[ArmNode]:
        """Yield the arms of one contestant under one set of changes, one per task."""
        layer, node = Overlay(), merged
        # the class first, then its settings
        for key in sorted(changes, key=lambda key: not key.endswith(".use")):
            node = layer(node, nest_value(key, changes[key]))
        self.faults.note(*(f"{place}{fault}" for fault in layer.faults))
        node = resolve_references(node, self.faults)
        node = _add_prices(node, node["prices"]) if node.get("prices") else node
        tasks, models = self._list_tasks(node), _drop_nulls(node.get("models"))
        model, model_place = self._select_model(node.get("model"), models)
        if isinstance(overlay.get("model"), Mapping):
            model_place = f"{place}{model_place}"
        for task in self._select_tasks(overlay, tasks, place):
            others = tuple(f"tasks.{name}." for name in tasks if name != task)
            mine = {k: v for k, v in changes.items() if not f"{k}.".startswith(others)}
            arm = Arm(
                name,
                flatten_changes(mine),
                task,
                tasks[task],
                model,
                _drop_nulls(node.get("stages")),
                node.get("read"),
                node.get("draws", 1),
                node.get("seed", 0),
            )
            task_place = f"tasks.{task}" if node.get("task") is None else "task"
            own = overlay.get("stages") or ()
            yield ArmNode(arm, place, own, models, task_place, model_place, {})

    def _list_tasks(self, node: Node) -> dict[str, Any]:
        if (task := node.get("task")) is not None:
            if others := node.get("tasks"):
                hint = f"to change one task, type for example tasks.{next(iter(others))}.n=8"
                self.faults.note(f"task: there is `tasks:` as well; keep one of the two ({hint})")
            return {get_task_name(task): task}
        tasks = _drop_nulls(node.get("tasks"))
        if not tasks:
            self.faults.note(
                "tasks: the study has no task; add one, such as `task: {use: eval.tasks.Photos,"
                " kind: jigsaw}`"
            )
        return tasks

    def _select_tasks(
        self, overlay: Mapping[str, Any], tasks: Mapping[str, Any], place: str
    ) -> list[str]:
        only = overlay.get("only")
        for name in only or ():
            if name not in tasks and name not in (self.config.get("tasks") or ()):
                near = extend_hint(suggest_names(name, tasks), f"there are {', '.join(tasks)}")
                self.faults.note(f"{place}only: no task {name!r}{near}")
        return [task for task in tasks if only is None or task in only]

    def _select_model(self, model: Any, models: Mapping[str, Any]) -> tuple[Any, str]:
        """Return the node of the model that is named, written out or the only one defined, and its
        place in the file."""
        if model is None and len(models) == 1 and "model" not in self.config:
            model = next(iter(models))
        parts = model if isinstance(model, Mapping) and "use" not in model else {}
        for name, node in parts.items():
            if isinstance(node, Mapping) and "use" in node:
                self.faults.note(f"model: models with names are under `models:`, such as {name}")
                return node, f"models.{name}"
        if models and isinstance(model, Mapping) and "use" not in model:
            place = ".".join(["models", next(iter(models)), *[*model][:1]])
            self.faults.note(f"model: the models are under `models:`, so type {place}")
            model = next(iter(models))
        if not isinstance(model, str):
            return model, "model"
        if model not in models:
            there = f"there are {', '.join(models) or 'none'}"
            near = extend_hint(suggest_names(model, models), there)
            self.faults.note(f"model: no model {model!r} under `models:`{near}")
        return models.get(model), f"models.{model}"

    def _needs_are_met(self, name: str, overlay: Mapping[str, Any], merged: Node) -> bool:
        """Return whether a contestant's `needs` are met; if not, record it in `left_out`.

        `env` names environment variables, `A|B` means either of them; `file` names files.
        """
        needs, missing = overlay.get("needs") or {}, []
        for text in _as_list(needs.get("env")):
            names = text.split("|")
            if not any(map(os.environ.get, names)):
                missing.append(f"{' or '.join(names)} is not set")
        for text in _as_list(needs.get("file")):
            plain = resolve_references({**merged, "needed": text}, self.faults).get("needed", text)
            try:
                self.scope.resolve_path(plain, f"contestants.{name}.needs.file")
            except ValueError as exc:
                missing.append(str(exc))
        if missing:
            self.left_out[name] = "; ".join(missing)
        return not missing


def _is_applicable(key: str, merged: Node, overlay: Mapping[str, Any]) -> bool:
    """Return whether a contestant has the slot or model that a change sets."""
    first, slot = [*key.split("."), ""][:2]
    if first == "stages":
        dropped = (overlay.get("stages") or {}).get(slot, slot) is None
        return not dropped and (not _replaces_stages(overlay) or slot in merged["stages"])
    return first != "model" or "model" not in overlay


def _drop_nulls(nodes: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the entries whose value is not null."""
    return {name: node for name, node in (nodes or {}).items() if node is not None}


def _add_prices(node: Any, prices: Mapping[str, Any]) -> Any:
    """Add the list prices to every model node that is in the list and has no prices.

    Deferring models are skipped, because batches have other prices.
    """
    if isinstance(node, list):
        return [_add_prices(inner, prices) for inner in node]
    if not isinstance(node, Mapping):
        return node
    use = str(node.get("use", ""))
    kind: Any = None
    with suppress(ValueError):  # a fault that is reported later, or a class of a plugin
        kind = find_class(use) if use else None
    if kind is not None and is_deferring(kind):
        return node
    priced = {name: _add_prices(inner, prices) for name, inner in node.items()}
    listed = prices.get(str(priced.get("model")))
    if listed and hasattr(kind, "prices") and priced.get("prices") is None:
        priced["prices"] = listed
    return priced


def _as_list(value: Any) -> list[str]:
    return [] if value is None else [value] if isinstance(value, str) else list(value)


def _replaces_stages(overlay: Mapping[str, Any]) -> bool:
    return "stages" in overlay and bool(overlay.get("replace"))
