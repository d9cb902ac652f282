"""Recorded replies: the published results of BLINK, unusable files, and replies and runs that are
exported and read back."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from looktwice.eval.replies import load_answer_key
from looktwice.eval.scoring import kept, score
from looktwice.eval.tasks import TaskError
from looktwice.extras.logs.format import export_file, read_logs
from looktwice.extras.logs.log import Log, find_doubts, make_rows
from looktwice.extras.logs.own import parse_listed_choices
from looktwice.extras.logs.replies import load_replies, report_replies
from tests.made_run import MadeRun
from tests.tables import read_yaml, table

DATA = Path(__file__).with_suffix(".yaml")
GOLDEN: dict[str, dict[str, list[str]]] = read_yaml(DATA)["macro and micro of the official labels"]


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


@pytest.mark.slow
@pytest.mark.parametrize("folder", GOLDEN)
def test_the_published_figures_of_blink(shared_data: Path, folder: str) -> None:
    files = sorted((shared_data / folder).glob("*.jsonl.gz"))
    lines = list(report_replies(files, key=shared_data / "blink_replies" / "val_answers.json"))
    *models, (total, sums) = map(figures, lines)
    golden = GOLDEN[folder]
    assert {name: [got["macro"], got["micro"]] for name, got in models} == golden
    assert dict(models)["GPT4V"]["n"] == ("1901" if folder == "blink_replies" else "1108")
    assert (total, next(iter(sums))) == ("total", "files") and sums["files"] == str(len(golden))


@pytest.mark.slow
def test_a_reader_is_compared_with_the_labels(shared_data: Path, tmp_path: Path) -> None:
    file = shared_data / "blink_replies" / "llava_v1.5_7b.jsonl.gz"
    listing = tmp_path / "differ.txt"
    key = shared_data / "blink_replies" / "val_answers.json"
    lines = list(report_replies([file], "blink_official", key, listing))
    _, got = figures(lines[0])
    assert (got["n"], got["scored"]) == ("3807", "1901")
    assert float(got["agreement"].rstrip("%")) > 70 and float(got["coverage"].rstrip("%")) < 80
    text = listing.read_text()
    assert text.startswith("# the label is a letter, but the reader finds none (unread): ")
    assert "two different letters" not in text


def test_scoring_compares_strings_and_counts_missing_items(tmp_path: Path) -> None:
    rows = [
        row("val_Jigsaw_1", "(A)", "(A)"),
        row("val_Jigsaw_2", "(A) the second image", "(A) the second image"),
        row("val_Jigsaw_3", "who knows", "(Z)"),
        row("val_Counting_1", "(C)", "(C)"),
        row("test_Counting_1", "(C)", "(C)", "hidden"),
    ]
    key = tmp_path / "key.json"
    ids = ["Jigsaw_1", "Jigsaw_2", "Jigsaw_3", "Counting_1", "Counting_2", "IQ_Test_1"]
    key.write_text(json.dumps({f"val_{i}": "(C)" if "Count" in i else "(A)" for i in ids}))
    line = next(report_replies([write(tmp_path / "m.jsonl", rows)], key=key))
    assert line == "m: n=5, macro=41.67, micro=40.00, coverage=60.00, subtasks=2/14, missing=1"


def test_without_an_answer_key_file_the_keys_of_the_replies_count(tmp_path: Path) -> None:
    rows = [row("val_Jigsaw_1", "B", "(B)", "(B)"), row("test_Jigsaw_1", "B", "(B)", "hidden")]
    line = next(report_replies([write(tmp_path / "m.jsonl.gz", rows)]))
    assert line.startswith("m: n=1, macro=100.00")
    hidden = [row("test_Jigsaw_1", "B", "(B)", "hidden")]
    line = next(report_replies([write(tmp_path / "h.jsonl", hidden)], "robust"))
    assert line == "h: n=1, agreement=100.00%, coverage=100.00%, subtasks=1/14"


def test_a_reader_reads_all_replies_and_is_scored_on_keyed_ones(tmp_path: Path) -> None:
    rows = [
        row("val_Visual_Correspondence_1", "It is Point C.", "(C) Point C", "(C)"),
        row("val_Visual_Correspondence_2", "None of them.", "(Z)", "(A)"),
        row("val_Visual_Correspondence_3", "The answer is (B).", "(D)", "(B)"),
        row("test_Visual_Correspondence_1", "B", "(B)", "hidden"),
    ]
    file = write(tmp_path / "m.jsonl", rows)
    listing = tmp_path / "differ.txt"
    first, last, said = report_replies([file], "robust", None, listing)
    sentence = "n=4, agreement=75.00%, accuracy=66.67%, coverage=75.00%, macro=66.67%, scored=3"
    assert (first, last) == (f"m: {sentence}, subtasks=1/14", f"total: {sentence}, files=1")
    assert said == f"disagreements: 1 in {listing}"
    assert listing.read_text() == (
        "# the label is proved wrong (the reply names only X): 1\n\nm val_Visual_Correspondence_3:"
        " label (D), reader (B), key (B)\n    The answer is (B).\n"
    )


def test_a_file_can_contain_the_texts_of_its_choices(tmp_path: Path) -> None:
    own = {"choices": ["4", "7"], "question": "How many birds are there?"}
    rows = [row("val_Counting_1", "There are seven birds.", None, "(B)") | own]
    line = next(report_replies([write(tmp_path / "m.jsonl", rows)], "robust"))
    assert line.startswith("m: n=1, accuracy=100.00%, ")


EXPORTED = [
    row("val_Jigsaw_1", "The missing part is the third image.", "(B)", "(B)"),
    row("val_Jigsaw_2", 'I can\'t tell.\n"Sorry"\t=1', "(Z)", "(A)"),
    row("test_Jigsaw_7", "=A", "(A)", "hidden"),
]


@pytest.mark.parametrize("ending", ["tsv", "xlsx", "jsonl"])
def test_exports_can_be_read_back(tmp_path: Path, ending: str) -> None:
    if ending == "xlsx":
        pytest.importorskip("openpyxl")
    file, out = write(tmp_path / "m.jsonl", EXPORTED), tmp_path / "out" / f"m.{ending}"
    lines = list(report_replies([file], "robust", exports=[out]))
    assert lines[1] == f"exported: 3 in {out}"
    again = load_replies(out)[0].rows
    assert again["sample"].tolist() == [held["idx"] for held in EXPORTED]
    assert again["reply"].tolist() == [held["reply"] for held in EXPORTED]
    assert [key.strip("()") for key in again["key"]] == ["B", "A", ""]
    assert again["choices"][0] == ("the second image", "the third image")
    read_again = next(report_replies([out], "robust"))
    assert read_again.startswith("m: n=3, accuracy=50.00%, coverage=66.67%, ")


def test_the_submission_to_evalai_holds_the_hidden_items(tmp_path: Path) -> None:
    file, out = write(tmp_path / "m.jsonl", EXPORTED), tmp_path / "{name}.json"
    list(report_replies([file], "robust", exports=[out]))
    assert json.loads((tmp_path / "m.json").read_text()) == {"test_Jigsaw_7": "(A)"}
    val = write(tmp_path / "v.jsonl", EXPORTED[:2])
    list(report_replies([val, file], "robust", exports=[out]))
    submission = json.loads((tmp_path / "v.json").read_text())
    assert submission == {"val_Jigsaw_1": "(B)", "val_Jigsaw_2": "(Z)"}


def test_the_own_files_of_the_toolkits_are_read(tmp_path: Path) -> None:
    for name, text, expected in read_yaml(DATA)["toolkits"]:
        (tmp_path / name).write_text(text)
        held = load_replies(tmp_path / name)[0].rows.iloc[0]
        assert [held["sample"], [*held["choices"]], held["key"], held["reply"]] == expected
    assert "accuracy=100.00%" in next(report_replies([tmp_path / name], "robust"))


def test_impossible_exports_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    file = write(tmp_path / "m.jsonl", EXPORTED)
    long = write(tmp_path / "l.jsonl", [row("val_Jigsaw_1", "A" * 40_000, "(Z)")])
    for files, out, words in (
        ([file], "out.csv", r"\.json for evalai"),
        ([file, file], "out.json", r"\{name\}"),
        ([long], "out.xlsx", r"1 rows \(the first is val_Jigsaw_1\)"),
    ):
        with pytest.raises(TaskError, match=words):
            list(report_replies(files, "robust", exports=[tmp_path / out]))


@table
def test_unusable_files_are_refused(tmp_path: Path, name: str, text: str, said: str) -> None:
    if name.endswith("xlsx"):
        pytest.importorskip("openpyxl")
    (tmp_path / name).write_bytes(text.encode("latin-1"))
    with pytest.raises(TaskError, match=re.escape(said)):
        list(report_replies([tmp_path / name]))


def test_bare_letters_a_byte_order_mark_and_a_lone_surrogate(tmp_path: Path) -> None:
    rows = [row("val_Jigsaw_1", "A", "A", "A"), row("val_Jigsaw_2", "A \ud83d", "(B)", "(A)")]
    file = write(tmp_path / "m.jsonl", rows)
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    lines = list(report_replies([file], "robust", disagreements=tmp_path / "kinds.txt"))
    assert "agreement=50.00%, accuracy=100.00%" in lines[0]
    assert "A ?" in (tmp_path / "kinds.txt").read_text()


def test_without_labels_the_robust_reader_uses_the_letters_of_the_keys(tmp_path: Path) -> None:
    docs = list[dict[str, Any]]()
    for number, (key, reply) in enumerate(
        (("(B)", "The answer is (B)."), ("(A)", "(B)"), ("(B)", "It is the dog."))
    ):
        doc = {"idx": f"val_Unheard_{number + 1}", "answer": key}
        doc |= {"question": "Which is nearer?\n(A) the cat (B) the dog"} if number == 2 else {}
        docs.append({"doc": doc, "resps": [[reply]]})
    file = write(tmp_path / "m_samples_unheard.jsonl", docs)
    assert "accuracy=66.67%, coverage=100.00%" in next(iter(report_replies([file])))
    (log,) = read_logs(file)
    assert list(log.rows["value"]) == [1, 0, 1] and log.reader_name == "Robust"


@table
def test_choices_written_in_the_question(question: str, choices: list[str]) -> None:
    assert parse_listed_choices(question) == tuple(choices)


def test_more_unusable_input_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "m.jsonl", [row("val_Jigsaw_1", "A", "(A)")])
    other = write(tmp_path / "o.jsonl", [row("val_Unheard_1", "A", answer="hidden")])
    broken, key = tmp_path / "m.jsonl.gz", tmp_path / "key.json"
    broken.write_bytes(gzip.compress(b"x" * 1000)[:20])
    key.write_text('{"val_Jigsaw_9": "(B)"}')
    for path, options, words in (
        (tmp_path / "none.jsonl", {}, "no file"),
        (broken, {}, "cannot be read"),
        (file, {"key": key}, "none of its 1 items"),
        (file, {"key": file}, "not an answer key"),
        (other, {"reader": "robust"}, "'Unheard'"),
    ):
        with pytest.raises(TaskError, match=words):
            list(report_replies([path], **options))


def test_a_run_is_scored_by_the_keys_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: the keys were ignored. The run's own scores, which it stores, stay as they
    are."""
    monkeypatch.setattr(score, "MIN_STORED_BYTES", 1)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    made = MadeRun(tmp_path / "run")
    made.task("t", "AAB")
    arm = made.point("one", "t")
    for number in range(3):
        made.reply(arm, f"s{number}", "Answer: A")
    run, key = made.write().path, tmp_path / "key.json"

    def read(**options: Any) -> tuple[str, str]:
        _, found = figures(next(report_replies([run], **options)))
        return found["accuracy"], found["scored"]

    assert read() == ("66.67%", "3")
    assert (run / kept.VERDICTS_FILE).exists()
    key.write_text('{"s0": "(B)", "s1": "(A)"}')
    assert read(key=key) == ("50.00%", "2")
    assert read() == ("66.67%", "3")
    key.write_text('{"s0": "(C)", "s1": "(A)", "q8": "A", "q9": "A", "val_Jigsaw_9": "A"}')
    _, failed, unused, _ = report_replies([run], key=key)
    assert failed.startswith("one: s0 failed: ") and "'C'" in failed
    assert unused == f"{run}: not in the run: 2 ids of {key}, such as 'q8'"
    key.write_text('{"val_Jigsaw_9": "(B)"}')
    with pytest.raises(TaskError, match="none of its 3 samples"):
        read(key=key)


# ---- exported and read back


@pytest.fixture(scope="module")
def some_replies(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return every ninth recorded reply of one model, of all subtasks, with both splits."""
    out = tmp_path_factory.mktemp("replies") / "model.jsonl"
    with gzip.open(shared_data / "blink_replies/GPT4V.jsonl.gz", "rt", encoding="utf-8") as lines:
        out.write_text("".join(list(lines)[::9]), encoding="utf-8")
    return out


SLOW = [pytest.param(ending, marks=pytest.mark.slow) for ending in (".tsv", ".xlsx")]


@pytest.mark.slow
@pytest.mark.parametrize("ending", [".jsonl", *SLOW])
def test_an_export_scores_as_its_source(some_replies: Path, tmp_path: Path, ending: str) -> None:
    if ending == ".xlsx":
        pytest.importorskip("openpyxl")
    out, more = tmp_path / f"model{ending}", tmp_path / f"again{ending}"
    first, *_ = report_replies([some_replies], "robust", exports=[out])
    again, *_ = report_replies([out], "robust", exports=[more])
    (_, before), (_, after) = figures(first), figures(again)
    assert before.pop("agreement") and before == after and before["n"] == "423"
    columns = ["sample", "key", "choices", "reply"]
    source, once, twice = (
        load_replies(path)[0].rows[columns] for path in (some_replies, out, more)
    )
    assert once.equals(source) and twice.equals(once)


def test_an_empty_export_has_only_a_header(tmp_path: Path) -> None:
    assert export_file(Log("m", make_rows([])), tmp_path / "none.tsv") == 0
    assert (tmp_path / "none.tsv").read_text().split("\t")[0] == "index"


# ---- runs


@pytest.fixture
def made(tmp_path: Path) -> MadeRun:
    run = MadeRun(tmp_path / "run")
    run.task("jigsaw", ["A", "B", None])
    for number, row in enumerate(run.samples):
        idx = f"{'val' if row.answer else 'test'}_Jigsaw_{number + 1}"
        run.samples[number] = replace(row, sample={**row.sample, "id": idx})
    return run


def test_the_predictions_of_a_run_are_exported(made: MadeRun, tmp_path: Path) -> None:
    point = made.point("plain", "jigsaw")
    for name in ("val_Jigsaw_1", "val_Jigsaw_2"):
        made.reply(point, name, "(A)")
    made.reply(point, "test_Jigsaw_3", "The answer is (B).")
    outs = [tmp_path / "evalai.json", tmp_path / "lmms.jsonl"]
    first, *_ = report_replies([made.write().path], exports=outs)
    assert first.startswith("plain: n=3, accuracy=50.00%, coverage=100.00%, macro=50.00%, scored=2")
    assert json.loads(outs[0].read_text()) == {"test_Jigsaw_3": "(B)"}
    again, *_ = report_replies([outs[1]], "robust")
    assert again.partition(": ")[2] == first.partition(": ")[2]


def test_shuffled_letters_are_mapped_back_to_those_of_the_task(
    made: MadeRun, tmp_path: Path
) -> None:
    point = made.point("permuted", "jigsaw")
    made.record(point, "test_Jigsaw_3", answer="A", letters={"A": "B", "B": "A"})
    out = tmp_path / "{name}.json"
    first, *_ = report_replies([made.write().path], exports=[out])
    # this one's key is hidden
    assert first == "permuted: n=1, coverage=100.00%, subtasks=1/14, missing=2"
    assert json.loads((tmp_path / "permuted.json").read_text()) == {"test_Jigsaw_3": "(B)"}


def test_several_contestants_need_distinct_names(made: MadeRun, tmp_path: Path) -> None:
    for name in ("plain", "mark [radius=5]"):
        made.answers(made.point(name, "jigsaw"), ["A", "B", "A"])
    folder = made.write().path
    with pytest.raises(TaskError, match=r"2 .*\{name\}"):
        list(report_replies([folder], exports=[tmp_path / "out.json"]))
    lines = list(report_replies([folder], exports=[tmp_path / "{name}.json"]))
    names = [line.partition(":")[0] for line in lines if "accuracy" in line]
    assert names == ["plain", "mark_radius=5", "total"]
    assert (tmp_path / "mark_radius=5.json").exists()


@table
def test_a_score_of_zero_is_explained(tmp_path: Path, name: str, text: str, says: str) -> None:
    (tmp_path / name).write_text(text)
    warnings = [line for line in report_replies([tmp_path / name]) if line.startswith("warning")]
    assert len(warnings) == bool(says) and says in "".join(warnings)
    warned = "\n".join(find_doubts(read_logs(tmp_path / name)[0]))
    assert says in warned and bool(says) == bool(warned), "compare says the same"


@table
def test_a_correct_answer_that_is_not_a_letter(
    tmp_path: Path, answer: str, scored: bool, warned: str
) -> None:
    """Regression: Counting's choices are empty texts, and a hidden key was read as the first."""
    line = {"idx": "val_Counting_1", "reply": "(A) 1", "answer": answer}
    file, out = write(tmp_path / "c.jsonl", [line]), tmp_path / "c.tsv"
    lines = list(report_replies([file], exports=[out]))
    assert ("scored=1" in lines[0]) == scored
    warnings = [line for line in lines if line.startswith("warning")]
    assert len(warnings) == bool(warned) and warned in "".join(warnings)
    assert read_logs(file)[0].rows["value"].notna().tolist() == [scored], "compare says the same"
    assert out.read_text().splitlines()[1].split("\t")[-3] == ("AB"[answer == "b"] * scored)


def test_recorded_replies_are_scored_by_their_own_answer_keys(shared_data: Path) -> None:
    first, _ = report_replies([shared_data / "blink_replies" / "GPT4V.jsonl.gz"])
    got = figures(first)[1]
    assert [got["macro"], got["micro"]] == GOLDEN["blink_replies"]["GPT4V"] and got["n"] == "1901"


def test_a_lower_case_letter_identifies_its_choice(tmp_path: Path) -> None:
    texts = {"question": "Which?", "choices": ["b", "x", "y", "z"]}
    keys = {"c": "C", "(d)": "D", "b": "A"}  # the last is the text of a choice
    rows = [{"id": f"k{key}", **texts, "key": key, "reply": keys[key]} for key in keys]
    file = write(tmp_path / "own.jsonl", [*rows, {**rows[0], "id": "wrong", "reply": "D"}])
    scored, *_ = report_replies([file])
    assert figures(scored)[1]["n"] == "4" and "75.00%" in scored
    compared = read_logs(file)[0].rows
    assert compared["value"].tolist() == [1, 1, 1, 0]


def test_an_id_with_a_leading_zero_stays_text_in_excel(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    ids, out = ["00", "7", "10"], tmp_path / "model.xlsx"
    rows = [{"sample": idx, "choices": ("x", "y"), "key": "A", "reply": "A"} for idx in ids]
    export_file(Log("m", make_rows(rows)), out)
    assert load_replies(out)[0].rows["sample"].str.rpartition("_")[2].tolist() == ids


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ('{"q1": "(B)", "q2": "A"}', {"q1": "(B)", "q2": "(A)"}),
        ('{"q1": "left"}', "q1 has 'left'"),
        ('{"q1": "(B"}', "q1 has '(B'"),
        ('{"q1": null}', "q1 has 'None'"),
        ("{}", "is not an answer key"),
        ('["A"]', "is not an answer key"),
        ("{", "cannot be read as an answer key"),
    ],
)
def test_an_answer_key_holds_letters(
    tmp_path: Path, written: str, read: dict[str, str] | str
) -> None:
    (file := tmp_path / "key.json").write_text(written)
    if isinstance(read, str):
        with pytest.raises(TaskError, match=re.escape(read)):
            load_answer_key(file)
    else:
        assert load_answer_key(file) == read
