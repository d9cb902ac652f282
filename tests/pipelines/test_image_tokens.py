"""The token count of a picture, by the rules that providers publish."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from looktwice.pipelines.models.image_tokens import (
    compute_claude_size,
    count_claude_tokens,
    count_openai_patch_tokens,
    find_image_rule,
)
from tests.paths import rows


@pytest.mark.parametrize(("model", "width", "height", "tokens"), rows(__file__, "image_tokens.tsv"))
def test_tokens_follow_the_rule_of_a_model(
    model: str, width: str, height: str, tokens: str
) -> None:
    assert find_image_rule(model).count_tokens((int(width), int(height))) == int(tokens)


def test_detail_changes_the_rule_if_the_provider_documents_it() -> None:
    assert find_image_rule("gpt-4o", "low").count_tokens((1024, 1024)) == 85
    assert find_image_rule("gpt-5.4", "original").count_tokens((3840, 2160)) == 120 * 68
    assert find_image_rule("gpt-5.5", "high").count_tokens((3840, 2160)) == 2304
    assert find_image_rule("claude-opus-4", "low").count_tokens((1024, 1024)) == 1369


def test_a_model_without_a_published_rule_is_reported() -> None:
    assert find_image_rule("gpt-4o").published and not find_image_rule("some-vlm").published


@pytest.mark.parametrize(
    "model", ["gpt-4o", "gpt-5-mini", "gpt-5.4", "claude", "gemini-2.5", "other"]
)
def test_every_size_has_a_number(model: str) -> None:
    sizes = (1, 1), (1, 5000), (5000, 1), (20000, 20000)
    assert all(find_image_rule(model).count_tokens(size) >= 1 for size in sizes)


def test_the_rules_give_the_published_numbers(shared_data: Path) -> None:
    file = shared_data / "methods" / "image_tokens.json"
    if not file.exists():
        pytest.skip(f"no {file}")
    for row in json.loads(file.read_text()):
        size = (row["size"][0], row["size"][1])
        assert find_image_rule("gpt-4o").count_tokens(size) == row["openai_tile_85_170"]
        assert count_openai_patch_tokens(size) == row["openai_patch_1536"]
        assert count_openai_patch_tokens(size, 2500, 2048) == row["openai_patch_2500_2048"]
        assert find_image_rule("gemini-2.5-flash").count_tokens(size) == row["gemini2_tiles"]
        for name, longest, budget in (("claude_standard", 1568, 1568), ("claude_high", 2576, 4784)):
            assert list(compute_claude_size(size, longest, budget)) == row[name]["seen"]
            assert count_claude_tokens(size, longest, budget) == row[name]["tokens"]
