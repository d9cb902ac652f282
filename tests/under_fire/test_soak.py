"""The quick scenes of the soak: what a hostile server, file or disk sends ends in a sentence, and
costs no answer."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from bench.soak.configurations import configurations
from bench.soak.damaged import damaged
from bench.soak.full_disk import full_cache
from bench.soak.malformed import few, malformed
from bench.soak.scene import Finding


def failures(found: Iterable[Finding]) -> list[Finding]:
    """The rows that are not as promised."""
    return [row for row in found if not row.ok]


@pytest.mark.slow  # `make soak` plays it too
def test_malformed_responses_end_no_run_and_leave_no_key(tmp_path: Path) -> None:
    """A count of 4,000 digits ended a run with a traceback; a key in UTF-16 or in JSON's escapes
    was recorded."""
    assert failures(malformed(tmp_path, few())) == []


@pytest.mark.slow  # `make soak` plays it too
def test_a_full_disk_of_the_cache_stops_the_paying_and_is_named(tmp_path: Path) -> None:
    """After the fatal error 313 of 620 answers were paid for and lost."""
    assert failures(full_cache(tmp_path)) == []


def test_a_setting_or_class_that_cannot_be_is_refused_in_a_sentence(tmp_path: Path) -> None:
    """`model.timeout=nan` was taken, and every later command on that folder died."""
    assert failures(configurations(tmp_path, only="model.")) == []


def test_aliases_of_aliases_and_arms_that_nothing_describes_are_refused_in_a_sentence(
    tmp_path: Path,
) -> None:
    """Ten lines of run.yaml stood for 9^9 values, and every command hung; an empty points.yaml was
    a KeyError."""
    assert failures(damaged(tmp_path, only=r"laughs|points\.yaml: empty")) == []
