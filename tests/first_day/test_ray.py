"""A run by tasks of Ray gives the records of a run on one machine; `bench/bench_ray.py` loses
nodes."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray
from PIL import Image

from looktwice.eval.records import RunFolder
from tests.chat_server import chat_server
from tests.first_day.studies import looktwice, write_study
from tests.paths import ROOT

MORE = (
    "contestants: {plain: {}, thought: {stages: {think: {use: prompting.wording.ChainOfThought,"
    " before: ask}}}}\n"
)


@pytest.fixture(scope="module", autouse=True)
def connected() -> Iterator[None]:
    """Ray on this machine, begun once."""
    os.environ["PYTHONPATH"] = f"{ROOT / 'typings'}:{ROOT}"
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
    """What a run's records say, without times."""
    run = RunFolder(folder / "study")
    return {
        key: (record.replies[-1].text, record.pictures, run.messages(record)[0].text)
        for key, record in run.records().items()
    }


def test_the_records_are_those_of_one_machine(tmp_path: Path) -> None:
    with chat_server() as server:
        config = write_study(tmp_path, server.url, n=8, more=MORE)
        here = looktwice("run", config, "--out", tmp_path / "here")
        there = looktwice("run", config, "--out", tmp_path / "there", "--on", "ray")
        assert (
            here.exit_code == there.exit_code == 0
            and "16 new, 0 were there, 0 failed" in there.output
        ), there.output
        assert server.stats["requests"] == 32
        again = looktwice("run", config, "--out", tmp_path / "there", "--on", "ray")
        assert again.exit_code == 0 and "0 new, 16 were there" in again.output, again.output
        assert server.stats["requests"] == 32
    assert answers(tmp_path / "here") == answers(tmp_path / "there")
    tables = [(tmp_path / name / "study" / "report.csv").read_text() for name in ("here", "there")]
    assert tables[0] == tables[1]
    samples = [
        (tmp_path / name / "study" / "samples.jsonl").read_text().splitlines()
        for name in ("here", "there")
    ]
    assert sorted(samples[0]) == sorted(samples[1])


OWN = """
import os
from dataclasses import dataclass
from typing import ClassVar

from looktwice.specialists.networks import Network


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
tasks: {{jigsaw: {{use: eval.tasks.Photos, kind: jigsaw, n: 12, quality: 90}}}}
stages: {{ask: {{use: own.Ask}}}}
"""


def test_networks_lie_with_actors_that_have_a_part_of_a_gpu(tmp_path: Path) -> None:
    """An own network of an own file: two actors of half a GPU hold it, and no task does."""
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "study.yaml").write_text(WITNESS.format())
    words = (
        "run",
        tmp_path / "study.yaml",
        "--plugin",
        tmp_path / "own.py",
        "--out",
        tmp_path / "runs",
    )
    ended = looktwice(*words, "--on", "ray", "--gpus", "0.5")
    assert ended.exit_code == 0 and "12 new, 0 were there, 0 failed" in ended.output, ended.output
    seen = [
        record.measured or {}
        for record in RunFolder(tmp_path / "runs" / "study").records().values()
    ]
    there, here = {each["there"] for each in seen}, {each["here"] for each in seen}
    assert len(seen) == 12 and 1 <= len(there) <= 2 and not there & here, (there, here)


def test_all_tasks_together_keep_the_limit_of_an_endpoint(tmp_path: Path) -> None:
    with chat_server(None, "--delay", "0.2") as server:
        config = write_study(tmp_path, server.url, n=33)
        ended = looktwice("run", config, "--out", tmp_path, "--on", "ray", "model.in_flight=3")
        assert ended.exit_code == 0 and "33 new, 0 were there, 0 failed" in ended.output, (
            ended.output
        )
        assert server.stats["most_in_flight"] == 3, "whichever task has the most to ask"


def test_tasks_read_what_is_allowed(tmp_path: Path) -> None:
    for folder in ("disk", "set"):
        (tmp_path / folder).mkdir()
    Image.new("RGB", (9, 9)).save(tmp_path / "disk" / "a.png")
    (tmp_path / "set" / "a.png").symlink_to(tmp_path / "disk" / "a.png")
    row = {"id": "q", "question": "Which?", "image": "a.png", "choices": ["a", "b"], "answer": "A"}
    (tmp_path / "set" / "samples.jsonl").write_text(json.dumps(row) + "\n")
    (tmp_path / "study.yaml").write_text(
        "tasks: {own: {use: eval.tasks.Folder, path: set}}\nstages: {answer: {use:"
        " specialists.answers.Chance}}\n"
    )
    ended = looktwice(
        "run",
        tmp_path / "study.yaml",
        "--out",
        tmp_path,
        "--on",
        "ray",
        "--allow",
        tmp_path / "disk",
    )
    assert ended.exit_code == 0 and "1 new" in ended.output, ended.output


def test_batches_need_no_ray(tmp_path: Path) -> None:
    config = write_study(tmp_path, "http://127.0.0.1:9/v1")
    batched = (
        "model={use: pipelines.models.Batched, chat: {use: pipelines.models.ChatAPI, model: m, url:"
        " 'http://h/v1'}}"
    )
    for words, said in (
        ((batched,), "what is asked in batches"),
        (("--gpus", "9"), "the nodes of Ray have 1 GPU;"),
    ):
        ended = looktwice("run", config, "--out", tmp_path, "--on", "ray", *words)
        assert ended.exit_code == 2 and said in ended.output, ended.output


def test_what_stops_a_run_stops_its_tasks(tmp_path: Path) -> None:
    with chat_server() as server:
        config = write_study(tmp_path, server.url, n=4)
        server.kill()
        ended = looktwice("run", config, "--out", tmp_path, "--on", "ray")
    assert (
        ended.exit_code == 1 and "stopped: " in ended.output and "cannot be reached" in ended.output
    ), ended.output
    for words, said in (
        (("--on", "rays"), "write `ray`"),
        (("--on", "ray", "--shard", "1/2"), "shards of its own"),
    ):
        ended = looktwice("run", config, "--out", tmp_path, *words)
        assert ended.exit_code == 2 and said in ended.output, ended.output
