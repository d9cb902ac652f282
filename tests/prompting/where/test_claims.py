"""Boxes and points in replies are parsed in the formats of many model families."""

from typing import Any

import pytest

from looktwice.prompting.where.claims import read_claims
from tests.tables import table


def read(reply: str, points: bool) -> list[list[Any]]:
    return [
        [claim.image, pytest.approx(claim.numbers), claim.frame]
        for claim in read_claims(reply, points)
    ]


@table
def test_claims_in_replies(reply: str, boxes: list[list[Any]], points: list[list[Any]]) -> None:
    assert boxes == read(reply, points=False)
    assert points == read(reply, points=True)


@table
def test_labels_and_confidences(reply: str, label: str, score: float | None, notation: str) -> None:
    (claim,) = read_claims(f"I see: {reply}.", points=False)
    assert claim.numbers == (10, 20, 30, 40)
    assert (claim.label, claim.score, claim.notation) == (label, score, notation)
    start, end = claim.span
    assert start > 0 and f"I see: {reply}."[start:end] in reply
