"""A tool may keep a state for one sample, and its class may need a permission."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from pydantic import Field

from looktwice.pipelines.config.build import Binder
from looktwice.pipelines.config.classes import ConfigError
from looktwice.pipelines.config.paths import Scope, allow_access, read_grant
from looktwice.pipelines.models.scripted import Scripted
from looktwice.pipelines.picture import Picture
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from looktwice.prompting.agent import Agent, PlainCalls
from looktwice.prompting.agent.tool import Arguments, ToolResult

SAMPLE = Sample("a", "What?", images=(Picture(np.zeros((20, 20, 3), np.uint8)),))
closed = list[int]()


class CountArguments(Arguments):
    by: int = Field(1, description="how much is added")


@dataclass(frozen=True)
class Count:
    """Counts the calls of a sample."""

    description: str = "Counts."
    counts: list[int] = field(default_factory=list)
    keeps_state: bool = True

    arguments = CountArguments
    permission: ClassVar[tuple[str, str]] = "counting", "counts what a model asks for"

    @contextmanager
    def open_session(self, state: State) -> Iterator["Count"]:
        counts = [0]
        try:
            yield Count(self.description, counts, self.keeps_state)
        finally:
            closed.extend(counts)

    def __call__(self, state: State, arguments: CountArguments) -> ToolResult:
        self.counts[0] += arguments.by
        return ToolResult(f"the count is {self.counts[0]}")


@pytest.mark.parametrize(("keeps_state", "count"), [(True, 2), (False, 1)])
def test_a_tool_has_a_session_for_each_sample(keeps_state: bool, count: int) -> None:
    closed.clear()
    agent = Agent({"count": Count(keeps_state=keeps_state)}, protocol=PlainCalls())
    for _ in range(2):
        model = Scripted(["CALL count {}", "CALL count {}", "ANSWER: x"])
        agent(State.start(SAMPLE), model)
        assert (f"the count is {count}" in model.asked[-1][-1].text) == keeps_state
    assert closed == [count, count]


def test_a_session_ends_where_its_sample_fails() -> None:
    closed.clear()
    agent = Agent({"count": Count()}, protocol=PlainCalls())
    with pytest.raises(Exception, match="asked once more"):
        agent(State.start(SAMPLE), Scripted(["CALL count {}"]))
    assert closed == [1]


def test_a_class_with_a_permission_is_built_once_it_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    monkeypatch.delenv("LOOKTWICE_ALLOW", raising=False)
    (source := tmp_path / "study.yaml").write_text("")
    node = {"use": f"{__name__.partition('.')[0]}.prompting.agent.test_tool_sessions.Count"}
    plugins = ("tests",)

    def build(source: Path | None) -> bool:
        binder = Binder(Scope(tmp_path, plugins=plugins, source=source))
        try:
            return isinstance(binder.build(node), Count) and binder.permissions == {"counting"}
        except ConfigError as exc:
            assert "--allow counting" in str(exc)
            return False

    assert not build(source) and not build(None)
    with allow_access((), lambda question: False):
        assert not build(source)
    with allow_access((), lambda question: "counts what a model asks for" in question):
        assert not build(None), "nobody is asked without a file to remember it for"
        assert build(source) and read_grant(source).hosts == {"counting"}
    assert build(source) and not build(tmp_path / "other.yaml")
    monkeypatch.setenv("LOOKTWICE_ALLOW", "counting")
    assert build(None)
