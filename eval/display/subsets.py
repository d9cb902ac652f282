"""A subset of a run's samples, as the analysis audit writes it, laid over scores: every table shows
it or the whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import yaml
from pydantic import with_config
from typing_extensions import TypedDict

from looktwice.eval.records.records import RunError, read_yaml
from looktwice.eval.scoring.verdict import RunScores
from looktwice.pipelines.schema import OPEN


@with_config(OPEN)
class IdsNode(TypedDict):
    """The samples of a subset."""

    ids: list[str]


@with_config(OPEN)
class ChosenNode(TypedDict):
    """A task of which a subset is named."""

    subset: IdsNode


@with_config(OPEN)
class FragmentNode(TypedDict, total=False):
    """A piece of a configuration that names subsets."""

    task: ChosenNode
    tasks: dict[str, ChosenNode] | None


def read_subset(path: Path) -> Mapping[str, set[str]]:
    """The sample ids of each task in a piece of a configuration:
    `tasks: {depth: {subset: {ids: [...]}}}`.

    Raises RunError where it is none.
    """
    try:
        fragment = read_yaml(path, FragmentNode) or {}
    except (OSError, ValueError, yaml.YAMLError) as exc:
        raise RunError(
            f"{path}: no subset ({exc}); give a file such as clean.yaml, which `audit` writes"
        ) from exc
    tasks = {
        **(fragment.get("tasks") or {}),
        **({"task": fragment["task"]} if "task" in fragment else {}),
    }
    if not tasks:
        raise RunError(
            f"{path} names no task with `subset: {{ids: [...]}}`; `looktwice analyse RUN audit`"
            " writes such a file"
        )
    return {str(name): set(node["subset"]["ids"]) for name, node in tasks.items()}


def keep_only(run: RunScores, path: Path) -> RunScores:
    """The scores on the samples that the file names; a task that it does not name is left out.
    Raises RunError."""
    ids = read_subset(path)
    names = {scores.point.task for scores in run.points}
    # the short form of a single task, whatever it is called
    if len(names) == 1 and ids.keys() == {"task"}:
        ids = {name: ids["task"] for name in names}
    kept = [scores for scores in run.points if scores.point.task in ids]
    if not any(ids[scores.point.task] & scores.samples.keys() for scores in kept):
        there = ", ".join(dict.fromkeys(scores.point.task for scores in run.points))
        raise RunError(f"{path} names none of the samples of {run.name}, whose tasks are {there}")
    labelled = (replace(s.only(ids[s.point.task]), task=f"{s.task} ({path.stem})") for s in kept)
    return replace(run, points=tuple(labelled))
