"""A finished run is run again: nothing is made, asked or changed, and a library of another version
is noticed."""

from pathlib import Path

import pytest
import yaml

from looktwice.eval import Photos
from looktwice.eval.runs.predict import Run
from looktwice.pipelines.config.plan import Plan, load_plan
from looktwice.pipelines.sample import Item

STUDY = """
tasks: {jigsaw: {use: eval.tasks.Photos, kind: jigsaw, n: 4}}
contestants:
  chance: {stages: {answer: {use: specialists.answers.Chance}}}
  seams: {stages: {answer: {use: specialists.answers.SeamMatcher}}}
"""


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    (tmp_path / "study.yaml").write_text(STUDY)
    return load_plan(tmp_path / "study.yaml")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the questions that are made from now on."""
    numbers: list[int] = []
    make = Photos._item

    def count(task: Photos, number: int) -> Item:
        numbers.append(number)
        return make(task, number)

    monkeypatch.setattr(Photos, "_item", count)
    return numbers


def test_a_finished_run_makes_no_question_again(
    plan: Plan, tmp_path: Path, made: list[int]
) -> None:
    assert Run(plan, tmp_path / "run")().written == 8
    made.clear()
    again = Run(plan, tmp_path / "run")()
    assert (again.written, again.kept, made) == (0, 8, [])


def test_with_another_library_every_question_is_compared(
    plan: Plan, tmp_path: Path, made: list[int]
) -> None:
    Run(plan, tmp_path / "run")()
    facts = yaml.safe_load((tmp_path / "run/run.yaml").read_text())
    facts["versions"]["numpy"] = "0.1"
    (tmp_path / "run/run.yaml").write_text(yaml.safe_dump(facts))
    made.clear()
    Run(plan, tmp_path / "run")()
    assert set(made) == {0, 1, 2, 3}
