"""The plan of a run: its arms, each with a built task, model and stages, and an id derived from
everything that decides its results."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from looktwice.pipelines.config.build import Binder
from looktwice.pipelines.config.classes import AbsentPartError, ConfigError, Faults, load_plugin
from looktwice.pipelines.config.expand import ArmNode, Expansion
from looktwice.pipelines.config.load import Node, find_extension_keys, read_config
from looktwice.pipelines.config.paths import Scope, ask_once, save_grant
from looktwice.pipelines.config.shipped import list_configs
from looktwice.pipelines.config.spec import (
    Arm,
    asks_model,
    describe_missing_answer,
    digest,
    identity,
    may_answer,
    spec,
)
from looktwice.pipelines.counted import format_count

NAME_PATTERN = re.compile(r"[\w-][\w.-]*")
DEFAULT_READER = {"use": "eval.readers.Robust"}


@dataclass(frozen=True, eq=False)
class Plan:
    """The arms of a configuration to run. `left_out` maps every contestant that is left out, and
    every task as `tasks.NAME`, to the reason.

    `readings` are arms that read the replies of another arm with another reader. `plugins` are the
    modules outside looktwice that its classes may come from, as `load_plugin` names them. `files`
    maps the places of named files to their paths, and `source` is the configuration's own file.
    `named_paths` holds all files and folders that the configuration names, `hosts` the hosts of its
    URLs, and `permissions` what the user allowed its classes to do.
    """

    name: str
    points: tuple[Arm, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)
    config: Node = field(default_factory=dict)
    readings: tuple[Arm, ...] = ()
    plugins: tuple[str, ...] = ()
    files: Mapping[str, Path] = field(default_factory=dict)
    source: Path | None = None
    named_paths: frozenset[Path] = frozenset()
    hosts: frozenset[str] = frozenset()
    permissions: frozenset[str] = frozenset()

    @property
    def models(self) -> list[Any]:
        """Every distinct model of all arms, including those in the settings of stages."""
        models = [model for arm in self.points for model in arm.models]
        return list({id(model): model for model in models}.values())

    def copy_grants_to(self, source: Path) -> None:
        """Allow the run or study at `source`, which is derived from this plan, to reach what the
        plan reaches beyond its own folders. Raises OSError."""
        real = source.resolve()
        near = [real.parent] if real.is_file() else [real, Path.cwd().resolve()]
        far = [path for path in self.named_paths if not any(map(path.is_relative_to, near))]
        codes = list[str]()
        if self.plugins:
            from looktwice.pipelines.config.plugin_code import find_code

            codes = [find_code(name) for name in self.plugins]
        if far or codes or self.permissions:
            save_grant(source, far, {*(self.hosts if far else ()), *self.permissions}, codes)


@ask_once()
def load_plan(
    path: Path,
    overrides: Sequence[str] = (),
    plugins: Sequence[str] = (),
    allow: Sequence[str] = (),
) -> Plan:
    """Load, override, expand, check and build a configuration. Raises ConfigError with all faults.

    `plugins` are packages or .py files whose classes it may name, as given to `--plugin`. Besides
    its own folder and the paths among the overrides, it may reach the folders and hosts in `allow`,
    and what the user permitted.
    """
    config = read_config(Path(path), overrides, [*map(load_plugin, plugins)], allow)
    return make_plan(config.node, config.scope, Path(path).stem, config.faults)


def _leave_out_absent(arms: Sequence[Arm], faults: Faults) -> tuple[list[Arm], dict[str, str]]:
    """Return the arms whose task files exist, and the reason for each task that is left out. It is
    a fault if a suite has no files at all."""
    absent: dict[str, AbsentPartError] = {}
    for name, task in {arm.task_name: arm.task for arm in arms}.items():
        try:
            getattr(task, "require_present", bool)()
        except AbsentPartError as exc:
            absent[name] = exc
    if not absent:
        return list(arms), {}
    there = [arm for arm in arms if arm.task_name not in absent]
    suites = {type(arm.task) for arm in there}
    missing, reasons = [arm for arm in arms if arm.task_name in absent], dict[str, str]()
    for arm in missing:
        lacks = absent[arm.task_name]
        if type(arm.task) not in suites:
            faults.note(f"tasks.{arm.task_name}: {lacks}")
            continue
        count = f"{len(lacks.found)} of {lacks.total} found"
        reason = f"{lacks.suite}: {count}: {', '.join(lacks.found)}"
        reasons[f"tasks.{arm.task_name}"] = reason
        if all(other.contestant != arm.contestant for other in there):
            reasons[arm.contestant] = reason
    return there, reasons


def _suggest_data(faults: Sequence[str], scope: Scope) -> Iterator[str]:
    """Yield a hint for a bundled study that finds no data, because its paths are only examples."""
    gone = [f for f in faults if re.match(r"tasks?\b[^:]*\.path: 'data/.*' does not exist", f)]
    if gone and scope.source in list_configs().values():
        yield "append data=PATH, the folder of your copy; it sets the paths of all tasks at once"


def add_id(arm: Arm) -> Arm:
    """Return the arm with its ids. Raises TypeError if a setting cannot be serialized."""
    task = identity(arm.task)
    stages = [[slot, identity(stage)] for slot, stage in arm.stages.items()]
    whole = {"task": task, "model": identity(arm.model), "stages": stages, "seed": arm.seed}
    return replace(arm, id=digest(whole), task_id=digest(task))


def make_plan(config: Node, scope: Scope, name: str, faults: Sequence[str] = ()) -> Plan:
    """Make the plan of a loaded configuration. Raises ConfigError with all faults."""
    noted = Faults(faults)
    keys = find_extension_keys(config)
    for entry, key in keys.items():
        config = key.expand(config[entry], config, noted)
    expansion = Expansion(config, scope, noted)
    nodes = list(expansion.expand_arms())
    noted.note(*_find_name_faults(config.get("name"), name))
    binder = Binder(scope, faults=noted)
    built = [arm for node in nodes if (arm := _build_arm(node, binder))]
    arms, absent = _leave_out_absent(built, noted)
    changed = [arm for n, key in keys.items() for arm in key.add_arms(config[n], arms, noted)]
    unready = {arm.contestant: reason for arm in arms if (reason := _list_missing(arm))}
    arms += [arm for new in changed if (arm := _add_id(new, binder))]
    _note_duplicates(arms, noted)
    if noted:
        noted.note(*_suggest_data(noted, scope))
        raise ConfigError(noted)
    if not arms and not expansion.left_out:
        raise ConfigError(["contestants: no contestant has a task, so there is nothing to run"])
    ready = [arm for arm in arms if arm.contestant not in unready and not _list_missing(arm)]
    if ready:
        arms = ready
    else:  # no model is ready: the plan can still be checked, and running it says what is missing
        unready = {}
    asked, readings = _separate_readings(arms)
    left_out = expansion.left_out | absent | unready
    return Plan(
        str(config.get("name") or name),
        asked,
        left_out,
        config,
        readings,
        scope.plugins,
        binder.files,
        scope.source,
        frozenset(binder.named_paths),
        frozenset(binder.hosts),
        frozenset(binder.permissions),
    )


def _find_name_faults(configured_name: Any, file: str) -> Iterator[str]:
    """Yield a fault if the run's name, which is `name:` or else the file's, cannot name a
    folder."""
    name = str(configured_name or file)
    if not NAME_PATTERN.fullmatch(name):
        what = repr(name) if configured_name else f"the file's name {file!r}, used without `name:`,"
        fitting = re.sub(r"[^\w.-]+", "-", name).strip("-.") or "study"
        yield (
            f"name: {what} cannot name the run's folder: use only letters, digits, '.', '_' and"
            f" '-'; write `name: {fitting}`"
        )


def _list_missing(arm: Arm) -> str:
    """Return what the models of an arm report as missing."""
    lacks = [model.missing() for model in arm.models if hasattr(model, "missing")]
    return "; ".join(dict.fromkeys(filter(None, lacks)))


def _build_arm(node: ArmNode, binder: Binder) -> Arm | None:
    """Build an arm; on faults, note them and return None."""
    before, binder.models, binder.change_sources = (
        binder.fault_count,
        node.models,
        node.change_sources,
    )
    nodes, where = node.arm, node.place
    task = binder.build_node(nodes.task, node.task_place, "task")
    stages = {}
    for slot, stage in nodes.stages.items():
        place = f"{where if slot in node.own_slots else ''}stages.{slot}"
        stages[slot] = binder.build_node(stage, place, "stage")
    built = [stage for stage in stages.values() if stage is not None]
    asking = any(map(asks_model, built))
    model = None
    if asking and nodes.model is not None:
        model = binder.build_node(nodes.model, node.model_place, "model")
    read = binder.build_node(nodes.read or DEFAULT_READER, "read", "stage")
    draws, seed = (
        binder.build_value(getattr(nodes, name), int, name) for name in ("draws", "seed")
    )
    if not stages:
        binder.note_fault(f"{where}stages", "there are no stages, so nothing would answer")
    elif len(built) == len(stages) and not any(map(may_answer, built)):
        binder.note_fault(f"{where}stages", describe_missing_answer(stages))
    elif len(built) == len(stages) and asking and nodes.model is None:
        options = " or ".join(f"`model: {name}`" for name in node.models) or "`model:` or `models:`"
        binder.note_fault(
            f"{where}model", f"a stage asks the model, but none is named; write {options}"
        )
    if binder.fault_count > before:
        return None
    arm = replace(nodes, task=task, model=model, stages=stages, read=read, draws=draws, seed=seed)
    return _add_id(arm, binder)


def _add_id(arm: Arm, binder: Binder) -> Arm | None:
    try:
        return add_id(arm)
    except TypeError as exc:
        binder.note_fault(f"contestants.{arm.contestant}", str(exc))
        return None


def _note_duplicates(arms: Sequence[Arm], faults: Faults) -> None:
    """Note identical contestants as faults, and tasks that differ only in their folder."""
    seen: dict[tuple[str, str], Arm] = {}
    tasks: dict[str, tuple[str, Any]] = {}
    twins: dict[tuple[str, str], list[str]] = {}
    for arm in arms:
        twin = seen.setdefault((arm.id, _make_reader_id(arm)), arm)
        if twin.contestant != arm.contestant:
            shown = [f"{k}={'null' if v is None else v}" for k, v in arm.changes.items()]
            drop = f"; drop one (contestants.{arm.contestant}=null)"
            advice = drop
            if shown:
                advice = f" under {', '.join(shown)}{drop}, or make this change a contestant"
            if arm.draws != twin.draws:
                advice += (
                    f", and set `draws: {max(arm.draws, twin.draws)}` in the other: draws repeat"
                    " a contestant and do not make it another one"
                )
            twins.setdefault((arm.contestant, twin.contestant), []).append(
                f"contestants.{arm.contestant}: the same as {twin.contestant!r} on"
                f" {arm.task_name}{advice}"
            )
        task = spec(arm.task)
        name, first = tasks.setdefault(arm.task_id, (arm.task_name, task))
        if first != task:
            faults.note(
                f"tasks.{arm.task_name}: differs from {name!r} only in its folder; rename one of"
                " the folders"
            )
    for first, *more in twins.values():
        faults.note(first + f"; likewise in {format_count(len(more), 'more arm')}" * bool(more))


def _separate_readings(arms: Sequence[Arm]) -> tuple[tuple[Arm, ...], tuple[Arm, ...]]:
    """Separate the arms to run from those that only read the replies of another arm."""
    asked: dict[str, Arm] = {}
    readings: dict[str, Arm] = {}
    for arm in arms:
        first = asked.setdefault(arm.id, arm)
        if _make_reader_id(arm) != _make_reader_id(first):
            name = f"{arm.id}-{_make_reader_id(arm)[:8]}"
            readings.setdefault(name, replace(arm, id=name, replies_of=arm.id))
    return tuple(asked.values()), tuple(readings.values())


def _make_reader_id(arm: Arm) -> str:
    return digest(identity(arm.read))
