"""The commands, as a user types them."""

import csv
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from PIL import Image
from typer.testing import CliRunner

from looktwice.eval.cli import FIRST_COMMANDS, app, get_commands
from looktwice.eval.commands.options import (
    complete_config,
    complete_name,
    complete_run,
    complete_setting,
)
from looktwice.eval.records import RunFolder
from looktwice.eval.scoring.row import COLUMNS
from looktwice.pipelines.config import ConfigError, load_plan
from tests.official_layouts import joint
from tests.optional import needs_extras
from tests.paths import CONFIGS, ROOT
from tests.tables import check_all, table

STUDY = """
task: {use: eval.tasks.Photos, kind: jigsaw, n: 6}
model: {use: pipelines.models.Scripted, answer: "I would say (A), or was it (B)? The answer is \
(A)."}
stages:
  choose: {use: prompting.wording.MultipleChoice}
  ask: {use: prompting.turns.Ask}
contestants:
  plain: {}
  thinking: {stages: {think: {use: prompting.wording.ChainOfThought, before: ask}}}
  seams: {replace: true, stages: {answer: {use: specialists.answers.SeamMatcher}}}
"""


AGENT = """
task: {use: eval.tasks.MarkedScenes, kind: shape, n: 2}
model: {use: pipelines.models.Pocket}
stages:
  choose: {use: prompting.wording.MultipleChoice}
  look:
    {use: prompting.agent.Agent, system: Be brief, tools: {zoom: {use: prompting.agent.Zoom}}}
"""


@pytest.fixture
def study(cwd: Path) -> Path:
    (cwd / "study.yaml").write_text(STUDY)
    return cwd / "study.yaml"


def looktwice(*words: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result.output


@needs_extras
def test_run_then_score_report_show_and_analyse(study: Path) -> None:
    output = looktwice("run", study)
    assert "18 new, 0 existing, 0 failed" in output
    assert "report: runs/study/report.html" in output
    folder = study.parent / "runs" / "study"
    before, page = (folder / "records.jsonl").read_bytes(), (folder / "report.html").read_text()
    assert "seams" in page and "data:image/jpeg" in page
    with (folder / "report.csv").open() as file:
        rows = {(r["contestant"], r["task"], r["metric"]): r for r in csv.DictReader(file)}
    seams = rows["seams", "jigsaw", "accuracy"]
    assert tuple(seams) == COLUMNS
    assert (seams["value"], seams["n"], seams["right"]) == ("1", "6", "6")
    assert "0 new, 18 existing" in looktwice("run", study)
    assert "thinking" in (scored := looktwice("score", folder))
    official = looktwice("score", folder, "--reader", "blink_official", "--table", "full")
    assert official != scored and "0/0/6/0" in official
    assert "split: " in looktwice("score", folder, "--all"), "the short table has no older arms"
    assert "--column" in looktwice("score", folder, "--column", "value=ok", code=2)
    elsewhere = study.parent / "elsewhere"
    assert looktwice("score", folder, "--out", elsewhere).splitlines()[-1].startswith("report: ")
    assert (elsewhere / "report.md").exists()
    shown = looktwice("view", folder, "--sample", "jigsaw_0003")
    assert "choose" in shown and "reply: 'I would say" in shown
    assert "made or changed by a stage" in (folder / "show" / "jigsaw_0003.html").read_text()
    assert "jigsaw_0000" in looktwice("view", folder, "--sample", "jigsaw_9999", code=2)
    assert "certify" in looktwice("analyse", "--list") and "pairs" in looktwice("analyse")
    assert "Pairs of contestants" in looktwice("analyse", folder, "pairs")
    assert "fragility" in looktwice("analyse", folder, "ranks")
    for words, says in (
        ("pears", "'pairs'"),
        ("pairs along=size", "along"),
        ("audit role=x", "rule"),
        ("", "name of one"),
        ("runs/nosuch pairs", "runs/nosuch"),
        ("certify role.x=plain", "roles are"),
        ("audit", "no-image"),
        ("probe held_out=2", "from 0.1 to 0.9"),
    ):
        assert says in looktwice("analyse", folder, *words.split(), code=2)
    assert (folder / "records.jsonl").read_bytes() == before


@needs_extras
def test_shards_are_merged_and_a_missing_one_is_named(study: Path) -> None:
    whole = "--out", "whole"
    looktwice("run", study, "--shard", "1/2", "--out", "one")
    assert "missing: 2/2" in looktwice("merge", "one/study", *whole, code=1)
    looktwice("run", study, "--shard", "2/2", "--out", "two")
    merged = looktwice("merge", "one/study", "two/study", *whole)
    assert "18 records of 2 shards" in merged and "missing" not in merged
    assert len(RunFolder(Path("whole")).records()) == 18
    assert "6" in looktwice("score", "whole")


def test_check_walks_through_the_stages_and_warns(study: Path) -> None:
    place = "contestants.thinking.stages.think"
    words = (f"{place}.before=null", f"{place}.after=ask", "--out", "views")
    output = looktwice("check", study, *words)
    assert "3 arms (contestant x task x setting), no faults" in output
    assert "after the last call" in output
    assert (study.parent / "views" / "jigsaw_0000.html").exists()
    empty = looktwice("check", study, "task.subset.n=0", code=2)
    assert "keeps none of" in empty and "no faults" not in empty


def test_all_faults_are_printed_at_once_and_the_exit_code_is_2(study: Path) -> None:
    wrong = ("stages.choose.label_stile=x", "stages.ask.use=os.system", "task.n=many", "sed=3")
    output = looktwice("run", study, *wrong, code=2)
    for place in ("stages.choose.label_stile", "stages.ask.use", "task.n", "sed: no such entry"):
        assert place in output
    assert not (study.parent / "runs").exists()


@needs_extras
@table
def test_bad_input_gives_one_sentence_and_exit_code_2(study: Path, words: str, says: str) -> None:
    assert says in looktwice(*words.split(), code=2)


def test_failed_samples_make_the_exit_code_1(study: Path) -> None:
    Path("set").mkdir()
    row = {"id": "s", "question": "?", "images": ["gone.png"], "choices": ["a", "b"], "answer": "A"}
    Image.new("RGB", (30, 20)).save("set/here.png")
    rows = [row, row | {"id": "t", "images": ["here.png"]}]
    Path("set/samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    output = looktwice("run", study, "task={use: eval.tasks.Folder, path: set}", code=1)
    assert "3 samples FAILED; the report says why" in output
    assert "gone.png" in Path("runs/study/report.md").read_text()
    shown = " ".join(looktwice("view", "runs/study", "--sample", "s").split())
    for words in ("FAILED: PictureError", "gone.png", "page: runs/study/show/s.html"):
        assert words in shown


STUDIES = [
    path for path in sorted(CONFIGS.glob("*.yaml")) if not path.stem.startswith(("as_", "make_"))
]
"""Without presets and recipes, which ask nothing by themselves: test_presets_toolkits and test_make
hold those."""


@needs_extras
@pytest.mark.slow
def test_shipped_configurations_have_no_faults_of_their_own(
    shared_data: Path, tmp_path: Path
) -> None:
    check_all(
        (config.stem, partial(check_config, config, shared_data, tmp_path / config.stem))
        for config in STUDIES
    )


def check_config(config: Path, shared_data: Path, tmp_path: Path) -> None:
    given = []
    for place, name in find_data_paths(yaml.safe_load(config.read_text(encoding="utf-8"))):
        folder = shared_data / name if (shared_data / name).exists() else tmp_path / name
        folder.mkdir(parents=True, exist_ok=True)
        given.append(f"{place}={folder}")
    if config.stem == "dysm_joint":  # the questions are the user's
        given.append(f"task.path={joint(tmp_path)}")
    if config.stem == "vlm2_curation":  # the pictures are below the data
        given.append(f"tasks.edits.images={tmp_path}")
    try:
        plan = load_plan(config, given, allow=("python-code",))
    except ConfigError as exc:
        words = ("is missing. It has", "; `path` must be the", "; set `path` to the folder")
        assert all(any(word in fault for word in words) for fault in exc.faults), exc.faults
        absent = [f"{fault.partition(':')[0]}=null" for fault in exc.faults]
        with suppress(ConfigError):  # nothing remains of a study of one benchmark
            load_plan(config, [*given, *absent])
    else:
        assert plan.points or plan.left_out


def find_data_paths(node: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Return the settings of a configuration with a value `data` or `data/NAME`, and the names."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield from find_data_paths(value, f"{place}.{key}" if place else str(key))
    elif isinstance(node, str) and node.partition("/")[0] == "data":
        yield place, node.partition("/")[2]


def test_check_finds_what_can_be_known_without_a_server(tmp_path: Path) -> None:
    (path := tmp_path / "agent.yaml").write_text(AGENT)
    checked = looktwice("check", path, "--all", code=2)
    for words in ("stages.look", "Pocket does not support tools", "system: 'Be brief'"):
        assert words in checked


@needs_extras
def test_help_lists_every_command_with_the_first_sentence_of_its_docstring() -> None:
    listed = looktwice("--help")
    assert (*get_commands()["Commands"],) == FIRST_COMMANDS
    for group, entries in get_commands().items():
        assert f"\n{group}:" in listed
        for name, entry in entries.items():
            function = entry.open()
            assert entry.help == function.__doc__.partition("\n")[0], name
            assert re.search(rf"\n  {name} +{re.escape(entry.help)}\n", listed), name
    assert "there is no command 'exprot'; did you mean 'export'?" in looktwice("exprot", code=2)


def test_help_imports_no_command_module() -> None:
    program = (
        "import sys; from looktwice.eval.cli import app; app(WORDS, standalone_mode=False);"
        "print(*(m for m in sys.modules if m.startswith('looktwice.eval.commands.')))"
    )
    given: Any = {"env": {**os.environ, "PYTHONPATH": str(ROOT / "typings")}, "check": True}
    for words, opened in ((["--help"], {"options"}), (["score", "--help"], {"options", "runs"})):
        command = [sys.executable, "-c", program.replace("WORDS", repr(words))]
        output = subprocess.run(command, capture_output=True, text=True, **given).stdout
        modules = output.splitlines()[-1].split()
        assert {module.rpartition(".")[2] for module in modules} == opened


def test_view_opens_the_newest_run(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "the folder `runs` holds no run" in looktwice("view", code=2)
    opened = list[str]()
    monkeypatch.setattr("webbrowser.open", opened.append)

    def serve(server: Any, port: int, announce: Any, command: str, guest: Any) -> None:
        announce(f"http://{server.page.runs[0].name}/")
        raise KeyboardInterrupt

    monkeypatch.setattr("looktwice.eval.page.serving.serve_page", serve)
    for name in ("older", "newer"):
        looktwice("run", study, f"name={name}", "task.n=1")
    assert "open http://newer/ in a browser" in looktwice("view", "--open")
    assert "stopped" not in looktwice("view", "runs/older"), "Ctrl-C is how it ends"
    assert opened == ["http://newer/"]


def test_shell_completion(study: Path) -> None:
    looktwice("run", study, "task.n=1")
    assert complete_config("stu") == ["study.yaml"]
    assert "blink_markers" in complete_config("blink_m")
    assert complete_run("runs/st") == ["runs/study", "runs/study/"]
    assert "Circles" in complete_name("Circ") and "stages" in complete_name("sta")
    context = typer.Context(typer.main.get_command(app))
    context.params = {"config": str(study)}
    assert complete_setting(context, "task.") == ["task.kind=", "task.n="]
    context.params = {"config": "no such file"}
    assert complete_setting(context, "task.") == []


def test_a_model_that_nothing_asks_is_reported(study: Path) -> None:
    place, words = "models.chat.model", "calls a model, so this setting has no effect"
    assert words not in looktwice("check", study, "model={use: pipelines.models.Pocket}")
    study.write_text(
        "task: {use: eval.tasks.Photos, kind: jigsaw, n: 2}\n"
        "stages: {answer: {use: specialists.answers.Chance}}\n"
    )
    told = looktwice("check", study, f"{place}=any")
    assert f"{place}: " in told and words in told
    assert words not in looktwice("check", study, "task.n=1")
