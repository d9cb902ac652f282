"""Invalid settings are refused before anything runs (`refused.yaml`)."""

from collections.abc import Callable
from math import inf, nan

import pytest

from looktwice.prompting.agent import Agent
from looktwice.prompting.markers import Circles, SetOfMark, Spotlight
from looktwice.prompting.views import Megapixels
from tests.prompting.scenes import table
from tests.refusals import check_stages


def test_an_invalid_setting_is_refused() -> None:
    check_stages(table("refused.yaml"))


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
