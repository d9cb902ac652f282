"""Every public stage in the studio: its form, and its rendered gallery picture or the reason for
having none."""

from __future__ import annotations

import importlib
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from looktwice.eval.tasks import MarkedScenes
from looktwice.extras.studio.backend import StudioBackend
from looktwice.extras.studio.draft import Draft, Slot
from looktwice.extras.studio.forms import Catalog
from looktwice.pipelines.config.classes import ConfigError, load_plugin
from looktwice.pipelines.sample import Item
from tests.paths import DOCS
from tests.tables import read_yaml

gallery = importlib.import_module(load_plugin(str(DOCS / "gallery.py")))
PLUGIN = load_plugin(str(DOCS / "edge_strength.py"))
ENTRIES = [entry for group in gallery.groups() for entry in group.entries]
CATALOG = Catalog().to_dict()
SLOW = {
    "QuestionAttention",
    *(f"rendered-{name}" for name in ("motion", "correspondence", "depth", "relation", "counting")),
}
STAGES = [path for paths in CATALOG["rooms"].values() for path in paths]


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> StudioBackend:
    return StudioBackend(tmp_path_factory.mktemp("backend"), plugins=(PLUGIN,))


def render(
    backend: StudioBackend, sample: Any, slots: tuple[Slot, ...], **more: Any
) -> dict[str, Any]:
    item = Item(sample, None)
    draft = Draft.from_item(item, {}, backend.save_picture, **more)
    return backend.render(Draft(**{**vars(draft), "stages": slots}))


def slow(name: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.slow] if name.rpartition(".")[2] in SLOW else []


@pytest.mark.slow
@pytest.mark.parametrize(
    "entry", [pytest.param(entry, id=entry.name, marks=slow(entry.name)) for entry in ENTRIES]
)
def test_it_renders_the_picture_of_the_gallery(backend: StudioBackend, entry: Any) -> None:
    slots = tuple(Slot(f"s{number}", node) for number, node in enumerate(entry.nodes))
    shown = render(backend, gallery.SAMPLES[entry.sample](), slots)
    if entry.model:  # a model decides where it looks; its stand-in says "(A)" until asked
        assert shown["views"]
    else:
        state = entry.run()
        views = [view.picture.payload.sha for view in state.shown_views or state.views]
        assert [view["sha"] for view in shown["views"]] == views
    for node in entry.nodes:
        names = [setting["name"] for setting in CATALOG["forms"][node["use"]]["settings"]]
        assert set(node) - {"use"} <= set(names)


DATA = read_yaml(Path(__file__).with_suffix(".yaml"))
SETTINGS: dict[str, dict[str, Any]] = DATA["settings"]
LEFT_OUT = {path for paths in DATA["left out"].values() for path in paths}
IN_GALLERY = {node["use"] for entry in ENTRIES for node in entry.nodes}


@pytest.mark.parametrize(
    "path", [pytest.param(path, marks=slow(path)) for path in STAGES if path not in IN_GALLERY]
)
def test_stages_without_a_gallery_picture_render_or_have_a_reason(
    backend: StudioBackend, path: str
) -> None:
    item = next(iter(MarkedScenes(kind="shape")))
    meta = {"prompt": "What is it?"} if path in DATA["own prompt"] else {}
    images = (item.sample.images * 2) if "atch" in path or "Motion" in path else item.sample.images
    sample = replace(item.sample, meta=meta, images=images)
    slots = (Slot("stage", {"use": path, **SETTINGS.get(path, {})}),)
    if path not in LEFT_OUT:
        assert render(backend, sample, slots)["views"]
        return
    with pytest.raises((ConfigError, ValueError), match=r"^stages\.stage: "):
        render(backend, sample, slots)


def test_every_setting_of_every_class_has_a_form() -> None:
    kinds = {"number", "whole", "text", "words", "color", "flag", "choice", "part", "model", "json"}
    typed = set[str]()
    forms = CATALOG["forms"]
    assert forms["specialists.maps.DepthAnything"]["weights"]
    assert not forms["specialists.maps.DepthCue"]["weights"]
    assert forms["specialists.answers.MostSimilar"]["weights"]
    assert not forms["specialists.answers.MatchedPoint"]["weights"]
    for form in forms.values():
        assert form["says"]
        assert {setting["kind"] for setting in form["settings"]} <= kinds
        typed |= {setting["words"] for setting in form["settings"] if setting["kind"] == "json"}
    parts = {words for words in typed if not re.search(r"list|mapping|^\[", words)}
    # those that do not name the class they return
    nodes = {"Iterable", "Grid or null", "ScalarMap", "IdentityEmbedder", "ReflectanceEstimator"}
    assert parts == nodes
