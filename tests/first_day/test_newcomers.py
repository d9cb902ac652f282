"""Commands and names of other programs, typed by new users, are answered with what to type."""

import json
import shlex
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.first_day.studies import get_output, looktwice
from tests.optional import needs_extras
from tests.tables import check_all

TYPED = [
    line.split("\t")
    for line in Path(__file__).with_name("newcomers.tsv").read_text("utf-8").splitlines()
    if not line.startswith("#")
]
TASKS = "tasks: {mine: {use: eval.tasks.Folder, path: q}}"
MODELS = "models: {pocket: {use: pipelines.models.Pocket}}"
STAGES = """stages:
  mark: {use: prompting.markers.Circles, radius: 28, color: red}
  choose: {use: prompting.wording.MultipleChoice}
  ask: {use: prompting.turns.Ask}"""
CONTESTANTS = """contestants:
  red: {}
  magenta: {stages: {mark: {color: magenta}}}
  chance: {replace: true, stages: {answer: {use: specialists.answers.Chance}}}"""
PLUGIN = "from dataclasses import dataclass\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four questions as a folder and as tables, a study of them with its run, and two logs."""
    folder = tmp_path_factory.mktemp("work")
    for name in ("q", "j"):
        (folder / name).mkdir()
    lines, rows, choices = [], [], ["red", "green", "blue", "white"]
    for number in range(4):
        grey = np.full((60, 80, 3), 40 * number, np.uint8)
        for name in ("q", "j"):
            Image.fromarray(grey).save(folder / f"{name}/{number}.png")
        line = {"id": f"k{number}", "question": "Which color?", "image": f"{number}.png"}
        mark = {"label": "A", "x": 30, "y": 20}
        lines.append({**line, "choices": choices, "answer": "ABCD"[number], "marks": [mark]})
        rows.append(f"k{number},Which color?,q/{number}.png,{','.join(choices)},")
    (folder / "q/samples.jsonl").write_text("\n".join(map(json.dumps, lines)))
    for name, keys in (("own", "ABCD"), ("num", "0123")):
        table = ["id,question,image,A,B,C,D,answer", *map(str.__add__, rows, keys)]
        (folder / f"{name}.csv").write_text("\n".join(table))
    (folder / "s.yaml").write_text("\n".join((TASKS, MODELS, STAGES, CONTESTANTS)))
    log = [f"{n}\tq {n}?\tred\tblue\t{key}\tA" for n, key in enumerate("ABABABAB0101")]
    head = "index\tquestion\tA\tB\tanswer\tprediction"
    (folder / "part.tsv").write_text("\n".join([head, *log]))
    answers = ("Yes, there is.", "No.")
    pope = [
        {"question_id": n, "label": ("yes", "no")[n % 2], "answer": answers[n // 3 % 2]}
        for n in range(12)
    ]
    (folder / "pope.jsonl").write_text("\n".join(map(json.dumps, pope)))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        get_output("run", "s.yaml")
    return folder


@pytest.mark.slow
@needs_extras
def test_the_message_says_what_to_type(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    check_all((row, partial(check_answer, folder, *row)) for row in TYPED)


def check_answer(folder: Path, kind: str, typed: str, written: str, answer: str) -> None:
    text = written.replace(" | ", "\n").replace("~", "    ")
    if typed.startswith("{"):
        (folder / "j/samples.jsonl").write_text(typed)
        text, typed = "tasks: {mine: {use: eval.tasks.Folder, path: j}}", "check t.yaml"
    entry = text.partition(":")[0]
    parts = [part for part in (TASKS, MODELS, STAGES) if not part.startswith(f"{entry}:")]
    (folder / "t.yaml").write_text("\n".join([*parts[entry == "dataset" :], text]))
    (folder / "mine.py").write_text(f"{PLUGIN}{text}\n")
    result = looktwice(*shlex.split(typed))
    assert result.exception is None or isinstance(result.exception, SystemExit), kind
    assert answer.replace("FOLDER", str(folder)) in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("name", "room"), {"evaluate": "eval", "ChatAPI": "pipelines", "Circles": "prompting"}.items()
)
def test_a_top_level_name_suggests_its_module(name: str, room: str) -> None:
    with pytest.raises(ImportError, match=f"type: from looktwice.{room} import {name}"):
        exec(f"from looktwice import {name}")
    with pytest.raises(ImportError, match="cannot import name 'evalute'"):
        exec("from looktwice import evalute")
    exec("from looktwice import eval, __version__")
