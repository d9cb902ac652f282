"""The guide and the how-to pages are correct: their blocks run from top to bottom."""

import json
import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from typer.testing import CliRunner

from looktwice.eval import RunFolder
from looktwice.eval.cli import app
from looktwice.eval.statistics.intervals import resampled_means
from looktwice.eval.tasks import Folder
from looktwice.eval.tasks.own_questions import LINE_KEYS
from looktwice.pipelines.picture import Picture, make_thumbnail_url
from tests.chat_server import ChatServer, chat_server
from tests.paths import DOCS, ROOT

URL = "http://127.0.0.1:8000/v1"
PAGES = (
    "guide.md",
    *(f"howto/{name}.md" for name in ("changes", "contestants", "money", "data", "own", "python")),
)
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """A block of a page: its language, its file if it is one, its text, and its line."""

    language: str
    file: str
    text: str
    place: str


def blocks() -> list[Block]:
    found = list[Block]()
    for page in PAGES:
        text = (DOCS / page).read_text(encoding="utf-8")
        for m in BLOCK.finditer(text):
            line = len(text[: m.start()].splitlines()) + 1
            found.append(Block(m[1], m[2] or "", m[3], f"docs/{page}, line {line}"))
    return found


class Reader:
    """Follows the guide: writes its files, types its commands, and runs its Python."""

    def __init__(self, server: ChatServer, patch: pytest.MonkeyPatch) -> None:
        self.server, self.patch, self.said = server, patch, ""
        self.names: dict[str, Any] = {}
        self.asked: dict[str, int] = {}  # requests that each command sent

    def follow(self, block: Block) -> None:
        text = block.text.replace(URL, self.server.url)
        # text before the first command is a folder, not output
        if block.language == "text" and self.said:
            assert find_missing(block.text, self.said) == [], self.said
        elif block.file:
            Path(block.file).parent.mkdir(parents=True, exist_ok=True)
            Path(block.file).write_text(text)
        elif block.language == "sh":
            self.said = "".join(self.type(line) for line in block.text.splitlines())
        elif block.language == "python":
            exec(compile(text, block.place, "exec"), self.names)

    def type(self, line: str) -> str:
        """Run a command and return its output. A failing command fails the test."""
        command, *words = shlex.split(line, comments=True)
        if command == "export":
            name, _, value = words[0].partition("=")
            self.patch.setenv(name, value)
            return ""
        if command == "python":
            runpy.run_path(str(ROOT / words[0]))
            return ""
        assert command == "looktwice"
        before = self.server.stats["requests"]
        done = CliRunner().invoke(app, words, catch_exceptions=False)
        assert done.exit_code == 0, f"{line}\n{done.output}"
        self.asked[line] = self.server.stats["requests"] - before
        return done.output


def shape(line: str) -> str:
    """Return a line without its numbers and the spaces between its words."""
    return " ".join(re.sub(r"[+\u2212-]?\d[\d,.]*", "#", line).split())


def find_missing(shown: str, said: str) -> list[str]:
    """Return the lines of an excerpt that were not printed; `...` stands for omitted lines."""
    printed = {shape(line) for line in said.splitlines()}
    return [
        line
        for line in shown.splitlines()
        if line.strip() not in ("", "...") and shape(line) not in printed
    ]


def speed_up_pages(patch: pytest.MonkeyPatch) -> None:
    """Cache thumbnails, and compute intervals with few resamples."""
    made: dict[str, str] = {}

    def once(picture: Picture, *look: Any) -> str:
        if picture.sha not in made:
            made[picture.sha] = make_thumbnail_url(picture, *look)
        return made[picture.sha]

    def few(*arguments: Any, **more: Any) -> NDArray[np.float64]:
        return resampled_means(*arguments, **more | {"resamples": 100})

    patch.setattr("looktwice.eval.page.run_page.make_thumbnail_url", once)
    patch.setattr("looktwice.eval.statistics.intervals.resampled_means", few)


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "LOOKTWICE_ALLOW"):
        monkeypatch.delenv(name, raising=False)
    speed_up_pages(monkeypatch)
    with chat_server() as server:
        yield Reader(server, monkeypatch)
    sys.modules.pop("mine", None)


@pytest.mark.slow
def test_every_block_of_the_guide_runs_and_prints_the_quoted_lines(reader: Reader) -> None:
    for block in blocks():
        try:
            reader.follow(block)
        except BaseException as exc:
            exc.add_note(block.place)
            raise
    assert reader.asked["looktwice run study.yaml --limit 5"] == 15
    assert reader.asked["looktwice run study.yaml --table full"] == 45
    assert reader.asked["looktwice run paid.yaml --table full"] == 0
    assert {name: len(RunFolder(Path("runs", name)).points) for name in ("sweep", "each")} == {
        "sweep": 12,
        "each": 5,
    }
    check_frames(reader.names)


def check_frames(names: dict[str, Any]) -> None:
    """Check for a column per contestant, a LaTeX line for each, and a cell per setting."""
    asked = {"plain", "unmarked", "words", "chance"}
    lines = [line for line in names["results"].to_latex().splitlines() if "&" in line]
    printed = [line.split("&")[0].strip() for line in lines]
    assert len(printed) == len(set(printed)) and asked <= set(printed)
    assert {*names["records"].contestant} == asked and len(names["records"]) == 80
    assert len(names["shown"]) == 6
    assert names["by_radius"].shape == (3, 2) and names["by_radius"].notna().all(axis=None)
    assert len(names["accuracy"]) == 12
    radius, color, think = "mark.radius", "mark.color", "think"
    crossed = [f"{radius} x {color}"] * 2 + [f"{radius} x {think}"] * 2 + [f"{color} x {think}"]
    assert names["effects"].factor.tolist() == [radius, radius, color, think, *crossed]


def test_the_example_row_with_every_field_is_a_valid_question(tmp_path: Path) -> None:
    (shown,) = [block for block in blocks() if block.language == "json"]
    line = json.loads(shown.text)
    assert set(LINE_KEYS) - line.keys() == {"images", "video"}
    Image.new("RGB", (320, 240)).save(tmp_path / line["image"])
    (tmp_path / "samples.jsonl").write_text(json.dumps(line))
    (item,) = Folder(tmp_path)
    assert item.answer == "B" and len(item.sample.marks) == 2


def test_the_table_of_fields_lists_every_field() -> None:
    page = (DOCS / "guide.md").read_text(encoding="utf-8")
    named = {key for key in LINE_KEYS if f"| `{key}` |" in page or f"`{key}` is a list" in page}
    assert named == {*LINE_KEYS}


def test_a_quoted_line_that_is_not_printed_is_noticed() -> None:
    sentence = "  plain  25.0 [11.2–46.9]  20  5/15/0/0  +15.0  0.453\n"
    assert find_missing("plain 10.0 [2.8–30.1] 20 2/18/0/0 +5.0 1.000\n...\n", sentence) == []
    other = "plain 10.0 [2.8–30.1] 20 2/18/0 +5.0"
    assert find_missing(f"{other}\n", sentence) == [other]
