"""A run with Ray gives the records of a run on one machine; `bench/bench_ray.py` loses nodes."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from looktwice.eval.display.table import score_table
from looktwice.eval.records import Record, RunFolder, SampleRow
from looktwice.eval.scoring import kept, score
from looktwice.eval.scoring.record_scorer import RecordScorer
from looktwice.eval.scoring.verdict import ScoredRecord
from tests.chat_server import chat_server
from tests.first_day.studies import get_output, records, run_study, write_study
from tests.optional import optional
from tests.paths import ROOT

ray = optional("ray")

pytestmark = pytest.mark.slow  # starting Ray takes seconds
MORE = (
    "contestants: {plain: {}, thought: {stages: {think: {use: prompting.wording.ChainOfThought,"
    " before: ask}}}}\n"
)
READERS = "sweep: {read: [{use: eval.readers.Strict}, {use: eval.readers.Robust}]}\n"
QUESTION = {"id": "q", "question": "Which?", "image": "a.png", "choices": ["a", "b"], "answer": "A"}


@pytest.fixture(scope="module", autouse=True)
def connected() -> Iterator[None]:
    """Ray on this machine, started once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{ROOT / 'typings'}:{ROOT}")
        ray.init(
            address="local",
            num_cpus=2,
            num_gpus=1,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
        yield
        ray.shutdown()


def answers(folder: Path) -> dict[tuple[str, str, int], tuple[str, tuple[str, ...], str]]:
    """Return the content of a run's records without times."""
    run = RunFolder(folder / "study")
    return {
        key: (record.replies[-1].text, record.pictures, run.messages(record)[0].text)
        for key, record in run.records().items()
    }


def test_the_records_equal_those_of_one_machine(tmp_path: Path) -> None:
    here, there, disk, own = (tmp_path / name for name in ("here", "there", "disk", "set"))
    for folder in (disk, own):
        folder.mkdir()
    Image.new("RGB", (9, 9)).save(disk / "a.png")
    (own / "a.png").symlink_to(disk / "a.png")  # which tasks may read, as it is allowed
    (own / "samples.jsonl").write_text(json.dumps(QUESTION) + "\n")
    with chat_server(None, "--delay", "0.3") as server:
        config = write_study(tmp_path, server.url, n=8, more=MORE)
        words = (f"tasks.own={{use: eval.tasks.Folder, path: {own}}}", "model.in_flight=3")
        run = ("run", config, *words, "--allow", disk, "--out")
        assert "18 new, 0 existing, 0 failed" in get_output(*run, there, "--on", "ray")
        assert (server.stats["requests"], server.stats["most_in_flight"]) == (18, 3)
        assert "0 new, 18 existing" in get_output(*run, there, "--on", "ray")
        assert server.stats["requests"] == 18
        get_output(*run, here)
    assert answers(here) == answers(there)
    for name in ("report.csv", "samples.jsonl"):
        first, second = (
            (folder / "study" / name).read_text().splitlines() for folder in (here, there)
        )
        assert first == second or (name == "samples.jsonl" and sorted(first) == sorted(second))


@pytest.fixture
def scored_here(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The samples whose records this process scores rather than the tasks."""
    names, scorer = list[str](), RecordScorer.__call__

    def count(self: RecordScorer, record: Record, row: SampleRow) -> ScoredRecord:
        names.append(record.sample)
        return scorer(self, record, row)

    monkeypatch.setattr(RecordScorer, "__call__", count)
    yield names


def test_records_are_scored_where_they_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scored_here: list[str]
) -> None:
    """Regression: the process that writes the run scored every record, twice."""
    monkeypatch.setattr(score, "MIN_STORED_BYTES", 1)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    run = tmp_path / "study"
    with chat_server(None) as server:
        config = write_study(tmp_path, server.url, n=6, more=MORE + READERS)
        words = ("run", config, "--out", tmp_path, "--on", "ray")
        assert "8 new, 0 existing" in get_output(*words, "--limit", "4")
        assert "4 new, 8 existing" in get_output(*words)
    get_output("score", run)
    assert not scored_here
    before = score_table(run)
    joined = [arm.all_records for arm in before.scores[0].points]
    assert not scored_here and sum(map(len, joined)) == 24
    (run / kept.VERDICTS_FILE).unlink()
    after = score_table(run)
    assert len(scored_here) == 24
    assert after.csv == before.csv and [arm.all_records for arm in after.scores[0].points] == joined


OWN = """
import os
from dataclasses import dataclass
from typing import ClassVar

from looktwice.extras.networks import Network


@dataclass(frozen=True)
class Found:
    process: int
    together: int


@dataclass(frozen=True)
class Witness(Network):
    result: ClassVar[type] = Found

    def open_network(self, place):
        return os.getpid()

    def forward(self, network, place, items):
        return [Found(network, len(items)) for _ in items]

    def __call__(self, image):
        return self.predict((image,))


@dataclass(frozen=True)
class Ask:
    witness: Witness = Witness(model="none", batch=4)
    asks: ClassVar[bool] = False

    def __call__(self, state, model):
        found = self.witness(state.views[0].pixels)
        state = state.measured("there", int(found.process)).measured("here", os.getpid())
        return state.replace(answer="A")
"""
WITNESS = """
tasks: {{jigsaw: {{use: eval.tasks.Photos, kind: jigsaw, n: 6, quality: 90}}}}
stages: {{ask: {{use: own.Ask}}}}
"""


def test_networks_run_in_actors_with_a_share_of_a_gpu(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "study.yaml").write_text(WITNESS.format())
    words = ("--plugin", tmp_path / "own.py", "--out", tmp_path, "--on", "ray", "--gpus", "0.5")
    assert "6 new, 0 existing, 0 failed" in get_output("run", tmp_path / "study.yaml", *words)
    seen = [record.measured or {} for record in records(tmp_path)]
    there, here = {one["there"] for one in seen}, {one["here"] for one in seen}
    assert len(seen) == 6 and 1 <= len(there) <= 2 and not there & here, (there, here)


BATCHED = (
    "model={use: pipelines.models.Batched, chat: {use: pipelines.models.ChatAPI, model: m, url:"
    " 'http://h/v1'}}"
)


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (("ray", BATCHED), "batch API"),
        (("ray", "--gpus", "9"), "the nodes of Ray have 1 GPU;"),
        (("rays",), "type `ray`"),
        (("processes",), "type `ray`"),  # a long run uses them by itself
        (("ray", "--shard", "1/2"), "its own shards"),
    ],
)
def test_unsupported_settings_of_ray_are_refused(
    tmp_path: Path, words: tuple[str, ...], fault: str
) -> None:
    assert fault in run_study(tmp_path, "http://127.0.0.1:9/v1", "--on", *words, code=2)


def test_stopping_a_run_stops_its_tasks(tmp_path: Path) -> None:
    output = run_study(tmp_path, "http://127.0.0.1:9/v1", "--on", "ray", code=1)
    assert "stopped: " in output and "cannot be reached" in output
