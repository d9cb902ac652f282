"""Overrides from the command line, `place=value`, and those that work in every configuration,
whatever its tasks and models are called: `data=PATH`, `split=NAME` and `model=NAME`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from looktwice.pipelines.config.classes import ConfigError, suggest_names
from looktwice.pipelines.disk import check_yaml


def expand_override(node: Mapping[str, Any], place: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the places that an override sets in this configuration, with their new values; an
    ordinary override is yielded unchanged.

    `data` sets the `path` of every task that reads files, or with "hub:ID" its data set on the hub,
    and `split` sets their split. `model` sets the server-side name of every model in use, unless it
    names one of `models:`; a mapping replaces the settings of each such model. Raises ConfigError
    if no task reads data, or if a model in use has no name to change, such as `Pocket`: replacing
    it would send the images to a server that the study does not name.
    """
    tasks = {f"tasks.{name}": task for name, task in (node.get("tasks") or {}).items()}
    tasks["task"] = node.get("task")
    mapped = {name: task for name, task in tasks.items() if isinstance(task, Mapping)}
    read = [name for name, task in mapped.items() if not task.keys().isdisjoint(("path", "hub"))]
    models = node.get("models") or {}
    if place in ("data", "split") and not read:
        made = ", ".join(name for name, task in tasks.items() if task) or "none"
        raise ConfigError(
            [
                f"{place}={value}: no task of this study reads data from files (its tasks: {made})."
                " For your own questions, type"
                " task='{use: eval.tasks.Columns, path: PATH}'; `looktwice list tasks` lists others"
            ]
        )
    if place == "split":
        yield from ((f"{name}.split", value) for name in read)
    elif place == "data" and str(value).startswith("hub:"):
        for name in read:
            yield f"{name}.path", None
            yield f"{name}.hub", str(value).removeprefix("hub:")
    elif place == "data":
        # the other paths refer to one of these
        own = [name for name in read if not str(mapped[name].get("path")).startswith("${")]
        yield from ((f"{name}.path", value) for name in own)
        yield from ((f"{name}.hub", "") for name in own if mapped[name].get("hub"))
    elif place != "model" or not isinstance(value, str | Mapping):
        yield place, value
    elif isinstance(value, str) and suggest_names(value, models):
        yield place, value  # one of the file's models, perhaps mistyped
    else:
        yield from _replace_models_in_use(models, node.get("model"), value)


def _replace_models_in_use(
    models: Mapping[str, Any], chosen_model: Any, value: str | Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """Yield the place to change for each model in use, with its new value: a server-side name, or
    the settings of another model. Raises ConfigError."""
    every = {f"models.{key}": model for key, model in models.items()}
    places = {
        place: model
        for place, model in every.items()
        if place == f"models.{chosen_model}" or (isinstance(model, Mapping) and "model" in model)
    }
    if isinstance(chosen_model, Mapping) or (chosen_model and not places):
        places["model"] = chosen_model
    listed = f"; `models:` has {', '.join(models)}" if models else ""
    is_per_contestant = len(models) > 1 and not places  # each contestant names one of its own
    if isinstance(value, Mapping) and is_per_contestant:
        raise ConfigError(
            [
                f"model={{...}}: each contestant names its own model{listed}; type"
                " contestants.mine='{model: {...}}' to add a contestant with this one"
            ]
        )
    if isinstance(value, Mapping):
        yield from ((place, value) for place in places or every or ["model"])
        return
    nameless = [
        f"{place} is {model.get('use') if isinstance(model, Mapping) else model}"
        for place, model in (places or every).items()
        if not (isinstance(model, Mapping) and "model" in model)
    ]
    if nameless or not places:
        why = f"{nameless[0]}, which has no `model`" if nameless else "this study names no model"
        node = f"{{use: pipelines.models.ChatAPI, model: {value}, url: URL}}"
        typed = f"contestants.mine='{{model: {node}}}'" if is_per_contestant else f'model="{node}"'
        raise ConfigError(
            [
                f"model={value}: this is a server-side model name, but {why}{listed}. To use"
                f" another model, type {typed}; without `url`, the server is OpenAI's"
            ]
        )
    yield from ((f"{place}.model", value) for place in places)


def read_overrides(overrides: Sequence[str], node: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the places that overrides set, with their new values. Raises ConfigError."""
    return [pair for text in overrides for pair in expand_override(node, *parse_override(text))]


def find_swept_overrides(settings: Sequence[tuple[str, Any]], sweep: Any) -> Iterator[str]:
    """Yield a fault for each override of a setting that the sweep replaces in every arm."""
    for place, value in settings:
        for swept, levels in sweep.items() if isinstance(sweep, Mapping) else ():
            if not f"{swept}.".startswith(f"{place}."):
                continue
            setting, inner = value, [part for part in swept[len(place) :].split(".") if part]
            while inner and isinstance(setting, Mapping):
                setting = setting.get(inner.pop(0), ...)
            if setting is not ...:
                shown = ", ".join(map(str, levels)) if isinstance(levels, list) else levels
                text = "null" if setting is None else setting
                yield (
                    f"{place}: {swept} is swept ({shown}), so no arm would use {text}; type"
                    f" 'sweep.{swept}=[{text}]', or sweep=null to drop the whole sweep"
                )


def parse_override(text: str) -> tuple[str, Any]:
    """Parse `place=value` from the command line into (place, value), reading the value as YAML.
    Raises ConfigError."""
    place, equals, value = text.partition("=")
    if not equals or not place.strip():
        raise ConfigError(
            [f"{text!r}: an override is written place=value, such as stages.mark.radius=5"]
        )
    try:
        check_yaml(value)
        read = OmegaConf.to_container(OmegaConf.from_dotlist([f"value={value}"]), resolve=False)
    except (yaml.YAMLError, OmegaConfBaseException, ValueError) as exc:
        raise ConfigError([f"{text!r:.200}: the value is not YAML ({exc})"]) from exc
    return place.strip(), cast(dict[str, Any], read)["value"]
