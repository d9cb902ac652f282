"""Overrides that mean the same in every configuration, whatever its tasks and models are called:
`data=PATH`, `split=NAME` and `model=NAME`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from looktwice.pipelines.config.classes import ConfigError, did_you_mean


def spelt_out(node: Mapping[str, Any], place: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The places of this configuration that an override sets, and what they become; any other
    override stands for itself.

    `data` is the `path` of every task that reads one, or with "hub:ID" its data set of the hub, and
    `split` their split. `model` is the name at the server of every model that is asked, unless it
    names one of `models:`, or the settings of another model in the place of each. Raises
    ConfigError where no task reads data, and where it would change no model: one without such a
    name, as `Pocket` is, becomes no other by a name, which would send the pictures to another
    server.
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
                " For questions of your own type"
                " task='{use: eval.tasks.Columns, path: PATH}'; `looktwice list tasks` names others"
            ]
        )
    if place == "split":
        yield from ((f"{name}.split", value) for name in read)
    elif place == "data" and str(value).startswith("hub:"):
        for name in read:
            yield f"{name}.path", None
            yield f"{name}.hub", str(value).removeprefix("hub:")
    elif place == "data":
        # the others follow one of these
        own = [name for name in read if not str(mapped[name].get("path")).startswith("${")]
        yield from ((f"{name}.path", value) for name in own)
        yield from ((f"{name}.hub", "") for name in own if mapped[name].get("hub"))
    elif place != "model" or not isinstance(value, str | Mapping):
        yield place, value
    elif isinstance(value, str) and did_you_mean(value, models):
        yield place, value  # one of the file's, also mistyped
    else:
        yield from _asked_instead(models, node.get("model"), value)


def _asked_instead(
    models: Mapping[str, Any], asked: Any, value: str | Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """The places of the models that are asked, with another name at their server or other settings.
    Raises ConfigError."""
    every = {f"models.{key}": model for key, model in models.items()}
    places = {
        place: model
        for place, model in every.items()
        if place == f"models.{asked}" or (isinstance(model, Mapping) and "model" in model)
    }
    if isinstance(asked, Mapping) or (asked and not places):
        places["model"] = asked
    listed = f"; `models:` has {', '.join(models)}" if models else ""
    beside = len(models) > 1 and not places  # each contestant names one of its own
    if isinstance(value, Mapping) and beside:
        raise ConfigError(
            [
                f"model={{...}}: each contestant names a model of its own{listed}; type"
                " contestants.mine='{model: {...}}' to ask this one beside them"
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
        typed = f"contestants.mine='{{model: {node}}}'" if beside else f'model="{node}"'
        raise ConfigError(
            [
                f"model={value}: it names a model at its server, and {why}{listed}. For another"
                f" model type {typed}; without `url` it is OpenAI's"
            ]
        )
    yield from ((f"{place}.model", value) for place in places)
