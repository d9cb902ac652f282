"""The model that a name stands for: among the models of a run's own configuration, or of another
one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from looktwice.eval.records.records import RunFolder
from looktwice.pipelines.config import did_you_mean
from looktwice.pipelines.config.build import Binder
from looktwice.pipelines.config.classes import ConfigError
from looktwice.pipelines.config.load import parse_override, read_config, resolve
from looktwice.pipelines.config.paths import allowed_to
from looktwice.pipelines.model import Model


def build_judge_model(
    run: Path,
    name: str,
    config: Path | None = None,
    overrides: Sequence[str] = (),
    plugins: Sequence[str] = (),
    allow: Sequence[str] = (),
) -> Model:
    """The model `name` under `models:` of the run's configuration as it ran, or of `config`, after
    the overrides.

    `models.judge={use: ..., model: ...}` among the overrides adds one. Paths of its settings count
    from the folder of `config`, else from the working folder. Raises ConfigError with every fault,
    RunError.
    """
    folder = RunFolder(run)
    folder.points  # noqa: B018  a folder that is no run is the first thing to say
    source = config if config is not None else folder.facts.get("config") or {}
    node, scope, faults = read_config(
        source, overrides, plugins, (*allow, *map(str, allowed_to(run)))
    )
    if strange := [
        place for text in overrides if not (place := parse_override(text)[0]).startswith("models.")
    ]:
        faults.append(
            f"{strange[0]}: a judge's settings stand under `models:`, as"
            f" models.{name or 'judge'}.model=NAME"
        )
    node = resolve({**node, "models": node.get("models") or {}}, faults)
    models = {key: value for key, value in (node.get("models") or {}).items() if value is not None}
    if name not in models:
        faults.append(
            f"--model {name}: there is no such model under `models:`"
            f" ({', '.join(models) or 'none'}){did_you_mean(name, models)}; name one, add one with"
            f" 'models.{name or 'judge'}={{use: pipelines.models.ChatAPI, model: ...}}', or give"
            " --config FILE"
        )
        raise ConfigError(faults)
    binder = Binder(scope, models, faults)
    made: Model = binder.node(models[name], f"models.{name}", "model")
    if binder.faults:
        raise ConfigError(binder.faults)
    return made
