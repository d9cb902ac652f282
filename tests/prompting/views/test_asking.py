"""Which stages may call the model: a study of the others needs none."""

import inspect
from importlib import import_module
from typing import Any

import pytest

from looktwice.pipelines.config.paths import Scope
from looktwice.pipelines.config.plan import make_plan
from looktwice.pipelines.config.spec import asks_model
from tests.paths import ROOT

ASKING = {"agent.Agent"} | {
    f"turns.{name}"
    for name in ("Ask", "CaptionThenAnswer", "RedrawThenAnswer", "Reperceive", "Verify", "Vote")
}


def stages() -> dict[str, type]:
    """Every public class of `prompting` that is called with a state and a model, by room and
    name."""
    lines = (ROOT / "tests/public_paths.txt").read_text(encoding="utf-8").split()
    rooms = [
        line.split(".")[1:]
        for line in lines
        if line.startswith("prompting.") and line.count(".") == 2
    ]
    found = {
        f"{room}.{name}": getattr(import_module(f"looktwice.prompting.{room}"), name)
        for room, name in rooms
    }
    called = {
        path: inspect.signature(each.__call__)
        for path, each in found.items()
        if "__call__" in dir(each)
    }
    return {
        path: found[path]
        for path, signature in called.items()
        if [*signature.parameters] == ["self", "state", "model"]
    }


def test_the_stages_that_call_no_model_say_so() -> None:
    asking = {path for path, stage in stages().items() if asks_model(object.__new__(stage))}
    assert asking == ASKING
    assert {path.partition(".")[0] for path in stages().keys() - asking} >= {
        "burnt_in",
        "controls",
        "grids",
        "markers",
        "turns",
        "views",
        "wording",
    }


@pytest.mark.parametrize(
    "zoom",
    [
        {"use": "prompting.views.ZoomOnMarks"},
        {
            "use": "prompting.views.ZoomOnDetections",
            "detector": {"use": "specialists.detection.FaceCascade"},
        },
        {
            "use": "prompting.views.ZoomOnCells",
            "grid": {"use": "prompting.grids.RuledGrid"},
            "cells": ["A1"],
        },
    ],
)
def test_a_study_of_zooms_without_a_model_is_accepted(zoom: dict[str, Any]) -> None:
    stages = {"zoom": zoom, "guess": {"use": "specialists.answers.Chance"}}
    task = {"use": "eval.tasks.Photos", "kind": "jigsaw", "n": 1}
    (point,) = make_plan({"task": task, "stages": stages}, Scope(), "t").points
    assert point.model is None
