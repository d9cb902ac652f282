"""A configuration or a folder of questions that nobody in their right mind wrote: each is answered
with a sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from looktwice.eval.cli import app

STUDY = """
task: {use: eval.tasks.Folder, path: own}
stages: {mark: {use: prompting.markers.Circles}, ask: {use: prompting.turns.Ask}}
models: {m: {use: pipelines.models.Scripted, answer: "(A)"}}
"""
NINE = ", ".join(["*a{0}"] * 9)
BOMB = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{NINE.format(n - 1)}]\n" for n in range(1, 12))
HUNDRED = list(range(1, 101))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own").mkdir()
    write_questions()
    return tmp_path


def write_questions(**more: object) -> None:
    rows = [
        {"id": name, "question": "Which?", "images": [f"{name}.png"], "choices": ["a", "b"]}
        for name in "pq"
    ]
    Path("own/samples.jsonl").write_text("".join(json.dumps(row | more) + "\n" for row in rows))
    Image.new("RGB", (9, 9)).save("own/p.png")


def check(more: str = "", *words: str) -> str:
    Path("study.yaml").write_text(STUDY + more)
    result = CliRunner().invoke(app, ["check", "study.yaml", *words])
    assert result.exit_code == 2 and isinstance(result.exception, SystemExit), result.output
    return result.output


@pytest.mark.parametrize(
    ("more", "sentence"),
    {
        "a number to include": (
            "include: 5",
            "include: expected the name of a configuration, or a list, found 5",
        ),
        "a mapping to include": (
            "include: [{a: b}]",
            "include: expected the name of a configuration, or a list",
        ),
        "a folder to include": ("include: own", "include: 'own' is no file"),
        "deep lists": (
            "note: " + "[" * 1500 + "]" * 1500,
            "nested more than 50 levels deep, at line 5",
        ),
        "deep mappings": (
            "note: " + "{a: " * 1500 + "1" + "}" * 1500,
            "nested more than 50 levels deep, at line 5",
        ),
        "a hundred levels": ("note: " + "[" * 100 + "]" * 100, "nested more than 50 levels deep"),
        "a bomb of aliases": (BOMB, "aliases repeat more than 1,000,000 values, at line"),
        "an alias inside of itself": (
            "note: &a [*a]",
            "*a stands for nothing, or contains itself, at line 5",
        ),
        "10^8 points": (
            (
                "sweep: "
                + json.dumps(
                    {f"stages.mark.{name}": HUNDRED for name in ("radius", "width", "alpha", "gap")}
                )
            ),
            "100 x 100 x 100 x 100 x 1 x 1 x 1, make 100,000,000 arms, and 100,000 are the most",
        ),
    }.values(),
)
def test_a_hostile_configuration_is_a_sentence(folder: Path, more: str, sentence: str) -> None:
    """They ended in a traceback of `TypeError` or `RecursionError`, or in no end at all."""
    assert sentence in check(more)


def test_references_in_a_circle_are_a_sentence(folder: Path) -> None:
    assert "leads nowhere" in check("", "name=${note}", "note=${name}")


@pytest.mark.parametrize(
    "url", ["htp://nowhere", "127.0.0.1:8000/v1", "http://me:secret@127.0.0.1/v1"]
)
def test_a_url_that_cannot_be_asked_is_a_fault_before_the_run(folder: Path, url: str) -> None:
    """`check` said that all was well, and `run` refused it."""
    asked = "pipelines.models.ChatAPI, model: tiny, url: " + json.dumps(url)
    Path("own/samples.jsonl").write_text(
        Path("own/samples.jsonl").read_text().splitlines()[0] + "\n"
    )
    said = check("", f"models.m={{use: {asked}}}")
    assert "model 'tiny': " in said and "url" in said and "secret" not in said
    second = check(
        "", f"stages.ask={{captioner: {{use: {asked}}}, use: prompting.turns.CaptionThenAnswer}}"
    )
    assert "model 'tiny': " in second


def test_a_key_that_is_missing_is_said_before_the_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    url = "{use: pipelines.models.ChatAPI, model: tiny, url: 'https://api.openai.com/v1'}"
    Path("study.yaml").write_text(STUDY)
    result = CliRunner().invoke(app, ["check", "study.yaml", f"models.m={url}"])
    assert (
        result.exit_code == 0
        and "a run cannot ask yet: api.openai.com needs a key" in result.output
    )
