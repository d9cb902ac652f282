"""README and the page of specialists are correct."""

import json
import re
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml
from PIL import Image
from typer.testing import CliRunner

from looktwice.eval import Folder
from looktwice.eval.cli import FIRST_COMMANDS, app
from looktwice.pipelines.config.build import Binder
from looktwice.pipelines.config.classes import load_plugin
from looktwice.pipelines.config.expand import Expansion
from looktwice.pipelines.config.load import load
from looktwice.pipelines.config.paths import Scope
from looktwice.pipelines.extensions import list_own_classes
from looktwice.specialists import protocols
from tests.optional import needs_extras
from tests.paths import DOCS, ROOT

README = ROOT / "README.md"


SPECIALISTS = README.parent / "docs" / "specialists.md"


def blocks(language: str, page: Path = README) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)


@pytest.mark.slow
def test_the_python_runs_and_prints_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code = blocks("python", DOCS / "howto" / "python.md")[0]
    *setup, shown, last = code.strip().splitlines()
    assert len(setup) + 2 == 10
    printed = list[Any]()
    names: dict[str, Any] = {"print": printed.append}
    exec("\n".join(setup), names)
    state = eval(shown, names)
    assert state.reply in tuple("ABCD")
    assert "data:image/" in state._repr_html_()
    exec(last, names)
    (table,) = printed
    assert {"marked", "classical", "chance"} <= {*str(table).split()}
    rows = {row.contestant: row for row in table.where(metric="accuracy", task="color")}
    assert (rows["marked"].n, rows["classical"].n, rows["chance"].n) == (60, 60, 60)
    assert min(rows["marked"].value, rows["classical"].value) > rows["chance"].value + 0.3


def test_the_study_has_no_faults_and_its_questions_are_read(tmp_path: Path) -> None:
    (text,) = blocks("yaml")
    (question,) = re.findall(r"`(\{\"id\".*?)`", README.read_text(), re.DOTALL)
    (tmp_path / "questions").mkdir()
    (tmp_path / "questions" / "samples.jsonl").write_text(json.dumps(json.loads(question)))
    Image.new("RGB", (320, 240)).save(tmp_path / "questions" / "1.png")
    (item,) = Folder(tmp_path / "questions")
    assert item.answer == "A" and len(item.sample.marks) == 2
    (tmp_path / "study.yaml").write_text(text)
    expansion = Expansion(load(tmp_path / "study.yaml"), Scope(tmp_path))
    nodes = list(expansion.expand_arms())
    assert Counter(node.arm.contestant for node in nodes)["marked"] == 3
    binder = Binder(Scope(tmp_path))
    for node in nodes:
        binder.build_node(node.arm.task, "task")
        binder.build_node(node.arm.model, "model")
        for slot, stage in node.arm.stages.items():
            assert binder.build_node(stage, slot) is not None
    assert not expansion.faults and not binder.faults


@needs_extras
def test_the_page_of_specialists_lists_exactly_the_specialists() -> None:
    text = SPECIALISTS.read_text().partition("## Specialists by protocol")[2]
    named = set(re.findall(r"`([A-Z]\w+)`", text))
    # these locate where a model looks or should look, and answer no question
    apart = {"AttentionShare", "VisionAttention", "QuestionAttention", "MarkAskedShapes"}
    apart |= {"EditSalience", "Network"}
    public = set(import_module("looktwice.specialists").__dict__["__all__"])
    moved = (
        path.rpartition(".")[2] for path in list_own_classes() if path.startswith("specialists.")
    )
    public.update(moved)
    assert public - apart <= named and named - public <= set(protocols.__all__)


@needs_extras
def test_the_page_of_specialists_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(blocks("python", SPECIALISTS)[0], names)
    rows = [
        row for row in names["table"].rows if row.metric == "accuracy" and row.contestant == "sift"
    ]
    assert rows[0].n == 8 and rows[0].value > 0.5
    # these are looked up when they are bound
    for folder in ("dlib", "PP-OCRv5_mobile_det", "PP-OCRv6_small_rec"):
        (tmp_path / "models" / folder).mkdir(parents=True)
    stages = (
        "stages: {ask: {use: prompting.turns.Ask}}\ntask: {use: eval.tasks.Photos, kind: depth, n:"
        " 2}\n"
    )
    for text in blocks("yaml", SPECIALISTS):
        nodes = list(yaml.safe_load(text).items())  # specialists by name, or a part of a study
        if "contestants" in text:
            (tmp_path / "study.yaml").write_text(stages + text)
            expansion = Expansion(load(tmp_path / "study.yaml"), Scope(tmp_path))
            nodes = [pair for node in expansion.expand_arms() for pair in node.arm.stages.items()]
            assert not expansion.faults
        binder = Binder(Scope(tmp_path))
        assert (
            nodes
            and all(binder.build_node(node, name) for name, node in nodes)
            and not binder.faults
        )


def test_the_commands_exist() -> None:
    named = set(re.findall(r"\blooktwice (\w+)", "".join(blocks("sh"))))
    assert {"init", "check", "run", "view"} == named <= set(FIRST_COMMANDS)


def test_the_readme_is_short_enough() -> None:
    assert len(README.read_text().splitlines()) <= 100


@pytest.mark.nightly
def test_the_quoted_demo_result_is_current(tmp_path: Path) -> None:
    pocket = import_module(load_plugin(str(DOCS / "pocket.py")))
    done = CliRunner().invoke(app, ["run", "quickstart", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert pocket.demo(tmp_path / "quickstart") in README.read_text()


@needs_extras
def test_the_map_lists_every_room_with_its_description() -> None:
    rooms = import_module(load_plugin(str(DOCS / "rooms.py")))
    assert (DOCS / "map.md").read_text(encoding="utf-8") == rooms.page(), "run `make format`"


@needs_extras
def test_contributing_names_existing_files() -> None:
    named = re.findall(r"`([\w.]+/[\w./]*)`", (ROOT / "CONTRIBUTING.md").read_text())
    assert len(named) > 12
    # next to the checkout, if present
    assert {name for name in named if not (ROOT / name).exists()} <= {"shared/data"}
