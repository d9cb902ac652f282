"""Where time goes: each second is of one kind, threads are summed up, and nothing is counted without a clock."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from looktwice.pipelines.clock import run_clock, spend
from tests.chat_server import chat_server
from tests.first_day.studies import looktwice, write_study


def test_inner_work_is_not_the_outer_one_s() -> None:
    with run_clock() as clock:
        with spend("draw"):
            time.sleep(0.02)
            with spend("decode"):
                time.sleep(0.06)
            with pytest.raises(ValueError, match="torn"), spend("decode"):
                raise ValueError("torn")
        with spend("draw"):
            time.sleep(0.02)
    with spend("draw"):
        time.sleep(0.05)  # no clock is running any more
    assert 0.035 <= clock.seconds["draw"] < 0.06 <= clock.seconds["decode"] < 0.09
    assert [kind for kind, _ in clock.shares()] == ["decode", "draw"]
    assert sum(share for _, share in clock.shares()) == pytest.approx(1)


def test_threads_are_summed_up() -> None:
    def work() -> None:
        with spend("wait"):
            time.sleep(0.05)

    with run_clock() as clock, spend("start"):
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert 0.2 <= clock.seconds["wait"] < 0.4 and clock.seconds["start"] >= 0.05


def test_a_run_says_where_its_time_went(tmp_path: Path) -> None:
    with chat_server(None, "--delay", "0.2") as server:
        config = write_study(tmp_path, server.url, n=4)
        first = looktwice("run", config, "--out", tmp_path)
        again = looktwice("run", config, "--out", tmp_path)
    (line,) = [line for line in first.output.splitlines() if line.startswith("time: ")]
    assert line.startswith("time: wait for the server ") and "slowest: jigsaw_000" in line and "of plain 0." in line
    share = int(line.split("wait for the server ")[1].split(" ")[0])
    assert 50 <= share <= 100
    assert "time: " not in again.output
