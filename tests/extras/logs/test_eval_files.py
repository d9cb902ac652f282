"""A run is exported as `.eval` files, which hold what the logs of the run hold."""

from __future__ import annotations

import json
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from looktwice.eval import MarkedScenes, TaskError, evaluate
from looktwice.eval.records import RunError
from looktwice.extras.logs import read_logs
from looktwice.extras.logs.eval_files import runs
from looktwice.extras.logs.eval_files.runs import export_runs
from looktwice.extras.logs.eval_files.zip_writer import ZipWriter, pack
from looktwice.extras.logs.format import export_logs
from looktwice.extras.scenes import LettersAndShapes
from looktwice.pipelines import Pipeline, Reply, Scripted
from looktwice.pipelines.model import Messages, ToolCall, Usage
from looktwice.pipelines.state import Stage
from looktwice.prompting import Ask, Circles, MultipleChoice
from looktwice.prompting.agent import Agent, Zoom
from tests.made_run import MadeRun
from tests.paths import ROOT

TIMES = ("created", "started_at", "completed_at")


def use_tools(messages: Messages) -> Reply:
    """Request a zoom, once with broken arguments, and answer."""
    turn = sum(message.role == "assistant" for message in messages)
    if messages[0].role != "system" or turn > 1:
        return Reply("3", usage=Usage(90, 2))
    broken = '{"image": 1, "box": [0, 0'
    call = ToolCall(f"c{turn}", "zoom", broken if turn else f"{broken}, 400, 300]}}")
    return Reply("", "tool", tool_calls=(call,))


def make_agents(path: Path) -> None:
    """Ask an agent, whose conversations have several turns and pictures, and a plain contestant."""
    agent = Agent({"zoom": Zoom()}, corrections=9)
    arms = {"plain": Pipeline({"ask": Ask()}), "agent": Pipeline({"agent": agent})}
    task = LettersAndShapes(n=2, width=480, height=360, largest=30)
    evaluate(task, arms, Scripted(use_tools), out=path)


def make_marks(path: Path) -> None:
    """Ask with marks, two draws of each sample, some of which fail or are unreadable."""
    numbers = iter(range(99))

    def answer(messages: Messages) -> Reply:
        number = next(numbers) % 4
        if number == 3:
            raise ValueError('broken "quoted"')
        return Reply(("(A)", "", "I cannot say \x1b <b>é</b>\u2028.")[number])

    asked: dict[str, Stage] = {"choose": MultipleChoice(), "ask": Ask()}
    arms = {"plain/x": Pipeline(asked), "marked": Pipeline({"mark": Circles(), **asked})}
    tasks = {"first": MarkedScenes("color", n=3), "of two": MarkedScenes("color", n=2, seed=3)}
    evaluate(tasks, arms, Scripted(answer), out=path, workers=1, draws=2)


def make_texts(path: Path) -> None:
    """Write records without calls, with an error, with a group, and a sample without a key."""
    made = MadeRun(path)
    made.task("depth", ["A", "B", None, "A"], meta=[{"group": "é"}, {}, {}, {}])
    for contestant in ("one", "org/two"):
        point = made.point(contestant, "depth", spec={"task": {"use": "x", "n": [1, None]}})
        made.reply(point, "s0", "(A)", usage={"tokens_in": 7, "tokens_out": 2})
        made.record(point, "s1", error="Traceback\nValueError: x")
        made.record(point, "s2", answer="A", timings={"total": 3})
        made.reply(point, "s0", "(B)", draw=1)
    made.write()
    lines = (path / "records.jsonl").read_text().splitlines()
    short = json.loads(lines[-2])
    del short["calls"], short["timings"]
    (path / "records.jsonl").write_text("\n".join([*lines, json.dumps(short)]) + "\n")


MAKERS = {"agents": make_agents, "marks": make_marks, "texts": make_texts}


@pytest.fixture(scope="module")
def every_run(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    for name, make in MAKERS.items():
        make(folder / name)
    return {name: folder / name for name in MAKERS}


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_times(own) for name, own in value.items() if name not in TIMES}
    return [*map(without_times, value)] if isinstance(value, list) else value


def read_members(folder: Path) -> dict[tuple[str, str], str]:
    """Return the JSON of every member of every file, whose fields keep their order."""
    members = dict[tuple[str, str], str]()
    for file in sorted(folder.glob("*.eval")):
        with ZipFile(file) as archive:
            assert archive.testzip() is None
            for name in archive.namelist():
                value = without_times(json.loads(archive.read(name)))
                members[file.name, name] = json.dumps(value)
    return members


@pytest.mark.parametrize("name", MAKERS)
def test_a_run_is_exported_as_its_logs(
    every_run: dict[str, Path], tmp_path: Path, name: str
) -> None:
    run = every_run[name]
    lines = list(export_runs([run], tmp_path / "run"))
    expected = list(export_logs(read_logs(run), "inspect", tmp_path / "logs"))
    assert [line.replace(str(tmp_path / "run"), str(tmp_path / "logs")) for line in lines] == (
        expected
    )
    members = read_members(tmp_path / "run")
    assert members == read_members(tmp_path / "logs")
    assert len(members) > 3 * len(lines)


def test_runs_of_one_name_are_told_apart(every_run: dict[str, Path], tmp_path: Path) -> None:
    make_texts(tmp_path / "texts")
    paths = [every_run["texts"], tmp_path / "texts"]
    list(export_runs(paths, tmp_path / "runs"))
    list(export_logs([log for path in paths for log in read_logs(path)], "inspect", tmp_path / "l"))
    members = read_members(tmp_path / "runs")
    assert members == read_members(tmp_path / "l") and len({file for file, _ in members}) == 4


def test_a_sample_has_the_fields_that_inspect_reads(
    every_run: dict[str, Path], tmp_path: Path
) -> None:
    list(export_runs([every_run["texts"]], tmp_path))
    with ZipFile(tmp_path / "one_depth.eval") as archive:
        first, failed = (
            json.loads(archive.read(f"samples/{name}_epoch_1.json")) for name in ("s0", "s1")
        )
        summaries = json.loads(archive.read("summaries.json"))
    asked = {"role": "user", "content": [{"type": "text", "text": "Which one?"}]}
    message = {"role": "assistant", "content": "(A)", "source": "generate"}
    plain = {
        "id": "s0",
        "epoch": 1,
        "input": [asked],
        "choices": ["choice 0", "choice 1"],
        "target": "A",
    }
    scores = {"looktwice": {"value": "C", "answer": "A", "explanation": "right"}}
    metadata = {"task": "depth", "group": "é", "pictures": "", "verdict": "right"}
    usage = {"one": {"total_tokens": 9}}
    assert first == {
        **plain,
        "messages": [asked, {"role": "assistant", "content": "(A)"}],
        "output": {
            "model": "one",
            "choices": [{"message": message, "stop_reason": "stop"}],
            "completion": "(A)",
        },
        "scores": scores,
        "metadata": metadata,
        "attachments": {},
        "model_usage": usage,
    }
    more = {"model_usage": usage, "completed": True, "message_count": 2}
    assert summaries[0] == {**plain, "metadata": metadata, "scores": scores, **more}
    assert failed["error"]["message"] == summaries[2]["error"] == "the sample failed"
    assert failed["scores"] == {} and len(failed["messages"]) == summaries[2]["message_count"] == 2


def test_pictures_beyond_the_limit_are_read_again(
    every_run: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    list(export_runs([every_run["marks"]], tmp_path / "kept"))
    monkeypatch.setattr(runs, "MAX_PICTURE_BYTES", 1)
    list(export_runs([every_run["marks"]], tmp_path / "again"))
    members = read_members(tmp_path / "again")
    assert members == read_members(tmp_path / "kept")
    assert any('"attachments": {"' in text for text in members.values())


def test_a_run_that_changes_or_has_no_records_is_reported(tmp_path: Path) -> None:
    make_texts(tmp_path / "run")
    lines = export_runs([tmp_path / "run"], tmp_path / "out")
    next(lines)
    (tmp_path / "run" / "records.jsonl").write_text("")
    with pytest.raises(RunError, match="changed after it was scored"):
        next(lines)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["one_depth.eval"]
    with pytest.raises(TaskError, match="holds no records yet"):
        next(export_runs([tmp_path / "run"], tmp_path / "out"))


def test_the_export_of_a_run_imports_no_pandas(every_run: dict[str, Path], tmp_path: Path) -> None:
    command = ["export", str(every_run["texts"]), "--to", "inspect", "--out", str(tmp_path)]
    code = (
        "import sys; from looktwice.eval.cli import main\n"
        "try: main()\nexcept SystemExit as end: assert not end.code\n"
        "assert 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, *command], check=True, cwd=ROOT)
    assert len(list(tmp_path.glob("*.eval"))) == 2


def test_an_archive_of_many_members_beyond_4_gb_is_read_by_zipfile(tmp_path: Path) -> None:
    """More than 65,535 members, and places beyond 32 bits, need the fields of zip64."""
    path, shared = tmp_path / "a.zip", pack(b"picture" * 1000)
    with path.open("wb") as file:
        file.seek(1 << 32)  # the file is sparse
        archive = ZipWriter(file, 1 << 32)
        archive.add_pieces("pieces", "é head".encode(), [shared, pack(b","), shared], b"tail")
        for number in range(1 << 16):
            archive.add(f"é{number}", b"%d" % number)
        archive.close()
    with ZipFile(path) as read:
        assert len(read.namelist()) == 65_537
        assert read.getinfo("pieces").header_offset == 1 << 32
        whole = read.read("pieces")
        assert whole == "é head".encode() + b",".join([b"picture" * 1000] * 2) + b"tail"
        assert zlib.crc32(whole) == read.getinfo("pieces").CRC
        assert read.getinfo("pieces").compress_size < 300
        assert read.read("é65535") == b"65535"


def test_a_row_without_a_score_has_none_in_the_file(tmp_path: Path) -> None:
    """inspect_ai refuses a file in which a score is null."""
    (table := tmp_path / "table.csv").write_text("id,score,reply\ns0,0.5,x\ns1,,y\n")
    list(export_logs(read_logs(table), "inspect", tmp_path))
    (file,) = tmp_path.glob("*.eval")
    with ZipFile(file) as archive:
        samples = [
            json.loads(archive.read(f"samples/{name}_epoch_1.json")) for name in ("s0", "s1")
        ]
    assert [list(sample["scores"]) for sample in samples] == [["looktwice"], []]
    assert samples[0]["scores"]["looktwice"]["value"] == 0.5
