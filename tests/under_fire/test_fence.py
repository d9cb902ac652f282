"""Records of an untrusted run folder name files of this machine, and no command reads them."""

import json
import os
import shutil
import threading
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import yaml

from looktwice.pipelines.config import ConfigError, load_plan
from looktwice.pipelines.config.paths import allow_access
from looktwice.pipelines.runtime.stores import Blobs
from tests.first_day.studies import looktwice
from tests.optional import HAS_EXTRAS
from tests.under_fire.scenes import RUN, run_command, write_questions

SECRET = "root:x:0:0 of this machine"
STUDY = """
task: {use: eval.tasks.Folder, path: PATH}
models: {m: {use: pipelines.models.Scripted, answer: "(A)"}}
stages: {system: {use: prompting.wording.System, text: Look.}, mark: {use: \
prompting.markers.Circles},
         ask: {use: prompting.turns.Ask}}
"""
OWN = ("--allow", "../own")


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder, a private folder with a file of each kind, and one with questions."""
    monkeypatch.delenv("LOOKTWICE_ALLOW", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    (tmp_path / "study").mkdir()
    monkeypatch.chdir(tmp_path / "study")
    for folder, question in (("../private", SECRET), ("../own", "Which?")):
        marks = [{"label": "A", "x": 5, "y": 5}]
        row = {"question": question, "images": ["x.png"], "marks": marks}
        write_questions(row, folder=folder, side=40)
    Path("../private/passwd").write_text(SECRET)
    Path("../private/replies.jsonl").write_text(json.dumps({"idx": "q0", "reply": SECRET}) + "\n")
    return tmp_path


def run_study(path: str, *words: str) -> Path:
    Path("study.yaml").write_text(STUDY.replace("PATH", path))
    run_command(0, "run", "study.yaml", *words)
    return RUN


def change(run: Path, **parts: Any) -> None:
    """Write into points.yaml what an attacker could write there."""
    (row,) = yaml.safe_load((run / "points.yaml").read_text())
    for part, node in parts.items():
        places = {"scorer": row["facts"], "read": row, "task": row["spec"]}
        places.get(part, row["spec"]["stages"])[part] = node
    (run / "points.yaml").write_text(yaml.safe_dump([row], sort_keys=False))


TEXT = {"use": "prompting.wording.System", "text": {"file": "PRIVATE/passwd"}}
REPLAY = {"use": "pipelines.models.Replay", "path": "PRIVATE/replies.jsonl"}
CIRCLES = {"use": "prompting.markers.Circles", "label": {"font_file": "PRIVATE/passwd"}}
EXAMPLES = {"use": "prompting.turns.FewShot", "path": "PRIVATE/samples.jsonl"}
YUNET = {"use": "specialists.detection.YuNet", "model": "PRIVATE/passwd"}
PRICED = {"use": "prompting.turns.Ask", "captioner": REPLAY | {"prices": {"in": 1, "out": 1}}}
FILES: dict[str, dict[str, Any]] = {
    "questions": {"task": {"use": "eval.tasks.Folder", "path": "PRIVATE"}},
    "a text": {"system": TEXT},
    "a template": {"words": TEXT | {"use": "prompting.wording.Template"}},
    "a font": {"more": CIRCLES},
    "examples": {"more": EXAMPLES},
    "a reader's file": {"read": TEXT},
    "a scorer's file": {"scorer": TEXT},
    "replies of a priced model": {"more": PRICED},
}
if HAS_EXTRAS:
    FILES["a folder of models"] = {"more": YUNET}
COMMANDS = """
view RUN --sample q0
replay RUN
score RUN
score RUN --report
export RUN --to trajectories --out out.jsonl
judge RUN --model m
"""


def test_an_untrusted_run_reads_no_file_of_this_machine(lab: Path) -> None:
    os.rename(lab / "own", "own")
    run, private = run_study("own"), str(lab / "private")
    points = (run / "points.yaml").read_text()
    for what, parts in FILES.items():
        (run / "points.yaml").write_text(points)
        change(run, **json.loads(json.dumps(parts).replace("PRIVATE", private)))
        texts = []
        for command in COMMANDS.strip().replace("RUN", str(run)).splitlines():
            result = looktwice(*command.split())
            assert isinstance(result.exception, SystemExit | None), result.output
            texts.append(result.output)
        output = "\n".join(texts)
        assert "outside the run's folder" in output and "--allow ../private" in output, what
        files = [path for path in run.rglob("*") if path.is_file() and "blobs" not in path.parts]
        texts += [path.read_text(errors="replace") for path in files]
        assert SECRET not in "\n".join(texts), what


def test_a_link_in_the_folder_gives_no_access(lab: Path) -> None:
    run = run_study("../own", *OWN)
    os.symlink(lab / "private", run / "data")
    change(run, task={"use": "eval.tasks.Folder", "path": str(run.resolve() / "data")})
    output = looktwice("view", run, "--sample", "q0").output
    assert "data is a link" in output and SECRET not in output


def test_outside_data_is_read_once_allowed(lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    show = ("view", "foreign", "--sample", "q0")
    shutil.copytree(run_study("../own", *OWN), "foreign")
    (line,) = (line for line in run_command(0, *show).splitlines() if "outside" in line)
    assert line.startswith("showing stored pictures, because task.path: ")
    assert "--allow ../own" in line
    assert "--allow ../own" in run_command(1, "replay", "foreign")
    for command in (show, ("replay", "foreign")):
        assert "outside" not in run_command(0, *command, *OWN)
    monkeypatch.setenv("LOOKTWICE_ALLOW", str(lab / "own"))
    assert run_command(0, "replay", "foreign").endswith(
        "without a model: 1 record identical bit for bit\n"
    )


def test_an_untrusted_run_stays_fenced_next_to_allowed_runs(lab: Path) -> None:
    run = run_study("../own", *OWN)
    assert "outside" not in looktwice("view", run, "--sample", "q0").output
    shutil.copytree(run, "foreign")
    assert "--allow ../own" in looktwice("score", "foreign", "--report").output
    text = {"file": str(lab / "private" / "passwd")}
    change(run, system={"use": "prompting.wording.System", "text": text})
    for command in (("view", run, "--sample", "q0"), ("replay", run)):
        output = looktwice(*command).output
        assert "lies outside the run's folder" in output and SECRET not in output


def test_only_commands_in_the_main_thread_ask_for_confirmation(lab: Path) -> None:
    Path("study.yaml").write_text(STUDY.replace("PATH", "../own"))
    asked = list[str]()

    def agree(question: str) -> bool:
        asked.append(question)
        return True

    def load() -> None:
        with pytest.raises(ConfigError, match="lies outside"):
            load_plan(Path("study.yaml"))

    load()
    with allow_access((), agree):
        thread = threading.Thread(target=load)
        thread.start()
        thread.join()
        assert asked == []
        load_plan(Path("study.yaml"))
    assert len(asked) == 1
    load_plan(Path("study.yaml"))


FILES_OF_A_RUN = "records.jsonl samples.jsonl points.yaml run.yaml judged.jsonl .lock show blobs"


@pytest.mark.parametrize("name", [*FILES_OF_A_RUN.split(), "report.html"])
def test_no_link_in_a_run_folder_is_followed(lab: Path, name: str) -> None:
    run, bait = run_study("../own", *OWN), lab / "bait"
    whole = (run / "records.jsonl").read_bytes()
    if (run / name).is_dir():
        (run / name).rename(bait)
    elif name == "show":
        bait.mkdir()
    else:
        bait.write_text("one line\nand half a line")
        (run / name).unlink(missing_ok=True)

    def baited() -> list[tuple[Path, bool | bytes]]:
        paths = sorted((bait, *bait.rglob("*")))
        return [(path, path.is_file() and path.read_bytes()) for path in paths]

    before = baited()
    (run / name).symlink_to(bait)
    for words in (("view", run, "--sample", "q0"), ("run", "study.yaml", *OWN)):
        assert f"{name} is a link" in run_command(2, *words)
    assert baited() == before
    assert name == "records.jsonl" or (run / "records.jsonl").read_bytes() == whole


@pytest.mark.parametrize("inner", [False, True])
def test_a_link_among_the_pictures_of_a_run_is_not_followed(tmp_path: Path, inner: bool) -> None:
    bait, blobs = tmp_path / "bait", Blobs(tmp_path / "run" / "blobs")
    sha = sha256(b"private").hexdigest()
    link = blobs.get_path(sha) if inner else blobs.get_path(sha).parent
    bait.mkdir()
    (bait / sha).write_bytes(b"private")
    link.parent.mkdir(parents=True)
    link.symlink_to(bait / sha if inner else bait)
    with pytest.raises(FileNotFoundError):
        blobs.get(sha)
    (bait / sha).write_bytes(b"other")
    if inner:
        blobs.put(b"private")
        assert blobs.get(sha) == b"private"
    else:
        with pytest.raises(OSError, match="is a link"):
            blobs.put(b"private")
    assert (bait / sha).read_bytes() == b"other"
