"""The writer of a run folder: samples before their records, and whole lines alone."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from looktwice.eval.records import RunWriter


def test_samples_are_written_before_their_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []
    plain = Path.open

    def spy(path: Path, *args: Any, **more: Any) -> Any:
        names.append(path.name)
        return plain(path, *args, **more)

    monkeypatch.setattr(Path, "open", spy)
    RunWriter(tmp_path)._write([("records.jsonl", b"r\n"), ("samples.jsonl", b"s\n")])
    assert names == ["samples.jsonl", "records.jsonl"]


def test_half_a_line_on_a_full_disk_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(io.FileIO):
        def write(self, data: Any) -> int:
            super().write(data[:3])
            raise OSError(28, "No space left on device")

    (tmp_path / "records.jsonl").write_bytes(b"whole\n")
    monkeypatch.setattr(Path, "open", lambda path, mode, buffering: Full(path, mode))
    with pytest.raises(OSError, match=r"No space left on device: .*records\.jsonl"):
        RunWriter(tmp_path)._write([("records.jsonl", b"another\n")])
    monkeypatch.undo()
    assert (tmp_path / "records.jsonl").read_bytes() == b"whole\n"
