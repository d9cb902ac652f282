"""Hostile configurations and folders of questions each give one sentence."""

import json
import re
from pathlib import Path

import pytest

from tests.under_fire.scenes import run_command, write_questions

STUDY = """
task: {use: eval.tasks.Folder, path: own}
stages: {mark: {use: prompting.markers.Circles}, ask: {use: prompting.turns.Ask}}
models: {m: {use: pipelines.models.Scripted, answer: "(A)"}}
"""
NINE = ", ".join(["*a{0}"] * 9)
BOMB = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{NINE.format(n - 1)}]\n" for n in range(1, 12))
SWEPT = {f"stages.mark.{name}": list(range(1, 101)) for name in ("radius", "width", "alpha", "gap")}
DEEP = "nested more than 50 levels deep"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_questions({"images": ["p.png"]})


def check(more: str = "", *words: str, code: int = 2) -> str:
    Path("study.yaml").write_text(STUDY + more)
    return run_command(code, "check", "study.yaml", *words)


@pytest.mark.parametrize(
    ("more", "fact"),
    [
        ("include: 5", "include: .* found 5"),
        ("include: [{a: b}]", "include: expected"),
        ("include: own", "include: 'own' is not a file"),
        ("note: " + "[" * 1500 + "]" * 1500, f"{DEEP}, at line 5"),
        ("note: " + "{a: " * 1500 + "1" + "}" * 1500, f"{DEEP}, at line 5"),
        ("note: " + "[" * 100 + "]" * 100, DEEP),
        (BOMB, "1,000,000 values, at line"),
        ("note: &a [*a]", r"\*a .*at line 5"),
        (f"sweep: {json.dumps(SWEPT)}", "100,000,000 arms"),
    ],
    ids=lambda text: text[:20],
)
def test_a_hostile_configuration_gives_one_sentence(more: str, fact: str) -> None:
    assert re.search(fact, check(more))


def test_circular_references_give_one_sentence() -> None:
    assert "refers to no entry" in check("", "name=${note}", "note=${name}")


@pytest.mark.parametrize("url", ["htp://nowhere", "127.0.0.1:8000/v1", "http://me:secret@[::1]/v1"])
@pytest.mark.parametrize(
    "setting", ["models.m=%s", "stages.ask={captioner: %s, use: prompting.turns.CaptionThenAnswer}"]
)
def test_an_invalid_url_is_a_fault_before_the_run(url: str, setting: str) -> None:
    asked = f"{{use: pipelines.models.ChatAPI, model: tiny, url: {json.dumps(url)}}}"
    said = check("", setting % asked)
    assert "model 'tiny': " in said and "url" in said and "secret" not in said


def test_a_missing_key_is_reported_before_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    asked = "{use: pipelines.models.ChatAPI, model: tiny, url: 'https://api.openai.com/v1'}"
    said = check("", f"models.m={asked}", code=0)
    assert "a run cannot start yet: api.openai.com needs a key" in said
