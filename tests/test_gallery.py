"""The gallery: its table runs and covers every stage that changes a model's views."""

import dataclasses
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import looktwice.prompting
from looktwice.pipelines.config.classes import find_class, load_plugin
from looktwice.pipelines.config.spec import asks_model
from looktwice.pipelines.extensions import list_own_classes
from tests.optional import require_extras
from tests.paths import DOCS
from tests.tables import read_yaml

PAGES = ("gallery", "controls")
DESCRIBED_EFFECTS: set[str] = {*read_yaml(Path(__file__).with_suffix(".yaml"))}
QUICK = ("circles", "dot-grid-extra", "zoom-each", "no-image", "encode-jpeg", "scalar-overlay")


@pytest.fixture(scope="module")
def gallery() -> Any:
    """The script, loaded like a plugin because it belongs to no package."""
    require_extras()  # questions of its table
    return importlib.import_module(load_plugin(str(DOCS / "gallery.py")))


@pytest.fixture(scope="module")
def entries(gallery: Any) -> dict[str, Any]:
    return {entry.name: entry for group in gallery.groups() for entry in group.entries}


def stages() -> Iterator[str]:
    """Yield the public stages of our rooms, as configurations name them."""
    for found in pkgutil.iter_modules(looktwice.prompting.__path__):
        room = importlib.import_module(f"looktwice.prompting.{found.name}")
        for name in room.__all__:
            cls = getattr(room, name)
            if inspect.isclass(cls) and is_stage(cls):
                yield f"prompting.{found.name}.{name}"
    for path, entry in list_own_classes().items():
        if path.startswith("prompting.") and is_stage(entry.open()):
            yield path


def is_stage(cls: type) -> bool:
    """Return whether a class is a stage: a dataclass called with a state and the model."""
    call: Any = getattr(cls, "__call__")  # noqa: B004, B009  # of its instances, or how the class itself is called
    given = [*inspect.signature(call).parameters]
    return dataclasses.is_dataclass(cls) and given[1:] == ["state", "model"]


def test_stages_without_a_model_say_so() -> None:
    """A study of such stages needs no model."""
    asking = set()
    for path in stages():
        stage = find_class(path)
        asking |= {path} if asks_model(object.__new__(stage)) else set()
    turns = ("Ask", "CaptionThenAnswer", "RedrawThenAnswer", "Reperceive", "Verify", "Vote")
    # these depend on the setting `where`
    by_setting = {f"prompting.views.{name}" for name in ("Look", "RetrievedCrops", "Show")}
    by_setting |= {"prompting.turns.When", "prompting.turns.ContrastAnswer"}
    by_setting |= {f"prompting.telling.{name}Words" for name in ("Depth", "Match", "Region")}
    assert asking - by_setting == {
        "prompting.agent.Agent",
        *(f"prompting.turns.{name}" for name in turns),
    }


def list_used(entries: Mapping[str, Any]) -> set[str]:
    return {node["use"] for entry in entries.values() for node in entry.nodes}


def test_every_stage_that_changes_views_has_a_picture(entries: dict[str, Any]) -> None:
    known = set(stages())
    assert len(known) > 40
    assert known >= DESCRIBED_EFFECTS
    missing = known - DESCRIBED_EFFECTS - list_used(entries)
    assert not missing, f"add these to docs/gallery.yaml and run `make format`: {sorted(missing)}"


def test_names_are_distinguished(gallery: Any, entries: dict[str, Any]) -> None:
    assert len(entries) == sum(len(group.entries) for group in gallery.groups())
    assert set(QUICK) <= set(entries)


def test_entries_run_and_have_the_described_effect(
    gallery: Any, entries: dict[str, Any], tmp_path: Path
) -> None:
    group = gallery.Group("Some", "A few.", tuple(entries[name] for name in QUICK))
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "of-a-stage-that-is-gone.webp").touch()
    gallery.write(tmp_path / "page.md", [group])
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert all(entry.stages in page for entry in group.entries)
    named = links(page)
    assert len(named) == 1 + 2 + 3 + 0 + 1 + 1
    assert {f"page/{path.name}" for path in (tmp_path / "page").iterdir()} == named
    for name in named:
        with Image.open(tmp_path / name) as image:
            assert image.width <= gallery.WIDEST
            assert np.ptp(np.asarray(image)) > 100


def test_entries_give_the_same_pixels_at_every_run(entries: dict[str, Any]) -> None:
    for name in ("random-marks", "other-image", "random-crop"):
        first, second = (entries[name].run().views for _ in range(2))
        assert all((a.pixels == b.pixels).all() for a, b in zip(first, second, strict=True))


def test_the_page_matches_the_table(entries: dict[str, Any]) -> None:
    page = "".join((DOCS / f"{name}.md").read_text(encoding="utf-8") for name in PAGES)
    pictures = [path for name in PAGES for path in (DOCS / name).iterdir()]
    assert links(page) == {f"{path.parent.name}/{path.name}" for path in pictures}
    stale = [
        name for name, entry in entries.items() if f"**{entry.title}.** {entry.says}" not in page
    ]
    stale += [name for name, entry in entries.items() if entry.stages not in page]
    assert not stale, f"docs/gallery.md is older than its table ({stale}); run `make format`"
    assert sum(path.stat().st_size for path in pictures) < 1_500_000


def links(page: str) -> set[str]:
    return set(re.findall(r"\]\(([^)]+)\)", page))
