"""A person as a model: what is shown, and what counts as a reply."""

from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from looktwice.pipelines import Picture, View
from looktwice.pipelines.model import Message, ModelError
from looktwice.pipelines.models import Person


def test_text_and_pictures_are_shown_and_a_typed_line_is_the_reply(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("(B) \n\n"))
    view, anna = View.of(Picture(np.full((4, 6, 3), 90, np.uint8), "p")), Person("anna")
    reply = anna([Message("user", (view, "Which one?"))])
    shown = capsys.readouterr().out
    (path,) = re.findall(r"\[picture: (.+)\]", shown)
    with Image.open(path) as image:
        assert reply.text == "(B)" and "Which one?\n> " in shown and image.size == (6, 4)
    with pytest.raises(ModelError, match="anna gave no reply"):
        anna([Message("user", ("Which one?", view))])
    assert Path(re.findall(r"\[picture: (.+)\]", capsys.readouterr().out)[0]).name == "2.png"
    assert anna.identity != Person("ben").identity
    with pytest.raises(ValueError, match="a person needs a name"):
        Person(" ")
