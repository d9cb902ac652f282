"""The quick scenes of the soak: what a hostile server, file or disk sends ends in a sentence, and costs no answer."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from bench.soak.malformed import few, malformed
from bench.soak.scene import Finding


def failures(found: Iterable[Finding]) -> list[Finding]:
    """The rows that are not as promised."""
    return [row for row in found if not row.ok]


def test_malformed_responses_end_no_run_and_leave_no_key(tmp_path: Path) -> None:
    """A count of 4,000 digits ended a run with a traceback; a key in UTF-16 or in JSON's escapes was recorded."""
    assert failures(malformed(tmp_path, few())) == []
