"""The examples of docs/examples: studies that run unchanged, and pages made from their runs."""

import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import yaml
from PIL import Image
from typer.testing import CliRunner

from looktwice.eval.cli import app
from looktwice.eval.tasks import Folder
from looktwice.pipelines.config import load_plan
from looktwice.pipelines.config.classes import load_plugin
from looktwice.pipelines.marks import Point
from tests.optional import require_extras
from tests.paths import DOCS, ROOT

FOLDER = DOCS / "examples"
NAMES = ("markers", "specialists", "agent")
MAX_BYTES = 700_000  # of all pictures
COMMAND = re.compile(r"^    looktwice (run docs/examples/\S+\.yaml.*)$", re.MULTILINE)


def load(path: Path) -> Any:
    """Return a script as a module."""
    require_extras()
    return import_module(load_plugin(str(path)))


def page(name: str) -> str:
    return (FOLDER / f"{name}.md").read_text(encoding="utf-8")


def command(name: str) -> list[str]:
    """Return the first command of a page."""
    return str(COMMAND.findall(page(name))[0]).split()


@pytest.mark.parametrize("name", NAMES)
def test_the_page_shows_the_study_and_the_command_that_runs_it(name: str) -> None:
    (study,) = re.findall(r"```yaml\n(.*?)```", page(name), re.DOTALL)
    assert yaml.safe_load(study) == yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
    assert command(name)[:2] == ["run", f"docs/examples/{name}.yaml"]
    named = set(re.findall(r"docs/examples/[\w.]+|\]\(([\w.]+)\)", page(name))) - {""}
    assert [file for file in named if not (FOLDER / Path(file).name).is_file()] == []
    headings = re.findall(r"^## (.*)", page(name), re.MULTILINE)
    assert headings == ["Question", "Study", "Finding", "Cost", "On your own photographs"]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_command_of_the_page_asks_every_arm(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_extras()
    monkeypatch.chdir(ROOT)
    words = [*command(name), "--limit", "1", "--out", str(tmp_path)]
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    plugins = [str(FOLDER / "color_eyes.py")] * (name == "specialists")
    arms = load_plan(FOLDER / f"{name}.yaml", plugins=plugins).points
    lines = (tmp_path / name / "records.jsonl").read_text().splitlines()
    assert {json.loads(line)["point"] for line in lines} == {arm.id for arm in arms}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["markers", pytest.param("specialists", marks=pytest.mark.nightly), "agent"]
)
def test_the_page_shows_the_results_of_a_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    examples = load(DOCS / "examples.py")
    drawn: list[Path] = []
    monkeypatch.setattr(Image.Image, "save", lambda image, file, *_, **__: drawn.append(Path(file)))
    assert examples.PAGES[name](tmp_path) == page(name)
    assert drawn == [FOLDER / f"{name}.webp"]


def test_pictures_are_small_and_shown() -> None:
    pictures = sorted(FOLDER.rglob("*.webp"))
    assert {f"{name}.webp" for name in NAMES} == {file.name for file in FOLDER.glob("*.webp")}
    assert all(f"]({name}.webp)" in page(name) for name in NAMES)
    assert sum(file.stat().st_size for file in pictures) < MAX_BYTES


@pytest.mark.slow
def test_the_photographs_and_questions_are_those_that_the_scripts_write(tmp_path: Path) -> None:
    pictures = load(DOCS / "example_pictures.py")
    pictures.write_photographs(tmp_path / "photographs")
    pictures.write_letters(tmp_path / "letters")
    for folder in ("photographs", "letters"):
        made, kept = ([*Folder(root / folder)] for root in (tmp_path, FOLDER))
        assert [(item.sample.id, item.answer, item.sample.marks) for item in made] == [
            (item.sample.id, item.answer, item.sample.marks) for item in kept
        ]
        assert {item.sample.images[0].size for item in made} == {
            item.sample.images[0].size for item in kept
        }


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Three photographs of a user, one of which is rotated by its EXIF tag."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for name in ("coffee", "rocket"):
        with Image.open(FOLDER / "photographs" / f"{name}.webp") as image:
            image.convert("RGB").save(folder / f"{name}.jpg", quality=95)
            exif = Image.Exif()
            exif[274] = 6
            image.convert("RGB").save(folder / f"{name}-turned.JPG", quality=95, exif=exif)
    (folder / "notes.txt").write_text("no photograph")
    return folder


def test_own_photographs_get_questions_about_two_points(photos: Path) -> None:
    count = load(FOLDER / "mark_photographs.py").write_questions(photos, 3)
    items = [*Folder(photos)]
    assert len(items) == count == 12
    for item in items:
        a, b = item.sample.marks
        assert isinstance(a, Point) and isinstance(b, Point)
        assert item.answer == ("A" if a.y < b.y else "B")
        width, height = item.sample.images[0].size
        assert abs(a.y - b.y) >= height / 5 - 1
        assert all(0 < p.x < width and 0 < p.y < height for p in (a, b))


@pytest.mark.parametrize("degrees", [0, 25])
def test_own_photographs_are_turned_and_the_answer_shows_the_same_spot(
    photos: Path, tmp_path: Path, degrees: float
) -> None:
    load(FOLDER / "turn_photographs.py").write_questions(photos, tmp_path / "pairs", degrees)
    items = [*Folder(tmp_path / "pairs")]
    assert len(items) > 6
    close = 0
    for item in items:
        views = [cv2.blur(image.pixels.astype(np.float32), (5, 5)) for image in item.sample.images]
        marks = {mark.label: mark for mark in item.sample.marks if isinstance(mark, Point)}
        assert {label: mark.image for label, mark in marks.items()} == dict.fromkeys("ABCD", 1) | {
            "REF": 0
        }
        spots = {p: views[m.image][round(m.y), round(m.x)] for p, m in marks.items()}
        unlike = {p: np.abs(spots[p] - spots["REF"]).sum() for p in "ABCD"}
        close += min(unlike, key=unlike.__getitem__) == item.answer
    assert close / len(items) > 0.8


def test_a_claim_that_the_results_contradict_is_refused() -> None:
    examples = load(DOCS / "examples.py")
    examples.require(dots_are_worse=True)
    with pytest.raises(ValueError, match="dots_are_worse"):
        examples.require(dots_are_worse=False, letters_matter=True)
