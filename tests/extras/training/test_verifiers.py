"""A study as a taskset and a harness of verifiers: with a stand-in for the package, and with the
package itself if it is installed."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from subprocess import run
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel

from looktwice.extras.request_diff.trajectories import read_trajectories
from tests.extras.training.studies import BOX, write_study
from tests.strict_server import StrictServer, strict_server

FUNCTION = {"name": "zoom", "arguments": json.dumps({"box": BOX})}
SAID = (
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": FUNCTION}],
    },
    {"role": "assistant", "content": "(A)"},
)
MODULE = """from looktwice.extras.training.verifiers import StudyHarness, StudyTaskset

__all__ = ["StudyHarness", "StudyTaskset"]
"""


class _Typed:
    """A class that takes its type parameters, as those of verifiers do."""

    def __class_getitem__(cls, item: object) -> type:
        return cls

    def __init__(self, *settings: Any) -> None:
        self.data, self.config = settings[0], settings[-1]


class _Config(BaseModel):
    task: Any = None


class _Data(BaseModel):
    id: str
    name: str
    prompt: str


@dataclass
class _Result:
    exit_code: int
    stdout: str
    stderr: str


def make_package() -> ModuleType:
    """Return a stand-in for `verifiers.v1` with what the integration uses."""
    package = ModuleType("verifiers.v1")
    bases = dict.fromkeys(("Task", "Taskset", "Harness"), _Typed)
    configs = {"TasksetConfig": _Config, "HarnessConfig": _Config, "TaskData": _Data}

    def reward(weight: float) -> Callable[[Any], Any]:
        return lambda method: method

    vars(package).update(bases, **configs, ProgramResult=_Result, Trace=object, reward=reward)
    return package


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The integration on a stand-in; its folders are closed after the test."""
    name = "looktwice.extras.training.verifiers"
    package = make_package()
    parent = ModuleType("verifiers")
    vars(parent)["v1"] = package
    monkeypatch.setitem(sys.modules, "verifiers", parent)
    monkeypatch.setitem(sys.modules, "verifiers.v1", package)
    monkeypatch.delitem(sys.modules, name, raising=False)
    ended: list[Callable[[], None]] = []
    monkeypatch.setattr("atexit.register", lambda end, *given: ended.append(lambda: end(*given)))
    yield import_module(name)
    sys.modules.pop(name, None)
    for end in ended:
        end()


def solve(module: Any, task: Any, server: StrictServer, secret: str = "s") -> tuple[Any, Any]:
    """Run the harness on a task, and return its result and the trace."""
    trace, ctx = SimpleNamespace(info={}), SimpleNamespace(model="policy")
    harness = module.StudyHarness(None)
    launched = harness.launch(ctx, trace, None, server.url, secret, {}, task.data)
    return asyncio.run(launched), trace


def load(module: Any, folder: Path, contestant: str = "full") -> list[Any]:
    settings = {"study": str(write_study(folder)), "contestant": contestant}
    config = module.StudyTasksetConfig(**settings, out=str(folder / "run"))
    return list(module.StudyTaskset(config).load())


def test_the_contestant_runs_at_the_endpoint_and_is_rewarded(module: Any, tmp_path: Path) -> None:
    tasks = load(module, tmp_path)
    assert len(tasks) == 3
    with strict_server(*SAID) as server:
        results = [solve(module, task, server) for task in tasks]
    assert [result.stderr for result, _ in results] == [""] * 3, server.refused
    rewards = [
        asyncio.run(task.study_reward(trace))
        for task, (_, trace) in zip(tasks, results, strict=True)
    ]
    lines = list(read_trajectories(tmp_path / "run"))
    assert rewards == [line["value"] for line in lines]
    assert [trace.info["looktwice"]["answer"] for _, trace in results] == ["A", "A", "A"]
    last = server.bodies[-1]["messages"]
    assert [turn["role"] for turn in last] == [t["role"] for t in lines[-1]["messages"][:-1]]
    assert [part["type"] for part in last[-1]["content"]] == ["text", "image_url"]


def test_the_secret_of_the_rollout_is_the_key(module: Any) -> None:
    model = module._TracedModel("policy", "http://127.0.0.1:9/v1", secret="s1")
    assert model.make_auth_headers("another key") == {"Authorization": "Bearer s1"}
    assert "s1" not in repr(model) and "s1" not in model.identity


def test_a_failed_stage_fails_the_program_with_its_reason(module: Any, tmp_path: Path) -> None:
    task, *_ = load(module, tmp_path)
    server = StrictServer((), url="http://127.0.0.1:9/v1")
    result, trace = solve(module, task, server)
    assert result.exit_code == 1 and "127.0.0.1" in result.stderr
    assert asyncio.run(task.study_reward(trace)) == 0.0
    assert asyncio.run(task.study_reward(SimpleNamespace(info={}))) == 0.0


def test_a_taskset_without_a_study_says_what_to_type(module: Any) -> None:
    taskset = module.StudyTaskset(module.StudyTasksetConfig(study="study.yaml"))
    with pytest.raises(ValueError, match=r"--env\.taskset\.contestant"):
        list(taskset.load())


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    module = "looktwice.extras.training.verifiers"
    monkeypatch.setitem(sys.modules, "verifiers", None)
    monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(ModuleNotFoundError, match=r"pip install .*\[verifiers\]"):
        import_module(module)
    assert module not in sys.modules


@pytest.mark.slow
@pytest.mark.skipif(find_spec("verifiers") is None, reason="needs verifiers")
def test_verifiers_records_the_same_conversation(tmp_path: Path) -> None:
    (tmp_path / "my_study.py").write_text(MODULE)
    taskset = ["--env.taskset.study", str(write_study(tmp_path))]
    taskset += ["--env.taskset.contestant", "full"]
    where = ["--env.agent.runtime.type", "subprocess", "--push", "False", "--output-dir", "out"]
    with strict_server(*SAID) as server:
        asked = ["--model", "policy", "--client.base-url", server.url]
        asked += ["--client.api-key-var", "NO_KEY"]
        command = [str(Path(sys.executable).with_name("vf-eval")), "my_study"]
        paths = os.pathsep.join([str(Path(__file__).parents[3] / "typings"), str(tmp_path)])
        told = run(
            [*command, *taskset, *where, *asked],
            cwd=tmp_path,
            env={**os.environ, "NO_KEY": "none", "PYTHONPATH": paths},
            capture_output=True,
            text=True,
        )
    assert told.returncode == 0 and not server.refused, (told.stdout, told.stderr, server.refused)
    (file,) = tmp_path.glob("out/*/traces.jsonl")
    traces = [json.loads(line)["traces"][0] for line in file.read_text().splitlines()]
    lines = {line["sample"]: line for line in read_trajectories(tmp_path / "runs" / "verifiers")}
    assert len(traces) == 3
    for trace in traces:
        line = lines[trace["task"]["data"]["id"]]
        assert trace["rewards"]["study_reward"]["score"] == line["value"]
        turns = [node["message"] for node in trace["nodes"]]
        assert [turn["role"] for turn in turns] == [turn["role"] for turn in line["messages"]]
        pictures = [
            part
            for turn in turns
            if isinstance(turn.get("content"), list)
            for part in turn["content"]
            if part["type"] == "image_url"
        ]
        assert len(pictures) == len(line["images"]) == 2
