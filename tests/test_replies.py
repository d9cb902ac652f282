"""The command `replies`: the published figures of BLINK, and what it says of files that it cannot use."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from looktwice.eval.replies import replies_lines
from looktwice.eval.task import TaskError

GOLDEN = {  # macro, micro of the official labels on val with the key of 2024
    "GPT4V": ("51.14", "50.45"),
    "GeminiProVision": ("45.16", "45.03"),
    "OPUS": ("44.05", "43.40"),
    "llava_v1.5_13b": ("42.66", "42.35"),
    "cogvlm-chat": ("41.54", "41.24"),
    "QwenVLMax": ("40.28", "39.51"),
    "llava_v1.5_7b": ("37.13", "36.35"),
    "MiniGPT-4-v2": ("34.23", "33.93"),
}
CONCATENATED = {"GPT4V": ("38.63", "38.27"), "GeminiProVision": ("36.31", "35.92")}


def figures(line: str) -> tuple[str, dict[str, str]]:
    name, _, rest = line.partition(": ")
    return name, dict(part.split("=", 1) for part in rest.split(", "))


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


def row(idx: str, reply: str, label: str | None = None, answer: str = "(A)") -> dict[str, Any]:
    return {"idx": idx, "answer": answer, "reply": reply, "official_label": label}


@pytest.mark.parametrize(
    ("folder", "golden"), [("blink_replies", GOLDEN), ("blink_replies_concatenated", CONCATENATED)]
)
def test_the_published_figures_of_blink(shared_data: Path, folder: str, golden: dict[str, tuple[str, str]]) -> None:
    files = sorted((shared_data / folder).glob("*.jsonl.gz"))
    lines = list(replies_lines(files, key=shared_data / "blink_replies" / "val_answers.json"))
    found = dict(map(figures, lines))
    assert {name: (got["macro"], got["micro"]) for name, got in found.items() if name != "total"} == golden
    assert found["GPT4V"]["n"] == ("1901" if folder == "blink_replies" else "1108")
    assert lines[-1].startswith(f"total: files={len(golden)}, n=")


def test_a_reader_is_compared_with_the_labels(shared_data: Path, tmp_path: Path) -> None:
    """BLINK's own rule never contradicts a label: all that differs is what the official code asked GPT-3.5."""
    file = shared_data / "blink_replies" / "llava_v1.5_7b.jsonl.gz"
    listing = tmp_path / "differ.txt"
    key = shared_data / "blink_replies" / "val_answers.json"
    lines = list(replies_lines([file], "blink_official", key, listing))
    _, got = figures(lines[0])
    assert float(got["agreement"]) > 70
    assert float(got["coverage"]) < 80
    text = listing.read_text()
    assert text.startswith("# the reader finds nothing, the label a letter: ")
    assert "two different letters" not in text


def test_the_choice_reader_rarely_contradicts_the_labels(shared_data: Path, tmp_path: Path) -> None:
    listing = tmp_path / "differ.txt"
    files = sorted((shared_data / "blink_replies").glob("*.jsonl.gz"))
    lines = list(replies_lines(files, "choice", shared_data / "blink_replies" / "val_answers.json", listing))
    _, got = figures(lines[-2])
    assert float(got["agreement"]) > 90
    kinds = dict(line[2:].rsplit(": ", 1) for line in listing.read_text().splitlines() if line.startswith("# "))
    assert int(kinds["two different letters"]) < 0.005 * 15_208


def test_scoring_is_of_equal_strings_and_counts_what_is_missing(tmp_path: Path) -> None:
    rows = [
        row("val_Jigsaw_1", "(A)", "(A)"),
        row("val_Jigsaw_2", "(A) the second image", "(A) the second image"),
        row("val_Jigsaw_3", "who knows", "(Z)"),
        row("val_Counting_1", "(C)", "(C)"),
        row("test_Counting_1", "(C)", "(C)", "hidden"),
    ]
    key = tmp_path / "key.json"
    names = ["val_Jigsaw_1", "val_Jigsaw_2", "val_Jigsaw_3", "val_Counting_1", "val_Counting_2", "val_IQ_Test_1"]
    key.write_text(json.dumps({name: "(C)" if "Count" in name else "(A)" for name in names}))
    name, got = figures(next(replies_lines([write(tmp_path / "m.jsonl", rows)], key=key)))
    assert name == "m"
    assert got == {
        "n": "5", "macro": "41.67", "micro": "40.00", "coverage": "60.00", "subtasks": "2/14", "missing": "1"
    }  # fmt: skip


def test_without_a_key_the_keys_of_the_file_count(tmp_path: Path) -> None:
    rows = [row("val_Jigsaw_1", "B", "(B)", "(B)"), row("test_Jigsaw_1", "B", "(B)", "hidden")]
    assert next(replies_lines([write(tmp_path / "m.jsonl.gz", rows)])).startswith("m: n=1, macro=100.00")
    hidden = [row("test_Jigsaw_1", "B", "(B)", "hidden")]
    line = next(replies_lines([write(tmp_path / "h.jsonl", hidden)], "choice"))
    assert line == "h: n=1, coverage=100.00, agreement=100.00, subtasks=1/14"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no reply"),
        ("{bad\n", "line 1: not JSON"),
        ('{"idx": "val_Jigsaw_1"}\n', "line 1: expected an object with idx and reply"),
        ('{"idx": "Jigsaw", "reply": "A"}\n', "is not SPLIT_SUBTASK_NUMBER"),
        ('{"idx": "val_Jigsaw_1", "reply": "A"}\n' * 2, "line 2: the idx 'val_Jigsaw_1' comes twice"),
        ('{"idx": "val_Jigsaw_1", "reply": "A"}\n', "no official_label; name a reader"),
    ],
)
def test_a_file_that_cannot_be_used(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "m.jsonl"
    file.write_text(text)
    with pytest.raises(TaskError, match=said):
        list(replies_lines([file]))


def test_more_input_that_cannot_be_used(tmp_path: Path) -> None:
    file = write(tmp_path / "m.jsonl", [row("val_Jigsaw_1", "A", "(A)")])
    broken = tmp_path / "m.jsonl.gz"
    broken.write_bytes(gzip.compress(b"x" * 1000)[:20])
    key = tmp_path / "key.json"
    key.write_text('{"val_Jigsaw_9": "(B)"}')
    for files, options, said in (
        ([tmp_path / "none.jsonl"], {}, "cannot be read"),
        ([broken], {}, "cannot be read"),
        ([file], {"key": key}, "none of its 1 items is in the key"),
        ([file], {"key": file}, "is no key"),
        ([file], {"disagreements": tmp_path / "d"}, "name one with --reader"),
    ):
        with pytest.raises(TaskError, match=said):
            list(replies_lines(files, **options))  # type: ignore[arg-type]
    other = write(tmp_path / "o.jsonl", [row("val_Unheard_1", "A", "(A)")])
    with pytest.raises(TaskError, match="'Unheard' is no subtask of BLINK"):
        list(replies_lines([other], "choice"))
