"""Invalid settings are refused before anything runs (`refused.yaml`)."""

from collections.abc import Callable
from functools import partial
from math import inf, nan
from typing import Any

import pytest

from looktwice.pipelines.config import ConfigError, build
from looktwice.prompting.agent import Agent
from looktwice.prompting.markers import Circles, SetOfMark, Spotlight
from looktwice.prompting.views import Megapixels
from tests.prompting.scenes import table
from tests.tables import check_all

REFUSED = table("refused.yaml")


def test_a_setting_that_makes_no_sense_is_refused() -> None:
    def check_refused(use: str, settings: dict[str, Any], words: str) -> None:
        with pytest.raises(ConfigError) as refused:
            build({"use": f"prompting.{use}", **settings})
        assert words in str(refused.value)

    cases = [(use, *row) for use, rows in REFUSED.items() for row in rows]
    check_all((case, partial(check_refused, *case)) for case in cases)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Circles(radius=nan), "radius must be greater than 0"),
        (lambda: Circles(radius=inf), "radius must be less than 10000"),
        (lambda: SetOfMark(font_size=nan), "font_size must be greater than 0"),
        (lambda: Spotlight(blur=nan), "blur must be less than 10000"),
        (lambda: Megapixels(nan), "0 <= least <= most"),
        (lambda: Agent({}), "tools is empty"),
    ],
)
def test_settings_that_yaml_cannot_express_are_refused_too(
    make: Callable[[], object], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        make()
