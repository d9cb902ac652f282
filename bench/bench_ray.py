"""Runs in Ray tasks on two nodes of this machine, one of which is lost, and a run that is
stopped."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray

from looktwice.eval.records import RunFolder
from tests.chat_server import chat_server
from tests.first_day.studies import looktwice, write_study
from tests.paths import ROOT


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Start two nodes on this machine, with a CPU each; the first one is the head."""
    from ray.cluster_utils import Cluster

    os.environ["PYTHONPATH"] = f"{ROOT / 'typings'}:{ROOT}"
    found = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    found.add_node(num_cpus=1)
    ray.init(address=found.address, log_to_driver=False, logging_level=logging.ERROR)
    yield found
    ray.shutdown()
    found.shutdown()


def test_a_lost_node_loses_no_record_and_doubles_none(cluster: Any, tmp_path: Path) -> None:
    node = cluster.add_node(num_cpus=1)
    with chat_server(None, "--delay", "0.15") as server:
        config = write_study(tmp_path, server.url, n=60)

        def lose() -> None:
            _wait_for(server, 12)
            cluster.remove_node(node)

        timer = threading.Thread(target=lose)
        timer.start()
        ended = looktwice("run", config, "--out", tmp_path, "--on", "ray", "--workers", "2")
        timer.join()
        assert ended.exit_code == 0 and "60 new, 0 existing, 0 failed" in ended.output, ended.output
        assert 60 <= server.stats["requests"] <= 72, "only the lost block is restarted"
    lines = [
        json.loads(line) for line in (tmp_path / "study" / "records.jsonl").read_text().splitlines()
    ]
    assert len(lines) == len({line["sample"] for line in lines}) == 60


def _wait_for(server: Any, requests: int) -> None:
    while server.stats["requests"] < requests:
        time.sleep(0.02)


def test_ctrl_c_keeps_answers_in_flight(tmp_path: Path) -> None:
    with chat_server(None, "--delay", "0.3") as server:
        config = write_study(tmp_path, server.url, n=200)
        main = "from looktwice.eval.cli import main; main()"
        words = ["run", str(config), "--out", str(tmp_path), "--on", "ray", "--workers", "2"]
        env = {**os.environ, "PYTHONPATH": f"{ROOT / 'typings'}:{ROOT}"}
        command = [sys.executable, "-c", main, *words]
        with subprocess.Popen(
            command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
        ) as run:
            _wait_for(server, 8)
            run.send_signal(signal.SIGINT)
            out, output = run.communicate(timeout=60)
        assert (
            run.returncode == 130
            and "stopping: no new requests" in output
            and "Traceback" not in out + output
        ), out + output
        asked = server.stats["requests"]
    assert len(RunFolder(tmp_path / "study").records()) == asked < 200
