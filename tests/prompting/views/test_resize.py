"""Resize rules give the documented sizes, and marks stay at their objects."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from looktwice.pipelines.picture import Picture
from looktwice.pipelines.pipeline import NoModel
from looktwice.pipelines.sample import Sample
from looktwice.pipelines.state import State
from looktwice.prompting import views
from looktwice.prompting.views import (
    ClaudePatches,
    FixedHeight,
    LongestSide,
    Megapixels,
    MinimumSide,
    OpenAIPatches,
    OpenAITiles,
    QwenPatches,
)
from tests.prompting.scenes import table


def state(width: int, height: int) -> State:
    return State.start(Sample("s1", "?", (Picture(np.full((height, width, 3), 90, np.uint8)),)))


@pytest.mark.parametrize(
    ("policy", "settings", "size", "expected"), table("views/resize.yaml")["sizes"]
)
def test_sizes(
    policy: str, settings: dict[str, Any], size: tuple[int, int], expected: list[int]
) -> None:
    """Also the reference values of qwen_vl_utils.smart_resize, which rounds halves to even, the
    examples of OpenAI's page, and the table of Anthropic's; VLMEvalKit cuts fractions off."""
    assert list(getattr(views, policy)(**settings).size(*size)) == expected


@given(st.integers(1, 5000), st.integers(1, 5000))
@settings(max_examples=150, deadline=None)
def test_budgets_are_kept(width: int, height: int) -> None:
    for policy, patch, most in ((OpenAIPatches(), 32, 1536), (ClaudePatches(), 28, 1568)):
        across, down = policy.size(width, height)
        assert -(-across // patch) * -(-down // patch) <= most
        assert across <= width
        assert down <= height
    across, down = ClaudePatches().size(width, height)
    assert max(across, down) <= 1568
    if max(width, height) <= 200 * min(width, height):
        across, down = QwenPatches().size(width, height)
        assert across % 28 == down % 28 == 0
        assert across * down >= 4 * 784


def test_an_image_of_the_right_size_keeps_its_bytes() -> None:
    before = state(56, 84)
    for policy in (
        QwenPatches(),
        LongestSide(84),
        FixedHeight(84),
        MinimumSide(56),
        Megapixels(1),
        OpenAITiles(),
        ClaudePatches(),
    ):
        assert policy(before, NoModel()).views[0] is before.views[0]


def test_an_image_that_cannot_be_resized_is_reported_with_its_sample() -> None:
    with pytest.raises(ValueError, match=r"sample s1: .* more than 200 times longer"):
        QwenPatches()(state(1001, 5), NoModel())
    with pytest.raises(ValueError, match=r"sample s1: .* more than 100 megapixels"):
        FixedHeight(2000)(state(1000, 1), NoModel())
