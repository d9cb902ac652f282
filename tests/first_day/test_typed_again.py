"""A repeated finished run generates no question and redraws its page only after a change."""

import os
import re
from pathlib import Path

import pytest
import yaml

from looktwice.eval import Photos
from looktwice.eval.runs.run import Run
from looktwice.pipelines.config import load_plan
from looktwice.pipelines.sample import Item
from tests.first_day.studies import looktwice

STUDY = """
tasks: {jigsaw: {use: eval.tasks.Photos, kind: jigsaw, n: 4}}
contestants:
  chance: {stages: {answer: {use: specialists.answers.Chance}}}
  seams: {stages: {answer: {use: specialists.answers.SeamMatcher}}}
"""
RUN = Path("runs/study")
PAGE = RUN / "report.html"


@pytest.fixture(autouse=True)
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the questions that are generated, in a folder with a study."""
    monkeypatch.chdir(tmp_path)
    Path("study.yaml").write_text(STUDY)
    numbers: list[int] = []
    make = Photos._item

    def count(task: Photos, number: int) -> Item:
        numbers.append(number)
        return make(task, number)

    monkeypatch.setattr(Photos, "_item", count)
    return numbers


def run_again(*words: object) -> str:
    result = looktwice(*(words or ("run", "study.yaml", "--table", "full")))
    assert result.exit_code == 0, result.output
    return result.output


def is_drawn(*words: object) -> bool:
    """Return whether a command redraws the page."""
    os.utime(PAGE, (2e9, 2e9))  # seconds, far enough apart for any resolution of file times
    run_again(*words)
    return PAGE.stat().st_mtime != 2e9


@pytest.mark.slow
def test_an_unchanged_run_generates_no_question_and_draws_no_page(made: list[int]) -> None:
    first = run_again()
    os.utime(RUN / "records.jsonl", (1e9, 1e9))
    os.utime(PAGE, (2e9, 2e9))
    made.clear()
    second = run_again()
    assert PAGE.stat().st_mtime == 2e9 and made == []
    assert "0 new, 8 existing" in second
    tables = [re.findall(r"(?s)task and contestant.*?records: ", text) for text in (first, second)]
    assert tables[0] == tables[1] != []
    (RUN / "report.md").write_text("of another plan")
    assert is_drawn() and not is_drawn()
    (RUN / "judged.jsonl").touch()
    os.utime(RUN / "judged.jsonl", (3e9, 3e9))
    assert is_drawn() and is_drawn("score", RUN, "--report")
    PAGE.unlink()
    run_again()
    assert PAGE.exists()


def test_with_another_library_version_every_question_is_compared(made: list[int]) -> None:
    plan = load_plan(Path("study.yaml"))
    assert Run(plan, RUN)().written_count == 8
    facts = yaml.safe_load((RUN / "run.yaml").read_text())
    facts["versions"]["numpy"] = "0.1"
    (RUN / "run.yaml").write_text(yaml.safe_dump(facts))
    made.clear()
    Run(plan, RUN)()
    assert set(made) == {0, 1, 2, 3}
