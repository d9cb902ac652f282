"""The README tells the truth: its Python runs, its YAML has no faults, its commands exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from PIL import Image

from looktwice.eval.cli import app
from looktwice.pipelines.build import Binder, Scope
from looktwice.pipelines.config import load
from looktwice.pipelines.expand import Expansion

README = Path(__file__).parents[1] / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(), re.DOTALL)


def test_the_python_runs_and_gives_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Image.effect_noise((120, 100), 60).convert("RGB").save("street.jpg")
    (code,) = blocks("python")
    *setup, shown, table = code.strip().splitlines()
    names: dict[str, object] = {}
    exec("\n".join(setup), names)
    state = eval(shown, names)
    assert state.reply == "(A)"
    assert "data:image/jpeg" in state._repr_html_()
    rows = {row.contestant: row for row in eval(table, names).rows if row.metric == "accuracy" and row.task == "jigsaw"}
    assert (rows["seams"].n, rows["chance"].n) == (40, 40)
    assert rows["seams"].value > rows["chance"].value


def test_the_study_has_no_faults_but_its_missing_data(tmp_path: Path) -> None:
    (text,) = blocks("yaml")
    (tmp_path / "study.yaml").write_text(text)
    expansion = Expansion(load(tmp_path / "study.yaml"), Scope(tmp_path))
    nodes = list(expansion.points())
    assert not expansion.faults
    assert len(nodes) == 4 * 2 * 2
    binder = Binder(Scope(tmp_path))
    for node in nodes:
        binder.node(node.model, "model")
        for slot, stage in node.stages.items():
            assert binder.node(stage, slot) is not None
    assert not binder.faults


def test_the_commands_exist() -> None:
    named = set(re.findall(r"^    looktwice (\w+)", README.read_text(), re.MULTILINE))
    known = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    assert named == known


def test_every_file_in_the_tree_is_there() -> None:
    tree = README.read_text().partition("## What lies where")[2]
    folder = ""
    for line in tree.splitlines():
        if match := re.match(r"    (\w+)/ ", line):
            folder = match.group(1)
        for name in re.findall(r"\b(\w+\.py)\b", line):
            assert (README.parent / folder / name).exists(), f"{folder}/{name}"
