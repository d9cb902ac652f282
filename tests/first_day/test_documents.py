"""What the guide's reader types in a notebook and sends to a server."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from looktwice.pipelines import ChatAPI, Message, Picture, View
from looktwice.pipelines.config.classes import locate
from tests.chat_server import chat_server


def test_several_large_pictures_go_out_without_a_warning() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (700, 700, 3), np.uint8)
    with chat_server() as server:
        model = ChatAPI("tiny", url=server.url)
        reply = model((Message("user", (View.of(Picture(noise)), "Which?")),))
        assert reply.text.startswith("(") and server.stats["requests"] == 1


def test_a_refused_class_of_a_file_that_is_there_says_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"add --plugin mine$"):
        locate("mine.LastLetter")
    Path("mine.py").write_text("class LastLetter:\n    pass\n")
    with pytest.raises(ValueError, match=r"add --plugin mine\.py$"):
        locate("mine.LastLetter")
