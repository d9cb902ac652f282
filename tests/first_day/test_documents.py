"""What the guide's reader types in a notebook and sends to a server."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from looktwice.eval import RunFolder
from looktwice.pipelines import ChatAPI, Message, Picture, View
from looktwice.pipelines.config import load_plugin, locate
from tests.chat_server import chat_server
from tests.first_day.studies import looktwice, write_study


def test_several_large_pictures_go_out_without_a_warning() -> None:
    """Four zooms of 512 pixels are a request of over a megabyte, at which the HTTP library warned
    of itself."""
    noise = np.random.default_rng(0).integers(0, 256, (700, 700, 3), np.uint8)
    with chat_server() as server:
        model = ChatAPI("tiny", url=server.url)
        reply = model((Message("user", (View.of(Picture(noise)), "Which?")),))
        assert reply.text.startswith("(") and server.stats["requests"] == 1


def test_a_notebook_names_a_run_by_a_text(tmp_path: Path) -> None:
    """`RunFolder("runs/study").records()` ended in a TypeError about `/`."""
    with chat_server() as server:
        assert (
            looktwice(
                "run", write_study(tmp_path, server.url), "--out", tmp_path / "runs"
            ).exit_code
            == 0
        )
    run = RunFolder(str(tmp_path / "runs" / "study"))  # type: ignore[arg-type]
    assert len(run.records()) == 4
    assert [message.role for message in run.messages(next(iter(run.records().values())))] == [
        "user",
        "assistant",
    ]


def test_a_plugin_may_be_named_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a notebook the second `load_plugin("mine.py")` said that another module of this name was
    loaded."""
    monkeypatch.chdir(tmp_path)
    for names in (
        "first_day_plugin.py",
        "./first_day_plugin.py",
        str(tmp_path / "first_day_plugin.py"),
    ):
        Path("first_day_plugin.py").write_text("class Mine:\n    pass\n")
        assert locate(f"{load_plugin(names)}.Mine", ["first_day_plugin"])
    Path("elsewhere").mkdir()
    Path("elsewhere/first_day_plugin.py").write_text("class Mine:\n    pass\n")
    with pytest.raises(ValueError, match="already loaded"):
        load_plugin("elsewhere/first_day_plugin.py")


def test_a_refused_class_of_a_file_that_is_there_says_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`mine.LastLetter is refused ... add --plugin mine`, which is no package, beside a file
    mine.py."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"add --plugin mine$"):
        locate("mine.LastLetter")
    Path("mine.py").write_text("class LastLetter:\n    pass\n")
    with pytest.raises(ValueError, match=r"add --plugin mine\.py$"):
        locate("mine.LastLetter")
