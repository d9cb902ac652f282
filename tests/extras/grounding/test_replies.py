"""Points and boxes are read in the native forms of many model families."""

import json
from typing import Any

import pytest

from tests.extras.grounding.scenes import read_answer
from tests.tables import table


@table
def test_native_replies(
    family: str, settings: dict[str, Any], reply: str, places: list[list[Any]] | None
) -> None:
    answer = read_answer(reply, (640, 480), **settings)
    if places is None:
        assert answer is None, family
        return
    assert answer is not None, family
    found = json.loads(answer)
    labels = [place.get("label", "") for place in found]
    assert labels == [place[0] for place in places], family
    for place, (_, *numbers) in zip(found, places, strict=True):
        assert place.get("box", place.get("point")) == pytest.approx(numbers, abs=0.01), family
