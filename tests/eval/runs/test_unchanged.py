"""Changes that alter no request are named by `check`, the run and its report."""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from looktwice.eval.cli import app
from looktwice.eval.display.table import score_table
from looktwice.eval.records.records import PointRow, Record
from looktwice.eval.scoring.notes import ArmRequests, describe_unchanged, pack_requests
from tests.tables import read_yaml

DETECTOR = '''
"""Questions, and a detector that finds something in one of six of their pictures."""

from dataclasses import dataclass

import numpy as np

from looktwice.specialists.results import Boxes
from tests.questions_in_memory import Questions


class Greys(Questions):
    pass


@dataclass(frozen=True)
class Rare:
    def __call__(self, pixels, words=None):
        n = int(pixels[-1, -1, 0] == 45)
        return Boxes(np.array([[1.0, 1.0, 20.0, 20.0]] * n).reshape(n, 4), np.ones(n), \
np.array(["x"] * n))
'''
STUDY = """
name: planted
tasks: {greys: {use: planted_things.Greys, keys: [A, B, A, B, A, B]}}
model: {use: pipelines.models.Scripted, answer: (A)}
stages:
  ask: {use: prompting.turns.Ask}
"""
STUDIES = read_yaml(Path(__file__).with_name("unchanged.yaml"))
PLANTED, SEEN = STUDIES["planted"], STUDIES["seen"]


def looktwice(*words: str) -> str:
    """Return the output of a command on one line, as a terminal breaks it."""
    result = CliRunner().invoke(app, [*words, "--plugin", os.environ["PLANTED"]])
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


def write_study(text: str) -> None:
    own = yaml.safe_load(text)
    study = yaml.safe_load(STUDY)
    own.get("stages", {}).get("word", {}).pop("before", "")
    Path("study.yaml").write_text(yaml.safe_dump({**study, **own}, sort_keys=False))


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plugin") / "planted_things.py"
    path.write_text(DETECTOR)
    return path


@pytest.fixture(autouse=True)
def _in_its_own_folder(tmp_path: Path, plugin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("PLANTED", str(plugin))


@pytest.mark.slow
@pytest.mark.parametrize("planted", PLANTED)
def test_check_run_and_report_name_changes_that_alter_no_request(planted: str) -> None:
    sentences = PLANTED[planted]["said"]
    write_study(PLANTED[planted]["study"])
    checked, output = looktwice("check", "study.yaml"), looktwice("run", "study.yaml")
    looktwice("score", "runs/planted", "--report")
    table = score_table("runs/planted", plugins=["planted_things"])
    assert list(table.unchanged) == sentences
    for sentence in sentences:
        assert f"warning: {sentence}" in checked and sentence in output
        assert sentence.partition(":")[0] in Path("runs/planted/report.md").read_text()
    assert "tried on at most the first 6 samples of each task" in checked
    for name in ("report.md", "report.html"):  # at the top, and next to the zeros
        text = Path("runs/planted", name).read_text()
        assert text.count(sentences[0].partition(" on ")[0][-20:]) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("seen", SEEN)
def test_stages_that_change_the_request_are_not_reported(seen: str) -> None:
    write_study(SEEN[seen])
    checked, output = looktwice("check", "study.yaml"), looktwice("run", "study.yaml")
    for kind in ("changed nothing", "changed little", "found nothing"):
        assert kind not in checked and kind not in output


def arm(
    name: str, requests: dict[str, bytes], model: Any = "m", rival: str = "", **stages: Any
) -> ArmRequests:
    row = PointRow(name, name, "t", "id-t", spec={"stages": stages, "model": model})
    return ArmRequests(row, name, "t", pack_requests(requests.values()), rival_id=rival)


SAME = {"s0": b"x", "s1": b"y", "s2": b"z"}


def test_a_run_without_its_stored_messages_reports_nothing() -> None:
    old = Record("p", "s", "sha", calls=({"messages": [], "reply": {"text": "A"}},))
    assert old.request == b"" == Record("p", "s", "sha", error="ValueError: no").request
    unknown = dict.fromkeys(SAME, b"")
    assert describe_unchanged([arm("a", unknown, mark=1), arm("b", unknown, mark=2)]) == []


def test_requests_are_compared_with_their_options_and_without_replies() -> None:
    def asked(said: str, **options: object) -> bytes:
        call = {"messages": ["m"], "draw": 0, "options": options, "reply": {"text": said}}
        return Record("p", "s", "sha", calls=(call,)).request

    assert asked("A") == asked("B") != asked("A", temperature=1)


def test_specialists_are_compared_by_their_answers() -> None:
    answers = [Record("p", "s", "sha", answer=answer).request for answer in "AAB"]
    assert answers[0] == answers[1] != answers[2]
    both = [arm(name, SAME, None, answer=number) for number, name in enumerate("ab")]
    (told,) = describe_unchanged(both)
    assert told.startswith(
        "changed nothing: answer: 2 values, 1 answer on all 3 samples of t: a, b"
    )


def test_some_equal_values_several_slots_and_another_model() -> None:
    other = dict.fromkeys(SAME, b"else")
    three = [arm("a", SAME, mark=1), arm("b", SAME, mark=2), arm("c", other, mark=3)]
    alike = "mark: 3 values, 2 requests on all 3 samples of t: a, b sent the same"
    assert describe_unchanged(three) == [f"changed nothing: {alike}"]
    four = [*three, arm("d", dict.fromkeys(SAME, b"own"), mark=4)]
    assert describe_unchanged(four) == []  # half of them may be equal on purpose
    (several,) = describe_unchanged(
        [arm("a", SAME, mark=1), arm("b", SAME, rival="a", mark=2, zoom=1)]
    )
    assert several.startswith("changed nothing: mark + zoom: 2 values, 1 request on all 3 samples")
    models = [arm("a", SAME, "m", mark=1), arm("b", SAME, "n", rival="a", mark=2)]
    assert describe_unchanged(models) == []
