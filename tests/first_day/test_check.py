"""`check` before a paid run: how many requests, and which images are broken."""

import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from looktwice.eval.runs.dry_run import announce_requests
from looktwice.eval.runs.sample_faults import is_truncated
from looktwice.pipelines.config import load_plan
from tests.first_day.studies import get_output
from tests.optional import needs_extras
from tests.tables import table

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
    """Three questions of 40 characters on images of 512 x 512 pixels, one of them broken."""
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
    (tmp_path / "own" / "1.png").write_bytes(whole[: len(whole) // 2] + whole[-12:])
    (tmp_path / "study.yaml").write_text(STUDY)
    return tmp_path / "study.yaml"


def check(*words: str, code: int = 0) -> str:
    return get_output("check", "study.yaml", *words, code=code)


def test_check_reports_requests_and_cost(study: Path) -> None:
    output = check("--all", code=2)  # of a broken image
    arms = "3 arms (contestant x task x setting), no faults; 1 more read the same replies"
    assert output.startswith(arms)
    # 3 samples x 2 draws; 10 tokens of words and one tile of pictures each; replies of at most 100
    # tokens
    amount = "6 requests, 6 pictures, about 1,590 tokens in (60 of text + 1,530 of pictures), out"
    assert f" plain: {amount} at most 600; cost about 0.01 with the longest replies" in output
    assert " chance: no requests " in output and " total: 12 requests, 12 pictures, " in output
    # a request made by two arms is counted once; there is no mark
    again = "contestants.again.stages.mark={use: prompting.markers.Circles, before: ask}"
    output = check(again, "--all", code=2)
    assert " again: 6 requests, " in output and " total: 6 requests, " in output


@table
def test_limits_and_draws_change_the_number_of_requests(
    study: Path, word: str, amount: str
) -> None:
    assert amount in check(word)


def test_recorded_replies_are_not_sent(study: Path) -> None:
    (study.parent / "replies.jsonl").write_text('{"idx": "q/0", "reply": "A"}\n')
    output = check("model={use: pipelines.models.Replay, path: replies.jsonl}")
    assert "plain, again: recorded replies, so nothing is sent" in output and "guess" not in output


def test_check_all_names_every_unreadable_image(study: Path) -> None:
    check()
    output = check("--all", code=2)
    assert "task, sample q/1: " in output and "1.png" in output
    assert "1 fault in the samples and their 3 images" in output
    Image.new("RGB", (512, 512), "red").save("own/1.png")
    assert "3 images opened, no faults" in check("--all")
    output = check("--out", "pages")  # names that are valid on every system
    (page,) = Path("pages").iterdir()
    assert f"views: pages/{page.name}" in output
    assert page.name.startswith("q_0-") and page.suffix == ".html"


ROW = {"question": "Which?", "choices": ["red", "blue"], "answer": "A", "image": "0.png"}
OUTSIDE = {"label": "P", "x": 600, "y": 5}
INSIDE = OUTSIDE | {"x": 5}
FAILS = "{} samples? would fail for {} .* the first: sample {}"
TWO_IMAGES = {"image": None, "images": ["0.png", "2.png"]}
SAMPLES: dict[str, tuple[list[dict[str, Any]], str]] = {
    "an image that is not there": (
        [ROW, ROW, ROW | {"image": "9.png"}],
        FAILS.format(1, "an image", "q2"),
    ),
    "of several": (
        [ROW, ROW | TWO_IMAGES | {"images": ["0.png", "9.png"]}, ROW | {"image": "8.png"}],
        FAILS.format(2, "an image", "q1"),
    ),
    "of a choice": (
        [ROW, ROW | {"choices": ["red", {"image": "9.png"}]}],
        FAILS.format(1, "an image", "q1"),
    ),
    "of the first sample": ([ROW | {"image": "9.png"}, ROW], FAILS.format(1, "an image", "q0")),
    "no image at all": ([ROW, ROW | {"image": "samples.jsonl"}], FAILS.format(1, "an image", "q1")),
    "a mark outside": (
        [ROW | {"marks": [INSIDE]}, ROW | {"marks": [INSIDE, OUTSIDE]}],
        FAILS.format(1, "a mark", "q1: point 'P'"),
    ),
    "a mark outside the second image": (
        [ROW, ROW | TWO_IMAGES | {"marks": [OUTSIDE | {"image": 1}]}],
        FAILS.format(1, "a mark", "q1: point 'P'"),
    ),
}


@pytest.mark.parametrize("form", SAMPLES)
def test_a_sample_that_will_fail_is_a_fault(study: Path, form: str) -> None:
    rows, fault = SAMPLES[form]
    named = [{"id": f"q{number}", **row} for number, row in enumerate(rows)]
    lines = [json.dumps({k: v for k, v in row.items() if v is not None}) + "\n" for row in named]
    Path("own/samples.jsonl").write_text("".join(lines))
    first = fault.endswith("q0")
    for words in ((), ("--all",)):
        output = check(*words, code=2)
        assert re.search(fault, output) and "no faults" not in output
    assert bool(re.search(fault, check("--limit", "1", code=2 if first else 0))) is first


def test_images_in_a_table_are_checked_too(study: Path) -> None:
    rows = [
        {"question": "Which?", "image": name, "a": "red", "b": "blue", "answer": "A"}
        for name in ("0.png", "2.png", "9.png")
    ]
    Path("own/table.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    columns = "{images: image, choices: [a, b]}"
    words = f"task={{use: eval.tasks.Columns, path: own/table.jsonl, columns: {columns}}}"
    fault = "1 sample would fail for an image that cannot be read; the first: sample "
    assert fault in check(words, code=2)
    assert "no faults" in check(words, "--limit", "2")


@needs_extras
def test_no_network_runs_to_count_requests(study: Path) -> None:
    overlay = (
        "{use: prompting.markers.DepthOverlay, depth: {use: specialists.maps.DepthAnything},"
        " before: ask}"
    )
    plan = load_plan(study, [f"contestants.again.stages.mark={overlay}"])
    samples = {plan.points[0].task_id: 3}
    said = announce_requests(plan, samples)
    assert said.startswith("about to send 6 requests, ") and said.endswith(
        ", and the requests of 1 arm with slow stages"
    )
    done = {
        arm.id: {(str(sample), draw) for sample in range(3) for draw in range(2)}
        for arm in plan.points
    }
    assert not announce_requests(plan, samples, done)
    first, *_ = plan.points
    assert announce_requests(plan, samples, {first.id: done[first.id]})


NOISE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64), np.uint8))


@pytest.mark.parametrize("suffix", ["png", "jpg", "webp", "gif"])
@pytest.mark.parametrize("part", [0.5, 0.9, 1.0])
def test_a_truncated_image_is_a_fault(study: Path, suffix: str, part: float) -> None:
    NOISE.save(f"own/1.{suffix}")
    path = Path(f"own/1.{suffix}")
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * part)])
    Path("own/samples.jsonl").write_text(json.dumps(ROW | {"id": "q", "image": path.name}) + "\n")
    output = check("draws=1", code=0 if part == 1 else 2)
    assert ("no faults" in output) is (part == 1)


def test_a_gif_trailer_byte_inside_the_data_does_not_end_the_file() -> None:
    out = io.BytesIO()
    NOISE.save(out, "gif")
    whole = out.getvalue()
    assert is_truncated(whole[:1000] + b";" + bytes([1] * 9)) and not is_truncated(whole + bytes(9))


def test_an_image_that_lacks_only_its_end_marker_is_not_a_fault(study: Path) -> None:
    NOISE.save("own/1.jpg")
    Path("own/1.jpg").write_bytes(Path("own/1.jpg").read_bytes()[:-2] + b"\0" * 100)
    Path("own/samples.jsonl").write_text(json.dumps(ROW | {"id": "q", "image": "1.jpg"}) + "\n")
    assert "no faults" in check()


@table
def test_skipped_rows_are_reported(study: Path, change: dict[str, str], why: str) -> None:
    row = {"question": "Which?", "image": "0.png", "choices": ["red", "blue"], "answer": "A"}
    rows = [row | {"id": str(number)} for number in range(20)]
    rows[9] |= change
    Path("own/table.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    output = check("task={use: eval.tasks.Columns, path: own/table.jsonl}")
    assert ("1 rows of table.jsonl left out; row 9: " in output) is bool(why)
    assert why in output
