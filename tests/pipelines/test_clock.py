"""Time measurement: each second has one kind, threads are summed, and no clock means no
measurement."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from looktwice.pipelines import clock
from looktwice.pipelines.clock import run_clock, track_time
from tests.chat_server import chat_server
from tests.first_day.studies import looktwice, write_study
from tests.paths import ROOT


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of the clock, which advances only when a test sets it."""
    now = [0.0]
    monkeypatch.setattr(clock, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    return now


def test_the_time_of_inner_work_is_not_counted_for_the_outer(now: list[float]) -> None:
    with run_clock() as times:
        with track_time("draw"):
            now[0] += 2
            with track_time("decode"):
                now[0] += 6
            with pytest.raises(ValueError, match="torn"), track_time("decode"):
                raise ValueError("torn")
        with track_time("draw"):
            now[0] += 2
    with track_time("draw"):
        now[0] += 5  # no clock is running any more
    assert times.seconds == {"draw": 4, "decode": 6}
    assert dict(times.list_shares()) == pytest.approx({"decode": 0.6, "draw": 0.4})
    assert [kind for kind, _ in times.list_shares()] == ["decode", "draw"]


def test_times_of_threads_are_summed(now: list[float]) -> None:
    begun, over = threading.Barrier(5), threading.Barrier(5)

    def work() -> None:
        with track_time("wait"):
            begun.wait(100)
            over.wait(100)

    with run_clock() as times, track_time("start"):
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        begun.wait(100)
        now[0] += 5
        over.wait(100)
        for thread in threads:
            thread.join()
    assert times.seconds == {"wait": 20, "start": 5}


def test_a_stage_is_active_while_any_thread_is_in_it(now: list[float]) -> None:

    def ask(seconds: float) -> None:
        with track_time("stage ask"):
            now[0] += seconds

    with run_clock() as running:
        with track_time("stage zoom"), track_time("wait for the server"):
            now[0] += 1
            ask(3)
            with track_time("stage ask"):
                thread = threading.Thread(target=ask, args=(5,))
                thread.start()
                thread.join()
        ask(0.1)
        with track_time("stage tiny"):
            now[0] += 0.4
        now[0] += 0.5
    assert running.elapsed == 10 and running.busy_seconds["stage ask"] == pytest.approx(8.1)
    assert running.list_stage_shares() == [("stage zoom", 0.9), ("stage ask", pytest.approx(0.81))]


def test_a_run_reports_how_its_time_was_spent(tmp_path: Path) -> None:
    with chat_server(None, "--delay", "0.2") as server:
        config = write_study(tmp_path, server.url, n=4)
        first = looktwice("run", config, "--out", tmp_path)
        again = looktwice("run", config, "--out", tmp_path)
    (line,) = [line for line in first.output.splitlines() if line.startswith("time: ")]
    assert "wait for the server " in line and "slowest: jigsaw_000" in line
    share = int(line.split("wait for the server ")[1].split(" ")[0])
    assert 0 < share <= 100
    assert "time: " not in again.output


@pytest.mark.slow
def test_a_traced_process_gets_nested_spans_of_each_stage(tmp_path: Path) -> None:
    code = """
import sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
kept = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(kept))
trace.set_tracer_provider(provider)
from typer.testing import CliRunner
from looktwice.eval.cli import app
assert CliRunner().invoke(app, sys.argv[1:]).exit_code == 0
spans = {span.context.span_id: span for span in kept.get_finished_spans()}
for span in spans.values():
    parent = spans[span.parent.span_id].name if span.parent else "-"
    print(span.name, parent, (span.attributes or {}).get("sample", "-"), sep="|")
"""
    with chat_server() as server:
        study = str(write_study(tmp_path, server.url, n=2))
        command = [sys.executable, "-c", code, "run", study, "--out", str(tmp_path)]
        env = {**os.environ, "PYTHONPATH": f"{ROOT / 'typings'}"}
        output = subprocess.check_output(command, text=True, env=env).split("\n")
    assert sum(line.startswith("stage ask|-|") and not line.endswith("|-") for line in output) == 2
    assert "wait for the server|stage ask|-" in output


def test_progress_is_written_as_lines_of_json(tmp_path: Path) -> None:
    with chat_server() as server:
        config = write_study(tmp_path, server.url, n=3)
        output = looktwice("run", config, "--out", tmp_path, "--log", "json")
    lines = [json.loads(line) for line in output.stderr.splitlines()]
    assert [line["event"] for line in lines] == ["note", "progress", "progress", "times"]
    last = lines[-2]
    assert (last["done"], last["total"], last["tokens_in"]) == (3, 3, 300)
    assert sum(last[name] for name in ("right", "wrong", "unreadable", "failed", "hidden")) == 3
    assert lines[-1]["seconds"]["wait for the server"] > 0 and len(lines[-1]["slowest"]) == 3


def test_a_span_that_fails_to_start_leaves_no_work_in_flight(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @contextmanager
    def broken(name: str, attributes: Any) -> Iterator[None]:
        raise RuntimeError("no exporter")
        yield

    tracer = SimpleNamespace(start_as_current_span=broken)
    watched = SimpleNamespace(get_tracer=lambda name: tracer)
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", watched)
    times = clock.Clock()
    with pytest.raises(RuntimeError, match="no exporter"), times.track_time("stage"):
        pass
    assert not times.active["stage"] and not times.busy_seconds["stage"]
