"""A user's `check` before a run that costs money: how much is asked, and which images cannot be
opened."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from looktwice.eval.cli import app
from looktwice.eval.runs.dry_run import announce_requests
from looktwice.pipelines.config import load_plan
from tests.chat_server import chat_server

STUDY = """
task: {use: eval.tasks.Folder, path: own}
model: {use: pipelines.models.ChatAPI, model: gpt-4o, url: "http://127.0.0.1:9/v1", max_tokens: 100,
        prices: {in: 2.5, out: 10}}
stages:
  ask: {use: prompting.turns.Ask}
draws: 2
contestants:
  plain: {}
  same: {read: {use: eval.readers.WholeReply}}
  again: {stages: {mark: {use: prompting.wording.Letters, before: ask}}}
  chance: {replace: true, stages: {answer: {use: specialists.answers.Chance}}}
"""


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three questions of 40 characters about images of 512 x 512 pixels, one of them broken."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own").mkdir()
    row = {
        "question": "What is the colour of the whole picture?",
        "choices": ["red", "blue"],
        "answer": "A",
    }
    rows = [row | {"id": f"q/{number}", "images": [f"{number}.png"]} for number in range(3)]
    (tmp_path / "own" / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for number in range(3):
        Image.new("RGB", (512, 512), "red").save(tmp_path / "own" / f"{number}.png")
    whole = (tmp_path / "own" / "1.png").read_bytes()
    (tmp_path / "own" / "1.png").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "study.yaml").write_text(STUDY)
    return tmp_path / "study.yaml"


def check(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["check", "study.yaml", *words])
    assert result.exit_code == code, result.output
    return result.output


def test_check_says_what_a_run_asks_and_costs(study: Path) -> None:
    """`check` said "13 points, no faults", and not how many requests, pictures, tokens or how much
    money that is."""
    said = check()
    assert said.startswith(
        "3 arms (contestant x task x setting), no faults; 1 more read their replies"
    )
    # 3 samples x 2 draws; 10 tokens of words and one tile of pictures each; replies of at most 100
    # tokens
    amount = (
        "6 requests, 6 pictures, about 1,590 tokens in (60 of words + 1,530 of pictures), out at"
        " most 600"
    )
    assert f"  plain: {amount}; cost about 0.01 with the longest replies\n" in said
    assert "  chance: no requests\n" in said
    assert "  in all: 12 requests, 12 pictures, " in said


def test_a_request_that_two_arms_make_is_counted_once(study: Path) -> None:
    """Arms that send the same were counted as if each were asked."""
    # there is no mark
    said = check("contestants.again.stages.mark={use: prompting.markers.Circles, before: ask}")
    assert "  again: 6 requests, " in said and "  in all: 6 requests, " in said


def test_limits_and_draws_change_what_is_asked(study: Path) -> None:
    """A limit, and draws of the command line, were not in the count."""
    assert "  plain: 2 requests, 2 pictures, " in check("--limit", "1")
    assert "  plain: 15 requests, " in check("draws=5")
    assert "out unknown (no `max_tokens`); cost about 0.004 and the replies" in check(
        "model.max_tokens=null"
    )
    assert "for some-vlm: one token for 28 x 28 pixels is a guess" in check("model.model=some-vlm")


def test_check_all_names_every_image_that_cannot_be_opened(study: Path) -> None:
    """Only the first image was opened, and the broken one failed in the middle of the run."""
    check()
    said = check("--all", code=2)
    assert "task, sample q/1: " in said and "1.png" in said
    assert "1 fault in the samples and their 3 images" in said
    Image.new("RGB", (512, 512), "red").save("own/1.png")
    assert "3 images opened, no faults" in check("--all")


def test_pages_of_check_have_names_that_every_system_takes(study: Path) -> None:
    """A page was named after the sample's id, as it is."""
    said = check("--out", "pages")
    (page,) = Path("pages").iterdir()
    assert (
        f"views: pages/{page.name}" in said
        and page.name.startswith("q_0-")
        and page.suffix == ".html"
    )


def test_a_run_says_what_it_asks_before_its_first_call(study: Path, tmp_path: Path) -> None:
    """Nothing was said until the money was spent."""
    with chat_server() as server:
        words = ("run", "study.yaml", f"model.url={server.url}", "--limit", "1")
        said = CliRunner().invoke(app, words).output
        line = "about to ask 4 requests, 4 pictures, about "
        assert 0 <= said.find(line) < said.find("took"), said
        assert server.stats["requests"] == 4
        assert line not in CliRunner().invoke(app, words).output, "it was finished"


def test_no_network_is_run_to_say_what_a_run_asks(study: Path) -> None:
    """What is said before a run must not take the time of a network, whose weights are not even
    there here."""
    overlay = (
        "{use: prompting.markers.DepthOverlay, depth: {use: specialists.maps.DepthAnything},"
        " before: ask}"
    )
    plan = load_plan(study, [f"contestants.again.stages.mark={overlay}"])
    samples = {plan.points[0].task_id: 3}
    said = announce_requests(plan, samples)
    assert said.startswith("about to ask 6 requests, ") and said.endswith(
        ", and what 1 arm with slow stages asks"
    )
    done = {
        arm.id: {(str(sample), draw) for sample in range(3) for draw in range(2)}
        for arm in plan.points
    }
    assert not announce_requests(plan, samples, done)
    first, *_ = plan.points
    assert announce_requests(plan, samples, {first.id: done[first.id]})
