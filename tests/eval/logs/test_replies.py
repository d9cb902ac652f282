"""The command `replies`: the published figures of BLINK, and what it says of files that it cannot
use."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from looktwice.eval.logs.replies import load_replies, replies_lines
from looktwice.eval.tasks import TaskError

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
def test_the_published_figures_of_blink(
    shared_data: Path, folder: str, golden: dict[str, tuple[str, str]]
) -> None:
    files = sorted((shared_data / folder).glob("*.jsonl.gz"))
    lines = list(replies_lines(files, key=shared_data / "blink_replies" / "val_answers.json"))
    found = dict(map(figures, lines))
    assert {
        name: (got["macro"], got["micro"]) for name, got in found.items() if name != "total"
    } == golden
    assert found["GPT4V"]["n"] == ("1901" if folder == "blink_replies" else "1108")
    assert lines[-1].startswith(f"total: files={len(golden)}, n=")


def test_a_reader_is_compared_with_the_labels(shared_data: Path, tmp_path: Path) -> None:
    """BLINK's own rule never contradicts a label: all that differs is what the official code asked
    GPT-3.5."""
    file = shared_data / "blink_replies" / "llava_v1.5_7b.jsonl.gz"
    listing = tmp_path / "differ.txt"
    key = shared_data / "blink_replies" / "val_answers.json"
    lines = list(replies_lines([file], "blink_official", key, listing))
    _, got = figures(lines[0])
    assert got["n"] == "3807"
    assert got["scored"] == "1901"
    assert float(got["agreement"].rstrip("%")) > 70
    assert float(got["coverage"].rstrip("%")) < 80
    text = listing.read_text()
    assert text.startswith("# the reader finds nothing (unread), the label a letter: ")
    assert "two different letters" not in text


def test_scoring_is_of_equal_strings_and_counts_what_is_missing(tmp_path: Path) -> None:
    rows = [
        row("val_Jigsaw_1", "(A)", "(A)"),
        row("val_Jigsaw_2", "(A) the second image", "(A) the second image"),
        row("val_Jigsaw_3", "who knows", "(Z)"),
        row("val_Counting_1", "(C)", "(C)"),
        row("test_Counting_1", "(C)", "(C)", "hidden"),
    ]
    key = tmp_path / "key.json"
    names = [
        "val_Jigsaw_1",
        "val_Jigsaw_2",
        "val_Jigsaw_3",
        "val_Counting_1",
        "val_Counting_2",
        "val_IQ_Test_1",
    ]
    key.write_text(json.dumps({name: "(C)" if "Count" in name else "(A)" for name in names}))
    name, got = figures(next(replies_lines([write(tmp_path / "m.jsonl", rows)], key=key)))
    assert name == "m"
    assert got == {
        "n": "5",
        "macro": "41.67",
        "micro": "40.00",
        "coverage": "60.00",
        "subtasks": "2/14",
        "missing": "1",
    }


def test_without_a_key_the_keys_of_the_file_count(tmp_path: Path) -> None:
    rows = [row("val_Jigsaw_1", "B", "(B)", "(B)"), row("test_Jigsaw_1", "B", "(B)", "hidden")]
    assert next(replies_lines([write(tmp_path / "m.jsonl.gz", rows)])).startswith(
        "m: n=1, macro=100.00"
    )
    hidden = [row("test_Jigsaw_1", "B", "(B)", "hidden")]
    line = next(replies_lines([write(tmp_path / "h.jsonl", hidden)], "robust"))
    assert line == "h: n=1, agreement=100.00%, coverage=100.00%, subtasks=1/14"


def test_a_reader_reads_all_replies_and_is_scored_on_the_keyed_ones(tmp_path: Path) -> None:
    rows = [
        row("val_Visual_Correspondence_1", "It is Point C.", "(C) Point C", "(C)"),
        row("val_Visual_Correspondence_2", "None of them.", "(Z)", "(A)"),
        row("val_Visual_Correspondence_3", "The answer is (B).", "(D)", "(B)"),
        row("test_Visual_Correspondence_1", "B", "(B)", "hidden"),
    ]
    file = write(tmp_path / "m.jsonl", rows)
    listing = tmp_path / "differ.txt"
    first, last, said = replies_lines([file], "robust", None, listing)
    figures_wanted = (
        "n=4, agreement=75.00%, accuracy=66.67%, coverage=75.00%, macro=66.67%, scored=3"
    )
    assert first == f"m: {figures_wanted}, subtasks=1/14"
    assert last == f"total: {figures_wanted}, files=1"
    assert said == f"disagreements: 1 in {listing}"
    text = listing.read_text()
    assert text.startswith(
        "# the label is proved wrong (the reply names X alone): 1\n\nm"
        " val_Visual_Correspondence_3: "
    )
    assert "label (D), reader (B), key (B)\n    The answer is (B).\n" in text


def test_a_file_may_bring_the_texts_of_its_choices(tmp_path: Path) -> None:
    own = {"choices": ["4", "7"], "question": "How many birds are there?"}
    rows = [row("val_Counting_1", "There are seven birds.", None, "(B)") | own]
    assert next(replies_lines([write(tmp_path / "m.jsonl", rows)], "robust")).startswith(
        "m: n=1, accuracy=100.00%, "
    )


EXPORTED = [
    row("val_Jigsaw_1", "The missing part is the third image.", "(B)", "(B)"),
    row("val_Jigsaw_2", 'I can\'t tell.\n"Sorry"\t=1', "(Z)", "(A)"),
    row("test_Jigsaw_7", "=A", "(A)", "hidden"),
]


@pytest.mark.parametrize("ending", ["tsv", "xlsx", "jsonl"])
def test_what_is_exported_can_be_read_again(tmp_path: Path, ending: str) -> None:
    if ending == "xlsx":
        pytest.importorskip("openpyxl")
    file, out = write(tmp_path / "m.jsonl", EXPORTED), tmp_path / "out" / f"m.{ending}"
    lines = list(replies_lines([file], "robust", exports=[out]))
    assert lines[1] == f"exported: 3 in {out}"
    again = load_replies(out).rows
    assert again["sample"].tolist() == [held["idx"] for held in EXPORTED]
    assert again["reply"].tolist() == [held["reply"] for held in EXPORTED]
    assert [key.strip("()") for key in again["key"]] == ["B", "A", ""]
    assert again["choices"][0] == ("the second image", "the third image")
    read_again = next(replies_lines([out], "robust"))
    assert read_again.startswith("m: n=3, accuracy=50.00%, coverage=66.67%, ")


def test_the_submission_to_evalai_holds_the_hidden_items(tmp_path: Path) -> None:
    file, out = write(tmp_path / "m.jsonl", EXPORTED), tmp_path / "{name}.json"
    list(replies_lines([file], "robust", exports=[out]))
    assert json.loads((tmp_path / "m.json").read_text()) == {"test_Jigsaw_7": "(A)"}
    val = write(tmp_path / "v.jsonl", EXPORTED[:2])
    list(replies_lines([val, file], "robust", exports=[out]))
    assert json.loads((tmp_path / "v.json").read_text()) == {
        "val_Jigsaw_1": "(B)",
        "val_Jigsaw_2": "(Z)",
    }


def test_the_toolkits_own_files_are_read(tmp_path: Path) -> None:
    table = tmp_path / "model_BLINK.tsv"
    table.write_text(
        "index\tcategory\tquestion\tA\tB\tanswer\tprediction\n12\tArt Style\tWhich?\tx\ty\tB\tIt"
        " is y\n"
    )
    columns = ["sample", "choices", "key", "reply"]
    row = load_replies(table).rows[columns].iloc[0]
    assert row.tolist() == ["val_Art_Style_12", ("x", "y"), "B", "It is y"]
    sample = {
        "doc_id": 0,
        "doc": {"idx": "val_Jigsaw_3", "answer": "(A)"},
        "resps": [["(A)"]],
        "filtered_resps": ["A"],
    }
    row = load_replies(write(tmp_path / "samples_blink.jsonl", [sample])).rows[columns].iloc[0]
    assert row[["sample", "key", "reply"]].tolist() == ["val_Jigsaw_3", "A", "(A)"]


def test_an_export_that_cannot_be_written(tmp_path: Path) -> None:
    file = write(tmp_path / "m.jsonl", EXPORTED)
    with pytest.raises(TaskError, match=r"the format follows from the ending: \.json for evalai; "):
        list(replies_lines([file], "robust", exports=[tmp_path / "out.csv"]))
    with pytest.raises(TaskError, match=r"2 files need \{name\} in it"):
        list(replies_lines([file, file], "robust", exports=[tmp_path / "out.json"]))
    pytest.importorskip("openpyxl")
    long = write(tmp_path / "l.jsonl", [row("val_Jigsaw_1", "A" * 40_000, "(Z)")])
    with pytest.raises(
        TaskError, match="1 rows, first val_Jigsaw_1, are longer than a cell of Excel holds"
    ):
        list(replies_lines([long], "robust", exports=[tmp_path / "out.xlsx"]))


ONE = b'{"idx": "val_Jigsaw_1", "reply": "A"'


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("m.tsv", b"a\tb\n1\t2\n", "which column is the sample's id"),
        ("m.tsv", b"index\tprediction\n\xff\t2\n", "line 2: not UTF-8"),
        ("m.xlsx", b"PK\x03\x04 cut", "cannot be read as an Excel table"),
        ("m.jsonl", b'{"doc": {}, "resps": [["A"]]}', "the idx 'None' is not SPLIT_"),
        ("m.jsonl", b"", "holds no sample"),
        ("m.jsonl", b"{bad\n", "line 1: not JSON"),
        ("m.jsonl", b'{"idx": "val_Jigsaw_1"}\n', "line 1: expected an object with idx and reply"),
        ("m.jsonl", b'{"idx": "Jigsaw", "reply": "A"}\n', "is not SPLIT_SUBTASK_NUMBER"),
        ("m.jsonl", 2 * (ONE + b"}\n"), "the idx 'val_Jigsaw_1' comes twice"),
        ("m.jsonl", ONE + b"}\n", "no official_label; name a reader"),
        (
            "m.jsonl",
            ONE + b', "official_label": 3}',
            "line 1: official_label is 3; expected a text",
        ),
        ("m.jsonl", ONE + b', "question": ["x"]}', "question is ['x']; expected a text"),
        ("m.jsonl", ONE + b', "answer": "Point A"}', "'Point A'; expected the key as '(A)'"),
        ("m.jsonl", ONE + b', "choices": "left"}', "choices is 'left'; expected a list of texts"),
    ],
)
def test_a_file_that_cannot_be_used(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    if name.endswith("xlsx"):
        pytest.importorskip("openpyxl")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TaskError, match=re.escape(said)):
        list(replies_lines([tmp_path / name]))


def test_bare_letters_as_keys_and_labels_a_byte_order_mark_and_half_a_character(
    tmp_path: Path,
) -> None:
    rows = [row("val_Jigsaw_1", "A", "A", "A"), row("val_Jigsaw_2", "A \ud83d", "(B)", "(A)")]
    file = write(tmp_path / "m.jsonl", rows)
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    lines = list(replies_lines([file], "robust", disagreements=tmp_path / "kinds.txt"))
    assert "agreement=50.00%, accuracy=100.00%" in lines[0]
    assert "A ?" in (tmp_path / "kinds.txt").read_text()


def test_more_input_that_cannot_be_used(tmp_path: Path) -> None:
    file = write(tmp_path / "m.jsonl", [row("val_Jigsaw_1", "A", "(A)")])
    broken = tmp_path / "m.jsonl.gz"
    broken.write_bytes(gzip.compress(b"x" * 1000)[:20])
    key = tmp_path / "key.json"
    key.write_text('{"val_Jigsaw_9": "(B)"}')
    for files, options, said in (
        ([tmp_path / "none.jsonl"], {}, "there is no file"),
        ([broken], {}, "cannot be read"),
        ([file], {"key": key}, "none of its 1 items is in the key"),
        ([file], {"key": file}, "is no key"),
        ([file], {"disagreements": tmp_path / "d"}, "name one with --reader"),
    ):
        with pytest.raises(TaskError, match=said):
            list(replies_lines(files, **options))  # type: ignore[arg-type]
    other = write(tmp_path / "o.jsonl", [row("val_Unheard_1", "A", "(A)")])
    with pytest.raises(TaskError, match="'Unheard' is no subtask of BLINK"):
        list(replies_lines([other], "robust"))
