"""`data=`, `split=` and `model=` mean the same in every shipped configuration."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from looktwice.pipelines.config.classes import ConfigError
from looktwice.pipelines.config.load import load, read_config, resolve_references
from looktwice.pipelines.config.overrides import expand_override
from tests.paths import CONFIGS
from tests.tables import check_all, table

STUDIES = [path for path in sorted(CONFIGS.glob("*.yaml")) if not path.stem.startswith("as_")]


def find_studies(path: Path, *overrides: str) -> dict[str, Any]:
    config = read_config(path, overrides)
    parts = ("tasks", "task", "models", "model", "stages")  # tasks may refer to stages
    node = resolve_references(
        {key: config.node[key] for key in parts if key in config.node}, config.faults
    )
    assert not config.faults, [*config.faults]
    return node


def tasks_of(node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    tasks = [*(node.get("tasks") or {}).values(), node.get("task")]
    return [task for task in tasks if isinstance(task, Mapping)]


def models_of(node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    models = [*(node.get("models") or {}).values(), node.get("model")]
    return [model for model in models if isinstance(model, Mapping)]


@pytest.mark.slow
def test_a_shipped_configuration_accepts_them() -> None:
    check_all((path.stem, partial(check_config, path)) for path in STUDIES)


def check_config(path: Path) -> None:
    plain = load(path)
    reads = any("path" in task for task in tasks_of(plain))
    given = ["data=elsewhere", "split=test"] if reads else []
    if has_names := "model" in {key for model in models_of(plain) for key in model}:
        given.append("model=some-model")
    else:
        with pytest.raises(ConfigError, match=r"^model=some-model: "):
            read_config(path, ["model=some-model"])
    try:
        other = models_of(read_config(path, ["model={use: pipelines.models.Pocket}"]).node)
        assert not any("model" in model for model in other)
    except ConfigError as exc:
        assert not has_names and "type contestants.mine=" in str(exc)
    node = find_studies(path, *given)
    for task in tasks_of(node):
        if "path" in task:
            assert (task["path"], task["split"]) == ("elsewhere", "test")
    names = {model["model"] for model in models_of(node) if "model" in model}
    assert names == ({"some-model"} if has_names else set())
    assert [model.get("use") for model in models_of(node)] == [
        model.get("use") for model in models_of(plain)
    ]


@table
def test_overrides(node: dict[str, Any], override: list[Any], places: dict[str, Any]) -> None:
    assert dict(expand_override(node, *override)) == places


@table
def test_naming_a_model_does_not_change_its_server(node: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=f"^model=qwen: .*{why}.*ChatAPI, model: qwen, url: URL"):
        dict(expand_override(node, "model", "qwen"))


def test_data_for_a_study_that_reads_none_is_refused() -> None:
    tasks: dict[str, Any] = {"task": {"n": 3}, "tasks": {"shapes": {"n": 3}}}
    for place in ("data", "split"):
        for node in ({"task": tasks["task"]}, {"tasks": tasks["tasks"]}, {}):
            with pytest.raises(ConfigError, match=f"{place}=x"):
                list(expand_override(node, place, "x"))


def test_settings_for_a_model_that_nothing_asks_are_refused() -> None:
    node = {"models": {"a": {"use": "Replay"}, "b": {"use": "Replay"}}}
    with pytest.raises(ConfigError, match=r"^model=\{\.\.\.\}: .*a, b"):
        dict(expand_override(node, "model", {"use": "Pocket"}))
