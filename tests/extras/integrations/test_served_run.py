"""The growing run folder of a served study, read by other commands while the server runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from looktwice.extras.scenes import LettersAndShapes
from looktwice.pipelines import Stage
from looktwice.pipelines.config.plan import load_plan
from looktwice.pipelines.config.shipped import find_config
from looktwice.pipelines.models import Pocket
from looktwice.prompting import Ask, BlankImage
from tests.extras.integrations.served import (
    OPENER,
    Served,
    plan_of,
    post,
    questions,
    refusal,
    serving,
    turn,
)
from tests.first_day.studies import looktwice
from tests.served_page import serve_run

ITEMS = [*LettersAndShapes(n=10)]


def ask(served: Served, numbers: slice) -> None:
    """Ask three arms of the certificate, and the last of them the last question again."""
    for item in ITEMS[numbers]:
        shown = turn(item.sample.images[0].payload.data_url, item.sample.question)
        known = {"id": item.sample.id, "answer": item.answer}
        for name in ("without", "full", "black"):
            body = {"model": name, "messages": [shown], "looktwice": known, "temperature": 0}
            assert post(served.url, body).status == 200
    assert post(served.url, body).status == 200


def get_output(*words: str) -> str:
    """Return the output of a command."""
    result = looktwice(*words)
    assert not result.exception, result.output
    return result.output


@pytest.mark.slow
def test_commands_read_a_growing_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    plan = load_plan(find_config("tool_contribution"))
    with serving(plan, tmp_path) as served:
        run = str(served.run)
        ask(served, slice(0, 6))
        with serve_run(served.run) as page:
            ask(served, slice(6, 10))
            with OPENER.open(f"{page}sample?n=0", timeout=30) as answer:
                assert b"too small for me" in answer.read()
            assert refusal(f"{page}sample?n=9") == 404
        certified = get_output("analyse", run, "certify")
        assert "(n = 10)" in certified
        gain, of_pixels = re.findall(r"(?:gains|gained,) (\d+\.\d)", certified)
        assert gain == of_pixels and float(gain) > 50
        report = get_output("score", run, "--table", "full")
        assert "full" in report and "unfinished" not in report
        letter = ITEMS[0].sample.id
        shown = get_output("view", run, "--sample", letter)
        assert f"(correct answer: {ITEMS[0].answer})" in shown and "look 1: zoom" in shown
        compared = get_output("compare", run, "--only", "full")
        assert f"full is {gain} points better than without" in compared
        conversations = get_output(
            "export", run, "--to", "trajectories", "--only", "right", "--out", "t"
        )
        assert re.match(r"1\d conversations", conversations)
        assert "32 records identical" in get_output("replay", run)


def test_questions_without_answer_keys_are_compared_by_their_requests(tmp_path: Path) -> None:
    stages: dict[str, dict[str, Stage]] = {
        "plain": {"ask": Ask()},
        "grey": {"grey": BlankImage(), "ask": Ask()},
    }
    with serving(plan_of(stages, Pocket()), tmp_path) as served:
        for url, text in questions(4):
            for name in stages:
                post(served.url, {"model": name, "messages": [turn(url, text)]})
        run = str(served.run)
        compared = get_output("compare", run, "--out", str(tmp_path / "compared"))
        assert "grey against plain: 4 pairs among 4 and 4 requests" in compared
        assert "what pictures show (4)" in compared
        result = looktwice("analyse", run, "certify")
        assert "has no correct answers" in result.output
