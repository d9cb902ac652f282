"""Small logs in the format of every program, and what is read from them."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

from looktwice.eval import Robust, TaskError
from looktwice.extras.logs import read_logs
from looktwice.extras.logs.format import read_all_logs
from looktwice.extras.logs.log import Log, make_names_unique
from looktwice.extras.logs.replies import report_replies
from tests.made_run import MadeRun
from tests.tables import read_yaml, table

PIXELS = b"\x89PNG any bytes"
SHA = hashlib.sha256(PIXELS).hexdigest()
ADDRESS = "data:image/png;base64," + base64.b64encode(PIXELS).decode()
HEADER: dict[str, Any] = {
    "version": 2,
    "status": "success",
    "eval": {"task": "depth", "model": "m/one"},
}
DATA = Path(__file__).with_suffix(".yaml")
UNSCORED = [*read_yaml(DATA)["unscored"], "inspect.json"]


def inspect_sample(number: int, value: Any, **more: Any) -> dict[str, Any]:
    """Return a sample as inspect_ai writes it: pictures and long texts are attachments."""
    sample: dict[str, Any] = json.loads(json.dumps(read_yaml(DATA)["inspect sample"]))
    sample["id"], sample["attachments"]["p"] = f"s{number}", ADDRESS
    sample["input"][0]["content"][1]["text"] = f"Which, {number}?"
    sample["scores"]["choice"]["value"] = value
    return sample | more


def write_eval(
    path: Path, samples: list[dict[str, Any]], summaries: bool = True, zstd: bool = False
) -> Path:
    """Write a `.eval` file; with `zstd` its members are compressed as by inspect_ai, which zipfile
    cannot do."""
    members: dict[str, Any] = {f"samples/{s['id']}_epoch_{s['epoch']}.json": s for s in samples}
    if summaries:
        long = ("output", "attachments", "input")
        members["summaries.json"] = [
            {name: value for name, value in sample.items() if name not in long}
            for sample in samples
        ]
    members["header.json"] = HEADER
    texts = {name: json.dumps(value).encode() for name, value in members.items()}
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for name, text in texts.items():
            archive.writestr(name, text)
    return _with_zstd(path, texts) if zstd else path


def _with_zstd(path: Path, texts: Mapping[str, bytes]) -> Path:
    """Rewrite the archive with each member compressed by Zstandard (method 93)."""
    import pyarrow

    with ZipFile(path) as source:
        sums = {entry.filename: entry.CRC for entry in source.infolist()}
    body = index = b""
    for name, text in texts.items():
        packed = pyarrow.compress(text, codec="zstd", asbytes=True)
        tail = struct.pack("<IIIHH", sums[name], len(packed), len(text), len(name), 0)
        common = struct.pack("<HHHHH", 63, 0, 93, 0, 33) + tail
        place = struct.pack("<HHHII", 0, 0, 0, 0, len(body))
        index += b"PK\1\2" + struct.pack("<H", 63) + common + place + name.encode()
        body += b"PK\3\4" + common + name.encode() + packed
    end = struct.pack("<HHHHIIH", 0, 0, len(texts), len(texts), len(index), len(body), 0)
    path.write_bytes(body + index + b"PK\5\6" + end)
    return path


def only(path: Path, **columns: str) -> Log:
    (log,) = read_logs(path, columns)
    return log


def cells(log: Log, names: str, row: int | None = 0) -> list[Any]:
    """Return the columns of a row, or with `None` those of all rows."""
    columns = log.whole.rows[names.split()]
    return list(columns.iloc[row] if row is not None else columns.T.to_numpy().ravel())


def write(path: Path, *lines: Any) -> Path:
    """Write a file of lines: texts as they are, other values as JSON."""
    path.parent.mkdir(exist_ok=True)
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_text("\n".join(texts) + "\n")
    return path


@pytest.mark.parametrize("summaries", [True, False])
@pytest.mark.parametrize("zstd", [True, False])
def test_a_log_of_inspect(tmp_path: Path, summaries: bool, zstd: bool) -> None:
    # with a score too, as inspect_ai has it with score_on_error
    failed = inspect_sample(3, "C", error={"message": "broken"})
    samples = [*(inspect_sample(number, value) for number, value in enumerate("CIN")), failed]
    log = only(write_eval(tmp_path / "a.eval", samples, summaries, zstd))
    assert (log.name, log.detail) == ("m/one", "depth")
    assert cells(log, "verdict", None) == ["right", "wrong", "unreadable", "failed"]
    assert log.rows["value"].fillna(-1).tolist() == [1, 0, 0, -1]
    assert cells(log, "question pictures reply") == ["Which, 0?", SHA, "The answer is (B)."]
    assert cells(log, "key answer tokens choices") == ["A", "B", 12, ("near", "far")]
    other = only(tmp_path / "a.eval", value="other")
    assert cells(other, "value", None)[:3] == [0.25] * 3


def test_a_log_of_inspect_in_json_is_the_same(tmp_path: Path) -> None:
    samples = [inspect_sample(0, "C"), inspect_sample(1, "P")]
    path = write(tmp_path / "a.json", {**HEADER, "samples": samples})
    zipped = only(write_eval(tmp_path / "a.eval", samples)).whole
    assert only(path).rows.astype(str).equals(zipped.rows.astype(str))


def test_a_folder_of_inspect_holds_a_log_for_each_file(tmp_path: Path) -> None:
    for name, value in {"b": "C", "a": "I"}.items():
        write_eval(tmp_path / f"{name}.eval", [inspect_sample(0, value)])
    write(tmp_path / "logs.json", "{}")  # a listing that inspect_ai keeps beside its logs
    logs = read_logs(tmp_path)
    assert [log.source for log in logs] == ["a.eval", "b.eval"]
    assert [cells(log, "verdict") for log in logs] == [["wrong"], ["right"]]


@table
def test_a_log_of_a_stopped_evaluation_is_doubted(
    tmp_path: Path, status: str, epochs: int, told: str
) -> None:
    planned = {"dataset": {"samples": 62}, "config": {"epochs": epochs}}
    about = HEADER | {"status": status, "eval": HEADER["eval"] | planned}
    path = tmp_path / "a.json"
    for reader in (None, Robust()):
        write(path, about | {"samples": [inspect_sample(0, "C"), inspect_sample(1, "C")]})
        (log,) = read_logs(path, reader=reader)
        assert bool(log.doubt) == bool(told) and told in log.doubt


def test_a_log_without_its_last_header_is_doubted(tmp_path: Path) -> None:
    path = write_eval(tmp_path / "a.eval", [inspect_sample(0, "C")])
    assert not only(path).doubt
    with ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["_journal/start.json"] = members.pop("header.json").replace(b'"success"', b"null")
    with ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    assert "status: started" in only(path).doubt


def test_a_reader_reads_other_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """inspect_ai scored it as right, but the reply says (B) and the key is A. A link in the user's
    working folder is not a link in a run folder."""
    monkeypatch.chdir(tmp_path)
    Path("link").symlink_to("elsewhere")
    path = write_eval(tmp_path / "a.eval", [inspect_sample(0, "C")])
    (log,) = read_logs(path, reader=Robust())
    assert cells(log, "answer value verdict") == ["B", 0.0, "wrong"]


def test_tables_of_vlmevalkit(tmp_path: Path) -> None:
    header = "index\tquestion\tA\tB\tanswer\tcategory\tprediction"
    rows = [f"{n}\tWhich?\tnear\tfar\t{key}\tdepth\tIt is (A)." for n, key in ((1, "A"), (2, "B"))]
    rows.append("3\tW?\tn\tf\tB\tx\t")
    read = only(write(tmp_path / "m_BLINK.tsv", header, *rows))
    hits = [f"{row}\t{hit}" for row, hit in zip(rows, (0, 1, 0), strict=True)]
    scored = only(write(tmp_path / "m_BLINK_result.tsv", f"{header}\thit", *hits))
    assert read.name == "m_BLINK"
    assert cells(read, "verdict", None) == ["right", "wrong", "unreadable"]
    assert cells(read, "task key answer", 1) == ["depth", "B", "A"]
    assert cells(scored, "value", None) == [0, 1, 0]
    assert cells(scored, "choices", 2) == [("n", "f")]


def test_an_excel_table_of_vlmevalkit(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    header = ["index", "answer", "A", "B", "prediction"]
    for row in (header, [7, "A", "near", "far", "(A)"], [8, "B", "near", "far", "(A)"]):
        book.active.append(row)
    book.save(tmp_path / "model.xlsx")
    assert cells(only(tmp_path / "model.xlsx"), "sample value", None) == ["7", "8", 1.0, 0.0]


@table
def test_samples_of_lmms_eval(
    tmp_path: Path, metrics: dict[str, Any], sample: str, value: float
) -> None:
    line = {"doc_id": 4, "target": "A", "input": "Which?", "filtered_resps": ["A"], "doc_hash": "h"}
    folder = tmp_path / "some__model"
    write(folder / "20260806_120000_samples_blink_jigsaw.jsonl", line | metrics)
    log = only(folder)
    task = "Jigsaw" if "blink_acc" in metrics else "blink_jigsaw"
    assert log.name == "some__model"
    assert cells(log, "sample value reply task") == [sample, value, "A", task]


def write_unscored(folder: Path, name: str) -> Path:
    """Write a file with two rows: one is right by the log, one by its reply."""
    others = inspect_sample(0, "C"), inspect_sample(1, "", scores={}, target="B")
    lines = read_yaml(DATA)["unscored"].get(name) or [HEADER | {"samples": others}]
    return write(folder / name, *lines)


@pytest.mark.parametrize("name", UNSCORED)
def test_unscored_rows_are_read(tmp_path: Path, name: str) -> None:
    path = write_unscored(tmp_path, name)
    log = only(path)
    assert cells(log, "value verdict", None) == [1, 1, "right", "right"]
    assert log.reader_name == "the log, and 1 of 2 rows by Robust"
    (line, _) = report_replies([path])
    assert "n=2, accuracy=100.00%, coverage=100.00%, " in line and "as_recorded=1" in line


@table
def test_compare_and_score_read_the_same_files(
    tmp_path: Path, name: str, lines: list[Any], columns: dict[str, str]
) -> None:
    path = write(tmp_path / name, *lines)
    assert cells(only(path, **columns), "value", None) == [1, 0]
    (line, _) = report_replies([path], columns=columns)
    assert "n=2, accuracy=50.00%, coverage=100.00%, " in line


def test_every_contestant_of_a_table_is_scored(tmp_path: Path) -> None:
    path = write(tmp_path / "m.csv", "id,model,ok,correct", "q0,a,,1", "q0,b,,0")
    assert [line.partition(":")[0] for line in report_replies([path])] == ["a", "b", "total"]


def test_instances_of_every_eval_ever(tmp_path: Path) -> None:
    instance = read_yaml(DATA)["every eval ever"] | {"metadata": {"pictures_sha256": SHA}}
    wrong = {"score": 0.0, "is_correct": False}
    failed = instance | {"sample_id": "s2", "error": "timeout", "evaluation": wrong}
    write(tmp_path / "u_samples.jsonl", instance, failed)
    about = {"schema_version": "0.3.0", "evaluation_results": []}
    details = {"detailed_evaluation_results": {"file_path": "data/x/u_samples.jsonl"}}
    log = only(write(tmp_path / "u.json", about | details))
    assert (log.name, cells(log, "verdict", None)) == ("org/m", ["right", "failed"])
    assert cells(log, "pictures answer reply key") == [SHA, "A", "(A)", "A"]
    with pytest.raises(TaskError, match="only scores"):
        read_logs(write(tmp_path / "u.json", about))


def test_a_table_with_named_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "m.csv", "number,who,ok,tokens", "q1,a,yes,3", "q2,a,,4", "q1,b,.5,5")
    first, second = read_logs(path, {"sample": "number", "contestant": "who", "value": "ok"})
    assert (first.name, second.name) == ("a", "b")
    assert cells(first, "verdict", None) == ["right", "failed"]
    assert cells(second, "value tokens") == [0.5, 5]


def test_each_contestant_of_a_run_is_a_log(tmp_path: Path) -> None:
    made = MadeRun(tmp_path / "run")
    made.task("depth", ["A", "B", "A"])
    for name, answers in (("one", ["A", "B", None]), ("two", ["B", "B", "A"])):
        made.answers(made.point(name, "depth"), answers)
    made.write()
    first, second = read_logs(tmp_path / "run")
    assert cells(first, "sample value task", None) == ["s0", "s1", 1, 1, "depth", "depth"]
    assert cells(second, "value", None) == [0, 1, 1]


def test_draws_are_averaged_over_those_that_succeeded(tmp_path: Path) -> None:
    path = write(tmp_path / "m.csv", "id,draw,correct", "q1,0,1", "q1,1,0", "q1,2,", "q2,0,1")
    assert only(path).units[["sample", "value"]].to_numpy().tolist() == [["q1", 0.5], ["q2", 1.0]]


def test_logs_with_the_same_name_are_distinguished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = only(write(tmp_path / "a.csv", "id,correct", "q1,1")).rows
    logs = [Log("m", rows, "a.eval", "x"), Log("m", rows, "b.eval", "y"), *[Log("n", rows)] * 2]
    assert [log.name for log in make_names_unique(logs)] == ["m (x)", "m (y)", "n (3)", "n (4)"]
    monkeypatch.chdir(tmp_path)
    names = ("before/study.csv", "after/study.csv")
    logs = [only(write(Path(name), "id,correct", "q1,1")) for name in names]
    assert [log.name for log in make_names_unique(logs)] == [f"study ({name})" for name in names]


@table
def test_a_file_of_the_wrong_kind_is_refused(
    tmp_path: Path, name: str, content: str, said: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(TaskError, match=said):
        read_logs(tmp_path / name)


def test_a_damaged_log_is_refused(tmp_path: Path) -> None:
    path = write_eval(tmp_path / "a.eval", [inspect_sample(0, "C")], summaries=False)
    whole = path.read_bytes()
    for damaged in (whole[:-30], whole.replace(b"PK\3\4", b"PK\3\5", 1)):
        path.write_bytes(damaged)
        with pytest.raises(TaskError, match=r"a\.eval"):
            read_logs(path)


def test_an_unknown_column_error_lists_the_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "id,corect", "q1,1")
    for named, said in ({"value": "correct"}, "corect"), ({"worth": "corect"}, "not one of sample"):
        with pytest.raises(TaskError, match=said):
            read_logs(path, named)


@table
def test_a_column_may_be_named_in_every_format(
    tmp_path: Path, line: dict[str, Any], field: str, name: str
) -> None:
    path = write(tmp_path / "log.jsonl", line)
    assert only(path, sample=field).units["sample"].tolist() == [name]
    with pytest.raises(TaskError, match=r"sample=nothing|no column"):
        read_logs(path, {"sample": "nothing"})


def test_a_column_of_a_run_may_be_named(tmp_path: Path) -> None:
    made = MadeRun(tmp_path / "run")
    made.task("t", ["A"], meta=[{"number": "x7"}])
    made.answers(made.point("plain", "t"), ["A"])
    assert only(made.write().path, sample="number").units["sample"].tolist() == ["x7"]


def test_columns_named_for_another_log_do_not_concern_a_run_without_them(tmp_path: Path) -> None:
    made = MadeRun(tmp_path / "run")
    made.task("t", ["A", "B"], meta=[{"number": "x7"}, {"number": "x8"}])
    made.answers(made.point("plain", "t"), ["A", "A"])
    run = made.write().path
    table = write(tmp_path / "m.csv", "id,number,ok", "s0,x7,1", "s1,x8,0")
    for field, names in ("id", ["s0", "s1"]), ("number", ["x7", "x8"]):
        logs = read_all_logs([run, table], {"sample": field, "value": "ok"})
        assert [log.units["sample"].tolist() for log in logs] == [names, names]
    with pytest.raises(TaskError, match="sample=id: there is no such field; the fields are number"):
        read_all_logs([run], {"sample": "id"})
