"""A run by tasks of Ray gives the records of a run on one machine; `bench/bench_ray.py` loses nodes."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray

from looktwice.eval.records import RunFolder
from tests.chat_server import chat_server
from tests.first_day.studies import looktwice, write_study
from tests.paths import ROOT

MORE = "contestants: {plain: {}, thought: {stages: {think: {use: prompting.wording.ChainOfThought, before: ask}}}}\n"


@pytest.fixture(scope="module", autouse=True)
def connected() -> Iterator[None]:
    """Ray on this machine, begun once."""
    os.environ["PYTHONPATH"] = f"{ROOT / 'typings'}:{ROOT}"
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
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
        assert here.exit_code == there.exit_code == 0 and "16 new, 0 were there, 0 failed" in there.output, there.output
        assert server.stats["requests"] == 32
        again = looktwice("run", config, "--out", tmp_path / "there", "--on", "ray")
        assert again.exit_code == 0 and "0 new, 16 were there" in again.output, again.output
        assert server.stats["requests"] == 32
    assert answers(tmp_path / "here") == answers(tmp_path / "there")
    tables = [(tmp_path / name / "study" / "report.csv").read_text() for name in ("here", "there")]
    assert tables[0] == tables[1]
    samples = [(tmp_path / name / "study" / "samples.jsonl").read_text().splitlines() for name in ("here", "there")]
    assert sorted(samples[0]) == sorted(samples[1])


def test_batches_need_no_ray(tmp_path: Path) -> None:
    config = write_study(tmp_path, "http://127.0.0.1:9/v1")
    batched = (
        "model={use: pipelines.models.Batched, chat: {use: pipelines.models.ChatAPI, model: m, url: 'http://h/v1'}}"
    )
    for words, said in (((batched,), "what is asked in batches"), (("--gpus", "9"), "Ray has 0 GPUs")):
        ended = looktwice("run", config, "--out", tmp_path, "--on", "ray", *words)
        assert ended.exit_code == 2 and said in ended.output, ended.output


def test_what_stops_a_run_stops_its_tasks(tmp_path: Path) -> None:
    with chat_server() as server:
        config = write_study(tmp_path, server.url, n=4)
        server.kill()
        ended = looktwice("run", config, "--out", tmp_path, "--on", "ray")
    assert ended.exit_code == 1 and "stopped: " in ended.output and "cannot be reached" in ended.output, ended.output
    for words, said in ((("--on", "rays"), "write `ray`"), (("--on", "ray", "--shard", "1/2"), "shards of its own")):
        ended = looktwice("run", config, "--out", tmp_path, *words)
        assert ended.exit_code == 2 and said in ended.output, ended.output
